"""Marks of a Trace for the page, in ns from the start of its payload, and those that the page sends back."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, Final, TypeGuard

from cudalens.frames import Trace
from cudalens.frames.counters import MAX_NOTE, marks_frame
from cudalens.views.timeline.payload_order import EXACT, clipped_times

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
