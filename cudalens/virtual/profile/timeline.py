"""From places to virtual times: when each of the host's rows begins and ends on the virtual clock.

Runtime calls and the ends of handlers have virtual times: they are *anchors*. Everything else that happens on a thread,
between two anchors, is spread evenly over the virtual time between them, in its order. Real time has no say in it, so
that the same program gets the same times, run after run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cudalens.virtual.profile.host_positions import ActPlaces, Segment, locate_acts
from cudalens.virtual.profile.host_tree import HostTree
from cudalens.virtual.profile.pruning import Pruned
from cudalens.virtual.profile.recorder import Call, MemoryAct

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: A moment without a time of its own; one with; one with, where it is later than what came before.
_FREE, _ANCHOR, _SOFT = 0, 1, 2

_FIRST, _LAST = np.iinfo(np.int64).min // 2, np.iinfo(np.int64).max // 2


@dataclass
class Placed:
    """When and where everything happened, on the run's clock.

    Attributes:
        begin_ns: Of each place; shape (n,).
        end_ns: Of each place; shape (n,).
        acts: What the host did, in order, with its segment.
        act_ns: When each act began; shape (num acts,).
        act_end_ns: When it ended; shape (num acts,).
        act_up: Place of the row that encloses each act, or -1; shape (num acts,).
        act_tid: The system's number of each act's thread; shape (num acts,).
        is_inside: Whether each place lies within the record; shape (n,).
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
    """Moments of all threads: lane, key (order within the lane), second key, kind, time, and whose they are."""

    lane: list[Ints] = field(default_factory=list)
    key: list[Ints] = field(default_factory=list)
    sub: list[Ints] = field(default_factory=list)
    kind: list[Ints] = field(default_factory=list)
    time: list[Ints] = field(default_factory=list)

    def add(self, lane: Any, key: Any, kind: int, time: Any = 0, sub: Any = 0) -> slice:
        """Add moments; returns where they stand."""
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
        """The time of each moment."""
        lane, key, sub, kind, time = map(np.concatenate, (self.lane, self.key, self.sub, self.kind, self.time))
        order = np.lexsort((sub, key, lane))
        times = np.empty(len(order), np.int64)
        sorted_lane = lane[order]
        for at in np.split(np.arange(len(order)), np.flatnonzero(np.diff(sorted_lane)) + 1):
            times[order[at]] = spread(kind[order[at]], time[order[at]])
        return times


def spread(kind: Ints, time: Ints) -> Ints:
    """The times of one thread's moments, in their order; the first and the last are anchors.

    Args:
        kind: 0 for moments without a time, 1 for anchors, 2 for anchors that count where they are later than those
            before; shape (n,).
        time: Of the anchors, virtual ns; shape (n,).

    Returns:
        Ascending times, shape (n,): those of anchors as they are (an earlier one than before counts as that), the
        others at even steps between.
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
    found: Ints = anchored[left] + (anchored[right] - anchored[left]) * (index - at[left]) // steps
    return found


def place(tree: HostTree, pruned: Pruned, counts: Bools, names: Sequence[str], segments: Sequence[Segment]) -> Placed:
    """Give everything its virtual time.

    Args:
        tree: The host's rows.
        pruned: Which of them are shown.
        counts: The places that get a moment of their own; shape (n,). The times of the others mean nothing.
        names: Name of the row at each place.
        segments: What was recorded, in order, at least one.
    """
    acts = [(segment, act) for segment in segments for act in segment.recorder.acts]
    where = locate_acts(tree, pruned, names, acts)
    moments = _Moments()
    every_lane = np.unique(np.concatenate([tree.lane.astype(np.int64), where.lane]))
    moments.add(every_lane, _FIRST, _ANCHOR, segments[0].recorder.start_ns + segments[0].offset_ns)
    moments.add(every_lane, _LAST, _ANCHOR, segments[-1].recorder.end_ns + segments[-1].offset_ns)
    shown = np.flatnonzero(counts)
    begins = moments.add(tree.lane[shown], 2 * tree.begin[shown], _FREE)
    ends = moments.add(tree.lane[shown], 2 * tree.end[shown], _FREE)
    for segment in segments:
        _add_handlers(moments, tree, segment)
        _add_bounds(moments, tree, segment)
    starts, stops = _add_acts(moments, where, acts)
    times = moments.resolve()
    begin_ns, end_ns = np.zeros(len(tree), np.int64), np.zeros(len(tree), np.int64)
    begin_ns[shown], end_ns[shown] = times[begins], times[ends]
    return Placed(begin_ns, end_ns, acts, times[starts], times[stops], where.up, where.tid, _inside(tree, segments))


def _add_handlers(moments: _Moments, tree: HostTree, segment: Segment) -> None:
    """A handler's end is an anchor; so is what began with it, where another thread moved the clock before."""
    recorder, place_of = segment.recorder, tree.place_of
    for told, is_end in (([(number, now) for number, _, now in recorder.begun], False), (recorder.ended, True)):
        known = [(place_of[number], now) for number, now in told if number in place_of]
        if known:
            places, times = np.array(known, np.int64).T
            keys = 2 * tree.end[places] if is_end else 2 * tree.begin[_outermost_beginning(tree, places)] - 1
            moments.add(tree.lane[places], keys, _ANCHOR if is_end else _SOFT, times + segment.offset_ns)


