"""The critical path: the chain of host calls, launches, device work and waits that set how long a run took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, overload

import numpy as np
import pandas as pd

from cudalens.analysis.critical_path.dependencies import Window
from cudalens.analysis.critical_path.graph import DependencyGraph, build_graph
from cudalens.analysis.critical_path.host import host_rows
from cudalens.analysis.critical_path.walk import PIECES, path_frame
from cudalens.analysis.critical_path.what_if import WhatIf, what_if
from cudalens.analysis.time.work import device_work
from cudalens.errors import invalid_choice
from cudalens.frames import Ranks, Trace
from cudalens.frames.build import STEP_PREFIX

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_KEYS: Final = ("kind", "name", "device", "stream", "event")
DEVICE_KINDS: Final = PIECES[:3]
HOST_KINDS: Final = ("host", "untraced host")


@dataclass(frozen=True, eq=False, repr=False)
class CriticalPath:
    """The critical path of a trace, or of a part of it.

    Attributes:
        frame: A row per piece, in order of time; each begins at the end of the previous one. Columns: ``kind`` (see
            below), ``event`` (row of ``trace.events``, <NA> for none), ``start``, ``end``, ``dur_ns`` (the time on the
            path, ns, which may be a part of the event), and of that event ``name``, ``device``, ``stream``, ``pid``,
            ``tid``.
        length_ns: Length of the path: from the start of the analysed part to its last end.
        notes: What the recording lacks, and the resulting assumptions.
        trace: The Trace.
        graph: Its dependencies.

    Kinds: ``compute``, ``communication``, ``memory`` are device work, as in `device_time`. ``host``: the host was in
    that (innermost) event, ``untraced host``: between events. ``launch delay``: from the start of a launching call to
    the start of the work (``event``). ``stream gap``: from the end of the previous work on its stream to the start of
    the work. ``event wait``: from the end of the work that a CUDA event marks to the start of the work that waited for
    it. ``sync return``: from the end of device work to the end of the host call that waited for it (``event``).
    ``handover``: from one host thread to another. ``unknown``: before the first known event.
    """

    frame: pd.DataFrame
    length_ns: int
    notes: tuple[str, ...]
    trace: Trace
    graph: DependencyGraph

    def by(self, key: str = "kind") -> pd.DataFrame:
        """Return the path's time by ``kind``, ``name``, ``device``, ``stream`` or ``event``, longest first.

        Returns:
            Columns ``key``, ``count`` (pieces), ``dur_ns`` (their sum) and ``share_pct`` (of the path). Pieces without
            a value are in a row of <NA>, so that ``dur_ns`` adds up to `length_ns`.

        Raises:
            ValueError: `key` is unknown.
        """
        if key not in _KEYS:
            raise invalid_choice("by", key, _KEYS)
        grouped = self.frame.groupby(key, observed=True, dropna=False)["dur_ns"].agg(["size", "sum"]).reset_index()
        grouped.columns = pd.Index([key, "count", "dur_ns"])
        grouped["share_pct"] = 100.0 * grouped["dur_ns"] / max(self.length_ns, 1)
        return grouped.sort_values("dur_ns", ascending=False, kind="stable", ignore_index=True)

    def what_if(
        self,
        *,
        scale: Mapping[str, float] | None = None,
        fuse: str | ArrayLike | None = None,
        without_operators: bool = False,
        without_syncs: bool = False,
        overlap_copies: bool = False,
    ) -> WhatIf:
        """Estimates the duration of the same part with changes, which are applied together.

        Args:
            scale: Factors of durations (0 removes, 2 doubles) by what they apply to: ``"kernels"``, ``"copies"``,
                ``"communication"`` (device work by kind), ``"launches"`` (host time of the calls that launch device
                work), ``"host"`` (all host time), or a name or pattern with ``*`` of device work, or of host events
                (with the host time of their descendants). Several factors multiply.
            fuse: Device work that becomes one launch: rows of ``trace.events``, a boolean mask of them, or a name
                or pattern. On each stream it then waits for the first of their launches only. Durations stay; gaps
                between direct neighbours, and the host time of the other launch calls, are removed.
            without_operators: With `fuse`: also remove the host time of operators that launch nothing else, as in the
                replay of a CUDA graph; that of the operator with the remaining launch stays.
            without_syncs: Synchronising calls do not wait.
            overlap_copies: Work after a copy or a set on its stream does not wait for its end.

        Raises:
            ValueError: There is no change, a factor is negative, or a name matches no event.
        """
        return what_if(
            self.trace,
            self.graph,
            self.length_ns,
            scale=dict(scale or {}),
            fuse=fuse,
            without_operators=without_operators,
            without_syncs=without_syncs,
            overlap_copies=overlap_copies,
        )

    @property
    def verdict(self) -> str:
        """The composition of the path in a sentence."""
        if not len(self.frame):
            return "No host events or device work: there is no critical path."
        totals = self.frame.groupby(self.frame["kind"].astype(object))["dur_ns"].sum()
        device, host = (int(totals.reindex(list(kinds)).fillna(0).sum()) for kinds in (DEVICE_KINDS, HOST_KINDS))
        delays = self.length_ns - device - host
        shares = [100.0 * part / max(self.length_ns, 1) for part in (device, host, delays)]
        if device >= max(host, delays):
            bound = "The GPU"
        else:
            bound = "The host" if host >= delays else "Waiting and launching"
        text = f"{shares[0]:.0f} % device work, {shares[1]:.0f} % host, {shares[2]:.0f} % delays between them"
        return f"{bound} is the bottleneck of {self.length_ns / 1e6:,.3f} ms: {text}."

    def __repr__(self) -> str:
        """The verdict and the kinds."""
        lines = [f"{row.dur_ns / 1e6:12,.3f} ms {row.share_pct:5.1f} %  {row.kind}" for row in self.by().itertuples()]
        return "\n".join([self.verdict, *lines, *(f"Note: {note}." for note in self.notes)])


@overload
def critical_path(
    trace: Trace, *, step: int | None = None, start: int | None = None, end: int | None = None
) -> CriticalPath: ...
@overload
def critical_path(
    trace: Ranks, *, step: int | None = None, start: int | None = None, end: int | None = None
) -> dict[int, CriticalPath]: ...
def critical_path(
    trace: Trace | Ranks, *, step: int | None = None, start: int | None = None, end: int | None = None
) -> CriticalPath | dict[int, CriticalPath]:
    """Return the longest chain of dependencies: the run gets faster only if this chain gets faster.

    Dependencies are the order of a host thread; launches (from the start of the call to the start of the work); the
    order of a stream; waits of streams for CUDA events; host calls that wait for the device; and forward threads that
    wait for autograd's. The path leads backward from the last end to the start, each time to the last cause to finish;
    its pieces have no gaps between them. A path over starts and ends with launch, stream and synchronisation edges is
    also in HolisticTraceAnalysis' critical path analysis and in Daydream (Zhu et al., USENIX ATC 2020), which replays
    changed durations as well.

    Args:
        trace: Any Trace; Ranks give a path for each rank.
        step: Only this profiler step: its range on the host, and the device work launched within.
        start: Only from the start of this row of the events on.
        end: Only to the end of this row; default: the end of `start`. It includes the device work launched in between.

    Returns:
        The path; empty without events. Work that was launched before the part and runs in it counts from the part's
        start on.

    Raises:
        ValueError: The step or row does not exist, or both are given.
    """
    if isinstance(trace, Ranks):
        return {rank: critical_path(one, step=step, start=start, end=end) for rank, one in trace.items()}
    graph = build_graph(trace, _window(trace, step, start, end))
    frame = path_frame(trace, graph)
    length = int(frame["dur_ns"].sum())
    return CriticalPath(frame, length, graph.notes, trace, graph)


def _window(trace: Trace, step: int | None, start: int | None, end: int | None) -> Window:
    events = trace.events
    if step is not None:
        if start is not None or end is not None:
            raise ValueError("step and start/end both select a part of the trace: give one of them")
        return _around(events, _step_rows(events, step))
    if start is not None or end is not None:
        first, last = (start if start is not None else end), (end if end is not None else start)
        rows = np.array([_row(events, first), _row(events, last)])
        return Window(int(events["ts"].array[rows[0]]), int(events["ts"].array[rows[1]] + events["dur"].array[rows[1]]))
    return whole_window(trace)


def whole_window(trace: Trace) -> Window:
    """From the first start to the last end of the host's events and the device work."""
    rows = np.concatenate([np.flatnonzero(host_rows(trace.events)), device_work(trace).rows])
    return _around(trace.events, rows)


def _around(events: pd.DataFrame, rows: NDArray[np.int64]) -> Window:
    if not len(rows):
        return Window(0, 0)
    ts = events["ts"].to_numpy()[rows]
    return Window(int(ts.min()), int((ts + events["dur"].to_numpy()[rows]).max()))


def _row(events: pd.DataFrame, row: Any) -> int:
    if not 0 <= int(row) < len(events):
        raise ValueError(f"row {row} is not in the trace, which has {len(events)} events")
    return int(row)


def _step_rows(events: pd.DataFrame, step: int) -> NDArray[np.int64]:
    names = events["name"].astype(object)
    host = events["device"].isna()
    rows = np.flatnonzero((names == f"{STEP_PREFIX}{step}") & host)
    if not len(rows):
        known = sorted(int(number) for number in events["step"].dropna().unique())
        raise ValueError(f"step {step} is not in this trace; its steps are {known}")
    return rows
