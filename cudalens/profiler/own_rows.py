"""Remove rows of other work than the profiled program's: of cudalens's own threads, and of work before the start."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

import numpy as np

from cudalens.device.own_work import observed, own_threads
from cudalens.frames import RUNTIME_CATEGORIES, RawRows, is_category, tree
from cudalens.frames.column_arrays import Bools, Ints, integers, map_texts

_MARGIN_NS: Final = 5_000_000


def without_own_threads(rows: RawRows) -> RawRows:
    """`rows` without those of cudalens's threads; `rows` itself if there are none, which is the usual case."""
    threads = own_threads()
    if not threads or "tid" not in rows.events:
        return rows
    tid = integers(rows.events["tid"])
    ts = np.asarray(rows.events["ts"])
    ours = np.zeros(len(tid), np.bool_)
    for thread in threads:
        # Python calls that start and end a thread may be recorded slightly outside its lifetime.
        mine = (tid == thread.tid) & (ts >= thread.start_ns - _MARGIN_NS)
        ours |= mine if thread.end_ns is None else mine & (ts <= thread.end_ns + _MARGIN_NS)
    if not ours.any():
        return rows
    return selected(rows, ~ours)


def without_earlier_work(rows: RawRows) -> RawRows:
    """`rows` without the device rows before the first work whose call was recorded: they were launched earlier."""
    events = rows.events
    if "device" not in events or "correlation_id" not in events:
        return rows
    on_device = ~np.asarray(events["device"].isna())
    correlation = integers(events["correlation_id"])
    calls = correlation[is_category(events["cat"], RUNTIME_CATEGORIES) & ~on_device & (correlation >= 0)]
    is_launched = on_device & np.isin(correlation, calls)
    ts = np.asarray(events["ts"])
    if not is_launched.any():
        return rows
    is_earlier = on_device & ~is_launched & (ts < ts[is_launched].min())
    return selected(rows, ~is_earlier) if is_earlier.any() else rows


def selected(rows: RawRows, kept: Bools) -> RawRows:
    """Return the rows `kept` of `rows`."""
    mask = None if rows.async_mask is None else rows.async_mask[kept]
    return replace(rows, events={name: column[kept] for name, column in rows.events.items()}, async_mask=mask)


#: The name of the row around a dispatch mode's handler (torch 2.10 and later).
DISPATCH: Final = "PythonDispatchMode"
#: Functions of the observers. `attachment.py` is no such file: it runs the functions of the program's threads.
_OWN_CODE: Final = re.compile(r"(?:^|[/\\])cudalens[/\\]sanitizer[/\\](?:engine|live[/\\](?!attachment))")


def without_own_dispatch(rows: RawRows) -> RawRows:
    """`rows` without the dispatch of cudalens's observers; `rows` itself if there was none, which is the usual case.

    Of several modes that pass an operator on, the outermost is ours: structure and names of the others are the same.
    """
    times, events = observed(), rows.events
    if not times or "tid" not in events or DISPATCH not in events["name"].categories:
        return rows
    is_dispatch = np.asarray(events["name"] == DISPATCH) & _during(np.asarray(events["ts"], np.int64), times)
    if not is_dispatch.any():
        return rows
    parent, order = _tree(rows)
    is_added = _added(rows, is_dispatch, parent, order)
    if "call_line" in events:
        call_line = tree.lines_without(events["call_line"], parent, order, is_added)
        rows = replace(rows, events=events | {"call_line": call_line})
    return selected(rows, ~is_added)


def _during(ts: Ints, times: list[tuple[int, int]]) -> Bools:
    found = np.zeros(len(ts), np.bool_)
    for start, end in times:
        found |= (ts >= start) & (ts <= end)
    return found


def _added(rows: RawRows, is_dispatch: Bools, parent: Ints, order: Ints) -> Bools:
    """The rows that observers added: dispatches, second rows of operators, and the observers' Python functions."""
    events = rows.events
    name = np.asarray(events["name"].codes, np.int64)
    is_op = is_category(events["cat"], ("cpu_op",))
    is_python = is_category(events["cat"], ("python_function",))
    is_own = is_python & map_texts(events["name"], lambda text: bool(_OWN_CODE.search(text)), False)
    added = np.zeros(len(name), np.bool_)
    inside = np.full(len(name), -1, np.int64)  # the dispatch of which a row is a direct part, by Python functions alone
    answered: set[int] = set()
    for row in order.tolist():
        up = int(parent[row])
        around = -1
        if up >= 0:
            around = up if is_dispatch[up] and added[up] else int(inside[up])
        if is_dispatch[row] and not (up >= 0 and up in answered):
            added[row] = True
        elif is_python[row] and (around >= 0 or is_own[row] or (up >= 0 and is_python[up] and added[up])):
            added[row], inside[row] = True, around
        elif around >= 0 and is_op[row] and around not in answered and _repeats(name, parent, row, around):
            added[row] = True
            answered |= {around, row}
    return added


def _repeats(name: Ints, parent: Ints, row: int, dispatch: int) -> bool:
    """Return whether the operator `row` is the one around the dispatch."""
    outer = int(parent[dispatch])
    return outer >= 0 and bool(name[outer] == name[row])


def _tree(rows: RawRows) -> tuple[Ints, Ints]:
    """Return the row around each host row, -1 for none, and the rows in an order in which enclosing rows come first."""
    ts, dur = (np.asarray(rows.events[column], np.int64) for column in ("ts", "dur"))
    order = tree.sort_order(ts, dur)
    lane = integers(rows.events["tid"])
    if rows.async_mask is not None:
        lane = np.where(rows.async_mask, -1, lane)
    at = tree.parents(ts[order], dur[order], lane[order])
    parent = np.full(len(ts), -1, np.int64)
    parent[order] = np.where(at >= 0, order[at], -1)
    return parent, order
