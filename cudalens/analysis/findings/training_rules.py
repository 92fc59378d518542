"""Rules about training: the optimizer's loop, gradients set to zero, communication that nothing hides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cudalens.analysis import units
from cudalens.analysis.findings.finding import Finding
from cudalens.analysis.findings.trace_arrays import Scene
from cudalens.analysis.time.intervals import Intervals, length, subtract, union
from cudalens.analysis.time.work import COMMUNICATION, COMPUTE

Ints = NDArray[np.int64]

#: Operators of a step from which it is a loop over parameters; a grouped one needs about ten.
_STEP: Final = r"^Optimizer\.step#"
_ZERO: Final = r"^Optimizer\.zero_grad#"
_GROUPED: Final = r"^aten::_(?:foreach|fused)_"
_FUSED: Final = r"^aten::_fused_"
_MANY: Final = 30

_COMM_SHARE: Final = 0.05


def optimizer(scene: Scene) -> Iterator[Finding]:
    """``optimizer_loop``: the optimizer updates parameter after parameter, an operator at a time.

    Cost: from the first to the last device work that each ``Optimizer.step`` launched; without device work, the
    ranges' time. Told where a step launches thirty kernels (has thirty operators) and more, none of them grouped
    (``_foreach_``, ``_fused_``).
    """
    steps = scene.host(_STEP)
    if not len(steps) or len(scene.matching(_GROUPED, ("cpu_op",))):
        return
    if len(scene.work.rows):
        number, times = _device_spans(scene, steps)
        what_is, side = "kernel", "from the first to the last"
    else:
        ops = scene.matching(r"^aten::", ("cpu_op",))
        ops = ops[np.isin(scene.parent[ops], steps)]
        number, times = len(ops), scene.time_of(steps)
        what_is, side = "operator", ""
    cost = length(times)
    if number < _MANY * len(steps):
        return
    what = (
        f"{units.plural(len(steps), 'optimizer step')} ran {units.plural(round(number / len(steps)), what_is)} each, "
        f"one parameter at a time: {units.duration(cost)} {side}".rstrip()
        + "."
    )
    yield scene.finding(
        "optimizer_loop", "unfused optimizer steps", what, cost, scene.dearest(steps),
        "torch.optim.AdamW(params, fused=True), or foreach=True", "high", scene.place(int(steps[0])),
    )  # fmt: skip


def _device_spans(scene: Scene, steps: Ints) -> tuple[int, Intervals]:
    """Number of the kernels launched by `steps`, and the device's time from the first to the last of each."""
    index = scene.by_launch[0]
    low, high = scene.launched_in(steps)
    some = high > low
    starts = [int(scene.work.start[index[a:b]].min()) for a, b in zip(low[some], high[some], strict=True)]
    ends = [int(scene.work.end[index[a:b]].max()) for a, b in zip(low[some], high[some], strict=True)]
    return int((high - low).sum()), union(np.array(starts, np.int64), np.array(ends, np.int64))


def zeroing(scene: Scene) -> Iterator[Finding]:
    """``zero_grad``: gradients are written with zeros instead of being let go.

    Cost: the device time of the work that ``Optimizer.zero_grad`` launched.
    """
    rows = scene.host(_ZERO)
    if not len(rows):
        return
    mine = scene.launched(rows)
    cost = length(union(scene.work.start[mine], scene.work.end[mine]))
    what = f"zero_grad wrote zeros in {units.plural(len(mine), 'kernel')} and sets: {units.duration(cost)}."
    yield scene.finding(
        "zero_grad", "zeroing gradients", what, cost, scene.dearest(scene.work.rows[mine]),
        "optimizer.zero_grad(set_to_none=True), the default since torch 2.0", "high", scene.place(int(rows[0])),
    )  # fmt: skip


def communication(scene: Scene) -> Iterator[Finding]:
    """``exposed_communication``: collectives run while nothing is computed.

    Cost: time of communication kernels outside of compute kernels (`device_time`'s ``exposed_comm_ns``). A collective's
    kernel also runs while it waits for other ranks, which one rank's trace cannot tell. Told from a twentieth of the
    devices' time on.
    """
    work = scene.work
    comm, comp = work.kind == COMMUNICATION, work.kind == COMPUTE
    if not comm.any():
        return
    times = union(work.start[comm], work.end[comm])
    bare = subtract(times, union(work.start[comp], work.end[comp]))
    cost, total = length(bare), length(times)
    if cost < _COMM_SHARE * scene.span_ns or not cost:
        return
    names = scene.events["name"].array[work.rows[comm]]
    largest = str(names.categories[int(np.argmax(np.bincount(names.codes, weights=(work.end - work.start)[comm])))])
    what = (
        f"{units.duration(cost)} of {units.duration(total)} of communication ({units.percent(100 * cost / total)}) had "
        f"nothing computed beside it, most of it in {units.shorten(largest, 60)}."
    )
    yield scene.finding(
        "exposed_communication", "exposed communication", what, cost, scene.dearest(work.rows[comm]),
        "overlap it: DDP buckets (bucket_cap_mb, gradient_as_bucket_view=True), FSDP prefetch, no_sync() while "
        "gradients accumulate; cudalens.load_ranks tells waiting for slow ranks from moving bytes", "medium",
    )  # fmt: skip
