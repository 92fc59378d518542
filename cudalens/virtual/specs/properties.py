"""``torch.cuda.get_device_properties`` of a virtual GPU: all fields of PyTorch's C struct, from the spec."""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cudalens.device.inventory.visible import CUDA_VARIABLE, parse_visible
from cudalens.frames.info import Ceilings
from cudalens.gpus.device_spec import DeviceSpec


def spec_ceilings(spec: DeviceSpec) -> Ceilings:
    """Return the vendor's published peaks. Reads, writes and copies (read plus written bytes) share one bandwidth."""
    bandwidth = spec.memory_bandwidth_gbps * 1e9
    return Ceilings(
        device=spec.name,
        source=f"spec:{spec.key}",
        driver=spec.driver_version,
        copy_bytes_per_s=bandwidth,
        read_bytes_per_s=bandwidth,
        write_bytes_per_s=bandwidth,
        flops_per_s={name: tflops * 1e12 for name, tflops in spec.peak_tflops.items() if name != "int8"},
    )


def device_uuid(key: str, ordinal: int) -> uuid.UUID:
    """Return the UUID of the `ordinal`-th GPU of a spec: generated, and the same on every machine and in every run.

    Args:
        key: The key of the spec.
        ordinal: The index of the GPU before CUDA_VISIBLE_DEVICES is applied.
    """
    return uuid.UUID(bytes=hashlib.sha256(f"cudalens:{key}:{ordinal}".encode()).digest()[:16])


def visible_ordinals(key: str, num_devices: int, environment: Mapping[str, str] | None = None) -> list[int]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES selects, in the order of ``cuda:0``, ``cuda:1`` ...

    Args:
        key: The key of the spec, which determines the UUIDs.
        num_devices: The number of GPUs of the machine.
        environment: Replaces `os.environ`.
    """
    text = (os.environ if environment is None else environment).get(CUDA_VARIABLE)
    uuids = [f"GPU-{device_uuid(key, ordinal)}" for ordinal in range(num_devices)]
    return list(parse_visible(text, uuids).gpus)


_MIB: Final = 1 << 20
_KHZ_PER_MHZ: Final = 1000


class DeviceUuid:
    """A GPU's UUID: its `bytes`, printed in torch's format."""

    __slots__ = ("bytes",)

    def __init__(self, value: uuid.UUID) -> None:
        self.bytes: Final = list(value.bytes)

    def __str__(self) -> str:
        return str(uuid.UUID(bytes=bytes(self.bytes)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceUuid) and self.bytes == other.bytes

    def __hash__(self) -> int:
        return hash(bytes(self.bytes))


@dataclass(frozen=True, repr=False, slots=True)
class DeviceProperties:
    """The properties of a GPU. Memory in bytes, clocks in kHz, bus width in bits, as in ``cudaDeviceProp``."""

    name: str
    major: int
    minor: int
    is_multi_gpu_board: int
    is_integrated: int
    multi_processor_count: int
    total_memory: int
    max_threads_per_multi_processor: int
    max_threads_per_block: int
    max_blocks_per_multi_processor: int
    warp_size: int
    regs_per_multiprocessor: int
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    L2_cache_size: int
    clock_rate: int
    memory_clock_rate: int
    memory_bus_width: int
    gcnArchName: str  # noqa: N815 - torch's name; on CUDA it holds the device's name
    uuid: DeviceUuid
    pci_bus_id: int
    pci_device_id: int
    pci_domain_id: int

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // _MIB}MB, multi_processor_count={self.multi_processor_count}, "
            f"uuid={self.uuid}, pci_bus_id={self.pci_bus_id}, pci_device_id={self.pci_device_id}, "
            f"pci_domain_id={self.pci_domain_id}, L2_cache_size={self.L2_cache_size // _MIB}MB)"
        )


def properties_of(spec: DeviceSpec, ordinal: int, identity: uuid.UUID) -> DeviceProperties:
    """Return the properties of one GPU.

    Args:
        spec: The specification.
        ordinal: Its index in the machine; the PCI bus id is the index plus 1.
        identity: Its UUID.
    """
    major, minor = spec.compute_capability
    return DeviceProperties(
        name=spec.name,
        major=major,
        minor=minor,
        is_multi_gpu_board=int(spec.is_multi_gpu_board),
        is_integrated=int(spec.is_integrated),
        multi_processor_count=spec.num_sms,
        total_memory=spec.total_memory_bytes,
        max_threads_per_multi_processor=spec.max_threads_per_sm,
        max_threads_per_block=spec.max_threads_per_block,
        max_blocks_per_multi_processor=spec.max_blocks_per_sm,
        warp_size=spec.warp_size,
        regs_per_multiprocessor=spec.registers_per_sm,
        shared_memory_per_block=spec.shared_memory_per_block_bytes,
        shared_memory_per_block_optin=spec.shared_memory_per_block_optin_bytes,
        shared_memory_per_multiprocessor=spec.shared_memory_per_sm_bytes,
        L2_cache_size=spec.l2_cache_bytes,
        clock_rate=spec.clock_mhz * _KHZ_PER_MHZ,
        memory_clock_rate=spec.memory_clock_mhz * _KHZ_PER_MHZ,
        memory_bus_width=spec.memory_bus_bits,
        gcnArchName=spec.name,
        uuid=DeviceUuid(identity),
        pci_bus_id=ordinal + 1,
        pci_device_id=0,
        pci_domain_id=0,
    )
