"""Rules about training: the optimizer's loop, gradients set to zero."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from cudalens.analysis import units
from cudalens.analysis.event_arrays import Ints
from cudalens.analysis.findings.finding import Finding
from cudalens.analysis.findings.kernel_rules import TINY_NS
from cudalens.analysis.findings.replays import fused, with_work, without_host
from cudalens.analysis.findings.trace_arrays import TraceArrays
from cudalens.analysis.time.intervals import length, subtract

OPTIMIZER_STEP: Final = r"^Optimizer\.step#"
_ZERO: Final = r"^Optimizer\.zero_grad#"
_GROUPED: Final = r"^aten::_(?:foreach|fused)_"
_GROUPED_KERNEL: Final = r"(?i)multi_?tensor|Fused(?:Adam|SGD|Lamb|Optimizer)"

#: Operators per step from which on it is a loop over parameters; a grouped step needs about ten.
_MANY: Final = 30

#: Time of one grouped kernel as a share of the short kernels that it replaces.
_GROUPED_SHARE: Final = 0.1


def optimizer(arrays: TraceArrays) -> Iterator[Finding]:
    """``optimizer_loop``: the optimizer updates one parameter after the other, one operator at a time.

    Gain: what a replay saves in which each outermost ``Optimizer.step`` launches once, and kernels shorter than
    `TINY_NS` take a fifth of their time: a grouped step reads and writes the same parameters. Without device work, the
    time of these ranges outside of operators of `TINY_NS` or longer. Threshold: a step launches at least thirty kernels
    (or has thirty operators), none of them grouped (``_foreach_``, ``_fused_``, ``multi_tensor``).
    """
    steps = arrays.outermost(arrays.host(OPTIMIZER_STEP))
    if not len(steps) or len(arrays.matching(_GROUPED, "cpu_op")) or len(arrays.matching(_GROUPED_KERNEL, "kernel")):
        return
    if len(arrays.work.rows):
        low, high = arrays.launched_in(steps)
        number, noun = int((high - low).sum()), "kernel"
    else:
        inside = np.isin(arrays.parent[arrays.matching(r"^aten::", "cpu_op")], arrays.host(OPTIMIZER_STEP))
        number, noun = int(inside.sum()), "operator"
    if number < _MANY * len(steps):
        return
    gain = _gain_of_grouping(arrays, low, high) if len(arrays.work.rows) else _overhead_of(arrays, steps)
    what = (
        f"{units.plural(len(steps), 'optimizer step')} ran {units.plural(round(number / len(steps)), noun)} each, one "
        f"parameter at a time."
    )
    yield arrays.finding(
        "optimizer_loop", "unfused optimizer steps", what, gain, _step_advice(arrays, steps), "high",
        rows=steps, place=arrays.place(int(steps[0])),
    )  # fmt: skip


def _gain_of_grouping(arrays: TraceArrays, low: Ints, high: Ints) -> int:
    rows = arrays.work.rows[
        arrays.by_launch[0][np.concatenate([np.arange(*ends) for ends in zip(low, high, strict=True)])]
    ]
    group = np.repeat(np.arange(len(low)), high - low)
    short = rows[arrays.dur[rows] < TINY_NS]
    return arrays.steady.gain(fused(rows, group, as_graph=True), with_work(short, _GROUPED_SHARE))


def _overhead_of(arrays: TraceArrays, steps: Ints) -> int:
    """The time of steps on the CPU without their innermost operators of `TINY_NS` or longer, whose work stays, ns."""
    ops = arrays.matching("", "cpu_op")
    ops = ops[np.isin(ops, arrays.beneath(steps))]
    leaves = ops[~np.isin(ops, arrays.parent[ops])]
    work = arrays.time_of(leaves[arrays.dur[leaves] >= TINY_NS])
    return length(subtract(arrays.time_of(steps), work))


def _step_advice(arrays: TraceArrays, steps: Ints) -> str:
    name = arrays.main_name(steps)
    known = next((one for one in ("AdamW", "Adam") if f"{one}.step" in name), None)
    if known is None:  # Adagrad has no fused step on GPUs
        return "foreach=True, the default of torch.optim on GPUs"
    return f"torch.optim.{known}(params, fused=True), or foreach=True"


def zeroing(arrays: TraceArrays) -> Iterator[Finding]:
    """``zero_grad``: gradients are filled with zeros instead of set to None.

    Gain: what a replay saves without these ranges and the work that they launched.
    """
    rows = arrays.outermost(arrays.host(_ZERO))
    launched = arrays.launched(rows) if len(rows) else rows
    if not len(launched):
        return
    gain = arrays.steady.gain(without_host(rows), with_work(arrays.work.rows[launched], 0.0))
    number = units.plural(len(launched), "device operation")
    what = (
        f"gradients were filled with zeros in {number}: "
        f"{units.duration(int(arrays.dur[arrays.work.rows[launched]].sum()))}."
    )
    yield arrays.finding(
        "zero_grad", "zeroing gradients", what, gain,
        "optimizer.zero_grad(set_to_none=True), the default since torch 2.0", "high",
        rows=arrays.work.rows[launched], place=arrays.place(int(rows[0])),
    )  # fmt: skip
