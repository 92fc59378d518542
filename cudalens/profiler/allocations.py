"""Convert the allocator's raw Kineto events to columns of the memory frame."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.frames import categorical, nullable
from cudalens.frames.lenient_json import decode_fields
from cudalens.frames.limits import Problems
from cudalens.profiler.columns import MAX_INT32, MEMORY_NAME, OOM_NAME, has_start
from cudalens.profiler.getters import MISSING, EventReader, Ints, factorized

Bools = NDArray[np.bool_]
#: Time, thread and bytes of an action: the key of its facts.
_Key = tuple[int, int, int]

_KINETO_CATEGORY: Final = "cpu_instant_event"


class _Facts(
    msgspec.Struct,
    rename={"num_bytes": "Bytes", "addr": "Addr", "allocated": "Total Allocated", "reserved": "Total Reserved"},
):
    """What Kineto records of an allocator action besides its time; None if not recorded."""

    num_bytes: int | None = None
    addr: int | None = None
    allocated: int | None = None
    reserved: int | None = None


def memory_columns(raw: Any, events: Sequence[Any], problems: Problems) -> dict[str, Any] | None:
    """Columns for `frames.build_memory`, one row per allocation, release or failed allocation; None without any.

    The totals of a CUDA device are those of its allocator, if this build of torch records them. On the host, and on
    other devices, ``allocated_bytes`` is the running sum over the profiled block: 0 before the first action, negative
    if more was released than allocated. (torch's own total for the host includes earlier profiles of the process.)

    Args:
        raw: torch's `_ProfilerResult`.
        events: Its allocator events.
        problems: Counts damage. An action without a time or a size is left out.
    """
    reader = EventReader(events, problems)
    ints, texts = reader.scan(("start_ns", "device_resource_id", "nbytes", "device_index"), ("name", "device_type"))
    usable = has_start(ints["start_ns"], np.ones(len(events), bool), problems) & (ints["nbytes"] != MISSING)
    at = np.flatnonzero(usable)
    at = at[np.lexsort((ints["device_resource_id"][at], ints["start_ns"][at]))]
    if not len(at):
        return None
    ts, tid, signed, index = (values[at] for values in ints.values())
    refused = np.array([name == OOM_NAME for name in texts["name"][1]], bool)[texts["name"][0][at]]
    kinds, types = texts["device_type"][0][at], [kind.rpartition(".")[2].lower() for kind in texts["device_type"][1]]
    on_host = (index < 0) | (index > MAX_INT32)
    device = np.where(on_host, -1, index).astype(np.int32)
    totals = running_totals(signed, kinds, device, refused)
    return {
        "ts": ts,
        "action": categorical(np.where(refused, 2, np.where(signed < 0, 1, 0)), ["alloc", "free_completed", "oom"]),
        "device_type": _device_types(kinds, types),
        "device": nullable(np.maximum(device, 0), on_host),
        "num_bytes": np.abs(signed),
        "allocated_bytes": nullable(totals, refused),
        "pid": nullable(np.full(len(ts), os.getpid(), np.int64), np.zeros(len(ts), bool)),
        "tid": nullable(tid, tid == MISSING),
    } | _allocator_facts(
        raw, list(zip(*(key.tolist() for key in (ts, tid, signed)), strict=True)), totals, on_host & ~refused, problems
    )


def running_totals(signed: Ints, kinds: NDArray[Any], device: NDArray[Any], refused: Bools) -> Ints:
    """Running sum of `signed` bytes per device type and device, in the given order; failed actions add nothing.

    Args:
        signed: Bytes, negative for a release, shape (n,).
        kinds: Device type numbers, shape (n,).
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


def _device_types(codes: NDArray[np.int32], types: list[str]) -> pd.Categorical:
    """Return the device types, missing where torch's value could not be read."""
    of_type, distinct = factorized(types)
    codes = of_type[codes]
    known = [name for name in distinct if name]
    places = np.array([known.index(name) if name else -1 for name in distinct], np.int32)
    return categorical(places[codes], known)


def _allocator_facts(
    raw: Any, keys: Sequence[_Key], totals: Ints, on_host: Bools, problems: Problems
) -> dict[str, Any]:
    """Addresses and totals from torch for the actions with `keys`, missing where unknown; empty if all are unknown.

    Args:
        raw: torch's `_ProfilerResult`.
        keys: Keys of the actions.
        totals: Running totals, shape (n,).
        on_host: Actions whose total is the running total, shape (n,).
        problems: Counts facts that cannot be read.
    """
    known: dict[_Key, list[_Facts]] = defaultdict(list)
    for key, one in _found(raw, problems) if hasattr(raw, "trace_activities") else ():
        known[key].append(one)
    facts = [known[key].pop(0) if known.get(key) else _Facts() for key in keys]
    if all(one.addr is None and one.allocated is None for one in facts):
        return {}
    allocated = _integers([one.allocated for one in facts], np.int64)
    allocated[on_host] = nullable(totals[on_host], np.zeros(int(on_host.sum()), bool))
    reserved = _integers([one.reserved for one in facts], np.int64)
    reserved[on_host] = pd.NA
    return {
        "addr": _integers([one.addr for one in facts], np.uint64),
        "allocated_bytes": allocated,
        "reserved_bytes": reserved,
    }


def _found(raw: Any, problems: Problems) -> list[tuple[_Key, _Facts]]:
    found = []
    for activity in raw.trace_activities():
        try:
            if activity.type() == _KINETO_CATEGORY and activity.name() == MEMORY_NAME:
                fields = f"{{{activity.metadata_json()}}}".encode("utf-8", "replace")
                facts = decode_fields(fields, _Facts, problems, "allocator facts")
                found.append(((activity.timestamp(), activity.resource_id(), facts.num_bytes), facts))
        except Exception as error:
            problems.add("allocator facts that cannot be read", f"{type(error).__name__}: {error}"[:200])
    return found


def _integers(values: list[int | None], dtype: type[np.integer[Any]]) -> Any:
    """Return a masked array of `values`, missing where they do not fit."""
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    fits = [value is not None and least <= value <= most for value in values]
    data = np.array([value if is_fit else 0 for value, is_fit in zip(values, fits, strict=True)], dtype)
    return nullable(data, ~np.array(fits, bool))
