"""The shipped GPU specifications, with their sources. No torch.

Memory sizes, clocks, bus widths and caches are printouts: of CUDA's ``deviceQuery`` sample, of torch, or of a Kineto
trace. Two cards of one model differ by a few MiB (driver, ECC); one printout is used. The peaks are NVIDIA's.
"""

from __future__ import annotations

from typing import Any, Final

from cudalens.virtual.specs.device_spec import MIB, DeviceSpec

Facts = dict[str, Any]


def _peaks(
    *,
    float64: float,
    float32: float,
    tf32: float,
    half: float,
    bfloat16: float | None = None,
    float8: float,
    int8: float,
) -> dict[str, float]:
    """Peaks by key; `bfloat16` defaults to `half`."""
    return {
        "float64": float64,
        "float32": float32,
        "tf32": tf32,
        "float16": half,
        "bfloat16": half if bfloat16 is None else bfloat16,
        "float8": float8,
        "int8": int8,
    }


# Host link, GB/s. A bus transfers 15.75, 31.5 or 63 GB/s a direction (PCI Express 3.0, 4.0, 5.0 with 16 lanes).
# Pinned: bandwidthTest of a GTX 1650 SUPER and of an A100-SXM4-40GB, nvbandwidth of an H100 (55.6, NVIDIA's blog).
# Pageable copies use a staging buffer that the host fills, so that one core's memcpy limits them: recorded at
# 10 GB/s (V100) and 6 to 11 GB/s (A100) to the device. Cards in clouds often have fewer lanes than these 16.
_PCIE3: Final[Facts] = {
    "pinned_h2d_gbps": 12.4,
    "pinned_d2h_gbps": 12.7,
    "pageable_h2d_gbps": 9.0,
    "pageable_d2h_gbps": 8.0,
    "peer_gbps": 10.0,
}
_PCIE4: Final[Facts] = {
    "pinned_h2d_gbps": 26.1,
    "pinned_d2h_gbps": 25.6,
    "pageable_h2d_gbps": 9.0,
    "pageable_d2h_gbps": 8.0,
    "peer_gbps": 21.0,
}
_PCIE5: Final[Facts] = {
    "pinned_h2d_gbps": 55.6,
    "pinned_d2h_gbps": 55.6,
    "pageable_h2d_gbps": 12.0,
    "pageable_d2h_gbps": 11.0,
    "peer_gbps": 42.0,
}

# Between two GPUs, one direction: p2pBandwidthLatencyTest of eight H100 SXM reaches 376 of NVLink's 450 GB/s
# (NVIDIA/nccl issue 1264). The others are their link's rate times the same share: V100 2 links of 25 GB/s between
# neighbours, A100 300, B200 900 GB/s; cards without NVLink two thirds of their PCI Express bus (a modelling choice).
_NVLINK: Final = {"v100": 42.0, "a100": 250.0, "h100": 376.0, "b200": 752.0}

# Shared memory and threads of an SM by compute capability: CUDA C++ programming guide, "Technical specifications per
# compute capability"; recorded deviceProperties contain the same numbers.
_SM70: Final[Facts] = {
    "compute_capability": (7, 0),
    "max_threads_per_sm": 2048,
    "max_blocks_per_sm": 32,
    "shared_memory_per_sm_bytes": 98304,
    "shared_memory_per_block_optin_bytes": 98304,
}
_SM75: Final[Facts] = {
    "compute_capability": (7, 5),
    "max_threads_per_sm": 1024,
    "max_blocks_per_sm": 16,
    "shared_memory_per_sm_bytes": 65536,
    "shared_memory_per_block_optin_bytes": 65536,
}
_SM80: Final[Facts] = {
    "compute_capability": (8, 0),
    "max_threads_per_sm": 2048,
    "max_blocks_per_sm": 32,
    "shared_memory_per_sm_bytes": 167936,
    "shared_memory_per_block_optin_bytes": 166912,
}
_SM86: Final[Facts] = {
    "compute_capability": (8, 6),
    "max_threads_per_sm": 1536,
    "max_blocks_per_sm": 16,
    "shared_memory_per_sm_bytes": 102400,
    "shared_memory_per_block_optin_bytes": 101376,
}
_SM89: Final[Facts] = _SM86 | {"compute_capability": (8, 9), "max_blocks_per_sm": 24}
_SM90: Final[Facts] = {
    "compute_capability": (9, 0),
    "max_threads_per_sm": 2048,
    "max_blocks_per_sm": 32,
    "shared_memory_per_sm_bytes": 233472,
    "shared_memory_per_block_optin_bytes": 232448,
}
_SM100: Final[Facts] = _SM90 | {"compute_capability": (10, 0)}
_SM120: Final[Facts] = _SM89 | {"compute_capability": (12, 0)}

