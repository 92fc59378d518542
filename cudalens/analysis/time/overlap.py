"""Communication beside computation: how much of it is hidden, for each device and for each collective."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis.ranked import ranked
from cudalens.analysis.time.groups import Ints, Lanes, in_step, integers, known, measured, numbered, share
from cudalens.analysis.time.idle_host import texts
from cudalens.analysis.time.temporal import temporal_breakdown
from cudalens.analysis.time.work import COMMUNICATION, COMPUTE, Work, device_work
from cudalens.frames import Trace

#: Bytes per element of torch's scalar types (c10/core/ScalarType.h), as its NCCL metadata writes them, lower case.
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
    """How much of each device's communication computation hides.

    Args:
        trace: Any Trace, or Ranks (then with a first column ``rank``).
        step: Only the work that this profiler step launched.

    Returns:
        A row per device that communicated, in order: ``device`` (Int64); ``num_collectives``; ``comm_ns``, the union of
        its collectives' kernels; ``overlap_ns``, of that, while a computing kernel ran on the same device;
        ``exposed_ns``, the rest (int64); ``overlap_pct`` of ``comm_ns``, ``exposed_pct`` of the device's span (Float64,
        ``<NA>`` where these are 0). Empty without communication. Definitions are those of `temporal_breakdown`.
    """
    work = in_step(trace, device_work(trace), step)
    parts = temporal_breakdown(trace, "device", step=step)
    is_comm = work.kind == COMMUNICATION
    parts = parts[parts["device"].isin(known(work.device[is_comm])).to_numpy(bool)].reset_index(drop=True)
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
    """How often each of `asked` stands in `values`, shape (len(asked),)."""
    ordered = np.sort(values)
    counts: Ints = np.searchsorted(ordered, asked, "right") - np.searchsorted(ordered, asked, "left")
    return counts


@ranked
def collectives(trace: Trace, *, step: int | None = None) -> pd.DataFrame:
    """Every communication kernel: how long, how much of it exposed, and how fast where the trace tells its size.

    A kernel of a collective also waits for the other ranks: its bandwidth is what the program got, not what the links
    can do.

    Args:
        trace: Any Trace, or Ranks (then with a first column ``rank``).
        step: Only the work that this profiler step launched.

    Returns:
        A row per communication kernel, by start. Columns:

        - ``event``: row of ``trace.events``; ``device``, ``stream``, ``step`` (Int64); ``ts``, ``dur`` (int64, ns);
          ``name``, ``collective``, ``process_group`` (category); ``group_size`` (Int64).
        - ``overlap_ns``: of ``dur``, while a computing kernel ran on the same device; ``exposed_ns``: the rest (int64).
        - ``num_bytes``: the size S of the message, after nccl-tests: elements times their size, of the larger of what a
          rank puts in and gets out (Int64, ``<NA>`` where elements or their dtype are not recorded).
        - ``algorithm_bytes_per_s``: S over ``dur``. ``bus_bytes_per_s``: that times the collective's factor
          (all-reduce 2(n-1)/n; all-gather, reduce-scatter, all-to-all (n-1)/n; broadcast, reduce, send, receive 1; n is
          the group's size), which compares with the speed of the links whatever n is. (Float64; ``<NA>`` where unknown
          or ``dur`` is 0) Source: NVIDIA/nccl-tests, doc/PERFORMANCE.md.
    """
    events = trace.events
    work = in_step(trace, device_work(trace), step)
    at = np.flatnonzero(work.kind == COMMUNICATION)
    rows, dur = work.rows[at], (work.end - work.start)[at]
    overlap = _beside_compute(work, at)
    size = _message_bytes(events.iloc[rows])
    group_size = integers(events["group_size"])[rows]
    speed = np.divide(size, dur / 1e9, out=np.full(len(rows), np.nan), where=(size >= 0) & (dur > 0))
    return pd.DataFrame(
        {
            "event": known(rows),
            "device": known(work.device[at]),
            "stream": known(work.stream[at]),
            "step": known(integers(events["step"])[rows]),
            "ts": work.start[at],
            "dur": dur,
            **{name: texts(events[name].array, rows) for name in ("name", "collective", "process_group")},
            "group_size": known(group_size),
            "overlap_ns": overlap,
            "exposed_ns": dur - overlap,
            "num_bytes": known(size),
            "algorithm_bytes_per_s": measured(speed),
            "bus_bytes_per_s": measured(speed * _bus_factors(events["collective"].array.take(rows), group_size)),
        }
    )


def _beside_compute(work: Work, at: Ints) -> Ints:
    """How long each of the pieces `at` ran while a computing kernel ran on its device, ns."""
    group, keys = numbered({"device": work.device})
    lanes = Lanes(work.start, work.end, group, len(keys))
    compute = lanes.union(work.kind == COMPUTE)
    length = lanes.times(compute.end) - lanes.times(compute.start)
    total = np.concatenate([[0], np.cumsum(length)])
    return _before(compute.start, compute.end, total, lanes, lanes.end[at]) - _before(
        compute.start, compute.end, total, lanes, lanes.start[at]
    )


def _before(start: Ints, end: Ints, total: Ints, lanes: Lanes, at: Ints) -> Ints:
    """Length of the intervals, or parts of them, before each coordinate."""
    if not len(start):
        return np.zeros(len(at), np.int64)
    place = np.searchsorted(start, at, side="right")
    last = np.maximum(place - 1, 0)
    inside = lanes.times(np.minimum(at, end[last])) - lanes.times(start[last])
    return np.where(place > 0, total[last] + inside, 0)


def _message_bytes(rows: pd.DataFrame) -> Ints:
    elements = np.maximum(integers(rows["in_elements"]), integers(rows["out_elements"]))
    dtypes = rows["message_dtype"].array
    item = np.array([_item_bytes(name) for name in dtypes.categories.tolist()] + [-1], np.int64)[dtypes.codes]
    return np.where((elements >= 0) & (item > 0), elements * item, -1)


def _item_bytes(dtype: str) -> int:
    name = dtype.lower().removeprefix("c10::")
    return 1 if name.startswith("float8") else _ITEM_BYTES.get(name, -1)


def _bus_factors(collective: pd.Categorical, group_size: Ints) -> NDArray[np.float64]:
    ranks = np.where(group_size > 0, group_size, np.nan).astype(np.float64)
    factors = np.full(len(ranks), np.nan)
    for code, name in enumerate(collective.categories.tolist()):
        if factor := _factor(name):
            mine = collective.codes == code
            factors[mine] = factor(ranks[mine])
    return factors


def _factor(collective: str) -> Any:
    """``_allgather_base``, ``all_gather_into_tensor_coalesced`` and their like all are all-gathers."""
    plain = collective.lower().replace("_", "")
    return next((factor for name, factor in _BUS_FACTOR.items() if name in plain), None)
