"""Rows of the profiled program: other work is removed, and each row gets its call stack and nn.Module path."""

from __future__ import annotations

import re
import sysconfig
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.device.own_work import MARK, observed, own_threads
from cudalens.frames import RUNTIME_CATEGORIES, RawRows, StackTable, categorical, is_category, nullable, tree
from cudalens.frames.column_arrays import Bools, Ints, integers, map_texts
from cudalens.frames.stacks import OWN_FILES, function_entry
from cudalens.profiler.kineto import ProfilerOptions

_MARGIN_NS: Final = 5_000_000


def without_own_threads(rows: RawRows) -> RawRows:
    """`rows` without those of cudalens's threads; `rows` itself if there are none, which is the usual case."""
    threads = own_threads()
    if not threads or "tid" not in rows.events:
        return rows
    tid = integers(rows.events["tid"])
    ts = np.asarray(rows.events["ts"])
    ours = np.zeros(len(tid), np.bool_)
    for thread in threads:
        # Python calls that start and end a thread may be recorded slightly outside its lifetime.
        mine = (tid == thread.tid) & (ts >= thread.start_ns - _MARGIN_NS)
        ours |= mine if thread.end_ns is None else mine & (ts <= thread.end_ns + _MARGIN_NS)
    if not ours.any():
        return rows
    return selected(rows, ~ours)


def without_earlier_work(rows: RawRows) -> RawRows:
    """`rows` without the device rows before the first work whose call was recorded: they were launched earlier."""
    events = rows.events
    if "device" not in events or "correlation_id" not in events:
        return rows
    on_device = ~np.asarray(events["device"].isna())
    correlation = integers(events["correlation_id"])
    calls = correlation[is_category(events["cat"], RUNTIME_CATEGORIES) & ~on_device & (correlation >= 0)]
    is_launched = on_device & np.isin(correlation, calls)
    ts = np.asarray(events["ts"])
    if not is_launched.any():
        return rows
    is_earlier = on_device & ~is_launched & (ts < ts[is_launched].min())
    return selected(rows, ~is_earlier) if is_earlier.any() else rows


def selected(rows: RawRows, kept: Bools) -> RawRows:
    """Return the rows `kept` of `rows`."""
    mask = None if rows.async_mask is None else rows.async_mask[kept]
    return replace(rows, events={name: column[kept] for name, column in rows.events.items()}, async_mask=mask)


#: The name of the row around a dispatch mode's handler (torch 2.10 and later).
DISPATCH: Final = "PythonDispatchMode"
#: Functions of the observers. `attachment.py` is no such file: it runs the functions of the program's threads.
_OWN_CODE: Final = re.compile(r"(?:^|[/\\])cudalens[/\\]sanitizer[/\\](?:engine|live[/\\](?!attachment))")


def without_own_dispatch(rows: RawRows) -> RawRows:
    """`rows` without the dispatch of cudalens's observers; `rows` itself if there was none, which is the usual case.

    Of several modes that pass an operator on, the outermost is ours: structure and names of the others are the same.
    """
    times, events = observed(), rows.events
    if not times or "tid" not in events or DISPATCH not in events["name"].categories:
        return rows
    ts = np.asarray(events["ts"], np.int64)
    is_own = np.zeros(len(ts), np.bool_)
    for start, end in times:
        is_own |= (ts >= start) & (ts <= end)
    is_dispatch = np.asarray(events["name"] == DISPATCH) & is_own
    if not is_dispatch.any():
        return rows
    parent, order = _tree(rows)
    is_added = _added(rows, is_dispatch, parent, order)
    if "call_line" in events:
        call_line = tree.lines_without(events["call_line"], parent, order, is_added)
        rows = replace(rows, events=events | {"call_line": call_line})
    return selected(rows, ~is_added)


MODULE_PREFIX: Final = "nn.Module: "
_OWN_FUNCTION: Final = re.compile(OWN_FILES)
#: The kernel's own threads run these: its history, its channels, its debugger.
_JUPYTERS_FUNCTION: Final = re.compile(r"(?:^|[/\\])(?:IPython|ipykernel|jupyter_client|tornado|zmq|debugpy)[/\\]")
#: Functions without a file of the program: of torch, of the interpreter, of code that was made from text.
_NOT_OF_A_FILE: Final = re.compile(r"^(?:torch[/\\]|<(?!ipython|cell)|\[)|[/\\]torch[/\\]")
_LIBRARIES: Final = tuple(Path(sysconfig.get_paths()[name]) for name in ("stdlib", "purelib", "platlib"))


