"""A Trace as one binary payload for the page: what the timeline, the tables and the memory curve draw from.

The same bytes feed the live widget (not compressed) and the HTML report (deflated, 3 bytes an event or less on recorded
traces). ``js/payload/payload.js`` reads them. Times are integer nanoseconds from ``header.t0``, exact in JavaScript's
doubles; text is data and is never put into markup.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from cudalens.analysis.facts import names_in_short
from cudalens.analysis.time.averages import folded
from cudalens.analysis.time.work import is_waiting
from cudalens.frames import Trace
from cudalens.frames.build import STEP_PREFIX
from cudalens.frames.column_arrays import Ints, has_prefix, integers
from cudalens.frames.info import cell_sources
from cudalens.frames.stacks import ENTRY_COLUMNS, entry_text
from cudalens.views.timeline import payload_codec
from cudalens.views.timeline.marks import race_marks, sync_marks
from cudalens.views.timeline.payload_codec import PayloadWriter, is_idle, num_enclosing, since
from cudalens.views.timeline.readings import GAUGES, device_rows

VERSION: Final = 1

FLAG_INSTANT: Final = 1
FLAG_FOLDED: Final = 2
FLAG_OUTSIDE: Final = 4
FLAG_LAUNCHED: Final = 8
FLAG_WAITING: Final = 16

#: So many events are always sent.
MIN_EVENTS: Final = 100_000

#: Longest text that is sent, in characters; a cut text ends with its length.
MAX_TEXT: Final = 2000

#: Longest name that is sent where not even `MIN_EVENTS` events fit with whole names, in characters.
BRIEF_TEXT: Final = 40


def pack(
    trace: Trace, *, compress: bool = True, max_bytes: int | None = None, extra: dict[str, Any] | None = None
) -> bytes:
    """`trace` as one binary payload.

    Args:
        trace: What to show.
        compress: Deflate the columns; not useful if the bytes stay on one machine.
        max_bytes: Leave out detail columns (shapes, grids, stacks …) that would make the payload longer than this;
            ``header.dropped`` names them. If that is not enough, the payload has fewer points of the memory curve and
            the last events only, down to `MIN_EVENTS`; ``header.first_row`` is their first row. If that is not enough,
            names are cut to `BRIEF_TEXT`. None: all is sent.
        extra: JSON values for the page, sent as ``header.extra``.

    Returns:
        The payload; see `payload_codec` for its layout.
    """
    num = len(trace.events)
    num_kept, num_points, max_text = num, MAX_POINTS, MAX_TEXT
    if max_bytes is not None:
        num_kept = min(num, max(int(max_bytes / _LEAST_EVENT_BYTES), MIN_EVENTS))
    while True:
        first = first_row(trace.events, num_kept)
        part = _Part(trace, first, num_points, max_text, compress=compress)
        room = None if max_bytes is None else part.room(max_bytes)
        if max_bytes is None or room is None or room >= 0 or max_text == BRIEF_TEXT:
            return part.to_bytes(room, extra or {})
        max_text = MAX_TEXT if num_kept > MIN_EVENTS else BRIEF_TEXT
        num_kept, num_points = max(part.num_that_fit(max_bytes), MIN_EVENTS), FEW_POINTS


class _Part:
    """The columns of the events from one row on, and their header.

    Attributes:
        writer: All columns but those of details.
    """

    def __init__(self, trace: Trace, first: int, num_points: int, max_text: int, *, compress: bool) -> None:
        self.writer = PayloadWriter(compress=compress)
        self._trace, self._max_text = trace, max_text
        t0, start, dur, num_clipped = payload_codec.clipped_times(trace.events)
        lanes = lanes_from(*payload_codec.lane_table(trace.events), first)
        self._events = events_from(trace.events, first)
        times = payload_codec.Times(start[first:], dur[first:], lanes.of_rows)
        begin = int(times.start.min()) if first else 0
        self._header: dict[str, Any] = {"version": VERSION, "n": len(self._events), "t0": str(t0)}
        self._header |= {"lanes": lanes.table, "num_clipped": num_clipped, "cells": cell_sources(trace.info)}
        self._header |= {"first_row": first, "begin": begin, "num_all": len(trace.events)}
        self._add_events(times, lanes)
        self._header["races"] = marks_from(race_marks(trace), lanes, begin)
        self._header["syncs"] = marks_from(sync_marks(trace), lanes, begin)
        place = np.full(len(trace.events), -1, np.int64)
        place[first + self._order] = np.arange(len(self._order))
        memory, metrics = (_from(frame, t0 + begin if first else None) for frame in (trace.memory, trace.metrics))
        self._header["memory"] = add_memory(self.writer, memory, t0, place, num_points)
        self._header["metrics"] = add_metrics(self.writer, metrics, t0)

    def _add_events(self, times: payload_codec.Times, lanes: Lanes) -> None:
        writer, events = self.writer, self._events
        # Rows of the frame lane by lane, in each by (start, longest first).
        in_time = payload_codec.derived_order(times.start, times.dur)
        self._order = order = in_time[np.argsort(times.lane[in_time].astype(np.int32), kind="stable")]
        ordered = payload_codec.Times(times.start[order], times.dur[order], times.lane[order])
        _add_times(writer, *ordered)
        kind, facts = _add_kinds(writer, events, names_in_short(self._trace), order, self._max_text)
        launch = payload_codec.places(events["launch"], order)
        # Launches, as steps through the rows whose kind ever launches something: nearly always to the next one.
        launched = launch[launch >= 0]
        launches = np.zeros(int(kind.max()) + 1 if len(kind) else 0, bool)
        launches[kind[launched]] = True
        ordinal = np.cumsum(launches[kind]) - 1
        writer.add_ints("launch", np.diff(ordinal[launched], prepend=-1) - 1)
        writer.add_ints("launchers", np.flatnonzero(launches))
        # Add flags of each row, and the self times that the page would compute differently.
        outside, own = payload_codec.derived_self(events, order, ordered)
        flags = events["is_instant"].to_numpy() * FLAG_INSTANT + folded(events) * FLAG_FOLDED
        flags = flags + is_waiting(events["name"].array) * FLAG_WAITING
        writer.add_ints("flags", flags[order] + outside * FLAG_OUTSIDE + (launch >= 0) * FLAG_LAUNCHED)
        _add_corrections(writer, "self", own, events["self_dur"].to_numpy()[order])
        # Row in the frame, where it is not what sorting by (start, longest first) would give.
        merged = payload_codec.derived_order(ordered.start, ordered.dur)
        _add_corrections(writer, "row", np.arange(len(order)), order[merged])
        num_lanes = len(lanes.table)
        counts = np.bincount(times.lane, minlength=num_lanes)
        enclosing, idle = num_enclosing(events, times.lane, num_lanes), is_idle(events, times.lane, num_lanes)
        for item, count, num_folded, is_folded in zip(lanes.table, counts, enclosing, idle, strict=True):
            item |= {"count": int(count), "enclosing": 0 if is_folded else int(num_folded), "is_idle": bool(is_folded)}
        self._header |= facts

    def room(self, max_bytes: int) -> int:
        """Bytes that `max_bytes` leaves for columns of details; negative: too little without them."""
        return max_bytes - self.writer.num_bytes(*self.writer.names) - self._header_bytes() - _HEADER_RESERVE

    def _header_bytes(self) -> int:
        return self.writer.size_of(self._header)

    def num_that_fit(self, max_bytes: int) -> int:
        """Return how many events should fit into `max_bytes`, with fewer points of the memory curve."""
        names = self.writer.names
        rest = self.writer.num_bytes(*(name for name in names if name.startswith(("mem.", "met."))))
        short = self.writer.size_of(self._header["short"])
        own = self.writer.num_bytes(*names) - rest + short
        room = max_bytes - _HEADER_RESERVE - (self._header_bytes() - short)
        room -= int(rest * min(FEW_POINTS / max(self._header["memory"]["n"], 1), 1))
        return int(len(self._events) * min(room / max(own, 1), 1) * _SPARE)

    def to_bytes(self, room: int | None, extra: dict[str, Any]) -> bytes:
        """Return the payload with as many columns of details as `room` bytes hold; None for all."""
        details = add_details(self.writer, self._events, self._trace.stacks, self._order, room)
        info = self._trace.info
        about = {"name": cut(info.name), "source": info.source, "simulated": info.is_simulated}
        return self.writer.to_bytes(self._header | details | about | {"extra": extra})


def _from(frame: pd.DataFrame, begin: int | None) -> pd.DataFrame:
    """Return the rows of `frame` from the time `begin` on."""
    return frame if begin is None else frame[frame["ts"].to_numpy() >= begin]


#: For what the header has besides: where the columns are, and what the caller adds.
_HEADER_RESERVE: Final = 20_000
_SPARE: Final = 0.97
#: Most traces need more bytes for an event; the search for the number of events that fit begins there.
_LEAST_EVENT_BYTES: Final = 1.5


def cut(text: str, limit: int = MAX_TEXT) -> str:
    """`text`, or its beginning and how long it was."""
    return text if len(text) <= limit else f"{text[:limit]}… [{len(text):,} characters]"


def _add_times(writer: PayloadWriter, start: Ints, dur: Ints, lane: Ints) -> None:
    depth, gap, tail = payload_codec.nesting(start, dur, lane)
    # Depth changes by +1 at most from row to row, so only the number of closed rows is sent.
    writer.add_ints("closed", _shifted(depth, lane) + 1 - depth)
    writer.add_ints("gap", gap)
    writer.add_ints("tail", tail)


def _shifted(depth: Ints, lane: Ints) -> Ints:
    """Depth of the previous row of the same lane; -1 at the start of a lane."""
    before = np.full(len(depth), -1, np.int64)
    same = lane[1:] == lane[:-1]
    before[1:][same] = depth[:-1][same]
    return before


def _add_kinds(
    writer: PayloadWriter, events: pd.DataFrame, short: Mapping[str, str], order: Ints, max_text: int
) -> tuple[Ints, dict[str, Any]]:
    """Name and category are sent as one number: the rank of the pair, the most frequent first."""
    name, cat = events["name"].cat, events["cat"].cat
    num_cats = len(cat.categories) + 1
    pair = (name.codes.to_numpy().astype(np.int64) + 1) * num_cats + cat.codes.to_numpy() + 1
    codes, uniques = pd.factorize(pair[order])
    by_count = np.argsort(-np.bincount(codes, minlength=len(uniques)), kind="stable")
    rank = np.empty(len(uniques), np.int64)
    rank[by_count] = np.arange(len(uniques))
    kind = rank[codes]
    writer.add_ints("kind", kind)
    name_of, cat_of = np.divmod(uniques[by_count], num_cats)
    name_id, used_names = pd.factorize(name_of)
    cat_id, used_cats = pd.factorize(cat_of)
    writer.add_ints("kind_name", name_id)
    writer.add_ints("kind_cat", cat_id)
    texts = ["", *(str(c) for c in name.categories.tolist())]
    used = whole = [texts[k] for k in used_names]
    steps = [k for k, text in enumerate(used) if text.startswith(STEP_PREFIX)]
    if max_text == MAX_TEXT:
        brief = {k: short[text] for k, text in enumerate(used) if text in short}
    else:
        used, brief = [short.get(text, text) for text in used], {}
    sent = [cut(text, max_text) for text in used]
    writer.add_texts("names", sent)
    cats = ["", *(str(c) for c in cat.categories.tolist())]
    facts = {"cats": [cut(cats[k], 100) for k in used_cats], "step_names": steps, "short": brief}
    return kind, facts | {"are_names_cut": sent != whole}


def _add_corrections(writer: PayloadWriter, name: str, derived: Ints, wanted: Ints) -> None:
    at = np.flatnonzero(derived != wanted)
    writer.add_ints(f"{name}_at", np.diff(at, prepend=0))
    writer.add_ints(f"{name}_off", wanted[at] - derived[at])


#: The part begins with a step, if that leaves out at most this share of the events that fit.
_SHARE: Final = 0.5


class Lanes(NamedTuple):
    """The lanes of a part.

    Attributes:
        of_rows: Lane of each row of the part, shape (n,).
        table: What each lane is.
        numbers: Lane of the part by lane of the whole trace.
    """

    of_rows: Ints
    table: list[dict[str, Any]]
    numbers: dict[int, int]


def first_row(events: pd.DataFrame, num: int) -> int:
    """The row from which at most `num` events are left: of the first step among them, if that keeps most of them."""
    first = max(len(events) - num, 0)
    if not first:
        return 0
    is_step = has_prefix(events["name"].array, STEP_PREFIX) & events["device"].isna().to_numpy()
    steps = np.flatnonzero(is_step[first:])
    return first + int(steps[0]) if len(steps) and steps[0] <= _SHARE * num else first


def events_from(events: pd.DataFrame, first: int) -> pd.DataFrame:
    """Return the rows of `events` from `first` on, renumbered; parents and launches before it are missing."""
    if not first:
        return events
    part = events.iloc[first:].reset_index(drop=True)
    return part.assign(**{name: _renumbered(part[name], first) for name in ("parent", "launch")})


def _renumbered(rows: pd.Series, first: int) -> pd.Series:
    row = integers(rows) - first
    return pd.Series(row).astype(rows.dtype).mask(row < 0)


def lanes_from(lane: Ints, table: list[dict[str, Any]], first: int) -> Lanes:
    """Return the lanes that rows from `first` on have, in the same order."""
    used, of_rows = np.unique(lane[first:], return_inverse=True)
    if not first:
        used, of_rows = np.arange(len(table)), lane
    numbers = {int(whole): number for number, whole in enumerate(used)}
    return Lanes(of_rows.astype(np.int64), [table[k] for k in used.tolist()], numbers)


def marks_from(marks: list[dict[str, Any]], lanes: Lanes, begin: int) -> list[dict[str, Any]]:
    """Return the marks at or after `begin`, ns from the payload's origin, on the lanes of the part."""
    return [
        mark | {"lane": lanes.numbers.get(mark["lane"], -1)}
        for mark in marks
        if mark["at"] >= begin and (mark["lane"] < 0 or mark["lane"] in lanes.numbers)
    ]


