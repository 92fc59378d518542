"""The races of a Trace in plain text, made from its frames alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import zip_longest
from textwrap import indent
from typing import Any, Final

import pandas as pd

_LABEL: Final = 8
_MIN_WIDTH: Final = 60
_ELLIPSIS: Final = "…"
DIFFERS: Final = "≠ "
"""Stands before a stack frame that the two accesses do not have in common."""


def verdict(races: pd.DataFrame) -> str:
    """The first line to know: ``2 races in 3 places, seen 514 times``.

    Args:
        races: The frame ``races``. Suppressed races are counted apart.
    """
    shown = races[~races["is_suppressed"]]
    num_hidden = len(races) - len(shown)
    hidden = f" ({num_hidden:,} suppressed)" if num_hidden else ""
    if shown.empty:
        return f"no race{hidden}"
    places = {text for side in ("first", "second") for text in shown[f"{side}_place"].dropna()}
    where = f" in {_counted(len(places), 'place')}" if places else ""
    seen = int(shown["count"].sum())
    times = "once" if seen == 1 else "twice" if seen == 2 else f"{seen:,} times"
    return f"{_counted(len(shown), 'race')}{where}, seen {times}{hidden}"


def report_text(races: pd.DataFrame, stacks: pd.DataFrame, *, width: int = 110) -> str:
    """The verdict, and then each race that is not suppressed as `race_text` has it.

    Args:
        races: The frame ``races``.
        stacks: The frame ``stacks`` of the same Trace.
        width: Characters of a line, at least 60.
    """
    shown = races[~races["is_suppressed"]]
    parts = [verdict(races)]
    for number, row in enumerate(shown.index, 1):
        title = f"── race {number} of {len(shown)} "
        parts.append(title + "─" * (width - len(title)) + "\n" + race_text(races, stacks, row, width=width))
    return "\n\n".join(parts)


def race_text(races: pd.DataFrame, stacks: pd.DataFrame, row: int, *, width: int = 110) -> str:
    """One race: its two accesses side by side, their memory, and what to do.

    Stack frames that both have in common, from the outermost inwards, are folded into one line; the others have a
    ``≠``. The innermost stands first.

    Args:
        races: The frame ``races``.
        stacks: The frame ``stacks`` of the same Trace.
        row: Which row of `races`.
        width: Characters of a line, at least 60.
    """
    race: Any = races.loc[row]
    columns = _Columns(max(width, _MIN_WIDTH))
    lines = [f"{race['kind']}, seen {'once' if race['count'] == 1 else format(race['count'], ',') + ' times'}"]
    lines += columns.rows("", ["earlier"], ["later"])
    for label, tell in (("op", _op), ("on", _stream), ("tensor", _tensor), ("at", _place), ("line", _source)):
        lines += columns.rows(label, [tell(race, "first")], [tell(race, "second")])
    lines += _stack_lines(race, stacks, columns)
    lines += [*_memory(race), *_fix(race)]
    return "\n".join(line.rstrip() for line in lines)


def folded_stacks(first: list[str], second: list[str]) -> tuple[list[str], list[str], int]:
    """Two call stacks without what they have in common at their outer ends.

    Args:
        first: Stack frames, innermost first.
        second: Likewise.

    Returns:
        The stack frames in which they differ, of each, and the number of those in common.
    """
    common = 0
    for one, two in zip(reversed(first), reversed(second), strict=False):
        if one != two:
            break
        common += 1
    return first[: len(first) - common], second[: len(second) - common], common


def stack_entries(stacks: pd.DataFrame, stack: Any) -> list[str]:
    """The stack frames of a stack, innermost first, each as ``file:line in function``; none where it is missing."""
    if pd.isna(stack):
        return []
    rows = stacks[stacks["stack"] == stack]
    return [
        f"{row.file}:{row.line} in {row.function}" if pd.notna(row.file) else str(row.function)
        for row in rows.itertuples()
    ]


class _Columns:
    """Two columns with labels at their left."""

    def __init__(self, width: int) -> None:
        self._width = (width - _LABEL - 5) // 2

    def rows(self, label: str, first: list[str], second: list[str]) -> Iterator[str]:
        for number, (one, two) in enumerate(zip_longest(first, second, fillvalue="")):
            if one or two:
                head = label if number == 0 else ""
                yield f"  {head:<{_LABEL}}{self._cut(one):<{self._width}} │ {self._cut(two)}"

    def _cut(self, text: str) -> str:
        """The end of a path tells more than its beginning."""
        if len(text) <= self._width:
            return text
        head = DIFFERS if text.startswith(DIFFERS) else ""
        return head + _ELLIPSIS + text[len(text) - self._width + len(head) + 1 :]


def _counted(number: int, word: str) -> str:
    return f"1 {word}" if number == 1 else f"{number:,} {word}s"


def _text(race: Any, column: str) -> str:
    value = race[column]
    return "" if pd.isna(value) else str(value)


def _op(race: Any, side: str) -> str:
    argument = _text(race, f"{side}_argument")
    return f"{_text(race, f'{side}_op')} {'writes' if race[f'{side}_is_write'] else 'reads'} {argument}".strip()


def _stream(race: Any, side: str) -> str:
    return _text(race, f"{side}_stream_name")


def _tensor(race: Any, side: str) -> str:
    shape = _text(race, f"{side}_shape")
    layout = f"{_text(race, f'{side}_dtype')}{json.loads(shape)}" if shape else ""
    name = _text(race, f"{side}_tensor")
    span = f"bytes {race[f'{side}_low_byte']:,} to {race[f'{side}_high_byte']:,}"
    return " ".join(part for part in (name, layout if layout != name else "", span) if part)


def _place(race: Any, side: str) -> str:
    return _text(race, f"{side}_place")


def _source(race: Any, side: str) -> str:
    return _text(race, f"{side}_source")


def _stack_lines(race: Any, stacks: pd.DataFrame, columns: _Columns) -> Iterator[str]:
    first, second = (stack_entries(stacks, race[f"{side}_stack"]) for side in ("first", "second"))
    one, two, num_common = folded_stacks(first, second)
    yield from columns.rows("stack", [DIFFERS + entry for entry in one], [DIFFERS + entry for entry in two])
    if num_common:
        outer = f", from {first[len(one)]}" if num_common > 1 else f": {first[len(one)]}"
        yield f"  {'':<{_LABEL}}  {_counted(num_common, 'stack frame')} in common{outer}"


def _memory(race: Any) -> Iterator[str]:
    count = race["overlap_bytes"]
    both = f"both touch bytes {race['overlap_low_byte']:,} to {race['overlap_high_byte']:,}"
    counted = f" ({count:,} of them)" if pd.notna(count) else ""
    block = f" of the {race['block_bytes']:,} bytes" if pd.notna(race["block_bytes"]) else ""
    yield f"  {'memory':<{_LABEL}}{both}{counted}{block}{_site(race, 'alloc', 'allocated')}"
    if race["kind"] == "use after free" and _text(race, "free_place"):
        yield f"  {'':<{_LABEL}}after the earlier tensor was freed{_site(race, 'free', '')}"


def _site(race: Any, act: str, word: str) -> str:
    place, source = _text(race, f"{act}_place"), _text(race, f"{act}_source")
    head = f"{word} at" if word else "at"
    return f" {head} {place}" + (f": {source}" if source else "") if place else ""


def _fix(race: Any) -> Iterator[str]:
    words, diff = _text(race, "fix"), _text(race, "fix_diff")
    if words:
        yield f"  {'fix':<{_LABEL}}{words}"
    if diff:
        yield indent(diff.rstrip("\n"), " " * (_LABEL + 2))
