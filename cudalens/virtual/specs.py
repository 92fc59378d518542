"""What is known of real GPUs: the numbers that a virtual device is made from. No torch.

A `DeviceSpec` holds three kinds of numbers, and says which is which:

- **Facts that a driver prints** (memory size, SMs, clocks, caches): as ``torch.cuda.get_device_properties``, CUDA's
  ``deviceQuery`` sample or a Kineto trace's ``deviceProperties`` printed them on such a card.
- **Peaks that NVIDIA publishes** (TFLOP/s, GB/s, watts): data sheets and architecture white papers, always dense
  (without structured sparsity), and with float32 accumulation, which is what PyTorch asks of its matrix products.
- **Modelling choices** (what a launch, an event or a ``cudaMalloc`` costs): one set of round numbers near what public
  measurements and recorded traces show; each field says so. They belong to a host as much as to a GPU.

`sources` of a spec names the documents. Own devices: ``register(SPECS["h100"].replace(key="mine", ...))``.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from cudalens.errors import VirtualDeviceError

MIB: Final = 1024 * 1024
"""Bytes in a mebibyte."""

PEAK_KEYS: Final = ("float64", "float32", "tf32", "float16", "bfloat16", "float8", "int8")
"""The arithmetic that a peak rate is given for; "tf32" is float32 matrix products on tensor cores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """One model of GPU, and what using it costs. Units are in the names; GB is 10**9 bytes, rates are per second."""

    key: str
    """How users call it: "h100"."""
    name: str
    """As ``torch.cuda.get_device_name`` prints it."""
    sources: tuple[str, ...]
    """Public documents and printouts that the numbers were taken from."""

    compute_capability: tuple[int, int]
    total_memory_bytes: int
    """As torch reports it: what the card carries less what firmware and ECC keep."""
    num_sms: int
    max_threads_per_sm: int
    clock_mhz: int
    """Maximum SM clock, as the driver reports it (torch's ``clock_rate`` is this in kHz)."""
    memory_clock_mhz: int
    memory_bus_bits: int
    l2_cache_bytes: int
    shared_memory_per_sm_bytes: int
    shared_memory_per_block_optin_bytes: int
    shared_memory_per_block_bytes: int = 49152
    registers_per_sm: int = 65536
    max_threads_per_block: int = 1024
    max_blocks_per_sm: int = 32
    warp_size: int = 32
    is_integrated: bool = False
    is_multi_gpu_board: bool = False
    num_copy_engines: int = 2
    """``asyncEngineCount``: 2 or more means that copies to and from the host overlap."""

    memory_bandwidth_gbps: float
    peak_tflops: Mapping[str, float] = field(hash=False)
    """Dense peak by `PEAK_KEYS`; where the hardware has no such unit, the rate of what PyTorch computes it with."""

    pinned_h2d_gbps: float
    pinned_d2h_gbps: float
    pageable_h2d_gbps: float
    pageable_d2h_gbps: float
    peer_gbps: float
    """One direction between two such GPUs: NVLink where the card has it, else PCIe."""
    can_access_peer: bool = True
    """Whether ``torch.cuda.can_device_access_peer`` says yes between two of them."""

    host_op_ns: int = 5_000
    """Modelling choice: what the host pays for one eager op besides the launch (Python, dispatcher, allocator)."""
    launch_ns: int = 3_500
    """Modelling choice: a ``cudaLaunchKernel`` or ``cudaMemcpyAsync`` call on the host."""
    kernel_latency_ns: int = 2_500
    """Modelling choice: from the launch call's end until an idle GPU starts the kernel."""
    kernel_fixed_ns: int = 1_500
    """Modelling choice: the least that any kernel lasts."""
    event_ns: int = 1_000
    """Modelling choice: ``cudaEventRecord`` or ``cudaStreamWaitEvent`` on the host."""
    sync_ns: int = 2_500
    """Modelling choice: a synchronising call's own cost once the work is done."""
    malloc_ns: int = 150_000
    """Modelling choice: a ``cudaMalloc`` call."""
    free_ns: int = 150_000
    """Modelling choice: a ``cudaFree`` call, besides the synchronisation that it implies."""
    graph_launch_ns: int = 8_000
    """Modelling choice: a ``cudaGraphLaunch`` call on the host, whatever the size of the graph."""
    graph_node_ns: int = 1_000
    """Modelling choice: from one kernel of a graph to the next on the device."""
    context_bytes: int = 500 * MIB
    """Modelling choice: memory that a CUDA context with PyTorch's kernels takes before the first tensor."""

    idle_watts: float
    max_watts: float
    """The default power limit."""
    idle_celsius: float = 32.0
    """Modelling choice, as is `busy_celsius`."""
    busy_celsius: float = 65.0

    cuda_version: str = "12.8"
    driver_version: str = "570.86.15"
    arch_list: tuple[str, ...] = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")
    """As ``torch.cuda.get_arch_list`` prints it for a CUDA 12.8 wheel."""

    def __post_init__(self) -> None:
        _check(self)
        object.__setattr__(self, "peak_tflops", MappingProxyType(dict(self.peak_tflops)))

    def __reduce__(self) -> tuple[Any, ...]:
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return _make, (values | {"peak_tflops": dict(self.peak_tflops)},)

    @property
    def max_resident_threads(self) -> int:
        """Threads that the whole device can hold at one time."""
        return self.num_sms * self.max_threads_per_sm

    def replace(self, **changes: Any) -> DeviceSpec:
        """A copy with some numbers changed.

        Raises:
            VirtualDeviceError: A name is no field of a spec, or a number cannot be.
        """
        known = [f.name for f in dataclasses.fields(self)]
        for name in changes:
            if name not in known:
                raise VirtualDeviceError(f"DeviceSpec has no field {name!r}.{_near(name, known)}")
        return dataclasses.replace(self, **changes)


