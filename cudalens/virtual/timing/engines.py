"""Schedule work on an engine: the earliest start of a piece of work, given the work scheduled before it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable
from typing import Final

#: The whole engine; a kernel uses a part of it, a copy engine runs one copy at a time.
CAPACITY: Final = 1.0

_FULL: Final = 1e-9
_MIN_SPANS: Final = 64
_MAX_SPANS: Final = 2048
_KEPT_NS: Final = 1_000_000_000


class Engine:
    """Schedules work in the order in which it is issued, as early as its stream and the free capacity allow.

    Scheduled work never moves: the model is a first-come-first-served engine without preemption, which approximates the
    hardware's work distributor for kernels of one priority.
    """

    __slots__ = ("_ends", "_floor_ns", "_last_ns", "_limit", "_longest_ns", "_past", "_rooms", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._rooms: list[float] = []
        self._last_ns = 0
        self._longest_ns = 0
        self._floor_ns = 0
        self._limit = _MIN_SPANS
        self._past: deque[tuple[int, int, int]] = deque()

    def place(self, ready_ns: int, duration_ns: int, room: float, now_ns: int) -> int:
        """Reserve capacity for `duration_ns`, not before `ready_ns`; returns the start, in ns.

        Args:
            ready_ns: Earliest start that the stream and its events allow.
            duration_ns: The duration.
            room: The part of the engine that it uses, above 0, at most 1.
            now_ns: The host time; work that ended before it no longer matters.
        """
        if ready_ns >= self._last_ns:
            self._drop_ended(now_ns if ready_ns > now_ns else ready_ns)
            start = ready_ns
        else:
            start = self._first_fit(max(ready_ns, self._floor_ns), duration_ns, room)
        if duration_ns:
            self._insert(start, start + duration_ns, room)
        return start

    def _first_fit(self, ready_ns: int, duration_ns: int, room: float) -> int:
        """The first of `ready_ns` and the ends of scheduled work at which the work fits.

        The sum includes all work that overlaps with the new work, even where it does not overlap with each other.
        """
        first = bisect_left(self._starts, ready_ns - self._longest_ns)  # earlier spans have ended at `ready_ns`
        free = CAPACITY + _FULL - room
        if self._used(first, ready_ns, ready_ns + duration_ns) <= free:
            return ready_ns
        return self._first_end_with_room(first, ready_ns, duration_ns, free)

    def _used(self, first: int, start_ns: int, end_ns: int) -> float:
        """Return the capacity that is used in a period, by the spans from index `first`."""
        past = bisect_left(self._starts, end_ns)
        spans = zip(self._ends[first:past], self._rooms[first:past], strict=True)
        return sum(room for end, room in spans if end > start_ns)

    def _first_end_with_room(self, first: int, ready_ns: int, duration_ns: int, free: float) -> int:
        """In one pass over the ends: remove the spans that have ended, add those that start before the work's end."""
        starts, rooms = self._starts[first:], self._rooms[first:]
        used, num_added, num_spans = 0.0, 0, len(starts)
        for end, room in sorted(zip(self._ends[first:], rooms, strict=True)):
            used -= room
            if end <= ready_ns:
                continue
            while num_added < num_spans and starts[num_added] < end + duration_ns:
                used += rooms[num_added]
                num_added += 1
            if used <= free:
                return end
        return max(ready_ns, self._last_ns)

    def _insert(self, start_ns: int, end_ns: int, room: float) -> None:
        if self._starts and start_ns == self._ends[-1] and room == self._rooms[-1]:
            self._ends[-1] = end_ns
            self._longest_ns = max(self._longest_ns, end_ns - self._starts[-1])
        else:
            self._longest_ns = max(self._longest_ns, end_ns - start_ns)
            at = bisect_right(self._starts, start_ns)
            self._starts.insert(at, start_ns)
            self._ends.insert(at, end_ns)
            self._rooms.insert(at, room)
        self._last_ns = max(self._last_ns, end_ns)

    def busy_ns(self, begin_ns: int, end_ns: int) -> int:
        """Return how long the engine was busy in a period within the last second, in ns.

        Dropped spans are kept as sums: exact for a whole sum, evenly distributed within it.
        """
        busy = _union_ns(zip(self._starts, self._ends, strict=True), begin_ns, end_ns)
        for start, end, amount in self._past:
            overlap = min(end, end_ns) - max(start, begin_ns)
            if overlap > 0:
                busy += amount * overlap // (end - start)
        return min(busy, end_ns - begin_ns)

    def _drop_ended(self, now_ns: int) -> None:
        """Drop the spans that have ended. Beyond a bound also the oldest spans: nothing starts before their end."""
        if len(self._ends) < self._limit:
            return
        kept = [i for i, end in enumerate(self._ends) if end > now_ns]
        if len(kept) > _MAX_SPANS:
            dropped, kept = kept[: len(kept) // 2], kept[len(kept) // 2 :]
            self._floor_ns = max(self._floor_ns, *(self._ends[i] for i in dropped))
        self._keep_sums(set(kept))
        self._starts = [self._starts[i] for i in kept]
        self._rooms = [self._rooms[i] for i in kept]
        self._ends = [self._ends[i] for i in kept]
        self._longest_ns = max((end - start for start, end in zip(self._starts, self._ends, strict=True)), default=0)
        self._limit = max(_MIN_SPANS, 2 * len(kept))

    def _keep_sums(self, kept: set[int]) -> None:
        """Keep the busy time of dropped spans for one second."""
        dropped = [(self._starts[i], self._ends[i]) for i in range(len(self._ends)) if i not in kept]
        if not dropped:
            return
        start, end = dropped[0][0], max(span[1] for span in dropped)
        if end > start:
            self._past.append((start, end, _union_ns(dropped, start, end)))
        while self._past and self._past[0][1] < end - _KEPT_NS:
            self._past.popleft()


def _union_ns(spans: Iterable[tuple[int, int]], begin_ns: int, end_ns: int) -> int:
    """Length of the union of spans, sorted by start, within a period."""
    total, until = 0, begin_ns
    for start, end in spans:
        if end > until and start < end_ns:
            total += min(end, end_ns) - max(start, until)
            until = min(end, end_ns)
    return total