def within_window(rows: RawRows, started_ns: int, ended_ns: int) -> RawRows:
    """`rows` with the Python functions of the program alone, within the measured window.

    Removed are cudalens's functions, with all Python functions that they call, and those of Jupyter's threads. A
    function of cudalens in which the program runs (it called an operator, a module, or a function of the program's
    files) stays, because the program's rows are inside of it. Functions that run over an end of the window are cut
    there: those that were running when the profiler started seem to take the time in which cudalens starts and stops.

    Args:
        rows: The rows of a run.
        started_ns: Start of the window, on the clock of the rows.
        ended_ns: Its end.
    """
    events = rows.events
    is_python = is_category(events["cat"], ("python_function",)) if "tid" in events else np.zeros(0, np.bool_)
    if not is_python.any():
        return rows
    is_removed = _not_of_program(rows, is_python, started_ns, ended_ns)
    ts, dur = (np.asarray(events[column], np.int64) for column in ("ts", "dur"))
    end = ts + dur
    start = np.where(is_python & (ts < started_ns) & (end > started_ns), started_ns, ts)
    end = np.where(is_python & (start < ended_ns) & (end > ended_ns), ended_ns, end)
    rows = replace(rows, events=events | {"ts": start, "dur": end - start})
    return selected(rows, ~is_removed) if is_removed.any() else rows


def _not_of_program(rows: RawRows, is_python: Bools, started_ns: int, ended_ns: int) -> Bools:
    """Return which Python functions are cudalens's or Jupyter's."""
    events = rows.events
    names, tid, ts = events["name"], integers(events["tid"]), np.asarray(events["ts"], np.int64)
    is_own = is_python & map_texts(names, lambda text: bool(_OWN_FUNCTION.search(text)), False)
    is_jupyters = is_python & map_texts(names, lambda text: bool(_JUPYTERS_FUNCTION.search(text)), False)
    if not is_own.any() and not is_jupyters.any():
        return np.zeros(len(ts), np.bool_)
    # Calls of the runtime do not count: cudalens waits for the device, and launches graphs.
    is_call = is_category(events["cat"], RUNTIME_CATEGORIES) | map_texts(
        names, lambda name: name.startswith(MARK), False
    )
    is_programs = ~is_python & ~is_call | map_texts(names, _is_of_program, False)
    is_programs &= (ts >= started_ns) & (ts < ended_ns)
    if "is_instant" in events:
        is_programs &= ~np.asarray(events["is_instant"], np.bool_)
    is_removed = is_python & np.isin(tid, np.setdiff1d(tid[is_jupyters], tid[is_programs]))
    if not is_own.any():
        return is_removed
    parent, _ = _tree(rows)
    has_program = np.zeros(len(parent), np.bool_)
    around = np.unique(parent[is_programs])
    while len(around := around[(around >= 0) & ~has_program[around]]):
        has_program[around] = True
        around = np.unique(parent[around])
    is_inside = is_own & ~has_program
    while is_inside.any():
        is_removed |= is_inside
        is_inside = is_python & ~is_removed & (parent >= 0) & is_removed[parent]
    return is_removed


@lru_cache(1 << 16)
def _is_of_program(name: str) -> bool:
    """Return whether a Python function is a module's call, or of a file that is not installed with Python."""
    if name.startswith(MODULE_PREFIX):
        return True
    file, _, function = name.partition("(")
    if not function or _NOT_OF_A_FILE.search(name) or _OWN_FUNCTION.search(name):
        return False
    path = Path(file)
    if path.is_absolute():
        return not any(path.is_relative_to(folder) for folder in _LIBRARIES)
    return not any((folder / path).exists() for folder in _LIBRARIES)


def _added(rows: RawRows, is_dispatch: Bools, parent: Ints, order: Ints) -> Bools:
    """The rows that observers added: dispatches, second rows of operators, and the observers' Python functions."""
    events = rows.events
    name = np.asarray(events["name"].codes, np.int64)
    is_op = is_category(events["cat"], ("cpu_op",))
    is_python = is_category(events["cat"], ("python_function",))
    is_own = is_python & map_texts(events["name"], lambda text: bool(_OWN_CODE.search(text)), False)
    added = np.zeros(len(name), np.bool_)
    inside = np.full(len(name), -1, np.int64)  # the dispatch of which a row is a direct part, by Python functions alone
    answered: set[int] = set()
    for row in order.tolist():
        up = int(parent[row])
        around = -1
        if up >= 0:
            around = up if is_dispatch[up] and added[up] else int(inside[up])
        if is_dispatch[row] and not (up >= 0 and up in answered):
            added[row] = True
        elif is_python[row] and (around >= 0 or is_own[row] or (up >= 0 and is_python[up] and added[up])):
            added[row], inside[row] = True, around
        elif around >= 0 and is_op[row] and around not in answered and _repeats(name, parent, row, around):
            added[row] = True
            answered |= {around, row}
    return added