# In order of use per byte.
TEXTS: Final = ("module", "collective", "process_group", "grid", "block_dim", "shapes", "dtypes")
NUMBERS: Final = (
    "num_bytes",
    "flops",
    "registers",
    "shared_memory_bytes",
    "occupancy_pct",
    "blocks_per_sm",
    "warps_per_sm",
    "graph_id",
    "graph_node_id",
)
IDS: Final = ("correlation_id", "external_id", "sequence_nr", "fwd_tid")
ORDER: Final = (*TEXTS[:5], *NUMBERS[:5], "shapes", "stack", "dtypes", *NUMBERS[5:], *IDS)

_MAX_TEXT: Final = 2000


def add_details(
    writer: PayloadWriter, events: pd.DataFrame, stacks: pd.DataFrame, order: Ints, budget: int | None
) -> dict[str, Any]:
    """Add each detail column that has a value and fits into what is left of `budget` bytes (None: all fit).

    Returns:
        For the header: ``details`` (how each column is coded) and ``dropped`` (which did not fit).
    """
    details: list[dict[str, str]] = []
    dropped: list[str] = []
    for name in ORDER:
        if not events[name].notna().any():
            continue
        columns = _add(writer, name, events[name], order, stacks)
        size = writer.num_bytes(*columns)
        if budget is not None and size > budget:
            writer.drop(*columns)
            dropped.append(name)
            continue
        budget = None if budget is None else budget - size
        details.append({"name": name, "coding": "ids" if name in IDS else "dictionary"})
    return {"details": details, "dropped": dropped}


