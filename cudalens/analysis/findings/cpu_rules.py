"""Rules about runs without device work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from cudalens.analysis import units
from cudalens.analysis.findings.finding import Finding
from cudalens.analysis.findings.idle_attribution import COMPILE, GARBAGE, LOADER, LONG_NS
from cudalens.analysis.findings.trace_arrays import TraceArrays
from cudalens.analysis.time.groups import Intervals, length, subtract, union
from cudalens.analysis.time.work import WAITING
from cudalens.frames.build import STEP_PREFIX
from cudalens.frames.column_arrays import Ints
from cudalens.frames.info import threads_of

#: Dispatching an operator from Python takes some microseconds; a shorter operator is mostly that.
_TINY_NS: Final = 5_000

_MIN_OPS: Final = 500
_SHARE: Final = 0.20
_MIN_GAPS: Final = 500
_MIN_LONG_GAPS: Final = 3

#: Splitting shorter operators among threads costs about as much as it gains.
_HEAVY_NS: Final = 100_000

#: Two CPUs can be the two threads of one core, which torch counts as one.
_MIN_CPUS: Final = 4

_PARALLEL: Final = 1.5


def tiny_operators(arrays: TraceArrays) -> Iterator[Finding]:
    """``tiny_operators``: without device work, operators so short that they are mostly call overhead.

    Cost: the time in which outermost operators shorter than 5 µs ran, on any thread. Threshold: five hundred of them,
    and a fifth of the measured window.
    """
    ops = _outermost(arrays)
    rows = ops[arrays.dur[ops] < _TINY_NS]
    cost = length(arrays.time_of(rows))
    if len(rows) < _MIN_OPS or cost < _SHARE * arrays.wall_ns:
        return
    what = (
        f"{units.count(len(rows))} of {units.plural(len(ops), 'operator')} took less than {units.duration(_TINY_NS)} "
        f"each, {units.duration(cost)} in total, most often {arrays.main_name(rows, np.ones_like(rows))}."
    )
    advice = "operate on whole tensors instead of elements, torch.vmap, or torch.compile"
    place = arrays.place(int(rows[0]))
    yield arrays.finding("tiny_operators", "tiny operators", what, cost, advice, "medium", rows=rows, place=place)


def between_operators(arrays: TraceArrays) -> Iterator[Finding]:
    """``python_between``: without device work, one thread spends its time between operators, in Python.

    Cost: the gaps between the outermost operators of the thread that called the most of them, without waiting for data
    and without gaps of `LONG_NS` or longer, which are other work. Threshold: five hundred of them, and a fifth of the
    measured window.
    """
    rows = _of_one_thread(arrays, _outermost(arrays))
    if len(rows) <= _MIN_GAPS:
        return
    start, end = np.maximum.accumulate(arrays.end[rows])[:-1], arrays.ts[rows][1:]
    is_gap = (end > start) & (end - start < LONG_NS)
    start, end, after = start[is_gap], end[is_gap], rows[1:][is_gap]
    cost = length(subtract(union(start, end), arrays.time_of(arrays.host(LOADER))))
    if len(after) < _MIN_GAPS or cost < _SHARE * arrays.wall_ns:
        return
    slowed = "; recording Python calls made it longer" if arrays.has_python else ""
    what = (
        f"one thread called {units.plural(len(rows), 'operator')}, and ran Python between them for "
        f"{units.duration(cost)}, {units.duration(cost / len(after))} each time{slowed}."
    )
    advice = "operate on whole batches instead of elements, torch.vmap, torch.compile; or several processes"
    yield arrays.finding(
        "python_between", "Python between operators", what, cost, advice, "low" if arrays.has_python else "medium",
        rows=after, weight=end - start, place=arrays.place_of(after, end - start),
    )  # fmt: skip


def outside_operators(arrays: TraceArrays) -> Iterator[Finding]:
    """``python_work``: without device work, the thread with the most operators is mostly outside of them.

    Gain: gaps of `LONG_NS` or longer between its outermost operators, without what other rules report (reading data,
    garbage collection, compiling) and without Python calls in which it only waits. Threshold: `_MIN_LONG_GAPS` of them,
    and a fifth of the measured window.
    """
    rows = _of_one_thread(arrays, _outermost(arrays))
    if len(rows) <= _MIN_LONG_GAPS:
        return
    thread = int(arrays.thread[rows[0]])
    start, end = np.maximum.accumulate(arrays.end[rows])[:-1], arrays.ts[rows][1:]
    is_long = end - start >= LONG_NS
    others = np.flatnonzero(arrays.is_named(f"{LOADER}|{GARBAGE}|{COMPILE}|{WAITING}") & (arrays.thread == thread))
    gaps = subtract(union(start[is_long], end[is_long]), arrays.time_of(others))
    gain = length(gaps)
    if int(is_long.sum()) < _MIN_LONG_GAPS or arrays.is_minor(gain, _SHARE):
        return
    after = rows[1:][is_long]
    calls = _longest_call(arrays, thread, gaps)
    called = "" if calls < 0 else str(arrays.events["name"].array[calls])
    is_named = called and not called.startswith("<built-in ")
    name = f", longest in {units.shorten(called, 60)}" if is_named else ""
    what = (
        f"one thread was outside of torch's operators for {units.duration(gain)} of "
        f"{units.duration(arrays.wall_ns)}, in {units.plural(len(after), 'gap')} of {units.duration(LONG_NS)} or "
        f"more{name}."
    )
    advice = "vectorize that Python code, cache its results, or run it in other processes (DataLoader workers)"
    if not arrays.has_python:
        advice += "; for its lines, profile with %%cudaprofile --stacks"
    place = arrays.place_of(after) if calls < 0 else arrays.place(calls)
    yield arrays.finding(
        "python_work", "Python outside of operators", what, gain, advice, "high",
        rows=after if calls < 0 else np.array([calls]), place=place,
    )  # fmt: skip


def _longest_call(arrays: TraceArrays, thread: int, gaps: Intervals) -> int:
    """The range or Python call of a thread that began in `gaps` and has the longest self time; -1 for none."""
    named = arrays.is_in("python_function", "user_annotation") & (arrays.thread == thread)
    rows = np.flatnonzero(named & ~arrays.is_named(f"^{STEP_PREFIX}|{WAITING}"))
    at = np.searchsorted(gaps.start, arrays.ts[rows], "right") - 1
    rows = rows[(at >= 0) & (arrays.ts[rows] < gaps.end[np.maximum(at, 0)])] if len(gaps.start) else rows[:0]
    return int(rows[np.argmax(arrays.self_dur[rows])]) if len(rows) else -1


def one_thread(arrays: TraceArrays) -> Iterator[Finding]:
    """``one_cpu_thread``: torch uses one thread for operators that could use several CPUs.

    Cost: the time of outermost operators of a tenth of a millisecond or more, minus that time divided by the number of
    CPUs: an upper bound. Reported for runs without device work in which torch had one thread
    (``torch.get_num_threads()``) and the process at least four CPUs, unless threads of the program ran such operators
    in parallel. Threshold: a fifth of the measured window.
    """
    threads = threads_of(arrays.trace.info)
    if threads is None or threads.torch != 1 or threads.cpus < _MIN_CPUS:
        return
    ops = _outermost(arrays)
    heavy = ops[arrays.dur[ops] >= _HEAVY_NS]
    taken = length(arrays.time_of(heavy))
    cost = round(taken * (1 - 1 / threads.cpus))
    if cost < _SHARE * arrays.wall_ns or int(arrays.dur[heavy].sum()) > _PARALLEL * taken:
        return
    what = (
        f"torch uses 1 thread, and the process can use {threads.cpus} CPUs: {units.plural(len(heavy), 'operator')} of "
        f"{units.duration(_HEAVY_NS)} or more took {units.duration(taken)}."
    )
    advice = f"torch.set_num_threads({threads.cpus}), or OMP_NUM_THREADS (torchrun and DataLoader workers set it to 1)"
    yield arrays.finding(
        "one_cpu_thread", "one CPU thread", what, cost, advice, "medium", rows=heavy, place=arrays.place_of(heavy)
    )


def _of_one_thread(arrays: TraceArrays, ops: Ints) -> Ints:
    """Those of `ops` that the thread with the most of them called, in order of their start; none of unknown threads."""
    known = ops[arrays.thread[ops] >= 0]
    if not len(known):
        return known
    rows: Ints = known[arrays.thread[known] == np.bincount(arrays.thread[known]).argmax()]
    return rows[np.argsort(arrays.ts[rows], kind="stable")]


def _outermost(arrays: TraceArrays) -> Ints:
    """Operators that no operator called; none unless it is a run of the CPU."""
    return arrays.outermost(arrays.matching("", "cpu_op")) if arrays.is_cpu_run else np.empty(0, np.int64)
