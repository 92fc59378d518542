"""The allocator's raw Kineto events to columns of the memory frame."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from cudalens.frames import categorical, nullable
from cudalens.profiler.columns import MEMORY_NAME, OOM_NAME, EventReader, factorized

Ints = NDArray[np.int64]

_KINETO_CATEGORY: Final = "cpu_instant_event"


class _Facts(
    msgspec.Struct,
    rename={"num_bytes": "Bytes", "addr": "Addr", "allocated": "Total Allocated", "reserved": "Total Reserved"},
):
    """What Kineto tells of an allocator action beside its time."""

    num_bytes: int
    addr: int
    allocated: int
    reserved: int


def memory_columns(raw: Any, events: Sequence[Any]) -> dict[str, Any] | None:
    """Columns for `frames.build_memory`, one row per allocation, release or refusal; None without any.

    Totals of a CUDA device are what its allocator holds, where the build tells them. On the host, and elsewhere,
    ``allocated_bytes`` is the running sum of the block's own actions: 0 before the first, negative where it released
    more than it allocated. (torch's own total of the host counts whatever any profiler of the process ever saw.)

    Args:
        raw: torch's `_ProfilerResult`.
        events: Its events of the allocator.
    """
    if not events:
        return None
    reader = EventReader(events)
    ts, tid = reader.ints("start_ns"), reader.ints("device_resource_id")
    order = np.lexsort((tid, ts))
    signed = reader.ints("nbytes")[order]
    refused = np.fromiter((name == OOM_NAME for name in reader.values("name")), bool, len(ts))[order]
    kinds, seen = factorized(reader.values("device_type"))
    kinds, types = kinds[order], [str(kind).rpartition(".")[2].lower() for kind in seen]
    device = reader.ints("device_index").astype(np.int32)[order]
    on_host = device < 0
    everywhere = np.zeros(len(ts), bool)
    totals = running_totals(signed, kinds, device, refused)
    return {
        "ts": ts[order],
        "action": categorical(np.where(refused, 2, np.where(signed < 0, 1, 0)), ["alloc", "free_completed", "oom"]),
        "device_type": categorical(kinds, types),
        "device": nullable(np.where(on_host, np.int32(0), device), on_host),
        "num_bytes": np.abs(signed),
        "allocated_bytes": nullable(totals, refused),
        "pid": nullable(np.full(len(ts), os.getpid(), np.int64), everywhere),
        "tid": nullable(tid[order], everywhere.copy()),
    } | _told(raw, ts[order], tid[order], signed, totals, on_host, refused)


def running_totals(signed: Ints, kinds: NDArray[Any], device: NDArray[Any], refused: NDArray[np.bool_]) -> Ints:
    """Running sum of `signed` bytes per device (of a kind), in the order given; what was refused adds nothing.

    Args:
        signed: Bytes, negative for a release, shape (n,).
        kinds: Number of the device type, shape (n,).
        device: Device index, shape (n,).
        refused: True for actions that failed, shape (n,).
    """
    total = np.zeros(len(signed), np.int64)
    counted = np.where(refused, 0, signed)
    lanes = kinds.astype(np.int64) * (1 << 32) + device
    for lane in np.unique(lanes):
        at = lanes == lane
        total[at] = np.cumsum(counted[at])
    return total


def _told(
    raw: Any,
    ts: Ints,
    tid: Ints,
    signed: Ints,
    totals: Ints,
    on_host: NDArray[np.bool_],
    refused: NDArray[np.bool_],
) -> dict[str, Any]:
    """Addresses and totals by torch's word; nothing where this build tells none, or not of the same rows."""
    if not hasattr(raw, "trace_activities") or refused.any():
        return {}
    decode = msgspec.json.Decoder(_Facts).decode
    try:
        found = [
            (activity.timestamp(), activity.resource_id(), decode(f"{{{activity.metadata_json()}}}"))
            for activity in raw.trace_activities()
            if activity.type() == _KINETO_CATEGORY and activity.name() == MEMORY_NAME
        ]
    except msgspec.MsgspecError:
        return {}
    found.sort(key=lambda item: item[:2])
    keys = [(at, thread, facts.num_bytes) for at, thread, facts in found]
    if keys != list(zip(ts.tolist(), tid.tolist(), signed.tolist(), strict=True)):
        return {}
    facts = [fact for *_, fact in found]
    reserved = np.array([fact.reserved for fact in facts], np.int64)
    allocated = np.where(on_host, totals, np.array([fact.allocated for fact in facts], np.int64))
    return {
        "addr": nullable(np.array([fact.addr for fact in facts], np.uint64), np.zeros(len(facts), bool)),
        "allocated_bytes": nullable(allocated, np.zeros(len(facts), bool)),
        "reserved_bytes": nullable(reserved, on_host.copy()),
    }
