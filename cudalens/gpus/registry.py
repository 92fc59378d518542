"""The specifications of GPUs, with their sources; look them up: ``parse_device("h100x4")``, `register`. No torch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from cudalens.errors import VirtualDeviceError
from cudalens.gpus.device_spec import MIB, PEAK_KEYS, DeviceSpec, near

# The shipped GPU specifications, with their sources. No torch.
#
# Memory sizes, clocks, bus widths and caches are printouts: of CUDA's ``deviceQuery`` sample, of torch, or of a Kineto
# trace. Two cards of one model differ by a few MiB (driver, ECC); one printout is used. The peaks are the makers'.


class _Link(NamedTuple):
    """Rates of a host link, GB/s."""

    pinned_h2d_gbps: float
    pinned_d2h_gbps: float
    pageable_h2d_gbps: float
    pageable_d2h_gbps: float


class _Sm(NamedTuple):
    """Shared memory and threads of an SM."""

    compute_capability: tuple[int, int]
    max_threads_per_sm: int
    max_blocks_per_sm: int
    shared_memory_per_sm_bytes: int
    shared_memory_per_block_optin_bytes: int


class _Card(NamedTuple):
    """The numbers of one card; a name ends with its unit."""

    key: str
    total_memory_bytes: int
    num_sms: int
    clock_mhz: int
    memory_clock_mhz: int
    memory_bus_bits: int
    l2_cache_bytes: int
    num_copy_engines: int
    memory_bandwidth_gbps: float
    peer_gbps: float
    idle_watts: float
    max_watts: float


# Host link, GB/s. A bus transfers 15.75, 31.5 or 63 GB/s a direction (PCI Express 3.0, 4.0, 5.0 with 16 lanes).
# Pinned: bandwidthTest of a GTX 1650 SUPER and of an A100-SXM4-40GB, nvbandwidth of an H100 (55.6, NVIDIA's blog).
# Pageable copies use a staging buffer that the host fills, so that one core's memcpy limits them: recorded at
# 10 GB/s (V100) and 6 to 11 GB/s (A100) to the device. Cards in clouds often have fewer lanes than these 16.
_PCIE3: Final = _Link(12.4, 12.7, 9.0, 8.0)
_PCIE4: Final = _Link(26.1, 25.6, 9.0, 8.0)
_PCIE5: Final = _Link(55.6, 55.6, 12.0, 11.0)
# NVLink-C2C of a Grace superchip: 450 GB/s a direction for two GPUs, at the share that PCI Express reaches.
_C2C: Final = _Link(190.0, 190.0, 20.0, 18.0)

# By compute capability: CUDA C++ programming guide, "Technical specifications per compute capability"; recorded
# deviceProperties contain the same numbers.
_SM60: Final = _Sm((6, 0), 2048, 32, 65536, 49152)
_SM61: Final = _Sm((6, 1), 2048, 32, 98304, 49152)
_SM70: Final = _Sm((7, 0), 2048, 32, 98304, 98304)
_SM75: Final = _Sm((7, 5), 1024, 16, 65536, 65536)
_SM80: Final = _Sm((8, 0), 2048, 32, 167936, 166912)
_SM86: Final = _Sm((8, 6), 1536, 16, 102400, 101376)
_SM89: Final = _Sm((8, 9), 1536, 24, 102400, 101376)
_SM90: Final = _Sm((9, 0), 2048, 32, 233472, 232448)
_SM100: Final = _SM90._replace(compute_capability=(10, 0))
_SM103: Final = _SM90._replace(compute_capability=(10, 3))
_SM120: Final = _SM89._replace(compute_capability=(12, 0))
# A compute unit of AMD's CDNA 3: 32 wavefronts of 64 threads, 64 KiB of LDS; torch calls gfx942 capability 9.4.
_GFX942: Final = _Sm((9, 4), 2048, 32, 65536, 65536)

# Between two GPUs (peer), one direction: p2pBandwidthLatencyTest of eight H100 SXM reaches 376 of NVLink's 450 GB/s
# (NVIDIA/nccl issue 1264). The others are their link's rate times the same share: V100 2 links of 25 GB/s between
# neighbours, A100 300, B200 900 GB/s; cards without NVLink two thirds of their PCI Express bus (a modelling choice).
# Each pair of MI300X has a link of its own, 64 GB/s a direction, at three quarters (a modelling choice).
# fmt: off
_CARDS: Final = (
    #     key            memory bytes SMs   MHz:SM mem   bus  L2 bytes    copy GB/s:mem peer watts:idle, max
    _Card("p100",       17_071_734_784,  56, 1329,   715, 4096,   4 * MIB, 2,  732.0,  10.0,  26.0,  250.0),
    _Card("p4",          7_981_694_976,  20, 1114,  3003,  256,   2 * MIB, 2,  192.0,  10.0,   7.0,   75.0),
    _Card("v100",       34_079_637_504,  80, 1530,   877, 4096,   6 * MIB, 6,  898.0,  42.0,  42.0,  300.0),
    _Card("t4",         15_828_320_256,  40, 1590,  5001,  256,   4 * MIB, 3,  320.0,  10.0,  10.0,   70.0),
    _Card("a10",        23_609_475_072,  72, 1695,  6251,  384,   6 * MIB, 2,  600.0,  21.0,  16.0,  150.0),
    _Card("a40",        47_608_692_736,  84, 1740,  7251,  384,   6 * MIB, 2,  696.0,  21.0,  30.0,  300.0),
    _Card("a6000",      51_160_023_040,  84, 1800,  8001,  384,   6 * MIB, 2,  768.0,  21.0,  25.0,  300.0),
    _Card("a100",       42_297_524_224, 108, 1410,  1215, 5120,  40 * MIB, 3, 1555.0, 250.0,  55.0,  400.0),
    _Card("a100-80gb",  84_987_740_160, 108, 1410,  1593, 5120,  40 * MIB, 3, 2039.0, 250.0,  55.0,  400.0),
    _Card("l4",         23_583_784_960,  58, 2040,  6251,  192,  48 * MIB, 2,  300.0,  21.0,  16.0,   72.0),
    _Card("l40s",       47_576_711_168, 142, 2520,  9001,  384,  96 * MIB, 2,  864.0,  21.0,  35.0,  350.0),
    _Card("l40",        47_576_711_168, 142, 2490,  9001,  384,  96 * MIB, 2,  864.0,  21.0,  35.0,  300.0),
    _Card("rtx3080",    10_472_390_656,  68, 1710,  9501,  320,   5 * MIB, 2,  760.0,  21.0,  20.0,  320.0),
    _Card("rtx3090",    25_443_893_248,  82, 1695,  9751,  384,   6 * MIB, 2,  936.0,  21.0,  25.0,  350.0),
    _Card("rtx4080",    16_828_596_224,  76, 2505, 11201,  256,  64 * MIB, 2,  717.0,  21.0,  15.0,  320.0),
    _Card("rtx4090",    25_386_352_640, 128, 2520, 10501,  384,  72 * MIB, 2, 1008.0,  21.0,  20.0,  450.0),
    _Card("rtx5090",    33_680_457_728, 170, 2550, 14001,  512,  96 * MIB, 2, 1792.0,  42.0,  25.0,  575.0),
    _Card("rtx-pro-6000", 101_973_262_336, 188, 2430, 12481, 512, 128 * MIB, 2, 1597.0, 42.0,  35.0,  600.0),
    _Card("h100",       85_018_279_936, 132, 1980,  2619, 5120,  50 * MIB, 3, 3352.0, 376.0,  70.0,  700.0),
    _Card("h100-pcie",  85_045_477_376, 114, 1755,  1593, 5120,  50 * MIB, 3, 2039.0,  42.0,  45.0,  350.0),
    _Card("h20",       102_010_716_160,  78, 1980,  2619, 6144,  60 * MIB, 3, 4000.0, 376.0,  70.0,  500.0),
    _Card("gh200",     102_005_473_280, 132, 1980,  2619, 6144,  60 * MIB, 3, 4023.0, 376.0,  90.0,  900.0),
    _Card("h200",      150_149_398_528, 132, 1980,  3201, 6144,  60 * MIB, 3, 4800.0, 376.0,  70.0,  700.0),
    _Card("b200",      191_503_138_816, 148, 1965,  3996, 7680, 132_644_864, 4, 7672.0, 752.0, 140.0, 1000.0),
    _Card("b300",      287_638_028_288, 148, 2032,  3996, 8192, 132_644_864, 4, 8000.0, 752.0, 140.0, 1100.0),
    _Card("gb200",     197_912_428_544, 152, 2062,  3996, 8192, 132_644_864, 4, 8000.0, 752.0, 140.0, 1200.0),
    _Card("mi300x",    206_141_652_992, 304, 2100,  2600, 8192,   4 * MIB, 2, 5325.0,  48.0, 140.0,  750.0),
)

#: By card, in the order of PEAK_KEYS: float64, float32, tf32, float16, bfloat16, float8, int8; TFLOP/s. A type without
#: units of its own runs at the float32 rate; int8 of a V100 is DP4A, four times that.
_PEAKS: Final[dict[str, tuple[float, ...]]] = {
    "p100":      ( 4.7,    9.3,    9.3,   18.7,    9.3,    9.3,    9.3),
    "p4":        ( 0.172,  5.5,    5.5,    5.5,    5.5,    5.5,   22.0),
    "v100":      ( 7.8,   15.7,   15.7,  125.0,   15.7,   15.7,   62.8),
    "t4":        ( 0.253,  8.1,    8.1,   65.0,    8.1,    8.1,  130.0),
    "a10":       ( 0.488, 31.2,   62.5,  125.0,  125.0,  125.0,  250.0),
    "a40":       ( 0.585, 37.4,   74.8,  149.7,  149.7,  149.7,  299.3),
    "a6000":     ( 0.604, 38.7,   77.4,  154.8,  154.8,  154.8,  309.7),
    "a100":      (19.5,   19.5,  156.0,  312.0,  312.0,  312.0,  624.0),
    "a100-80gb": (19.5,   19.5,  156.0,  312.0,  312.0,  312.0,  624.0),
    "l4":        ( 0.473, 30.3,   60.0,  121.0,  121.0,  242.5,  242.5),
    "l40":       ( 1.41,  90.5,   90.5,  181.0,  181.0,  362.0,  362.0),
    "l40s":      ( 1.43,  91.6,  183.0,  362.05, 362.05, 733.0,  733.0),
    "rtx3080":   ( 0.465, 29.8,   29.8,   59.5,   59.5,   59.5,  238.0),
    "rtx3090":   ( 0.556, 35.6,   35.6,   71.0,   71.0,   71.0,  284.0),
    "rtx4080":   ( 0.761, 48.7,   48.7,   97.5,   97.5,  194.9,  389.9),
    "rtx4090":   ( 1.29,  82.6,   82.6,  165.2,  165.2,  330.3,  660.6),
    "rtx5090":   ( 1.64, 104.8,  104.8,  209.5,  209.5,  419.0,  838.0),
    "rtx-pro-6000": (1.88, 120.0, 240.0,  480.0,  480.0,  960.0,  960.0),
    "h100":      (66.9,   66.9,  494.7,  989.4,  989.4, 1978.9, 1978.9),
    "h100-pcie": (51.2,   51.2,  378.0,  756.0,  756.0, 1513.0, 1513.0),
    "h20":       ( 1.0,   39.5,   74.0,  148.0,  148.0,  296.0,  296.0),
    "gh200":     (66.9,   66.9,  494.7,  989.4,  989.4, 1978.9, 1978.9),
    "h200":      (66.9,   66.9,  494.7,  989.4,  989.4, 1978.9, 1978.9),
    "b200":      (37.0,   75.0, 1125.0, 2250.0, 2250.0, 4500.0, 4500.0),
    "b300":      ( 1.25,  75.0, 1125.0, 2250.0, 2250.0, 4500.0,  187.5),
    "gb200":     (40.0,   80.0, 1250.0, 2500.0, 2500.0, 5000.0, 5000.0),
    "mi300x":    (81.7,  163.4,  653.7, 1307.4, 1307.4, 2614.9, 2614.9),
}
# fmt: on

_HOPPER: Final = "NVIDIA H100 Tensor Core GPU Architecture white paper"
_AMPERE: Final = "NVIDIA A100 Tensor Core GPU Architecture white paper"
_GA102: Final = "NVIDIA Ampere GA102 GPU Architecture white paper"
_ADA: Final = "NVIDIA Ada GPU Architecture white paper"
_HALVED: Final = "data sheet (rates halved: printed with sparsity)"
_KINETO: Final = "deviceProperties of a Kineto trace of"

#: By card: the name that CUDA reports, the SM, the host link, and the sources.
_ABOUT: Final[dict[str, tuple[str, _Sm, _Link, tuple[str, ...]]]] = {
    "p100": ("Tesla P100-PCIE-16GB", _SM60, _PCIE3, (
        "NVIDIA Tesla P100 white paper and PCIe data sheet",
        "deviceQuery of a Tesla P100-PCIE-16GB: 17071734784 bytes, 1329 MHz, 715 MHz, 4096 bits",
    )),
    "p4": ("Tesla P4", _SM61, _PCIE3, (
        "NVIDIA Tesla P4 data sheet (float16 at the float32 rate, in which PyTorch computes it)",
        "deviceQuery of a Tesla P4: 7981694976 bytes, 1114 MHz, 3003 MHz, 256 bits",
    )),
    "v100": ("Tesla V100-SXM2-32GB", _SM70, _PCIE3, (
        "NVIDIA Tesla V100 GPU Architecture white paper, table 1",
        f"{_KINETO} Tesla V100-SXM2-32GB (HolisticTraceAnalysis, ns_resolution_trace)",
    )),
    "t4": ("Tesla T4", _SM75, _PCIE3, (
        "NVIDIA T4 Tensor Core GPU data sheet",
        "NVIDIA Turing GPU Architecture white paper, appendix A",
        "torch.cuda.get_device_properties on Colab: total_memory=15095MB (15828320256 bytes), L2_cache_size=4MB",
    )),
    "a10": ("NVIDIA A10", _SM86, _PCIE4, (
        "NVIDIA A10 Tensor Core GPU data sheet", _GA102, "deviceQuery of an A10 (driver CUDA 12.2)",
    )),
    "a40": ("NVIDIA A40", _SM86, _PCIE4, (
        f"NVIDIA A40 {_HALVED}", _GA102, "deviceQuery of an A40 (CUDA 12.4)",
    )),
    "a6000": ("NVIDIA RTX A6000", _SM86, _PCIE4, (
        f"NVIDIA RTX A6000 {_HALVED}", f"{_GA102}, appendix C", "deviceQuery of an RTX A6000 (CUDA 12.7)",
    )),
    "a100": ("NVIDIA A100-SXM4-40GB", _SM80, _PCIE4, (
        _AMPERE, f"{_KINETO} an A100 with 40 GB (HolisticTraceAnalysis)",
    )),
    "a100-80gb": ("NVIDIA A100-SXM4-80GB", _SM80, _PCIE4, (
        _AMPERE, "NVIDIA A100 80GB data sheet", "deviceQuery of an A100-SXM4-80GB (driver CUDA 12.2)",
    )),
    "l4": ("NVIDIA L4", _SM89, _PCIE4, (
        f"NVIDIA L4 Tensor Core GPU {_HALVED}", _ADA, "deviceQuery of an L4 (CUDA 12.8)",
    )),
    "l40": ("NVIDIA L40", _SM89, _PCIE4, (
        f"NVIDIA L40 {_HALVED}", _ADA, "memory as an L40S prints it, whose board has the same chips",
    )),
    "l40s": ("NVIDIA L40S", _SM89, _PCIE4, (
        "NVIDIA L40S data sheet", _ADA, "README of the crate cuda-device-query: an L40S",
    )),
    "rtx3080": ("NVIDIA GeForce RTX 3080", _SM86, _PCIE4, (
        f"{_GA102}, appendix A", "deviceQuery of an RTX 3080 with 10 GB (CUDA 12.0)",
    )),
    "rtx3090": ("NVIDIA GeForce RTX 3090", _SM86, _PCIE4, (
        f"{_GA102}, appendix A", "deviceQuery of an RTX 3090 (CUDA 11.8)",
    )),
    "rtx4080": ("NVIDIA GeForce RTX 4080", _SM89, _PCIE4, (
        f"{_ADA}, appendix B", "torch.cuda.get_device_properties of an RTX 4080: total_memory=16049MB",
    )),
    "rtx4090": ("NVIDIA GeForce RTX 4090", _SM89, _PCIE4, (
        f"{_ADA}, appendix A", "deviceQuery of an RTX 4090 (CUDA 12.4)",
    )),
    "rtx5090": ("NVIDIA GeForce RTX 5090", _SM120, _PCIE5, (
        "NVIDIA RTX Blackwell GPU Architecture white paper, appendix A",
        "deviceQuery of an RTX 5090 (NVIDIA/nccl issue 1637)",
    )),
    "rtx-pro-6000": ("NVIDIA RTX PRO 6000 Blackwell Server Edition", _SM120, _PCIE5, (
        f"NVIDIA RTX PRO 6000 Blackwell Server Edition {_HALVED}",
        "NVIDIA RTX Blackwell PRO GPU Architecture white paper, table 1",
        "total memory 94.97 GiB as CUDA prints it (antirez/ds4 issue 431)",
    )),
    "h100": ("NVIDIA H100 80GB HBM3", _SM90, _PCIE5, (
        f"{_HOPPER}, H100 SXM5",
        f"NVIDIA H100 Tensor Core GPU {_HALVED}",
        f"{_KINETO} NVIDIA H100 80GB HBM3 (AMD-AGI/TraceLens)",
    )),
    "h100-pcie": ("NVIDIA H100 PCIe", _SM90, _PCIE5, (
        f"{_HOPPER}, H100 PCIe", "nvaccelinfo of an H100 PCIe (driver 565.57.01)",
    )),
    "h20": ("NVIDIA H20", _SM90, _PCIE5, (
        "NVIDIA H20 data sheet (without sparsity); float32 as its cores and clock give (the sheet has 44)",
        "torch.cuda.get_device_properties of an H20: total_memory=97285MB, multi_processor_count=78",
        "clocks, bus and L2 as a GH200 with the same 96 GB of HBM3 prints them",
    )),
    "gh200": ("NVIDIA GH200 480GB", _SM90, _C2C, (
        f"{_HOPPER}, H100 SXM5",
        "NVIDIA GH200 Grace Hopper Superchip data sheet, 96 GB HBM3",
        "deviceQuery of a GH200 480GB (CUDA 12.4)",
    )),
    "h200": ("NVIDIA H200", _SM90, _PCIE5, (
        "NVIDIA H200 Tensor Core GPU data sheet",
        f"{_KINETO} NVIDIA H200 (documentation of mlcommons/chakra)",
        "torch.cuda.get_device_properties of an H200: L2_cache_size=60MB",
    )),
    "b200": ("NVIDIA B200", _SM100, _PCIE5, (
        "NVIDIA HGX B200 data sheet, divided by eight GPUs and without sparsity",
        f"{_KINETO} NVIDIA B200 (AMD-AGI/TraceLens)",
        "bus width, memory clock and L2 as the driver reports them (pytorch/ao pull request 4002)",
    )),
    "b300": ("NVIDIA B300 SXM6 AC", _SM103, _PCIE5, (
        "NVIDIA HGX B300 data sheet, divided by eight GPUs and without sparsity",
        "memory: 275040 MiB as nvidia-smi prints it, less 727 MiB as on a B200, which has the same clocks and L2",
    )),
    "gb200": ("NVIDIA GB200", _SM100, _C2C, (
        "NVIDIA GB200 NVL72 data sheet, divided by 72 GPUs and without sparsity",
        "memory: 189471 MiB as nvidia-smi prints it, less 727 MiB as on a B200, which has the same clocks and L2",
    )),
    "mi300x": ("AMD Instinct MI300X", _GFX942, _PCIE5, (
        "AMD Instinct MI300X data sheet (without sparsity); 5.2 Gb/s a pin, as the clock of a double data rate",
        f"{_KINETO} AMD Instinct MI300X",
        "rocminfo of an MI300X: 2100 MHz, L2 4096 KB",
    )),
}  # fmt: skip

#: Shortest kernel, ns, where recorded kernels are longer than the default of `DeviceSpec`: 2.1 us is the median of
#: 495 recorded pointwise kernels of at most four blocks (A100).
_KERNEL_FIXED_NS: Final = dict.fromkeys(("b200", "b300", "gb200"), 2_000) | dict.fromkeys(("a100", "a100-80gb"), 2_100)

#: PyTorch's wheels for CUDA 12.6 are the last ones with code for GPUs before Volta.
_PASCAL: Final = {
    "cuda_version": "12.6",
    "driver_version": "560.35.05",
    "arch_list": ("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"),
}


#: What differs on AMD's CDNA 3 from the defaults of `DeviceSpec`: 512 KiB of vector registers a compute unit. The rest,
#: versions and architectures of the wheel too, is that of a CUDA device: a virtual machine runs torch without ROCm.
_CDNA3: Final = {
    "warp_size": 64,
    "registers_per_sm": 131_072,
    "shared_memory_per_block_bytes": 65_536,
}


def _spec(card: _Card) -> DeviceSpec:
    name, sm, link, sources = _ABOUT[card.key]
    facts: dict[str, Any] = {**card._asdict(), **sm._asdict(), **link._asdict()}
    if card.key in _KERNEL_FIXED_NS:
        facts["kernel_fixed_ns"] = _KERNEL_FIXED_NS[card.key]
    if sm.compute_capability < (7, 0):
        facts |= _PASCAL
    if sm is _GFX942:
        facts |= _CDNA3
    return DeviceSpec(
        name=name,
        sources=sources,
        peak_tflops=dict(zip(PEAK_KEYS, _PEAKS[card.key], strict=True)),
        can_access_peer="GeForce" not in name,
        **facts,
    )


TABLE: Final = tuple(map(_spec, _CARDS))


__all__ = ["MAX_DEVICES", "PEAK_KEYS", "SPECS", "DeviceSpec", "parse_device", "register"]

#: Cards of one model differ by this share of their memory (driver, ECC).
_MEMORY: Final = 0.03


def spec_of(
    capability: str | None, num_sms: int | None, total_memory_bytes: int | None, name: str | None = None
) -> DeviceSpec | None:
    """Return the known specification with these facts; None if there is none, or a fact is not known.

    Cards of one chip have many names, so that the name only decides between two with the same facts, as L40 and L40S.

    Args:
        capability: Compute capability, as "9.0".
        num_sms: Multiprocessors.
        total_memory_bytes: Size of the memory.
        name: The name of the device.
    """
    alike = [
        spec
        for spec in SPECS.values()
        if (capability, num_sms) == (".".join(map(str, spec.compute_capability)), spec.num_sms)
        and abs((total_memory_bytes or 0) / spec.total_memory_bytes - 1) <= _MEMORY
    ]
    return next((spec for spec in alike if spec.name == name), alike[0] if alike else None)


_specs: dict[str, DeviceSpec] = {spec.key: spec for spec in TABLE}
#: All device specs by key: the shipped ones and those added by `register`.
SPECS: Final[Mapping[str, DeviceSpec]] = MappingProxyType(_specs)

#: The most devices of one virtual machine (PyTorch's own limit is ``C10_COMPILE_TIME_MAX_GPUS``, 120).
MAX_DEVICES: Final = 64

_COUNTED: Final = re.compile(r"(?P<key>.+?)\s*[x*×]\s*(?P<count>\d+)")  # noqa: RUF001


def register(spec: DeviceSpec, *, replace: bool = False) -> DeviceSpec:
    """Register `spec` under its key, so that `parse_device` finds it; returns it.

    Args:
        spec: The device.
        replace: Whether to replace a device of the same key.

    Raises:
        VirtualDeviceError: The key is already registered, or is not valid in a device text.
    """
    key = _normal(spec.key)
    if not key or key != spec.key or _COUNTED.fullmatch(key):
        raise VirtualDeviceError(
            f"Cannot register a device as {spec.key!r}: expected lower case, no space, and no ending like 'x4', "
            "which means four devices. Give the spec another key with spec.replace(key=...)."
        )
    if key in _specs and not replace:
        raise VirtualDeviceError(
            f"A device {key!r} is already registered ({_specs[key].name}). Use another key, or pass replace=True."
        )
    _specs[key] = spec
    return spec


#: Other names of devices.
_ALIASES: Final = {"a100-40gb": "a100"}


def parse_device(device: str | DeviceSpec, most: int = MAX_DEVICES) -> tuple[DeviceSpec, int]:
    """Return the spec and the number of devices that a text names.

    Args:
        device: "h100", "H100", "h100x4", "a100-80gb x 2", or a `DeviceSpec` (which is one device).
        most: The largest number of devices.

    Raises:
        VirtualDeviceError: There is no such device, or the count is out of range; the error lists the known devices.
    """
    if isinstance(device, DeviceSpec):
        return device, 1
    if not isinstance(device, str):
        raise VirtualDeviceError(
            f"Invalid virtual device {device!r}: expected a text such as 'h100' or 'h100x4', or a DeviceSpec."
        )
    key, count = split_count(device)
    if key not in _specs:
        known = ", ".join(sorted(_specs))
        raise VirtualDeviceError(
            f"No virtual device is named {device!r}.{near(key, list(_specs))} Known: {known}. "
            "Add your own with cudalens.virtual.register(spec)."
        )
    if not 1 <= count <= most:
        raise VirtualDeviceError(f"{device!r} requests {count} devices; expected 1 to {most}.")
    return _specs[key], count


def split_count(text: str) -> tuple[str, int]:
    """Return the key and the number of devices in a device text, whether or not there is such a device."""
    if _normal(text) in _specs:
        return _normal(text), 1
    found = _COUNTED.fullmatch(text.strip().lower())
    return (_normal(found["key"]), int(found["count"])) if found else (_normal(text), 1)


def _normal(text: str) -> str:
    key = re.sub(r"[\s_]+", "-", text.strip().lower())
    return _ALIASES.get(key, key)
