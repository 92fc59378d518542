"""Build rows of the events and memory frames from virtual device work, runtime calls, ranges and allocator actions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd

from cudalens.frames import RUNTIME_CATEGORIES, RawRows, categorical, columns_of, nullable
from cudalens.frames.catalog_frames import missing_array
from cudalens.frames.column_arrays import Bools, Ints
from cudalens.frames.tree import lines_without
from cudalens.virtual.profile.host_tree import HostTree, has_category, read_tree, without_mark_names
from cudalens.virtual.profile.pruning import Pruned, Segment, hidden_marks, prune
from cudalens.virtual.profile.recorder import Call, MemoryAct
from cudalens.virtual.profile.timeline import Placed, place
from cudalens.virtual.timing.machine import Device
from cudalens.virtual.timing.several_kernels import GPU_PARTS
from cudalens.virtual.timing.streams import Stream

#: CUPTI's id of the legacy default stream in traces of single-process programs.
DEFAULT_STREAM: Final = 7

#: CUPTI's ids of torch's pool streams in order of creation: 20, 24, 28 in recorded traces (A100).
FIRST_STREAM, STREAM_STEP = 20, 4

#: Kineto's names; "Stream Wait Event" is unchanged.
_SYNC_NAMES: Final = {
    "Stream Synchronize": "Stream Sync",
    "Event Synchronize": "Event Sync",
    "Context Synchronize": "Context Sync",
}

_WARP: Final = 32

#: A row: values by column name; absent columns are missing.
Row = dict[str, Any]


def category_of_call(name: str) -> str:
    """Kineto's category of a function of the CUDA runtime (``cudaMalloc``) or driver (``cuMemMap``)."""
    return "cuda_runtime" if name.startswith("cuda") else "cuda_driver"


class StreamNumbers:
    """Stream ids as CUPTI assigns them, per device."""

    def __init__(self) -> None:
        self._known: dict[int, dict[int, int]] = {}

    def __getitem__(self, stream: Stream) -> int:
        if stream.handle == 0:
            return DEFAULT_STREAM
        known = self._known.get(id(stream.device))
        if known is None or stream.id not in known:
            others = [other.id for other in stream.device.streams if other.handle]
            known = {number: FIRST_STREAM + STREAM_STEP * k for k, number in enumerate(others)}
            self._known[id(stream.device)] = known
        return known[stream.id]


@dataclass
class Launches:
    """Facts about the calls that launched work, by segment and correlation id.

    Attributes:
        external_id: External id of the operator that made the call; None if there is none.
        annotation: Row of the innermost user annotation around the call, or -1.
    """

    external_id: dict[tuple[int, int], int | None]
    annotation: dict[tuple[int, int], int]


def device_rows(segments: Sequence[Segment], launches: Launches, correlation: Mapping[int, int]) -> list[Row]:
    """Rows of kernels, copies, memsets and waits, and of ranges on streams.

    Args:
        segments: The recorded segments.
        launches: Facts about the launching calls.
        correlation: The number to add to the correlation ids of each segment.
    """
    numbers, rows = StreamNumbers(), list[Row]()
    for k, segment in enumerate(segments):
        for stream, work, placed in segment.recorder.works:
            row = _place(stream.device, placed.start_ns, placed.end_ns, segment) | {
                "name": work.name,
                "cat": work.kind,
                "stream": numbers[stream],
                "correlation_id": placed.correlation_id + correlation[k],
                "external_id": launches.external_id.get((k, placed.correlation_id)),
                "graph_id": placed.graph_id,
                "graph_node_id": placed.graph_node_id,
            }
            if work.kind == "kernel":
                row |= _launch_facts(work.grid, work.block, stream.device.spec.num_sms)
                row |= work.facts or {}
            else:
                row["num_bytes"] = work.num_bytes
            rows.append(row)
        rows += _waits(segment, k, numbers, launches, correlation[k])
        rows += _ranges(segment, numbers)
    return rows


def _place(device: Device, start_ns: int, end_ns: int, segment: Segment) -> Row:
    return {"ts": start_ns + segment.offset_ns, "dur": end_ns - start_ns, "device": device.index}


