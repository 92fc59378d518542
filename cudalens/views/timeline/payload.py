"""A Trace as one binary payload for the page: what the timeline, the tables and the memory curve draw from.

The same bytes feed the live widget (not compressed) and the HTML report (deflated, 3 bytes an event or less on recorded
traces). ``js/payload/payload.js`` reads them. Times are integer nanoseconds from ``header.t0``, exact in JavaScript's
doubles; text is data and is never put into markup.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis.facts import names_in_short
from cudalens.analysis.time.averages import folded
from cudalens.analysis.time.work import is_waiting
from cudalens.frames import Trace
from cudalens.frames.build import STEP_PREFIX
from cudalens.frames.info import cell_sources
from cudalens.views.timeline import payload_details, payload_memory, payload_order, payload_part
from cudalens.views.timeline.enclosing import is_idle, num_enclosing
from cudalens.views.timeline.payload_codec import PayloadWriter
from cudalens.views.timeline.payload_memory import FEW_POINTS, add_memory
from cudalens.views.timeline.payload_metrics import add_metrics
from cudalens.views.timeline.payload_order import Ints
from cudalens.views.timeline.race_marks import race_marks
from cudalens.views.timeline.sync_marks import sync_marks

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
    num_kept, num_points, max_text = num, payload_memory.MAX_POINTS, MAX_TEXT
    if max_bytes is not None:
        num_kept = min(num, max(int(max_bytes / _LEAST_EVENT_BYTES), MIN_EVENTS))
    while True:
        first = payload_part.first_row(trace.events, num_kept)
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
        t0, start, dur, num_clipped = payload_order.clipped_times(trace.events)
        lanes = payload_part.lanes_from(*payload_order.lane_table(trace.events), first)
        self._events = payload_part.events_from(trace.events, first)
        times = payload_order.Times(start[first:], dur[first:], lanes.of_rows)
        begin = int(times.start.min()) if first else 0
        self._header: dict[str, Any] = {"version": VERSION, "n": len(self._events), "t0": str(t0)}
        self._header |= {"lanes": lanes.table, "num_clipped": num_clipped, "cells": cell_sources(trace.info)}
        self._header |= {"first_row": first, "begin": begin, "num_all": len(trace.events)}
        self._add_events(times, lanes)
        self._header["races"] = payload_part.marks_from(race_marks(trace), lanes, begin)
        self._header["syncs"] = payload_part.marks_from(sync_marks(trace), lanes, begin)
        place = np.full(len(trace.events), -1, np.int64)
        place[first + self._order] = np.arange(len(self._order))
        memory, metrics = (_from(frame, t0 + begin if first else None) for frame in (trace.memory, trace.metrics))
        self._header["memory"] = add_memory(self.writer, memory, t0, place, num_points)
        self._header["metrics"] = add_metrics(self.writer, metrics, t0)

    def _add_events(self, times: payload_order.Times, lanes: payload_part.Lanes) -> None:
        writer, events = self.writer, self._events
        self._order = order = _lane_order(times.lane, times.start, times.dur)
        ordered = payload_order.Times(times.start[order], times.dur[order], times.lane[order])
        _add_times(writer, *ordered)
        kind, facts = _add_kinds(writer, events, names_in_short(self._trace), order, self._max_text)
        launch = payload_order.places(events["launch"], order)
        _add_launches(writer, launch, kind)
        _add_flags(writer, events, order, launch, ordered)
        _add_rows(writer, order, ordered.start, ordered.dur)
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
        details = payload_details.add_details(self.writer, self._events, self._trace.stacks, self._order, room)
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


def _lane_order(lane: Ints, start: Ints, dur: Ints) -> NDArray[np.intp]:
    """Rows of the frame lane by lane, in each by (start, longest first)."""
    in_time = payload_order.derived_order(start, dur)
    return in_time[np.argsort(lane[in_time].astype(np.int32), kind="stable")]


def _add_times(writer: PayloadWriter, start: Ints, dur: Ints, lane: Ints) -> None:
    depth, gap, tail = payload_order.nesting(start, dur, lane)
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


def _add_launches(writer: PayloadWriter, launch: Ints, kind: Ints) -> None:
    """Launches, as steps through the rows whose kind ever launches something: nearly always to the next one."""
    launched = launch[launch >= 0]
    launches = np.zeros(int(kind.max()) + 1 if len(kind) else 0, bool)
    launches[kind[launched]] = True
    ordinal = np.cumsum(launches[kind]) - 1
    writer.add_ints("launch", np.diff(ordinal[launched], prepend=-1) - 1)
    writer.add_ints("launchers", np.flatnonzero(launches))


def _add_flags(
    writer: PayloadWriter, events: pd.DataFrame, order: Ints, launch: Ints, times: payload_order.Times
) -> None:
    """Add flags of each row, and the self times that the page would compute differently."""
    outside, own = payload_order.derived_self(events, order, times)
    flags = events["is_instant"].to_numpy() * FLAG_INSTANT + folded(events) * FLAG_FOLDED
    flags = flags + is_waiting(events["name"].array) * FLAG_WAITING
    writer.add_ints("flags", flags[order] + outside * FLAG_OUTSIDE + (launch >= 0) * FLAG_LAUNCHED)
    _add_corrections(writer, "self", own, events["self_dur"].to_numpy()[order])


def _add_rows(writer: PayloadWriter, order: Ints, start: Ints, dur: Ints) -> None:
    """Row in the frame, where it is not what sorting by (start, longest first) would give."""
    merged = payload_order.derived_order(start, dur)
    _add_corrections(writer, "row", np.arange(len(order)), order[merged])


def _add_corrections(writer: PayloadWriter, name: str, derived: Ints, wanted: Ints) -> None:
    at = np.flatnonzero(derived != wanted)
    writer.add_ints(f"{name}_at", np.diff(at, prepend=0))
    writer.add_ints(f"{name}_off", wanted[at] - derived[at])
