"""Rules about training: the optimizer's loop, gradients set to zero, communication that is not overlapped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from cudalens.analysis import units
from cudalens.analysis.event_arrays import Ints
from cudalens.analysis.findings.finding import Finding
from cudalens.analysis.findings.trace_arrays import TraceArrays
from cudalens.analysis.time.intervals import Intervals, length, subtract, union
from cudalens.analysis.time.work import COMMUNICATION, COMPUTE

_STEP: Final = r"^Optimizer\.step#"
_ZERO: Final = r"^Optimizer\.zero_grad#"
_GROUPED: Final = r"^aten::_(?:foreach|fused)_"

#: Operators per step from which on it is a loop over parameters; a grouped step needs about ten.
_MANY: Final = 30

_COMM_SHARE: Final = 0.05


def optimizer(arrays: TraceArrays) -> Iterator[Finding]:
    """``optimizer_loop``: the optimizer updates one parameter after the other, one operator at a time.

    Cost: from the first to the last device work that each ``Optimizer.step`` launched; without device work, the time of
    these ranges. Threshold: a step launches at least thirty kernels (or has thirty operators), none of them grouped
    (``_foreach_``, ``_fused_``).
    """
    steps = arrays.host(_STEP)
    if not len(steps) or len(arrays.matching(_GROUPED, "cpu_op")):
        return
    if len(arrays.work.rows):
        number, times = _device_spans(arrays, steps)
        noun, span = "kernel", " from the first to the last"
    else:
        number, times = (
            int(np.isin(arrays.parent[arrays.matching(r"^aten::", "cpu_op")], steps).sum()),
            arrays.time_of(steps),
        )
        noun, span = "operator", ""
    cost = length(times)
    if number < _MANY * len(steps):
        return
    what = (
        f"{units.plural(len(steps), 'optimizer step')} ran {units.plural(round(number / len(steps)), noun)} each, one "
        f"parameter at a time: {units.duration(cost)}{span}."
    )
    advice, place = "torch.optim.AdamW(params, fused=True), or foreach=True", arrays.place(int(steps[0]))
    yield arrays.finding(
        "optimizer_loop", "unfused optimizer steps", what, cost, advice, "high", rows=steps, place=place
    )


def _device_spans(arrays: TraceArrays, steps: Ints) -> tuple[int, Intervals]:
    """Number of the kernels launched by `steps`, and the device's time from the first to the last of each."""
    index = arrays.by_launch[0]
    low, high = arrays.launched_in(steps)
    some = high > low
    starts = [int(arrays.work.start[index[a:b]].min()) for a, b in zip(low[some], high[some], strict=True)]
    ends = [int(arrays.work.end[index[a:b]].max()) for a, b in zip(low[some], high[some], strict=True)]
    return int((high - low).sum()), union(np.array(starts, np.int64), np.array(ends, np.int64))


def zeroing(arrays: TraceArrays) -> Iterator[Finding]:
    """``zero_grad``: gradients are filled with zeros instead of set to None.

    Cost: the device time of the work that ``Optimizer.zero_grad`` launched.
    """
    rows = arrays.host(_ZERO)
    if not len(rows):
        return
    launched = arrays.launched(rows)
    cost = length(arrays.work_time(launched))
    number = units.plural(len(launched), "device operation")
    what = f"zero_grad filled gradients with zeros in {number}: {units.duration(cost)}."
    yield arrays.finding(
        "zero_grad", "zeroing gradients", what, cost,
        "optimizer.zero_grad(set_to_none=True), the default since torch 2.0", "high",
        rows=arrays.work.rows[launched], place=arrays.place(int(rows[0])),
    )  # fmt: skip


def communication(arrays: TraceArrays) -> Iterator[Finding]:
    """``exposed_communication``: collectives run while no kernel computes.

    Cost: time of communication kernels outside of compute kernels (`device_time`'s ``exposed_comm_ns``). A collective's
    kernel also runs while it waits for other ranks, which one rank's trace cannot show. Threshold: a twentieth of the
    devices' time.
    """
    is_comm = arrays.work.kind == COMMUNICATION
    times = arrays.work_time(is_comm)
    cost, total = length(subtract(times, arrays.work_time(arrays.work.kind == COMPUTE))), length(times)
    if arrays.is_minor(cost, _COMM_SHARE):
        return
    rows = arrays.work.rows[is_comm]
    what = (
        f"{units.duration(cost)} of {units.duration(total)} of communication ({units.percent(100 * cost / total)}) was "
        f"not overlapped with computation, most of it in {arrays.main_name(rows)}."
    )
    advice = (
        "overlap it: DDP buckets (bucket_cap_mb, gradient_as_bucket_view=True), FSDP prefetch, no_sync() during "
        "gradient accumulation; cudalens.load_ranks separates waiting for slow ranks from transfers"
    )
    yield arrays.finding("exposed_communication", "exposed communication", what, cost, advice, "medium", rows=rows)
