"""Peak rates (ceilings) of a virtual device, taken from its spec."""

from __future__ import annotations

from cudalens.frames.ceilings import Ceilings
from cudalens.gpus.device_spec import DeviceSpec


def spec_ceilings(spec: DeviceSpec) -> Ceilings:
    """The vendor's published peaks. Reads, writes and copies (read plus written bytes) share one bandwidth."""
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
