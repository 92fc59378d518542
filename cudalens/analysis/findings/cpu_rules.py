"""Rules about runs without a device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cudalens.analysis import units
from cudalens.analysis.findings.finding import Finding
from cudalens.analysis.findings.idle_attribution import LOADER, LONG_NS
from cudalens.analysis.findings.trace_arrays import Scene
from cudalens.analysis.time.intervals import length, subtract, union
from cudalens.frames.threads import threads_of

Ints = NDArray[np.int64]

#: Dispatching an operator from Python takes some microseconds; what takes less is mostly that.
_TINY_NS: Final = 5_000

_MIN_OPS: Final = 500
_SHARE: Final = 0.20
_MIN_GAPS: Final = 500

#: Splitting shorter operators among threads costs about as much as it brings.
_HEAVY_NS: Final = 100_000

#: Two CPUs may be the two threads of one core, which torch counts as one.
_MIN_CPUS: Final = 4

_SIDE_BY_SIDE: Final = 1.5


def tiny_operators(scene: Scene) -> Iterator[Finding]:
    """``tiny_operators``: on the CPU alone, operators so short that calling them is most of the work.

    Cost: the time in which outermost operators shorter than 5 µs ran, on any thread. Told from five hundred of them,
    and a fifth of the measured window, on.
    """
    if len(scene.work.rows):
        return
    ops = _outermost(scene)
    lengths = (scene.end - scene.ts)[ops]
    tiny = lengths < _TINY_NS
    cost = length(scene.time_of(ops[tiny]))
    if tiny.sum() < _MIN_OPS or cost < _SHARE * scene.wall_ns:
        return
    rows = ops[tiny]
    names = scene.events["name"].array[rows]
    most = str(names.categories[int(np.argmax(np.bincount(names.codes)))])
    what = (
        f"{units.count(len(rows))} of {units.plural(len(ops), 'operator')} took less than {units.duration(_TINY_NS)} "
        f"each, {units.duration(cost)} together, most often {most}."
    )
    yield scene.finding(
        "tiny_operators", "tiny operators", what, cost, scene.dearest(rows),
        "work on whole tensors instead of elements, torch.vmap, or torch.compile", "medium",
        scene.place(int(rows[0])),
    )  # fmt: skip


def between_operators(scene: Scene) -> Iterator[Finding]:
    """``python_between``: on the CPU alone, one thread spends its time between operators, in Python.

    Cost: the gaps between the outermost operators of the thread that called the most of them, without waiting for data
    and without gaps of `LONG_NS` and more, which are other work. Told from five hundred of them, and a fifth of the
    measured window, on.
    """
    if len(scene.work.rows):
        return
    ops = _outermost(scene)
    if len(ops) <= _MIN_GAPS:
        return
    mine = ops[scene.thread[ops] == np.bincount(scene.thread[ops]).argmax()]
    mine = mine[np.argsort(scene.ts[mine], kind="stable")]
    start, end = np.maximum.accumulate(scene.end[mine])[:-1], scene.ts[mine][1:]
    gaps = (end > start) & (end - start < LONG_NS)
    cost = length(subtract(union(start[gaps], end[gaps]), scene.time_of(scene.host(LOADER))))
    if gaps.sum() < _MIN_GAPS or cost < _SHARE * scene.wall_ns:
        return
    each = units.duration(cost / int(gaps.sum()))
    slowed = "; recording Python calls made it longer" if scene.has_python else ""
    what = (
        f"one thread called {units.plural(len(mine), 'operator')}, and was in Python between them for "
        f"{units.duration(cost)}, {each} each time{slowed}."
    )
    after = mine[1:][gaps]
    yield scene.finding(
        "python_between", "Python between operators", what, cost, scene.dearest(after, (end - start)[gaps]),
        "work on whole batches instead of elements, torch.vmap, torch.compile; or several processes",
        "low" if scene.has_python else "medium", scene.place(int(after[np.argmax((end - start)[gaps])])),
    )  # fmt: skip


def one_thread(scene: Scene) -> Iterator[Finding]:
    """``one_cpu_thread``: operators that could use several CPUs run on one, because torch was told so.

    Cost: the time of outermost operators of a tenth of a millisecond and more, less what it would be over all CPUs: an
    upper bound. Told of runs without device work in which torch had one thread (``torch.get_num_threads()``) and the
    process four CPUs and more, from a fifth of the measured window on; not where several threads of the program ran
    such operators side by side.
    """
    threads = threads_of(scene.trace.info)
    if len(scene.work.rows) or threads is None or threads.torch != 1 or threads.cpus < _MIN_CPUS:
        return
    ops = _outermost(scene)
    heavy = ops[(scene.end - scene.ts)[ops] >= _HEAVY_NS]
    taken, summed = length(scene.time_of(heavy)), int((scene.end - scene.ts)[heavy].sum())
    cost = round(taken * (1 - 1 / threads.cpus))
    if cost < _SHARE * scene.wall_ns or summed > _SIDE_BY_SIDE * taken:
        return
    what = (
        f"torch computes on 1 thread, and the process may use {threads.cpus} CPUs: "
        f"{units.plural(len(heavy), 'operator')} of {units.duration(_HEAVY_NS)} and more took {units.duration(taken)}."
    )
    yield scene.finding(
        "one_cpu_thread", "one CPU thread", what, cost, scene.dearest(heavy),
        f"torch.set_num_threads({threads.cpus}), or OMP_NUM_THREADS (torchrun and DataLoader workers set it to 1)",
        "medium", scene.place(int(heavy[np.argmax((scene.end - scene.ts)[heavy])])),
    )  # fmt: skip


def _outermost(scene: Scene) -> Ints:
    ops = scene.matching("", ("cpu_op",))
    return ops[np.isin(scene.parent[ops], ops, invert=True)]