_HOPPER: Final = "NVIDIA H100 Tensor Core GPU Architecture white paper"
_AMPERE: Final = "NVIDIA A100 Tensor Core GPU Architecture white paper"
_GA102: Final = "NVIDIA Ampere GA102 GPU Architecture white paper"
_ADA: Final = "NVIDIA Ada GPU Architecture white paper"
_A100: Final[Facts] = _SM80 | _PCIE4 | {
    "num_sms": 108,
    "clock_mhz": 1410,
    "memory_bus_bits": 5120,
    "l2_cache_bytes": 40 * MIB,
    "num_copy_engines": 3,
    "peak_tflops": _peaks(float64=19.5, float32=19.5, tf32=156.0, half=312.0, float8=312.0, int8=624.0),
    "peer_gbps": _NVLINK["a100"],
    "idle_watts": 55.0,
    "max_watts": 400.0,
}  # fmt: skip
_H100: Final[Facts] = _SM90 | _PCIE5 | {
    "num_sms": 132,
    "clock_mhz": 1980,
    "num_copy_engines": 3,
    "peak_tflops": _peaks(float64=66.9, float32=66.9, tf32=494.7, half=989.4, float8=1978.9, int8=1978.9),
    "peer_gbps": _NVLINK["h100"],
    "idle_watts": 70.0,
    "max_watts": 700.0,
}  # fmt: skip

