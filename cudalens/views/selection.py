"""What is selected in the last live widget of a Trace, as rows of its events.

A selection is small JSON: ``range`` ([start, end] in ns from the first event), ``event`` (a row of the events) and
``names`` (texts), or for names that the page has cut ``name_rows`` (rows that have them); a part that is not selected
is missing. `remember` keeps it apart from the Trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.frames import Trace
from cudalens.frames.column_arrays import integers
from cudalens.views.timeline.payload_order import clipped_times

_SELECTIONS: Final[WeakKeyDictionary[Trace, dict[str, Any]]] = WeakKeyDictionary()


def remember(trace: Trace, selection: Mapping[str, Any] | None) -> None:
    """Keep `selection` as that of `trace`; None removes it."""
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
