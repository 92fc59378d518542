"""Check the options of the sanitizer, and read its suppressions: patterns of races that are not reported."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from os import PathLike
from typing import Any, Final, Literal, get_args

from cudalens.errors import SanitizerError
from cudalens.sanitizer.engine import Access, Race, RaceKind

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
    texts = _texts_of_kind(race.kind) if field in (None, "kind") else []
    for touch in (race.first, race.second):
        texts += [text for name, text in _texts(touch) if field in (None, name)]
    return any(fnmatchcase(text, glob) for text in texts)


def _texts_of_kind(kind: RaceKind) -> list[str]:
    return [kind.name, kind.name.lower(), kind.value]


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
        raise SanitizerError(f"on_race is {on_race!r}; expected one of {', '.join(get_args(OnRace))}.")
    return on_race


def checked_depth(stack_depth: Any) -> int:
    """Return the valid number of stack frames that a report shows.

    Raises:
        SanitizerError: It is not a number of at least 1.
    """
    if not isinstance(stack_depth, int) or stack_depth < 1:
        raise SanitizerError(f"stack_depth is {stack_depth!r}; expected a number of stack frames, at least 1.")
    return stack_depth
