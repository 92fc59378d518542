"""What the host was doing at an instant: the innermost event of a thread, and the operator, module and line around."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from cudalens.analysis.ancestors import nearest_of, running_at
from cudalens.analysis.time.groups import Bools, Ints, integers
from cudalens.frames import RUNTIME_CATEGORIES, Trace, is_category
from cudalens.frames.columns import combined

#: Python calls that are not the user's own lines.
_NOT_USERS: Final = re.compile(
    r"^(?:torch[/\\]|<built-in |<frozen |nn\.Module: |\[)|[/\\](?:site|dist)-packages[/\\]|[/\\]torch[/\\]"
    r"|(?:^|[/\\])(?:contextlib|functools|threading)\.py"
)

_SYNCHRONIZE: Final = re.compile(r"^(?:cuda|cu|hip)\w*Synchronize(?:_\w+)?$")


class Host:
    """The host's threads of a Trace, to look around in."""

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
        users = np.array([_NOT_USERS.search(text) is None for text in self.name.categories.tolist()] + [False])
        self.is_users_line = is_python & users[self.name.codes]
        self._in_tree = events["device"].isna().to_numpy() & ~events["is_instant"].to_numpy()
        self._in_tree &= ~is_category(cat, ("Trace", "overhead"))
        self.thread: Ints = combined(self.pid, self.tid).astype(np.int64)

    def innermost(self, thread: Ints, at: Ints) -> Ints:
        """Row of the innermost event that was running on each thread at each time, -1 for none; shape (m,).

        The last event that began before, or the nearest around it that had not ended yet.
        """
        rows, keys, stride = self._by_thread
        # Rows stand by start: how many began by a time is as good as the time.
        key = thread * stride + np.searchsorted(self.ts, at, side="right")
        place = np.searchsorted(keys, key, side="left") - 1
        if not len(rows):
            return np.full(len(at), -1, np.int64)
        last = rows[np.maximum(place, 0)]
        is_there = (place >= 0) & (self.thread[last] == thread)
        return running_at(np.where(is_there, last, -1), at, self.end, self.parent)

    @cached_property
    def _by_thread(self) -> tuple[Ints, Ints, int]:
        """Rows of the call tree by thread and start, a key for each that is in order, and how far threads lie apart."""
        rows = np.flatnonzero(self._in_tree)
        rows = rows[np.argsort(self.thread[rows].astype(np.int32), kind="stable")]
        stride = len(self.ts) + 1
        return rows, self.thread[rows] * stride + rows, stride

    def around(self, rows: Ints, flags: Bools) -> Ints:
        """The nearest of each row and what is around it that is flagged; -1 where none is. Shape (m,)."""
        return nearest_of(rows, flags, self.parent)


class Waits(NamedTuple):
    """Waits of the host for a device, by start; arrays of shape (n,).

    Attributes:
        start: Start, ns.
        end: End, ns.
        pid: Process, -1 where not recorded.
        event: Row of the call that waited, -1 where not recorded.
    """

    start: Ints
    end: Ints
    pid: Ints
    event: Ints


def waits_of(trace: Trace, host: Host) -> Waits:
    """The waits of ``trace.syncs`` whose end is known, and every runtime call that is a wait by its name."""
    syncs = trace.syncs
    syncs = syncs[syncs["dur"].notna()]
    by_name = np.array([_SYNCHRONIZE.match(text) is not None for text in host.name.categories.tolist()] + [False])
    calls = np.flatnonzero(by_name[host.name.codes] & host.is_call)
    start = np.concatenate([syncs["ts"].to_numpy(np.int64), host.ts[calls]])
    dur = np.concatenate([integers(syncs["dur"]), (host.end - host.ts)[calls]])
    pid = np.concatenate([integers(syncs["pid"]), host.pid[calls]])
    event = np.concatenate([integers(syncs["event"]), calls])
    order = np.lexsort((dur, start))
    return Waits(start[order], (start + dur)[order], pid[order], event[order])


def texts(values: pd.Categorical, rows: Ints) -> pd.Categorical:
    """The text of each row, missing for row -1; without categories that are not used."""
    codes = np.where(rows >= 0, values.codes[rows] if len(values) else -1, -1)
    return pd.Categorical.from_codes(codes, categories=values.categories).remove_unused_categories()
