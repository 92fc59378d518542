"""The error for an argument that is not one of its allowed values."""

from __future__ import annotations

from collections.abc import Iterable


def invalid_choice(name: str, value: object, choices: Iterable[object]) -> ValueError:
    """Return the ValueError for argument `name` with a `value` that is not one of `choices`."""
    return ValueError(f"invalid value for {name}: {value!r}; expected one of {', '.join(map(repr, choices))}")