def _add(writer: PayloadWriter, name: str, column: pd.Series, order: Ints, stacks: pd.DataFrame) -> list[str]:
    """Add one column as codes (0: missing) and values, or as steps of its known values; names of what was added."""
    if name in IDS:
        known = column.notna().to_numpy()[order]
        values = integers(column, 0)[order][known]
        writer.add_ints(f"{name}.known", known.astype(np.int64))
        # Differences of extreme 64-bit ids wrap around, and wrap back when the page adds them up modulo 2**64.
        writer.add_ints(f"{name}.steps", np.diff(values, prepend=0))
        return [f"{name}.known", f"{name}.steps"]
    codes, values = _dictionary(column, order)
    if name == "stack":
        values = _stack_texts(values, stacks)
    writer.add_ints(f"{name}.codes", codes + 1)
    writer.add_texts(f"{name}.values", [_cut(_text(v)) for v in values])
    return [f"{name}.codes", f"{name}.values"]


def _dictionary(column: pd.Series, order: Ints) -> tuple[Ints, list[Any]]:
    """Code of each row in the payload's order (-1: missing) and the values that occur."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        codes, used = pd.factorize(column.cat.codes.to_numpy()[order].astype(np.int64))
        values = [column.cat.categories[k] if k >= 0 else None for k in used]
    else:
        codes, uniques = pd.factorize(column.array.take(order), use_na_sentinel=False)
        values = [None if pd.isna(v) else v for v in uniques]
    codes = codes.astype(np.int64)
    place = np.cumsum([v is not None for v in values]) - 1
    place[[k for k, v in enumerate(values) if v is None]] = -1
    return place[codes] if len(codes) else codes, [v for v in values if v is not None]


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    number = value.item() if isinstance(value, np.generic) else value
    return f"{number:.7g}" if isinstance(number, float) else str(number)


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}… [{len(text):,} characters]"


def _stack_texts(ids: list[Any], stacks: pd.DataFrame) -> list[str]:
    """Return the stack frames of each stack, one a line, innermost first; the id if the table lacks it."""
    wanted = stacks[stacks["stack"].isin(ids)]
    lines: dict[int, list[str]] = {}
    columns = (wanted[name].astype(object) for name in ("stack", *ENTRY_COLUMNS))
    for stack, file, line, first_line, function in zip(*columns, strict=True):
        name = "?" if pd.isna(function) else str(function)
        is_bare = pd.notna(file) and pd.isna(line) and pd.isna(first_line)
        lines.setdefault(stack, []).append(f"{file}: {name}" if is_bare else entry_text(file, line, first_line, name))
    return ["\n".join(lines.get(int(k), [f"stack {k}"])) for k in ids]


# The payload's curves, reduced to what a screen can show: allocated memory, and readings of the gauges.

#: More allocator actions than this are reduced to the lowest and highest allocation of each interval.
MAX_POINTS: Final = 60_000
#: So many are sent where the payload is limited.
FEW_POINTS: Final = 12_000


def add_memory(
    writer: PayloadWriter, memory: pd.DataFrame, t0: int, place: Ints, num_points: int = MAX_POINTS
) -> dict[str, Any]:
    """Add the columns ``mem.*`` of `memory`; returns their part of the header.

    Args:
        writer: The payload.
        memory: The memory frame, m rows in time order.
        t0: Origin of the page's clock, ns.
        place: Position in the payload of each row of the events, shape (n,); -1 for rows that are not sent.
        num_points: More actions than this are reduced.
    """
    device, labels = _devices(memory)
    kept = _thinned(memory, device, len(labels), num_points)
    frame, num = memory.iloc[kept], len(memory)
    action, actions = pd.factorize(frame["action"].astype(object).fillna("unknown"))
    writer.add_ints("mem.ts", np.diff(since(frame["ts"].to_numpy(), t0), prepend=0))
    writer.add_ints("mem.device", device[kept])
    writer.add_ints("mem.action", action)
    writer.add_ints("mem.bytes", frame["num_bytes"].to_numpy())
    for column in ("allocated_bytes", "reserved_bytes"):
        writer.add_ints(f"mem.{column}", _steps(frame[column], device[kept]))
    row = integers(frame["event"])
    known = (row >= 0) & (row < len(place))
    event = np.full(len(row), -1, np.int64)
    event[known] = place[row[known]]
    writer.add_ints("mem.event", np.diff(event, prepend=0))
    return {"devices": labels, "actions": [str(a)[:100] for a in actions], "n": len(kept), "num_actions": num}


def _devices(memory: pd.DataFrame) -> tuple[Ints, list[str]]:
    """Device of each action and the devices' labels: ``cpu``, ``cuda:0``."""
    kind = memory["device_type"].astype(object).fillna("memory").astype(str)
    index = integers(memory["device"])
    pair = pd.factorize(kind)[0].astype(np.int64) << 32 | (index + 1)
    codes, uniques = pd.factorize(pair)
    first = [int(np.argmax(codes == k)) for k in range(len(uniques))]
    labels = [kind.iloc[i] + (f":{index[i]}" if index[i] >= 0 else "") for i in first]
    return codes.astype(np.int64), [label[:100] for label in labels]


