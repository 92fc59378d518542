"""Rules about work that runs piece after piece and might run side by side: streams in turns, threads in one queue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis import units
from cudalens.analysis.findings.finding import Confidence, Finding
from cudalens.analysis.findings.kernel_rules import blocks_per_sm
from cudalens.analysis.findings.trace_arrays import Scene
from cudalens.analysis.time.intervals import Intervals, intersect, length, union
from cudalens.analysis.time.work import COMPUTE

Ints = NDArray[np.int64]

#: Of the lesser stream's time: streams that overlap more than this do run side by side.
_SHARE: Final = 0.05
_TOGETHER: Final = 0.10

#: A kernel whose blocks fill half of the multiprocessors or more leaves little room beside it.
_FULL: Final = 0.50

#: Of all launches: below it threads follow one another, as a backward pass follows its forward.
_MIN_SWITCHES: Final = 20
_MIN_TURNS: Final = 0.10

_ADVICE: Final = (
    "launch the independent part first, wait for the other stream as late as possible (wait_stream, wait_event), and "
    "keep synchronize() and .item() out from between them"
)


def turns(scene: Scene) -> Iterator[Finding]:
    """``streams_in_turns``: compute kernels on several streams of a device that never run at the same time.

    Cost: the time of all streams but the busiest, in kernels with room beside them: fewer blocks than half of the
    multiprocessors (all kernels, where grids are not known). An upper bound: what one stream waits for from the other
    cannot overlap. Told from a twentieth of the devices' time on, where less than a tenth of it overlaps. One finding
    for each device.
    """
    work = scene.work
    compute = work.kind == COMPUTE
    for device in np.unique(work.device[compute]).tolist():
        mine = np.flatnonzero(compute & (work.device == device) & (work.stream >= 0))
        streams = _by_time(scene, mine)
        if len(streams) > 1:
            yield from _in_turns(scene, mine, streams)


def _by_time(scene: Scene, mine: Ints) -> list[tuple[int, Intervals]]:
    """The streams of the work `mine`, each with the time that it was busy; the busiest first."""
    work = scene.work
    found = [
        (int(work.stream[part[0]]), union(work.start[part], work.end[part])) for part in _parts(mine, work.stream[mine])
    ]
    return sorted(found, key=lambda one: -length(one[1]))


def _parts(values: Ints, keys: Ints) -> list[Ints]:
    """The values of each distinct key, in ascending order of keys; those of one key keep their order."""
    order = np.argsort(keys, kind="stable")
    return [part for part in np.split(values[order], np.flatnonzero(np.diff(keys[order])) + 1) if len(part)]


def _in_turns(scene: Scene, mine: Ints, streams: list[tuple[int, Intervals]]) -> Iterator[Finding]:
    work = scene.work
    (busiest, most), *_ = streams
    lesser = mine[work.stream[mine] != busiest]
    beside = union(work.start[lesser], work.end[lesser])
    together = length(intersect(most, beside))
    roomy, known = _with_room(scene, lesser)
    cost = length(union(work.start[roomy], work.end[roomy]))
    if cost < _SHARE * scene.span_ns or together >= _TOGETHER * length(beside) or not cost:
        return
    others = [stream for stream, _ in streams[1:]]
    named = f"stream {others[0]}" if len(others) == 1 else f"{units.plural(len(others), 'other stream')}"
    what = (
        f"kernels on stream {busiest} ({units.duration(length(most))}) and on {named} "
        f"({units.duration(length(beside))}) took turns: {_overlap(together)}."
    )
    yield scene.finding(
        "streams_in_turns", "streams that take turns", what, cost, scene.dearest(work.rows[roomy]), _ADVICE,
        "medium" if known else "low", scene.place(int(work.rows[roomy[np.argmax((work.end - work.start)[roomy])]])),
    )  # fmt: skip


def _overlap(together: int) -> str:
    return f"they ran side by side for {units.duration(together)}" if together else "they never ran side by side"


def _with_room(scene: Scene, index: Ints) -> tuple[Ints, bool]:
    """Of device work those kernels beside which there is room, and whether grids tell that."""
    filled = blocks_per_sm(scene, scene.work.rows[index])
    if np.isnan(filled).all():
        return index, False
    return index[~(filled >= _FULL)], True


def queued_threads(scene: Scene) -> Iterator[Finding]:
    """``threads_on_one_stream``: several host threads launch by turns onto one stream, which runs it in one queue.

    Threads that do so at the same time are independent of each other, or wait for each other on the host. A thread
    counts where its launches and those of others alternate: twenty times and in a tenth of the stream's launches; a
    backward pass follows its forward and does not. Cost: the time of all threads' kernels but the busiest thread's,
    with room beside them as for ``streams_in_turns``. Told from a twentieth of the devices' time on.
    """
    work = scene.work
    index, thread, at = scene.by_launch
    compute = work.kind[index] == COMPUTE
    order = np.flatnonzero(compute)[np.argsort(at[compute], kind="stable")]
    lane = pd.factorize(work.device[index[order]] * (int(work.stream.max(initial=0)) + 2) + work.stream[index[order]])[
        0
    ]
    for part in _parts(order, lane.astype(np.int64)):
        mine, by = index[part], thread[part]
        switches = int((by[1:] != by[:-1]).sum())
        if switches >= max(_MIN_SWITCHES, _MIN_TURNS * len(mine)):
            yield from _queued(scene, int(work.stream[mine[0]]), mine, by)


def _queued(scene: Scene, stream: int, mine: Ints, by: Ints) -> Iterator[Finding]:
    work = scene.work
    numbers, at = np.unique(by, return_inverse=True)
    busy = np.bincount(at, weights=(work.end - work.start)[mine])
    roomy, known = _with_room(scene, mine[at != int(np.argmax(busy))])
    cost = length(union(work.start[roomy], work.end[roomy]))
    if cost < _SHARE * scene.span_ns or not cost:
        return
    told: Confidence = "medium" if known else "low"
    what = (
        f"{units.plural(len(numbers), 'thread')} launched by turns onto stream {stream}, which ran their "
        f"{units.plural(len(mine), 'kernel')} one after another."
    )
    yield scene.finding(
        "threads_on_one_stream", "threads that share a stream", what, cost, scene.dearest(work.rows[roomy]),
        "give each thread a stream of its own: with torch.cuda.stream(torch.cuda.Stream()) around what it runs", told,
        scene.place(int(work.rows[roomy[np.argmax((work.end - work.start)[roomy])]])),
    )  # fmt: skip
