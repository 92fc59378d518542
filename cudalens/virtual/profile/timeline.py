"""Compute the virtual start and end of each host row.

Runtime calls and the ends of handlers have virtual times: they are *anchors*. All other starts and ends on a thread are
spread evenly over the virtual time between two anchors, in their order. Real time is not used, so the same program gets
the same times in every run. Where the real time of the program's own code is measured, the starts and ends within it
are anchors too: they have their real distances.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cudalens.frames.column_arrays import Bools, Ints
from cudalens.virtual.profile.host_tree import HostTree
from cudalens.virtual.profile.pruning import ActPlaces, Pruned, Segment, locate_acts
from cudalens.virtual.profile.recorder import Call, MemoryAct

#: Kinds of moments: without a time; with a time; with a time that counts only if it is later than those before.
_FREE, _ANCHOR, _SOFT = 0, 1, 2

_FIRST, _LAST = np.iinfo(np.int64).min // 2, np.iinfo(np.int64).max // 2


@dataclass
class Placed:
    """The virtual times of rows and acts, on the run's clock.

    Attributes:
        begin_ns: Start of each place; shape (n,).
        end_ns: End of each place; shape (n,).
        acts: The acts in order, with their segments.
        act_ns: Start of each act; shape (num acts,).
        act_end_ns: End of each act; shape (num acts,).
        act_up: Place of the enclosing row of each act, or -1; shape (num acts,).
        act_tid: Thread id of each act; shape (num acts,).
        is_inside: Whether each place is within the record; shape (n,).
    """

    begin_ns: Ints
    end_ns: Ints
    acts: list[tuple[Segment, Call | MemoryAct]]
    act_ns: Ints
    act_end_ns: Ints
    act_up: Ints
    act_tid: Ints
    is_inside: Bools


@dataclass
class _Moments:
    """Moments of all threads: lane, key (order within the lane), second key, kind and time."""

    lane: list[Ints] = field(default_factory=list)
    key: list[Ints] = field(default_factory=list)
    sub: list[Ints] = field(default_factory=list)
    kind: list[Ints] = field(default_factory=list)
    time: list[Ints] = field(default_factory=list)

    def add(self, lane: Any, key: Any, kind: Any, time: Any = 0, sub: Any = 0) -> slice:
        """Add moments; returns their slice."""
        begin = sum(map(len, self.lane))
        lane = np.atleast_1d(np.asarray(lane, np.int64))
        for values, column in (
            (lane, self.lane),
            (key, self.key),
            (sub, self.sub),
            (kind, self.kind),
            (time, self.time),
        ):
            column.append(np.broadcast_to(np.asarray(values, np.int64), lane.shape))
        return slice(begin, begin + len(lane))

    def resolve(self) -> Ints:
        """Return the time of each moment."""
        lane, key, sub, kind, time = map(np.concatenate, (self.lane, self.key, self.sub, self.kind, self.time))
        order = np.lexsort((sub, key, lane))
        times = np.empty(len(order), np.int64)
        sorted_lane = lane[order]
        for at in np.split(np.arange(len(order)), np.flatnonzero(np.diff(sorted_lane)) + 1):
            times[order[at]] = spread(kind[order[at]], time[order[at]])
        return times


def spread(kind: Ints, time: Ints) -> Ints:
    """Return the times of one thread's moments, in their order; the first and the last are anchors.

    Args:
        kind: 0 for moments without a time, 1 for anchors, 2 for anchors that count only if they are later than those
            before; shape (n,).
        time: Times of the anchors, virtual ns; shape (n,).

    Returns:
        Ascending times, shape (n,): anchors keep their times (at least the previous anchor's), the others are spread
        evenly between.
    """
    hard = np.where(kind == _ANCHOR, time, _FIRST)
    so_far = np.maximum.accumulate(hard)
    counts = (kind == _ANCHOR) | ((kind == _SOFT) & (time > so_far))
    at = np.flatnonzero(counts)
    anchored = np.maximum.accumulate(time[at])
    index = np.arange(len(kind))
    left = np.searchsorted(at, index, side="right") - 1
    right = np.minimum(left + 1, len(at) - 1)
    steps = np.maximum(at[right] - at[left], 1)
    return anchored[left] + (anchored[right] - anchored[left]) * (index - at[left]) // steps


def place(tree: HostTree, pruned: Pruned, counts: Bools, names: Sequence[str], segments: Sequence[Segment]) -> Placed:
    """Compute the virtual times of all rows and acts.

    Args:
        tree: The host's rows.
        pruned: Which rows are shown.
        counts: The places that get a time; shape (n,). The times of the others are undefined.
        names: The name of the row at each place.
        segments: The recorded segments in order, at least one.
    """
    acts = [(segment, act) for segment in segments for act in segment.recorder.acts]
    where = locate_acts(tree, pruned, names, acts)
    moments = _Moments()
    every_lane = np.unique(np.concatenate([tree.lane.astype(np.int64), where.lane]))
    moments.add(every_lane, _FIRST, _ANCHOR, segments[0].recorder.start_ns + segments[0].offset_ns)
    moments.add(every_lane, _LAST, _ANCHOR, segments[-1].recorder.end_ns + segments[-1].offset_ns)
    shown = np.flatnonzero(counts)
    lanes = tree.lane[shown]
    begins = moments.add(lanes, 2 * tree.begin[shown], *_in_host_time(tree, segments, tree.real_begin[shown], lanes))
    ends = moments.add(lanes, 2 * tree.end[shown], *_in_host_time(tree, segments, tree.real_end[shown], lanes))
    for segment in segments:
        _add_handlers(moments, tree, segment)
        _add_host_times(moments, tree, segment)
        recorder = segment.recorder
        for mark, now in ((recorder.first_mark, recorder.start_ns), (recorder.last_mark, recorder.end_ns)):
            if (at := tree.place_of.get(mark)) is not None:
                moments.add(tree.lane[at], 2 * tree.begin[at], _ANCHOR, now + segment.offset_ns)
    starts, stops = _add_acts(moments, where, acts)
    times = moments.resolve()
    begin_ns, end_ns = np.zeros(len(tree), np.int64), np.zeros(len(tree), np.int64)
    begin_ns[shown], end_ns[shown] = times[begins], times[ends]
    return Placed(begin_ns, end_ns, acts, times[starts], times[stops], where.up, where.tid, _inside(tree, segments))


def _in_host_time(tree: HostTree, segments: Sequence[Segment], real: Ints, lane: Ints) -> tuple[Ints, Ints]:
    """Return the kinds and times of moments: those within measured time of the program's own code are anchors.

    Args:
        tree: The host's rows.
        segments: The recorded segments.
        real: The real times of the moments, ns on the profiler's clock; shape (n,).
        lane: Their threads; shape (n,).
    """
    kind, time = np.full(len(real), _FREE), np.zeros(len(real), np.int64)
    for segment in segments:
        place, start, end = _host_times(tree, segment)
        if not len(place):
            continue
        real_end = tree.real_begin[place]
        piece = np.minimum(np.searchsorted(real_end, real), len(place) - 1)
        before_end = real_end[piece] - real
        is_inside = (lane == tree.lane[place][piece]) & (before_end >= 0) & (before_end <= (end - start)[piece])
        kind[is_inside] = _ANCHOR
        time[is_inside] = (end[piece] - before_end)[is_inside]
    return kind, time


def _add_host_times(moments: _Moments, tree: HostTree, segment: Segment) -> None:
    """Add anchors for the start and the end of measured time of the program's own code, at the mark of its end."""
    places, start, end = _host_times(tree, segment)
    for sub, time in enumerate((start, end)):
        moments.add(tree.lane[places], 2 * tree.begin[places], _ANCHOR, time, sub)


def _host_times(tree: HostTree, segment: Segment) -> tuple[Ints, Ints, Ints]:
    """Return the place of the mark of each measured time, and its start and end on the run's clock."""
    known = [(tree.place_of[mark], *times) for mark, *times in segment.recorder.host_times if mark in tree.place_of]
    place, start, end = np.array(known, np.int64).reshape(-1, 3).T
    return place, start + segment.offset_ns, end + segment.offset_ns


def _add_handlers(moments: _Moments, tree: HostTree, segment: Segment) -> None:
    """Add anchors for a handler's end, and for its start if another thread advanced the clock before it."""
    recorder, place_of = segment.recorder, tree.place_of
    for moments_of, is_end in (([(number, now) for number, _, now in recorder.begun], False), (recorder.ended, True)):
        known = [(place_of[number], now) for number, now in moments_of if number in place_of]
        if known:
            places, times = np.array(known, np.int64).T
            keys = 2 * tree.end[places] if is_end else 2 * tree.begin[_outermost_start(tree, places)] - 1
            moments.add(tree.lane[places], keys, _ANCHOR if is_end else _SOFT, times + segment.offset_ns)


def _outermost_start(tree: HostTree, places: Ints) -> Ints:
    """The outermost row of the chain of directly nested starts that ends at each place."""
    begin, found = tree.begin, places.copy()
    while True:
        enclosing = tree.parent[found]
        moves_up = (enclosing >= 0) & (begin[enclosing] == begin[found] - 1)
        if not moves_up.any():
            return found
        found[moves_up] = enclosing[moves_up]


def _add_acts(
    moments: _Moments, where: ActPlaces, acts: Sequence[tuple[Segment, Call | MemoryAct]]
) -> tuple[slice, slice]:
    """Add runtime calls as anchors, allocator actions as moments without a time."""
    order = 2 * np.arange(len(acts), dtype=np.int64)
    is_call = np.array([isinstance(act, Call) for _, act in acts], bool)
    times = np.empty((len(acts), 2), np.int64)
    for i, (segment, act) in enumerate(acts):
        first, last = (act.start_ns, act.end_ns) if isinstance(act, Call) else (act.now_ns, act.now_ns)
        times[i] = first + segment.offset_ns, last + segment.offset_ns
    begin = sum(map(len, moments.lane))
    for kind, rows in ((_ANCHOR, is_call), (_FREE, ~is_call)):
        for column in (0, 1):
            moments.add(where.lane[rows], where.key[rows], kind, times[rows, column], order[rows] + column)
    return _slots(begin, is_call)


def _slots(begin: int, is_call: Bools) -> tuple[Any, Any]:
    """Return the indices of each act's start and end; calls come first."""
    num_calls, num_others = int(is_call.sum()), int((~is_call).sum())
    starts = np.empty(len(is_call), np.int64)
    starts[is_call] = begin + np.arange(num_calls)
    starts[~is_call] = begin + 2 * num_calls + np.arange(num_others)
    return starts, starts + np.where(is_call, num_calls, num_others)


def _inside(tree: HostTree, segments: Sequence[Segment]) -> Bools:
    """Return whether a place overlaps with a record, on the threads on which records started."""
    inside, begin, end = np.ones(len(tree), bool), tree.begin, tree.end
    bounds = [
        (tree.place_of.get(segment.recorder.first_mark), tree.place_of.get(segment.recorder.last_mark))
        for segment in segments
    ]
    for lane in {int(tree.lane[first]) for first, _ in bounds if first is not None}:
        here = tree.lane == lane
        overlaps = np.zeros(len(tree), bool)
        for first, last in bounds:
            if first is not None and tree.lane[first] == lane:
                overlaps |= (end > begin[first]) & (begin < (_LAST if last is None else end[last]))
        inside[here] = overlaps[here]
    return inside
