"""Check how far a trace can be trusted, and repair it where exactly one correction is possible.

A rule takes `TrustArrays` (one Trace as arrays) and yields issues, each with all rows that it concerns.

Device work is never removed, shortened or moved relative to other device work: `cudalens.analysis.device_time` returns
the same before and after, to the nanosecond.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import pandas as pd

from cudalens.analysis.cached import ranked
from cudalens.analysis.memory.totals import is_memory_snapshot
from cudalens.analysis.trust import device as trust_device
from cudalens.analysis.trust import host as trust_host
from cudalens.analysis.trust.device import clock, clock_bounds, needed_shift_ns
from cudalens.analysis.trust.host import MISSING, Issue, TrustArrays, duplicate_rows
from cudalens.errors import TraceError
from cudalens.frames import Trace, build_events, nullable
from cudalens.frames.catalog_frames import columns_of
from cudalens.frames.column_arrays import Ints, integers
from cudalens.frames.info import Trust, TrustFinding
from cudalens.frames.sync_kinds import Pending
from cudalens.frames.tree import sort_order

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


#: Rows on a stream whose times are the host's: CUPTI's marks of waits (in recorded traces they begin and end with the
#: call that made them).
_ON_HOST_CLOCK: Final = ("cuda_sync",)


@dataclass(frozen=True)
class _Plan:
    """A repair.

    Attributes:
        ts: New start of each row, ns; device rows have moved relative to the host's.
        dropped: Duplicate rows of the host, ascending.
        originals: For each of them the row that it repeats.
        rows: The rows that stay, ascending.
        position: New row of each row; of a dropped one, that of its original.
    """

    ts: Ints
    dropped: Ints
    originals: Ints
    rows: Ints
    position: Ints


def repaired(trace: Trace, *, repair: bool = True) -> Trace:
    """`trace` with what can be repaired, and with its verdict in ``info.trust``.

    Repairs: all device rows move together, relative to the host's, by the smallest offset that lets all work start
    after its launch began and end before waits for it were over, if there is one; duplicate rows of the host are
    removed. All rows are then sorted and linked again.

    Args:
        trace: Any Trace; it is not changed.
        repair: False to check it only.

    Returns:
        A Trace. If there is nothing to repair, its frames are those of `trace`; if `trace` has no events and nothing is
        wrong with it, `trace` itself, without a verdict.
    """
    done, found = earlier_repairs(trace), issues(trace)
    repairable = [issue for issue in found if repair and issue.severity == "repairable"]
    if repairable:
        arrays = TrustArrays(trace)
        plan = _plan(arrays)
        frames = dict(arrays.trace.frames)
        for name in frames.keys() - {"events"}:
            links = [column.name for column in columns_of(name) if column.names == "events"]
            columns = {link: _linked(integers(frames[name][link]), plan.position) for link in links}
            frames[name] = frames[name].assign(**columns)
        frames["events"] = _events(arrays, plan)
        frames["syncs"] = _with_gpu_times(frames["syncs"], frames["events"])
        trace = Trace(arrays.trace.info, **frames)
        done += [repaired_finding(issue, plan.position) for issue in repairable]
        found = issues(trace)
    if not (len(trace.events) or found or done):  # a memory snapshot, for example: it has no times to check
        return trace
    return trace.replace(info=trace.info.replace(trust=report_of(found, done).trust))


def _plan(arrays: TrustArrays) -> _Plan:
    dropped = duplicate_rows(arrays)
    dropped = dropped[~arrays.is_device[dropped]]
    originals = _originals(arrays, dropped)
    shift = needed_shift_ns(arrays, clock_bounds(arrays)) or 0
    ts = arrays.ts + np.where(arrays.is_device & ~arrays.is_in(*_ON_HOST_CLOCK), shift, 0)
    rows = np.delete(np.arange(len(arrays)), dropped)
    position = np.empty(len(arrays), np.int64)
    position[rows[sort_order(ts[rows], arrays.dur[rows])]] = np.arange(len(rows))
    position[dropped] = position[originals]
    return _Plan(ts, dropped, originals, rows, position)


def _originals(arrays: TrustArrays, dropped: Ints) -> Ints:
    """The row that each of `dropped` repeats: the nearest before it that is not dropped, of its name and lane."""
    if not len(dropped):
        return dropped
    rows = np.flatnonzero(np.isin(arrays.ts, arrays.ts[dropped]) & ~arrays.is_device)
    keys = [arrays.ts[rows], arrays.dur[rows]]
    keys += [arrays.ints(name, rows, missing=MISSING) for name in ("pid", "tid", "correlation_id", "external_id")]
    keys += [arrays.events[name].array.codes[rows] for name in ("name", "cat", "thread")]
    group = pd.DataFrame(dict(enumerate(keys))).groupby(list(range(len(keys))), sort=False).ngroup().to_numpy()
    _, first = np.unique(group, return_index=True)
    return rows[first[group[np.searchsorted(rows, dropped)]]]


def _events(arrays: TrustArrays, plan: _Plan) -> pd.DataFrame:
    """Return the events frame, built again; parents and forward rows stay, since the host's rows have not moved."""
    rows = plan.rows
    columns = {name: arrays.events[name].array[rows] for name in arrays.events.columns} | {"ts": plan.ts[rows]}
    number = np.full(len(arrays) + 1, -1, np.int64)
    number[rows] = np.arange(len(rows))
    number[plan.dropped] = number[plan.originals]
    events = build_events(columns, async_mask=arrays.is_async[rows], parent=number[arrays.parent[rows]])
    forward = np.empty(len(rows), np.int64)
    forward[plan.position[rows]] = arrays.ints("forward", rows)
    return events.assign(forward=_linked(forward, plan.position))


def _linked(rows: Ints, position: Ints) -> pd.arrays.IntegerArray:
    """Old row numbers, -1 for none, as a column of the new ones."""
    missing = rows < 0
    return nullable(np.where(missing, 0, position[rows] if len(position) else 0), missing)


def _with_gpu_times(syncs: pd.DataFrame, events: pd.DataFrame) -> pd.DataFrame:
    """Return the waits with ``gpu_dur`` computed again from the moved device rows."""
    pending, known = Pending(events), syncs["gpu_dur"].notna() & syncs["dur"].notna()
    if not pending or not known.any():
        return syncs
    start = integers(syncs["ts"][known])
    gpu_dur = syncs["gpu_dur"].copy()
    gpu_dur[known] = pending.gpu_durs(start, start + integers(syncs["dur"][known]))
    return syncs.assign(gpu_dur=gpu_dur)
