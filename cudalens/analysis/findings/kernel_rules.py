"""Rules about the kernels themselves: too short, too small for the device, in FP32, attention in pieces, autotuning."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis import units
from cudalens.analysis.findings.finding import Confidence, Finding
from cudalens.analysis.findings.trace_arrays import Scene
from cudalens.analysis.time.intervals import length, union
from cudalens.analysis.time.work import COMPUTE, MEMORY

Ints = NDArray[np.int64]

#: A kernel that ends before the host can have launched the next one: cudaLaunchKernel takes about 5 µs.
TINY_NS: Final = 5_000

_MIN_KERNELS: Final = 100
_TINY_SHARE: Final = 0.5
_COST_SHARE: Final = 0.05
_FILL_SHARE: Final = 0.10


def tiny_kernels(scene: Scene) -> Iterator[Finding]:
    """``tiny_kernels``: most kernels are shorter than `TINY_NS`, and together they matter.

    Cost: the time in which they ran and no other work did, and the device's own gaps (below 20 µs, the launch in time)
    in front of them. Told where half of at least a hundred kernels are tiny, from a twentieth of the devices' time on.
    """
    work = scene.work
    compute = work.kind == COMPUTE
    tiny = compute & (work.end - work.start < TINY_NS)
    count, total = int(tiny.sum()), int(compute.sum())
    if total < _MIN_KERNELS or count < _TINY_SHARE * total:
        return
    queued = scene.blame.queued
    gaps = int(queued.length[tiny[queued.ended_by]].sum())
    run = scene.exposed(tiny)
    cost = run + gaps
    if cost < _COST_SHARE * scene.span_ns:
        return
    before = f", and the GPU's own gaps in front of them {units.duration(gaps)}" if gaps else ""
    what = (
        f"{units.count(count)} of {units.plural(total, 'kernel')} are shorter than {units.duration(TINY_NS)}: they "
        f"take {units.duration(run)}{before}."
    )
    advice = "torch.compile(model) fuses elementwise operators; foreach or fused optimizers; larger batches"
    rows = work.rows[tiny]
    yield scene.finding("tiny_kernels", "tiny kernels", what, cost, scene.dearest(rows), advice, "medium")


def small_grids(scene: Scene) -> Iterator[Finding]:
    """``small_grids``: kernels have fewer blocks than the device has multiprocessors, so that part of it stands idle.

    Cost: the time in which kernels of at least `TINY_NS` ran times the share of multiprocessors without a block of any
    kernel, of the device that lost the most; from Kineto's blocks per multiprocessor, or the launch grid and the number
    of multiprocessors. An estimate: a longer block is not made shorter by others beside it. Told from a tenth of the
    devices' time on.
    """
    work = scene.work
    kernels = np.flatnonzero(work.kind != MEMORY)
    fill = np.clip(np.nan_to_num(blocks_per_sm(scene, work.rows[kernels]), nan=1.0), 0, 1)
    long = (work.kind[kernels] == COMPUTE) & (work.end - work.start >= TINY_NS)[kernels]
    rows, empty = work.rows[kernels[long]], 1 - fill[long]
    lost = ((scene.end - scene.ts)[rows] * empty).astype(np.int64)
    small = empty > 0
    cost = max(
        (
            _unfilled(work.start[kernels[of]], work.end[kernels[of]], fill[of], long[of])
            for of in (work.device[kernels] == device for device in np.unique(work.device[kernels]))
        ),
        default=0,
    )
    if cost < _FILL_SHARE * scene.span_ns or not cost:
        return
    names = scene.events["name"].array[rows]
    worst = int(np.argmax(np.bincount(names.codes, weights=lost)))
    what = (
        f"{units.plural(int(small.sum()), 'kernel')} had fewer blocks than the GPU has multiprocessors; weighted by "
        f"what stayed empty they lose {units.duration(cost)}, most in "
        f"{units.shorten(str(names.categories[worst]), 60)}."
    )
    advice = "larger batches or tiles, fused or grouped products, or independent work on a second torch.cuda.Stream"
    yield scene.finding(
        "small_grids",
        "kernels too small for the GPU",
        what,
        cost,
        scene.dearest(rows[small], lost[small]),
        advice,
        "low",
    )


def _unfilled(start: Ints, end: Ints, fill: NDArray[np.float64], counted: NDArray[np.bool_]) -> int:
    """Time in which any `counted` kernel ran, times the share of the device that all kernels left empty, ns."""
    at = np.concatenate([start, end])
    order = np.argsort(at, kind="stable")
    running = np.cumsum(np.concatenate([counted, -counted.astype(np.int64)])[order])[:-1] > 0
    filled = np.cumsum(np.concatenate([fill, -fill])[order])[:-1]
    return round(float((np.diff(at[order]) * running * np.clip(1 - filled, 0, 1)).sum()))


def blocks_per_sm(scene: Scene, rows: Ints) -> NDArray[np.float64]:
    """Blocks of each of the kernels `rows` over multiprocessors, NaN where not known; shape of `rows`."""
    known: NDArray[np.float64] = scene.events["blocks_per_sm"].array[rows].to_numpy(dtype=np.float64, na_value=np.nan)
    sms = [device.num_sms for device in scene.trace.info.devices if device.num_sms]
    if not np.isnan(known).any() or not sms:
        return known
    grids = scene.events["grid"].array[rows]
    blocks = np.array([_num_blocks(grid) for grid in grids.categories.tolist()] + [np.nan])
    return np.where(np.isnan(known), blocks[grids.codes] / sms[0], known)


def _num_blocks(grid: str) -> float:
    numbers = re.findall(r"\d+", grid)
    return float(prod(map(int, numbers))) if numbers else float("nan")


_FP32: Final = (
    r"^(?!.*(?:tf32|tensorop|bf16|f16|h884|s16816|s1688)).*"
    r"(?:(?:^|_)s(?:gemm|cudnn)_|convolve_sgemm|sgemm_largek|simt_s(?:gemm|fprop|dgrad|wgrad|conv)"
    r"|_f32f32_f32f32_f32_|wgrad_alg\d_engine<float|^Cijk_\w+?_SB_)"
)
_TENSOR_CORES: Final = 7.0
_TF32: Final = 8.0


def full_precision(scene: Scene) -> Iterator[Finding]:
    """``fp32_math``: matrix products and convolutions run in FP32 on units other than the tensor cores.

    Cost: the union of these kernels' time, all of which is at stake; tensor cores have 2 to 16 times the rate (NVIDIA's
    data sheets of V100, A100 and H100), and memory or other kernels bound what is gained. Kernels are known by the
    names that cuBLAS, cuDNN, CUTLASS and Tensile give to FP32. Devices below compute capability 7.0 have no tensor
    cores, and nothing is told. Told from a twentieth of the devices' time on.
    """
    rows = scene.matching(_FP32, ("kernel",))
    devices = [d for d in scene.trace.info.devices if d.capability]
    capability = _capability(devices[0].capability) if devices else None
    if not len(rows) or (capability is not None and capability < _TENSOR_CORES):
        return
    cost = length(scene.time_of(rows))
    if cost < _COST_SHARE * scene.span_ns or not cost:
        return
    kernel = _dearest_name(scene, rows)
    what = (
        f"{units.plural(len(rows), 'kernel')} of matrix products and convolutions in FP32 took {units.duration(cost)} "
        f"({units.percent(100 * cost / scene.span_ns)} of the GPU's time), most in {units.shorten(kernel, 60)}."
    )
    sure: Confidence = "high" if capability is not None and capability >= _TF32 else "medium"
    yield scene.finding(
        "fp32_math", "FP32 matrix products", what, cost, scene.dearest(rows), _fp32_advice(scene, capability),
        sure, scene.place(int(rows[np.argmax((scene.end - scene.ts)[rows])])),
    )  # fmt: skip


def _fp32_advice(scene: Scene, capability: float | None) -> str:
    if any("AMD" in device.name or "Instinct" in device.name for device in scene.trace.info.devices):
        return 'torch.autocast("cuda", torch.bfloat16) around the forward pass'
    if capability is not None and capability < _TF32:
        return 'torch.autocast("cuda", torch.float16) with torch.amp.GradScaler: this GPU has tensor cores for float16'
    return (
        'torch.set_float32_matmul_precision("high") allows TF32; or torch.autocast("cuda", torch.bfloat16) around the '
        "forward pass"
    )


def _capability(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None


def _dearest_name(scene: Scene, rows: Ints) -> str:
    names = scene.events["name"].array[rows]
    return str(names.categories[int(np.argmax(np.bincount(names.codes, weights=(scene.end - scene.ts)[rows])))])


#: Operators between a product and the softmax at most: scaling, masking, casting and dropout are some.
_PRODUCT: Final = r"^aten::(?:bmm|matmul|baddbmm|mm|addmm|linear)$"
_SOFTMAX: Final = r"^aten::(?:softmax|_softmax)$"
_MIN_ATTENTIONS: Final = 2
_REACH: Final = 12


def eager_attention(scene: Scene) -> Iterator[Finding]:
    """``eager_attention``: attention in pieces, a batched product, a softmax, and a batched product.

    A softmax counts when the nearest product before it and the nearest after it, on its thread, are ``bmm``,
    ``baddbmm`` or ``matmul`` with at most `_REACH` operators between each and the softmax. Cost: the time of the
    device work launched from the first product to the end of the second, of all of them; without device work the
    operators' own time. FlashAttention's saving depends on lengths; all of that time is at stake. Told from a
    twentieth on.
    """
    first, last, softmax = _attentions(scene)
    if len(first) < _MIN_ATTENTIONS:
        return
    spans = union(scene.ts[first], scene.end[last])
    cost, whole = length(spans), scene.wall_ns
    rows = softmax
    if len(scene.work.rows):
        mine = _launched_between(scene, first, last)
        cost, whole = length(union(scene.work.start[mine], scene.work.end[mine])), scene.span_ns
        rows = scene.work.rows[mine]
    if cost < _COST_SHARE * whole or not cost:
        return
    side = "GPU" if len(scene.work.rows) else "CPU"
    what = (
        f"{units.plural(len(first), 'attention')} written as product, softmax, product took {units.duration(cost)} of "
        f"{side} time."
    )
    yield scene.finding(
        "eager_attention", "attention in pieces", what, cost, scene.dearest(rows),
        "torch.nn.functional.scaled_dot_product_attention(q, k, v), or attn_implementation=\"sdpa\" in transformers",
        "medium", scene.place(int(softmax[0])),
    )  # fmt: skip


def _attentions(scene: Scene) -> tuple[Ints, Ints, Ints]:
    """Rows of the products before and after each softmax of an attention, and of the softmax; outermost of each."""
    products, softmaxes = _outermost(scene, _PRODUCT), _outermost(scene, _SOFTMAX)
    none = np.empty(0, np.int64)
    if not len(products) or not len(softmaxes):
        return none, none, none
    ops = np.flatnonzero((scene.events["cat"] == "cpu_op").to_numpy())
    ops = ops[np.isin(scene.parent[ops], ops, invert=True) | np.isin(ops, products) | np.isin(ops, softmaxes)]
    order = ops[np.lexsort((scene.ts[ops], scene.thread[ops]))]
    kind = np.where(np.isin(order, products), 1, np.where(np.isin(order, softmaxes), 2, 0))
    at = np.flatnonzero(kind == 2)
    of_products = np.flatnonzero(kind == 1)
    after = np.searchsorted(of_products, at)
    some = (after > 0) & (after < len(of_products))
    at, after = at[some], after[some]
    before, behind = of_products[after - 1], of_products[after]
    thread = scene.thread[order]
    near = (
        (at - before <= _REACH)
        & (behind - at <= _REACH)
        & (thread[before] == thread[at])
        & (thread[behind] == thread[at])
    )
    batched = _is_batched(scene, order[before]) & _is_batched(scene, order[behind])
    chosen = near & batched
    return order[before[chosen]], order[behind[chosen]], order[at[chosen]]


def _outermost(scene: Scene, pattern: str) -> Ints:
    rows = scene.matching(pattern, ("cpu_op",))
    return rows[np.isin(scene.parent[rows], rows, invert=True)]


def _is_batched(scene: Scene, rows: Ints) -> NDArray[np.bool_]:
    """Whether a product is one of batches: by its name, or by shapes of three dimensions and more."""
    names = scene.events["name"].array[rows]
    shapes = scene.events["shapes"].array[rows].astype(object)
    found = [
        str(name) in ("aten::bmm", "aten::baddbmm") or (not pd.isna(shape) and bool(_BATCHED.match(str(shape))))
        for name, shape in zip(names, shapes, strict=True)
    ]
    beneath = scene.matching(r"^aten::(?:bmm|baddbmm)$", ("cpu_op",))
    inner = np.isin(rows, scene.parent[beneath])
    return np.array(found, bool) | inner


_BATCHED: Final = re.compile(r"^\[\[\d+, ?\d+, ?\d+(?:, ?\d+)*\], ?\[\d+, ?\d+, ?\d+")


def _launched_between(scene: Scene, first: Ints, last: Ints) -> Ints:
    """Indices of the device work launched on the thread of `first` from its start to the end of `last`."""
    index, thread, at = scene.by_launch
    low = np.array([_position(thread, at, t, x) for t, x in zip(scene.thread[first], scene.ts[first], strict=True)])
    high = np.array([_position(thread, at, t, x) for t, x in zip(scene.thread[first], scene.end[last], strict=True)])
    covers = np.zeros(len(index) + 1, np.int64)
    np.add.at(covers, low, 1)
    np.add.at(covers, high, -1)
    return np.sort(index[np.cumsum(covers)[:-1] > 0])


def _position(thread: Ints, at: Ints, number: int, time: int) -> int:
    begin, end = np.searchsorted(thread, [number, number + 1])
    return int(begin + np.searchsorted(at[begin:end], time))


_CONVOLUTION: Final = (
    r"^aten::(?:cudnn_convolution|miopen_convolution|convolution_backward|cudnn_convolution_transpose)$"
)
_MANY_TRIALS: Final = 8
_TRIAL_RATIO: Final = 4


def autotuning(scene: Scene) -> Iterator[Finding]:
    """``autotuning``: convolutions try algorithms while they are measured (``torch.backends.cudnn.benchmark``).

    A call counts when it launches eight kernels and more, and four times as many as the middle one of its name. Cost:
    the device time of the work that such calls launched, of which one call's usual share would remain.
    """
    rows = scene.matching(_CONVOLUTION, ("cpu_op",))
    if len(rows) < _TRIAL_RATIO or not len(scene.by_launch[0]):
        return
    low, high = scene.launched_in(rows)
    counts = pd.Series(high - low)
    middle = counts.groupby(scene.events["name"].array[rows].codes).transform("median")
    trials = ((counts >= _MANY_TRIALS) & (counts >= _TRIAL_RATIO * middle)).to_numpy()
    if not trials.any() or trials.mean() > 1 / 2:
        return
    mine = scene.launched(rows[trials])
    cost = length(union(scene.work.start[mine], scene.work.end[mine]))
    what = (
        f"{units.plural(int(trials.sum()), 'convolution')} tried algorithms, {units.plural(len(mine), 'kernel')} in "
        f"{units.duration(cost)}, while the run was measured."
    )
    yield scene.finding(
        "autotuning", "convolutions choosing algorithms", what, cost, scene.dearest(rows[trials]),
        "warm up with the same shapes first (%%cudaprofile --warmup 3); with shapes that change, "
        "torch.backends.cudnn.benchmark = False", "medium",
    )  # fmt: skip
