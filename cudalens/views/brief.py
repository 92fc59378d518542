"""A brief: what a language model or a CI job needs to know of a Trace, within a number of tokens.

A brief is made of pieces in order of importance. Each is added if the whole still fits; what does not is counted.
Each fact has its number and the Python expression that reproduces the number, with the names of `cudalens.analysis`
and ``trace``. Texts of the Trace are cleaned and shortened.

The estimate is meant to be too large, not too small. A token of common tokenizers (byte-pair encodings of 30,000 to
200,000 entries) covers about four characters of English and about three of code. Counted here are one token

- for every three letters of a word (``cudaMalloc`` is two words), rounded up;
- for every digit, as in the tokenizers that split numbers into digits;
- for every two signs in a row (``":`` is one), rounded up;
- for white space, unless it is one space before something else than a digit;
- for every UTF-8 byte of other characters;

and never less than one for every three characters of the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.analysis import Finding, units
from cudalens.analysis.cached import attempt, once_per_trace
from cudalens.analysis.facts import found_in, memory_at_end, memory_high, summarize
from cudalens.analysis.findings import MOST
from cudalens.analysis.findings.finding import sureness
from cudalens.analysis.memory.holders import memory_holders
from cudalens.analysis.memory.totals import is_memory_snapshot
from cudalens.analysis.trust.check import TrustReport, trust
from cudalens.errors import TraceError
from cudalens.frames import Trace
from cudalens.views.memory.words import has_memory
from cudalens.views.sections.clean_text import printable
from cudalens.views.sections.verdict import has_profile, verdict

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
            estimate of `cudalens.views.brief.estimate_tokens`.
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
    return Brief(data, brief_text(_fitted(pieces, brief_text, tokens)), tokens)


def _pieces(trace: Trace) -> Iterator[Piece]:
    """Yield what can be in a brief, most important first; a later piece of the same place replaces the earlier one."""
    findings = all_findings(trace)
    costs = _known(trace, "costs", cost_facts)
    memory = _known(trace, "memory", memory_facts)
    numbers = _known(trace, "numbers", number_facts)
    short = [("findings", k, short_finding(one, k)) for k, one in enumerate(findings)]
    yield ("run", 0, run_name(trace))
    yield ("verdict", 0, verdict_text(trace, _VERDICTS[0]))
    yield ("trust", 0, trust_verdict(trace))
    yield from short[:1]
    yield ("run", 0, run_facts(trace))
    yield from (("verdict", 0, verdict_text(trace, width)) for width in _VERDICTS[1:])
    yield from _whole(findings, slice(0, 1))
    yield from short[1:]
    yield from _listed("costs", costs, slice(0, _FIRST))
    yield from _listed("memory", memory, slice(0, 1))
    yield from _listed("numbers", numbers, slice(0, 2))
    yield from _whole(findings, slice(1, None))
    yield from _listed("not_recorded", not_recorded_facts(trace))
    yield from _listed("costs", costs, slice(_FIRST, None))
    yield from _listed("memory", memory, slice(1, None))
    yield from _listed("doubts", _known(trace, "doubts", trust_findings))
    yield from _listed("numbers", numbers, slice(2, None))


def _known(trace: Trace, name: str, facts: Callable[[Trace], Iterator[Any]]) -> list[Any]:
    """Return the facts; none if computing them fails, which is then a problem of the Trace."""
    none: list[Any] = []
    return attempt(trace, f"the brief's {name}", none, lambda: list(facts(trace)))


def _whole(findings: tuple[Any, ...], part: slice) -> Iterator[Piece]:
    for k in range(len(findings))[part]:
        yield ("findings", k, whole_finding(findings[k], k))


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


#: A fact, as plain values that JSON can hold.
Fact = dict[str, Any]

_ROWS: Final = 3
_NAME: Final = 60
_KERNEL: Final = 88
#: Parts of kernels' names that most of them have.
_USUAL: Final = re.compile(r"^void |\bat::native::|\(anonymous namespace\)::|\bat::|::\{lambda\(.*")
_SENTENCE: Final = 400
_HOLDERS: Final = 3


def run_name(trace: Trace) -> Fact:
    """Return what ran: its name alone."""
    return {"name": clean_text(trace.info.name, 40)}


def run_facts(trace: Trace) -> Fact:
    """Return what ran: name, source, devices, version of torch, how it ended."""
    info = trace.info
    facts = {
        **run_name(trace),
        "source": clean_text(info.source, 40),
        "devices": clean_text(", ".join(dict.fromkeys(device.name for device in info.devices)), 60),
        "torch": clean_text(str(info.versions.get("torch", "")), 20),
        "status": "" if info.status == "ok" else info.status,
        "times": "modelled, not measured" if info.is_simulated else "",
    }
    return {name: value for name, value in facts.items() if value}


def verdict_text(trace: Trace, width: int) -> str:
    """Return the verdict in at most `width` characters."""
    return clean_text(verdict(trace), width)


def number_facts(trace: Trace) -> Iterator[Fact]:
    """Yield the numbers of the verdict: times and counts; none of a memory snapshot."""
    if not has_profile(trace):
        return
    found = summarize(trace)
    for what, field, unit in (
        ("measured window", "wall_ns", "ns"),
        ("GPU busy", "device_busy_ns", "ns"),
        ("CPU operators busy", "host_busy_ns", "ns"),
        ("mean step", "step_mean_ns", "ns"),
        ("steps", "num_steps", ""),
        ("GPU kernels", "num_kernels", ""),
        ("launches", "num_launches", ""),
        ("operators", "num_ops", ""),
    ):
        if value := getattr(found, field):
            yield _number_fact(what, value, unit, f"summarize(trace).{field}")


def short_finding(found: Finding, number: int) -> Fact:
    """Return a finding without its sentence, advice and rows."""
    facts: Fact = {"rule": found.rule, "title": clean_text(found.title, _NAME), "gain_ns": found.gain_ns}
    if found.share_pct is not None:
        facts["share_pct"] = round(found.share_pct, 1)
    facts["confidence"] = found.confidence
    if found.place:
        facts["place"] = clean_text(units.short_place(found.place), _NAME)
    return facts | {"expr": f"findings(trace)[{number}]"}


def whole_finding(found: Finding, number: int) -> Fact:
    """Return a finding with its sentence, its advice and its first rows."""
    facts = short_finding(found, number) | {
        "what": clean_text(found.what, _SENTENCE),
        "try": clean_text(found.advice, _SENTENCE),
    }
    return facts | ({"rows": list(found.rows[:_ROWS]), "num_rows": len(found.rows)} if found.rows else {})


def all_findings(trace: Trace) -> tuple[Finding, ...]:
    """Return the findings that a brief can contain, in their order."""
    return found_in(trace)[:MOST]


def cost_facts(trace: Trace) -> Iterator[Fact]:
    """Yield the ten largest costs, each with the most expensive of its rows; none of a memory snapshot."""
    if not has_profile(trace):
        return
    for number, cost in enumerate(summarize(trace).top):
        events = trace.events
        is_it = (events["name"] == cost.name).to_numpy() & (events["cat"] == cost.cat).to_numpy()
        rows = np.flatnonzero(is_it & (events["device"].notna().to_numpy() == cost.is_device))
        own = events["self_dur"].to_numpy()[rows]
        yield {
            "name": clean_text(_USUAL.sub("", cost.name), _KERNEL),
            "cat": clean_text(cost.cat, _NAME),
            "self_ns": cost.self_ns,
            "share_pct": round(cost.share_pct, 1),
            "count": cost.count,
            "rows": rows[np.argsort(-own, kind="stable")[:_ROWS]].tolist(),
            "expr": f"summarize(trace).top[{number}]",
        }


def memory_facts(trace: Trace) -> Iterator[Fact]:
    """Peaks of memory; for a snapshot also fragmentation and the largest holders."""
    if not has_memory(trace):
        for kind, peak in (summarize(trace).peak_memory_bytes or {}).items():
            expr = f"summarize(trace).peak_memory_bytes[{kind!r}]"
            yield _number_fact(f"peak allocated ({clean_text(kind, 20)})", peak, "bytes", expr)
        return
    high = memory_high(trace)
    if not pd.isna(high["num_bytes"]):
        what = f"peak allocated (cuda:{high['device']})" if len(trace.memory) else f"allocated (cuda:{high['device']})"
        yield _number_fact(what, int(high["num_bytes"]), "bytes", 'memory_peak(trace)["num_bytes"]')
    for row, device in enumerate(memory_at_end(trace).to_dict("records")):
        for key, what in (("reserved_bytes", "reserved at the end"), ("external_bytes", "free in used segments")):
            expr = f'fragmentation(trace)["{key}"].iloc[{row}]'
            yield _number_fact(f"{what} (cuda:{device['device']})", int(device[key]), "bytes", expr)
    for row, held in enumerate(memory_holders(trace).head(_HOLDERS).to_dict("records")):
        holder = held["holder"]
        who = f"held by {clean_text(holder, _NAME)}" if isinstance(holder, str) else "without a known variable"
        yield _number_fact(who, int(held["num_bytes"]), "bytes", f'memory_holders(trace)["num_bytes"].iloc[{row}]')


def trust_verdict(trace: Trace) -> Fact:
    """Return the verdict on how far the Trace can be trusted."""
    if is_memory_snapshot(trace):
        return {"verdict": "not checked: a memory snapshot has no events"}
    return {"verdict": clean_text(_trust_report(trace).verdict, 160), "expr": "trust(trace).verdict"}


@once_per_trace
def _trust_report(trace: Trace) -> TrustReport:
    return trust(trace)


def trust_findings(trace: Trace) -> Iterator[Fact]:
    """Yield what the checks of trust found, worst first."""
    if is_memory_snapshot(trace):
        return
    for number, found in enumerate(_trust_report(trace).trust.findings):
        facts: Fact = {"severity": found.severity, "rule": found.rule, "count": found.count}
        facts["what"] = clean_text(found.what, 200)
        if found.rows:
            facts["rows"] = list(found.rows[:_ROWS])
        yield facts | {"expr": f"trust(trace).trust.findings[{number}]"}


def not_recorded_facts(trace: Trace) -> list[str]:
    """Return what was not recorded, each with what records it."""
    events = trace.events
    if is_memory_snapshot(trace):
        missing = [
            (trace.memory.empty, "the allocator's history (cudalens.memory_history())"),
            (trace.blocks["names"].isna().all(), "variables (cudalens.memory_snapshot() in the program)"),
        ]
        return [what for is_missing, what in missing if is_missing]
    missing = [
        (summarize(trace).device_busy_ns is None, "work of a GPU"),
        (summarize(trace).num_steps is None, "steps (cudalens.step() in the profiled block)"),
        (events["stack"].isna().all(), "source lines (stacks=True)"),
        (events["shapes"].isna().all(), "input shapes (shapes=True)"),
        (trace.memory.empty, "memory (memory=True)"),
        (events["module"].isna().all(), "modules (modules=True)"),
        (events["flops"].isna().all(), "FLOPs (flops=True)"),
        (trace.metrics.empty, "utilization and clocks (metrics=True)"),
        (trace.info.judged is None, "stream races (cudalens.sanitize())"),
    ]
    return [what for is_missing, what in missing if is_missing]


def clean_text(value: str, width: int) -> str:
    """`value` as one line of at most `width` characters, cut in the middle."""
    return units.shorten(printable(value), width).replace("…", "..")


def _number_fact(what: str, value: float, unit: str, expr: str) -> Fact:
    return {"what": what, "value": round(value), **({"unit": unit} if unit else {}), "expr": expr}


_WRITERS: Final[dict[str, Callable[[float], str]]] = {"ns": units.duration, "bytes": units.size}
_LEGEND: Final = (
    "[...]: Python that gives the number, after `from cudalens.analysis import *`; rows: of trace.events. "
    "Names in quotes are data of the trace."
)


def brief_text(data: dict[str, Any]) -> str:
    """Return the lines of a brief."""
    return "\n".join(_lines(data))


def _lines(data: dict[str, Any]) -> Iterator[str]:
    run = dict(data["run"])
    facts = ", ".join(f"{key} {value}" for key, value in run.items() if key != "name")
    yield f"Brief of '{run.get('name', '')}' ({facts})"
    yield f"Verdict: {data['verdict']}"
    if data["findings"]:
        yield "Findings (gain: an upper bound of what the advice saves):"
    for number, found in enumerate(data["findings"], 1):
        gain = "no gain in time"
        if found["gain_ns"] is not None:
            share = f" ({found['share_pct']} %)" if "share_pct" in found else ""
            gain = f"gain up to {units.duration(found['gain_ns'])}{share}"
        place = f", at {found['place']}" if "place" in found else ""
        how_sure = sureness(found["confidence"], is_modelled="times" in run)
        yield f"{number}. {found['title']}: {gain}, {how_sure}{place} [{found['expr']}]"
        if "what" in found:
            yield f"   {found['what'].removesuffix('.')}{_rows_text(found)}"
            yield f"   Try: {found['try']}"
    if "findings" not in data["left_out"] and not data["findings"]:
        yield "Findings: none"
    if data["costs"]:
        yield "Largest costs (self time, share of all on its side):"
    for number, cost in enumerate(data["costs"], 1):
        times = f"{units.duration(cost['self_ns'])} ({cost['share_pct']} %), {units.plural(cost['count'], 'call')}"
        yield f"{number}. '{cost['name']}' ({cost['cat']}): {times}{_rows_text(cost)} [{cost['expr']}]"
    yield from _number_lines("Numbers", data["numbers"])
    yield from _number_lines("Memory", data["memory"])
    yield f"Trust: {data['trust']['verdict']}"
    yield from (
        f"- {one['severity']}, {one['rule']}: {one['what']}{_rows_text(one)}" for one in data["trust"]["findings"]
    )
    if data["not_recorded"]:
        yield f"Not recorded: {'; '.join(data['not_recorded'])}"
    if data["left_out"]:
        yield f"Left out: {', '.join(f'{what} {number}' for what, number in data['left_out'].items())}"
    yield _LEGEND


def _rows_text(facts: dict[str, Any]) -> str:
    rows = facts.get("rows", [])
    return f"; rows {', '.join(map(str, rows))}" if rows else ""


def _number_lines(title: str, facts: list[dict[str, Any]]) -> Iterator[str]:
    for number, one in enumerate(facts):
        value = _WRITERS.get(one.get("unit", ""), units.count)(one["value"])
        yield f"{'' if number else f'{title}: '}{one['what']} {value} [{one['expr']}]"


_LETTERS: Final = 3
_SIGNS: Final = 2
_PART: Final = re.compile(
    r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]| (?=[^\s\d])|\s+|[^\x00-\x7f]+|[!-/:-@\[-`{-~]+|.", re.DOTALL
)


def estimate_tokens(text: str) -> int:
    """Number of tokens that `text` needs at most with common tokenizers, as the module defines it."""
    return max(sum(map(_token_cost, _PART.findall(text))), -(-len(text) // _LETTERS))


def _token_cost(part: str) -> int:
    if not part.isascii():
        return len(part.encode("utf-8", "replace"))
    if part.isspace() or part.isdigit():
        return int(part != " ")
    return -(-len(part) // (_LETTERS if part.isalpha() else _SIGNS))
