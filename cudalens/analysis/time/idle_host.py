"""The host's activity at an instant: the innermost event of a thread, and the operator, module and line around it."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from cudalens.analysis.ancestors import nearest_of, running_at
from cudalens.frames import RUNTIME_CATEGORIES, Trace, is_category
from cudalens.frames.column_arrays import Bools, Ints, combined, integers, map_texts

#: Python calls outside the user's code.
_NOT_USERS: Final = re.compile(
    r"^(?:torch[/\\]|<built-in |<frozen |nn\.Module: |\[)|[/\\](?:site|dist)-packages[/\\]|[/\\]torch[/\\]"
    r"|(?:^|[/\\])(?:contextlib|functools|threading)\.py"
)

_SYNCHRONIZE: Final = re.compile(r"^(?:cuda|cu|hip)\w*Synchronize(?:_\w+)?$")


class Host:
    """Lookups in the host's threads of a Trace."""

    def __init__(self, trace: Trace) -> None:
        events = trace.events
        self.ts = events["ts"].to_numpy()
        self.end = self.ts + events["dur"].to_numpy()
        self.parent = integers(events["parent"])
        self.pid, self.tid = integers(events["pid"]), integers(events["tid"])
        cat = events["cat"].array
        self.is_op = is_category(cat, ("cpu_op",))
        self.is_call = is_category(cat, RUNTIME_CATEGORIES)
        self.name, self.module = events["name"].array, events["module"].array
        is_python = is_category(cat, ("python_function",))
        self.is_users_line = is_python & map_texts(self.name, lambda text: _NOT_USERS.search(text) is None, False)
        self._in_tree = events["device"].isna().to_numpy() & ~events["is_instant"].to_numpy()
        self._in_tree &= ~is_category(cat, ("Trace", "overhead"))
        self.thread = combined(self.pid, self.tid)

    def innermost(self, thread: Ints, at: Ints) -> Ints:
        """Row of the innermost event that was running on each thread at each time, -1 for none; shape (m,).

        The last event that started before, or the nearest one around it that had not ended.
        """
        rows, keys, stride = self._by_thread
        # Rows are in order of start: the number of rows that started before a time replaces the time.
        key = thread * stride + np.searchsorted(self.ts, at, side="right")
        place = np.searchsorted(keys, key, side="left") - 1
        if not len(rows):
            return np.full(len(at), -1, np.int64)
        last = rows[np.maximum(place, 0)]
        is_there = (place >= 0) & (self.thread[last] == thread)
        return running_at(np.where(is_there, last, -1), at, self.end, self.parent)

    @cached_property
    def _by_thread(self) -> tuple[Ints, Ints, int]:
        """Rows of the call tree by thread and start, an ascending key for each, and the distance of threads in it."""
        rows = np.flatnonzero(self._in_tree)
        rows = rows[np.argsort(self.thread[rows].astype(np.int32), kind="stable")]
        stride = len(self.ts) + 1
        return rows, self.thread[rows] * stride + rows, stride

    def around(self, rows: Ints, flags: Bools) -> Ints:
        """The nearest flagged row at or around each row; -1 for none. Shape (m,)."""
        return nearest_of(rows, flags, self.parent)


class Waits(NamedTuple):
    """Waits of the host for a device, by start; arrays of shape (n,).

    Attributes:
        start: Start, ns.
        end: End, ns.
        pid: Process, -1 if not recorded.
        event: Row of the call that waited, -1 if not recorded.
    """

    start: Ints
    end: Ints
    pid: Ints
    event: Ints


def waits_of(trace: Trace, host: Host) -> Waits:
    """The waits of ``trace.syncs`` with a known end, and every runtime call that is a wait by its name."""
    syncs = trace.syncs
    syncs = syncs[syncs["dur"].notna()]
    is_wait = map_texts(host.name, lambda text: _SYNCHRONIZE.match(text) is not None, False)
    calls = np.flatnonzero(is_wait & host.is_call)
    start = np.concatenate([syncs["ts"].to_numpy(np.int64), host.ts[calls]])
    dur = np.concatenate([integers(syncs["dur"]), (host.end - host.ts)[calls]])
    pid = np.concatenate([integers(syncs["pid"]), host.pid[calls]])
    event = np.concatenate([integers(syncs["event"]), calls])
    order = np.lexsort((dur, start))
    return Waits(start[order], (start + dur)[order], pid[order], event[order])


def texts(values: pd.Categorical, rows: Ints) -> pd.Categorical:
    """The text of each row, missing for row -1; without unused categories."""
    return values.take(rows, allow_fill=True).remove_unused_categories()
