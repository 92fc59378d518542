"""Marks of races in the timeline: on the kernel of the later access, or at its time where the kernel is not known.

A race is recorded right after the operator of its later access has returned. So that operator is the last of its name
that had ended at that time, and its device work is what was launched while it ran.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.frames import Trace
from cudalens.frames.build import GPU_ACTIVITIES
from cudalens.frames.column_arrays import integers, is_category
from cudalens.views.foreign import clean
from cudalens.views.timeline.payload_order import clipped_times, lane_table

#: Races that are marked; in the order of the frame.
MAX_MARKS: Final = 200

_MAX_TITLE: Final = 200

Ints = NDArray[np.int64]


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
