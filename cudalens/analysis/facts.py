"""What several views read of a Trace. Each result is computed at first use, then kept; callers must not change it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pandas as pd

from cudalens.analysis.cached import once_per_trace
from cudalens.analysis.findings import found_in
from cudalens.analysis.findings.window_rules import outside_times
from cudalens.analysis.graphs import summarize_graphs
from cudalens.analysis.memory.replay import memory_peak
from cudalens.analysis.memory.totals import fragmentation, pool_totals
from cudalens.analysis.short_names import names_in_short
from cudalens.analysis.summary import summarize, wall_ns
from cudalens.analysis.time.attribution import line_costs, step_costs
from cudalens.analysis.time.averages import averages
from cudalens.analysis.time.call_tree import module_tree
from cudalens.analysis.time.sync_advice import SyncSummary, is_of_group, summarize_syncs, wait_groups, waited_ns
from cudalens.analysis.trust.host import missing_work
from cudalens.frames.sync_kinds import EXPLICIT

if TYPE_CHECKING:
    from cudalens.frames import Trace

__all__ = [
    "averages",
    "found_in",
    "graphs_summary",
    "has_notable_waits",
    "line_costs",
    "memory_at_end",
    "memory_high",
    "memory_pools",
    "missing_work",
    "module_tree",
    "names_in_short",
    "outside_times",
    "step_costs",
    "summarize",
    "wait_groups",
    "wait_summary",
    "wall_ns",
]

#: What a graph manager did, as `cudalens.analysis.graphs.summarize_graphs` defines it.
graphs_summary: Final = once_per_trace(summarize_graphs)

#: When a device held the most memory, as `cudalens.analysis.memory_peak` defines it.
memory_high: Final = once_per_trace(memory_peak)

#: A row per pool of memory, as `cudalens.analysis.memory.totals.pool_totals` defines it.
memory_pools: Final = once_per_trace(pool_totals)

#: A row per device, as `cudalens.analysis.memory.totals.fragmentation` defines it.
memory_at_end: Final = once_per_trace(fragmentation)

#: Share of the wall time from which on hidden waits are reported without being asked for.
_NOTABLE: Final = 0.01


@once_per_trace
def wait_summary(trace: Trace) -> SyncSummary:
    """Return the waits of `trace` in a few numbers; waits of several threads at the same time count once."""
    waits, found = trace.syncs, summarize_syncs(wait_groups(trace))
    is_explicit, worst = waits["kind"].isin(EXPLICIT), found.worst
    if worst is not None and not pd.isna(worst["total_ns"]):
        worst = worst | {"total_ns": waited_ns(waits[is_of_group(waits, worst)])}
    return replace(
        found,
        hidden_ns=waited_ns(waits[~is_explicit]),
        explicit_ns=waited_ns(waits[is_explicit]),
        worst=worst,
    )


def has_notable_waits(trace: Trace) -> bool:
    """Whether to report waits: the run was asked to look for them, or hidden ones took 1 % of the time or more."""
    if trace.info.options.get("syncs"):
        return True
    return bool(len(trace.syncs)) and wait_summary(trace).hidden_ns >= _NOTABLE * wall_ns(trace)
