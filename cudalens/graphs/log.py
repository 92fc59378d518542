"""The log of a manager: reasons with their places, counted."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cudalens.graphs.functions import Counts, Function, Variant
from cudalens.graphs.reasons import Finding

if TYPE_CHECKING:
    from cudalens.graphs.node import GraphNode


@dataclass(slots=True)
class Entry:
    """A reason of one function at one place.

    Attributes:
        function: Whose.
        variant: The latest one that it concerned; None for the function as a whole.
        finding: The latest case.
        count: How often.
        num_kernels: Operators of the latest variant that launch work; 0 if it is not known.
    """

    function: Function
    variant: Variant | None
    finding: Finding
    count: int = 0
    num_kernels: int = 0


@dataclass(slots=True)
class Mark:
    """Counts at a point in time.

    Attributes:
        entries: Of the log, by key.
        calls: By function.
        replays: By recording.
        paths: By the numbers of their recordings.
    """

    entries: dict[Any, int] = field(default_factory=dict)
    calls: dict[int, Counts] = field(default_factory=dict)
    replays: dict[int, int] = field(default_factory=dict)
    paths: dict[tuple[int, ...], int] = field(default_factory=dict)


class Log:
    """The reasons so far."""

    def __init__(self) -> None:
        self._entries: dict[Any, Entry] = {}
        self._marks: dict[int, Mark] = {}
        self._numbers = itertools.count(1)

    def note(self, function: Function, finding: Finding, variant: Variant | None = None) -> None:
        """Count a reason once more."""
        key = (function.id, finding.reason, finding.place)
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = Entry(function, variant, finding)
        entry.count += 1
        entry.finding, entry.variant = finding, variant
        if variant is not None:
            entry.num_kernels = variant.num_kernels

    def mark(
        self, functions: Iterable[Function], nodes: Sequence[GraphNode], paths: Mapping[tuple[int, ...], int]
    ) -> int:
        """Mark the present state; returns the argument of `since`."""
        number = next(self._numbers)
        self._marks[number] = Mark(
            {key: entry.count for key, entry in self._entries.items()},
            {function.id: replace(function.counts) for function in functions},
            {node.id: node.num_replays for node in nodes},
            dict(paths),
        )
        return number

    def since(self, number: int | None) -> Mark:
        """The state at a mark; empty for None."""
        return Mark() if number is None else self._marks.get(number, Mark())

    def entries(self, since: Mark) -> Iterator[Entry]:
        """The reasons that came since, with counts from then on."""
        for key, entry in self._entries.items():
            count = entry.count - since.entries.get(key, 0)
            if count > 0:
                yield Entry(entry.function, entry.variant, entry.finding, count, entry.num_kernels)

    def forget_variants(self, functions: set[int]) -> None:
        """Keep of functions, by their numbers, the words alone: variants know the program and its arguments."""
        for entry in self._entries.values():
            if entry.function.id in functions:
                entry.variant = None

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._marks.clear()
