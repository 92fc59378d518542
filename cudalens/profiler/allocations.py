"""The allocator's raw Kineto events to columns of the memory frame."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from cudalens.frames import categorical, nullable
from cudalens.profiler.columns import OOM_NAME, EventReader, factorized


def memory_columns(events: Sequence[Any]) -> dict[str, Any] | None:
    """Columns for `frames.build_memory`, one row per allocation, release or refusal; None without any.

    ``allocated_bytes`` is the running sum of what the block itself allocated and released on that device: 0 at the
    start of the block, negative where it released more than it allocated.
    """
    if not events:
        return None
    reader = EventReader(events)
    ts = reader.ints("start_ns")
    order = np.argsort(ts, kind="stable")
    signed = reader.ints("nbytes")[order]
    refused = np.fromiter((name == OOM_NAME for name in reader.values("name")), bool, len(ts))[order]
    kinds, types = factorized(str(t).rpartition(".")[2].lower() for t in reader.values("device_type"))
    kinds = kinds[order]
    device = reader.ints("device_index").astype(np.int32)[order]
    on_host = device < 0
    tid = reader.ints("device_resource_id")[order]
    everywhere = np.zeros(len(ts), bool)
    return {
        "ts": ts[order],
        "action": categorical(np.where(refused, 2, np.where(signed < 0, 1, 0)), ["alloc", "free_completed", "oom"]),
        "device_type": categorical(kinds, types),
        "device": nullable(np.where(on_host, np.int32(0), device), on_host),
        "num_bytes": np.abs(signed),
        "allocated_bytes": nullable(_running(signed, kinds, device, refused), refused),
        "pid": nullable(np.full(len(ts), os.getpid(), np.int64), everywhere),
        "tid": nullable(tid, everywhere.copy()),
    }


def _running(signed: Any, kinds: Any, device: Any, refused: Any) -> Any:
    """Running sum of `signed` per (kind, device), in the order given."""
    total = np.zeros(len(signed), np.int64)
    counted = np.where(refused, 0, signed)
    lanes = kinds.astype(np.int64) * (1 << 32) + device
    for lane in np.unique(lanes):
        at = lanes == lane
        total[at] = np.cumsum(counted[at])
    return total
