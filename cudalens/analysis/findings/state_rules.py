"""Rules about the state of the machine, which cost no time that could be measured: memory, clocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cudalens.analysis import units
from cudalens.analysis.findings.finding import Finding
from cudalens.analysis.findings.trace_arrays import Scene

#: Beyond it, torch's allocator soon gives caches back and asks again, and fragmentation alone can end a run.
_FULL: Final = 0.90

_SLOWED: Final = 0.10


def memory_full(scene: Scene) -> Iterator[Finding]:
    """``memory_full``: the allocator holds nine tenths of the device's memory and more, or has run out. No cost."""
    memory, devices = scene.trace.memory, scene.trace.info.devices
    on_device = memory[memory["device_type"].astype(str).isin(["cuda", "hip", "xpu"])]
    num_ooms = int((on_device["action"] == "oom").sum())
    totals = [device.total_memory_bytes for device in devices if device.total_memory_bytes]
    reserved = on_device["reserved_bytes"].dropna()
    peak = int(reserved.max()) if len(reserved) else 0
    if not num_ooms and not (totals and peak >= _FULL * totals[0]):
        return
    failed = f"{units.plural(num_ooms, 'allocation')} failed" if num_ooms else ""
    held = f"torch held {units.size(peak)} of the GPU's {units.size(totals[0])}" if totals and peak else ""
    what = "; ".join(part for part in (failed, held) if part) + "."
    yield scene.finding(
        "memory_full", "memory nearly full", what, None, (),
        "%cudamem shows who holds it; torch.utils.checkpoint, smaller batches, "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "high",
    )  # fmt: skip


def slow_clocks(scene: Scene) -> Iterator[Finding]:
    """``slow_clocks``: the device's clocks were held down in a tenth of the readings and more. No cost."""
    readings = scene.trace.metrics["slowed_by"].dropna().astype(str)
    held = readings[readings != ""]
    if not len(held) or len(held) < _SLOWED * len(readings):
        return
    reason = str(held.value_counts().index[0])
    share = units.percent(100 * len(held) / len(readings))
    yield scene.finding(
        "slow_clocks", "clocks held down", f"the GPU's clocks were held down by {reason} in {share} of the readings.",
        None, (), "look at cooling, power limit and neighbours (nvidia-smi -q -d PERFORMANCE) before comparing runs",
        "high",
    )  # fmt: skip
