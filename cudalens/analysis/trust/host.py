"""Rules about the host's rows and the recording itself: torn call trees, steps, duplicates, rows of another time."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis.time.intervals import length, union
from cudalens.analysis.trust.arrays import Bools, Ints, Look, Suspicion
from cudalens.analysis.units import count, duration, percent, plural
from cudalens.frames import GPU_ACTIVITIES, RUNTIME_CATEGORIES
from cudalens.frames.build import STEP_PREFIX, lanes

#: Categories of which each row is one call, so that two on a thread are nested or apart. A range of the program's own
#: (``user_annotation``) begins in one function and ends in another, so ranges and functions may cross.
_CALLS: Final = (("cpu_op", *RUNTIME_CATEGORIES), ("python_function",))

#: How many Python calls torch's tracer notes that were open when it started (``python_tracer.cpp``).
_FAR_NS: Final = 3600 * 10**9
_PYTHON_DEPTH: Final = 128
_MUCH_OVERHEAD: Final = 0.05
_SLACK_NS: Final = 1_000_000
_SECOND_NS: Final = 1e9
_KEY: Final = ("name", "cat", "thread")
_IDS: Final = ("device", "stream", "pid", "tid", "correlation_id", "external_id", "graph_node_id")

#: Damage of a file after which its events are all there.
_HARMLESS: Final = frozenset(
    {
        "device work without a device, taken as device 0",
        "event that is not strict JSON",
        "invalid UTF-8",
        "something after the list of events",
        "a second list of events, ignored",
    }
)


def torn_trees(look: Look) -> list[Suspicion]:
    """Calls that begin within an earlier call of their thread and end after it."""
    torn, of_python = (_torn(look, categories) for categories in _CALLS)
    what = f"{plural(len(torn), 'call')} that began within another call and ended after it"
    todo = "Parents and self times around them are not sure; a step of the host's clock does this."
    found = look.suspicion("torn calls", "partial", what, torn, todo=todo)
    what = f"{plural(len(of_python), 'Python call')} that began within another one and ended after it"
    todo = "torch's tracer misses the ends of some calls that raise, and of generators; self times there are not sure."
    return found + look.suspicion("torn Python calls", "note", what, of_python, todo=todo)


def _torn(look: Look, categories: tuple[str, ...]) -> Ints:
    """Rows that overlap an earlier row beneath the same parent: of two nested ones, one would be the other's parent."""
    rows = np.flatnonzero(look.is_in(*categories) & look.is_host & ~look.is_async)
    if len(rows) < 2:
        return np.empty(0, np.int64)
    parent = look.link("parent")[rows]
    if (parent < 0).any():
        roots = np.flatnonzero(parent < 0)
        parent[roots] = -1 - lanes(look.key("pid", rows[roots]), look.key("tid", rows[roots]))
    order = np.argsort(parent, kind="stable")
    rows, parent = rows[order], parent[order]
    start, end, slack = look.ts[rows], look.end[rows], look.host_resolution_ns - 1
    is_sibling = parent[1:] == parent[:-1]
    if not (is_sibling & (end[:-1] - start[1:] > slack)).any():
        return np.empty(0, np.int64)  # the first overlap among siblings is one of neighbours
    reach = pd.Series(end).groupby(parent).cummax().to_numpy()
    is_torn = is_sibling & (reach[:-1] - start[1:] > slack) & (end[1:] > start[1:])
    found: Ints = rows[1:][is_torn]
    return found


