"""Durations of kernels without a better model, and of copies and memsets (roofline model), in ns. No torch.

The duration of a kernel is the longer of its arithmetic and its memory traffic, at the fractions of the peaks that real
kernels reach, plus a fixed cost. `cudalens.gpus` models products, attention, rows and collectives by
their sizes; this module is the fallback for those whose sizes are unknown.

The fractions below are medians over the kernels of recorded traces whose operator and shapes are known: a ResNet-50
training step (V100, float32; pytorch/kineto's sample) and two transformers' inference (H100, bfloat16;
AMD-AGI/TraceLens's samples). Predicted times are within a factor of two of recorded times for most operators; kernels
of a few microseconds, gathers and scans are often slower than predicted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from cudalens.gpus.predict import pointwise_bytes_ns

if TYPE_CHECKING:
    from cudalens.gpus.registry import DeviceSpec
    from cudalens.virtual.timing.interfaces import Direction

#: Pointwise kernels on dense tensors, on tensors that PyTorch does not vectorise, and between tensors whose rows lie in
#: different dimensions; kernels that draw random numbers, and dropout; all other kernels, matrix products and
#: convolutions, fused attention.
Family = Literal["dense", "strided", "permuted", "random", "dropout", "other", "matrix", "attention"]

#: Fraction of the memory bandwidth of a pointwise kernel on whole rows: recorded 0.88 to 0.92 (V100).
MEMORY_SHARE: Final = 0.9

#: The same of a kernel that broadcasts or reads out of order, which PyTorch does not vectorise: measured 0.68 to 0.74
#: (H100, H200) for tensors of 50 to 270 MB.
STRIDED_MEMORY_SHARE: Final = 0.7

#: Elements per clock of an SM that kernels reach beside their memory traffic (make gpu-campaign on an H100; times on an
#: H200, which has 1.43 times the bandwidth and the same SMs, are the same within 7 %). Not vectorised: a row added to
#: a bfloat16 matrix 1.45, a bias added to bfloat16 images 1.25. Between rows in different dimensions: a transposed
#: copy 0.52 (bfloat16) and 0.47 (float32), images to channels last 0.70. Normal random numbers 1.6, dropout 2.2.
ELEMENTS_PER_CLOCK: Final = {"strided": 1.4, "permuted": 0.55, "random": 1.6, "dropout": 2.2}

#: Fixed cost of those, ns: small copies of other strides were recorded at 3.6 us, dense kernels at 2.0 us (B200).
STRIDED_FIXED_NS: Final = 1_000

#: The same of reductions, normalisations and gathers: recorded 0.73 to 0.99 (batch norm, V100), 0.72 (mean, H100).
OTHER_MEMORY_SHARE: Final = 0.75

#: Fixed cost of those, ns: small ones were recorded at 3.1 us (layer norm) to 3.6 us (all, index_select, cat; H100).
OTHER_FIXED_NS: Final = 1_500

#: Fraction of the peak of a matrix product or convolution: recorded 0.60 to 0.69 (H100), 0.55 to 0.83 (V100).
MATRIX_SHARE: Final = 0.65

#: The same of fused attention: recorded 0.18 over 559 tokens (H100); the FlashAttention-3 paper reports 0.35 for
#: FlashAttention-2.
ATTENTION_SHARE: Final = 0.25

#: Fixed cost of a matrix product, ns: small ones were recorded at 5.8 us (H100) and 6.3 us (B200).
MATRIX_FIXED_NS: Final = 4_000

#: Fraction of the memory bandwidth of a memset; a modelling choice, as a memset writes whole rows.
MEMSET_SHARE: Final = 0.9

#: Shortest duration of a copy, ns: recorded 1.2 to 1.6 us for a few bytes, in either direction (H100, A100, V100).
COPY_FIXED_NS: Final = 1_300

#: Threads of a block of PyTorch's elementwise kernels (four warps, since 2022).
BLOCK_THREADS: Final = 128

#: Elements per thread of those kernels.
THREAD_ELEMENTS: Final = 4

#: Rows and columns of the result that one block of a modelled matrix product computes, one block per SM.
TILE: Final = 128


def kernel_ns(
    spec: DeviceSpec, flops: int, num_bytes: int, dtype_key: str = "float32", family: Family = "dense"
) -> int:
    """Duration of a kernel.

    Args:
        spec: The GPU.
        flops: Floating-point operations, a multiply-add counted as two.
        num_bytes: Bytes read and written.
        dtype_key: The peak for the arithmetic, one of `cudalens.gpus.registry.PEAK_KEYS`.
        family: The kind of kernel, which determines the fractions of the peaks.

    Returns:
        ``max(flops / peak, num_bytes / bandwidth)`` with both at their fractions, plus the fixed cost, in ns.
    """
    compute_share, memory_share, fixed_ns = _SHARES[family]
    compute_ns = flops / (spec.peak_tflops[dtype_key] * 1e3 * compute_share)
    if family in ELEMENTS_PER_CLOCK:
        compute_ns = max(compute_ns, elements_ns(spec, flops, ELEMENTS_PER_CLOCK[family]))
    if family == "dense":
        memory_ns = pointwise_bytes_ns(spec, num_bytes)
    else:
        memory_ns = num_bytes / (spec.memory_bandwidth_gbps * memory_share)
    return int(max(compute_ns, memory_ns)) + spec.kernel_fixed_ns + fixed_ns


def elements_ns(spec: DeviceSpec, num_elements: int, per_clock: float, num_blocks: int | None = None) -> float:
    """Return the time of a kernel that is limited by the elements that an SM takes in a clock.

    Args:
        spec: The GPU.
        num_elements: Elements of all SMs.
        per_clock: Elements per clock of an SM.
        num_blocks: Thread blocks, if fewer of them than SMs can be busy.
    """
    num_sms = spec.num_sms if num_blocks is None else max(1, min(num_blocks, spec.num_sms))
    return num_elements / (num_sms * spec.clock_mhz * 1e-3 * per_clock)


#: The family of `cudalens.gpus.constants` by the kind of kernel of `kernel_ns`; those without measurements keep their
#: names.
FALLBACK_FAMILIES: Final[dict[Family, str]] = {
    "dense": "pointwise",
    "strided": "strided",
    "permuted": "strided",
    "random": "strided",
    "dropout": "strided",
    "other": "other",
    "matrix": "other",
    "attention": "other",
}

_SHARES: Final[dict[Family, tuple[float, float, int]]] = {
    "dense": (1.0, MEMORY_SHARE, 0),  # the bandwidth by GPU: pointwise_bytes_ns
    "strided": (1.0, STRIDED_MEMORY_SHARE, STRIDED_FIXED_NS),
    "permuted": (1.0, STRIDED_MEMORY_SHARE, STRIDED_FIXED_NS),
    "random": (1.0, STRIDED_MEMORY_SHARE, STRIDED_FIXED_NS),
    "dropout": (1.0, STRIDED_MEMORY_SHARE, STRIDED_FIXED_NS),
    "other": (1.0, OTHER_MEMORY_SHARE, OTHER_FIXED_NS),
    "matrix": (MATRIX_SHARE, MEMORY_SHARE, MATRIX_FIXED_NS),
    "attention": (ATTENTION_SHARE, MEMORY_SHARE, MATRIX_FIXED_NS),
}


def copy_ns(spec: DeviceSpec, num_bytes: int, direction: Direction, pinned: bool = True) -> int:
    """Duration of a memory copy, on its copy engine.

    Args:
        spec: The GPU.
        num_bytes: Bytes to copy.
        direction: The direction; "PtoP" is between two GPUs of this model.
        pinned: Whether the host memory is page-locked; ignored for the other directions.
    """
    return COPY_FIXED_NS + int(num_bytes / _copy_gbps(spec, direction, pinned))


def _copy_gbps(spec: DeviceSpec, direction: Direction, pinned: bool) -> float:
    if direction == "HtoD":
        return spec.pinned_h2d_gbps if pinned else spec.pageable_h2d_gbps
    if direction == "DtoH":
        return spec.pinned_d2h_gbps if pinned else spec.pageable_d2h_gbps
    if direction == "DtoD":  # every byte is read and written
        return spec.memory_bandwidth_gbps * MEMORY_SHARE / 2
    if not spec.can_access_peer:  # through the host: to it, then from it
        return 1 / (1 / spec.pinned_d2h_gbps + 1 / spec.pinned_h2d_gbps)
    return spec.peer_gbps


def memset_ns(spec: DeviceSpec, num_bytes: int) -> int:
    """Duration of a memset."""
    return COPY_FIXED_NS + int(num_bytes / (spec.memory_bandwidth_gbps * MEMSET_SHARE))


def grid_of(num_elements: int) -> tuple[int, int, int]:
    """Return the grid of an elementwise kernel over that many elements."""
    return (max(1, -(-num_elements // (BLOCK_THREADS * THREAD_ELEMENTS))), 1, 1)


def room(spec: DeviceSpec, num_blocks: int) -> float:
    """Return the part of the GPU that an elementwise kernel uses, in (0, 1]: its threads over the resident threads."""
    return min(1.0, num_blocks * BLOCK_THREADS / spec.max_resident_threads)


def matrix_room(spec: DeviceSpec, num_tiles: int) -> float:
    """Return the part of the GPU that a matrix product uses, in (0, 1]: one SM per tile of its result."""
    return min(1.0, max(1, num_tiles) / spec.num_sms)
