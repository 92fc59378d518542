"""Counts the damage that a reader survives."""

from __future__ import annotations

from cudalens.frames.info import Problem


class Problems:
    """Damage by kind: how often, and where first."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, str]] = {}

    def add(self, kind: str, where: str, count: int = 1) -> None:
        """Count `kind` once more; `where` is kept of the first only."""
        before, first = self._found.get(kind, (0, where))
        self._found[kind] = (before + count, first)

    def __len__(self) -> int:
        return len(self._found)

    def first(self) -> str | None:
        """The first damage in words, or None."""
        return next((f"{kind} ({where})" for kind, (_, where) in self._found.items()), None)

    def to_tuple(self) -> tuple[Problem, ...]:
        """As `RunInfo.problems` holds it, in the order of first sight."""
        return tuple(Problem(kind, count, where) for kind, (count, where) in self._found.items())