@lru_cache(maxsize=4096)
def _launch_facts(grid: tuple[int, ...] | None, block: tuple[int, ...] | None, num_sms: int) -> Row:
    """Return the launch facts of CUPTI that are modelled; registers and shared memory are not."""
    if grid is None or block is None:
        return {}
    blocks_per_sm = prod(grid) / num_sms
    return {
        "grid": _json(grid),
        "block_dim": _json(block),
        "blocks_per_sm": blocks_per_sm,
        "warps_per_sm": blocks_per_sm * -(-prod(block) // _WARP),
    }


def _json(values: Iterable[int]) -> str:
    return msgspec.json.encode(list(values)).decode()


def _waits(segment: Segment, k: int, numbers: StreamNumbers, launches: Launches, correlation: int) -> list[Row]:
    rows = []
    for wait in segment.recorder.waits:
        row = _place(wait.device, wait.start_ns, wait.end_ns, segment) | {
            "name": _SYNC_NAMES.get(wait.name, wait.name),
            "cat": "cuda_sync",
            "correlation_id": wait.correlation_id + correlation,
            "external_id": launches.external_id.get((k, wait.correlation_id)),
        }
        # CUPTI reports no stream if the host waits for a CUDA event or for the whole device.
        if wait.stream is not None and wait.name in ("Stream Synchronize", "Stream Wait Event"):
            row["stream"] = numbers[wait.stream]
        if wait.awaited is not None and wait.awaited.stream is not None:
            row["wait_stream"] = numbers[wait.awaited.stream]
            record_id = wait.awaited.record_id
            row["wait_record_id"] = None if record_id is None else record_id + correlation
        rows.append(row)
    return rows


def _ranges(segment: Segment, numbers: StreamNumbers) -> list[Row]:
    """Ranges that the program recorded on a stream."""
    return [
        _place(found.stream.device, found.start_ns, found.end_ns, segment)
        | {"name": found.name, "cat": "gpu_user_annotation", "stream": numbers[found.stream]}
        for found in segment.recorder.device_ranges
    ]


def annotation_rows(
    segments: Sequence[Segment], launches: Launches, names: Sequence[str], external_ids: Sequence[int | None]
) -> list[Row]:
    """User annotations on each stream: from the first start to the last end of the work that they launched.

    Work belongs only to the innermost range around its launch, as in Kineto.

    Args:
        segments: The recorded segments.
        launches: Facts about the launching calls.
        names: The names of the ranges, by the row in `launches`.
        external_ids: The external ids of the ranges.
    """
    numbers, spans = StreamNumbers(), dict[tuple[int, int, int], list[int]]()
    for k, segment in enumerate(segments):
        for stream, _, placed in segment.recorder.works:
            row = launches.annotation.get((k, placed.correlation_id), -1)
            if row < 0:
                continue
            start, end = placed.start_ns + segment.offset_ns, placed.end_ns + segment.offset_ns
            span = spans.setdefault((row, stream.device.index, numbers[stream]), [start, end])
            span[0], span[1] = min(span[0], start), max(span[1], end)
    return [
        {
            "ts": start,
            "dur": end - start,
            "name": names[row],
            "cat": "gpu_user_annotation",
            "device": device,
            "stream": stream,
            "external_id": external_ids[row],
        }
        for (row, device, stream), (start, end) in spans.items()
    ]


def call_row(call: Call, start_ns: int, end_ns: int, external_id: int | None, correlation: int) -> Row:
    """Return the row of a call of the CUDA runtime or driver."""
    return {
        "ts": start_ns,
        "dur": end_ns - start_ns,
        "name": call.name,
        "cat": category_of_call(call.name),
        "pid": os.getpid(),
        "tid": call.tid,
        "correlation_id": call.correlation_id + correlation,
        "external_id": external_id,
    }


def to_columns(frame: str, rows: Sequence[Row]) -> dict[str, Any]:
    """Raw columns of `rows`; columns without a value are left out."""
    columns: dict[str, Any] = {}
    present = set[str]().union(*rows)
    for column in columns_of(frame):
        values = [row.get(column.name) for row in rows] if column.name in present else []
        if all(value is None for value in values):
            continue
        if column.dtype in ("int64", "bool"):
            columns[column.name] = np.array(values, column.dtype)
        elif column.dtype == "category":
            columns[column.name] = pd.Categorical(values)
        else:
            missing = np.array([value is None for value in values])
            filled = [0 if value is None else value for value in values]
            columns[column.name] = nullable(np.array(filled, column.dtype.lower()), missing)
    return columns


def stacked(frame: str, first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Raw columns with the rows of `first` followed by those of `second`; columns that neither has are left out."""
    n, m = len(first["ts"]), len(second.get("ts", ()))
    columns: dict[str, Any] = {}
    for column in columns_of(frame):
        top, bottom = first.get(column.name), second.get(column.name)
        if top is None and bottom is None:
            continue
        top = missing_array(column.dtype, n) if top is None else top
        bottom = missing_array(column.dtype, m) if bottom is None else bottom
        columns[column.name] = _concatenated(top, bottom)
    return columns


def _concatenated(top: Any, bottom: Any) -> Any:
    if isinstance(top, pd.Categorical):
        both = pd.api.types.union_categoricals([_as_text(top), _as_text(bottom)])
        return both.remove_unused_categories()
    if isinstance(top, np.ndarray):
        return np.concatenate([top, bottom])
    return pd.concat([pd.Series(top), pd.Series(bottom.astype(top.dtype))]).array


def _as_text(values: pd.Categorical) -> pd.Categorical:
    return values.rename_categories(values.categories.astype("str"))


_RENAMED: Final = {"segment_map": "segment_alloc", "segment_unmap": "segment_free"}
#: The sign of each action in the allocated and reserved bytes, as in torch's statistics.
_ALLOCATED: Final = {"alloc": 1, "free_requested": -1}
_RESERVED: Final = {"segment_alloc": 1, "segment_free": -1}


def backing(tree: HostTree, host: RawRows, pruned: Pruned, segments: Sequence[Segment]) -> Bools:
    """Host allocations that only the virtual device causes, by place; shape (n,).

    The values of device tensors are in host memory. It is allocated inside the handlers of operators on a device, and
    freed directly after the device's allocator freed its block. Host memory for copies to the host is real.
    """
    found = np.zeros(len(tree), bool)
    if not tree.is_memory.any():
        return found
    marks = _device_marks(segments) | hidden_marks([segment.recorder for segment in segments])
    handler = pruned.handler
    in_handler = tree.is_memory & (handler >= 0)
    found[in_handler] = np.isin(tree.mark[handler[in_handler]], list(marks))
    return found | _freed_backing(tree, host, pruned, segments)


def _device_marks(segments: Sequence[Segment]) -> set[int]:
    """Marks of the handlers in which a device did work other than copies to the host."""
    marks = set()
    for segment in segments:
        recorder = segment.recorder
        to_host = {placed.correlation_id for _, work, placed in recorder.works if work.direction == "DtoH"}
        took_memory, copied = set(), set()
        for act in recorder.acts:
            marks.add(act.mark)
            if isinstance(act, MemoryAct):
                took_memory.add(act.mark)
            elif act.correlation_id in to_host:
                copied.add(act.mark)
        marks -= copied - took_memory
    return marks


def _freed_backing(tree: HostTree, host: RawRows, pruned: Pruned, segments: Sequence[Segment]) -> Bools:
    """Host frees directly after a mark for the free of a device block of the same size.

    No shown row starts or ends in between.
    """
    assert host.memory is not None
    sizes = {
        act.mark: act.num_bytes
        for segment in segments
        for act in segment.recorder.acts
        if isinstance(act, MemoryAct) and act.kind == "free_requested"
    }
    found = np.zeros(len(tree), bool)
    num_bytes, action = host.memory["num_bytes"], np.asarray(host.memory["action"], object)
    stops = pruned.is_kept | tree.is_memory | (tree.mark > 0)
    last_stop = np.maximum.accumulate(np.where(stops, np.arange(len(tree)), -1))
    for at in np.flatnonzero(tree.is_memory[1:]) + 1:
        row, before = int(tree.row[at]), int(last_stop[at - 1])
        follows = before >= 0 and tree.lane[before] == tree.lane[at] and pruned.up[before] == pruned.up[at]
        if follows and action[row] != "alloc" and sizes.get(int(tree.mark[before])) == num_bytes[row]:
            found[at] = True
    return found


def memory_columns(
    tree: HostTree, host: RawRows, placed: Placed, segments: Sequence[Segment], shown: Bools
) -> dict[str, Any] | None:
    """Raw columns of the memory frame; None if nothing was recorded.

    Args:
        tree: The host's rows.
        host: The columns of the host's rows.
        placed: The virtual times.
        segments: The recorded segments.
        shown: Which host actions to show, by place; shape (n,).
    """
    rows = _device_rows(placed, segments)
    first: dict[str, Any] = {"ts": np.empty(0, np.int64)}
    if host.memory is not None:
        at = np.flatnonzero(tree.is_memory & shown)
        first = {name: values[tree.row[at]] for name, values in host.memory.items()}
        first["ts"] = placed.begin_ns[at]
    if not rows and not len(first["ts"]):
        return None
    return _recounted(stacked("memory", first, to_columns("memory", rows)), len(first["ts"]))


def _device_rows(placed: Placed, segments: Sequence[Segment]) -> list[Row]:
    totals: dict[tuple[int, int], list[int]] = {
        (id(segment), index): list(initial)
        for segment in segments
        for index, initial in enumerate(segment.recorder.initial_bytes)
    }
    rows = []
    for i, (segment, act) in enumerate(placed.acts):
        if not isinstance(act, MemoryAct):
            continue
        kind, total = _RENAMED.get(act.kind, act.kind), totals[id(segment), act.device]
        total[0] += _ALLOCATED.get(kind, 0) * act.block_bytes
        total[1] += _RESERVED.get(kind, 0) * act.num_bytes
        rows.append(
            {
                "ts": int(placed.act_ns[i]),
                "action": kind,
                "device_type": "cuda",
                "device": act.device,
                "addr": None if kind in ("oom", "snapshot") else act.address,
                "num_bytes": act.block_bytes,
                "allocated_bytes": total[0],
                "reserved_bytes": total[1],
                "pid": os.getpid(),
                "tid": act.tid,
            }
        )
    return rows


def _recounted(columns: dict[str, Any], num_host: int) -> dict[str, Any]:
    """Recompute the host's running total without the removed actions."""
    if not num_host:
        return columns
    kinds = np.asarray(columns["action"], object)[:num_host]
    signs = np.array([{"alloc": 1, "free_completed": -1}.get(kind, 0) for kind in kinds], np.int64)
    totals = columns["allocated_bytes"].copy()
    order = np.argsort(columns["ts"][:num_host], kind="stable")
    totals[np.arange(num_host)[order]] = np.cumsum((signs * columns["num_bytes"][:num_host])[order])
    return columns | {"allocated_bytes": totals}


# Build the frames of a profiled block on virtual devices: host rows at virtual times, and device rows.


def lay_over(host: RawRows, segments: Sequence[Segment], *, host_only: bool) -> tuple[RawRows, int]:
    """Merge the host's rows with the record of the virtual devices.

    Args:
        host: The rows that torch's profiler recorded, in real time, with marks.
        segments: The recorded segments in order, at least one.
        host_only: Leave out device rows and runtime calls.

    Returns:
        The rows, and the number of operators that were left out because they ran outside of any virtual device.
    """
    host = _of_host(host)
    tree = read_tree(host)
    host = RawRows(without_mark_names(host.events, tree), host.async_mask, host.memory)
    pruned = prune(tree, host.events, [segment.recorder for segment in segments])
    host = RawRows(_renamed(host.events, tree, pruned, segments), host.async_mask, host.memory)
    names = _names(host.events, tree)
    dropped = backing(tree, host, pruned, segments)
    instants = np.isin(tree.mark, [mark for segment in segments for mark in segment.recorder.instants])
    counts = pruned.is_kept | instants | (tree.is_memory & ~dropped)
    placed = place(tree, pruned, counts, names, segments)
    kept = pruned.is_kept & placed.is_inside
    rows = _Rows(tree, pruned, placed, kept, host)
    events = rows.host_columns()
    calls, devices = ([], []) if host_only else rows.device_columns(names, segments)
    more = [*rows.instant_rows(np.flatnonzero(instants & placed.is_inside), segments), *calls]
    parent = np.concatenate([rows.parent, [row.pop("parent", -1) for row in more], np.full(len(devices), -1)])
    columns = stacked("events", events, to_columns("events", [*more, *devices]))
    memory = memory_columns(tree, host, placed, segments, ~dropped & placed.is_inside)
    mask = rows.async_mask(len(parent))
    num_left_out = int((pruned.is_kept & ~placed.is_inside & (pruned.op == np.arange(len(tree)))).sum())
    return RawRows(columns, mask, memory, parent.astype(np.int64)), num_left_out


def _of_host(host: RawRows) -> RawRows:
    """Remove the rows of a real GPU in the same block, which has a different clock."""
    events, memory, mask = host.events, host.memory, host.async_mask
    if "device" in events:
        rows = np.asarray(events["device"].isna()) & ~has_category(events, *RUNTIME_CATEGORIES)
        events = {name: values[rows] for name, values in events.items()}
        mask = None if mask is None else mask[rows]
    if memory is not None:
        rows = np.asarray(memory["device"].isna())
        memory = {name: values[rows] for name, values in memory.items()}
    return RawRows(events, mask, memory)


def _renamed(events: dict[str, Any], tree: HostTree, pruned: Pruned, segments: Sequence[Segment]) -> dict[str, Any]:
    """Return the columns with the names of the program's ranges, and with a GPU's names of operators."""
    ranges = {mark: name for segment in segments for mark, name in segment.recorder.ranges.items()}
    texts = {int(tree.row[at]): ranges[mark] for mark, at in tree.place_of.items() if mark in ranges}
    categories = dict.fromkeys(texts, "user_annotation")
    texts |= _gpu_names(events, tree, pruned, segments)
    return events | {"name": _replaced(events["name"], texts), "cat": _replaced(events["cat"], categories)}


def _gpu_names(events: dict[str, Any], tree: HostTree, pruned: Pruned, segments: Sequence[Segment]) -> dict[int, str]:
    """The names by row of operators of a CPU library that called the device, or that a call of the device is around."""
    found: dict[int, str] = {}
    launching = [act.mark for segment in segments for act in segment.recorder.acts if isinstance(act, Call)]
    launches = np.isin(tree.mark, launching)
    num_before = np.append(0, np.cumsum(launches))
    names = events["name"]
    for code, name in enumerate(names.categories.tolist()):
        of_cpu = next((part for part in GPU_PARTS if part in name), None)
        if of_cpu is not None:
            places = np.flatnonzero(~tree.is_memory & (names.codes[tree.row * ~tree.is_memory] == code))
            around = pruned.handler[places]
            worked = num_before[places + tree.size[places]] > num_before[places]
            worked |= (around >= 0) & launches[around]
            renamed = name.replace(of_cpu, GPU_PARTS[of_cpu])
            found |= dict.fromkeys(tree.row[places[worked]].tolist(), renamed)
    return found


def _replaced(column: Any, texts: dict[int, str]) -> Any:
    """Return a categorical column with other texts in some rows."""
    if not texts:
        return column
    categories = [*column.categories, *dict.fromkeys(text for text in texts.values() if text not in column.categories)]
    code = {text: k for k, text in enumerate(categories)}
    codes = column.codes.astype(np.int32)
    codes[list(texts)] = [code[text] for text in texts.values()]
    return categorical(codes, categories)


def _names(events: dict[str, Any], tree: HostTree) -> list[str]:
    """Return the name of the row at each place; "" for allocator actions."""
    categories = [*events["name"].categories, ""]
    codes = np.full(len(tree), -1, np.int64)
    at = ~tree.is_memory
    codes[at] = events["name"].codes[tree.row[at]]
    return [categories[code] for code in codes.tolist()]


class _Rows:
    """Rows of events from places: kept host rows in tree order, then asynchronous ranges."""

    def __init__(self, tree: HostTree, pruned: Pruned, placed: Placed, kept: Bools, host: RawRows) -> None:
        self._tree, self._pruned, self._placed, self._host = tree, pruned, placed, host
        self._places = np.flatnonzero(kept)
        self._row_of = np.full(len(tree) + 1, -1, np.int64)
        self._row_of[self._places] = np.arange(len(self._places))
        self._async = np.flatnonzero(host.async_mask) if host.async_mask is not None else np.empty(0, np.int64)
        self.parent = np.concatenate([self._row_of[pruned.up[self._places]], np.full(len(self._async), -1)])
        self._external = self._external_ids()

    def _external_ids(self) -> Any:
        """External ids renumbered from 1 in time order: torch's profiler counts through the whole process."""
        events, rows = self._host.events, self._rows()
        old = events.get("external_id")
        known = np.zeros(len(rows), bool) if old is None else ~np.asarray(old[rows].isna())
        begin = self._times()[0]
        order = np.lexsort((np.arange(len(rows)), begin))
        numbers = np.zeros(len(rows), np.int64)
        numbers[order] = np.cumsum(known[order])
        return nullable(np.where(known, numbers, 0), ~known)

    def _rows(self) -> Ints:
        return np.concatenate([self._tree.row[self._places], self._async])

    def _times(self) -> tuple[Ints, Ints]:
        begin, end = self._placed.begin_ns[self._places], self._placed.end_ns[self._places]
        async_begin, async_end = self._async_times()
        return np.concatenate([begin, async_begin]), np.concatenate([end, async_end])

    def _async_times(self) -> tuple[Ints, Ints]:
        """Asynchronous ranges start and end with the last row that started before, on any thread."""
        ts, dur = self._host.events["ts"], self._host.events["dur"]
        if not len(self._async) or not len(self._places):
            nothing = np.zeros(len(self._async), np.int64)
            return nothing, nothing
        real = ts[self._tree.row[self._places]]
        order = np.argsort(real, kind="stable")
        begin = np.maximum.accumulate(self._placed.begin_ns[self._places][order])

        def at(times: Ints) -> Ints:
            return begin[np.maximum(np.searchsorted(real[order], times, side="right") - 1, 0)]

        start = at(ts[self._async])
        return start, np.maximum(start, at(ts[self._async] + dur[self._async]))

    def host_columns(self) -> dict[str, Any]:
        """Raw columns of the host rows."""
        rows, (begin, end) = self._rows(), self._times()
        events = self._host.events
        if "call_line" in events:
            events = events | {"call_line": self._call_lines()}
        columns = {name: values[rows] for name, values in events.items()}
        return columns | {"ts": begin, "dur": end - begin, "external_id": self._external}

    def _call_lines(self) -> Any:
        """The column ``call_line``: what a row that is not shown called was called by its caller."""
        tree, events = self._tree, self._host.events
        is_event = ~tree.is_memory
        of_place = nullable(np.zeros(len(tree), np.int32), np.ones(len(tree), bool))
        of_place[is_event] = events["call_line"][tree.row[is_event]]
        order = np.concatenate([*tree.levels(), np.empty(0, np.int64)])
        found = lines_without(of_place, tree.parent, order, ~self._pruned.is_kept)
        column = events["call_line"].copy()
        column[tree.row[is_event]] = found[is_event]
        return column

    def async_mask(self, length: int) -> Bools | None:
        """Mask of the asynchronous ranges among all rows."""
        if not len(self._async):
            return None
        mask = np.zeros(length, bool)
        mask[len(self._places) : len(self._places) + len(self._async)] = True
        return mask

    def instant_rows(self, places: Ints, segments: Sequence[Segment]) -> list[Row]:
        """Rows of instants that the program marked."""
        names = {mark: name for segment in segments for mark, name in segment.recorder.instants.items()}
        pid = self._host.events["pid"]
        return [
            {
                "ts": int(self._placed.begin_ns[at]),
                "dur": 0,
                "is_instant": True,
                "name": names[int(self._tree.mark[at])],
                "cat": "user_annotation",
                "pid": pid[int(self._tree.row[at])],
                "tid": int(self._tree.tid[self._tree.lane[at]]),
            }
            for at in places.tolist()
        ]

    def device_columns(self, names: Sequence[str], segments: Sequence[Segment]) -> tuple[list[Row], list[Row]]:
        """Rows of runtime calls, and of device work."""
        order = {id(segment): k for k, segment in enumerate(segments)}
        # Offsets that make the correlation ids of all segments distinct.
        shift, last = {}, 0
        for k, segment in enumerate(segments):
            shift[k] = last if k else 0
            ids = [act.correlation_id for act in segment.recorder.acts if isinstance(act, Call)]
            last = shift[k] + max(ids, default=0)
        launches = Launches({}, {})
        calls = []
        external = self._external.to_numpy(dtype=object, na_value=None)
        for i, (segment, act) in enumerate(self._placed.acts):
            if not isinstance(act, Call):
                continue
            k, up = order[id(segment)], int(self._placed.act_up[i])
            op, annotation = (
                int(self._row_of[of[up]]) if up >= 0 else -1 for of in (self._pruned.op, self._pruned.annotation)
            )
            ext = external[op] if op >= 0 else None
            launches.external_id[k, act.correlation_id] = ext
            launches.annotation[k, act.correlation_id] = annotation
            start, end = int(self._placed.act_ns[i]), int(self._placed.act_end_ns[i])
            row = call_row(act, start, end, ext, shift[k])
            calls.append(row | {"parent": int(self._row_of[up])})
        devices = device_rows(segments, launches, shift)
        row_names = [names[at] for at in self._places.tolist()]
        return calls, devices + annotation_rows(segments, launches, row_names, external)
