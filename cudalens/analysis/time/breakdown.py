"""Costs by name: of device work, and of operators with the device work that they launched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.analysis.ancestors import nearest
from cudalens.analysis.ranked import ranked
from cudalens.analysis.time.groups import in_step, measured, numbered, quantiles, share, steps_of, sums
from cudalens.analysis.time.work import KINDS, Work, device_work
from cudalens.frames import Trace, categorical, is_category
from cudalens.frames.column_arrays import Bools, Ints, integers, masked

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
        return self._beneath(per_op, code, n), sums(duration, code[own], n), number

    def _beneath(self, per_op: Ints, code: Ints, n: int) -> Ints:
        """Goes up from all operators that launched work at once, and counts each name once for each of them."""
        source = np.flatnonzero(per_op)
        at, pairs = np.where(source < len(self.rows), source, -1), []
        while len(source):
            pairs.append(source * n + code[at])
            source, at = source[at >= 0], at[at >= 0]
            at = self.above[at]
            source, at = source[at >= 0], at[at >= 0]
        pair = np.unique(np.concatenate(pairs)) if pairs else np.empty(0, np.int64)
        return sums(per_op[pair // n], pair % n, n)


def enclosing(parent: Ints, flags: Bools) -> Ints:
    """Return the nearest flagged row around each row, itself excluded; -1 for none. Shape (n,)."""
    return np.append(nearest(flags, parent), -1)[parent]
