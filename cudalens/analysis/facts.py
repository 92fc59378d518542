"""What several views read of a Trace. Each result is computed at first use, then kept; callers must not change it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cudalens.analysis.cached import once_per_trace
from cudalens.analysis.findings import found_in
from cudalens.analysis.summary import summarize, wall_ns
from cudalens.analysis.time.averages import averages
from cudalens.analysis.time.sync_groups import SyncSummary, summarize_syncs, wait_groups

if TYPE_CHECKING:
    from cudalens.frames import Trace

__all__ = ["averages", "found_in", "has_notable_waits", "summarize", "wait_groups", "wait_summary", "wall_ns"]

#: Share of the wall time from which on hidden waits are reported without being asked for.
_NOTABLE: Final = 0.01


@once_per_trace
def wait_summary(trace: Trace) -> SyncSummary:
    """The waits of `trace` in a few numbers."""
    return summarize_syncs(wait_groups(trace))


def has_notable_waits(trace: Trace) -> bool:
    """Whether to report waits: the run was asked to look for them, or hidden ones took 1 % of the time or more."""
    if trace.info.options.get("syncs"):
        return True
    return bool(len(trace.syncs)) and wait_summary(trace).hidden_ns >= _NOTABLE * wall_ns(trace)
