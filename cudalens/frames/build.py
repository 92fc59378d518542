"""From raw columns, in any order, to the complete events and memory frames: sorted, linked, with tree and self time.

Collectors and readers hand over what they know and leave out what they do not; this is the one place that fills in the
rest, so that every Trace obeys the same definitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.frames import tree
from cudalens.frames.catalog import Column, columns_of
from cudalens.frames.forward import forward_rows
from cudalens.frames.schema import missing_array

Ints = NDArray[np.int64]

#: Categories whose rows stand on a device stream. Only the first three are GPU activities.
GPU_CATEGORIES: Final = frozenset(
    {"kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "cuda_sync", "mtia_ccp_events"}
)

#: Categories of work that a GPU did; annotations, syncs and overhead are not work.
GPU_ACTIVITIES: Final = ("kernel", "gpu_memcpy", "gpu_memset")

#: Categories of the host calls that launch device work.
RUNTIME_CATEGORIES: Final = (
    "cuda_runtime",
    "cuda_driver",
    "xpu_runtime",
    "xpu_driver",
    "mtia_runtime",
    "hip_runtime",
    "hip_driver",
    "glow_runtime",
    "privateuse1_runtime",
    "privateuse1_driver",
)

STEP_PREFIX: Final = "ProfilerStep#"

_LINKS: Final = frozenset({"parent", "depth", "self_dur", "launch", "forward", "step"})


def nullable(values: NDArray[Any], mask: NDArray[np.bool_]) -> pd.arrays.IntegerArray | pd.arrays.FloatingArray:
    """`values` as pandas' masked array, missing where `mask` is True. Shapes (n,) and (n,); neither is copied."""
    kind = pd.arrays.FloatingArray if values.dtype.kind == "f" else pd.arrays.IntegerArray
    return kind(values, mask)


def categorical(codes: NDArray[np.integer], categories: list[str]) -> pd.Categorical:
    """A categorical of unique text `categories`; code -1 is missing."""
    return pd.Categorical.from_codes(codes, categories=pd.Index(categories, dtype="str"))


@dataclass
class RawRows:
    """What a collector found, before frames are made of it.

    Attributes:
        events: Raw columns of the events, for `build_events`; each of length n.
        async_mask: True for host rows that began and ended on different threads, shape (n,); None where there are none.
        memory: Raw columns of the allocator's actions, for `build_memory`; None where none were recorded.
        parent: The row that encloses each host row, -1 for none, shape (n,), from who knows better than the times do.
    """

    events: dict[str, Any]
    async_mask: NDArray[np.bool_] | None = None
    memory: dict[str, Any] | None = None
    parent: Ints | None = None


def build_events(
    columns: Mapping[str, Any],
    *,
    async_mask: NDArray[np.bool_] | None = None,
    parent: Ints | None = None,
    thread_numbers: Mapping[int, int] | None = None,
) -> pd.DataFrame:
    """The events frame from raw columns.

    Args:
        columns: At least ``ts``, ``dur``, ``name``, ``cat``; each an array of the catalog's dtype, length n, in any
            order of rows. What is absent is missing. ``parent``, ``depth``, ``self_dur``, ``launch``, ``forward`` and
            ``step`` are always computed here.
        async_mask: True for host rows that started and ended on different threads: they take no place in a tree, and
            have no self time, since no thread was busy with them throughout.
        parent: Number of the row, in the order given, that encloses each row, -1 for none; it begins no later, ends no
            earlier and stands before it. Without it the times tell.
        thread_numbers: torch's own id of each host thread by tid, which ``fwd_tid`` names; without it the rows tell.

    Returns:
        The frame, rows sorted by (ts, longest first), with the catalog's columns and dtypes.
    """
    ts, dur = np.asarray(columns["ts"], np.int64), np.asarray(columns["dur"], np.int64)
    order = tree.sort_order(ts, dur)
    n = len(ts)
    is_sorted = bool((order[1:] > order[:-1]).all())
    arrays = {
        c.name: _column(c, columns.get(c.name), order, n, is_sorted)
        for c in columns_of("events")
        if c.name not in _LINKS
    }
    if async_mask is not None:
        async_mask = async_mask if is_sorted else async_mask[order]
    arrays |= _links(arrays, async_mask, None if parent is None else _reordered(parent, order))
    arrays["forward"] = _as_rows(forward_rows(arrays, thread_numbers))
    return pd.DataFrame({c.name: arrays[c.name] for c in columns_of("events")}, copy=False)