def _repeats(name: Ints, parent: Ints, row: int, dispatch: int) -> bool:
    """Return whether the operator `row` is the one around the dispatch."""
    outer = int(parent[dispatch])
    return outer >= 0 and bool(name[outer] == name[row])


def _tree(rows: RawRows) -> tuple[Ints, Ints]:
    """Return the row around each host row, -1 for none, and the rows in an order in which enclosing rows come first."""
    ts, dur = (np.asarray(rows.events[column], np.int64) for column in ("ts", "dur"))
    order = tree.sort_order(ts, dur)
    lane = integers(rows.events["tid"])
    if rows.async_mask is not None:
        lane = np.where(rows.async_mask, -1, lane)
    at = tree.parents(ts[order], dur[order], lane[order])
    parent = np.full(len(ts), -1, np.int64)
    parent[order] = np.where(at >= 0, order[at], -1)
    return parent, order


class Chains:
    """The chain of marked ancestors of each row, itself included; equal chains have equal ids.

    Attributes:
        of_row: Id of the chain of each row, -1 for an empty one, shape (n,).
        above: Id of each chain without its innermost member, -1 for none.
        label: The innermost member of each chain.
    """

    def __init__(self, parent: Ints, depth: NDArray[np.int32], marked: Bools, labels: Ints) -> None:
        """Walk down the call tree, one generation at a time.

        Args:
            parent: Row of the parent or -1, shape (n,).
            depth: Number of ancestors, shape (n,).
            marked: Rows that count as members, shape (n,).
            labels: Number of the label of each row, shape (n,).
        """
        self.of_row: Ints = np.full(len(parent), -1, np.int64)
        self.above: list[int] = []
        self.label: list[int] = []
        self._ids: dict[tuple[int, int], int] = {}
        rows = np.argsort(depth, kind="stable")
        levels = depth[rows]
        for level in np.split(rows, np.flatnonzero(np.diff(levels)) + 1):
            up = np.where(parent[level] >= 0, self.of_row[parent[level]], -1)
            self.of_row[level] = up
            members = marked[level]
            self.of_row[level[members]] = self._extended(up[members], labels[level[members]])

    def _extended(self, above: Ints, labels: Ints) -> Ints:
        pairs, codes = np.unique(np.stack([above, labels], axis=1), axis=0, return_inverse=True)
        ids = np.array([self._id(int(up), int(label)) for up, label in pairs], np.int64)
        return ids[codes.reshape(-1)] if len(ids) else above

    def _id(self, above: int, label: int) -> int:
        known = self._ids.setdefault((above, label), len(self.label))
        if known == len(self.label):
            self.above.append(above)
            self.label.append(label)
        return known

    def members(self, chain: int) -> list[int]:
        """Labels of a chain, innermost first."""
        found = []
        while chain >= 0:
            found.append(self.label[chain])
            chain = self.above[chain]
        return found


def python_columns(
    events: pd.DataFrame, options: ProfilerOptions, thread_numbers: dict[int, int]
) -> dict[str, pd.DataFrame]:
    """Fill in the ``stack`` and ``module`` columns of `events` from its rows of Python functions.

    A backward function and all beneath it get the modules of their forward operator, and the stack of the first
    operator with its sequence number on the thread that it names. torch.profiler does the same. Sometimes an operator
    before the forward one, without a gradient, has that number too. Device work gets those of the call that launched
    it.

    Args:
        events: The complete events frame; its two columns are replaced.
        options: What the run recorded.
        thread_numbers: torch's number of each thread by tid.

    Returns:
        The ``stacks`` frame if stacks were requested, else nothing.
    """
    if not options.traces_python or not len(events):
        return {}
    parent = integers(events["parent"])
    depth, names = events["depth"].to_numpy(), events["name"].array
    is_python = is_category(events["cat"].array, ("python_function",))
    backward, above = _backward_rows(events, parent, depth)
    if options.modules:
        of_module = np.append([name.startswith(MODULE_PREFIX) for name in names.categories], False)
        marked = is_python & of_module.astype(bool)[names.codes]
        chains = Chains(parent, depth, marked, names.codes.astype(np.int64))
        forward = integers(events["forward"])[above]
        source = _source_rows(events, backward, forward)
        events["module"] = _paths(chains, _from(source, chains.of_row), names.categories)
    if not options.stacks:
        return {}
    by_python = (parent >= 0) & is_python[parent]
    events["call_line"] = events["call_line"].where(by_python, pd.NA)
    callers = _Callers(events, np.flatnonzero(by_python))
    chains = Chains(parent, depth, callers.label >= 0, callers.label)
    source = _source_rows(events, backward, _first_of_sequence(events, backward, above, thread_numbers))
    # A Python function's own stack is its place in the tree.
    of_row = np.where(is_python, -1, _from(source, chains.of_row))
    events["stack"], stacks = _stacks(chains, of_row, callers.entries)
    return {"stacks": stacks}


