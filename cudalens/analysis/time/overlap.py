"""Overlap of communication and computation, for each device and for each collective."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis.ranked import ranked
from cudalens.analysis.time.breakdown import temporal_breakdown
from cudalens.analysis.time.groups import Intervals, Lanes, in_step, measured, numbered, share
from cudalens.analysis.time.idle import texts
from cudalens.analysis.time.work import COMMUNICATION, COMPUTE, Work, device_work
from cudalens.frames import Trace
from cudalens.frames.column_arrays import Ints, integers, map_texts, masked

#: Bytes per element of torch's scalar types (c10/core/ScalarType.h), by their names in NCCL metadata, lower case.
_ITEM_BYTES: Final = {
    "byte": 1,
    "char": 1,
    "bool": 1,
    "float8": 1,
    "short": 2,
    "half": 2,
    "bfloat16": 2,
    "int": 4,
    "float": 4,
    "long": 8,
    "double": 8,
    "complexfloat": 8,
    "complexdouble": 16,
}

#: Bus over algorithm bandwidth for n ranks: NVIDIA/nccl-tests, doc/PERFORMANCE.md.
_Factor = Callable[[NDArray[np.float64]], NDArray[np.float64]]
_BUS_FACTOR: Final[dict[str, _Factor]] = {
    "allreduce": lambda n: 2 * (n - 1) / n,
    "allgather": lambda n: (n - 1) / n,
    "reducescatter": lambda n: (n - 1) / n,
    "alltoall": lambda n: (n - 1) / n,
    "broadcast": np.ones_like,
    "reduce": np.ones_like,
    "send": np.ones_like,
    "recv": np.ones_like,
}


@ranked
def communication_overlap(trace: Trace, *, step: int | None = None) -> pd.DataFrame:
    """Return the part of each device's communication that overlaps computation.

    Args:
        trace: Any Trace, or Ranks (then with a first column ``rank``).
        step: Only the work that this profiler step launched.

    Returns:
        A row per device that communicated, in order: ``device`` (Int64); ``num_collectives``; ``comm_ns``, the union of
        its collectives' kernels; ``overlap_ns``, of that, while a computing kernel ran on the same device;
        ``exposed_ns``, the rest (int64); ``overlap_pct`` of ``comm_ns``, ``exposed_pct`` of the device's span (Float64,
        ``<NA>`` if these are 0). Empty without communication. Definitions are those of `temporal_breakdown`.
    """
    work = in_step(trace, device_work(trace), step)
    parts = temporal_breakdown(trace, "device", step=step)
    is_comm = work.kind == COMMUNICATION
    parts = parts[parts["device"].isin(masked(work.device[is_comm])).to_numpy(bool)].reset_index(drop=True)
    return pd.DataFrame(
        {
            "device": parts["device"],
            "num_collectives": numbers_of(work.device[is_comm], integers(parts["device"])),
            "comm_ns": parts["comm_ns"],
            "overlap_ns": parts["overlap_ns"],
            "exposed_ns": parts["exposed_comm_ns"],
            "overlap_pct": share(parts["overlap_ns"], parts["comm_ns"]),
            "exposed_pct": share(parts["exposed_comm_ns"], parts["span_ns"]),
        }
    )


def numbers_of(values: Ints, asked: Ints) -> Ints:
    """Return the number of occurrences of each of `asked` in `values`, shape (len(asked),)."""
    ordered = np.sort(values)
    counts: Ints = np.searchsorted(ordered, asked, "right") - np.searchsorted(ordered, asked, "left")
    return counts


@ranked
def collectives(trace: Trace, *, step: int | None = None) -> pd.DataFrame:
    """Return every communication kernel: its duration, its exposed part, and its bandwidth if its size is recorded.

    A kernel of a collective also waits for the other ranks: its bandwidth is that of the program, not that of the
    links.

    Args:
        trace: Any Trace, or Ranks (then with a first column ``rank``).
        step: Only the work that this profiler step launched.

    Returns:
        A row per communication kernel, by start. Columns:

        - ``event``: row of ``trace.events``; ``device``, ``stream``, ``step`` (Int64); ``ts``, ``dur`` (int64, ns);
          ``name``, ``collective``, ``process_group`` (category); ``group_size`` (Int64).
        - ``overlap_ns``: of ``dur``, while a computing kernel ran on the same device; ``exposed_ns``: the rest (int64).
        - ``num_bytes``: the size S of the message, after nccl-tests: elements times their size, the larger of the input
          and the output of a rank (Int64, ``<NA>`` if elements or their dtype are not recorded).
        - ``algorithm_bytes_per_s``: S over ``dur``. ``bus_bytes_per_s``: that times the collective's factor
          (all-reduce 2(n-1)/n; all-gather, reduce-scatter, all-to-all (n-1)/n; broadcast, reduce, send, receive 1; n is
          the group's size), which is comparable with the speed of the links for any n. (Float64; ``<NA>`` if unknown or
          ``dur`` is 0) Source: NVIDIA/nccl-tests, doc/PERFORMANCE.md.
    """
    events = trace.events
    work = in_step(trace, device_work(trace), step)
    at = np.flatnonzero(work.kind == COMMUNICATION)
    rows, dur = work.rows[at], (work.end - work.start)[at]
    overlap = _beside_compute(work, at)
    size = message_bytes(events.iloc[rows])
    group_size = integers(events["group_size"])[rows]
    speed = np.divide(size, dur / 1e9, out=np.full(len(rows), np.nan), where=(size >= 0) & (dur > 0))
    return pd.DataFrame(
        {
            "event": masked(rows),
            "device": masked(work.device[at]),
            "stream": masked(work.stream[at]),
            "step": masked(integers(events["step"])[rows]),
            "ts": work.start[at],
            "dur": dur,
            **{name: texts(events[name].array, rows) for name in ("name", "collective", "process_group")},
            "group_size": masked(group_size),
            "overlap_ns": overlap,
            "exposed_ns": dur - overlap,
            "num_bytes": masked(size),
            "algorithm_bytes_per_s": measured(speed),
            "bus_bytes_per_s": measured(speed * bus_factors(events["collective"].array.take(rows), group_size)),
        }
    )


def _beside_compute(work: Work, at: Ints) -> Ints:
    """Return the time of each of the pieces `at` during which a computing kernel ran on its device, ns."""
    group, keys = numbered({"device": work.device})
    lanes = Lanes(work.start, work.end, group, len(keys))
    compute = lanes.union(work.kind == COMPUTE)
    return _before(compute, lanes, lanes.end[at]) - _before(compute, lanes, lanes.start[at])


def _before(intervals: Intervals, lanes: Lanes, at: Ints) -> Ints:
    """Length of the intervals, or parts of them, before each coordinate, ns."""
    if not len(intervals.start):
        return np.zeros(len(at), np.int64)
    total = np.concatenate([[0], np.cumsum(lanes.times(intervals.end) - lanes.times(intervals.start))])
    place = np.searchsorted(intervals.start, at, side="right")
    last = np.maximum(place - 1, 0)
    inside = lanes.times(np.minimum(at, intervals.end[last])) - lanes.times(intervals.start[last])
    return np.where(place > 0, total[last] + inside, 0)


def message_bytes(rows: pd.DataFrame) -> Ints:
    """Size of the message of each row: elements times their size; -1 if unknown."""
    elements = np.maximum(integers(rows["in_elements"]), integers(rows["out_elements"]))
    dtypes = rows["message_dtype"].array
    item = map_texts(dtypes, _item_bytes, -1)
    return np.where((elements >= 0) & (item > 0), elements * item, -1)


def _item_bytes(dtype: str) -> int:
    name = dtype.lower().removeprefix("c10::")
    return 1 if name.startswith("float8") else _ITEM_BYTES.get(name, -1)


def bus_factors(collective: pd.Categorical, group_size: Ints) -> NDArray[np.float64]:
    """Bus over algorithm bandwidth of each collective, by its name and the size of its group; NaN if unknown."""
    ranks = np.where(group_size > 0, group_size, np.nan).astype(np.float64)
    factors = np.full(len(ranks), np.nan)
    for code, name in enumerate(collective.categories.tolist()):
        if factor := _factor(name):
            mine = collective.codes == code
            factors[mine] = factor(ranks[mine])
    return factors


def _factor(collective: str) -> Any:
    """The factor of a collective; ``_allgather_base`` and ``all_gather_into_tensor_coalesced`` are all-gathers."""
    plain = collective.lower().replace("_", "")
    return next((factor for name, factor in _BUS_FACTOR.items() if name in plain), None)
