"""`TrustArrays`: a Trace as arrays for the rules of trust, and `Issue`: what a rule finds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

import numpy as np

from cudalens.analysis.event_arrays import EventArrays
from cudalens.analysis.units import duration, plural, shorten
from cudalens.frames import RUNTIME_CATEGORIES
from cudalens.frames.column_arrays import Bools, Ints

#: Marks a missing value in an array of keys: -1 can be a valid one.
MISSING: Final = int(np.iinfo(np.int64).min)

Severity = Literal["note", "repairable", "partial"]

#: Names of the calls that wait for all work of a device.
DEVICE_WAIT: Final = r"^(?:cuda|cu|hip)(?:Device|Ctx|Thread)Synchronize"

_US: Final = 1000
_LAUNCH: Final = r"^(?:cuda|cu|hip)\w*Launch\w*(?:Kernel|Graph)|^(?:cuda|cu|hip)Graph\w*Launch"
_NO_TREE: Final = ("Trace", "overhead")


@dataclass(frozen=True, eq=False)
class Issue:
    """What one rule found in one Trace.

    Attributes:
        rule: Short name of the rule.
        severity: ``note``: worth knowing, affects no figure; ``repairable``: `cudalens.analysis.repaired` corrects it;
            ``partial``: cannot be corrected.
        what: What is wrong, with numbers.
        rows: All rows of the events frame that it concerns, ascending; dtype int64.
        count: Number of rows; if it concerns no rows, how often it occurred.
        where: The first place, as text.
        todo: What can be done about it.
    """

    rule: str
    severity: Severity
    what: str
    rows: Ints
    count: int
    where: str = ""
    todo: str = ""


class TrustArrays(EventArrays):
    """One Trace as the rules of trust use it; arrays of shape (n,) unless stated otherwise."""

    def __len__(self) -> int:
        return len(self.ts)

    @cached_property
    def is_device(self) -> Bools:
        """True for all rows on a device: work, annotations, synchronisations."""
        return ~np.asarray(self.events["device"].array.isna())

    @cached_property
    def is_host(self) -> Bools:
        """True for intervals of the host that are part of a call tree or could be."""
        return ~(self.is_device | self.events["is_instant"].to_numpy() | self.is_in(*_NO_TREE))

    @cached_property
    def is_async(self) -> Bools:
        """True for ranges of the host that began and ended on different threads: no tree, and no self time."""
        lonely: Bools = (self.parent < 0) & self.is_host & (self.events["self_dur"].to_numpy() == 0) & (self.dur > 0)
        lonely[self.parent[self.parent >= 0]] = False
        return lonely

    @cached_property
    def is_call(self) -> Bools:
        """True for runtime and driver calls."""
        return self.is_in(*RUNTIME_CATEGORIES)

    def calls(self, pattern: str) -> Ints:
        """Rows of the runtime and driver calls in whose name `pattern` is found; ascending, shape (k,)."""
        rows = np.flatnonzero(self.is_call)
        return rows[self.is_named(pattern, rows)]

    @cached_property
    def launches(self) -> Ints:
        """Rows of the calls that launch kernels or graphs, by their names; ascending, shape (k,)."""
        return self.calls(_LAUNCH)

    @cached_property
    def host_window(self) -> tuple[int, int] | None:
        """First start and last end of the host's rows, ns; None if there are none."""
        rows = np.flatnonzero(self.is_host)
        return (int(self.ts[rows[0]]), int(self.end[rows].max())) if len(rows) else None

    @cached_property
    def resolution_ns(self) -> int:
        """1000 if the times of all device work are whole microseconds, as in older files; else 1."""
        is_whole = not (self.work.start % _US).any() and not ((self.work.end - self.work.start) % _US).any()
        return _US if is_whole and len(self.work.rows) else 1

    @cached_property
    def host_resolution_ns(self) -> int:
        """1000 if the times of all rows are whole microseconds; else 1."""
        return _US if not (self.dur % _US).any() and not (self.ts % _US).any() else 1

    def issue(self, rule: str, severity: Severity, what: str, rows: Ints, todo: str = "") -> Issue:
        """An issue of `rows`; of none if `rows` is empty, which `cudalens.analysis.trust.check.issues` leaves out."""
        rows = np.sort(rows)
        where = self._place(int(rows[0])) if len(rows) else ""
        return Issue(rule, severity, what, rows, len(rows), where, todo)

    def _place(self, row: int) -> str:
        event = self.events.iloc[row]
        lane = f" on stream {event['stream']}" if self.is_device[row] and event["stream"] is not None else ""
        at = int(self.ts[row]) - int(self.ts[0])
        return f"row {row}, {shorten(str(event['name']), 60)}{lane}, {duration(at)} after the first"


def device_rows(rows: Ints, verb: str) -> str:
    """``1 device row starts``, ``3 device rows start``."""
    return f"{plural(len(rows), 'device row')} {verb}{'s' if len(rows) == 1 else ''}"
