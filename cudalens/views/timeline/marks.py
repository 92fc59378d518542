"""Marks in the timeline: those of the reader, of races, and of waits for the GPU.

A race is recorded right after the operator of its later access has returned. So that operator is the last of its name
that had ended at that time, and its device work is what was launched while it ran.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, TypeGuard
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis import units
from cudalens.analysis.facts import wait_groups
from cudalens.frames import Trace
from cudalens.frames.build import GPU_ACTIVITIES, MAX_NOTE, marks_frame
from cudalens.frames.column_arrays import integers, is_category
from cudalens.views.sections.clean_text import clean
from cudalens.views.sections.waits import MAX_ROWS
from cudalens.views.timeline.payload_codec import EXACT, clipped_times, lane_table

_MAX_MARKS: Final = 1000


def marks_for_page(trace: Trace) -> list[dict[str, Any]]:
    """Return the marks of `trace` as ``{"at": 1200, "dur": 0, "note": "text"}``."""
    origin = clipped_times(trace.events)[0]
    rows = zip(trace.marks["ts"].tolist(), trace.marks["dur"].tolist(), trace.marks["note"].tolist(), strict=True)
    known = ({"at": ts - origin, "dur": dur, "note": str(note)} for ts, dur, note in rows)
    return [mark for mark in known if abs(mark["at"]) < EXACT and mark["dur"] < EXACT][:_MAX_MARKS]


def keep_marks(trace: Trace, before: Any, sent: Any) -> None:
    """Change the marks of `trace` as a page changed its own, from `before` to what it sent.

    Marks that this page does not know stay: they were made in Python or in another page. What is not a mark is left
    out.
    """
    origin = clipped_times(trace.events)[0]
    old, new = _rows(before, origin), _rows(sent, origin)
    marks = trace.marks.astype({"note": object})
    known = Counter(marks.itertuples(index=False, name=None))
    trace._frames["marks"] = marks_frame((known - (old - new) + (new - old)).elements())


def _rows(sent: Any, origin: int) -> Counter[tuple[int, int, str]]:
    return Counter(row for one in (sent if isinstance(sent, list) else [])[:_MAX_MARKS] if (row := _row(one, origin)))


def _row(sent: Any, origin: int) -> tuple[int, int, str] | None:
    if not isinstance(sent, dict):
        return None
    at, dur = sent.get("at"), sent.get("dur")
    if not _is_time(at) or not _is_time(dur) or dur < 0:
        return None
    return origin + round(at), round(dur), str(sent.get("note", ""))[:MAX_NOTE]


def _is_time(value: Any) -> TypeGuard[float]:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and abs(value) < EXACT


#: Races that are marked; in the order of the frame.
MAX_MARKS: Final = 200

_MAX_TITLE: Final = 200


def race_marks(trace: Trace) -> list[dict[str, Any]]:
    """Return a mark for each race that is not suppressed and has a time within the events.

    Returns:
        For each ``race`` (row in ``trace.races``), ``title``, ``at`` (ns from the payload's origin), and ``lane`` and
        ``dur`` of the later access's first kernel or copy, which begins at ``at``; -1 and 0 where that is not known.
    """
    events, races = trace.events, trace.races
    shown = races[~races["is_suppressed"] & races["ts"].notna()].head(MAX_MARKS)
    if not len(events) or not len(shown):
        return []
    origin, start, dur, _ = clipped_times(events)
    lane, _ = lane_table(events)
    work = _Work(events)
    low, high = int(start.min()), int((start + dur).max())
    marks = []
    for row, ts, kind, op, name in zip(shown.index, *_columns(shown), strict=True):
        found = work.of(str(op), int(ts)) if op is not None else None
        at = int(ts) - origin if found is None else int(start[found])
        if not low <= at <= high:
            continue
        place = (-1, 0) if found is None else (int(lane[found]), int(dur[found]))
        title = clean(f"{kind} of {name}" if name else str(kind), _MAX_TITLE)
        marks.append({"race": int(row), "title": title, "at": at, "lane": place[0], "dur": place[1]})
    return marks


def _columns(shown: pd.DataFrame) -> list[list[Any]]:
    names = ("ts", "kind", "second_op", "second_tensor")
    return [shown[name].astype(object).where(shown[name].notna(), None).tolist() for name in names]


class _Work:
    """Device work by the operator that launched it."""

    def __init__(self, events: pd.DataFrame) -> None:
        self._start = events["ts"].to_numpy()
        self._end = self._start + events["dur"].to_numpy()
        self._tid = integers(events["tid"])
        names, ops = events["name"].cat, np.flatnonzero(is_category(events["cat"].array, ("cpu_op",)))
        code = names.codes.to_numpy()[ops]
        by_name = np.argsort(code, kind="stable")
        self._ops, self._codes = ops[by_name], code[by_name]
        self._code_of = {str(name): number for number, name in enumerate(names.categories.tolist())}
        launch = integers(events["launch"])
        on_device = is_category(events["cat"].array, GPU_ACTIVITIES) & (launch >= 0)
        self._work = np.flatnonzero(on_device)
        self._launch = launch[self._work]

    def of(self, op: str, ts: int) -> int | None:
        """Row of the first device work of the last operator `op` that ended by `ts`; None where there is none."""
        code = self._code_of.get(op)
        if code is None:
            return None
        named = self._ops[np.searchsorted(self._codes, code) : np.searchsorted(self._codes, code, side="right")]
        called = named[self._end[named] <= ts]
        if not len(called):
            return None
        last = called[np.argmax(self._end[called])]
        at = self._start[self._launch]
        within = (at >= self._start[last]) & (at <= self._end[last]) & (self._tid[self._launch] == self._tid[last])
        rows = self._work[within]
        return int(rows[np.argmin(self._start[rows])]) if len(rows) else None


def sync_marks(trace: Trace) -> list[dict[str, Any]]:
    """Return a mark for each of the longest waits whose runtime call is known.

    Returns:
        For each ``group`` (row of the table of waits, -1 beyond it), ``title``, ``at`` (ns from the payload's origin),
        ``lane`` and ``dur`` of the runtime call.
    """
    events, waits = trace.events, trace.syncs
    waits = waits[waits["event"].notna()]
    if not len(events) or not len(waits):
        return []
    waits = waits.sort_values("dur", ascending=False, kind="stable").head(MAX_MARKS)
    rows = waits["event"].to_numpy(dtype=np.int64)
    _, start, dur, _ = clipped_times(events)
    lane, _ = lane_table(events)
    columns = (waits[name].astype(object) for name in ("kind", "expression", "dur"))
    titles = [
        units.shorten(f"wait: {kind if pd.isna(expression) else expression} ({units.duration(dur)})", 200)
        for kind, expression, dur in zip(*columns, strict=True)
    ]
    table = zip(rows.tolist(), _groups(trace, waits), titles, strict=True)
    return [
        {"group": group, "title": title, "at": int(start[row]), "lane": int(lane[row]), "dur": int(dur[row])}
        for row, group, title in table
    ]


def _groups(trace: Trace, waits: pd.DataFrame) -> list[int]:
    """Return the row of the table that each wait is part of."""
    names = ["place", "source", "expression", "kind", "op"]
    known = {
        tuple(row): number
        for number, row in enumerate(wait_groups(trace)[names].head(MAX_ROWS).itertuples(index=False))
    }
    plain = waits[names].astype(object)
    keys = plain.where(plain.notna(), None).itertuples(index=False)
    return [known.get(tuple(key), -1) for key in keys]


# The selection in the last live widget of a Trace, as rows of its events.

_SELECTIONS: Final[WeakKeyDictionary[Trace, dict[str, Any]]] = WeakKeyDictionary()


def remember(trace: Trace, selection: Mapping[str, Any] | None) -> None:
    """Keep `selection` as that of `trace`; None removes it.

    A selection is small JSON: ``range`` ([start, end] in ns from the first event), ``event`` (a row of the events) and
    ``names`` (texts), or for names that the page has cut ``name_rows`` (rows that have them); a part that is not
    selected is missing. It is kept apart from the Trace.
    """
    if selection:
        _SELECTIONS[trace] = dict(selection)
    else:
        _SELECTIONS.pop(trace, None)


def selected_events(trace: Trace) -> pd.DataFrame:
    """Return the rows of ``trace.events`` that the last live widget of `trace` has selected; all where nothing is.

    A row is selected when it meets every part of the selection: it overlaps the range (for an instant: is in it), its
    name is one of the names, and it is the event, is below it in the call tree, or is device work launched from there.
    """
    events = trace.events
    selection = _SELECTIONS.get(trace)
    if not selection:
        return events
    chosen = np.ones(len(events), bool)
    if (span := selection.get("range")) is not None:
        chosen &= overlapping(events, float(span[0]), float(span[1]))
    if (names := _names(events, selection)) is not None:
        chosen &= events["name"].isin(names).to_numpy()
    if (row := selection.get("event")) is not None:
        chosen &= subtree(events, int(row))
    return events if bool(chosen.all()) else events[chosen]


def _names(events: pd.DataFrame, selection: Mapping[str, Any]) -> list[str] | None:
    """Return the selected names; None where none are."""
    if (rows := selection.get("name_rows")) is not None:
        known = [row for row in rows if 0 <= row < len(events)]
        return [str(name) for name in events["name"].iloc[known]]
    return None if (names := selection.get("names")) is None else list(names)


def overlapping(events: pd.DataFrame, start: float, end: float) -> NDArray[np.bool_]:
    """True for rows that overlap (start, end), ns from the first event; a row without length counts at both ends."""
    _, begin, length, _ = clipped_times(events)
    stop = begin + length
    return np.where(length == 0, (begin >= start) & (begin <= end), (begin < end) & (stop > start))


def subtree(events: pd.DataFrame, row: int) -> NDArray[np.bool_]:
    """True for `row`, all rows below it in the call tree, and the device work launched from there.

    Raises:
        IndexError: `events` has no such row.
    """
    if not 0 <= row < len(events):
        raise IndexError(f"the selected event is row {row}, but the trace has {len(events):,} events")
    inside = np.zeros(len(events), bool)
    inside[row] = True
    parent = integers(events["parent"])
    level = np.array([row])
    children = np.flatnonzero(parent >= 0)
    while len(level):
        # A level of the tree a round: as many rounds as the subtree is deep.
        level = children[np.isin(parent[children], level)]
        inside[level] = True
    launch = integers(events["launch"])
    launched = np.flatnonzero(launch >= 0)
    inside[launched[inside[launch[launched]]]] = True
    return inside