def _make(values: dict[str, Any]) -> DeviceSpec:
    return DeviceSpec(**values)


def _check(spec: DeviceSpec) -> None:
    for f in dataclasses.fields(spec):
        value = getattr(spec, f.name)
        if isinstance(value, int | float) and not isinstance(value, bool) and value < 0:
            raise VirtualDeviceError(f"DeviceSpec {spec.key!r}: {f.name} is {value}; expected zero or more.")
    for name in ("total_memory_bytes", "num_sms", "max_threads_per_sm", "memory_bandwidth_gbps", "num_copy_engines"):
        if getattr(spec, name) <= 0:
            raise VirtualDeviceError(f"DeviceSpec {spec.key!r}: {name} is 0; expected more than zero.")
    for name in ("pinned_h2d_gbps", "pinned_d2h_gbps", "pageable_h2d_gbps", "pageable_d2h_gbps", "peer_gbps"):
        if getattr(spec, name) <= 0:
            raise VirtualDeviceError(f"DeviceSpec {spec.key!r}: {name} is 0; expected more than zero.")
    wrong = [key for key in PEAK_KEYS if spec.peak_tflops.get(key, 0) <= 0]
    if wrong:
        raise VirtualDeviceError(
            f"DeviceSpec {spec.key!r}: peak_tflops has no rate above zero for {', '.join(wrong)}; "
            f"give all of {', '.join(PEAK_KEYS)}."
        )


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
    """Peaks by key; `bfloat16` is as `half` unless said."""
    return {
        "float64": float64,
        "float32": float32,
        "tf32": tf32,
        "float16": half,
        "bfloat16": half if bfloat16 is None else bfloat16,
        "float8": float8,
        "int8": int8,
    }


