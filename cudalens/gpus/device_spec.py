"""`DeviceSpec`: the hardware numbers and modelled costs of one GPU. No torch.

A `DeviceSpec` holds three kinds of numbers:

- **Facts that a driver prints** (memory size, SMs, clocks, caches): as ``torch.cuda.get_device_properties``, CUDA's
  ``deviceQuery`` sample or a Kineto trace's ``deviceProperties`` printed them on such a card.
- **Published peaks** (TFLOP/s, GB/s, watts): from NVIDIA's data sheets and architecture white papers, always dense
  (without structured sparsity), with float32 accumulation, which PyTorch uses for its matrix products.
- **Modelling choices** (the cost of a launch, an event or a ``cudaMalloc``): one set of round numbers close to public
  measurements and recorded traces; each field is marked as such. They depend on the host as much as on the GPU.

`sources` lists the documents. To add a device: ``register(SPECS["h100"].replace(key="mine", ...))``.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from cudalens.errors import VirtualDeviceError

#: Bytes in a mebibyte.
MIB: Final = 1024 * 1024

#: The keys of peak rates; "tf32" is float32 matrix products on tensor cores.
PEAK_KEYS: Final = ("float64", "float32", "tf32", "float16", "bfloat16", "float8", "int8")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """One GPU model and its modelled costs. Units are in the names; GB is 10**9 bytes, rates are per second."""

    #: The name used in device texts: "h100".
    key: str
    #: The name that ``torch.cuda.get_device_name`` returns.
    name: str
    #: Public documents and printouts with these numbers.
    sources: tuple[str, ...]

    compute_capability: tuple[int, int]
    #: The memory that torch reports: the installed memory minus what firmware and ECC use.
    total_memory_bytes: int
    num_sms: int
    max_threads_per_sm: int
    #: Maximum SM clock, as the driver reports it (torch's ``clock_rate`` is this in kHz).
    clock_mhz: int
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
    #: ``asyncEngineCount``: 2 or more means that copies to and from the host overlap.
    num_copy_engines: int = 2

    memory_bandwidth_gbps: float
    #: Dense peak by `PEAK_KEYS`; if the hardware has no such unit, the rate of the unit that PyTorch uses instead.
    peak_tflops: Mapping[str, float]

    pinned_h2d_gbps: float
    pinned_d2h_gbps: float
    pageable_h2d_gbps: float
    pageable_d2h_gbps: float
    #: One direction between two such GPUs: NVLink if available, else PCIe.
    peer_gbps: float
    #: The result of ``torch.cuda.can_device_access_peer`` for two of them.
    can_access_peer: bool = True

    #: Modelling choice: host time of one eager op besides the launch (Python, dispatcher, allocator).
    #: Recorded from one launch to the next, with a profiler that records stacks: 12.5 us at the 20th percentile (H100).
    host_op_ns: int = 5_000
    #: Modelling choice: a ``cudaLaunchKernel`` or ``cudaMemcpyAsync`` call on the host. Recorded medians, under a
    #: profiler: 3.2, 4.5 and 5.4 us (H100), 5.2 us (V100).
    launch_ns: int = 3_500
    #: Modelling choice: from the launch call's end until an idle GPU starts the kernel. Recorded medians: 1.4 and 1.7
    #: us (H100), 1.5 us (A100), 2.0 us (V100), 3.0 us (B200).
    kernel_latency_ns: int = 1_500
    #: Modelling choice: the shortest duration of a kernel. The shortest recorded kernels: 1.3 us (A100), 1.25 us
    #: (V100), 1.5 us (H100), 2.0 us (B200).
    kernel_fixed_ns: int = 1_500
    #: Modelling choice: ``cudaEventRecord`` or ``cudaStreamWaitEvent`` on the host. Recorded medians: 1.0 to 2.7 us.
    event_ns: int = 1_000
    #: Modelling choice: cost of a synchronising call when the work is done. Recorded without pending work, under
    #: a profiler: 6.0 to 7.7 us (H100).
    sync_ns: int = 4_000
    #: Modelling choice: a ``cudaMalloc`` call. Recorded median, under a profiler: 335 us (RTX 2080 Ti).
    malloc_ns: int = 200_000
    #: Modelling choice: a ``cudaFree`` call, besides the synchronisation that it implies.
    free_ns: int = 150_000
    #: A ``cudaGraphLaunch`` call on the host, whatever the size of the graph. Replays of 8 pointwise kernels between
    #: two events exceed the kernels by 1.06 us a kernel (H100, median of 29 operators), of which the gaps are 0.3 us.
    graph_launch_ns: int = 6_400
    #: From one kernel of a graph to the next on the device. Replays of 17,600 small kernels: 1.50 us (H200) and 1.63 us
    #: (H100) a kernel, of which profiles list 1.17 and 1.42 us as the kernel.
    graph_node_ns: int = 300
    #: Modelling choice: memory used by a CUDA context with PyTorch's kernels before the first tensor.
    context_bytes: int = 500 * MIB

    idle_watts: float
    #: The default power limit.
    max_watts: float
    #: Modelling choice, as `busy_celsius`.
    idle_celsius: float = 32.0
    busy_celsius: float = 65.0

    cuda_version: str = "12.8"
    driver_version: str = "570.86.15"
    #: Constants of the timing model by family, measured on this GPU; None for the shipped ones
    #: (`cudalens.virtual.calibrate`).
    calibration: Mapping[str, Mapping[str, float]] | None = None
    #: The result of ``torch.cuda.get_arch_list`` in a CUDA 12.8 wheel.
    arch_list: tuple[str, ...] = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")

    def __post_init__(self) -> None:
        _check(self)
        object.__setattr__(self, "peak_tflops", MappingProxyType(dict(self.peak_tflops)))

    def __hash__(self) -> int:
        return hash(self.key)  # of one field: predicted times are cached by specification

    def __reduce__(self) -> tuple[Any, ...]:
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return _make, (values | {"peak_tflops": dict(self.peak_tflops)},)

    @property
    def max_resident_threads(self) -> int:
        """The maximum number of resident threads on the device."""
        return self.num_sms * self.max_threads_per_sm

    def replace(self, **changes: Any) -> DeviceSpec:
        """Return a copy with some fields changed.

        Raises:
            VirtualDeviceError: There is no field of that name, or a value is not valid.
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
    """Return a sentence with the `known` names close to `name`; empty if there is none."""
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    return f" Did you mean {' or '.join(close)}?" if close else ""
