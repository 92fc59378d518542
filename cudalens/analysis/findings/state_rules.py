"""Rules about the state of the device that have no measurable cost: memory, clocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cudalens.analysis import units
from cudalens.analysis.findings.finding import Finding
from cudalens.analysis.findings.trace_arrays import TraceArrays
from cudalens.analysis.memory.refusal import Refusal, last_refusal

#: Above this, torch's allocator frees its caches and allocates again, and fragmentation alone can end a run.
_FULL: Final = 0.90

_THROTTLED: Final = 0.10

_TRAINING: Final = r"^autograd::engine|^Optimizer\.step#"


def memory_full(arrays: TraceArrays) -> Iterator[Finding]:
    """``memory_full``: the allocator reserves nine tenths of the device's memory or more, or has run out. No cost."""
    memory, devices = arrays.trace.memory, arrays.trace.info.devices
    on_device = memory[memory["device_type"].astype(str).isin(["cuda", "hip", "xpu"])]
    num_ooms = int((on_device["action"] == "oom").sum())
    total = next((device.total_memory_bytes for device in devices if device.total_memory_bytes), 0)
    reserved = on_device["reserved_bytes"].dropna()
    peak = int(reserved.max()) if len(reserved) else 0
    if not num_ooms and not (total and peak >= _FULL * total):
        return
    failed = (
        f"{units.plural(num_ooms, 'allocation')} failed{_at_refusal(last_refusal(arrays.trace))}" if num_ooms else ""
    )
    held = f"torch reserved {units.size(peak)} of the GPU's {units.size(total)}" if total and peak else ""
    advice = _memory_advice(arrays)
    what = f"{'; '.join(filter(None, (failed, held)))}."
    yield arrays.finding("memory_full", "memory nearly full", what, None, advice, "high")


def _at_refusal(refused: Refusal | None) -> str:
    """`` (90.0 MiB asked for, 5.00 MiB free, 2.00 MiB of the reserved memory unused)``, as far as it is known."""
    if refused is None or not refused.asked_bytes:
        return ""
    texts = [f"{units.size(refused.asked_bytes)} asked for"]
    if refused.free_bytes is not None:
        texts.append(f"{units.size(refused.free_bytes)} free")
    if refused.unused_bytes is not None:
        texts.append(f"{units.size(refused.unused_bytes)} of the reserved memory unused")
    return f" ({', '.join(texts)})"


def _memory_advice(arrays: TraceArrays) -> str:
    """What to try against a full device; checkpointing is for training, and servers allocate a pool in advance."""
    refused = last_refusal(arrays.trace)
    if refused is not None and refused.unused_bytes is not None:
        if refused.is_fragmented:
            return (
                "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: the unused pieces of torch's memory, with what the "
                "GPU has free, are enough"
            )
        return "%cudamem lists what holds memory; torch.utils.checkpoint, smaller batches, or lower precision"
    if arrays.is_named(_TRAINING).any():
        return (
            "%cudamem lists what holds memory; torch.utils.checkpoint, smaller batches, "
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
        )
    return (
        "%cudamem lists what holds memory; smaller batches, PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; expected "
        "where a server allocates its cache in advance (gpu_memory_utilization of vLLM, mem_fraction_static of SGLang)"
    )


def slow_clocks(arrays: TraceArrays) -> Iterator[Finding]:
    """``slow_clocks``: the clocks of a busy device were throttled in a tenth of its readings or more. No cost."""
    metrics = arrays.trace.metrics
    is_busy = metrics["gpu_busy_pct"].fillna(100.0) > 0
    readings = metrics.loc[is_busy, "slowed_by"].dropna().astype(str)
    throttled = readings[readings != ""]
    if not len(throttled) or len(throttled) < _THROTTLED * len(readings):
        return
    reason, share = throttled.value_counts().index[0], units.percent(100 * len(throttled) / len(readings))
    what = f"the GPU's clocks were throttled by {reason} in {share} of the readings of a busy GPU."
    advice = "check cooling, power limit and other processes (nvidia-smi -q -d PERFORMANCE) before you compare runs"
    yield arrays.finding("slow_clocks", "throttled clocks", what, None, advice, "high")
