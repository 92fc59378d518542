"""Predict the times of matrix products, convolutions, attention, rows, pointwise kernels and collectives. No torch.

The formulas of `cudalens.gpus.time_formulas` with the constants of `cudalens.gpus.constants`, and the 80 % band of a
predicted time. Results for the same sizes are cached: programs repeat their shapes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from cudalens.errors import VirtualDeviceError
from cudalens.gpus import time_formulas
from cudalens.gpus.constants import bands, fit_of, nearest_gpu, rates_of
from cudalens.gpus.registry import DeviceSpec, parse_device

#: Collectives with measured times, and their names in torch.distributed.
COLLECTIVES: Final = {
    "all_gather": "all_gather",
    "all_gather_into_tensor": "all_gather",
    "all_reduce": "all_reduce",
    "all_to_all": "alltoall",
    "all_to_all_single": "alltoall",
    "alltoall": "alltoall",
    "reduce_scatter": "reduce_scatter",
    "reduce_scatter_tensor": "reduce_scatter",
}

#: Sequences of at most this many queries use a decoding kernel.
DECODE_QUERIES: Final = 1

#: Time of the backward pass of fused attention over that of the forward pass, both without the fixed cost. It computes
#: five products where the forward pass computes two; the FlashAttention-2 paper (arXiv 2307.08691, figures 4 and 5)
#: reports rates of about 0.85 of the forward pass: 2.5 / 0.85.
ATTENTION_BACKWARD: Final = 2.9


#: Time by which a matrix product in a program exceeds the same product in repeated replays of a CUDA graph, whose times
#: were measured: instructions and operands are cold. Recorded small products (H100, B200) exceed the formula by 0.7 to
#: 2.3 us; 1 us would move the mean error against replays of a B200 beyond 15 %, so three quarters of that are used.
PROGRAM_NS: Final = 750

#: Factor of the time on tensor cores by the alignment of the operands in bytes: kernels for less than 16 bytes load
#: with more instructions. Recorded TF32 products with 4 or 8 bytes (A100) take 1.9 to 2.7 times the time of aligned
#: ones, a bfloat16 product with 4 bytes (H100) 2.2 times. The factor of 2 bytes is an extrapolation.
UNALIGNED: Final = {16: 1.0, 8: 2.0, 4: 2.0, 2: 4.0, 1: 4.0}

#: The same from Hopper on, where such products do not run on its own instructions for tensor cores (wgmma) but on those
#: of the generation before: measured 2.9 with 8 bytes and 7.0 to 7.9 with 2 bytes (H100), recorded 2.2 with 4 bytes.
UNALIGNED_HOPPER: Final = {16: 1.0, 8: 2.9, 4: 2.4, 2: 7.4, 1: 7.4}

#: Time of a TF32 product over that of a bfloat16 product with the same share of the peak. Recorded products of 20 us
#: and more (A100) take 1.2 times the predictions without it, in each of three traces, of which one was used here.
TF32_SLOWDOWN: Final = 1.2

#: Operations per clock of an SM of which depthwise convolutions reach a fitted share: the peak of an SM with 128 units.
#: Their kernels load a value for each multiplication, so that SMs with more units are not faster.
DEPTHWISE_FLOPS: Final = 256

#: Largest inner dimension for which cuBLAS computes float32 products of operands that are not aligned without tensor
#: cores although TF32 is allowed: 110 of 113 recorded products in three traces (A100); none above 128.
SHORT_DEPTH: Final = 48


def unaligned_slowdown(spec: DeviceSpec, alignment: int) -> float:
    """Return the factor of the time on tensor cores of a product whose operands are aligned to that many bytes."""
    return (UNALIGNED_HOPPER if spec.compute_capability >= (9, 0) else UNALIGNED)[alignment]


@lru_cache(maxsize=65536)
def matrix_ns(
    spec: DeviceSpec, dtype_key: str, batch: int, m: int, n: int, k: int, element_bytes: int, slowdown: float = 1.0
) -> int:
    """Return the time of ``batch`` products of an (m x k) and a (k x n) matrix.

    Args:
        spec: The GPU.
        dtype_key: The compute unit, one of `cudalens.gpus.registry.PEAK_KEYS`.
        batch: Number of products.
        m: Rows of the result.
        n: Columns of the result.
        k: Inner dimension.
        element_bytes: Size of an element.
        slowdown: Factor of the time on the compute unit, for operands that are not aligned.
    """
    if dtype_key == "tf32" and slowdown > 1 and k <= SHORT_DEPTH:
        dtype_key, slowdown = "float32", 1.0
    family = "matrix_single" if dtype_key in ("float32", "float64") else "matrix_half"
    constants, gpu = fit_of(spec, family).constants, rates_of(spec, dtype_key)
    slowdown *= TF32_SLOWDOWN if dtype_key == "tf32" else 1
    gpu = gpu._replace(flops_per_ns=gpu.flops_per_ns / slowdown)
    time_ns = time_formulas.matrix_ns(constants, gpu, batch, m, n, max(k, 1), element_bytes)
    # A product is never faster than the peak; GeForce cards have clocks above that of their data sheet.
    peak_ns = 0.0 if "GeForce" in spec.name else 2 * batch * m * n * k / gpu.flops_per_ns
    return math.ceil(max(time_ns, peak_ns))


@lru_cache(maxsize=65536)
def convolution_ns(
    spec: DeviceSpec,
    dtype_key: str,
    groups: int,
    m: int,
    n: int,
    k: int,
    num_bytes: int,
    element_bytes: int,
    result: str = "output",
    is_winograd: bool = False,
    has_few_channels: bool = False,
) -> int:
    """Return the time of a convolution, or of the gradient of its input or weight, as products; one for each group.

    Args:
        spec: The GPU.
        dtype_key: The compute unit, one of `cudalens.gpus.registry.PEAK_KEYS`.
        groups: Number of products.
        m: Rows of a product's result.
        n: Columns of a product's result.
        k: Inner dimension of a product.
        num_bytes: Bytes of the input, the weight and the output.
        element_bytes: Size of an element.
        result: What is computed: "output", "input" (its gradient) or "weight" (its gradient).
        is_winograd: Whether Winograd's algorithm can compute it (single precision, windows of 3 x 3 at every position).
        has_few_channels: Whether the input has too few channels for the fast kernels of half precision.
    """
    family = "convolution_single" if dtype_key in ("float32", "float64") else "convolution_half"
    constants, gpu = fit_of(spec, family).constants, rates_of(spec, dtype_key)
    if dtype_key == "tf32":
        gpu = gpu._replace(flops_per_ns=gpu.flops_per_ns / TF32_SLOWDOWN)
    speed = constants["winograd"] if is_winograd else 1
    if has_few_channels:
        speed *= constants["few_channels"]
    time_ns = time_formulas.convolution_ns(constants, gpu, groups, m, n, max(k, 1), num_bytes, element_bytes, speed)
    return int(time_ns * constants.get(f"{result}_gradient", 1))


def depthwise_ns(spec: DeviceSpec, num_bytes: int, flops: int, is_gradient: bool = False) -> int:
    """Return the time of a depthwise convolution, or of the gradient of its input or weight.

    Args:
        spec: The GPU.
        num_bytes: Bytes of the input, the weight and the output.
        flops: Operations, a multiply-add counted as two.
        is_gradient: Whether a gradient is computed.
    """
    constants, gpu = fit_of(spec, "depthwise").constants, rates_of(spec, "float32")
    gpu = gpu._replace(flops_per_ns=spec.num_sms * spec.clock_mhz / 1e3 * DEPTHWISE_FLOPS)
    time_ns = time_formulas.depthwise_ns(constants, gpu, num_bytes, flops)
    return int(time_ns * (constants["gradient"] if is_gradient else 1))


@lru_cache(maxsize=65536)
def attention_ns(
    spec: DeviceSpec,
    dtype_key: str,
    batch: int,
    queries: int,
    keys: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    is_causal: bool,
    element_bytes: int,
    is_backward: bool = False,
    family: str = "attention",
) -> int:
    """Return the time of fused attention; sizes as in `cudalens.gpus.time_formulas.attention_ns`.

    `family` names the constants: those of the libraries of language models ("attention"), or of cuDNN.
    """
    gpu = rates_of(spec, dtype_key)
    sizes = (heads, kv_heads, head_dim)
    if queries <= DECODE_QUERIES and not is_backward:
        constants = fit_of(spec, "decode").constants
        return int(time_formulas.decode_ns(constants, gpu, batch, keys, *sizes, element_bytes))
    constants = fit_of(spec, family).constants
    time_ns = time_formulas.attention_ns(constants, gpu, batch, queries, keys, *sizes, is_causal, element_bytes)
    fixed_ns = constants["fixed_ns"]
    return int(fixed_ns + (time_ns - fixed_ns) * (ATTENTION_BACKWARD if is_backward else 1))


@lru_cache(maxsize=65536)
def rows_ns(spec: DeviceSpec, kind: str, rows: int, length: int, num_bytes: int, element_bytes: int) -> int:
    """Return the time of a kernel that reduces and writes rows.

    Args:
        spec: The GPU.
        kind: "softmax" or "layer_norm".
        rows: Number of rows.
        length: Elements of a row.
        num_bytes: Bytes read and written, each once.
        element_bytes: Size of an element.
    """
    constants, gpu = fit_of(spec, kind).constants, rates_of(spec, "float32")
    formula = time_formulas.layer_norm_ns if kind == "layer_norm" else time_formulas.rows_ns
    return int(formula(constants, gpu, rows, length, num_bytes, element_bytes))


def pointwise_share(spec: DeviceSpec) -> float:
    """Return the fraction of the memory bandwidth that a pointwise kernel on whole tensors reaches."""
    return float(fit_of(spec, "pointwise").constants["memory_share"])


def pointwise_bytes_ns(spec: DeviceSpec, num_bytes: int) -> float:
    """Return the time in which a pointwise kernel on whole tensors moves its bytes, without its fixed cost."""
    constants = fit_of(spec, "pointwise").constants
    return float(time_formulas.moved_ns(constants, rates_of(spec, "float32"), num_bytes))


def collective_time(device: str | DeviceSpec, op: str, num_gpus: int, message_bytes: int) -> int:
    """Return the time of a collective over GPUs of one node, in ns.

    Args:
        device: The GPU: "h100" or a `DeviceSpec`.
        op: The name in torch.distributed: "all_reduce", "all_gather", "reduce_scatter", "all_to_all", or one of their
            single-tensor variants.
        num_gpus: Number of GPUs, at least 2. Times of 2 to 8 GPUs were measured.
        message_bytes: The message as nccl-tests defines it: the tensor of all_reduce and all_to_all, the whole output
            of all_gather, the whole input of reduce_scatter.

    Raises:
        VirtualDeviceError: The device or the operation is unknown, or a number is out of range.
    """
    spec, _ = parse_device(device)
    if op not in COLLECTIVES:
        raise VirtualDeviceError(
            f"No measured times of the collective {op!r}; expected one of {', '.join(COLLECTIVES)}."
        )
    if num_gpus < 2 or message_bytes < 0:
        raise VirtualDeviceError(
            f"collective_time of {message_bytes} bytes over {num_gpus} GPUs: expected two or more GPUs and a size of "
            "zero or more."
        )
    name = COLLECTIVES[op]
    factor = time_formulas.bus_factor(name, num_gpus)
    return int(time_formulas.collective_ns(fit_of(spec, name).constants, factor, num_gpus, message_bytes))


# The 80 % band of a predicted time.

#: Standard deviations on each side of an 80 % band of a normal distribution.
DEVIATIONS_OF_80_PCT: Final = 1.2816

#: Standard deviation of the logarithm of times where the errors are those of another GPU. Between measured GPUs of
#: neighbouring generations, the constants of one give times of the other that differ by this much.
OTHER_GPU: Final = 0.30

#: The same of kernels without measurements, whose time is that of their bytes and operations. Recorded reductions,
#: gathers and strided copies are within a factor of two for most operators.
UNMEASURED: Final = 0.54

#: The same of a whole program beside the errors of its kernels: gaps, clocks, other versions of libraries.
PROGRAM: Final = 0.05

#: Kernels up to this duration, ns, have errors of their own: fixed costs and what the cache holds decide.
SHORT_NS: Final = 20_000


class Band(NamedTuple):
    """An 80 % band of a predicted time.

    Attributes:
        low: Lower end as a factor of the predicted time, at most 1.
        high: Upper end as a factor of the predicted time, at least 1.
        unmeasured_share: The part of the time, from 0 to 1, of kernels whose family was not measured on any GPU.
    """

    low: float
    high: float
    unmeasured_share: float

    @property
    def is_wide(self) -> bool:
        """Whether the ends differ by more than a factor of two, so that the middle says little."""
        return self.high > 2 * self.low

    @property
    def error_pct(self) -> float:
        """The distance of the upper end from the predicted time, per cent."""
        return (self.high - 1) * 100

    @property
    def words(self) -> str:
        """The band in words: ``± 9 %``, or ``0.5 to 1.9 times these`` for a wide one."""
        return f"{self.low:.1f} to {self.high:.1f} times these" if self.is_wide else f"± {self.error_pct:.0f} %"


class Bounds(NamedTuple):
    """The ends of an 80 % band of a family's times, as logarithms of measured over predicted time.

    Attributes:
        low: At most 0.
        high: At least 0.
        is_measured: Whether kernels of the family were measured, on this GPU or another one.
        is_shared: Whether the GPU was measured by whole models, so that all its families have one error.
    """

    low: float
    high: float
    is_measured: bool = True
    is_shared: bool = False


def time_band(spec: DeviceSpec, kernels: Iterable[tuple[str, int]]) -> Band:
    """Return the band of the total time of some kernels.

    ``bands.json`` has quantiles of measured over predicted times by family, GPU and duration (`tools/fit_bands.py`).
    The band of a program is made from those of its families. A wrong constant moves all kernels of a family alike, so
    the errors within a family do not average out; the errors of different families are taken as independent.

    Args:
        spec: The GPU.
        kernels: Family (a name of ``bands.json``; any other text is a kernel without measurements) and duration (ns) of
            each kernel.
    """
    times_ns: dict[tuple[str, bool], int] = defaultdict(int)  # by family and whether the kernels are short
    for family, duration_ns in kernels:
        times_ns[family, duration_ns <= SHORT_NS] += duration_ns
    total_ns = sum(times_ns.values())
    if not total_ns:
        return Band(math.exp(-DEVIATIONS_OF_80_PCT * UNMEASURED), math.exp(DEVIATIONS_OF_80_PCT * UNMEASURED), 1.0)

    # How far each source of errors moves the total, as logarithms: at most 0 downwards, at least 0 upwards.
    down: dict[str, float] = defaultdict(float)
    up: dict[str, float] = defaultdict(float)
    unmeasured_ns = 0
    for (family, is_short), duration_ns in times_ns.items():
        bounds = family_bounds(spec, family, is_short)
        source = "whole models" if bounds.is_shared else family
        share = duration_ns / total_ns
        down[source] += share * bounds.low
        up[source] += share * bounds.high
        if not bounds.is_measured:
            unmeasured_ns += duration_ns

    # Independent errors add as squares.
    margin = (DEVIATIONS_OF_80_PCT * PROGRAM) ** 2
    below = math.sqrt(margin + sum(error**2 for error in down.values()))
    above = math.sqrt(margin + sum(error**2 for error in up.values()))
    return Band(math.exp(-below), math.exp(above), unmeasured_ns / total_ns)


@lru_cache(maxsize=4096)
def family_bounds(spec: DeviceSpec, family: str, is_short: bool) -> Bounds:
    """Return the ends of the band of a family's kernels on a GPU.

    Args:
        spec: The GPU.
        family: A name of ``bands.json``, or the name of a kind of kernel without measurements.
        is_short: Whether the kernels last at most `SHORT_NS`.
    """
    if spec.calibration is not None and family in spec.calibration:
        return Bounds(-DEVIATIONS_OF_80_PCT * PROGRAM, DEVIATIONS_OF_80_PCT * PROGRAM)
    entries = bands().get(family)
    if not entries:
        return Bounds(-DEVIATIONS_OF_80_PCT * UNMEASURED, DEVIATIONS_OF_80_PCT * UNMEASURED, is_measured=False)
    gpu = nearest_gpu(spec, entries)
    entry = entries[gpu]
    low_ratio, high_ratio, *_ = entry["short" if is_short else "long"]  # measured over predicted time
    low, high = min(0.0, math.log(low_ratio)), max(0.0, math.log(high_ratio))
    if gpu != spec.key:
        other = DEVIATIONS_OF_80_PCT * OTHER_GPU
        low, high = -math.hypot(low, other), math.hypot(high, other)
    return Bounds(low, high, is_shared="models" in entry)
