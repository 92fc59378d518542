"""Rules about the kernels: too short, too small for the device, unfused attention, autotuning."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis import units
from cudalens.analysis.event_arrays import Bools, Floats, Ints
from cudalens.analysis.findings.finding import Finding
from cudalens.analysis.findings.precision_rules import FP32_PRODUCTS
from cudalens.analysis.findings.replays import fused, with_work, without_host
from cudalens.analysis.findings.trace_arrays import TraceArrays
from cudalens.analysis.time.intervals import length, union
from cudalens.analysis.time.work import COMPUTE, MEMORY

#: A kernel that ends before the host can have launched the next one: cudaLaunchKernel takes about 5 µs.
TINY_NS: Final = 5_000

_MIN_KERNELS: Final = 100
_TINY_SHARE: Final = 0.5
_COST_SHARE: Final = 0.05
_FILL_SHARE: Final = 0.10

#: Time of a fused kernel, as a share of that of the short kernels that it replaces.
_FUSED: Final = 0.2


def tiny_kernels(arrays: TraceArrays) -> Iterator[Finding]:
    """``tiny_kernels``: half of at least a hundred kernels are shorter than `TINY_NS`.

    Gain: what a replay saves in which they take a fifth of their time (a fused kernel replaces about five), at most the
    time in which they ran and no other work did, and the device's own gaps (below 20 µs, the launch in time) before
    them. Threshold: a twentieth of the window.
    """
    work = arrays.work
    compute = work.kind == COMPUTE
    tiny = compute & (work.end - work.start < TINY_NS)
    count, total = int(tiny.sum()), int(compute.sum())
    if total < _MIN_KERNELS or count < _TINY_SHARE * total:
        return
    queued = arrays.idle.queued
    gaps = int(queued.length[tiny[queued.ended_by]].sum())
    run = arrays.exposed(tiny)
    gain = arrays.steady.bound(run + gaps, with_work(work.rows[tiny], _FUSED))
    if arrays.is_minor(gain, _COST_SHARE):
        return
    before = f", and the GPU needs {units.duration(gaps)} to start them" if gaps else ""
    what = (
        f"{units.count(count)} of {units.plural(total, 'kernel')} are shorter than {units.duration(TINY_NS)}: they "
        f"take {units.duration(run)}{before}."
    )
    advice = "torch.compile(model) fuses elementwise operators; foreach or fused optimizers; larger batches"
    yield arrays.finding("tiny_kernels", "tiny kernels", what, gain, advice, "medium", rows=work.rows[tiny])


def small_grids(arrays: TraceArrays) -> Iterator[Finding]:
    """``small_grids``: kernels have fewer blocks than the device has multiprocessors, so that part of it is unused.

    Gain: what a replay saves in which kernels of at least `TINY_NS` take the share of their time that corresponds to
    the multiprocessors with a block, or in which the bytes of their operators take the memory's bandwidth where the GPU
    and the shapes are known; at most their time times the share of multiprocessors without a block of any
    kernel, of the device that lost the most; from Kineto's blocks per multiprocessor, or the launch grid and the number
    of multiprocessors. An estimate: more blocks do not make a long block shorter. Threshold: a tenth of the window.
    """
    work = arrays.work
    kernels = np.flatnonzero(work.kind != MEMORY)
    fill = np.clip(np.nan_to_num(blocks_per_sm(arrays, work.rows[kernels]), nan=1.0), 0, 1)
    if (fill >= 1).all():
        return
    fill = np.maximum(fill, _bound_by_memory(arrays)[kernels])
    long = (work.kind[kernels] == COMPUTE) & (work.end - work.start >= TINY_NS)[kernels]
    of_devices = [work.device[kernels] == device for device in np.unique(work.device[kernels])]
    unused = [_unused(work.start[kernels[of]], work.end[kernels[of]], fill[of], long[of]) for of in of_devices]
    size = max(unused, default=0)
    if arrays.is_minor(size, _FILL_SHARE):
        return
    small = long & (fill < 1)
    rows = work.rows[kernels[small]]
    gain = arrays.steady.bound(size, with_work(rows, fill[small]))
    if arrays.is_minor(gain, _FILL_SHARE):
        return
    lost = (arrays.dur[rows] * (1 - fill[small])).astype(np.int64)
    what = (
        f"{units.plural(len(rows), 'kernel')} had fewer blocks than the GPU has multiprocessors; weighted by the "
        f"unused share that is {units.duration(size)}, most of it in {arrays.main_name(rows, lost)}."
    )
    if arrays.has_torch:
        advice = "larger batches or tiles, fused or grouped products, or independent work on a second torch.cuda.Stream"
    else:
        advice = "launch more blocks (a grid-stride loop fits any number), or independent kernels on two streams"
    yield arrays.finding(
        "small_grids", "kernels too small for the GPU", what, gain, advice, "low", rows=rows, weight=lost
    )


def _bound_by_memory(arrays: TraceArrays) -> Floats:
    """The share of each piece of work's time that its operator's bytes take at the memory bandwidth, at most 1."""
    found = np.zeros(len(arrays.work.rows))
    compute, calls = arrays.calls
    found[compute[calls.owned]] = np.minimum(calls.memory_shares(), 1.0)[calls.call]
    return found


def _unused(start: Ints, end: Ints, fill: Floats, counted: Bools) -> int:
    """Time in which any `counted` kernel ran, times the share of the device that no kernel used, ns."""
    at = np.concatenate([start, end])
    order = np.argsort(at, kind="stable")
    running = np.cumsum(np.concatenate([counted, -counted.astype(np.int64)])[order])[:-1] > 0
    filled = np.cumsum(np.concatenate([fill, -fill])[order])[:-1]
    return round(float((np.diff(at[order]) * running * np.clip(1 - filled, 0, 1)).sum()))


def blocks_per_sm(arrays: TraceArrays, rows: Ints) -> Floats:
    """Blocks per multiprocessor of each of the kernels `rows`, NaN where not known; shape of `rows`."""
    known: Floats = arrays.events["blocks_per_sm"].array[rows].to_numpy(dtype=np.float64, na_value=np.nan)
    sms = [device.num_sms for device in arrays.trace.info.devices if device.num_sms]
    if not np.isnan(known).any() or not sms:
        return known
    grids = arrays.events["grid"].array[rows]
    blocks = np.array([_num_blocks(grid) for grid in grids.categories.tolist()] + [np.nan])
    return np.where(np.isnan(known), blocks[grids.codes] / sms[0], known)


def _num_blocks(grid: str) -> float:
    numbers = re.findall(r"\d+", grid)
    return float(prod(map(int, numbers))) if numbers else float("nan")


#: Operators between a product and the softmax at most: scaling, masking, casting and dropout are some.
_PRODUCT: Final = r"^aten::(?:bmm|matmul|baddbmm|mm|addmm|linear)$"
_SOFTMAX: Final = r"^aten::(?:softmax|_softmax)$"
_BATCHED: Final = r"^aten::(?:bmm|baddbmm)$"
_BATCHED_SHAPES: Final = re.compile(r"^\[\[\d+, ?\d+, ?\d+(?:, ?\d+)*\], ?\[\d+, ?\d+, ?\d+")
_MIN_ATTENTIONS: Final = 2
_REACH: Final = 12


def eager_attention(arrays: TraceArrays) -> Iterator[Finding]:
    """``eager_attention``: attention as separate operators: a batched product, a softmax, and a batched product.

    A softmax counts if the nearest product before it and the nearest after it, on its thread, are ``bmm``, ``baddbmm``
    or ``matmul`` with at most `_REACH` operators between each and the softmax. Gain: what a replay saves with one
    launch for each, in which all kernels but the products take no time: a fused kernel computes the same products, and
    writes no scores. Of the operators, only the first product remains, without the views and copies within it: its
    host time is about that of a fused operator. In FP32 a fused kernel's products do not use tensor cores, so that the
    gain is a possible one. Without device work: the time between the products. Threshold: a twentieth.
    """
    first, last, softmax = _attentions(arrays)
    if len(first) < _MIN_ATTENTIONS:
        return
    if len(arrays.work.rows):
        low, high = arrays.launched_in(first, last)
        number = np.repeat(np.arange(len(low)), high - low)
        launched = arrays.by_launch[0][np.concatenate([np.arange(a, b) for a, b in zip(low, high, strict=True)])]
        rows, side = arrays.work.rows[launched], "GPU"
        if len(rows) < 2:
            return
        others = rows[~np.isin(arrays.work.launch[launched], _launches_of_products(arrays))]
        taken = length(arrays.work_time(launched))
        within = arrays.beneath(np.union1d(first, last))
        low, high = arrays.launched_in(within)
        quiet = without_host(within[low == high])
        gain = arrays.steady.gain(with_work(others, 0.0), quiet, fused(rows, number, as_graph=True))
    else:
        rows, side = softmax, "CPU"
        taken = length(union(arrays.ts[first], arrays.end[last]))
        gain = length(union(arrays.end[first], arrays.ts[last]))
    if arrays.is_minor(gain, _COST_SHARE):
        return
    what = (
        f"{units.plural(len(first), 'attention')} computed as product, softmax, product took {units.duration(taken)} "
        f"of {side} time; each writes and reads the scores, which a fused one does not."
    )
    is_fp32 = bool(set(rows.tolist()) & set(arrays.matching(FP32_PRODUCTS, "kernel").tolist()))
    advice = 'torch.nn.functional.scaled_dot_product_attention(q, k, v), or attn_implementation="sdpa" in transformers'
    if is_fp32:
        advice += "; with bfloat16 inputs, since in FP32 it can be slower"
    place = arrays.place(int(softmax[0]))
    yield arrays.finding(
        "eager_attention", "unfused attention", what, gain, advice, "low" if is_fp32 else "medium",
        rows=rows, place=place,
    )  # fmt: skip


def _launches_of_products(arrays: TraceArrays) -> Ints:
    """Rows of the calls that launched matrix products: those within such operators."""
    products = arrays.outermost(arrays.matching(_PRODUCT, "cpu_op"))
    return arrays.work.launch[np.intersect1d(arrays.launched(products), _products_among(arrays))]


def _attentions(arrays: TraceArrays) -> tuple[Ints, Ints, Ints]:
    """Rows of the products before and after each softmax of an attention, and of the softmax; outermost of each."""
    products, softmaxes = (arrays.outermost(arrays.matching(name, "cpu_op")) for name in (_PRODUCT, _SOFTMAX))
    ops = np.flatnonzero(arrays.is_in("cpu_op"))
    ops = np.union1d(arrays.outermost(ops), np.concatenate([products, softmaxes]))
    order = ops[np.lexsort((arrays.ts[ops], arrays.thread[ops]))]
    at, of_products = (np.flatnonzero(np.isin(order, rows)) for rows in (softmaxes, products))
    place = np.searchsorted(of_products, at)
    some = (place > 0) & (place < len(of_products))
    at, place = at[some], place[some]
    before, after = of_products[place - 1], of_products[place]
    thread = arrays.thread[order]
    chosen = (at - before <= _REACH) & (after - at <= _REACH)
    chosen &= (thread[before] == thread[at]) & (thread[after] == thread[at])
    chosen &= _is_batched(arrays, order[before]) & _is_batched(arrays, order[after])
    return order[before[chosen]], order[after[chosen]], order[at[chosen]]


def _is_batched(arrays: TraceArrays, rows: Ints) -> Bools:
    """Whether a product is one of batches: by its name or that of an operator in it, or by shapes of 3 dimensions."""
    shapes = arrays.events["shapes"].array[rows].astype(object)
    by_shape = np.array([not pd.isna(shape) and bool(_BATCHED_SHAPES.match(str(shape))) for shape in shapes], bool)
    named = arrays.matching(_BATCHED, "cpu_op")
    return by_shape | np.isin(rows, named) | np.isin(rows, arrays.parent[named])


def _products_among(arrays: TraceArrays) -> Ints:
    """Indices of device work that is not a copy or pointwise, by its name: operators of products copy operands."""
    copies = arrays.is_named(r"elementwise|copy|Memcpy|Memset|::(?:clone|copy_|expand|mul|add)\b")[arrays.work.rows]
    return np.flatnonzero(~copies)


_CONVOLUTION: Final = (
    r"^aten::(?:cudnn_convolution|miopen_convolution|convolution_backward|cudnn_convolution_transpose)$"
)
_MANY_TRIALS: Final = 8
_TRIAL_RATIO: Final = 4


def autotuning(arrays: TraceArrays) -> Iterator[Finding]:
    """``autotuning``: convolutions try algorithms in the measured window (``torch.backends.cudnn.benchmark``).

    A call counts if it launches at least eight kernels, and four times the median of the calls of its name. Gain: what
    a replay saves in which the work that such calls launched takes the share of time of the median call.
    """
    rows = arrays.matching(_CONVOLUTION, "cpu_op")
    if len(rows) < _TRIAL_RATIO or not len(arrays.by_launch[0]):
        return
    low, high = arrays.launched_in(rows)
    counts = pd.Series(high - low)
    median = counts.groupby(arrays.events["name"].array[rows].codes).transform("median")
    trials = ((counts >= _MANY_TRIALS) & (counts >= _TRIAL_RATIO * median)).to_numpy()
    if not trials.any() or trials.mean() > 1 / 2:
        return
    launched = arrays.launched(rows[trials])
    size, left = length(arrays.work_time(launched)), float((median[trials] / counts[trials]).mean())
    gain = arrays.steady.bound(round(size * (1 - left)), with_work(arrays.work.rows[launched], left))
    what = (
        f"{units.plural(int(trials.sum()), 'convolution')} tried algorithms in the measured window: "
        f"{units.plural(len(launched), 'kernel')}, {units.duration(size)}."
    )
    advice = (
        "warm up with the same shapes first (%%cudaprofile --warmup 3); if shapes change, "
        "torch.backends.cudnn.benchmark = False"
    )
    yield arrays.finding("autotuning", "convolution autotuning", what, gain, advice, "medium", rows=rows[trials])
