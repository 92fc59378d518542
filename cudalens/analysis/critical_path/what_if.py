"""What a change would bring: the dependencies of a trace, played again with other durations."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from cudalens.analysis.critical_path.graph import STREAM, Graph
from cudalens.analysis.critical_path.replay import Durations, measured, replay
from cudalens.analysis.time.averages import sums_beneath
from cudalens.analysis.time.work import COMMUNICATION, COMPUTE, MEMORY
from cudalens.frames import is_category

if TYPE_CHECKING:
    from cudalens.frames import Trace

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_KINDS: Final = {"kernels": (COMPUTE, COMMUNICATION), "communication": (COMMUNICATION,), "copies": (MEMORY,)}


@dataclass(frozen=True, repr=False)
class WhatIf:
    """What a change would bring.

    Attributes:
        length_ns: From the begin to the last end with the change.
        before_ns: Without it.
        saved_ns: What it would save; negative where it would cost.
        changes: What was changed, in words.
        assumptions: What this rests on, in words.
    """

    length_ns: int
    before_ns: int
    saved_ns: int
    changes: tuple[str, ...]
    assumptions: tuple[str, ...]

    def __repr__(self) -> str:
        """The answer, what it is the answer to, and what it rests on."""
        share = 100.0 * self.saved_ns / max(self.before_ns, 1)
        word = "saves" if self.saved_ns >= 0 else "costs"
        head = f"{'; '.join(self.changes)}: {word} {abs(self.saved_ns) / 1e6:,.3f} ms ({abs(share):.1f} %)"
        lines = [f"{head}, {self.before_ns / 1e6:,.3f} ms become {self.length_ns / 1e6:,.3f} ms."]
        return "\n".join([*lines, *(f"Assumed: {text}." for text in self.assumptions)])


_ALWAYS: Final = (
    "order of calls, of works on a stream and of waits stays as recorded",
    "device work that ran side by side does not get faster when its neighbour goes",
)


def what_if(
    trace: Trace,
    graph: Graph,
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
    def __init__(self, trace: Trace, graph: Graph) -> None:
        self._events, self._graph = trace.events, graph
        self._host_factor = np.ones(len(graph.host.start))
        self._work_factor = np.ones(len(graph.works))
        self._durations: Durations = measured(graph)
        self.texts: list[str] = []
        self.assumed: list[str] = []

    def durations(self) -> Durations:
        """All changes together."""
        now = self._durations
        now.host = _scaled(now.host, self._host_factor)
        now.work = _scaled(now.work, self._work_factor)
        return now

    def scale(self, key: str, factor: float) -> None:
        """Multiply durations of what `key` names by `factor`."""
        if not factor >= 0 or factor == float("inf"):
            raise ValueError(f"scale={{{key!r}: {factor}}}: a factor is a number from 0 on")
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
            raise ValueError(f"{pattern!r} is the name of no event in this part of the trace")
        self._scale_work(works, factor)
        if host.any():
            self._scale_host(host, factor)
            self.assumed.append(f"host time of {pattern} means that of all beneath it; what it launches stays")
        count = int(works.sum()) or int(host.sum())
        return f"{count} x {pattern} " + ("removed" if factor == 0 else f"x {factor:g}")

    def _named(self, pattern: str) -> Bools:
        names = self._events["name"].array
        hits = [name == pattern or fnmatchcase(name, pattern) for name in names.categories.tolist()]
        found: Bools = np.append(np.array(hits, bool), False)[names.codes]
        return found

    def _scale_work(self, which: Bools, factor: float) -> None:
        self._work_factor[which] *= factor
        if factor == 0:  # what is not there leaves no gap
            gone = which & (self._graph.binding == STREAM)
            self._durations.stream_lag[gone] = 0

    def _is_launch(self) -> Bools:
        found = np.zeros(len(self._events), bool)
        launch = self._graph.works.launch
        found[launch[launch >= 0]] = True
        return found

    def _scale_host(self, rows: Bools, factor: float) -> None:
        """Scale stretches of these rows and of all beneath them, once."""
        beneath = self._beneath(rows)
        owner = self._graph.host.owner
        self._host_factor[(owner >= 0) & beneath[np.maximum(owner, 0)]] *= factor

    def _beneath(self, rows: Bools) -> Bools:
        """These rows and all their descendants: a row's parent stands before it, one generation at a time."""
        parent = self._events["parent"].to_numpy(dtype=np.int64, na_value=-1)
        depth = self._events["depth"].to_numpy()
        found = rows.copy()
        child = np.flatnonzero(parent >= 0)
        child = child[np.argsort(depth[child], kind="stable")]
        for level in np.split(child, np.flatnonzero(np.diff(depth[child])) + 1):
            found[level] |= found[parent[level]]
        return found

    def fuse(self, which: Any, without_operators: bool) -> None:
        """Let device work be one launch."""
        works, now = self._graph.works, self._durations
        fused = np.flatnonzero(self._chosen(which)[works.row])
        if len(fused) < 2:
            raise ValueError(f"fuse names {len(fused)} pieces of device work in this part of the trace; it takes two")
        leader = fused[np.argmin(np.where(works.has_launch[fused], works.issued[fused], np.iinfo(np.int64).max))]
        is_fused = np.zeros(len(works), bool)
        is_fused[fused] = True
        follows = is_fused & np.roll(is_fused, 1) & ~works.is_first
        now.stream_lag[follows] = 0
        # On each stream the first waits for the one launch; the rest follow it in the order of the stream.
        moved = fused[now.has_launch[fused]]
        now.launch_from[moved] = leader
        now.launch_lag[moved] = np.minimum(now.launch_lag[moved], now.launch_lag[leader])
        self._drop_launches(fused, leader, without_operators)
        self.texts.append(f"{len(fused)} pieces of device work as one launch")
        self.assumed.append("fused work takes as long as its parts did, without gaps between neighbours on a stream")
        self.assumed.append("the first launch that is fused stands for all")

    def _chosen(self, which: Any) -> Bools:
        if isinstance(which, str):
            return self._named(which)
        rows = np.asarray(which)
        if rows.dtype == bool:
            if len(rows) != len(self._events):
                raise ValueError(f"fuse is a mask of length {len(rows)}, expected one value per event")
            chosen: Bools = rows
            return chosen
        chosen = np.zeros(len(self._events), bool)
        if len(rows) and (rows.min() < 0 or rows.max() >= len(chosen)):
            raise ValueError(f"fuse names rows outside of the trace's {len(chosen)} events")
        chosen[rows.astype(np.int64)] = True
        return chosen

    def _drop_launches(self, fused: Ints, leader: int, without_operators: bool) -> None:
        launch = self._graph.works.launch
        calls = np.zeros(len(self._events), bool)
        calls[launch[fused][launch[fused] >= 0]] = True
        # A call that launches other work as well has to stay.
        others = np.setdiff1d(np.arange(len(launch)), fused)
        calls[launch[others][launch[others] >= 0]] = False
        if launch[leader] >= 0:
            calls[launch[leader]] = False
        if without_operators:
            calls |= self._idle_operators(calls)
        self._scale_host(calls, 0.0)

    def _idle_operators(self, dropped: Bools) -> Bools:
        """Operators all of whose launches are dropped, and which have some."""
        events, launches = self._events, self._is_launch()
        parent = events["parent"].to_numpy(dtype=np.int64, na_value=-1)
        depth = events["depth"].to_numpy()
        gone, total = (sums_beneath(mask.astype(np.int64), parent, depth) for mask in (dropped, launches))
        found: Bools = is_category(events["cat"].array, ("cpu_op",)) & (gone > 0) & (gone == total)
        return found

    def drop_syncs(self) -> None:
        """Synchronising calls do not wait."""
        self._durations.with_syncs = False
        count = int((self._graph.arrivals.is_sync & (self._graph.arrivals.source >= 0)).sum())
        self.texts.append(f"{count} waits of the host removed")
        self.assumed.append("the host goes on without the values that it waited for, and its queue is never full")

    def overlap_copies(self) -> None:
        """What follows a copy on its stream does not wait for its end."""
        works = self._graph.works
        after = np.roll(works.kind == MEMORY, 1) & ~works.is_first
        self._durations.follows[after] = False
        self.texts.append(f"{int((works.kind == MEMORY).sum())} copies and sets beside other work")
        self.assumed.append("nothing that follows a copy on its stream needs what it copied, and the engines are free")


def _scaled(length: Ints, factor: NDArray[np.float64]) -> Ints:
    scaled: Ints = np.where(factor == 1.0, length, np.rint(length * factor).astype(np.int64))
    return scaled
