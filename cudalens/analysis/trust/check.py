"""Check how far a trace can be trusted: a list of rules, each of which finds one kind of error in a trace.

A rule takes `TrustArrays` (one Trace as arrays) and yields issues, each with all rows that it concerns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import pandas as pd

from cudalens.analysis.event_arrays import Ints
from cudalens.analysis.memory.totals import is_memory_snapshot
from cudalens.analysis.ranked import ranked
from cudalens.analysis.trust import device as trust_device
from cudalens.analysis.trust import host as trust_host
from cudalens.analysis.trust.arrays import Issue, TrustArrays
from cudalens.analysis.trust.clock import clock
from cudalens.errors import TraceError
from cudalens.frames import Trace
from cudalens.frames.info import Trust, TrustFinding

Rule = Callable[[TrustArrays], Iterator[Issue]]

#: All rules, most important first.
RULES: Final[tuple[Rule, ...]] = (
    trust_host.damage,
    trust_device.no_device_activity,
    clock,
    trust_host.filtered,
    trust_host.far_rows,
    trust_device.lost_work,
    trust_device.unlinked_work,
    trust_device.shared_ids,
    trust_device.overlaps,
    trust_device.durations,
    trust_device.all_later,
    trust_host.duplicates,
    trust_host.torn_trees,
    trust_host.steps,
    trust_host.outside_window,
    trust_host.cut_python_stacks,
    trust_host.profiler_overhead,
    trust_host.simulated,
)

_NUM_ROWS: Final = 8
_WORST_FIRST: Final = ("partial", "repaired", "note")
_COLUMNS: Final = ("rule", "severity", "count", "what", "where", "done")


@dataclass(frozen=True, eq=False)
class TrustReport:
    """What the rules found in a Trace, with all rows.

    Attributes:
        trust: The verdict and the findings, as ``trace.info.trust`` keeps them.
        rows: All rows of each finding, in their order; rows of the events frame.
    """

    trust: Trust
    rows: tuple[Ints, ...]

    @property
    def verdict(self) -> str:
        """``clean``, ``repaired`` or ``partial``, and the first reason, in one line."""
        reasons = [finding.what for finding in self.trust.findings if finding.severity != "note"]
        if not reasons:
            return "clean: no check found anything wrong"
        more = f"; {len(reasons) - 1} more" if len(reasons) > 1 else ""
        return f"{self.trust.verdict}: {reasons[0]}{more}"

    @property
    def frame(self) -> pd.DataFrame:
        """A row per finding: ``rule``, ``severity``, ``count`` (int64), ``what``, ``where``, ``done``, ``rows``."""
        columns = {name: [getattr(finding, name) for finding in self.trust.findings] for name in _COLUMNS}
        frame = pd.DataFrame(columns | {"rows": pd.Series(list(self.rows), dtype="object")}, dtype="object")
        return frame.astype({"count": "int64"})


def issues(trace: Trace) -> list[Issue]:
    """Return what the rules find in `trace`, in the order of `RULES`."""
    arrays = TrustArrays(trace)
    return [issue for rule in RULES for issue in rule(arrays) if issue.count]


def trust(trace: Trace) -> TrustReport:
    """Return how far `trace` can be trusted: applies all rules again; earlier repairs are included.

    The definitions of the rules are in ``docs/trust.md``.

    Returns:
        The verdict, the findings, and all rows of each. Earlier repairs have the rows that they concerned.

    Raises:
        TraceError: It is a memory snapshot, which has no events.
    """
    if is_memory_snapshot(trace):
        raise TraceError(
            f"cannot check '{trace.info.name}': it is a memory snapshot, and the rules are about events. "
            "Trace.summary() shows it, Trace.memory_diff compares two."
        )
    return report_of(issues(trace), earlier_repairs(trace))


@ranked
def trust_findings(trace: Trace) -> pd.DataFrame:
    """`TrustReport.frame` of `trace`; for Ranks, those of all ranks with a first column ``rank``."""
    return trust(trace).frame


def earlier_repairs(trace: Trace) -> list[TrustFinding]:
    """Return the findings of `trace` that have been repaired."""
    before = trace.info.trust
    return [finding for finding in before.findings if finding.severity == "repaired"] if before else []


def report_of(found: Iterable[Issue], repaired: Sequence[TrustFinding] = ()) -> TrustReport:
    """Return the report of present issues and of earlier repairs, worst first."""
    pairs = [(_finding(issue), issue.rows) for issue in found]
    pairs += [(finding, np.array(finding.rows, np.int64)) for finding in repaired]
    pairs.sort(key=lambda pair: _WORST_FIRST.index(pair[0].severity))
    findings = tuple(finding for finding, _ in pairs)
    return TrustReport(Trust(_verdict(findings), findings), tuple(rows for _, rows in pairs))


def _finding(issue: Issue) -> TrustFinding:
    done = f"Can be repaired: {issue.todo}" if issue.severity == "repairable" else issue.todo
    return _as_finding(issue, "note" if issue.severity == "note" else "partial", done, issue.rows)


def repaired_finding(issue: Issue, position: Ints) -> TrustFinding:
    """Return the finding of an issue that has been repaired; `position` is the present row of each earlier row."""
    return _as_finding(issue, "repaired", issue.todo, position[issue.rows[:_NUM_ROWS]])


def _as_finding(issue: Issue, severity: Literal["note", "repaired", "partial"], done: str, rows: Ints) -> TrustFinding:
    return TrustFinding(
        rule=issue.rule,
        severity=severity,
        count=issue.count,
        what=issue.what,
        where=issue.where,
        done=done,
        rows=tuple(rows[:_NUM_ROWS].tolist()),
    )


def _verdict(findings: Sequence[TrustFinding]) -> Literal["clean", "repaired", "partial"]:
    severities = {finding.severity for finding in findings}
    if "partial" in severities:
        return "partial"
    return "repaired" if "repaired" in severities else "clean"