def _thinned(memory: pd.DataFrame, device: Ints, num_devices: int, num_points: int) -> Ints:
    """Rows to send: all, or of each device the minimum and maximum in each interval, and the ends."""
    if len(memory) <= num_points:
        return np.arange(len(memory))
    allocated = integers(memory["allocated_bytes"], 0)
    stretches = num_points // (4 * max(num_devices, 1))
    kept = [_extremes(rows := np.flatnonzero(device == k), allocated[rows], stretches) for k in range(num_devices)]
    return np.unique(np.concatenate(kept))


def _extremes(rows: Ints, values: Ints, stretches: int) -> Ints:
    edges = np.unique(np.linspace(0, len(rows), stretches + 1).astype(np.int64))[:-1]
    if not len(rows):
        return rows
    stretch = np.repeat(np.arange(len(edges)), np.diff(edges, append=len(rows)))
    order = np.lexsort((values, stretch))
    last = np.append(edges[1:], len(rows)) - 1
    return np.unique(np.concatenate([rows[edges], rows[order[edges]], rows[order[last]], rows[last]]))


def _steps(column: pd.Series, device: Ints) -> Ints:
    """Value plus one of each action (0: missing) less that of the device's action before."""
    value = integers(column) + 1
    order = np.argsort(device, kind="stable")
    before = np.zeros(len(value), np.int64)
    same = device[order][1:] == device[order][:-1]
    before[order[1:][same]] = value[order[:-1][same]]
    return value - before


