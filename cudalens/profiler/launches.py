"""Facts from raw Kineto events: how kernels were launched, what copies moved, and the allocator's actions."""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.frames import GPU_CATEGORIES, categorical, is_category, nullable
from cudalens.frames.catalog_frames import KINETO_ARGS
from cudalens.frames.column_arrays import Bools, Ints, integers
from cudalens.frames.lenient_json import compact_json, decode_fields
from cudalens.frames.limits import Problems
from cudalens.profiler.columns import MAX_INT32, MEMORY_NAME, OOM_NAME, has_start
from cudalens.profiler.getters import MISSING, EventReader, factorized

_Int = int | None
_Float = float | None


class Facts(msgspec.Struct, rename=KINETO_ARGS):
    """What Kineto records of one row of device work beside its times; None for what it does not."""

    correlation: _Int = None
    graph_id: _Int = None
    graph_node_id: _Int = None
    wait_stream: _Int = None
    wait_record_id: _Int = None
    num_bytes: _Int = None
    grid: msgspec.Raw = msgspec.Raw()
    block_dim: msgspec.Raw = msgspec.Raw()
    registers: _Int = None
    shared_memory_bytes: _Int = None
    blocks_per_sm: _Float = None
    warps_per_sm: _Float = None
    occupancy_pct: _Float = None
    collective: str | None = None
    process_group: str | None = None
    in_elements: _Int = None
    out_elements: _Int = None
    message_dtype: str | None = None
    group_size: _Int = None
    collective_seq: _Int = None
    src_rank: _Int = None
    dst_rank: _Int = None
    group_ranks: msgspec.Raw = msgspec.Raw()
    process_group_description: str | None = None
    in_split_sizes: msgspec.Raw = msgspec.Raw()
    out_split_sizes: msgspec.Raw = msgspec.Raw()


class _SavedEvent(msgspec.Struct):
    cat: Any = None
    ts: Any = 0.0
    args: msgspec.Raw = msgspec.Raw()


class _SavedTrace(msgspec.Struct):
    traceEvents: list[_SavedEvent] = []  # noqa: N815 - Chrome's word


#: Rows that a call launched. A range of the program on a stream has the id of the range, not that of a call.
_LAUNCHED: Final = GPU_CATEGORIES - {"gpu_user_annotation"}

#: A row of device work: its correlation id, its start in any unit, and its facts.
_Found = tuple[int, float, Facts]

#: Kineto writes 0 for work outside of any graph.
_INTS: Final = {
    "graph_id": "int64",
    "graph_node_id": "int64",
    "wait_stream": "int64",
    "wait_record_id": "int64",
    "num_bytes": "int64",
    "registers": "int32",
    "shared_memory_bytes": "int64",
    "in_elements": "int64",
    "out_elements": "int64",
    "group_size": "int64",
    "collective_seq": "int64",
    "src_rank": "int64",
    "dst_rank": "int64",
}
_ZERO_IS_NONE: Final = ("graph_id", "graph_node_id")
#: It writes -1 for what it does not know.
_NEGATIVE_IS_NONE: Final = ("wait_stream", "wait_record_id", "collective_seq", "src_rank", "dst_rank")
_FLOATS: Final = ("blocks_per_sm", "warps_per_sm", "occupancy_pct")
_TEXTS: Final = ("collective", "process_group", "process_group_description", "message_dtype")
_LISTS: Final = ("grid", "block_dim", "group_ranks", "in_split_sizes", "out_split_sizes")
_MAX_INT: Final = (1 << 63) - 1
_MAX_FLOAT32: Final = float(np.finfo(np.float32).max)


def launch_columns(raw: Any, columns: dict[str, Any], problems: Problems) -> dict[str, Any]:
    """Launch facts for the device rows of `columns`; missing for rows of which torch has none.

    Args:
        raw: torch's `_ProfilerResult`.
        columns: Raw columns of the run, in torch's order.
        problems: Where facts that cannot be read, or belong to no row, are counted.
    """
    rows = np.flatnonzero(is_category(columns["cat"], _LAUNCHED))
    if not len(rows):
        return {}
    try:
        found = _from_activities(raw, problems) if hasattr(raw, "trace_activities") else _from_saved(raw, problems)
    except Exception as error:  # a build that writes something else, or no room for its file: the run itself is kept
        problems.add("launch facts that cannot be read", f"{type(error).__name__}: {error}"[:200], len(rows))
        return {}
    if not found:  # this build records none
        return {}
    correlation = integers(columns["correlation_id"], 0)
    rows = rows[np.lexsort((columns["ts"][rows], correlation[rows]))]
    at, facts = _matched(correlation[rows], found)
    if num_lost := len(rows) - len(at):
        problems.add("device work without launch facts", "no facts, or more, for its correlation id", num_lost)
    return fact_columns(facts, rows[at], len(correlation))


