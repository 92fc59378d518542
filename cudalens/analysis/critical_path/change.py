"""Estimate the effect of changes, by replaying the dependencies of a trace with other durations."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from cudalens.analysis.ancestors import nearest
from cudalens.analysis.critical_path.dependencies import Works
from cudalens.analysis.critical_path.graph import DependencyGraph
from cudalens.analysis.critical_path.replay import Durations, measured, replay
from cudalens.analysis.event_arrays import Floats
from cudalens.analysis.time.averages import chosen_rows, sums_beneath
from cudalens.analysis.time.work import COMMUNICATION, COMPUTE, MEMORY
from cudalens.frames.column_arrays import Bools, Ints, integers, is_category, map_texts, run_starts

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from cudalens.frames import Trace


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
    fuse: str | ArrayLike | None,
    without_operators: bool,
    without_syncs: bool,
    overlap_copies: bool,
) -> WhatIf:
    """See `cudalens.analysis.CriticalPath.what_if`."""
    if not scale and fuse is None and not without_syncs and not overlap_copies:
        raise ValueError("what_if() changes nothing: give scale, fuse, without_syncs or overlap_copies")
    change = Change(trace.events, graph)
    for key, factor in scale.items():
        change.scale(key, factor)
    if fuse is not None:
        change.fuse(_group(fuse, change), without_operators)
    if without_syncs:
        change.drop_syncs()
    if overlap_copies:
        change.overlap_copies()
    length = change.length_ns()
    return WhatIf(length, before_ns, before_ns - length, tuple(change.texts), (*_ALWAYS, *change.assumed, *graph.notes))


def _group(which: Any, change: Change) -> Ints:
    """Group 0 for the selected rows of the events, -1 for the others."""
    rows = change.named(which) if isinstance(which, str) else chosen_rows("fuse", which, len(change.events))
    return np.where(rows, 0, -1)


_KINDS: Final = {"kernels": (COMPUTE, COMMUNICATION), "communication": (COMMUNICATION,), "copies": (MEMORY,)}


class Change:
    """Changes of a graph's durations, and the resulting length.

    Attributes:
        events: The events of the trace.
        texts: The changes, in words.
        assumed: The assumptions, in words.
    """

    def __init__(self, events: pd.DataFrame, graph: DependencyGraph) -> None:
        self.events, self._graph = events, graph
        self._host_factor = np.ones(len(graph.host.start))
        self._work_factor = np.ones(len(graph.works))
        self._durations: Durations = measured(graph)
        self.texts: list[str] = []
        self.assumed: list[str] = []

    def length_ns(self) -> int:
        """Time from the start to the last end with the changes, ns."""
        now = self._durations
        now.host = _scaled(now.host, self._host_factor)
        now.work = _scaled(now.work, self._work_factor)
        return replay(self._graph, now).end - self._graph.window.begin

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
            self.scale_host(self._is_launch(), factor)
            self.assumed.append("the delay from a launch to its work stays")
        else:
            text = self._scale_named(key, factor)
        self.texts.append(text)

    def _scale_named(self, pattern: str, factor: float) -> str:
        named = self.named(pattern)
        works = named[self._graph.works.row]
        host = named & (self._graph.host.of_row >= 0)
        if not works.any() and not host.any():
            raise ValueError(f"{pattern!r} matches no event in this part of the trace")
        self._scale_work(works, factor)
        if host.any():
            self.scale_host(host, factor)
            self.assumed.append(f"host time of {pattern} includes its descendants; its device work stays")
        count = int(works.sum()) or int(host.sum())
        return f"{count} x {pattern} " + ("removed" if factor == 0 else f"x {factor:g}")

    def named(self, pattern: str) -> Bools:
        """Return the rows of events with this name, or with names that match a pattern with ``*``."""
        names = self.events["name"].array
        return map_texts(names, lambda name: name == pattern or fnmatchcase(name, pattern), False)

    def scale_rows(self, rows: Ints, factor: Floats | float) -> None:
        """Scale the device work in these rows of the events by a factor, or by a factor for each."""
        factors = np.ones(len(self.events))
        factors[rows] = factor
        self._scale_work(np.isin(self._graph.works.row, rows), factors[self._graph.works.row])

    def _scale_work(self, which: Bools, factor: Floats | float) -> None:
        self._work_factor[which] *= np.broadcast_to(factor, which.shape)[which]
        self._close_gaps(which & (self._work_factor == 0))

    def _close_gaps(self, which: Bools) -> None:
        """Start work at the end of its predecessor on the stream; work that overlaps it (in damaged files) stays."""
        lag = self._durations.stream_lag
        lag[which] = np.minimum(lag[which], 0)

    def _is_launch(self) -> Bools:
        found = np.zeros(len(self.events), bool)
        launch = self._graph.works.launch
        found[launch[launch >= 0]] = True
        return found

    def scale_host(self, rows: Bools, factor: float) -> None:
        """Scale the host time of these rows of the events and of all their descendants, once."""
        within = nearest(rows, integers(self.events["parent"])) >= 0
        self._host_factor[np.append(within, False)[self._graph.host.owner]] *= factor

    def fuse(self, group: Ints, without_operators: bool, *, as_graph: bool = False) -> None:
        """Combine the device work of each group into one launch.

        Args:
            group: The group of each row of the events, -1 for none; shape (n,).
            without_operators: Also remove operators that launch nothing else.
            as_graph: Also remove all host time from the first to the last launch of a group, as replaying a graph does.
        """
        works, now = self._graph.works, self._durations
        of = group[works.row]
        fused = np.flatnonzero(of >= 0)
        if len(fused) < 2:
            raise ValueError(f"fuse selects {len(fused)} pieces of device work in this part of the trace; it needs two")
        leader = _leaders(works, of, fused)
        follows = (of >= 0) & (of == np.roll(of, 1)) & ~works.is_first
        self._close_gaps(follows)
        # On each stream the first work waits for the one launch; the others follow in the order of the stream.
        moved = now.has_launch[fused]
        now.launch_from[fused[moved]] = leader[moved]
        now.launch_lag[fused[moved]] = np.minimum(now.launch_lag[fused[moved]], now.launch_lag[leader[moved]])
        self._drop_launches(fused, np.unique(leader), without_operators)
        if as_graph:
            self._drop_host_between(fused, leader)
        self.texts.append(f"{len(fused)} pieces of device work as one launch")
        self.assumed.append("fused work takes as long as its parts, without gaps between neighbours on a stream")
        self.assumed.append("the first of the fused launches replaces all")

    def _drop_launches(self, fused: Ints, leaders: Ints, without_operators: bool) -> None:
        launch = self._graph.works.launch
        calls = np.zeros(len(self.events), bool)
        calls[launch[fused][launch[fused] >= 0]] = True
        # A call that launches other work as well stays.
        others = np.setdiff1d(np.arange(len(launch)), fused)
        kept = launch[np.concatenate([others, leaders])]
        calls[kept[kept >= 0]] = False
        if without_operators:
            calls |= self._idle_operators(calls)
        self.scale_host(calls, 0.0)

    def _drop_host_between(self, fused: Ints, leader: Ints) -> None:
        """Remove the host time between the first and the last launch of each group, on the thread of the first."""
        works, host = self._graph.works, self._graph.host
        thread = host.of_row[works.launch]
        mine = works.has_launch[fused] & (thread[fused] == thread[leader])
        fused, leader = fused[mine], leader[mine]
        first, last = (host.at(thread[leader], works.issued[of]) for of in (leader, fused))
        covers = np.zeros(len(host.start) + 1, np.int64)
        np.add.at(covers, first + 1, 1)
        np.add.at(covers, np.maximum(last, first) + 1, -1)
        self._host_factor[np.cumsum(covers)[:-1] > 0] = 0.0

    def _idle_operators(self, dropped: Bools) -> Bools:
        """Operators with launches, all of which are dropped."""
        events, launches = self.events, self._is_launch()
        parent, depth = integers(events["parent"]), events["depth"].to_numpy()
        gone, total = (sums_beneath(mask.astype(np.int64), parent, depth) for mask in (dropped, launches))
        return is_category(events["cat"].array, ("cpu_op",)) & (gone > 0) & (gone == total)

    def drop_syncs(self, rows: Ints | None = None) -> None:
        """Synchronising calls do not wait: those in these rows of the events, by default all."""
        arrivals = self._graph.arrivals
        which = arrivals.is_sync & (True if rows is None else np.isin(arrivals.row, rows))
        self._durations.waits[which] = False
        self.texts.append(f"{int((which & (arrivals.source >= 0)).sum())} waits of the host removed")
        self.assumed.append("the host does not need the values that it waited for, and the queue is never full")

    def overlap_copies(self) -> None:
        """Work after a copy or a set on its stream does not wait for its end."""
        works = self._graph.works
        self.overlap(works.row[works.kind == MEMORY])
        self.texts.append(f"{int((works.kind == MEMORY).sum())} copies and sets overlap other work")
        self.assumed.append("work after a copy on its stream does not need the copied data, and copy engines are free")

    def overlap(self, rows: Ints) -> None:
        """Work after the device work in these rows does not wait for its end."""
        works = self._graph.works
        self._durations.follows[np.roll(np.isin(works.row, rows), 1) & ~works.is_first] = False


def _leaders(works: Works, group: Ints, fused: Ints) -> Ints:
    """For each of `fused`, the work of its group whose launch comes first; shape of `fused`."""
    issued = np.where(works.has_launch[fused], works.issued[fused], np.iinfo(np.int64).max)
    order = np.lexsort((issued, group[fused]))
    first = np.flatnonzero(run_starts(group[fused][order]))
    _, number = np.unique(group[fused], return_inverse=True)
    return fused[order][first][number]


def _scaled(length: Ints, factor: Floats) -> Ints:
    changed = np.flatnonzero(factor != 1.0)
    scaled = length.copy() if len(changed) else length
    scaled[changed] = np.rint(length[changed] * factor[changed])
    return scaled