TABLE: Final = (
    DeviceSpec(
        key="v100",
        name="Tesla V100-SXM2-32GB",
        sources=(
            "NVIDIA Tesla V100 GPU Architecture white paper, table 1",
            "deviceProperties of a Kineto trace of Tesla V100-SXM2-32GB (HolisticTraceAnalysis, ns_resolution_trace)",
        ),
        **_SM70,
        **_PCIE3 | {"peer_gbps": _NVLINK["v100"]},
        total_memory_bytes=34_079_637_504,
        num_sms=80,
        clock_mhz=1530,
        memory_clock_mhz=877,
        memory_bus_bits=4096,
        l2_cache_bytes=6 * MIB,
        num_copy_engines=6,
        memory_bandwidth_gbps=898.0,
        # No tf32, bfloat16 or float8 units: they run at the float32 rate. int8 is DP4A, four times float32.
        peak_tflops=_peaks(float64=7.8, float32=15.7, tf32=15.7, half=125.0, bfloat16=15.7, float8=15.7, int8=62.8),
        idle_watts=42.0,
        max_watts=300.0,
    ),
    DeviceSpec(
        key="t4",
        name="Tesla T4",
        sources=(
            "NVIDIA T4 Tensor Core GPU data sheet",
            "NVIDIA Turing GPU Architecture white paper, appendix A",
            "torch.cuda.get_device_properties on Colab: total_memory=15095MB (15828320256 bytes), L2_cache_size=4MB",
        ),
        **_SM75,
        **_PCIE3,
        total_memory_bytes=15_828_320_256,
        num_sms=40,
        clock_mhz=1590,
        memory_clock_mhz=5001,
        memory_bus_bits=256,
        l2_cache_bytes=4 * MIB,
        num_copy_engines=3,
        memory_bandwidth_gbps=320.0,
        # float64 is 1/32 of float32; no tf32, bfloat16 or float8 units.
        peak_tflops=_peaks(float64=0.253, float32=8.1, tf32=8.1, half=65.0, bfloat16=8.1, float8=8.1, int8=130.0),
        idle_watts=10.0,
        max_watts=70.0,
    ),
    DeviceSpec(
        key="a10",
        name="NVIDIA A10",
        sources=("NVIDIA A10 Tensor Core GPU data sheet", _GA102, "deviceQuery of an A10 (driver CUDA 12.2)"),
        **_SM86,
        **_PCIE4,
        total_memory_bytes=23_609_475_072,
        num_sms=72,
        clock_mhz=1695,
        memory_clock_mhz=6251,
        memory_bus_bits=384,
        l2_cache_bytes=6 * MIB,
        memory_bandwidth_gbps=600.0,
        peak_tflops=_peaks(float64=0.488, float32=31.2, tf32=62.5, half=125.0, float8=125.0, int8=250.0),
        idle_watts=16.0,
        max_watts=150.0,
    ),
    DeviceSpec(
        key="a100",
        name="NVIDIA A100-SXM4-40GB",
        sources=(_AMPERE, "deviceProperties of a Kineto trace of an A100 with 40 GB (HolisticTraceAnalysis)"),
        **_A100,
        total_memory_bytes=42_297_524_224,
        memory_clock_mhz=1215,
        memory_bandwidth_gbps=1555.0,
    ),
    DeviceSpec(
        key="a100-80gb",
        name="NVIDIA A100-SXM4-80GB",
        sources=(_AMPERE, "NVIDIA A100 80GB data sheet", "deviceQuery of an A100-SXM4-80GB (driver CUDA 12.2)"),
        **_A100,
        total_memory_bytes=84_987_740_160,
        memory_clock_mhz=1593,
        memory_bandwidth_gbps=2039.0,
    ),
    DeviceSpec(
        key="l4",
        name="NVIDIA L4",
        sources=(
            "NVIDIA L4 Tensor Core GPU data sheet (rates halved: printed with sparsity)",
            _ADA,
            "deviceQuery of an L4 (CUDA 12.8)",
        ),
        **_SM89,
        **_PCIE4,
        total_memory_bytes=23_583_784_960,
        num_sms=58,
        clock_mhz=2040,
        memory_clock_mhz=6251,
        memory_bus_bits=192,
        l2_cache_bytes=48 * MIB,
        memory_bandwidth_gbps=300.0,
        peak_tflops=_peaks(float64=0.473, float32=30.3, tf32=60.0, half=121.0, float8=242.5, int8=242.5),
        idle_watts=16.0,
        max_watts=72.0,
    ),
    DeviceSpec(
        key="l40s",
        name="NVIDIA L40S",
        sources=("NVIDIA L40S data sheet", _ADA, "README of the crate cuda-device-query: an L40S"),
        **_SM89,
        **_PCIE4,
        total_memory_bytes=47_576_711_168,
        num_sms=142,
        clock_mhz=2520,
        memory_clock_mhz=9001,
        memory_bus_bits=384,
        l2_cache_bytes=96 * MIB,
        memory_bandwidth_gbps=864.0,
        peak_tflops=_peaks(float64=1.43, float32=91.6, tf32=183.0, half=362.05, float8=733.0, int8=733.0),
        idle_watts=35.0,
        max_watts=350.0,
    ),
    DeviceSpec(
        key="rtx3090",
        name="NVIDIA GeForce RTX 3090",
        sources=(_GA102 + ", appendix A", "deviceQuery of an RTX 3090 (CUDA 11.8)"),
        **_SM86,
        **_PCIE4,
        total_memory_bytes=25_443_893_248,
        num_sms=82,
        clock_mhz=1695,
        memory_clock_mhz=9751,
        memory_bus_bits=384,
        l2_cache_bytes=6 * MIB,
        memory_bandwidth_gbps=936.0,
        peak_tflops=_peaks(float64=0.556, float32=35.6, tf32=35.6, half=71.0, float8=71.0, int8=284.0),
        can_access_peer=False,
        idle_watts=25.0,
        max_watts=350.0,
    ),
    DeviceSpec(
        key="rtx4090",
        name="NVIDIA GeForce RTX 4090",
        sources=(_ADA + ", appendix A", "deviceQuery of an RTX 4090 (CUDA 12.4)"),
        **_SM89,
        **_PCIE4,
        total_memory_bytes=25_386_352_640,
        num_sms=128,
        clock_mhz=2520,
        memory_clock_mhz=10501,
        memory_bus_bits=384,
        l2_cache_bytes=72 * MIB,
        memory_bandwidth_gbps=1008.0,
        peak_tflops=_peaks(float64=1.29, float32=82.6, tf32=82.6, half=165.2, float8=330.3, int8=660.6),
        can_access_peer=False,
        idle_watts=20.0,
        max_watts=450.0,
    ),
    DeviceSpec(
        key="rtx5090",
        name="NVIDIA GeForce RTX 5090",
        sources=(
            "NVIDIA RTX Blackwell GPU Architecture white paper, appendix A",
            "deviceQuery of an RTX 5090 (NVIDIA/nccl issue 1637)",
        ),
        **_SM120,
        **_PCIE5,
        total_memory_bytes=33_680_457_728,
        num_sms=170,
        clock_mhz=2550,
        memory_clock_mhz=14001,
        memory_bus_bits=512,
        l2_cache_bytes=96 * MIB,
        memory_bandwidth_gbps=1792.0,
        peak_tflops=_peaks(float64=1.64, float32=104.8, tf32=104.8, half=209.5, float8=419.0, int8=838.0),
        can_access_peer=False,
        idle_watts=25.0,
        max_watts=575.0,
    ),
    DeviceSpec(
        key="h100",
        name="NVIDIA H100 80GB HBM3",
        sources=(
            _HOPPER + ", H100 SXM5",
            "NVIDIA H100 Tensor Core GPU data sheet (rates halved: printed with sparsity)",
            "deviceProperties of a Kineto trace of NVIDIA H100 80GB HBM3 (AMD-AGI/TraceLens)",
        ),
        **_H100,
        total_memory_bytes=85_018_279_936,
        memory_clock_mhz=2619,
        memory_bus_bits=5120,
        l2_cache_bytes=50 * MIB,
        memory_bandwidth_gbps=3352.0,
    ),
    DeviceSpec(
        key="h100-pcie",
        name="NVIDIA H100 PCIe",
        sources=(_HOPPER + ", H100 PCIe", "nvaccelinfo of an H100 PCIe (driver 565.57.01)"),
        **_SM90,
        **_PCIE5,
        total_memory_bytes=85_045_477_376,
        num_sms=114,
        clock_mhz=1755,
        memory_clock_mhz=1593,
        memory_bus_bits=5120,
        l2_cache_bytes=50 * MIB,
        num_copy_engines=3,
        memory_bandwidth_gbps=2039.0,
        peak_tflops=_peaks(float64=51.2, float32=51.2, tf32=378.0, half=756.0, float8=1513.0, int8=1513.0),
        idle_watts=45.0,
        max_watts=350.0,
    ),
    DeviceSpec(
        key="h200",
        name="NVIDIA H200",
        sources=(
            "NVIDIA H200 Tensor Core GPU data sheet",
            "deviceProperties of a Kineto trace of NVIDIA H200 (documentation of mlcommons/chakra)",
            "torch.cuda.get_device_properties of an H200: L2_cache_size=60MB",
        ),
        **_H100,
        total_memory_bytes=150_149_398_528,
        memory_clock_mhz=3201,
        memory_bus_bits=6144,
        l2_cache_bytes=60 * MIB,
        memory_bandwidth_gbps=4800.0,
    ),
    DeviceSpec(
        key="b200",
        name="NVIDIA B200",
        sources=(
            "NVIDIA HGX B200 data sheet, divided by eight GPUs and without sparsity",
            "deviceProperties of a Kineto trace of NVIDIA B200 (AMD-AGI/TraceLens)",
            "bus width, memory clock and L2 as the driver reports them (pytorch/ao pull request 4002)",
        ),
        **_SM100,
        **_PCIE5 | {"peer_gbps": _NVLINK["b200"]},
        total_memory_bytes=191_503_138_816,
        num_sms=148,
        clock_mhz=1965,
        memory_clock_mhz=3996,
        memory_bus_bits=7680,
        l2_cache_bytes=132_644_864,
        num_copy_engines=4,
        memory_bandwidth_gbps=7672.0,
        kernel_fixed_ns=2_000,
        peak_tflops=_peaks(float64=37.0, float32=75.0, tf32=1125.0, half=2250.0, float8=4500.0, int8=4500.0),
        idle_watts=140.0,
        max_watts=1000.0,
    ),
)