def _matched(correlation: Ints, found: list[_Found]) -> tuple[Ints, list[Facts]]:
    """Return which rows have facts, and these: a correlation id has as many of both, which are then in the same order.

    Args:
        correlation: Correlation ids of the rows, ascending; rows of one id in order of their starts, shape (n,).
        found: The facts.
    """
    found = sorted(found, key=lambda one: one[:2])
    ids = np.array([one[0] for one in found], np.int64)
    known, of_row, num_rows = np.unique(correlation, return_inverse=True, return_counts=True)
    num_facts = np.searchsorted(ids, known, "right") - np.searchsorted(ids, known, "left")
    is_equal = num_rows == num_facts
    wanted = set(known[is_equal].tolist())
    return np.flatnonzero(is_equal[of_row]), [facts for id_, _, facts in found if id_ in wanted]


def _from_activities(raw: Any, problems: Problems) -> list[_Found]:
    found: list[_Found] = []
    for activity in raw.trace_activities():
        try:
            if activity.type() in _LAUNCHED:
                key = int(activity.correlation_id()), int(activity.timestamp())
                found.append((*key, _decoded(activity.metadata_json(), problems)))
        except Exception as error:
            problems.add("launch facts that cannot be read", f"{type(error).__name__}: {error}"[:200])
    return [one for one in found if abs(one[0]) <= _MAX_INT]


def _decoded(fields: str, problems: Problems) -> Facts:
    return decode_fields(f"{{{fields}}}".encode("utf-8", "replace"), Facts, problems, "launch facts")


def _from_saved(raw: Any, problems: Problems) -> list[_Found]:
    """Return the same through the JSON file that torch writes, for builds without another way."""
    with tempfile.TemporaryDirectory(prefix="cudalens-") as folder:
        path = Path(folder, "trace.json")
        raw.save(str(path))
        saved = msgspec.json.decode(path.read_bytes(), type=_SavedTrace).traceEvents
    of_device = [event for event in saved if isinstance(event.cat, str) and event.cat in _LAUNCHED]
    facts = [decode_fields(bytes(event.args) or b"{}", Facts, problems, "launch facts") for event in of_device]
    starts = [event.ts if isinstance(event.ts, int | float) else 0.0 for event in of_device]
    return [
        (one.correlation, ts, one)
        for one, ts in zip(facts, starts, strict=True)
        if one.correlation is not None and abs(one.correlation) <= _MAX_INT
    ]


def fact_columns(facts: Sequence[Facts], rows: Ints, n: int) -> dict[str, Any]:
    """Columns of length `n` with the facts of `rows`, missing elsewhere.

    Args:
        facts: One per row.
        rows: Row numbers, shape (len(facts),).
        n: Number of events.
    """
    columns: dict[str, Any] = {}
    for name, dtype in _INTS.items():
        least = 0 if name in _NEGATIVE_IS_NONE else -_MAX_INT
        if name in _ZERO_IS_NONE:
            least = 1
        values = [getattr(fact, name) for fact in facts]
        most = np.iinfo(dtype).max
        values = [value if value is not None and max(least, -most) <= value <= most else None for value in values]
        columns[name] = _numbers(values, rows, n, dtype)
    for name in _FLOATS:
        values = [getattr(fact, name) for fact in facts]
        values = [value if value is not None and abs(value) <= _MAX_FLOAT32 else None for value in values]
        columns[name] = _numbers(values, rows, n, "float32")
    for name in _TEXTS:
        columns[name] = _texts([getattr(fact, name) for fact in facts], rows, n)
    for name in _LISTS:
        columns[name] = _texts([compact_json(bytes(getattr(fact, name))) for fact in facts], rows, n)
    return columns


def _numbers(values: list[Any], rows: Ints, n: int, dtype: str) -> Any:
    data, mask = np.zeros(n, dtype), np.ones(n, bool)
    data[rows] = [0 if value is None else value for value in values]
    mask[rows] = [value is None for value in values]
    return nullable(data, mask)


def _texts(texts: list[str | None], rows: Ints, n: int) -> Any:
    codes, distinct = factorized(text for text in texts if text is not None)
    spread = np.full(n, -1, np.int32)
    spread[rows[[text is not None for text in texts]]] = codes
    return categorical(spread, distinct)


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
    # The device types, missing where torch's value could not be read.
    of_type, distinct = factorized(types)
    known = [name for name in distinct if name]
    places = np.array([known.index(name) if name else -1 for name in distinct], np.int32)
    device_types = categorical(places[of_type[kinds]], known)
    return {
        "ts": ts,
        "action": categorical(np.where(refused, 2, np.where(signed < 0, 1, 0)), ["alloc", "free_completed", "oom"]),
        "device_type": device_types,
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
