"""Rules about work that need not be done: unfused chains, recomputation, dense gradients, the optimizer's loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from cudalens.analysis import units
from cudalens.analysis.event_arrays import nearest
from cudalens.analysis.findings.finding import Finding, fused, with_work, without_host
from cudalens.analysis.findings.kernel_rules import TINY_NS
from cudalens.analysis.findings.trace_arrays import TraceArrays
from cudalens.analysis.time.groups import length, subtract
from cudalens.frames.column_arrays import Bools, Ints

_SHARE: Final = 0.10
_SMALL_SHARE: Final = 0.05

#: Kernels that read and write each element once, and reductions, which a compiler fuses with them.
_POINTWISE: Final = (
    r"(?:vectorized|unrolled)?_?elementwise_kernel|at::native::reduce_kernel"
    r"|^simulated::(?:add|sub|rsub|mul|div|pow|neg|abs|exp|log|sqrt|rsqrt|tanh|sigmoid|relu|silu|gelu|where|clamp|mean"
    r"|sum|amax|square|reciprocal|addcmul|addcdiv|lerp)_?<"
)
#: Pointwise kernels in a row from which on they are a chain; a copy among them can be a change of layout.
_MIN_CHAIN: Final = 3
_COPY: Final = r"copy_kernel|direct_copy|CatArray|FillFunctor"

_BACKWARD: Final = r"^autograd::engine::evaluate_function"
#: Operators that only a forward pass calls.
_FORWARD: Final = (
    r"^aten::(?:linear|conv[123]d|layer_norm|batch_norm|group_norm|dropout|gelu|silu|softmax|embedding"
    r"|scaled_dot_product_attention)$"
)
#: With a peak below this share of the device's memory, checkpoints are not needed.
_SPARE: Final = 0.5

_DENSE: Final = r"^aten::embedding_dense_backward$"
#: A sparse gradient takes some ten launches for sorting its indices and adding its rows.
_SPARSE_NS: Final = 60_000
_FILL: Final = r"(?i)fill"
#: SGD reads the table and its gradient, and writes the table; other optimizers take more passes.
_UPDATE_PASSES: Final = 3


def pointwise(arrays: TraceArrays) -> Iterator[Finding]:
    """``unfused_pointwise``: chains of at least three pointwise kernels or reductions, each a pass over the memory.

    A chain is a sequence of such kernels of at least `TINY_NS` on one stream, with nothing between them, whose times
    are within a factor of four, so that they work on tensors of one size. Gain: what a replay saves in which only the
    longest kernel of each chain remains, with one launch. Threshold: a tenth of the window.
    """
    work = arrays.work
    is_member = arrays.is_named(_POINTWISE)[work.rows] & ~arrays.is_named(_COPY)[work.rows]
    is_member &= work.end - work.start >= TINY_NS
    if int(is_member.sum()) < _MIN_CHAIN:
        return
    index, number = _chains(arrays, is_member)
    if not len(index):
        return
    rows = work.rows[index]
    rest = rows[~_is_longest(arrays.dur[rows], number)]
    gain = arrays.steady.gain(with_work(rest, 0.0), fused(rows, number))
    if arrays.is_minor(gain, _SHARE):
        return
    what = (
        f"{units.plural(len(rows), 'pointwise kernel')} in {units.plural(len(np.unique(number)), 'chain')} took "
        f"{units.duration(int(arrays.dur[rows].sum()))}; each reads and writes the memory that one kernel could, most "
        f"of it in {arrays.main_name(rows)}."
    )
    advice = "torch.compile of the function, or its fused form in torch.nn.functional (gelu, layer_norm, rms_norm)"
    yield arrays.finding(
        "unfused_pointwise", "unfused pointwise operators", what, gain, advice, "medium",
        rows=rows, place=arrays.place_of(rows),
    )  # fmt: skip


def _chains(arrays: TraceArrays, is_member: Bools) -> tuple[Ints, Ints]:
    """Indices of the device work in chains, stream by stream, and the number of the chain of each."""
    work = arrays.work
    order = np.lexsort((work.start, work.stream, work.device))
    member, dur = is_member[order], (work.end - work.start)[order].astype(np.float64)
    ratio = dur[1:] / np.maximum(dur[:-1], 1)
    joins = np.zeros(len(order), bool)
    joins[1:] = member[1:] & member[:-1] & (ratio < 4) & (ratio > 1 / 4)
    joins[1:] &= (work.stream[order][1:] == work.stream[order][:-1]) & (
        work.device[order][1:] == work.device[order][:-1]
    )
    number = np.cumsum(~joins)
    long = np.bincount(number)[number] >= _MIN_CHAIN
    return order[long], number[long]


def _is_longest(dur: Ints, number: Ints) -> Bools:
    """The longest of each number, the first of equals; `number` ascends."""
    order = np.lexsort((-dur, number))
    first = np.ones(len(order), bool)
    first[1:] = number[order][1:] != number[order][:-1]
    found = np.zeros(len(dur), bool)
    found[order[first]] = True
    return found


def recomputing(arrays: TraceArrays) -> Iterator[Finding]:
    """``needless_checkpointing``: the backward pass computes forward operators again, with memory to spare.

    Recomputation is a forward operator (``aten::linear``, ``aten::layer_norm``, …) within a node of autograd. Reported
    if memory was recorded, and less than half of the device's was reserved. Gain: what a replay saves without these
    operators and the work that they launched. Threshold: a twentieth of the window.
    """
    ops = arrays.matching(_FORWARD, "cpu_op")
    nodes = arrays.is_named(_BACKWARD)
    if not len(ops) or not nodes.any() or not _has_spare_memory(arrays):
        return
    ops = arrays.outermost(ops[nearest(nodes, arrays.parent)[ops] >= 0])
    launched = arrays.launched(ops) if len(ops) else ops
    if not len(launched):
        return
    rows = arrays.work.rows[launched]
    gain = arrays.steady.gain(with_work(rows, 0.0), without_host(ops))
    if arrays.is_minor(gain, _SMALL_SHARE):
        return
    what = (
        f"the backward pass computed {units.plural(len(ops), 'forward operator')} again, for "
        f"{units.duration(int(arrays.dur[rows].sum()))} of GPU time, while less than half of the memory was in use."
    )
    advice = "no torch.utils.checkpoint, or for fewer layers: the memory suffices to keep their activations"
    yield arrays.finding(
        "needless_checkpointing", "recomputation with memory to spare", what, gain, advice, "medium",
        rows=rows, place=arrays.place_of(ops),
    )  # fmt: skip


def _has_spare_memory(arrays: TraceArrays) -> bool:
    memory, devices = arrays.trace.memory, arrays.trace.info.devices
    total = next((device.total_memory_bytes for device in devices if device.total_memory_bytes), 0)
    reserved = memory["reserved_bytes"][memory["device_type"].astype(str).isin(["cuda", "hip"])].dropna()
    return bool(total and len(reserved) and reserved.max() < _SPARE * total)


def dense_embedding(arrays: TraceArrays) -> Iterator[Finding]:
    """``dense_embedding``: the gradient of an embedding is a dense tensor of the size of the table.

    Gain: what a replay saves without the work of ``aten::embedding_dense_backward``, and without the part of the
    optimizer's work that updates the whole table, less `_SPARSE_NS` for each gradient. That part is not recorded: it
    counts as `_UPDATE_PASSES` times the kernels that fill gradients with zeros, which write the table once. Threshold:
    a twentieth of the window.
    """
    ops = arrays.matching(_DENSE, "cpu_op")
    launched = arrays.launched(ops) if len(ops) else ops
    if not len(launched):
        return
    rows = arrays.work.rows[launched]
    fills_ns = int(arrays.dur[np.intersect1d(rows, arrays.matching(_FILL, "kernel"))].sum())
    steps = arrays.host(OPTIMIZER_STEP)
    updates = arrays.work.rows[arrays.launched(steps)] if len(steps) else steps
    left = max(1 - _UPDATE_PASSES * fills_ns / max(int(arrays.dur[updates].sum()), 1), 0.0)
    gain = max(arrays.steady.gain(with_work(rows, 0.0), with_work(updates, left)) - _SPARSE_NS * len(ops), 0)
    if arrays.is_minor(gain, _SMALL_SHARE):
        return
    what = (
        f"{units.plural(len(ops), 'gradient')} of embeddings were written as dense tables, in "
        f"{units.duration(int(arrays.dur[rows].sum()))} of GPU time."
    )
    advice = "torch.nn.Embedding(..., sparse=True) with torch.optim.SparseAdam or SGD: gradients of the used rows only"
    yield arrays.finding(
        "dense_embedding", "dense embedding gradients", what, gain, advice, "medium",
        rows=rows, place=arrays.place_of(ops), changed=np.union1d(rows, updates),
    )  # fmt: skip


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
    name = arrays.main_name(steps)
    known = next((one for one in ("AdamW", "Adam") if f"{one}.step" in name), None)
    if known is None:  # Adagrad has no fused step on GPUs
        advice = "foreach=True, the default of torch.optim on GPUs"
    else:
        advice = f"torch.optim.{known}(params, fused=True), or foreach=True"
    yield arrays.finding(
        "optimizer_loop", "unfused optimizer steps", what, gain, advice, "high",
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
