"""A trace as arrays that the rules of trust look at, each computed once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from cudalens.analysis.time.work import Work, device_work
from cudalens.analysis.units import duration, shorten
from cudalens.frames import RUNTIME_CATEGORIES, Trace, is_category

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: What stands for a missing value in an array of keys.
MISSING: Final = int(np.iinfo(np.int64).min)

Severity = Literal["note", "repairable", "partial"]

#: Names of the calls that wait for all work of a device.
_US: Final = 1000
_LAUNCH: Final = re.compile(r"^(?:cuda|cu|hip)\w*Launch\w*(?:Kernel|Graph)|^(?:cuda|cu|hip)Graph\w*Launch")
DEVICE_WAIT: Final = re.compile(r"^(?:cuda|cu|hip)(?:Device|Ctx|Thread)Synchronize")
_NO_TREE: Final = ("Trace", "overhead")


@dataclass(frozen=True, eq=False)
class Suspicion:
    """What one rule found in one Trace.

    Attributes:
        rule: Short name of the rule.
        severity: ``note``: worth knowing, no figure suffers; ``repairable``: `cudalens.analysis.repaired` puts it
            right; ``partial``: nothing can put it right.
        what: What is wrong, in words with numbers.
        rows: All the rows of the events frame that it is about, ascending; dtype int64.
        count: How many rows; for what is not about rows, how often.
        where: The first place, in words.
        todo: What can be done about it.
    """

    rule: str
    severity: Severity
    what: str
    rows: Ints
    count: int
    where: str = ""
    todo: str = ""


class Look:
    """Arrays of one Trace, shape (n,) unless they say otherwise."""

    def __init__(self, trace: Trace) -> None:
        self.trace, self.info, self.events = trace, trace.info, trace.events
        self.ts: Ints = self.events["ts"].to_numpy()
        self.dur: Ints = self.events["dur"].to_numpy()

    def __len__(self) -> int:
        return len(self.ts)

    @cached_property
    def work(self) -> Work:
        """The device work, in order of start."""
        return device_work(self.trace)

    @cached_property
    def end(self) -> Ints:
        """End of each row, ns."""
        return self.ts + self.dur

    @cached_property
    def is_host(self) -> Bools:
        """True for intervals of the host that have a place in a call tree or could have one."""
        host: Bools = ~(self._has_device | self.events["is_instant"].to_numpy() | self.is_in(*_NO_TREE))
        return host

    @cached_property
    def _has_device(self) -> Bools:
        known: Bools = ~np.asarray(self.events["device"].array.isna())
        return known

    @cached_property
    def is_async(self) -> Bools:
        """True for ranges of the host that began and ended on different threads: no tree, and no self time."""
        parent = self.link("parent")
        lonely: Bools = (parent < 0) & self.is_host & (self.events["self_dur"].to_numpy() == 0) & (self.dur > 0)
        lonely[parent[parent >= 0]] = False
        return lonely

    @cached_property
    def is_device(self) -> Bools:
        """True for all rows on a device: work, annotations, synchronisations."""
        return self._has_device

    @cached_property
    def is_call(self) -> Bools:
        """True for runtime and driver calls."""
        return self.is_in(*RUNTIME_CATEGORIES)

    @cached_property
    def launches(self) -> Ints:
        """Rows of the calls that launch kernels or graphs, by their names; ascending, shape (k,)."""
        rows: Ints = np.flatnonzero(self.is_call & self.is_named(_LAUNCH))
        return rows

    @cached_property
    def host_window(self) -> tuple[int, int] | None:
        """First start and last end of the host's rows, ns; None without any."""
        rows = np.flatnonzero(self.is_host)
        return (int(self.ts[rows[0]]), int(self.end[rows].max())) if len(rows) else None

    @cached_property
    def resolution_ns(self) -> int:
        """1000 where the times of all device work are whole microseconds, as older files have them; else 1."""
        work = self.work
        is_whole = not (work.start % _US).any() and not ((work.end - work.start) % _US).any()
        return _US if is_whole and len(work.rows) else 1

    @cached_property
    def host_resolution_ns(self) -> int:
        """1000 where the times of all rows are whole microseconds; else 1."""
        return _US if not (self.dur % _US).any() and not (self.ts % _US).any() else 1

    def is_in(self, *categories: str) -> Bools:
        """True for rows of any of these categories."""
        return is_category(self.events["cat"].array, categories)

    def is_named(self, pattern: re.Pattern[str]) -> Bools:
        """True for rows whose name `pattern` matches; looks at the distinct names, not at the rows."""
        names = self.events["name"].array
        hits = np.array([*(pattern.search(str(name)) is not None for name in names.categories.tolist()), False], bool)
        found: Bools = hits[names.codes]
        return found

    def key(self, column: str, rows: Any = slice(None)) -> Ints:
        """A nullable integer column of `rows` as int64, `MISSING` for what is missing."""
        values: Ints = self.events[column].array[rows].to_numpy(dtype=np.int64, na_value=MISSING)
        return values

    def link(self, column: str) -> Ints:
        """A column of row numbers as int64, -1 for none."""
        rows: Ints = self.events[column].array.to_numpy(dtype=np.int64, na_value=-1)
        return rows

    def depth_of(self, rows: Ints) -> Ints:
        """Number of ancestors of each of `rows`."""
        depth: Ints = self.events["depth"].to_numpy()[rows]
        return depth

    def suspicion(
        self,
        rule: str,
        severity: Severity,
        what: str,
        rows: Ints,
        *,
        todo: str = "",
    ) -> list[Suspicion]:
        """A suspicion about `rows`; none where there are none."""
        if not len(rows):
            return []
        rows = np.sort(rows)
        return [Suspicion(rule, severity, what, rows, len(rows), self.place(int(rows[0])), todo)]

    def place(self, row: int) -> str:
        """Where a row stands, in words."""
        event = self.events.iloc[row]
        lane = f" on stream {event['stream']}" if self._has_device[row] and event["stream"] is not None else ""
        at = int(self.ts[row]) - int(self.ts[0])
        return f"row {row}, {shorten(str(event['name']), 60)}{lane}, {duration(at)} after the first"
