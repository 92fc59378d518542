"""Rules about kernels: too short, too small for the device, unfused, in a needless precision, slower than usual."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis import units
from cudalens.analysis.event_arrays import nearest_of
from cudalens.analysis.findings.finding import Finding, fused, with_work, without_host
from cudalens.analysis.findings.trace_arrays import TraceArrays
from cudalens.analysis.time.groups import length, numbered, union
from cudalens.analysis.time.roofline import Calls, Expected
from cudalens.analysis.time.work import COMPUTE, MEMORY
from cudalens.frames.column_arrays import Bools, Floats, Ints

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
    ways = [] if arrays.is_compiled else ["torch.compile(model) fuses elementwise operators"]
    ways += [] if arrays.is_inference else ["foreach or fused optimizers"]
    advice = "; ".join([*ways, "larger batches"])
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
    # The share of each piece of work's time that its operator's bytes take at the memory bandwidth, at most 1.
    bound_by_memory = np.zeros(len(arrays.work.rows))
    compute, calls = arrays.calls
    bound_by_memory[compute[calls.owned]] = np.minimum(calls.memory_shares(), 1.0)[calls.call]
    fill = np.maximum(fill, bound_by_memory[kernels])
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
        at_most = length(arrays.work_time(arrays.is_work(np.sort(others)))) + arrays.idle_before(launched)
        gain = arrays.steady.gain(with_work(others, 0.0), quiet, fused(rows, number, as_graph=True))
        gain = min(gain, at_most)
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
    # Indices of device work that is not a copy or pointwise, by its name: operators of products copy operands.
    copies = arrays.is_named(r"elementwise|copy|Memcpy|Memset|::(?:clone|copy_|expand|mul|add)\b")[arrays.work.rows]
    return arrays.work.launch[np.intersect1d(arrays.launched(products), np.flatnonzero(~copies))]


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


_CONVOLUTION: Final = (
    r"^aten::(?:cudnn_convolution(?:_transpose)?(?:_backward(?:_input|_weight)?)?|miopen_convolution"
    r"|convolution_backward)$"
)
_MANY_TRIALS: Final = 8
_TRIAL_RATIO: Final = 4
#: cuDNN measures an algorithm with a pair of events, for which it waits; a convolution does not wait otherwise.
_MEASURED: Final = r"^(?:cuda|hip)EventSynchronize$"
_MIN_MEASURED: Final = 2


def autotuning(arrays: TraceArrays) -> Iterator[Finding]:
    """``autotuning``: convolutions try algorithms in the measured window (``torch.backends.cudnn.benchmark``).

    A call counts if it waits for the events of two algorithms, or if it launches at least eight kernels, and four times
    the median of the calls of its name. Gain: what a replay saves in which the work that such calls launched takes the
    share of time of one algorithm, or of the median call.
    """
    rows = arrays.outermost(arrays.matching(_CONVOLUTION, "cpu_op"))
    if len(rows) < _TRIAL_RATIO or not len(arrays.by_launch[0]):
        return
    low, high = arrays.launched_in(rows)
    counts = pd.Series(high - low)
    median = counts.groupby(arrays.events["name"].array[rows].codes).transform("median")
    is_many = ((counts >= _MANY_TRIALS) & (counts >= _TRIAL_RATIO * median)).to_numpy()
    measured = _events_waited_for(arrays, rows)
    is_measured = measured >= _MIN_MEASURED
    trials = is_measured | (is_many & (is_many.mean() <= 1 / 2))
    if not trials.any():
        return
    launched = arrays.launched(rows[trials])
    size = length(arrays.work_time(launched))
    results = 1 + arrays.is_named("backward$")[rows]  # gradients of the input and of the weight
    of_call = np.where(is_measured, results / (results + measured), median / counts.clip(lower=1))
    left = float(of_call[trials].mean())
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


def _events_waited_for(arrays: TraceArrays, rows: Ints) -> Ints:
    """How many events the host waits for within each of `rows` (none within another)."""
    is_row = np.zeros(len(arrays.events), bool)
    is_row[rows] = True
    around = nearest_of(arrays.parent[arrays.host(_MEASURED)], is_row, arrays.parent)
    found: Ints = np.bincount(np.searchsorted(rows, around[around >= 0]), minlength=len(rows))
    return found


_SHARE: Final = 0.05

#: Names that cuBLAS, cuDNN, CUTLASS, Tensile and the virtual device give to FP32 products.
FP32_PRODUCTS: Final = (
    r"^(?!.*(?:tf32|tensorop|bf16|f16|h884|s16816|s1688)).*"
    r"(?:(?:^|_)s(?:gemm|cudnn)_|convolve_sgemm|sgemm_largek|simt_s(?:gemm|fprop|dgrad|wgrad|conv)"
    r"|_f32f32_f32f32_f32_|[wd]grad_(?:alg\d_)?engine<float|winograd_nonfused::winograd\w+<float|^Cijk_\w+?_SB_"
    r"|^simulated::(?:mm|addmm|bmm|baddbmm|(?:\w+_)?convolution\w*)<float>)"
)
#: Those of convolutions, by their names and by the operators that launch them.
_CONVOLVING: Final = r"scudnn|convolve|[wd]grad|fprop|winograd|conv"
_CONVOLUTION_OP: Final = r"^aten::\w*conv"
#: Kernels on doubles: products, and template instances of pointwise kernels and reductions.
_PRODUCTS_64: Final = (
    r"(?:^|_)d(?:gemm|884gemm)|_f64f64_|^Cijk_\w+?_DB_|^simulated::(?:mm|addmm|bmm|baddbmm|\w*conv\w*)<double>"
)
_FLOAT64: Final = rf"{_PRODUCTS_64}|^simulated::\w+<double>|[<( ,]double[,>)]|Functor<double>"

_TF32: Final = 8.0

#: Peak rate of float16 (7.x) or TF32 tensor cores by that of FP32, dense, from NVIDIA's data sheets: V100 125 and 15.7,
#: T4 65 and 8.1, A100 156 and 19.5, A10 and L4 62 and 31, H100 494 and 67, B200 1,100 and 80 TFLOP/s; AMD's MI300X
#: 1,307 (bfloat16) and 163.
_RATIOS: Final = {7.0: 8.0, 7.5: 8.0, 8.0: 8.0, 8.6: 2.0, 8.9: 2.0, 9.0: 7.4, 10.0: 14.0, 12.0: 2.0}
_USUAL_RATIO: Final = 8.0

#: The same of GeForce GPUs, for 16-bit floats with sums in FP32, from NVIDIA's whitepapers: RTX 2080 Ti 54 and 13,
#: RTX 3080 60 and 30, RTX 4090 165 and 83, RTX 5090 210 and 105 TFLOP/s. Their TF32 has the rate of FP32.
_GEFORCE_RATIOS: Final = {7.5: 4.0, 8.6: 2.0, 8.9: 2.0, 12.0: 2.0}

#: Devices on which float64 has half of the rate of float32, or the same; on all others a 32nd or less.
_FAST_64: Final = (6.0, 7.0, 8.0, 9.0, 10.0)
_SLOW_64: Final = 32.0


def full_precision(arrays: TraceArrays) -> Iterator[Finding]:
    """``fp32_math``: matrix products and convolutions run in FP32 on units other than the tensor cores.

    Gain: what a replay saves in which these kernels take the time that corresponds to the peak rate of the tensor
    cores; where no launches are recorded, this part of the time in which only they ran, if that is more. It is an upper
    bound: memory can limit the faster kernels. Kernels are recognized by the names that cuBLAS,
    cuDNN, CUTLASS and Tensile give to FP32. Devices without tensor cores get no finding. Threshold: a twentieth of
    the window.
    """
    rows = arrays.matching(FP32_PRODUCTS, "kernel")
    capability = arrays.capability
    if not len(rows) or not arrays.has_tensor_cores:
        return
    is_geforce = arrays.is_geforce and capability in _GEFORCE_RATIOS
    ratio = (_GEFORCE_RATIOS if is_geforce else _RATIOS).get(capability or 0.0, _USUAL_RATIO)
    gain = arrays.steady.gain(with_work(rows, 1 / ratio))
    if not (arrays.work.launch >= 0).any():  # a replay does not know what streams wait for
        gain = max(gain, round(arrays.exposed(arrays.is_work(rows)) * (1 - 1 / ratio)))
    if arrays.is_minor(gain, _SHARE):
        return
    taken = int(arrays.dur[rows].sum())
    what = (
        f"{units.plural(len(rows), 'kernel')} of matrix products and convolutions in FP32 took {units.duration(taken)}"
        f", most of it in {arrays.main_name(rows)}; tensor cores have {ratio:g} times the rate"
        f"{' with 16-bit floats' if is_geforce else ''}."
    )
    has_tf32 = capability is not None and capability >= _TF32 and not arrays.is_amd
    yield arrays.finding(
        "fp32_math", "FP32 matrix products", what, gain, _advice(arrays, capability, rows),
        "high" if has_tf32 else "medium", rows=rows, place=arrays.place_of(rows),
    )  # fmt: skip


def _advice(arrays: TraceArrays, capability: float | None, rows: Ints) -> str:
    if arrays.is_amd:
        return 'torch.autocast("cuda", torch.bfloat16) around the forward pass'
    if capability is not None and capability < _TF32:
        return 'torch.autocast("cuda", torch.float16) with torch.amp.GradScaler: this GPU has tensor cores for float16'
    if capability is None:
        return 'torch.autocast("cuda") around the forward pass; from the A100 on, also TF32 with FP32 inputs'
    convolving = rows[arrays.is_named(_CONVOLVING)[rows]]
    of_operators = arrays.work.rows[arrays.launched(arrays.matching(_CONVOLUTION_OP, "cpu_op"))]
    convolving = np.union1d(convolving, np.intersect1d(rows, of_operators))
    if 2 * arrays.dur[convolving].sum() >= arrays.dur[rows].sum():
        return (
            'torch.autocast("cuda", torch.bfloat16) around the forward pass, with channels_last; TF32 is on for '
            "convolutions unless torch.backends.cudnn.allow_tf32 is False"
        )
    if arrays.is_geforce:
        return 'torch.autocast("cuda", torch.bfloat16) around the forward pass; TF32 has the rate of FP32 on this GPU'
    return (
        'torch.set_float32_matmul_precision("high") allows TF32; or torch.autocast("cuda", torch.bfloat16) around the '
        "forward pass"
    )


def double_precision(arrays: TraceArrays) -> Iterator[Finding]:
    """``float64_math``: kernels compute in float64.

    Gain: what a replay saves in which products, and kernels of the program itself, take the time that corresponds to
    the rate of float32 (a 32nd, or half on devices with fast float64), and torch's other kernels half of their time,
    for half of the bytes. Threshold: a twentieth of the window.
    """
    rows = arrays.matching(_FLOAT64, "kernel")
    if not len(rows):
        return
    capability = arrays.capability
    is_slow = not arrays.is_amd and capability is not None and capability not in _FAST_64
    products = arrays.matching(_PRODUCTS_64, "kernel")
    is_product = arrays.is_named(_PRODUCTS_64)[rows]
    if is_slow and not arrays.has_torch:  # arithmetic can be what limits them
        products, is_product = rows, np.ones(len(rows), bool)
    others = rows[~is_product]
    gain = arrays.steady.gain(with_work(products, 1 / _SLOW_64 if is_slow else 0.5), with_work(others, 0.5))
    if arrays.is_minor(gain, _SHARE):
        return
    what = (
        f"{units.plural(len(rows), 'kernel')} in float64 took {units.duration(int(arrays.dur[rows].sum()))}, most of "
        f"it in {arrays.main_name(rows)}."
    )
    advice = "float32: check for numpy arrays, which are float64, and torch.set_default_dtype; x.float() at the source"
    if not arrays.has_torch:
        advice = (
            "float instead of double where its precision suffices, for all of the arithmetic or the inner loop of it"
        )
    yield arrays.finding(
        "float64_math", "float64", what, gain, advice, "high" if arrays.has_torch else "medium",
        rows=rows, place=arrays.place_of(rows),
    )  # fmt: skip


#: Shorter kernels are dominated by fixed costs, which differ between libraries.
_MIN_NS: Final = 20_000

#: If so many kinds of calls, and this share of all kinds with expected times, are slow, the GPU as a whole is.
_MANY_KINDS: Final = 3
_MOST: Final = 0.7


def slower_than_usual(arrays: TraceArrays) -> Iterator[Finding]:
    """``slow_kernels``: products, attention, softmax or layer norm take longer than on other GPUs of the same model.

    The expected times are those of `cudalens.analysis.time.roofline`. A call counts if its expected time is at
    least `_MIN_NS`, its kernels ran without other work beside them, and they took more than the limit, which is beyond
    the errors of the expected times. Gain: what a replay saves in which such calls take their expected time, at most
    the time beyond it.
    """
    compute, calls = arrays.calls
    usual = calls.expected()
    ns, limit = _columns(usual)
    known = (ns >= _MIN_NS) & _is_alone(arrays, compute[calls.owned], calls)
    slow = known & (calls.durations > limit * ns)
    if not slow.any():
        return
    kernels = np.flatnonzero(slow[calls.call])
    rows = arrays.work.rows[compute[calls.owned[kernels]]]
    size = int((calls.durations - ns)[slow].sum())
    gain = arrays.steady.bound(size, with_work(rows, (ns / np.maximum(calls.durations, 1))[calls.call[kernels]]))
    if gain:
        yield _finding(arrays, calls, usual, known, slow, rows, gain)


def _columns(usual: list[Expected | None]) -> tuple[Floats, Floats]:
    """Expected times and limits, 0 and 1 where they are not known."""
    found = np.array([(0.0, 1.0) if one is None else (one.ns, one.limit) for one in usual]).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _is_alone(arrays: TraceArrays, at: Ints, calls: Calls) -> Bools:
    """Which calls have only kernels beside which no other work of their device ran."""
    work = arrays.work
    beside = np.zeros(len(work.rows), bool)
    for device in np.unique(work.device):
        mine = np.flatnonzero(work.device == device)
        mine = mine[np.argsort(work.start[mine], kind="stable")]
        until = np.maximum.accumulate(work.end[mine])
        following = work.start[mine[1:]]
        beside[mine[1:][until[:-1] > following]] = True
        beside[mine[:-1][work.end[mine[:-1]] > following]] = True
    shared: Ints = np.bincount(calls.call, weights=beside[at], minlength=len(calls.rows))
    return np.asarray(shared == 0)


def _finding(
    arrays: TraceArrays, calls: Calls, usual: list[Expected | None], known: Bools, slow: Bools, rows: Ints, gain: int
) -> Finding:
    chosen = np.flatnonzero(slow)
    largest = max(chosen.tolist(), key=lambda k: calls.durations[k] - usual[k].ns)  # type: ignore[union-attr]
    one = usual[largest]
    assert one is not None
    name, shapes = arrays.name_of(calls.rows[largest]), str(arrays.events["shapes"].array[calls.rows[largest]])
    expected_ns = sum(found.ns for found in (usual[k] for k in chosen.tolist()) if found is not None)
    what = (
        f"{units.plural(len(chosen), 'call')} took {units.duration(int(calls.durations[chosen].sum()))}, and usually "
        f"take {units.duration(expected_ns)} on this GPU ({one.gpu}, times with a mean error of "
        f"{units.percent(one.error_pct)}); the largest difference: {name} of {units.shorten(shapes, 60)}, "
        f"{calls.durations[largest] / one.ns:.1f} times its usual time."
    )
    advice = _advice_on_slow_kernel(arrays, calls, known, slow)
    return arrays.finding(
        "slow_kernels", "kernels slower than usual on this GPU", what, gain, advice, "medium",
        rows=rows, place=arrays.place(int(calls.rows[largest])),
    )  # fmt: skip


def _advice_on_slow_kernel(arrays: TraceArrays, calls: Calls, known: Bools, slow: Bools) -> str:
    """What to check: the whole GPU where most kinds of calls are slow, otherwise these calls."""
    columns = {name: arrays.events[name].array.codes[calls.rows] for name in ("name", "shapes")}
    kinds, _ = numbered(columns)
    number, all_known = len(np.unique(kinds[slow])), len(np.unique(kinds[known]))
    if number >= _MANY_KINDS and number >= _MOST * all_known:
        return (
            "most kernels are slow, so check the GPU: its clocks and power limit (nvidia-smi -q -d "
            "CLOCK,PERFORMANCE,POWER), and other programs on it"
        )
    return (
        "check these calls: strides and alignment of the operands (rows of 16 bytes), the kernel that the library "
        "chose (its version), and other programs on the GPU; ncu --set full on one of them shows what it waits for"
    )