def _reordered(parent: Ints, order: Ints) -> Ints:
    """Row numbers that `parent` holds for rows in another order, once rows stand in `order`."""
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    above = parent[order]
    return np.where(above >= 0, place[above], -1) if len(order) else above


def build_memory(columns: Mapping[str, Any], events: pd.DataFrame) -> pd.DataFrame:
    """The memory frame from raw columns (at least ``ts``, ``action``, ``num_bytes``), sorted by ts.

    ``event`` is the row of the innermost host event of `events` that was running on the same thread.
    """
    ts = np.asarray(columns["ts"], np.int64)
    order = np.argsort(ts, kind="stable").astype(np.int64, copy=False)
    arrays = {
        c.name: _column(c, columns.get(c.name), order, len(ts), is_sorted=False)
        for c in columns_of("memory")
        if c.name != "event"
    }
    arrays["event"] = _as_rows(innermost_event(events, arrays["ts"], arrays["pid"], arrays["tid"]))
    return pd.DataFrame({c.name: arrays[c.name] for c in columns_of("memory")}, copy=False)


def innermost_event(events: pd.DataFrame, ts: Ints, pid: Any, tid: Any) -> Ints:
    """Row of the innermost host event that was running at each instant of a thread, -1 where none was.

    The instants are put into the call tree as zero-length events, which enclose nothing.
    """
    if not len(ts):
        return np.empty(0, np.int64)
    host = events["device"].isna().to_numpy() & ~events["is_instant"].to_numpy()
    rows = np.flatnonzero(host)
    start = np.concatenate([events["ts"].to_numpy()[rows], ts])
    length = np.concatenate([events["dur"].to_numpy()[rows], np.zeros(len(ts), np.int64)])
    pids = np.concatenate([_filled(events["pid"].array)[rows], _filled(pid)])
    tids = np.concatenate([_filled(events["tid"].array)[rows], _filled(tid)])
    order = tree.sort_order(start, length)
    up = np.full(len(start), -1, np.int64)
    up[order] = tree.parents(start[order], length[order], lanes(pids, tids)[order])
    back = np.empty(len(start), np.int64)
    back[np.arange(len(start))] = order
    found = up[len(rows) :]
    above = np.where(found >= 0, back[found], -1)
    return np.where(above >= 0, rows[above] if len(rows) else -1, -1)


def lanes(*keys: NDArray[Any]) -> NDArray[np.int32]:
    """A dense lane number per row for the distinct combinations of `keys`."""
    lane = np.zeros(len(keys[0]), np.int64)
    for key in keys:
        codes, uniques = pd.factorize(key)
        lane = lane * max(len(uniques), 1) + codes
    dense: NDArray[np.int32] = pd.factorize(lane)[0].astype(np.int32)
    return dense


def _column(column: Column, value: Any, order: Ints, n: int, is_sorted: bool) -> Any:
    if value is None:
        return missing_array(column.dtype, n)
    if not isinstance(value, (pd.Categorical, pd.arrays.IntegerArray, pd.arrays.FloatingArray)):
        is_plain = column.dtype in ("int64", "bool")
        value = np.asarray(value, column.dtype) if is_plain else _extension_array(value, column.dtype)
    elif isinstance(value, pd.Categorical):
        value = _with_text(value)
    elif str(value.dtype) != column.dtype:
        value = value.astype(column.dtype)
    return value if is_sorted else value.take(order)


def _extension_array(value: Any, dtype: str) -> Any:
    return _with_text(pd.Categorical(value)) if dtype == "category" else pd.array(value, dtype=dtype)


def _with_text(value: pd.Categorical) -> pd.Categorical:
    """`value` with categories of pandas' own text dtype, also when there is none to tell the dtype by."""
    text = pd.Index([], dtype="str").dtype
    return value if value.categories.dtype == text else value.rename_categories(value.categories.astype(text))


def _filled(values: Any) -> Ints:
    """A nullable integer column as int64, with the smallest int64 for what is missing (a key, never shown)."""
    filled: Ints = values.to_numpy(dtype=np.int64, na_value=np.iinfo(np.int64).min)
    return filled


def _as_rows(rows: Ints) -> pd.arrays.IntegerArray:
    missing = rows < 0
    return pd.arrays.IntegerArray(np.where(missing, 0, rows), missing)