#: More readings than this are reduced to the lowest and highest of each gauge in each interval.
MAX_READINGS: Final = 20_000

#: Numbers are sent as integers: tenths of these units, whole ones of the others.
_SCALES: Final = {"%": 10, "W": 10, "°C": 10}

_MAX_REASONS: Final = 100


def add_metrics(writer: PayloadWriter, metrics: pd.DataFrame, t0: int) -> dict[str, Any]:
    """Add the columns ``met.*`` of `metrics`; returns their part of the header.

    A value is sent as itself plus one, in units of its gauge's ``scale``; 0 is a missing value.

    Args:
        writer: The payload.
        metrics: The metrics frame, in time order.
        t0: Origin of the page's clock, ns.
    """
    parts = [(label, _thinned_readings(rows)) for label, rows in device_rows(metrics)]
    texts = ["", *sorted({str(text) for text in metrics["slowed_by"].dropna() if text})[:_MAX_REASONS]]
    for k, (_, rows) in enumerate(parts):
        writer.add_ints(f"met.{k}.ts", np.diff(since(rows["ts"].to_numpy(), t0), prepend=0))
        for gauge in GAUGES:
            writer.add_ints(f"met.{k}.{gauge.column}", _coded(rows[gauge.column], _SCALES.get(gauge.unit, 1)))
        slowed = [texts.index(text) if text in texts else 0 for text in rows["slowed_by"].astype(object)]
        writer.add_ints(f"met.{k}.slowed_by", np.array(slowed, np.int64))
    gauges = [
        {"column": g.column, "title": g.title, "unit": g.unit, "full": g.full, "scale": _SCALES.get(g.unit, 1)}
        for g in GAUGES
    ]
    return {"devices": [label for label, _ in parts], "gauges": gauges, "reasons": [text[:200] for text in texts]}


def _coded(column: pd.Series, scale: int) -> Ints:
    value = column.astype("Float64").array.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isnan(value), 0, np.rint(np.nan_to_num(value) * scale) + 1).astype(np.int64)


def _thinned_readings(rows: pd.DataFrame) -> pd.DataFrame:
    """Return all rows, or the minimum and maximum of each gauge in each interval, and the ends."""
    if len(rows) <= MAX_READINGS:
        return rows
    stretches = MAX_READINGS // (2 * len(GAUGES))
    stretch = np.arange(len(rows)) * stretches // len(rows)
    kept = [np.array([0, len(rows) - 1])]
    first = np.searchsorted(stretch, np.arange(stretches))
    for gauge in GAUGES:
        order = np.lexsort((_coded(rows[gauge.column], 10), stretch))
        kept += [order[first], order[np.append(first[1:], len(rows)) - 1]]
    return rows.iloc[np.unique(np.concatenate(kept))]
