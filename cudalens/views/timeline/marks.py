"""Marks of a Trace for the page, in ns from the start of its payload, and those that the page sends back."""

from __future__ import annotations

import math
from typing import Any, Final, TypeGuard

from cudalens.frames import Trace
from cudalens.frames.marks import marks_frame
from cudalens.views.timeline.payload_order import EXACT, clipped_times

_MAX_MARKS: Final = 1000


def marks_for_page(trace: Trace) -> list[dict[str, Any]]:
    """The marks of `trace` as ``{"at": 1200, "dur": 0, "note": "text"}``."""
    origin = clipped_times(trace.events)[0]
    rows = zip(trace.marks["ts"].tolist(), trace.marks["dur"].tolist(), trace.marks["note"].tolist(), strict=True)
    known = ({"at": ts - origin, "dur": dur, "note": str(note)} for ts, dur, note in rows)
    return [mark for mark in known if abs(mark["at"]) < EXACT and mark["dur"] < EXACT][:_MAX_MARKS]


def keep_marks(trace: Trace, sent: Any) -> None:
    """Make what the page sent the marks of `trace`; what is not a mark is left out."""
    origin = clipped_times(trace.events)[0]
    rows = [mark for one in (sent if isinstance(sent, list) else [])[:_MAX_MARKS] if (mark := _row(one, origin))]
    trace._frames["marks"] = marks_frame(rows)


def _row(sent: Any, origin: int) -> tuple[int, int, str] | None:
    if not isinstance(sent, dict):
        return None
    at, dur = sent.get("at"), sent.get("dur")
    if not _is_time(at) or not _is_time(dur) or dur < 0:
        return None
    return origin + round(at), round(dur), str(sent.get("note", ""))


def _is_time(value: Any) -> TypeGuard[float]:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and abs(value) < EXACT