# Host link, GB/s. The buses give 15.75, 31.5 and 63 GB/s a direction (PCI Express base specifications 3.0, 4.0 and
# 5.0, 16 lanes); bandwidthTest of the CUDA samples reaches 0.8 to 0.88 of that from pinned memory. Pageable copies go
# through a staging buffer that the host fills, so that one core's memcpy bounds them (a modelling choice).
_PCIE3: Final = {"pinned_h2d_gbps": 12.5, "pinned_d2h_gbps": 13.0, "pageable_h2d_gbps": 6.0, "pageable_d2h_gbps": 6.0}
_PCIE4: Final = {"pinned_h2d_gbps": 25.0, "pinned_d2h_gbps": 26.0, "pageable_h2d_gbps": 10.0, "pageable_d2h_gbps": 9.0}
_PCIE5: Final = {"pinned_h2d_gbps": 55.0, "pinned_d2h_gbps": 55.0, "pageable_h2d_gbps": 12.0, "pageable_d2h_gbps": 11.0}

# Shared memory and threads of an SM by compute capability: CUDA C++ programming guide, "Technical specifications per
# compute capability"; the same numbers stand in recorded deviceProperties.
_SM70: Final = {
    "compute_capability": (7, 0),
    "max_threads_per_sm": 2048,
    "max_blocks_per_sm": 32,
    "shared_memory_per_sm_bytes": 98304,
    "shared_memory_per_block_optin_bytes": 98304,
}
_SM75: Final = {
    "compute_capability": (7, 5),
    "max_threads_per_sm": 1024,
    "max_blocks_per_sm": 16,
    "shared_memory_per_sm_bytes": 65536,
    "shared_memory_per_block_optin_bytes": 65536,
}
_SM80: Final = {
    "compute_capability": (8, 0),
    "max_threads_per_sm": 2048,
    "max_blocks_per_sm": 32,
    "shared_memory_per_sm_bytes": 167936,
    "shared_memory_per_block_optin_bytes": 166912,
}
_SM86: Final = {
    "compute_capability": (8, 6),
    "max_threads_per_sm": 1536,
    "max_blocks_per_sm": 16,
    "shared_memory_per_sm_bytes": 102400,
    "shared_memory_per_block_optin_bytes": 101376,
}
_SM89: Final = _SM86 | {"compute_capability": (8, 9), "max_blocks_per_sm": 24}
_SM90: Final = {
    "compute_capability": (9, 0),
    "max_threads_per_sm": 2048,
    "max_blocks_per_sm": 32,
    "shared_memory_per_sm_bytes": 233472,
    "shared_memory_per_block_optin_bytes": 232448,
}
_SM100: Final = _SM90 | {"compute_capability": (10, 0)}
_SM120: Final = _SM89 | {"compute_capability": (12, 0)}

_HOPPER: Final = "NVIDIA H100 Tensor Core GPU Architecture white paper"
_AMPERE: Final = "NVIDIA A100 Tensor Core GPU Architecture white paper"
_GA102: Final = "NVIDIA Ampere GA102 GPU Architecture white paper"
_ADA: Final = "NVIDIA Ada GPU Architecture white paper"
_A100: Final[dict[str, Any]] = _SM80 | _PCIE4 | {
    "num_sms": 108,
    "clock_mhz": 1410,
    "memory_bus_bits": 5120,
    "l2_cache_bytes": 40 * MIB,
    "num_copy_engines": 3,
    "peak_tflops": _peaks(float64=19.5, float32=19.5, tf32=156.0, half=312.0, float8=312.0, int8=624.0),
    "peer_gbps": 300.0,
    "idle_watts": 55.0,
    "max_watts": 400.0,
}  # fmt: skip
_H100: Final[dict[str, Any]] = _SM90 | _PCIE5 | {
    "num_sms": 132,
    "clock_mhz": 1980,
    "num_copy_engines": 3,
    "peak_tflops": _peaks(float64=66.9, float32=66.9, tf32=494.7, half=989.4, float8=1978.9, int8=1978.9),
    "peer_gbps": 450.0,
    "idle_watts": 70.0,
    "max_watts": 700.0,
}  # fmt: skip

