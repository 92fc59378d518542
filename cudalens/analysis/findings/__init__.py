"""What costs time, and what to try: rules as functions in a list, frames in, findings out.

A rule takes a `Scene` (one Trace as arrays) and yields findings; its docstring says what it measures as their cost, and
from where on it tells of it. To add a rule, write such a generator and put it into `RULES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from cudalens.analysis.cached import once_per_trace
from cudalens.analysis.findings import (
    copy_rules,
    cpu_rules,
    host_rules,
    kernel_rules,
    rank_rules,
    state_rules,
    stream_rules,
    training_rules,
)
from cudalens.analysis.findings.finding import CONFIDENCES, Confidence, Finding
from cudalens.analysis.findings.trace_arrays import Scene
from cudalens.frames import Ranks, Trace

__all__ = ["CONFIDENCES", "RANK_RULES", "RULES", "WORTH_PCT", "Confidence", "Finding", "Scene", "findings", "found_in"]

Rule = Callable[[Scene], Iterator[Finding]]
RankRule = Callable[[dict[int, Scene]], Iterator[Finding]]

#: The rules that look at one Trace.
RULES: Final[tuple[Rule, ...]] = (
    host_rules.launching,
    host_rules.waiting,
    host_rules.reading,
    host_rules.compiling,
    host_rules.allocating,
    host_rules.other_work,
    host_rules.first_step,
    host_rules.idle_ends,
    kernel_rules.tiny_kernels,
    kernel_rules.small_grids,
    kernel_rules.full_precision,
    kernel_rules.eager_attention,
    kernel_rules.autotuning,
    copy_rules.pageable,
    copy_rules.not_overlapped,
    copy_rules.small_copies,
    copy_rules.layouts,
    copy_rules.on_device,
    training_rules.optimizer,
    training_rules.zeroing,
    training_rules.communication,
    stream_rules.turns,
    stream_rules.queued_threads,
    state_rules.memory_full,
    state_rules.slow_clocks,
    cpu_rules.tiny_operators,
    cpu_rules.between_operators,
    cpu_rules.one_thread,
)

#: The rules that look at all ranks of a job.
RANK_RULES: Final[tuple[RankRule, ...]] = (rank_rules.uneven, rank_rules.straggling)

#: Share of the measured window, in per cent, below which nothing is told: repeats of a run differ by as much.
WORTH_PCT: Final = 2.0

#: Nothing is told of the time in a window shorter than 100 µs: it holds a few operators, no program.
MIN_WALL_NS: Final = 100_000


def findings(trace: Trace | Ranks) -> list[Finding]:
    """What costs time in `trace`, the dearest first; then what costs no time that could be measured.

    Costs are upper bounds of what a remedy gains, and may be the same time seen from two sides; each rule's docstring
    defines its own. A finding that costs less than `WORTH_PCT` of the measured window is not told.

    Args:
        trace: Any Trace, or the Traces of a job by rank: then also what concerns several ranks is told, and each rule's
            dearest finding over the ranks.
    """
    if isinstance(trace, Ranks):
        return _of_ranks(trace)
    return list(found_in(trace))


@once_per_trace
def found_in(trace: Trace) -> tuple[Finding, ...]:
    """The findings of one Trace, shared by all who call this."""
    scene = Scene(trace)
    return tuple(_sorted(found for rule in RULES for found in _told(scene, rule)))


def _told(scene: Scene, rule: Rule) -> Iterator[Finding]:
    for found in rule(scene) if len(scene.events) else ():
        if found.cost_ns is None or (scene.wall_ns >= MIN_WALL_NS and (found.share_pct or 0) >= WORTH_PCT):
            yield found


def _sorted(found: Iterable[Finding]) -> list[Finding]:
    return sorted(found, key=lambda one: -1 if one.cost_ns is None else one.cost_ns, reverse=True)


def _of_ranks(ranks: Ranks) -> list[Finding]:
    scenes = {rank: Scene(trace) for rank, trace in ranks.items() if len(trace.events)}
    shared = [found for rule in RANK_RULES for found in rule(scenes)]
    worth = [found for found in shared if (found.share_pct or 0) >= WORTH_PCT]
    each = [replace(found, rank=rank) for rank in scenes for found in findings(ranks[rank])]
    dearest: dict[str, Finding] = {}
    for found in _sorted(each):
        dearest.setdefault(found.title, found)
    return _sorted([*worth, *dearest.values()])
