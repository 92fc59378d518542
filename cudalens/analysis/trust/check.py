"""How far a trace can be trusted: small rules that each look for one way in which a trace can lie.

A rule is a function: what a `Look` shows in, suspicions out, with all the rows that they are about. `RULES` lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import pandas as pd

from cudalens.analysis.memory.totals import is_memory_snapshot
from cudalens.analysis.ranked import ranked
from cudalens.analysis.trust import device as trust_device
from cudalens.analysis.trust import host as trust_host
from cudalens.analysis.trust.arrays import Ints, Look, Suspicion
from cudalens.analysis.trust.clock import clock
from cudalens.errors import TraceError
from cudalens.frames import Trace
from cudalens.frames.info import Trust, TrustFinding

Rule = Callable[[Look], list[Suspicion]]

#: All rules, in the order of their weight.
RULES: Final[tuple[Rule, ...]] = (
    trust_host.damage,
    trust_device.no_device_activity,
    clock,
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


@dataclass(frozen=True, eq=False)
class TrustReport:
    """What the rules found in a Trace, whole.

    Attributes:
        trust: The verdict and the findings, as ``trace.info.trust`` keeps them.
        rows: All rows of each finding, in their order; rows of the events frame.
    """

    trust: Trust
    rows: tuple[Ints, ...]

    @property
    def verdict(self) -> str:
        """``clean``, ``repaired`` or ``partial``, and why, in one line."""
        return verdict_line(self.trust)

    @property
    def frame(self) -> pd.DataFrame:
        """A row per finding: ``rule``, ``severity``, ``count`` (int64), ``what``, ``where``, ``done``, ``rows``."""
        found = self.trust.findings
        texts = {name: [getattr(f, name) for f in found] for name in ("rule", "severity", "what", "where", "done")}
        columns = texts | {"count": np.array([f.count for f in found], np.int64), "rows": list(self.rows)}
        order = ("rule", "severity", "count", "what", "where", "done", "rows")
        return pd.DataFrame({name: pd.Series(columns[name], dtype=_dtype(name)) for name in order})


def _dtype(column: str) -> str:
    return "int64" if column == "count" else "object"


def suspicions(trace: Trace) -> list[Suspicion]:
    """What the rules find in `trace` as it stands, in the order of `RULES`."""
    look = Look(trace)
    return [suspicion for rule in RULES for suspicion in rule(look)]


def trust(trace: Trace) -> TrustReport:
    """How far `trace` can be trusted: all rules are applied again; earlier repairs are included.

    The definitions of the rules are in ``docs/trust.md``.

    Returns:
        The verdict, the findings, and all rows of each. Earlier repairs name the rows that they concerned.

    Raises:
        TraceError: It is a memory snapshot, which has no events.
    """
    if is_memory_snapshot(trace):
        raise TraceError(
            f"cannot check '{trace.info.name}': it is a memory snapshot, and the rules are about events. "
            "Trace.summary() shows it, Trace.memory_diff compares two."
        )
    before = trace.info.trust
    repaired = [f for f in before.findings if f.severity == "repaired"] if before else []
    return report_of(suspicions(trace), repaired)


@ranked
def trust_findings(trace: Trace) -> pd.DataFrame:
    """`TrustReport.frame` of `trace`; of Ranks, those of all ranks with a first column ``rank``."""
    return trust(trace).frame


def report_of(found: Iterable[Suspicion], repaired: Sequence[TrustFinding] = ()) -> TrustReport:
    """The report of what was found now and what had been repaired before, the worst first."""
    pairs = [(_finding(suspicion), suspicion.rows) for suspicion in found]
    pairs += [(finding, np.array(finding.rows, np.int64)) for finding in repaired]
    pairs.sort(key=lambda pair: _WORST_FIRST.index(pair[0].severity))
    findings = tuple(finding for finding, _ in pairs)
    return TrustReport(Trust(_verdict(findings), findings), tuple(rows for _, rows in pairs))


def _finding(suspicion: Suspicion) -> TrustFinding:
    is_note = suspicion.severity == "note"
    can = "Can be repaired: " if suspicion.severity == "repairable" else ""
    return TrustFinding(
        rule=suspicion.rule,
        severity="note" if is_note else "partial",
        count=suspicion.count,
        what=suspicion.what,
        where=suspicion.where,
        done=f"{can}{suspicion.todo}",
        rows=tuple(suspicion.rows[:_NUM_ROWS].tolist()),
    )


def repaired_finding(suspicion: Suspicion, place: Mapping[int, int] | Ints) -> TrustFinding:
    """The finding of a suspicion that has been put right; `place` says where each of its rows stands now."""
    return TrustFinding(
        rule=suspicion.rule,
        severity="repaired",
        count=suspicion.count,
        what=suspicion.what,
        where=suspicion.where,
        done=suspicion.todo,
        rows=tuple(int(place[row]) for row in suspicion.rows[:_NUM_ROWS].tolist()),
    )


def _verdict(findings: Sequence[TrustFinding]) -> Literal["clean", "repaired", "partial"]:
    severities = {finding.severity for finding in findings}
    return "partial" if "partial" in severities else "repaired" if "repaired" in severities else "clean"


def verdict_line(trust: Trust) -> str:
    """The verdict and its first reason, in one line."""
    grave = [finding for finding in trust.findings if finding.severity != "note"]
    if not grave:
        return "clean: no rule of trust found anything wrong"
    more = f"; {len(grave) - 1} more" if len(grave) > 1 else ""
    return f"{trust.verdict}: {grave[0].what}{more}"
