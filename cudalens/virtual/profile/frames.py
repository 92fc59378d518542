"""The rows of a profiled block on virtual devices: the host's, on the virtual clock, and the devices'."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cudalens.frames import RUNTIME_CATEGORIES, RawRows, categorical, nullable
from cudalens.virtual.profile import event_rows, memory_rows
from cudalens.virtual.profile.host_positions import Segment
from cudalens.virtual.profile.host_tree import HostTree, has_category, read_tree, without_mark_names
from cudalens.virtual.profile.pruning import Pruned, prune
from cudalens.virtual.profile.recorder import Call
from cudalens.virtual.profile.timeline import Placed, place

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def lay_over(host: RawRows, segments: Sequence[Segment], *, host_only: bool) -> tuple[RawRows, int]:
    """The rows of a run on virtual devices.

    Args:
        host: What torch's profiler recorded of the host, in real time, with marks.
        segments: What was recorded on the virtual clock, in order, at least one.
        host_only: Leave out the devices and the calls that drive them.

    Returns:
        The rows, and how many operators were left out because they ran outside of any virtual device.
    """
    host = _of_host(host)
    tree = read_tree(host)
    host = RawRows(without_mark_names(host.events, tree), host.async_mask, host.memory)
    pruned = prune(tree, host.events, [segment.recorder for segment in segments])
    host = RawRows(_renamed(host.events, tree, segments), host.async_mask, host.memory)
    names = _names(host.events, tree)
    dropped = memory_rows.backing(tree, host, pruned, segments)
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
    memory = memory_rows.memory_columns(tree, host, placed, segments, ~dropped & placed.is_inside)
    mask = rows.async_mask(len(parent))
    num_left_out = int((pruned.is_kept & ~placed.is_inside & (pruned.op == np.arange(len(tree)))).sum())
    return RawRows(columns, mask, memory, parent.astype(np.int64)), num_left_out


def _of_host(host: RawRows) -> RawRows:
    """Without what a real GPU did in the same block: it has another clock."""
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
    """The columns with the names of the program's own ranges in the place of their marks."""
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
    """Name of the row at each place, "" for allocator actions."""
    categories = [*events["name"].categories, ""]
    codes = np.full(len(tree), -1, np.int64)
    at = ~tree.is_memory
    codes[at] = events["name"].codes[tree.row[at]]
    return [categories[code] for code in codes.tolist()]


class _Rows:
    """Rows of events from places: the host's kept ones first, in the tree's order, then asynchronous ranges."""

    def __init__(self, tree: HostTree, pruned: Pruned, placed: Placed, kept: Bools, host: RawRows) -> None:
        self._tree, self._pruned, self._placed, self._host = tree, pruned, placed, host
        self._places = np.flatnonzero(kept)
        self._row_of = np.full(len(tree) + 1, -1, np.int64)
        self._row_of[self._places] = np.arange(len(self._places))
        self._loose = np.flatnonzero(host.async_mask) if host.async_mask is not None else np.empty(0, np.int64)
        self.parent = np.concatenate([self._row_of[self._up(self._places)], np.full(len(self._loose), -1)])
        self._external = self._external_ids()

    def _up(self, places: Ints) -> Ints:
        return self._pruned.up[places]

    def _external_ids(self) -> Any:
        """Numbers anew, from 1, in order of time: torch's profiler counts on through the process."""
        events, rows = self._host.events, self._rows()
        old = events.get("external_id")
        known = np.zeros(len(rows), bool) if old is None else ~np.asarray(old[rows].isna())
        begin = self._times()[0]
        order = np.lexsort((np.arange(len(rows)), begin))
        numbers = np.zeros(len(rows), np.int64)
        numbers[order] = np.cumsum(known[order])
        return nullable(np.where(known, numbers, 0), ~known)

    def _rows(self) -> Ints:
        return np.concatenate([self._tree.row[self._places], self._loose])

    def _times(self) -> tuple[Ints, Ints]:
        begin, end = self._placed.begin_ns[self._places], self._placed.end_ns[self._places]
        loose_begin, loose_end = self._loose_times()
        return np.concatenate([begin, loose_begin]), np.concatenate([end, loose_end])

    def _loose_times(self) -> tuple[Ints, Ints]:
        """Asynchronous ranges begin and end with the rows that began last before them, on any thread."""
        ts, dur = self._host.events["ts"], self._host.events["dur"]
        if not len(self._loose) or not len(self._places):
            nothing = np.zeros(len(self._loose), np.int64)
            return nothing, nothing
        real = ts[self._tree.row[self._places]]
        order = np.argsort(real, kind="stable")
        begin = np.maximum.accumulate(self._placed.begin_ns[self._places][order])

        def at(times: Ints) -> Ints:
            return begin[np.maximum(np.searchsorted(real[order], times, side="right") - 1, 0)]

        start = at(ts[self._loose])
        return start, np.maximum(start, at(ts[self._loose] + dur[self._loose]))

    def host_columns(self) -> dict[str, Any]:
        """Raw columns of the rows that torch's profiler recorded."""
        rows, (begin, end) = self._rows(), self._times()
        columns = {name: values[rows] for name, values in self._host.events.items()}
        return columns | {"ts": begin, "dur": end - begin, "external_id": self._external}

    def async_mask(self, length: int) -> Bools | None:
        """Which rows of all are asynchronous ranges."""
        if not len(self._loose):
            return None
        mask = np.zeros(length, bool)
        mask[len(self._places) : len(self._places) + len(self._loose)] = True
        return mask

    def instant_rows(self, places: Ints, segments: Sequence[Segment]) -> list[event_rows.Row]:
        """Instants that the program marked."""
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
        """Rows of the calls into CUDA, and of what the devices did."""
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
    """What keeps the correlation ids of one segment apart from those of the ones before."""
    shifts, last = {}, 0
    for k, segment in enumerate(segments):
        shifts[k] = last if k else 0
        ids = [act.correlation_id for act in segment.recorder.acts if isinstance(act, Call)]
        last = shifts[k] + max(ids, default=0)
    return shifts
