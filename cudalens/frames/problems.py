"""Counts the damage in a file that a reader works around."""

from __future__ import annotations

from cudalens.frames.info import Problem


class Problems:
    """Number of occurrences of each kind of damage, and the first one."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, str]] = {}

    def add(self, kind: str, where: str, count: int = 1) -> None:
        """Count `kind`; `where` is kept for the first occurrence only."""
        before, first = self._found.get(kind, (0, where))
        self._found[kind] = (before + count, first)

    def count(self, *beginnings: str) -> int:
        """Occurrences of the kinds that begin with one of `beginnings`."""
        return sum(count for kind, (count, _) in self._found.items() if kind.startswith(beginnings))

    def __len__(self) -> int:
        return len(self._found)

    def first(self) -> str | None:
        """Return the first damage in words, or None."""
        return next((f"{kind} ({where})" for kind, (_, where) in self._found.items()), None)

    def to_tuple(self) -> tuple[Problem, ...]:
        """For `RunInfo.problems`, in order of first occurrence."""
        return tuple(Problem(kind, count, where) for kind, (count, where) in self._found.items())