def steps(look: Look) -> list[Suspicion]:
    """Profiler steps that overlap or are there twice; numbers that were left out."""
    rows, numbers = _steps(look)
    if len(rows) < 2:
        return []
    lane = lanes(look.key("pid", rows), look.key("tid", rows))
    order = np.argsort(lane, kind="stable")
    rows, numbers, lane = rows[order], numbers[order], lane[order]
    is_next = lane[1:] == lane[:-1]
    wrong = is_next & ((look.end[rows[:-1]] - look.ts[rows[1:]] >= look.host_resolution_ns) | (np.diff(numbers) == 0))
    what = f"{plural(int(wrong.sum()), 'profiler step')} that begins before the step before it ended, or is there twice"
    todo = "Figures by step count some rows for the wrong one."
    found = look.suspicion("overlapping steps", "partial", what, rows[1:][wrong], todo=todo)
    left_out = is_next & (np.diff(numbers) > 1)
    what = f"{count(int((np.diff(numbers) - 1)[left_out].sum()))} profiler steps were not recorded"
    return found + look.suspicion("missing steps", "note", what, rows[1:][left_out], todo="A schedule skips steps.")


def _steps(look: Look) -> tuple[Ints, Ints]:
    """Rows of the host's step ranges in time order, and their numbers."""
    names = look.events["name"].array
    texts = enumerate(map(str, names.categories.tolist()))
    tails = {i: text.removeprefix(STEP_PREFIX) for i, text in texts if text.startswith(STEP_PREFIX)}
    number = {i: int(tail) for i, tail in tails.items() if tail.isascii() and tail.isdigit() and len(tail) < 19}
    if not number:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    rows = np.flatnonzero(np.isin(names.codes, list(number)) & look.is_host)
    return rows, np.array([number[int(code)] for code in names.codes[rows]], np.int64)


def duplicates(look: Look) -> list[Suspicion]:
    """Rows that are there twice: same time, name, lane and ids, of which one names a single call or operator."""
    rows = duplicate_rows(look)
    on_device = look.is_device[rows]
    what = f"{plural(int(on_device.sum()), 'device row')} that are there twice"
    todo = "They count twice in sums; whether the file was merged with itself cannot be told."
    found = look.suspicion("duplicate work", "partial", what, rows[on_device], todo=todo)
    what = f"{plural(int((~on_device).sum()), 'row')} of the host that are there twice"
    todo = "The second of each is left out."
    return found + look.suspicion("duplicate rows", "repairable", what, rows[~on_device], todo=todo)


def duplicate_rows(look: Look) -> Ints:
    """The second and further rows of each set of equal rows, ascending."""
    tied = np.zeros(len(look), bool)
    same = (look.ts[1:] == look.ts[:-1]) & (look.dur[1:] == look.dur[:-1])
    tied[1:] |= same
    tied[:-1] |= same
    tied &= ~look.events["is_instant"].to_numpy()
    rows = np.flatnonzero(tied & _has_own_id(look))
    if not len(rows):
        return rows
    keys = {"ts": look.ts[rows], "dur": look.dur[rows]} | {name: look.key(name, rows) for name in _IDS}
    keys |= {name: look.events[name].array.codes[rows] for name in _KEY}
    twice: Ints = rows[pd.DataFrame(keys).duplicated().to_numpy()]
    return twice


def _has_own_id(look: Look) -> Bools:
    """True for rows with an id that no other row of their kind may have: calls, work and operators."""
    by_call = look.is_call | look.is_in(*GPU_ACTIVITIES)
    of_call = ~np.asarray(look.events["correlation_id"].array.isna()) & by_call
    external = look.events["external_id"].array
    of_op = look.is_in("cpu_op") & np.asarray((external > 0).to_numpy(dtype=bool, na_value=False))
    owned: Bools = of_call | of_op
    return owned


def far_rows(look: Look) -> list[Suspicion]:
    """Rows that stand an hour or more from all others, with nothing between: of another clock, or without a time."""
    if len(look) < 2:
        return []
    reach = np.maximum.accumulate(look.end)
    cuts = np.flatnonzero(look.ts[1:] - reach[:-1] >= _FAR_NS) + 1
    if not len(cuts):
        return []
    part = np.zeros(len(look), np.int64)
    part[cuts] = 1
    part = np.cumsum(part)
    sizes = np.bincount(part)
    rows = np.flatnonzero(part != sizes.argmax())
    gap = duration(int((look.ts[cuts] - reach[cuts - 1]).max()))
    what = f"{plural(len(rows), 'row')} {gap} away from all others: of another clock, or without a time of their own"
    return look.suspicion("far away", "partial", what, rows, todo="Spans and idle times that hold them are wrong.")


