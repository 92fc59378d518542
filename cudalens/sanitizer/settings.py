"""Check the options of the sanitizer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, get_args

from cudalens.errors import SanitizerError
from cudalens.sanitizer.engine import RaceKind

OnRace = Literal["collect", "warn", "raise"]


def parse_kinds(detect: Iterable[RaceKind | str] | RaceKind | str | None) -> frozenset[RaceKind]:
    """The kinds of races that a user selects.

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
    """The valid value of `on_race`.

    Raises:
        SanitizerError: It is not valid.
    """
    if on_race not in get_args(OnRace):
        raise SanitizerError(f"on_race is {on_race!r}; expected one of {', '.join(get_args(OnRace))}.")
    return on_race


def checked_depth(stack_depth: Any) -> int:
    """The valid number of stack frames that a report shows.

    Raises:
        SanitizerError: It is not a number of at least 1.
    """
    if not isinstance(stack_depth, int) or stack_depth < 1:
        raise SanitizerError(f"stack_depth is {stack_depth!r}; expected a number of stack frames, at least 1.")
    return stack_depth
