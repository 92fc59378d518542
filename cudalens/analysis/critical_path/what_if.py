"""Estimates of the effect of changes, by replaying the dependencies of a trace with other durations."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from cudalens.analysis.ancestors import nearest
from cudalens.analysis.critical_path.graph import STREAM, DependencyGraph
from cudalens.analysis.critical_path.replay import Durations, measured, replay
from cudalens.analysis.time.averages import chosen_rows, sums_beneath
from cudalens.analysis.time.work import COMMUNICATION, COMPUTE, MEMORY
from cudalens.frames.columns import Bools, Ints, integers, is_category, map_texts

if TYPE_CHECKING:
    from cudalens.frames import Trace

_KINDS: Final = {"kernels": (COMPUTE, COMMUNICATION), "communication": (COMMUNICATION,), "copies": (MEMORY,)}


@dataclass(frozen=True, repr=False)
class WhatIf:
    """The estimated effect of changes.

    Attributes:
        length_ns: Time from the start to the last end with the changes.
        before_ns: The same without them.
        saved_ns: The difference; negative if the changes cost time.
        changes: The changes, in words.
        assumptions: The assumptions, in words.
    """

    length_ns: int
    before_ns: int
    saved_ns: int
    changes: tuple[str, ...]
    assumptions: tuple[str, ...]

    def __repr__(self) -> str:
        """The changes, their effect, and the assumptions."""
        share = 100.0 * self.saved_ns / max(self.before_ns, 1)
        word = "saves" if self.saved_ns >= 0 else "costs"
        head = f"{'; '.join(self.changes)}: {word} {abs(self.saved_ns) / 1e6:,.3f} ms ({abs(share):.1f} %)"
        lines = [f"{head}, {self.before_ns / 1e6:,.3f} ms become {self.length_ns / 1e6:,.3f} ms."]
        return "\n".join([*lines, *(f"Assumed: {text}." for text in self.assumptions)])


_ALWAYS: Final = (
    "calls, works of a stream and waits keep their recorded order",
    "concurrent device work does not get faster when other work is removed",
)


def what_if(
    trace: Trace,
    graph: DependencyGraph,
    before_ns: int,
    *,
    scale: dict[str, float],
    fuse: Any,
    without_operators: bool,
    without_syncs: bool,
    overlap_copies: bool,
) -> WhatIf:
    """See `cudalens.analysis.CriticalPath.what_if`."""
    if not scale and fuse is None and not without_syncs and not overlap_copies:
        raise ValueError("what_if() changes nothing: give scale, fuse, without_syncs or overlap_copies")
    change = _Change(trace, graph)
    for key, factor in scale.items():
        change.scale(key, factor)
    if fuse is not None:
        change.fuse(fuse, without_operators)
    if without_syncs:
        change.drop_syncs()
    if overlap_copies:
        change.overlap_copies()
    length = replay(graph, change.durations()).end - graph.window.begin
    return WhatIf(length, before_ns, before_ns - length, tuple(change.texts), (*_ALWAYS, *change.assumed, *graph.notes))


class _Change:
    def __init__(self, trace: Trace, graph: DependencyGraph) -> None:
        self._events, self._graph = trace.events, graph
        self._host_factor = np.ones(len(graph.host.start))
        self._work_factor = np.ones(len(graph.works))
        self._durations: Durations = measured(graph)
        self.texts: list[str] = []
        self.assumed: list[str] = []

    def durations(self) -> Durations:
        """The durations with all changes."""
        now = self._durations
        now.host = _scaled(now.host, self._host_factor)
        now.work = _scaled(now.work, self._work_factor)
        return now

    def scale(self, key: str, factor: float) -> None:
        """Multiply the durations that `key` selects by `factor`."""
        if not factor >= 0 or factor == float("inf"):
            raise ValueError(f"invalid value for scale[{key!r}]: {factor}; expected a finite number, at least 0")
        text = f"{key} removed" if factor == 0 else f"{key} x {factor:g}"
        graph = self._graph
        if key in _KINDS:
            self._scale_work(np.isin(graph.works.kind, _KINDS[key]), factor)
        elif key == "host":
            self._host_factor *= factor
        elif key == "launches":
            self._scale_host(self._is_launch(), factor)
            self.assumed.append("the delay from a launch to its work stays")
        else:
            text = self._scale_named(key, factor)
        self.texts.append(text)

    def _scale_named(self, pattern: str, factor: float) -> str:
        named = self._named(pattern)
        works = named[self._graph.works.row]
        host = named & (self._graph.host.of_row >= 0)
        if not works.any() and not host.any():
            raise ValueError(f"{pattern!r} matches no event in this part of the trace")
        self._scale_work(works, factor)
        if host.any():
            self._scale_host(host, factor)
            self.assumed.append(f"host time of {pattern} includes its descendants; its device work stays")
        count = int(works.sum()) or int(host.sum())
        return f"{count} x {pattern} " + ("removed" if factor == 0 else f"x {factor:g}")

    def _named(self, pattern: str) -> Bools:
        names = self._events["name"].array
        return map_texts(names, lambda name: name == pattern or fnmatchcase(name, pattern), False)

    def _scale_work(self, which: Bools, factor: float) -> None:
        self._work_factor[which] *= factor
        if factor == 0:  # removed work has no gap before it
            gone = which & (self._graph.binding == STREAM)
            self._durations.stream_lag[gone] = 0

    def _is_launch(self) -> Bools:
        found = np.zeros(len(self._events), bool)
        launch = self._graph.works.launch
        found[launch[launch >= 0]] = True
        return found

    def _scale_host(self, rows: Bools, factor: float) -> None:
        """Scale the intervals of these rows and of all their descendants, once."""
        within = nearest(rows, integers(self._events["parent"])) >= 0
        self._host_factor[np.append(within, False)[self._graph.host.owner]] *= factor

    def fuse(self, which: Any, without_operators: bool) -> None:
        """Combine device work into one launch."""
        works, now = self._graph.works, self._durations
        fused = np.flatnonzero(self._selected(which)[works.row])
        if len(fused) < 2:
            raise ValueError(f"fuse selects {len(fused)} pieces of device work in this part of the trace; it needs two")
        leader = fused[np.argmin(np.where(works.has_launch[fused], works.issued[fused], np.iinfo(np.int64).max))]
        is_fused = np.zeros(len(works), bool)
        is_fused[fused] = True
        follows = is_fused & np.roll(is_fused, 1) & ~works.is_first
        now.stream_lag[follows] = 0
        # On each stream the first work waits for the one launch; the others follow in the order of the stream.
        moved = fused[now.has_launch[fused]]
        now.launch_from[moved] = leader
        now.launch_lag[moved] = np.minimum(now.launch_lag[moved], now.launch_lag[leader])
        self._drop_launches(fused, leader, without_operators)
        self.texts.append(f"{len(fused)} pieces of device work as one launch")
        self.assumed.append("fused work takes as long as its parts, without gaps between neighbours on a stream")
        self.assumed.append("the first of the fused launches replaces all")

    def _selected(self, which: Any) -> Bools:
        return self._named(which) if isinstance(which, str) else chosen_rows("fuse", which, len(self._events))

    def _drop_launches(self, fused: Ints, leader: int, without_operators: bool) -> None:
        launch = self._graph.works.launch
        calls = np.zeros(len(self._events), bool)
        calls[launch[fused][launch[fused] >= 0]] = True
        # A call that launches other work as well stays.
        others = np.setdiff1d(np.arange(len(launch)), fused)
        calls[launch[others][launch[others] >= 0]] = False
        if launch[leader] >= 0:
            calls[launch[leader]] = False
        if without_operators:
            calls |= self._idle_operators(calls)
        self._scale_host(calls, 0.0)

    def _idle_operators(self, dropped: Bools) -> Bools:
        """Operators with launches, all of which are dropped."""
        events, launches = self._events, self._is_launch()
        parent, depth = integers(events["parent"]), events["depth"].to_numpy()
        gone, total = (sums_beneath(mask.astype(np.int64), parent, depth) for mask in (dropped, launches))
        found: Bools = is_category(events["cat"].array, ("cpu_op",)) & (gone > 0) & (gone == total)
        return found

    def drop_syncs(self) -> None:
        """Synchronising calls do not wait."""
        self._durations.with_syncs = False
        count = int((self._graph.arrivals.is_sync & (self._graph.arrivals.source >= 0)).sum())
        self.texts.append(f"{count} waits of the host removed")
        self.assumed.append("the host does not need the values that it waited for, and the queue is never full")

    def overlap_copies(self) -> None:
        """Work after a copy on its stream does not wait for its end."""
        works = self._graph.works
        after = np.roll(works.kind == MEMORY, 1) & ~works.is_first
        self._durations.follows[after] = False
        self.texts.append(f"{int((works.kind == MEMORY).sum())} copies and sets overlap other work")
        self.assumed.append("work after a copy on its stream does not need the copied data, and copy engines are free")


def _scaled(length: Ints, factor: NDArray[np.float64]) -> Ints:
    scaled: Ints = np.where(factor == 1.0, length, np.rint(length * factor).astype(np.int64))
    return scaled
