"""Costs by name, the breakdown of each device by kind of work, and the overlap of communication."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis.cached import ranked
from cudalens.analysis.event_arrays import nearest
from cudalens.analysis.time.groups import (
    Intervals,
    Lanes,
    in_step,
    intersect,
    length,
    measured,
    numbered,
    quantiles,
    share,
    steps_of,
    subtract,
    sums,
    union,
    unite,
)
from cudalens.analysis.time.idle import texts
from cudalens.analysis.time.work import COMMUNICATION, COMPUTE, KINDS, MEMORY, Work, device_work, is_communication
from cudalens.errors import invalid_choice
from cudalens.frames import GPU_ACTIVITIES, Trace, categorical
from cudalens.frames.column_arrays import Bools, Ints, integers, is_category, map_texts, masked
from cudalens.gpus.time_formulas import COLLECTIVE_PASSES, bus_factor

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
    **{name.replace("_", ""): partial(bus_factor, name) for name in COLLECTIVE_PASSES},
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
    return np.searchsorted(ordered, asked, "right") - np.searchsorted(ordered, asked, "left")


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
    # The time of each of the pieces `at` during which a computing kernel ran on its device, ns.
    group, keys = numbered({"device": work.device})
    lanes = Lanes(work.start, work.end, group, len(keys))
    compute = lanes.union(work.kind == COMPUTE)
    overlap = _before(compute, lanes, lanes.end[at]) - _before(compute, lanes, lanes.start[at])
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


# Costs by name, of device work and of operators, and the breakdown of each device's time by kind of work.

#: Keys for groups of device work.
KEYS: Final = ("name", "kind", "device", "stream", "step", "grid", "block_dim")


@ranked
def kernel_breakdown(trace: Trace, by: Sequence[str] = ("name", "kind"), *, step: int | None = None) -> pd.DataFrame:
    """Device work (kernels, copies and sets) by name, most expensive first.

    Args:
        trace: Any Trace, or Ranks (then with a first column ``rank``).
        by: Columns to group by: some of ``name``, ``kind`` (compute, communication, memory), ``device``, ``stream``,
            ``step``, ``grid``, ``block_dim``.
        step: Only the work that this profiler step launched.

    Returns:
        A row per group, by ``total_ns`` descending: the keys; ``count``; ``total_ns``, the *sum* of the durations,
        concurrent or not (int64); ``mean_ns``, ``median_ns``, ``p95_ns`` (Float64; quantiles linear between
        neighbours); ``min_ns``, ``max_ns`` (int64); ``share_pct``, of the sum of all rows (Float64, ``<NA>`` if that is
        0); ``longest``, the row of the longest (Int64). Empty without device work.

    Raises:
        ValueError: `by` is empty or has an unknown key.
    """
    if isinstance(by, str) or not by or set(by) - set(KEYS):
        raise ValueError(f"invalid value for by: {by!r}; expected a list of one or more of {', '.join(KEYS)}")
    work = in_step(trace, device_work(trace), step)
    group, keys = numbered({key: _key(trace, work, key) for key in by})
    costs = _costs(work.end - work.start, group, len(keys))
    longest = _longest(work, group, len(keys))
    for key in {"device", "stream", "step"}.intersection(by):
        keys[key] = masked(keys[key].to_numpy())
    frame = pd.DataFrame({**keys, **costs, "longest": masked(longest)})
    return frame.sort_values("total_ns", ascending=False, kind="stable", ignore_index=True)


def _key(trace: Trace, work: Work, key: str) -> Any:
    if key == "kind":
        return categorical(work.kind, list(KINDS))
    if key == "step":
        return steps_of(trace, work)
    if key in ("device", "stream"):
        return getattr(work, key)
    return trace.events[key].array.take(work.rows).remove_unused_categories()


def _longest(work: Work, group: Ints, num_groups: int) -> Ints:
    order = np.lexsort((-work.rows, work.end - work.start))  # the last one written is the longest, then the first
    rows = np.full(num_groups, -1, np.int64)
    rows[group[order]] = work.rows[order]
    return rows


def _costs(durations: Ints, group: Ints, n: int) -> dict[str, Any]:
    count, total = np.bincount(group, minlength=n), sums(durations, group, n)
    low, median, p95, high = quantiles(durations, group, n, (0, 0.5, 0.95, 1))
    return {
        "count": count,
        "total_ns": total,
        "mean_ns": measured(np.divide(total, count, out=np.full(n, np.nan), where=count > 0)),
        "median_ns": measured(median),
        "p95_ns": measured(p95),
        "min_ns": np.nan_to_num(low).astype(np.int64),
        "max_ns": np.nan_to_num(high).astype(np.int64),
        "share_pct": share(total, total.sum()),
    }


@ranked
def op_breakdown(trace: Trace, *, step: int | None = None) -> pd.DataFrame:
    """Operators by name, with the device work that they launched; most device time first.

    Device work belongs to the operators (``cpu_op``) around the call that launched it.

    Args:
        trace: Any Trace, or Ranks (then with a first column ``rank``).
        step: Only operators, and the work of launches, of this profiler step.

    Returns:
        A row per operator name (category). Columns: ``count``; host time, ns: ``host_ns``, sum of durations of those
        outside operators of the same name (recursion counts once), ``host_self_ns``, sum of self times (int64);
        ``mean_ns``, ``median_ns``, ``p95_ns`` of the durations of all (Float64). Device time, ns (int64, sums of
        durations): ``gpu_ns``, of all work launched within an operator of that name, each piece once; ``gpu_self_ns``,
        of the work for which it is the innermost operator; these add up to all device time of operators.
        ``gpu_self_pct``: share of all device time (Float64). ``num_work``: pieces of work for which it is the
        innermost. ``flops``: sum over those outside operators of the same name (Int64, ``<NA>`` if unknown). The row
        with a missing name has the device time that no operator launched, if there is any (its ``count`` is 0). By
        ``gpu_self_ns``, then ``host_self_ns``, descending.
    """
    events = trace.events
    tree = _Operators(trace, step)
    work = in_step(trace, device_work(trace), step)
    names = events["name"].array
    used, code = np.unique(names.codes[tree.rows], return_inverse=True)
    n = len(used) + 1  # the last is for work of no operator
    dur = events["dur"].to_numpy()[tree.rows]
    gpu, gpu_self, num_work = tree.device_time(work, np.append(code, n - 1), n)
    outer = tree.is_outermost(code)
    host = {
        "host_ns": sums(np.where(outer, dur, 0), code, n),
        "host_self_ns": sums(events["self_dur"].to_numpy()[tree.rows], code, n),
    }
    costs = _costs(dur, code, n)
    flops = events["flops"].array[tree.rows]
    has_flops = ~np.asarray(flops.isna())
    total = sums(np.where(has_flops & outer, integers(flops, 0), 0), code, n)
    some = np.bincount(code[has_flops], minlength=n) > 0
    frame = pd.DataFrame(
        {
            "name": categorical(np.append(np.arange(n - 1), -1), names.categories[used].tolist()),
            "count": costs["count"],
            **host,
            **{name: costs[name] for name in ("mean_ns", "median_ns", "p95_ns")},
            "gpu_ns": gpu,
            "gpu_self_ns": gpu_self,
            "gpu_self_pct": share(gpu_self, gpu_self.sum()),
            "num_work": num_work,
            "flops": masked(np.where(some, total, -1)),
        }
    )
    frame = frame[(frame["count"] > 0) | (frame["num_work"] > 0)]
    return frame.sort_values(["gpu_self_ns", "host_self_ns"], ascending=False, kind="stable", ignore_index=True)


class _Operators:
    """The operators of a Trace, numbered, and the operator around each."""

    def __init__(self, trace: Trace, step: int | None) -> None:
        events = trace.events
        is_op = is_category(events["cat"].array, ("cpu_op",)) & ~events["is_instant"].to_numpy()
        if step is not None:
            is_op &= integers(events["step"]) == step
        self.rows = np.flatnonzero(is_op)
        number = np.full(len(events) + 1, -1, np.int64)
        number[self.rows] = np.arange(len(self.rows))
        self._around = number[enclosing(integers(events["parent"]), is_op)]
        self.above = self._around[self.rows]
        self._around[self.rows] = np.arange(len(self.rows))

    def of_launches(self, launch: Ints) -> Ints:
        """Return the number of the innermost operator around each launch, -1 for none."""
        return np.append(self._around, -1)[launch]

    def is_outermost(self, code: Ints) -> Bools:
        """Return whether each operator is outside operators of the same name."""
        outermost, above = np.ones(len(code), bool), self.above.copy()
        going = np.flatnonzero(above >= 0)
        while len(going):
            same = code[above[going]] == code[going]
            outermost[going[same]] = False
            going = going[~same]
            above[going] = self.above[above[going]]
            going = going[above[going] >= 0]
        return outermost

    def device_time(self, work: Work, code: Ints, n: int) -> tuple[Ints, Ints, Ints]:
        """Device time within each name, device time of the name itself, and its pieces; shape (n,) each.

        Args:
            work: Device work.
            code: The name of each operator, and at the end that for no operator, 0 to `n` - 1.
            n: Number of names.
        """
        own = self.of_launches(work.launch)
        duration = work.end - work.start
        per_op = sums(duration, np.where(own >= 0, own, len(self.rows)), len(self.rows) + 1)
        number = np.bincount(code[own], minlength=n)
        # Go up from all operators that launched work at once, and counts each name once for each of them.
        source = np.flatnonzero(per_op)
        at, pairs = np.where(source < len(self.rows), source, -1), []
        while len(source):
            pairs.append(source * n + code[at])
            source, at = source[at >= 0], at[at >= 0]
            at = self.above[at]
            source, at = source[at >= 0], at[at >= 0]
        pair = np.unique(np.concatenate(pairs)) if pairs else np.empty(0, np.int64)
        return sums(per_op[pair // n], pair % n, n), sums(duration, code[own], n), number


def enclosing(parent: Ints, flags: Bools) -> Ints:
    """Return the nearest flagged row around each row, itself excluded; -1 for none. Shape (n,)."""
    return np.append(nearest(flags, parent), -1)[parent]


FIELDS: Final = (
    "span_ns",
    "busy_ns",
    "idle_ns",
    "comp_ns",
    "comm_ns",
    "mem_ns",
    "exposed_comm_ns",
    "exposed_mem_ns",
    "overlap_ns",
    "sum_ns",
)


def device_time(trace: Trace) -> pd.Series:
    """Return the time of the devices of `trace` by kind of work, exact in integer nanoseconds.

    Device work is every kernel, copy (``gpu_memcpy``) and set (``gpu_memset``); annotations, synchronisations and
    overhead are not work. Of the kernels, *comm* are those of communication libraries, by their names
    (`cudalens.analysis.time.work`), *comp* all others; *mem* is copies and sets. The time of a set of work is the
    length of the union of its intervals, over all streams and devices of the trace together, so that concurrent work
    counts once:

    - ``span_ns``: from the first start to the last end of device work.
    - ``busy_ns``: time of all work. ``idle_ns``: ``span_ns`` less ``busy_ns``.
    - ``comp_ns``, ``comm_ns``, ``mem_ns``: time of comp, comm, mem.
    - ``exposed_comm_ns``: time of comm outside of comp. ``exposed_mem_ns``: time of mem outside of comp and comm.
    - ``overlap_ns``: time of comm within comp.
    - ``sum_ns``: sum of the durations of all work, concurrent or not.

    Returns:
        A Series of dtype Int64 with these entries in this order, all ``<NA>`` without device work.
    """
    events = trace.events
    kernel = is_category(events["cat"].array, ("kernel",))
    work = is_category(events["cat"].array, GPU_ACTIVITIES) & ~events["is_instant"].to_numpy()
    if not work.any():
        return pd.Series(pd.NA, index=list(FIELDS), dtype="Int64", name="device_time")
    start = events["ts"].to_numpy()
    end = start + events["dur"].to_numpy()
    comm_name = is_communication(events["name"].array)
    busy, comp, comm, mem = (
        union(start[rows], end[rows])
        for rows in (work, work & kernel & ~comm_name, work & kernel & comm_name, work & ~kernel)
    )
    span = int(end[work].max() - start[work].min())
    values = (span, length(busy), span - length(busy), *_by_kind(comp, comm, mem), int((end - start)[work].sum()))
    return pd.Series(values, index=list(FIELDS), dtype="Int64", name="device_time")


def _by_kind(comp: Intervals, comm: Intervals, mem: Intervals) -> tuple[int, ...]:
    exposed_mem = subtract(mem, unite(comp, comm))
    parts = (comp, comm, mem, subtract(comm, comp), exposed_mem, intersect(comm, comp))
    return tuple(length(part) for part in parts)


By = Literal["device", "stream", "step"]
_PARTS: Final = ("comp", "exposed_comm", "exposed_mem", "idle")


@ranked
def temporal_breakdown(trace: Trace, by: By | None = None, *, step: int | None = None) -> pd.DataFrame:
    """Return the time of the devices by kind of work, exact in integer nanoseconds.

    The definitions are those of `cudalens.analysis.device_time`, applied to each group of device work separately: the
    time of a set of work is the length of the union of its intervals, so that concurrent work counts once. In every
    row ``busy_ns + idle_ns == span_ns`` and ``comp_ns + exposed_comm_ns + exposed_mem_ns == busy_ns``.

    Args:
        trace: Any Trace, or Ranks (then with a first column ``rank``).
        by: None for one row over all devices and streams, whose numbers are those of `device_time`; ``"device"`` for a
            row per device, ``"stream"`` per device and stream, ``"step"`` per profiler step (work belongs to the step
            that launched it; ``<NA>`` is work outside steps).
        step: Only the work that this profiler step launched.

    Returns:
        A row per group, in order of its keys; empty without device work. Columns: the keys (``device``, ``stream``,
        ``step``; Int64, ``<NA>`` if unknown); ``start_ns``, start of its first work, on the events' clock;
        ``num_work``, its pieces of work; then, int64 ns:

        - ``span_ns``: from its first start to its last end. ``busy_ns``: union of all its work. ``idle_ns``: the rest.
        - ``comp_ns``, ``comm_ns``, ``mem_ns``: union of its computing kernels, of its collectives' kernels
          (``^nccl.*Kernel``), of its copies and sets.
        - ``exposed_comm_ns``: comm outside of comp. ``exposed_mem_ns``: mem outside of comp and comm.
          ``overlap_ns``: comm within comp. ``sum_ns``: plain sum of durations.

        and ``comp_pct``, ``exposed_comm_pct``, ``exposed_mem_pct``, ``idle_pct``: Float64, of the span; together 100;
        ``<NA>`` if the span is 0.

    Raises:
        ValueError: `by` is unknown.
    """
    if by not in (None, *get_args(By)):
        raise invalid_choice("by", by, (None, *get_args(By)))
    return breakdown_of(trace, in_step(trace, device_work(trace), step), by)


def breakdown_of(trace: Trace, work: Work, by: By | None = None) -> pd.DataFrame:
    """`temporal_breakdown` of the pieces of `work`."""
    if by:
        group, keys = numbered(_keys(trace, work, by))
    else:  # one group of all
        group, keys = np.zeros(len(work.rows), np.int64), pd.DataFrame(index=range(min(len(work.rows), 1)))
    times = _times(work, group, len(keys))
    shares = {f"{part}_pct": share(times[f"{part}_ns"], times["span_ns"]) for part in _PARTS}
    ids = {name: masked(keys[name].to_numpy()) for name in keys}
    return pd.DataFrame({**ids, **times, **shares})


def _keys(trace: Trace, work: Work, by: By) -> dict[str, Ints]:
    if by == "step":
        return {"step": steps_of(trace, work)}
    keys = {"device": work.device}
    return keys | {"stream": work.stream} if by == "stream" else keys


def _times(work: Work, group: Ints, num_groups: int) -> dict[str, Any]:
    lanes = Lanes(work.start, work.end, group, num_groups)
    busy = lanes.lengths(lanes.union())
    comp, comm, mem = (lanes.union(work.kind == kind) for kind in (COMPUTE, COMMUNICATION, MEMORY))
    first = np.full(num_groups, np.iinfo(np.int64).max)
    last = np.full(num_groups, np.iinfo(np.int64).min)
    np.minimum.at(first, group, work.start)
    np.maximum.at(last, group, work.end)
    return {
        "start_ns": first,
        "num_work": np.bincount(group, minlength=num_groups),
        "span_ns": last - first,
        "busy_ns": busy,
        "idle_ns": last - first - busy,
        "comp_ns": lanes.lengths(comp),
        "comm_ns": lanes.lengths(comm),
        "mem_ns": lanes.lengths(mem),
        "exposed_comm_ns": lanes.lengths(subtract(comm, comp)),
        "exposed_mem_ns": lanes.lengths(subtract(mem, unite(comp, comm))),
        "overlap_ns": lanes.lengths(intersect(comm, comp)),
        "sum_ns": sums(work.end - work.start, group, num_groups),
    }
