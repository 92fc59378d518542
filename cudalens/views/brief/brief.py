"""`brief`: what a language model or a CI job needs to know of a Trace, within a number of tokens.

A brief is made of pieces in order of importance. Each is added if the whole still fits; what does not is counted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

from cudalens.analysis.failures import attempt
from cudalens.errors import TraceError
from cudalens.frames import Trace
from cudalens.views.brief import contents
from cudalens.views.brief.tokens import estimate_tokens
from cudalens.views.brief.words import to_text

#: The fewest tokens of a brief: the verdict, the first finding and the trust need as many.
MIN_TOKENS: Final = 300
DEFAULT_TOKENS: Final = 1_500

_FORMAT: Final = 1
_LISTS: Final = ("findings", "costs", "numbers", "memory", "doubts", "not_recorded")
#: Widths of the verdict, the widest that fits.
_VERDICTS: Final = (100, 160, 300, 600)
#: Findings and costs that come before what supports them.
_FIRST: Final = 3

#: The section of a piece, its place there, and its contents.
Piece = tuple[str, int, Any]


class Brief(dict[str, Any]):
    """A brief: a dictionary that JSON can hold; `text` is the same for reading.

    Keys: ``brief`` (version of the format), ``run``, ``verdict``, ``findings``, ``costs``, ``numbers``, ``memory``,
    ``trust``, ``not_recorded``, and ``left_out``, the number of facts that did not fit. ``expr`` of a fact is the
    Python expression of its number, with the names of `cudalens.analysis` and ``trace``; ``rows`` are rows of
    ``trace.events``.

    Attributes:
        text: The brief as text.
        tokens: The number of tokens for which it was made; neither the text nor the JSON text has more, by the
            estimate of `cudalens.views.brief.tokens`.
    """

    def __init__(self, data: dict[str, Any], text: str, tokens: int) -> None:
        super().__init__(data)
        self.text, self.tokens = text, tokens

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def to_json(self) -> str:
        """Return the dictionary as JSON on one line."""
        return json.dumps(self)


def brief(trace: Trace, tokens: int = DEFAULT_TOKENS) -> Brief:
    """Return what matters in `trace`, within `tokens` tokens: a dictionary, and the same as text.

    It has the verdict, the findings with upper bounds of their gains, the ten largest costs, memory, trust, and what
    was not recorded. The same Trace always gives the same brief.

    Args:
        trace: Any Trace.
        tokens: The most tokens of the text, and of the dictionary as JSON, each by a careful estimate.

    Raises:
        TraceError: `tokens` is less than `MIN_TOKENS`.
    """
    if tokens < MIN_TOKENS:
        raise TraceError(f"a brief of {tokens} tokens: expected at least {MIN_TOKENS}.")
    pieces = list(_pieces(trace))
    data = _fitted(pieces, json.dumps, tokens)
    return Brief(data, to_text(_fitted(pieces, to_text, tokens)), tokens)


def _pieces(trace: Trace) -> Iterator[Piece]:
    """Yield what can be in a brief, most important first; a later piece of the same place replaces the earlier one."""
    findings = contents.all_findings(trace)
    costs, memory, numbers = (_known(trace, facts) for facts in (contents.costs, contents.memory, contents.numbers))
    short = [("findings", k, contents.short_finding(one, k)) for k, one in enumerate(findings)]
    yield ("run", 0, contents.name(trace))
    yield ("verdict", 0, contents.answer(trace, _VERDICTS[0]))
    yield ("trust", 0, contents.trusted(trace))
    yield from short[:1]
    yield ("run", 0, contents.run(trace))
    yield from (("verdict", 0, contents.answer(trace, width)) for width in _VERDICTS[1:])
    yield from _whole(findings, slice(0, 1))
    yield from short[1:]
    yield from _listed("costs", costs, slice(0, _FIRST))
    yield from _listed("memory", memory, slice(0, 1))
    yield from _listed("numbers", numbers, slice(0, 2))
    yield from _whole(findings, slice(1, None))
    yield from _listed("not_recorded", contents.not_recorded(trace))
    yield from _listed("costs", costs, slice(_FIRST, None))
    yield from _listed("memory", memory, slice(1, None))
    yield from _listed("doubts", _known(trace, contents.doubts))
    yield from _listed("numbers", numbers, slice(2, None))


def _known(trace: Trace, facts: Callable[[Trace], Iterator[Any]]) -> list[Any]:
    """Return the facts; none if computing them fails, which is then a problem of the Trace."""
    none: list[Any] = []
    return attempt(trace, f"the brief's {facts.__name__}", none, lambda: list(facts(trace)))


def _whole(findings: tuple[Any, ...], part: slice) -> Iterator[Piece]:
    for k in range(len(findings))[part]:
        yield ("findings", k, contents.whole_finding(findings[k], k))


def _listed(section: str, facts: list[Any], part: slice = slice(None)) -> Iterator[Piece]:
    for k in range(len(facts))[part]:
        yield (section, k, facts[k])


def _fitted(pieces: list[Piece], write: Callable[[dict[str, Any]], str], tokens: int) -> dict[str, Any]:
    """Return the pieces with which what `write` makes has at most `tokens` tokens."""
    every = {(section, place) for section, place, _ in pieces}
    chosen: dict[tuple[str, int], Any] = {}
    for section, place, content in pieces:
        tried = chosen | {(section, place): content}
        is_needed = section in ("run", "verdict", "trust") and (section, place) not in chosen
        if is_needed or estimate_tokens(write(_assembled(tried, every))) <= tokens:
            chosen = tried
    return _assembled(chosen, every)


def _assembled(chosen: dict[tuple[str, int], Any], every: set[tuple[str, int]]) -> dict[str, Any]:
    lists: dict[str, list[Any]] = {name: [] for name in _LISTS}
    left = dict.fromkeys(_LISTS, 0)
    for section, place in sorted(every):
        if (section, place) in chosen and section in lists:
            lists[section].append(chosen[section, place])
        elif section in lists:
            left[section] += 1
    doubts = lists.pop("doubts")
    trust = {**chosen.get(("trust", 0), {"verdict": ""}), "findings": doubts}
    names = {"doubts": "facts on trust", "not_recorded": "missing recordings"}
    return {
        "brief": _FORMAT,
        "run": chosen.get(("run", 0), {}),
        "verdict": chosen.get(("verdict", 0), ""),
        **lists,
        "trust": trust,
        "left_out": {names.get(name, name): number for name, number in left.items() if number},
    }
