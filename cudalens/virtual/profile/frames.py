"""Build the frames of a profiled block on virtual devices: host rows at virtual times, and device rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cudalens.frames import RUNTIME_CATEGORIES, RawRows, categorical, nullable
from cudalens.frames.tree import lines_without
from cudalens.virtual.profile import event_rows
from cudalens.virtual.profile.host_positions import Segment
from cudalens.virtual.profile.host_tree import HostTree, has_category, read_tree, without_mark_names
from cudalens.virtual.profile.pruning import Pruned, prune
from cudalens.virtual.profile.recorder import Call
from cudalens.virtual.profile.timeline import Placed, place

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


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
    host = RawRows(_renamed(host.events, tree, segments), host.async_mask, host.memory)
    names = _names(host.events, tree)
    dropped = event_rows.backing(tree, host, pruned, segments)
    instants = np.isin(tree.mark, [mark for segment in segments for mark in segment.recorder.instants])
    counts = pruned.is_kept | instants | (tree.is_memory & ~dropped)
    placed = place(tree, pruned, counts, names, segments)
    kept = pruned.is_kept & placed.is_inside
    rows = _Rows(tree, pruned, placed, kept, host)
    events = rows.host_columns()
    calls, devices = ([], []) if host_only else rows.device_columns(names, segments)
    more = [*rows.instant_rows(np.flatnonzero(instants & placed.is_inside), segments), *calls]
    parent = np.concatenate([rows.parent, [row.pop("parent", -1) for row in more], np.full(len(devices), -1)])
    columns = event_rows.stacked("events", events, event_rows.to_columns("events", [*more, *devices]))
    memory = event_rows.memory_columns(tree, host, placed, segments, ~dropped & placed.is_inside)
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


def _renamed(events: dict[str, Any], tree: HostTree, segments: Sequence[Segment]) -> dict[str, Any]:
    """Return the columns with the names of the program's ranges instead of their marks."""
    ranges = {mark: name for segment in segments for mark, name in segment.recorder.ranges.items()}
    known = [(tree.row[at], ranges[mark]) for mark, at in tree.place_of.items() if mark in ranges]
    if not known:
        return events
    rows = [int(row) for row, _ in known]
    name, cat = events["name"], events["cat"]
    wanted = [text for _, text in known]
    for column, values in (("name", wanted), ("cat", ["user_annotation"] * len(rows))):
        old = name if column == "name" else cat
        categories = [*old.categories, *dict.fromkeys(text for text in values if text not in old.categories)]
        code = {text: k for k, text in enumerate(categories)}
        codes = old.codes.astype(np.int32)
        codes[rows] = [code[text] for text in values]
        events = events | {column: categorical(codes, categories)}
    return events


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
        self.parent = np.concatenate([self._row_of[self._up(self._places)], np.full(len(self._async), -1)])
        self._external = self._external_ids()

    def _up(self, places: Ints) -> Ints:
        return self._pruned.up[places]

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

    def instant_rows(self, places: Ints, segments: Sequence[Segment]) -> list[event_rows.Row]:
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

    def device_columns(
        self, names: Sequence[str], segments: Sequence[Segment]
    ) -> tuple[list[event_rows.Row], list[event_rows.Row]]:
        """Rows of runtime calls, and of device work."""
        order = {id(segment): k for k, segment in enumerate(segments)}
        shift = _shifts(segments)
        launches = event_rows.Launches({}, {})
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
            row = event_rows.call_row(act, start, end, ext, shift[k])
            calls.append(row | {"parent": int(self._row_of[up])})
        devices = event_rows.device_rows(segments, launches, shift)
        row_names = [names[at] for at in self._places.tolist()]
        return calls, devices + event_rows.annotation_rows(segments, launches, row_names, external)


def _shifts(segments: Sequence[Segment]) -> dict[int, int]:
    """Offsets that make the correlation ids of all segments distinct."""
    shifts, last = {}, 0
    for k, segment in enumerate(segments):
        shifts[k] = last if k else 0
        ids = [act.correlation_id for act in segment.recorder.acts if isinstance(act, Call)]
        last = shifts[k] + max(ids, default=0)
    return shifts
