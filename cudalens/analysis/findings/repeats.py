"""Find the sequence of kernels that a run repeats, and the stretches of device work in which it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from cudalens.analysis.event_arrays import Ints

if TYPE_CHECKING:
    from cudalens.analysis.findings.trace_arrays import TraceArrays

#: Shorter sequences are loops over elements, which are too small for a graph.
_MIN_PERIOD: Final = 8

_MIN_TIMES: Final = 3

#: Of all kernels: a smaller part does not characterize the run.
_MIN_MATCH: Final = 0.5

_MAX_CANDIDATES: Final = 40


@dataclass(frozen=True)
class Repeat:
    """A sequence of kernels that repeats on one stream.

    Attributes:
        period: Number of kernels in it.
        times: How often it runs, in all stretches together.
        first: Index of its first kernel, in the device work.
        start: Start of each stretch of repeats, ns.
        end: End of each stretch, ns.
        has_same_grids: Whether launch grids repeat as well.
        has_graphs: Whether CUDA graphs launched it.
        at: Indices of all its kernels in the device work, shape (n,).
        number: The number of the repeat of each, shape (n,).
    """

    period: int
    times: int
    first: int
    start: Ints
    end: Ints
    has_same_grids: bool
    has_graphs: bool
    at: Ints
    number: Ints


def find_repeat(arrays: TraceArrays) -> Repeat | None:
    """The shortest sequence that repeats through most of the kernels of the busiest stream; None if none does.

    A period is tried if several names recur at that distance. It holds in the stretches in which each kernel has the
    name of the kernel one period before it. These must be at least `_MIN_TIMES` periods long, and have half of all
    kernels together.
    """
    work = arrays.work
    streams, counts = np.unique(work.stream, return_counts=True)
    if not len(streams):
        return None
    at = np.flatnonzero(work.stream == streams[np.argmax(counts)])
    codes = arrays.events["name"].array.codes[work.rows[at]].astype(np.int64)
    for period in _candidates(codes):
        first, last = _stretches(codes, period)
        if (last - first).sum() >= _MIN_MATCH * len(codes):
            return _repeat(arrays, at, period, first, last)
    return None


def _candidates(codes: Ints) -> list[int]:
    """Distances at which names recur, shortest first, of those that most names have."""
    order = np.argsort(codes, kind="stable")
    same = codes[order][1:] == codes[order][:-1]
    distance = np.diff(order)[same]
    # A shorter sequence is part of a longer one that repeats as well.
    distance = np.where(distance < _MIN_PERIOD, -(-_MIN_PERIOD // distance) * distance, distance)
    distance = distance[(distance >= _MIN_PERIOD) & (distance * _MIN_TIMES <= len(codes))]
    found, counts = np.unique(distance, return_counts=True)
    best = np.argsort(-counts * found, kind="stable")[:_MAX_CANDIDATES]
    return sorted(found[best].tolist())


def _stretches(codes: Ints, period: int) -> tuple[Ints, Ints]:
    """First kernel, and one past the last, of each stretch that repeats with `period` at least `_MIN_TIMES` times."""
    match = np.concatenate([[False], codes[period:] == codes[:-period], [False]])
    edges = np.flatnonzero(np.diff(match.astype(np.int8)))
    first, last = edges[::2], edges[1::2] + period
    some = last - first >= _MIN_TIMES * period
    return first[some], last[some]


def _repeat(arrays: TraceArrays, at: Ints, period: int, first: Ints, last: Ints) -> Repeat:
    work, events = arrays.work, arrays.events
    grids = events["grid"].array.codes[work.rows[at]]
    begin, end = int(first[0]), int(last[0])
    same = bool((grids[begin + period : end] == grids[begin : end - period]).all())
    graphs = events["graph_id"].array[work.rows[at[begin:end]]]
    launch = work.launch[at[begin : begin + period]]
    return Repeat(
        period,
        int(((last - first) // period).sum()),
        int(at[begin]),
        work.start[at[first]],
        np.maximum.accumulate(work.end[at[last - 1]]),
        same,
        bool((~graphs.isna()).any() or len(np.unique(launch)) < len(launch) / 2),
        *_members(at, period, first, last),
    )


def _members(at: Ints, period: int, first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """All kernels of the stretches, and the number of the repeat of each."""
    within = [np.arange(a, b) for a, b in zip(first, last, strict=True)]
    of = [np.arange(b - a) // period for a, b in zip(first, last, strict=True)]
    begins = np.cumsum([0, *(int(numbers[-1]) + 1 for numbers in of[:-1])])
    return at[np.concatenate(within)], np.concatenate([n + k for n, k in zip(of, begins, strict=True)])
