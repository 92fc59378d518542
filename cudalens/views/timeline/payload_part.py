"""The last events of a Trace, where all do not fit into a report: whole steps if it has steps."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from cudalens.frames.build import STEP_PREFIX
from cudalens.frames.column_arrays import Ints, has_prefix, integers

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