class _Callers:
    """The Python function that made each call, with the line at which it did so.

    Attributes:
        label: Number of the entry of the row's caller; -1 if it is not a Python function; shape (n,).
        entries: The entries, as `StackTable` takes them.
    """

    def __init__(self, events: pd.DataFrame, rows: Ints) -> None:
        """Find the callers of `rows`, which Python functions called."""
        names, parent = events["name"].array, integers(events["parent"])
        pairs = np.stack([names.codes[parent[rows]], integers(events["call_line"])[rows]], axis=1)
        distinct, codes = np.unique(pairs, axis=0, return_inverse=True)
        self.label: Ints = np.full(len(parent), -1, np.int64)
        self.label[rows] = codes.reshape(-1)
        self.entries = [function_entry(names.categories[code], line) for code, line in distinct.tolist()]


def _from(source: Ints, chain: Ints) -> Ints:
    return np.where(source >= 0, chain[source], -1)


def _backward_rows(events: pd.DataFrame, parent: Ints, depth: NDArray[np.int32]) -> tuple[Bools, Ints]:
    """Return which rows are part of a backward pass, shape (n,), and the backward function of each of these."""
    forward_thread = integers(events["fwd_tid"])
    nearest = Chains(parent, depth, forward_thread >= 0, np.arange(len(events), dtype=np.int64))
    backward = nearest.of_row >= 0
    return backward, np.array(nearest.label, np.int64)[nearest.of_row[backward]]


def _source_rows(events: pd.DataFrame, backward: Bools, of_backward: Ints) -> Ints:
    """The row whose ancestors apply to each row: itself, `of_backward` for backward ones, the launch of device work.

    -1 if there should be another row and none was recorded.
    """
    source: Ints = np.arange(len(events), dtype=np.int64)
    source[backward] = of_backward
    launch = integers(events["launch"])
    source[launch >= 0] = source[launch[launch >= 0]]
    return source


def _first_of_sequence(events: pd.DataFrame, backward: Bools, above: Ints, thread_numbers: dict[int, int]) -> Ints:
    """The first row outside of backward passes with the sequence number of each of the functions `above`, -1 for none.

    On the thread that the function names; `thread_numbers` has torch's number of each thread by tid.
    """
    forward_thread = integers(events["fwd_tid"])
    sequence = integers(events["sequence_nr"])
    candidates = np.flatnonzero(~backward & (sequence >= 0))
    tid = integers(events["tid"])[candidates]
    number = pd.Series(tid).map(thread_numbers).fillna(-1).to_numpy(dtype=np.int64)
    first: dict[tuple[int, int], int] = {}
    for key, row in zip(zip(sequence[candidates].tolist(), number.tolist(), strict=True), candidates, strict=True):
        first.setdefault(key, int(row))
    wanted = zip(sequence[above].tolist(), forward_thread[above].tolist(), strict=True)
    return np.array([first.get(key, -1) for key in wanted], np.int64)


def _paths(chains: Chains, of_row: Ints, categories: pd.Index) -> pd.Categorical:
    """Chains of modules as text, outermost first, joined by dots."""
    used = np.unique(of_row[of_row >= 0])
    codes = np.full(len(chains.label) + 1, -1, np.int32)
    codes[used] = np.arange(len(used), dtype=np.int32)
    texts = [
        ".".join(categories[label].removeprefix(MODULE_PREFIX) for label in reversed(chains.members(int(chain))))
        for chain in used
    ]
    return categorical(codes[of_row], texts)


def _stacks(chains: Chains, of_row: Ints, entries: list[str]) -> tuple[pd.arrays.IntegerArray, pd.DataFrame]:
    table = StackTable()
    ids = np.full(len(chains.label) + 1, -1, np.int64)
    for chain in np.unique(of_row[of_row >= 0]):
        ids[chain] = table.add([entries[label] for label in chains.members(int(chain))])
    stack = ids[of_row]
    stack[of_row < 0] = -1
    return nullable(np.where(stack < 0, 0, stack), stack < 0), table.to_frame()