def _outermost_beginning(tree: HostTree, places: Ints) -> Ints:
    """The outermost of the rows that began one right after the other until each place began."""
    begin, found = tree.begin, places.copy()
    while True:
        above = tree.parent[found]
        climbs = (above >= 0) & (begin[above] == begin[found] - 1)
        if not climbs.any():
            return found
        found[climbs] = above[climbs]


def _add_bounds(moments: _Moments, tree: HostTree, segment: Segment) -> None:
    recorder = segment.recorder
    for mark, now in ((recorder.first_mark, recorder.start_ns), (recorder.last_mark, recorder.end_ns)):
        if (at := tree.place_of.get(mark)) is not None:
            moments.add(tree.lane[at], 2 * tree.begin[at], _ANCHOR, now + segment.offset_ns)


def _add_acts(
    moments: _Moments, where: ActPlaces, acts: Sequence[tuple[Segment, Call | MemoryAct]]
) -> tuple[slice, slice]:
    """Runtime calls are anchors, actions of the allocator are not."""
    order = 2 * np.arange(len(acts), dtype=np.int64)
    is_call = np.array([isinstance(act, Call) for _, act in acts], bool)
    times = np.array([_times_of(*item) for item in acts], np.int64).reshape(len(acts), 2)
    begin = sum(map(len, moments.lane))
    for kind, rows in ((_ANCHOR, is_call), (_FREE, ~is_call)):
        for column in (0, 1):
            moments.add(where.lane[rows], where.key[rows], kind, times[rows, column], order[rows] + column)
    return _slots(begin, is_call)


def _slots(begin: int, is_call: Bools) -> tuple[Any, Any]:
    """Where the moments of each act's start and end stand, calls having come first."""
    num_calls, num_others = int(is_call.sum()), int((~is_call).sum())
    starts = np.empty(len(is_call), np.int64)
    starts[is_call] = begin + np.arange(num_calls)
    starts[~is_call] = begin + 2 * num_calls + np.arange(num_others)
    return starts, starts + np.where(is_call, num_calls, num_others)


def _times_of(segment: Segment, act: Call | MemoryAct) -> tuple[int, int]:
    if isinstance(act, Call):
        return act.start_ns + segment.offset_ns, act.end_ns + segment.offset_ns
    return act.now_ns + segment.offset_ns, act.now_ns + segment.offset_ns


def _inside(tree: HostTree, segments: Sequence[Segment]) -> Bools:
    """What lies within a record, or at least overlaps with one, on the threads where records began."""
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
