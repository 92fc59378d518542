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
    """Modelling choice: what the host pays for one eager op besides the launch (Python, dispatcher, allocator).

    Recorded from one launch to the next, with a profiler that records stacks: 12.5 us at the 20th percentile (H100)."""
    launch_ns: int = 3_500
    """Modelling choice: a ``cudaLaunchKernel`` or ``cudaMemcpyAsync`` call on the host.

    Recorded medians, under a profiler: 3.2, 4.5 and 5.4 us (H100), 5.2 us (V100)."""
    kernel_latency_ns: int = 1_500
    """Modelling choice: from the launch call's end until an idle GPU starts the kernel.

    Recorded medians: 1.4 and 1.7 us (H100), 1.5 us (A100), 2.0 us (V100), 3.0 us (B200)."""
    kernel_fixed_ns: int = 1_500
    """Modelling choice: the least that any kernel lasts.

    The shortest of recorded kernels: 1.3 us (A100), 1.25 us (V100), 1.5 us (H100), 2.0 us (B200)."""
    event_ns: int = 1_000
    """Modelling choice: ``cudaEventRecord`` or ``cudaStreamWaitEvent`` on the host.

    Recorded medians: 1.0 to 2.7 us."""
    sync_ns: int = 4_000
    """Modelling choice: a synchronising call's own cost once the work is done.

    Recorded where there was nothing to wait for, under a profiler: 6.0 to 7.7 us (H100)."""
    malloc_ns: int = 200_000
    """Modelling choice: a ``cudaMalloc`` call. Recorded median, under a profiler: 335 us (RTX 2080 Ti)."""
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
                raise VirtualDeviceError(f"DeviceSpec has no field {name!r}.{near(name, known)}")
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


def near(name: str, known: list[str]) -> str:
    """A sentence that names the `known` ones close to `name`; empty where none is."""
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return f" Did you mean {' or '.join(close)}?" if close else ""