_TABLE: Final = (
    DeviceSpec(
        key="v100",
        name="Tesla V100-SXM2-32GB",
        sources=(
            "NVIDIA Tesla V100 GPU Architecture white paper, table 1",
            "deviceProperties of a Kineto trace of Tesla V100-SXM2-32GB (HolisticTraceAnalysis, ns_resolution_trace)",
        ),
        **_SM70,
        **_PCIE3,
        total_memory_bytes=34_079_637_504,
        num_sms=80,
        clock_mhz=1530,
        memory_clock_mhz=877,
        memory_bus_bits=4096,
        l2_cache_bytes=6 * MIB,
        num_copy_engines=6,
        memory_bandwidth_gbps=898.0,
        # No tf32, bfloat16 or float8 units: those run at float32's rate. int8 is DP4A, four times float32.
        peak_tflops=_peaks(float64=7.8, float32=15.7, tf32=15.7, half=125.0, bfloat16=15.7, float8=15.7, int8=62.8),
        peer_gbps=48.0,
        idle_watts=42.0,
        max_watts=300.0,
    ),
    DeviceSpec(
        key="t4",
        name="Tesla T4",
        sources=(
            "NVIDIA T4 Tensor Core GPU data sheet",
            "NVIDIA Turing GPU Architecture white paper, appendix A",
            "torch.cuda.get_device_properties on Colab: total_memory=15095MB, L2_cache_size=4MB",
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
        peer_gbps=10.0,
        idle_watts=10.0,
        max_watts=70.0,
    ),
    DeviceSpec(
        key="a10",
        name="NVIDIA A10",
        sources=("NVIDIA A10 Tensor Core GPU data sheet", _GA102),
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
        peer_gbps=20.0,
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
        sources=(_AMPERE, "NVIDIA A100 80GB data sheet"),
        **_A100,
        total_memory_bytes=85_024_112_640,
        memory_clock_mhz=1593,
        memory_bandwidth_gbps=2039.0,
    ),
    DeviceSpec(
        key="l4",
        name="NVIDIA L4",
        sources=("NVIDIA L4 Tensor Core GPU data sheet (rates halved: printed with sparsity)", _ADA),
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
        peer_gbps=20.0,
        idle_watts=16.0,
        max_watts=72.0,
    ),
    DeviceSpec(
        key="l40s",
        name="NVIDIA L40S",
        sources=("NVIDIA L40S data sheet", _ADA),
        **_SM89,
        **_PCIE4,
        total_memory_bytes=47_697_362_944,
        num_sms=142,
        clock_mhz=2520,
        memory_clock_mhz=9001,
        memory_bus_bits=384,
        l2_cache_bytes=96 * MIB,
        memory_bandwidth_gbps=864.0,
        peak_tflops=_peaks(float64=1.43, float32=91.6, tf32=183.0, half=362.05, float8=733.0, int8=733.0),
        peer_gbps=20.0,
        idle_watts=35.0,
        max_watts=350.0,
    ),
    DeviceSpec(
        key="rtx3090",
        name="NVIDIA GeForce RTX 3090",
        sources=(_GA102 + ", table 'RTX 3090'",),
        **_SM86,
        **_PCIE4,
        total_memory_bytes=25_438_126_080,
        num_sms=82,
        clock_mhz=1695,
        memory_clock_mhz=9751,
        memory_bus_bits=384,
        l2_cache_bytes=6 * MIB,
        memory_bandwidth_gbps=936.0,
        peak_tflops=_peaks(float64=0.556, float32=35.6, tf32=35.6, half=71.0, float8=71.0, int8=284.0),
        peer_gbps=20.0,
        can_access_peer=False,
        idle_watts=25.0,
        max_watts=350.0,
    ),
    DeviceSpec(
        key="rtx4090",
        name="NVIDIA GeForce RTX 4090",
        sources=(_ADA + ", appendix A",),
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
        peer_gbps=20.0,
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
        peer_gbps=40.0,
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
        sources=(_HOPPER + ", H100 PCIe",),
        **_SM90,
        **_PCIE5,
        total_memory_bytes=84_942_979_072,
        num_sms=114,
        clock_mhz=1755,
        memory_clock_mhz=1593,
        memory_bus_bits=5120,
        l2_cache_bytes=50 * MIB,
        num_copy_engines=3,
        memory_bandwidth_gbps=2039.0,
        peak_tflops=_peaks(float64=51.2, float32=51.2, tf32=378.0, half=756.0, float8=1513.0, int8=1513.0),
        peer_gbps=40.0,
        idle_watts=45.0,
        max_watts=350.0,
    ),
    DeviceSpec(
        key="h200",
        name="NVIDIA H200",
        sources=("NVIDIA H200 Tensor Core GPU data sheet", "deviceProperties of a Kineto trace of NVIDIA H200"),
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
        **_PCIE5,
        total_memory_bytes=191_503_138_816,
        num_sms=148,
        clock_mhz=1965,
        memory_clock_mhz=3996,
        memory_bus_bits=7680,
        l2_cache_bytes=132_644_864,
        num_copy_engines=4,
        memory_bandwidth_gbps=7672.0,
        peak_tflops=_peaks(float64=37.0, float32=75.0, tf32=1125.0, half=2250.0, float8=4500.0, int8=4500.0),
        peer_gbps=900.0,
        idle_watts=140.0,
        max_watts=1000.0,
    ),
)

_specs: dict[str, DeviceSpec] = {spec.key: spec for spec in _TABLE}
SPECS: Final[Mapping[str, DeviceSpec]] = MappingProxyType(_specs)
"""The devices that can be named, by key: what ships, and what `register` added."""

MAX_DEVICES: Final = 64
"""The most devices of one virtual machine (PyTorch's own limit is ``C10_COMPILE_TIME_MAX_GPUS``, 120)."""

_COUNTED: Final = re.compile(r"(?P<key>.+?)\s*[x*×]\s*(?P<count>\d+)")  # noqa: RUF001


def register(spec: DeviceSpec, *, replace: bool = False) -> DeviceSpec:
    """Makes `spec` known by its key, so that ``parse_device`` finds it; gives it back.

    Args:
        spec: The device.
        replace: Whether a device of that key may be replaced.

    Raises:
        VirtualDeviceError: The key is taken, or is not one that can be written in a device text.
    """
    key = _normal(spec.key)
    if not key or key != spec.key or _COUNTED.fullmatch(key):
        raise VirtualDeviceError(
            f"Cannot register a device as {spec.key!r}: expected lower case, no space, and no ending like 'x4', "
            "which means four devices. Give the spec another key with spec.replace(key=...)."
        )
    if key in _specs and not replace:
        raise VirtualDeviceError(
            f"A device {key!r} is known already ({_specs[key].name}). Use another key, or pass replace=True."
        )
    _specs[key] = spec
    return spec


def parse_device(device: str | DeviceSpec) -> tuple[DeviceSpec, int]:
    """Which device is meant, and how many of it.

    Args:
        device: "h100", "H100", "h100x4", "a100-80gb x 2", or a `DeviceSpec` (which is one device).

    Raises:
        VirtualDeviceError: No such device, or a count that no machine has; the known ones are listed.
    """
    if isinstance(device, DeviceSpec):
        return device, 1
    if not isinstance(device, str):
        raise VirtualDeviceError(
            f"A virtual device is named by a text such as 'h100' or 'h100x4', or by a DeviceSpec; got {device!r}."
        )
    key, count = _split(device)
    if key not in _specs:
        known = ", ".join(sorted(_specs))
        raise VirtualDeviceError(
            f"No virtual device is called {device!r}.{_near(key, list(_specs))} Known: {known}. "
            "Add your own with cudalens.virtual.register(spec)."
        )
    if not 1 <= count <= MAX_DEVICES:
        raise VirtualDeviceError(f"{device!r} asks for {count} devices; expected 1 to {MAX_DEVICES}.")
    return _specs[key], count


def _split(text: str) -> tuple[str, int]:
    if _normal(text) in _specs:
        return _normal(text), 1
    found = _COUNTED.fullmatch(text.strip().lower())
    return (_normal(found["key"]), int(found["count"])) if found else (_normal(text), 1)


def _normal(text: str) -> str:
    return re.sub(r"[\s_]+", "-", text.strip().lower())


def _near(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return f" Did you mean {' or '.join(close)}?" if close else ""