def outside_window(look: Look) -> list[Suspicion]:
    """Rows of a live run that lie wholly before its recording began, or after it ended."""
    info = look.info
    if info.source.startswith("file:") or info.started_ns is None or info.ended_ns is None:
        return []
    first = info.started_ns - int(_SECOND_NS * (info.start_s or 0)) - _SLACK_NS
    last = info.ended_ns + int(_SECOND_NS * (info.stop_s or 0)) + _SLACK_NS
    kept = ~look.is_in("Trace", "overhead")
    rows = np.flatnonzero(((look.end < first) | (look.ts > last)) & kept)
    what = f"{plural(len(rows), 'row')} outside of the time that was recorded"
    return look.suspicion("outside the window", "partial", what, rows, todo="Shares of the wall time may exceed it.")


def cut_python_stacks(look: Look) -> list[Suspicion]:
    """Threads whose Python calls were open at the start deeper than torch's tracer notes."""
    rows = np.flatnonzero(look.is_in("python_function") & look.is_host)
    if len(rows) < _PYTHON_DEPTH:
        return []
    tid = look.key("tid", rows)
    first = pd.Series(look.ts[rows]).groupby(tid).transform("min").to_numpy()
    at_start = look.ts[rows] == first
    threads, number = np.unique(tid[at_start], return_counts=True)
    cut = np.isin(tid, threads[number >= _PYTHON_DEPTH]) & at_start
    outermost = rows[cut][look.depth_of(rows[cut]) == 0] if cut.any() else rows[:0]
    what = f"Python calls of {plural(len(outermost), 'thread')} lack their outermost callers"
    todo = f"torch's tracer notes the {_PYTHON_DEPTH} innermost calls that are open when it starts."
    return look.suspicion("cut Python stacks", "note", what, outermost, todo=todo)


def damage(look: Look) -> list[Suspicion]:
    """What the reader of a file, or a collector of a live run, could not take."""
    # A file of a virtual device's run keeps that source; what it was read from still counts its entries.
    is_file = look.info.source.startswith("file:") or "file_events" in look.info.options
    found = []
    for problem in look.info.problems:
        is_told = is_file or problem.kind.startswith(("no GPU activity", "profiler failed", "event without a usable"))
        if is_told and problem.kind not in _HARMLESS:
            found.append(
                Suspicion("damage", "partial", problem.kind, np.empty(0, np.int64), problem.count, problem.where)
            )
    return found


def profiler_overhead(look: Look) -> list[Suspicion]:
    """Time in which the profiler itself kept the program waiting, where that is much."""
    rows, window = np.flatnonzero(look.is_in("overhead")), look.host_window
    if not len(rows) or window is None or window[1] <= window[0]:
        return []
    inside = union(np.maximum(look.ts[rows], window[0]), np.minimum(look.end[rows], window[1]))
    share = length(inside) / (window[1] - window[0])
    if share < _MUCH_OVERHEAD:
        return []
    what = f"CUPTI kept the program waiting for {percent(100 * share)} of the recording"
    todo = "Warm up before the recording begins: kernels are loaded and buffers are made on first use."
    return look.suspicion("profiler overhead", "note", what, rows, todo=todo)


def simulated(look: Look) -> list[Suspicion]:
    """Times that no clock measured."""
    if not (look.info.is_simulated and len(look)):
        return []
    spec = look.info.source.removeprefix("virtual:")
    what = f"device times are a model's, of a virtual {spec}; no clock measured them"
    return [Suspicion("simulated", "note", what, np.empty(0, np.int64), 1)]
