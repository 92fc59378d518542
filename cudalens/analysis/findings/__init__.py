"""Find what costs time in a Trace and suggest what to try: a list of rules, each a function.

A rule takes `TraceArrays` (one Trace as arrays) and yields findings. Its docstring begins with the name of the rule and
defines the gain and the threshold. To add a rule, write such a generator and add it to `RULES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import pandas as pd

from cudalens.analysis.cached import attempt, once_per_trace, ranked
from cudalens.analysis.findings import (
    communication_rules,
    copy_rules,
    cpu_rules,
    fusion_rules,
    host_rules,
    kernel_rules,
    memory_rules,
    stream_rules,
    window_rules,
)
from cudalens.analysis.findings import kernel_rules as expected_rules
from cudalens.analysis.findings.finding import CONFIDENCES, Confidence, Finding, Ledger, settle_claims
from cudalens.analysis.findings.trace_arrays import TraceArrays
from cudalens.frames import Ranks, Trace

__all__ = [
    "CONFIDENCES",
    "MIN_SHARE_PCT",
    "MOST",
    "RULES",
    "Confidence",
    "Finding",
    "TraceArrays",
    "findings",
    "found_in",
    "idle_ledger",
]

Rule = Callable[[TraceArrays], Iterator[Finding]]
RankRule = Callable[[Ranks], Iterator[Finding]]

#: The rules for one Trace.
RULES: Final[tuple[Rule, ...]] = (
    host_rules.launching,
    stream_rules.waiting,
    host_rules.reading,
    host_rules.collecting,
    host_rules.checking_replays,
    host_rules.recording_graphs,
    host_rules.compiling,
    memory_rules.allocating,
    host_rules.other_work,
    window_rules.first_step,
    window_rules.idle_ends,
    kernel_rules.tiny_kernels,
    kernel_rules.small_grids,
    kernel_rules.full_precision,
    kernel_rules.double_precision,
    kernel_rules.eager_attention,
    kernel_rules.autotuning,
    expected_rules.slower_than_usual,
    fusion_rules.pointwise,
    fusion_rules.recomputing,
    fusion_rules.dense_embedding,
    copy_rules.unified,
    copy_rules.pageable,
    copy_rules.not_overlapped,
    copy_rules.transfer_bound,
    copy_rules.small_copies,
    copy_rules.made_on_host,
    copy_rules.layouts,
    copy_rules.on_device,
    fusion_rules.optimizer,
    fusion_rules.zeroing,
    communication_rules.communication,
    stream_rules.serial_streams,
    stream_rules.shared_stream,
    memory_rules.memory_full,
    memory_rules.slow_clocks,
    cpu_rules.tiny_operators,
    cpu_rules.between_operators,
    cpu_rules.outside_operators,
    cpu_rules.one_thread,
)

#: The rules for all ranks of a job.
RANK_RULES: Final[tuple[RankRule, ...]] = (communication_rules.uneven, communication_rules.straggling)

#: Findings with a smaller share of the measured window, in per cent, are left out: repeats of a run differ by as much.
MIN_SHARE_PCT: Final = 2.0

#: Findings that are listed unless more are asked for.
MOST: Final = 5

#: A window shorter than 100 µs holds a few operators and no program: findings with a gain are left out.
MIN_WALL_NS: Final = 100_000


def findings(trace: Trace | Ranks, *, most: int | None = MOST) -> list[Finding]:
    """What to change in `trace`, by gain times confidence; findings without a measurable gain last.

    Gains are upper bounds of what the advice can save. Each rule's docstring defines its gain. No two findings claim
    the same idle time of the devices: a gain is in addition to those of larger findings. Findings below `MIN_SHARE_PCT`
    of the measured window are left out, and idle time of a file from which events were removed. If the devices were
    idle for a fifth of the window for reasons that no rule explains, there is a finding about that.

    Args:
        trace: Any Trace, or the Traces of a job by rank. For ranks, the list also has findings across ranks, and the
            finding with the largest gain of each title over the ranks.
        most: Return at most so many; None for all.
    """
    return (_of_ranks(trace) if isinstance(trace, Ranks) else list(found_in(trace)))[:most]


@once_per_trace
def found_in(trace: Trace) -> tuple[Finding, ...]:
    """The findings of one Trace, computed once and shared by all callers."""
    return _with_ledger(trace)[0]


@ranked
def idle_ledger(trace: Trace) -> pd.DataFrame:
    """Which finding claims which idle time of the measured window.

    Each nanosecond of the window in which no device worked has one cause, and at most one finding claims it. The causes
    are finer than those of `idle_causes`, and are of all devices together.

    Args:
        trace: Any Trace, or Ranks (then with a first column ``rank``).

    Returns:
        A row per cause, the largest first: ``cause`` (``check``, ``garbage``, ``loader``, ``record``, ``compile``,
        ``allocate``, ``profiler``, ``sync``, ``driver_calls``, ``host_work``, ``launch``, ``queued``, ``ends``,
        ``device``), ``idle_ns``, ``idle_pct`` of all idle time, ``claimed_ns``, and ``claimed_by``, the rules of the
        findings that claim it. The sum of ``idle_ns`` is the idle time of the window. Without device work there is no
        row.
    """
    return _with_ledger(trace)[1].to_frame()


@once_per_trace
def _with_ledger(trace: Trace) -> tuple[tuple[Finding, ...], Ledger]:
    """The findings of one Trace, and what they claim.

    A rule that raises is a problem of the Trace (`cudalens.analysis.cached.attempt`); the others are reported.
    """
    nothing = Ledger({}, {})
    if not len(trace.events):
        return (), nothing
    arrays = attempt(trace, "the findings", None, TraceArrays, trace)
    if arrays is None:
        return (), nothing
    none: list[Finding] = []
    of_rules = (attempt(trace, f"the finding '{_name(rule)}'", none, _reported, rule, arrays) for rule in RULES)
    found = _sorted(one for of_rule in of_rules for one in of_rule)
    if not len(arrays.work.rows):
        return tuple(found), nothing
    settled, ledger = attempt(trace, "the claims of idle time", (found, nothing), _settled, arrays, found)
    return tuple(settled), ledger


def _reported(rule: Rule, arrays: TraceArrays) -> list[Finding]:
    return [found for found in rule(arrays) if _is_worth_reporting(arrays, found)]


def _settled(arrays: TraceArrays, found: list[Finding]) -> tuple[list[Finding], Ledger]:
    """`found` without idle time that is claimed twice, and a finding about idle time that is left."""
    settled, ledger = settle_claims(arrays, found, MIN_SHARE_PCT)
    left = ledger.left()
    rest = [one for one in window_rules.unexplained(arrays, left) if _is_worth_reporting(arrays, one)]
    for one in rest:
        ledger.claim(one.rule, left)
    return _sorted([*settled, *rest]), ledger


def _name(rule: Rule) -> str:
    """The name that the docstring of a rule begins with."""
    return (rule.__doc__ or "").partition(":")[0].strip("`")


def _is_worth_reporting(arrays: TraceArrays, found: Finding) -> bool:
    if found.is_idle and (arrays.is_filtered or arrays.lacks_work):
        return False
    return found.gain_ns is None or (arrays.wall_ns >= MIN_WALL_NS and (found.share_pct or 0) >= MIN_SHARE_PCT)


def _sorted(found: Iterable[Finding]) -> list[Finding]:
    return sorted(found, key=lambda one: one.weight, reverse=True)


def _of_ranks(ranks: Ranks) -> list[Finding]:
    shared = [found for rule in RANK_RULES for found in rule(ranks) if (found.share_pct or 0) >= MIN_SHARE_PCT]
    largest: dict[str, Finding] = {}
    has_straggler = any(found.rule == "straggler" for found in shared)
    for found in _sorted(communication_rules.each(ranks)):
        if not (has_straggler and found.rule == "waiting_for_ranks"):
            largest.setdefault(found.title, found)
    return _sorted([*shared, *largest.values()])
