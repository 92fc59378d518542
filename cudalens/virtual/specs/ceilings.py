"""What a virtual device can do at most: the numbers of its spec, and said to be so."""

from __future__ import annotations

from cudalens.frames.ceilings import Ceilings
from cudalens.virtual.specs.device_spec import DeviceSpec


def spec_ceilings(spec: DeviceSpec) -> Ceilings:
    """The peaks that the vendor publishes. Reads, writes and copies (both directions counted) share one bandwidth."""
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
