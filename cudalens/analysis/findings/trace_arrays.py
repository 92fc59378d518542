"""What rules look at: one Trace as arrays, and the questions that several of them ask. Each is answered once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis.findings.finding import MAX_ROWS, Confidence, Finding
from cudalens.analysis.findings.idle_attribution import Blame, blame
from cudalens.analysis.summary import wall_ns
from cudalens.analysis.time.intervals import Intervals, length, subtract, union
from cudalens.analysis.time.work import Work, device_work
from cudalens.frames import Trace, is_category

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Entries of recorded stacks that are never the user's.
_ENTRY: Final = re.compile(r"^(?P<file>.*)\((?P<line>\d{1,9})\): ", re.DOTALL)
_LIBRARY: Final = re.compile(
    r"^(?:torch[/\\]|<built-in |<frozen |nn\.Module: |\[)|[/\\]torch[/\\]"
    r"|[/\\]cudalens[/\\](?:device|virtual|sanitizer|profiler|graphs|memory)[/\\]"
    r"|(?:^|[/\\])(?:contextlib|functools|threading)\.py"
)


class Scene:
    """One Trace, as rules look at it.

    Args:
        trace: Any Trace.

    Attributes:
        trace: That one.
        events: Its events.
        ts: Start of each event, ns.
        end: End of each event, ns.
        wall_ns: The measured window that shares are of, ns.
        work: Its device work.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace, self.events = trace, trace.events
        self.ts = self.events["ts"].to_numpy()
        self.end = self.ts + self.events["dur"].to_numpy()
        self.wall_ns = wall_ns(trace)
        self.work: Work = device_work(trace)
        self._matches: dict[tuple[str, tuple[str, ...] | None], Ints] = {}

    def ints(self, column: str) -> Ints:
        """A nullable integer column of the events, -1 where it is missing."""
        filled: Ints = self.events[column].array.to_numpy(dtype=np.int64, na_value=-1)
        return filled

    @cached_property
    def parent(self) -> Ints:
        """Row of each event's parent, -1 for none."""
        return self.ints("parent")

    @cached_property
    def thread(self) -> Ints:
        """A number for each host thread (process and thread), -1 for device work."""
        tid, pid = self.ints("tid"), self.ints("pid")
        codes, _ = pd.factorize(tid + pid * (int(tid.max(initial=0)) + 2))
        return np.where(tid < 0, -1, codes).astype(np.int64)

    @cached_property
    def has_python(self) -> bool:
        """Whether Python calls were recorded, which slows the host."""
        return bool(is_category(self.events["cat"].array, ("python_function",)).any())

    @cached_property
    def blame(self) -> Blame:
        """What the host did while the devices stood still."""
        return blame(self)

    @cached_property
    def busy(self) -> Intervals:
        """When any device was at work."""
        return union(self.work.start, self.work.end)

    @cached_property
    def span_ns(self) -> int:
        """From the first start to the last end of device work, ns; 0 without any."""
        return int(self.busy.end[-1] - self.busy.start[0]) if len(self.busy.start) else 0

    @property
    def idle_ns(self) -> int:
        """Of `span_ns`, when no device was at work."""
        return self.span_ns - length(self.busy)

    def matching(self, pattern: str, cats: tuple[str, ...] | None = None) -> Ints:
        """Rows whose name has `pattern` (a regular expression) in it, of categories `cats`, without instants."""
        if (known := self._matches.get((pattern, cats))) is None:
            names = self.events["name"].array
            search = re.compile(pattern).search
            hits = np.array([search(name) is not None for name in names.categories.tolist()] + [False], bool)[
                names.codes
            ]
            hits &= ~self.events["is_instant"].to_numpy()
            if cats is not None:
                hits &= is_category(self.events["cat"].array, cats)
            known = self._matches[pattern, cats] = np.flatnonzero(hits)
        return known

    def host(self, pattern: str) -> Ints:
        """Rows of host threads whose name has `pattern` in it."""
        rows = self.matching(pattern)
        return rows[self.thread[rows] >= 0]

    def time_of(self, rows: Ints) -> Intervals:
        """The union of the intervals of `rows`."""
        return union(self.ts[rows], self.end[rows])

    def is_work(self, rows: Ints) -> Bools:
        """Which device work stands in `rows` (sorted); shape of the work."""
        return np.isin(self.work.rows, rows, assume_unique=True)

    @cached_property
    def by_launch(self) -> tuple[Ints, Ints, Ints]:
        """Indices of the device work with a known launch by thread and time of the launch; its thread and time."""
        known = np.flatnonzero(self.work.launch >= 0)
        launch = self.work.launch[known]
        order = np.lexsort((self.ts[launch], self.thread[launch]))
        launch = launch[order]
        return known[order], self.thread[launch], self.ts[launch]

    def launched_in(self, rows: Ints) -> tuple[Ints, Ints]:
        """First, and one past the last, position in `by_launch` of what each host row launched, shape (n,)."""
        _, thread, at = self.by_launch
        # Sorted by thread, then by time: a search among the launches of one thread at a time.
        begins = np.searchsorted(thread, self.thread[rows], "left")
        ends = np.searchsorted(thread, self.thread[rows], "right")
        low, high = begins.copy(), begins.copy()
        for number in np.unique(self.thread[rows]).tolist():
            mine = self.thread[rows] == number
            first, last = int(begins[mine][0]), int(ends[mine][0])
            times = at[first:last]
            low[mine] = first + np.searchsorted(times, self.ts[rows[mine]], "left")
            high[mine] = first + np.searchsorted(times, self.end[rows[mine]], "left")
        return low, high

    def launched(self, rows: Ints) -> Ints:
        """Indices of the device work that was launched within any of the host `rows`, ascending."""
        low, high = self.launched_in(rows)
        covers = np.zeros(len(self.by_launch[0]) + 1, np.int64)
        np.add.at(covers, low, 1)
        np.add.at(covers, high, -1)
        return np.sort(self.by_launch[0][np.cumsum(covers)[:-1] > 0])

    def exposed(self, mine: Bools) -> int:
        """Time of the work `mine` in which no other work ran, ns."""
        work = self.work
        part, others = union(work.start[mine], work.end[mine]), union(work.start[~mine], work.end[~mine])
        return length(subtract(part, others))

    def place(self, row: int) -> str | None:
        """The user's line of an event: of its recorded stack, or of the Python calls around it or its launch."""
        row = (
            int(self.events["launch"].array.to_numpy(dtype=np.int64, na_value=-1)[row]) if self.thread[row] < 0 else row
        )
        stacks, names = self.ints("stack"), self.events["name"].array
        calls: list[str] = []
        while row >= 0:
            if stacks[row] >= 0:
                return _first_of_user(self._entries(int(stacks[row])))
            calls.append(str(names[row]))
            row = int(self.parent[row])
        return _first_of_user(calls)

    def _entries(self, stack: int) -> list[str]:
        rows = self.trace.stacks
        rows = rows[rows["stack"] == stack]
        files = zip(rows["file"], rows["line"], rows["function"], strict=True)
        return [
            f"{function}" if pd.isna(file) or pd.isna(line) else f"{file}({line}): " for file, line, function in files
        ]

    def dearest(self, rows: Ints, cost: Ints | None = None) -> tuple[int, ...]:
        """At most `MAX_ROWS` of `rows`, those of the largest `cost` (their durations by default), in order of time."""
        cost = (self.end - self.ts)[rows] if cost is None else cost
        chosen = rows[np.argsort(-cost, kind="stable")[:MAX_ROWS]]
        return tuple(np.sort(chosen).tolist())

    def finding(
        self,
        rule: str,
        title: str,
        what: str,
        cost_ns: int | None,
        rows: Iterable[int],
        advice: str,
        confidence: Confidence,
        place: str | None = None,
    ) -> Finding:
        """A finding in this Trace."""
        share = None if cost_ns is None or not self.wall_ns else 100 * cost_ns / self.wall_ns
        modelled = self.trace.info.is_simulated
        what = f"{what[:1].upper()}{what[1:]}"
        return Finding(rule, title, what, cost_ns, share, tuple(rows), place, advice, confidence, modelled)


def _first_of_user(entries: Iterable[str]) -> str | None:
    for entry in entries:
        if (found := _ENTRY.match(entry)) is not None and not _LIBRARY.search(entry):
            return f"{found['file']}:{found['line']}"
    return None
