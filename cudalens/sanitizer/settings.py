"""The options of the sanitizer, its suppressions (patterns of races that are not reported), its state as numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from os import PathLike
from typing import Any, Final, Literal, get_args

from cudalens.errors import SanitizerError, invalid_choice
from cudalens.sanitizer.engine import Access, Race, RaceKind
from cudalens.sanitizer.engine.races import counted, summarize

_FIELDS: Final = ("op", "at", "tensor", "kind")
_TERMINAL_CELL: Final = re.compile(r"<ipython-input-(\d+)-")
_CELL: Final = re.compile(r"\bIn\[(\d+|\*)\]")


class SuppressionWarning(UserWarning):
    """A suppression matches no race: it may be misspelled, or no longer needed."""


class Suppressions:
    """Patterns of races to hide; a race is hidden where a pattern matches one of its two accesses, or its kind.

    A pattern is a glob, as in ``aten::copy_``, ``*/loader.py:12*``, ``In[3]:*`` or ``float32*``. It is compared with
    the names of the operations, the places (file:line, as shown and as Python names the file), the names of the
    tensors and the kind of the race; with ``op:``, ``at:``, ``tensor:`` or ``kind:`` before it, only with that.
    ``In[3]`` means that cell and ``In[*]`` every cell; other brackets are a set of characters.

    Args:
        patterns: The patterns.

    Raises:
        SanitizerError: One is not text, or is empty.
    """

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        if isinstance(patterns, str):
            patterns = [patterns]
        self._patterns = {pattern: _parse(pattern) for pattern in patterns}
        self._unused = dict.fromkeys(self._patterns)

    def __len__(self) -> int:
        return len(self._patterns)

    def __iter__(self) -> Iterator[str]:
        """The patterns as they were given."""
        return iter(self._patterns)

    def hides(self, race: Race) -> bool:
        """Return whether a pattern matches."""
        matching = [text for text, pattern in self._patterns.items() if _fits(pattern, race)]
        for text in matching:
            self._unused.pop(text, None)
        return bool(matching)

    def unused(self) -> list[str]:
        """Return the patterns that have matched no race so far."""
        return list(self._unused)


def read_suppressions(path: str | PathLike[str]) -> list[str]:
    """Patterns of a file: one a line; what follows a ``#`` at its start or after a space is a comment.

    Raises:
        SanitizerError: The file cannot be read.
    """
    try:
        with open(path, encoding="utf-8") as file:
            lines = [f" {line}".partition(" #")[0].strip() for line in file]
    except (OSError, UnicodeDecodeError) as error:
        raise SanitizerError(
            f"the suppression file {path} cannot be read: {error}. Expected a text file, a pattern a line."
        ) from error
    return [line for line in lines if line]


def _parse(pattern: str) -> tuple[str | None, str]:
    if not isinstance(pattern, str):
        raise SanitizerError(
            f"the suppression {pattern!r} is {type(pattern).__name__}; expected text, such as 'op:aten::copy_'."
        )
    head, colon, rest = pattern.strip().partition(":")
    field, glob = (head, rest.strip()) if colon and head in _FIELDS else (None, pattern.strip())
    glob = _CELL.sub(r"In[[]\1]", glob)
    if not glob:
        raise SanitizerError(
            f"the suppression {pattern!r} is empty; expected a glob, such as 'op:aten::copy_' or '*/loader.py:12'."
        )
    return field, glob


def _fits(pattern: tuple[str | None, str], race: Race) -> bool:
    field, glob = pattern
    texts = [race.kind.name, race.kind.name.lower(), race.kind.value] if field in (None, "kind") else []
    for touch in (race.first, race.second):
        texts += [text for name, text in _texts(touch) if field in (None, name)]
    return any(fnmatchcase(text, glob) for text in texts)


def _texts(touch: Access) -> list[tuple[str, str]]:
    found = [("op", touch.op), ("tensor", touch.tensor)]
    for place in (touch.place, touch.captured):
        if place is None:
            continue
        found.append(("at", str(place)))
        filename, line = getattr(place, "filename", None), getattr(place, "line", None)
        if filename:
            found.append(("at", f"{filename}:{line}"))
        if cell := _TERMINAL_CELL.match(filename or ""):
            found.append(("at", f"In[{cell[1]}]:{line}"))
    return found


OnRace = Literal["collect", "warn", "raise"]


def parse_kinds(detect: Iterable[RaceKind | str] | RaceKind | str | None) -> frozenset[RaceKind]:
    """Return the kinds of races that a user selects.

    Args:
        detect: `RaceKind` or its name in lower case, one or several; None for all.

    Raises:
        SanitizerError: A name is unknown, or there is none.
    """
    if detect is None:
        return frozenset(RaceKind)
    names = [detect] if isinstance(detect, str | RaceKind) else list(detect)
    if not names:
        raise SanitizerError(f"no detector is named; expected some of {_kind_names()}.")
    return frozenset(name if isinstance(name, RaceKind) else _kind(name) for name in names)


def _kind(name: Any) -> RaceKind:
    kind = RaceKind.__members__.get(str(name).strip().upper().replace("-", "_").replace(" ", "_"))
    if kind is None:
        raise SanitizerError(f"unknown detector {name!r}; expected some of {_kind_names()}.")
    return kind


def _kind_names() -> str:
    return ", ".join(kind.name.lower() for kind in RaceKind)


def checked_on_race(on_race: Any) -> OnRace:
    """Return the valid value of `on_race`.

    Raises:
        SanitizerError: It is not valid.
    """
    if on_race not in get_args(OnRace):
        raise invalid_choice("on_race", on_race, get_args(OnRace), SanitizerError)
    return on_race


def checked_depth(stack_depth: Any) -> int:
    """Return the valid number of stack frames that a report shows.

    Raises:
        SanitizerError: It is not a number of at least 1.
    """
    if not isinstance(stack_depth, int) or stack_depth < 1:
        raise SanitizerError(f"stack_depth is {stack_depth!r}; expected a number of stack frames, at least 1.")
    return stack_depth


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a sanitizer.

    Attributes:
        is_on: Whether it is on.
        num_launches: Operations on streams that it checked in its current or last run.
        num_streams: Streams that these ran on.
        num_findings: Races, one per pair of places and kind.
        num_seen: Occurrences of races in total.
        num_hidden: Occurrences of races that are suppressed, or of a kind that is not selected.
        num_allocations: Live allocations that it tracks.
        num_ranges: Ranges of bytes with recorded accesses.
        num_accesses: Recorded accesses of these ranges.
        num_forgotten: Ranges that were dropped because one allocation had too many: races with these are missed.
        num_unseen_replays: Replays of CUDA graphs that were captured before it was on, which it did not check.
        error: The error in the sanitizer that ended the run; None without one.
        missing: Callbacks that this torch lacks: what they would report is not seen.
        guessed: Triton kernels whose written arguments are unknown: all their arguments count as read.
        exported: Places that exported pinned memory to numpy or to another library: writes through it are not seen.
    """

    is_on: bool
    num_launches: int
    num_streams: int
    num_findings: int
    num_seen: int
    num_hidden: int
    num_allocations: int
    num_ranges: int
    num_accesses: int
    num_forgotten: int
    num_unseen_replays: int
    error: str | None
    missing: tuple[str, ...]
    guessed: tuple[str, ...] = ()
    exported: tuple[str, ...] = ()

    def __str__(self) -> str:
        state = "on" if self.is_on else "off"
        if not self.is_on and self.error is not None:
            state = f"off, because of an error in it: {self.error}"
        lines = [
            f"stream-race sanitizer: {state}",
            f"  {counted(self.num_launches, 'operation')} on {counted(self.num_streams, 'stream')} checked, "
            f"{counted(self.num_allocations, 'allocation')} known",
            f"  {summarize(self.num_findings, self.num_seen)}",
        ]
        if self.num_hidden:
            lines.append(f"  {self.num_hidden:,} occurrences that are suppressed or of a kind that is not selected")
        if self.num_forgotten:
            lines.append(f"  {self.num_forgotten:,} ranges dropped: races with them are missed")
        if self.num_unseen_replays:
            replays = counted(self.num_unseen_replays, "replay")
            lines.append(f"  {replays} of CUDA graphs that were captured before it was on: not checked")
        if self.missing:
            lines.append(f"  this torch reports no: {', '.join(self.missing)}")
        if self.guessed:
            lines.append(
                f"  written arguments of these kernels are unknown, so all count as read: {', '.join(self.guessed)}; "
                "annotate with cudalens.sanitizer.access(writes=…)"
            )
        if self.exported:
            lines.append(
                "  pinned memory that numpy or another library can write, which is not seen: "
                f"{', '.join(self.exported)}; annotate with cudalens.sanitizer.access(writes=…)"
            )
        return "\n".join(lines)
