"""Rules about a device that stands still because of the host: launching, waiting, reading data, compiling, allocating.

Costs are idle time of the devices, as `cudalens.analysis.findings.idle_attribution` divides it: no idle time is counted
by two of these rules, except that `graphable` counts part of `launch_bound` and then replaces it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis import units
from cudalens.analysis.findings.finding import Confidence, Finding
from cudalens.analysis.findings.idle_attribution import ALLOCATE, COMPILE, LOADER, LONG_NS, Blame, Piece
from cudalens.analysis.findings.repeats import Repeat, find_repeat
from cudalens.analysis.findings.trace_arrays import Scene
from cudalens.analysis.time.intervals import Intervals, intersect, length, union
from cudalens.analysis.time.sync_groups import wait_groups
from cudalens.frames import RUNTIME_CATEGORIES, is_category
from cudalens.frames.build import innermost_event

Ints = NDArray[np.int64]

#: Of the devices' time from first to last work: some gaps between kernels are there in the best of programs.
_LAUNCH_SHARE: Final = 0.10

#: From here launching is the bottleneck and not one of several.
_HIGH_SHARE: Final = 0.30

#: Where so much of the launch gaps lies in repeats, one finding says it all.
_GRAPH_SHARE: Final = 0.05
_SUBSUMES: Final = 0.75

#: Fewer launches are no loop that could be bound by them.
_MIN_LAUNCHES: Final = 20

#: Memory that is asked for in the first third of a run may be the warmup's.
_OTHER_SHARE: Final = 0.05
_MAX_PLACES: Final = 3
_STEADY: Final = 1 / 3


def launching(scene: Scene) -> Iterator[Finding]:
    """``launch_bound`` and ``graphable``: the devices wait between kernels for the host to launch the next one.

    Cost of ``launch_bound``: idle stretches shorter than `LONG_NS` in which the host was launching, and did nothing
    that another rule tells of. Told from a tenth of the devices' time on.

    Cost of ``graphable``: the part of these that lies in stretches where the same sequence of kernels comes again and
    again (`find_repeat`), and the device's own gaps between these kernels, which a replayed graph shortens as well; an
    upper bound, since a graph still needs about a microsecond a kernel. Where that holds most of the first, it stands
    alone.
    """
    parts = scene.blame
    repeat = find_repeat(scene)
    graph = None if repeat is None else _graphable(scene, parts, repeat)
    is_bound = parts.launch.total_ns >= _LAUNCH_SHARE * scene.span_ns and len(parts.launch.start) >= _MIN_LAUNCHES
    if graph is not None:
        yield graph
    if is_bound and not (graph is not None and _within(parts.launch, repeat) >= _SUBSUMES * parts.launch.total_ns):
        yield _launch_bound(scene, parts)


def _launch_bound(scene: Scene, parts: Blame) -> Finding:
    gaps, cost = parts.launch, parts.launch.total_ns
    share = 100 * cost / scene.span_ns
    what = (
        f"the GPU stood still for {units.duration(cost)} ({units.percent(share)} of its time) in "
        f"{units.plural(len(gaps.start), 'gap')} before kernels that the host had not launched yet"
        f"{_slowed(scene)}."
    )
    rows = scene.work.rows[gaps.ended_by]
    return scene.finding(
        "launch_bound",
        "launch overhead",
        what,
        cost,
        scene.dearest(rows, gaps.length),
        "larger batches, torch.compile(model) to fuse small operators, or %%cudagraph where shapes stay the same",
        _sureness(scene, share),
        scene.place(int(rows[np.argmax(gaps.length)])),
    )


def _sureness(scene: Scene, share_pct: float) -> Confidence:
    """Recording Python slows the host several times over, and the launches with it."""
    if scene.has_python:
        return "low" if share_pct < 100 * _HIGH_SHARE else "medium"
    return "high" if share_pct >= 100 * _HIGH_SHARE else "medium"


def _slowed(scene: Scene) -> str:
    return "; recording Python calls slowed the host, so profile without stacks to be sure" if scene.has_python else ""


def _within(piece: Piece, repeat: Repeat | None) -> int:
    if repeat is None:
        return 0
    return length(intersect(union(piece.start, piece.end), Intervals(repeat.start, repeat.end)))


def _graphable(scene: Scene, parts: Blame, repeat: Repeat) -> Finding | None:
    launch, queued = _within(parts.launch, repeat), _within(parts.queued, repeat)
    cost = launch + queued
    if launch < _GRAPH_SHARE * scene.span_ns or repeat.has_graphs:
        return None
    waits = _waits_within(scene, repeat)
    blocker = f"take the {units.plural(waits, 'wait')} for the GPU out of it first, then " if waits else ""
    why = f"{units.duration(launch)} of it" if queued else "all of it"
    what = (
        f"the same {repeat.period} kernels come {repeat.times} times in a row, with gaps of {units.duration(cost)} "
        f"between them ({why} because the host had not launched yet){_slowed(scene)}."
    )
    return scene.finding(
        "graphable",
        "launch overhead in a repeating region",
        what,
        cost,
        scene.work.rows[repeat.first : repeat.first + repeat.period],
        f"{blocker}%%cudagraph on the cell, @cudalens.cudagraph on the function, or "
        'torch.compile(mode="reduce-overhead")',
        "medium" if waits or scene.has_python or not repeat.has_same_grids else "high",
        scene.place(int(scene.work.rows[repeat.first])),
    )


def _waits_within(scene: Scene, repeat: Repeat) -> int:
    at = scene.trace.syncs["ts"].to_numpy()
    place = np.searchsorted(repeat.start, at, "right") - 1
    inside = (place >= 0) & (at < repeat.end[np.maximum(place, 0)])
    # A stretch of n repeats has n waits where each has one.
    return int(np.ceil(inside.sum() / repeat.times))


def waiting(scene: Scene) -> Iterator[Finding]:
    """``host_sync``: the devices run out of work because the host waited for them.

    Cost: idle stretches that begin while the host is in a wait, up to the next work (up to the end of the wait, where
    the host then was long at something else). A wait that leaves no gap costs nothing. One finding for each line.
    """
    piece = scene.blame.sync
    if not piece.total_ns:
        return
    waits = scene.trace.syncs
    keys = ["place", "kind", "op"]
    group = waits.groupby(keys, observed=True, dropna=False, sort=False).ngroup().to_numpy()
    cost = np.bincount(group[piece.wait], weights=piece.length, minlength=int(group.max()) + 1)
    groups = wait_groups(scene.trace)
    for number in np.argsort(-cost, kind="stable")[:_MAX_PLACES].tolist():
        if cost[number] > 0:
            rows = np.flatnonzero(group == number)
            num_gaps = len(np.unique(piece.ended_by[group[piece.wait] == number]))
            yield _waiting(scene, groups, waits.iloc[rows], int(cost[number]), num_gaps)


def _waiting(scene: Scene, groups: pd.DataFrame, waits: pd.DataFrame, cost: int, num_gaps: int) -> Finding:
    first = waits.iloc[0]
    place, kind, op = (None if pd.isna(first[name]) else str(first[name]) for name in ("place", "kind", "op"))
    same = groups[(groups["place"].isin([place])) & (groups["kind"] == kind) & (groups["op"].isin([op]))]
    told = same.iloc[0] if len(same) else None
    expression = next((e for e in (first["expression"], first["source"]) if not pd.isna(e)), None)
    code = f" ({units.shorten(str(expression), 60)})" if expression else f" in {op}" if op else ""
    taken = int(waits["dur"].sum())
    what = (
        f"{units.plural(len(waits), 'wait')} of the host, {kind}{code}, emptied the queue: the GPU then stood still "
        f"for {units.duration(cost)} in {units.plural(num_gaps, 'gap')} (the host waited {units.duration(taken)})."
    )
    events = waits["event"].dropna().to_numpy(dtype=np.int64)
    advice = str(told["advice"]) if told is not None else "read results on the device, and fetch them all at once"
    title = f"waiting for the GPU: {kind}"
    return scene.finding("host_sync", title, what, cost, scene.dearest(events), advice, "high", place)


def reading(scene: Scene) -> Iterator[Finding]:
    """``data_loader``: the device stands still while the program waits for the next batch.

    Cost: idle time within ranges ``enumerate(DataLoader)#…``; without device work, all of these ranges' time.
    """
    rows = scene.host(LOADER)
    if not len(rows):
        return
    times = scene.time_of(rows)
    cost = length(scene.blame.named["loader"]) if len(scene.work.rows) else length(times)
    single = any("SingleProcess" in name for name in scene.events["name"].array[rows].unique())
    lost = "the GPU stood still for" if len(scene.work.rows) else "the program waited"
    what = f"{lost} {units.duration(cost)} in {units.plural(len(rows), 'fetch')} of the next batch ({_how(single)})."
    advice = (
        "DataLoader(num_workers=4, pin_memory=True, persistent_workers=True), so that batches are made meanwhile"
        if single
        else "more workers, a larger prefetch_factor, or cheaper work on each sample (decode and augment ahead)"
    )
    yield scene.finding(
        "data_loader", "waiting for data", what, cost, scene.dearest(rows), advice, "high", _place_of(scene, rows)
    )


def _how(single: bool) -> str:
    return "made in the training process itself, num_workers=0" if single else "made by worker processes"


def compiling(scene: Scene) -> Iterator[Finding]:
    """``compiling``: torch.compile, or the driver's loading of code, within the measured window.

    Cost: idle time of the devices within such events, and before the first device work; without device work, their
    time.
    """
    rows = scene.matching(COMPILE)
    if not len(rows):
        return
    times = scene.time_of(rows)
    cost = length(times)
    if len(scene.work.rows):
        ahead = intersect(times, Intervals(*(np.array([at]) for at in (scene.ts.min(), scene.busy.start[0]))))
        cost = length(scene.blame.named["compile"]) + length(ahead)
    names = scene.events["name"].array[rows]
    largest = str(names[int(np.argmax((scene.end - scene.ts)[rows]))])
    what = f"code was compiled or loaded while it was measured ({units.shorten(largest, 60)}): {units.duration(cost)}."
    advice = (
        "measure after a warmup: %%cudaprofile --warmup 3; where it comes again and again, look for changing shapes"
    )
    yield scene.finding("compiling", "compiling or loading code", what, cost, scene.dearest(rows), advice, "high")


def allocating(scene: Scene) -> Iterator[Finding]:
    """``driver_memory``: memory is asked of the driver, or given back, after the first third of the run.

    Cost: idle time of the devices within such calls of that part; without device work, nothing is told. A caching
    allocator asks at first and then no more, unless memory runs out or comes in ever new sizes.
    """
    rows = scene.matching(ALLOCATE)
    if not len(rows) or not len(scene.work.rows):
        return
    begin = int(scene.ts.min())
    late = rows[scene.ts[rows] >= begin + _STEADY * scene.wall_ns]
    cost = length(intersect(scene.blame.named["allocate"], scene.time_of(late)))
    retries = int((scene.trace.syncs["kind"] == "allocator retry").sum())
    again = f", {units.plural(retries, 'time')} because it had run out" if retries else ""
    what = (
        f"{units.plural(len(late), 'call')} asked the driver for memory or gave it back in the later part of the run"
        f"{again}; the GPU stood still for {units.duration(cost)} meanwhile."
    )
    advice = (
        "lower the peak, or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True against fragmentation"
        if retries
        else "keep torch's allocator warm: no empty_cache() in loops, shapes that repeat, buffers made once"
    )
    yield scene.finding(
        "driver_memory", "asking the driver for memory", what, cost, scene.dearest(late), advice,
        "high" if retries else "medium", _place_of(scene, late),
    )  # fmt: skip


def other_work(scene: Scene) -> Iterator[Finding]:
    """``host_work`` and ``driver_calls``: the device stands still for a millisecond and more while the host is busy.

    Cost: such stretches, but for those that another rule tells of: for ``driver_calls`` those in whose middle a call of
    the runtime or driver was running (a first launch that loads code, a library that sets itself up), for
    ``host_work`` the others. Each is told from a twentieth of the devices' time on. What the host did is the innermost
    event that was running in the middle of the stretch on the thread that then launched.
    """
    piece = scene.blame.busy
    if piece.total_ns < _OTHER_SHARE * scene.span_ns or not piece.total_ns:
        return
    launch = scene.work.launch[piece.ended_by]
    middle = (piece.start + piece.end) // 2
    running = innermost_event(
        scene.events, middle, scene.events["pid"].array[launch], scene.events["tid"].array[launch]
    )
    in_call = is_category(scene.events["cat"].array, RUNTIME_CATEGORIES)[running] & (running >= 0)
    for chosen, told in ((in_call, _driver_calls), (~in_call, _host_work)):
        some = Piece(piece.start[chosen], piece.end[chosen], piece.ended_by[chosen])
        if some.total_ns >= _OTHER_SHARE * scene.span_ns:
            yield told(scene, some, running[chosen])


def _most(piece: Piece, running: Ints) -> int:
    """The event of the name that most of the time went into; -1 for none."""
    return int(running[int(np.argmax(piece.length))]) if len(running) else -1


def _driver_calls(scene: Scene, piece: Piece, running: Ints) -> Finding:
    name = str(scene.events["name"].array[_most(piece, running)])
    what = (
        f"the GPU stood still for {units.duration(piece.total_ns)} in {units.plural(len(piece.start), 'stretch')} "
        f"while the host was inside calls of the driver, the longest {name} "
        f"({units.duration(int(piece.length.max()))})."
    )
    advice = "first launches load code and set libraries up: measure after a warmup, %%cudaprofile --warmup 3"
    return scene.finding(
        "driver_calls", "long driver calls", what, piece.total_ns, scene.dearest(np.unique(running)), advice, "medium",
        scene.place(_most(piece, running)),
    )  # fmt: skip


def _host_work(scene: Scene, piece: Piece, running: Ints) -> Finding:
    row = _most(piece, running)
    name = (
        f"in {units.shorten(str(scene.events['name'].array[row]), 60)}" if row >= 0 else "outside of any recorded event"
    )
    what = (
        f"the GPU stood still for {units.duration(piece.total_ns)} in {units.plural(len(piece.start), 'stretch')} of "
        f"{units.duration(LONG_NS)} and more while the host did something else, the longest time {name}"
        f"{_slowed(scene)}."
    )
    rows = scene.work.rows[piece.ended_by]
    place = scene.place(row if row >= 0 else int(rows[np.argmax(piece.length)]))
    advice = "move that work (logging, metrics, Python loops over elements) out of the loop, or to another thread"
    if not scene.has_python:
        advice += "; %%cudaprofile --stacks names its lines"
    return scene.finding(
        "host_work", "other work of the host", what, piece.total_ns, scene.dearest(rows, piece.length), advice,
        "low" if scene.has_python else "medium", place,
    )  # fmt: skip


#: How much longer than the others a first step has to be; caches and clocks alone make some tenths.
_MIN_STEPS: Final = 4
_WARM: Final = 1.5


def first_step(scene: Scene) -> Iterator[Finding]:
    """``cold_start``: the first of at least four steps took half as long again as the longest of the others.

    Cost: the first step's length less the median of the others.
    """
    rows = scene.host(r"^ProfilerStep#\d+$")
    lengths = (scene.end - scene.ts)[rows]
    if len(rows) < _MIN_STEPS or lengths[0] < _WARM * lengths[1:].max():
        return
    usual = int(np.median(lengths[1:]))
    what = (
        f"the first step took {units.duration(int(lengths[0]))}, the {len(rows) - 1} others {units.duration(usual)}: "
        "it warmed up (memory, libraries, clocks), and is counted with them."
    )
    yield scene.finding(
        "cold_start", "a cold first step", what, int(lengths[0]) - usual, [int(rows[0])],
        "%%cudaprofile --warmup 3 --repeat N, or a schedule with warmup steps", "high",
    )  # fmt: skip


_TAIL_SHARE: Final = 0.20


def idle_ends(scene: Scene) -> Iterator[Finding]:
    """``idle_ends``: the device had nothing to do for a fifth of the window, before its first or after its last work.

    Cost: the longer of the two stretches. Only where a window was measured; a file's begins and ends with its events.
    """
    info = scene.trace.info
    if info.started_ns is None or info.ended_ns is None or not scene.span_ns or info.source.startswith("file:"):
        return
    ahead, after = int(scene.busy.start[0]) - info.started_ns, info.ended_ns - int(scene.busy.end[-1])
    cost = max(ahead, after)
    if cost < _TAIL_SHARE * scene.wall_ns or cost < LONG_NS:
        return
    where = "before the first" if ahead >= after else "after the last"
    row = scene.work.rows[0 if ahead >= after else int(np.argmax(scene.work.end))]
    what = f"the GPU had nothing to do for {units.duration(cost)} {where} of its work."
    advice = "profile the part that uses the GPU alone, or have the host's share of the work done meanwhile"
    yield scene.finding("idle_ends", "a GPU without work", what, cost, [int(row)], advice, "medium")


def _place_of(scene: Scene, rows: Ints) -> str | None:
    return scene.place(int(rows[np.argmax((scene.end - scene.ts)[rows])])) if len(rows) else None
