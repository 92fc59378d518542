"""Room on a device: when a piece of work can start, given what has been placed before it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable
from typing import Final

CAPACITY: Final = 1.0
"""The whole engine; a kernel fills part of it, a copy engine runs one copy at a time."""

_FULL: Final = 1e-9
_MIN_SPANS: Final = 64
_MAX_SPANS: Final = 2048
_REMEMBERED_NS: Final = 1_000_000_000


class Engine:
    """Places work in the order in which it was issued, as early as its stream and the engine's room allow.

    Work that was placed is never moved: the model is a first-come-first-served engine without preemption, which is what
    the hardware's work distributor comes close to for kernels of one priority.
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
        """Take `room` for `duration_ns`, no earlier than `ready_ns`; returns the start, in ns.

        Args:
            ready_ns: When the stream and its events allow it.
            duration_ns: How long it lasts.
            room: The part of the engine that it fills, above 0, at most 1.
            now_ns: The host's time: what ended before it can no longer stand in the way.
        """
        if ready_ns >= self._last_ns:
            self._forget(now_ns if ready_ns > now_ns else ready_ns)
            start = ready_ns
        else:
            start = self._first_fit(max(ready_ns, self._floor_ns), duration_ns, room)
        if duration_ns:
            self._insert(start, start + duration_ns, room)
        return start

    def _first_fit(self, ready_ns: int, duration_ns: int, room: float) -> int:
        """The first of `ready_ns` and the ends of what has been placed at which the work finds room.

        All that overlaps with the work counts together, also what does not overlap with each other.
        """
        first = bisect_left(self._starts, ready_ns - self._longest_ns)  # what began before has ended by `ready_ns`
        free = CAPACITY + _FULL - room
        if self._used(first, ready_ns, ready_ns + duration_ns) <= free:
            return ready_ns
        return self._first_end_with_room(first, ready_ns, duration_ns, free)

    def _used(self, first: int, start_ns: int, end_ns: int) -> float:
        """Room that is taken in a time, by spans from the number `first` on."""
        past = bisect_left(self._starts, end_ns)
        spans = zip(self._ends[first:past], self._rooms[first:past], strict=True)
        return sum(room for end, room in spans if end > start_ns)

    def _first_end_with_room(self, first: int, ready_ns: int, duration_ns: int, free: float) -> int:
        """In one pass over the ends: spans that have ended leave, and those that begin before the work's end come."""
        starts, rooms = self._starts[first:], self._rooms[first:]
        used, num_come, num_spans = 0.0, 0, len(starts)
        for end, room in sorted(zip(self._ends[first:], rooms, strict=True)):
            used -= room
            if end <= ready_ns:
                continue
            while num_come < num_spans and starts[num_come] < end + duration_ns:
                used += rooms[num_come]
                num_come += 1
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
        """For how much of a time, within the last second, the engine had anything to do.

        What has been dropped from the plan is known by its sums: exact over the whole of it, even within.
        """
        busy = _union_ns(zip(self._starts, self._ends, strict=True), begin_ns, end_ns)
        for start, end, amount in self._past:
            overlap = min(end, end_ns) - max(start, begin_ns)
            if overlap > 0:
                busy += amount * overlap // (end - start)
        return min(busy, end_ns - begin_ns)

    def _forget(self, now_ns: int) -> None:
        """Drop what has ended. Beyond a bound also the oldest plans: nothing may then start before they end."""
        if len(self._ends) < self._limit:
            return
        kept = [i for i, end in enumerate(self._ends) if end > now_ns]
        if len(kept) > _MAX_SPANS:
            dropped, kept = kept[: len(kept) // 2], kept[len(kept) // 2 :]
            self._floor_ns = max(self._floor_ns, *(self._ends[i] for i in dropped))
        self._remember(set(kept))
        self._starts = [self._starts[i] for i in kept]
        self._rooms = [self._rooms[i] for i in kept]
        self._ends = [self._ends[i] for i in kept]
        self._longest_ns = max((end - start for start, end in zip(self._starts, self._ends, strict=True)), default=0)
        self._limit = max(_MIN_SPANS, 2 * len(kept))

    def _remember(self, kept: set[int]) -> None:
        """Keep the sum of what is dropped, for a second."""
        gone = [(self._starts[i], self._ends[i]) for i in range(len(self._ends)) if i not in kept]
        if not gone:
            return
        start, end = gone[0][0], max(span[1] for span in gone)
        if end > start:
            self._past.append((start, end, _union_ns(gone, start, end)))
        while self._past and self._past[0][1] < end - _REMEMBERED_NS:
            self._past.popleft()


def _union_ns(spans: Iterable[tuple[int, int]], begin_ns: int, end_ns: int) -> int:
    """Length of the union of spans, ascending by start, within a time."""
    total, until = 0, begin_ns
    for start, end in spans:
        if end > until and start < end_ns:
            total += min(end, end_ns) - max(start, until)
            until = min(end, end_ns)
    return total