def _links(
    arrays: Mapping[str, Any], async_mask: NDArray[np.bool_] | None, parent: Ints | None = None
) -> dict[str, Any]:
    ts, dur = arrays["ts"], arrays["dur"]
    if parent is None:
        parent = tree.parents(ts, dur, _host_lanes(arrays, async_mask))
    launch = _launches(arrays)
    self_dur = tree.self_durations(dur, parent)
    if async_mask is not None:
        self_dur[async_mask] = 0
    return {
        "parent": _as_rows(parent),
        "depth": tree.depths(parent),
        "self_dur": self_dur,
        "launch": _as_rows(launch),
        "step": _steps(arrays, launch),
    }


def is_category(cat: pd.Categorical, names: Any) -> NDArray[np.bool_]:
    """True for each row whose category is one of `names`; looks at the few categories, not at the rows."""
    known = np.append(np.isin(np.asarray(cat.categories, object), list(names)), False)
    hit: NDArray[np.bool_] = known[cat.codes]
    return hit


def _host_lanes(arrays: Mapping[str, Any], async_mask: NDArray[np.bool_] | None) -> NDArray[np.int32]:
    """Lane of each host row; -1 for device rows, instants and asynchronous ranges, which have no place in a tree."""
    thread = arrays["thread"].codes.astype(np.int64)
    labelled = np.where(np.asarray(arrays["tid"].isna()), thread, -1)
    lane = lanes(_filled(arrays["pid"]), _filled(arrays["tid"]), labelled)
    lane[~np.asarray(arrays["device"].isna())] = -1
    lane[is_category(arrays["cat"], {"Trace", "overhead"})] = -1
    if async_mask is not None:
        lane[async_mask] = -1
    lane[arrays["is_instant"]] = -1
    return lane


def _launches(arrays: Mapping[str, Any]) -> Ints:
    """Row of the runtime or driver call with the same correlation id, for each device row; -1 where there is none.

    The first call in time wins where a driver call repeats the runtime call's id. Tools write 0 where they know no id:
    several calls of id 0 launched nothing that could be told.
    """
    cid = arrays["correlation_id"]
    known = ~np.asarray(cid.isna())
    ids = _filled(cid)
    is_call = is_category(arrays["cat"], RUNTIME_CATEGORIES)
    if np.count_nonzero(is_call & (ids == 0)) > 1:
        known &= ids != 0
    calls = np.flatnonzero(known & is_call)
    work = np.flatnonzero(known & is_category(arrays["cat"], GPU_CATEGORIES))
    launch = np.full(len(known), -1, np.int64)
    if not len(calls) or not len(work):
        return launch
    by_id = calls[np.argsort(ids[calls], kind="stable")]
    at = np.searchsorted(ids[by_id], ids[work])
    found = at < len(by_id)
    found[found] = ids[by_id[at[found]]] == ids[work[found]]
    launch[work[found]] = by_id[at[found]]
    return launch


def _steps(arrays: Mapping[str, Any], launch: Ints) -> pd.arrays.IntegerArray:
    """Profiler step of each row: that of the step range that holds its start, or its launch's."""
    ts = arrays["ts"]
    rows, numbers = _step_ranges(arrays)
    step = np.full(len(ts), -1, np.int64)
    if len(rows):
        at = np.searchsorted(ts[rows], ts, side="right") - 1
        inside = (at >= 0) & (ts < (ts[rows] + arrays["dur"][rows])[at])
        step[inside] = numbers[at[inside]]
        launched = launch >= 0
        step[launched] = step[launch[launched]]
    missing = step < 0
    return pd.arrays.IntegerArray(np.where(missing, 0, step), missing)


def _step_ranges(arrays: Mapping[str, Any]) -> tuple[Ints, Ints]:
    """Rows of the host's step ranges in time order, and the number of each."""
    categories = arrays["name"].categories
    number = {i: s for i, c in enumerate(categories.tolist()) if (s := _step_number(c)) is not None}
    if not number:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    host = np.asarray(arrays["device"].isna())
    rows = np.flatnonzero(host & np.isin(arrays["name"].codes, list(number)))
    return rows, np.array([number[int(c)] for c in arrays["name"].codes[rows]], np.int64)


def _step_number(name: str) -> int | None:
    tail = name.removeprefix(STEP_PREFIX)
    return int(tail) if tail != name and tail.isascii() and tail.isdigit() and len(tail) < 19 else None
