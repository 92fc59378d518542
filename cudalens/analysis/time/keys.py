"""Keys by which costs can be grouped, a code for every row: columns, and the module, line or range of a row."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd

from cudalens.analysis.event_arrays import nearest
from cudalens.analysis.time.overlap import enclosing
from cudalens.frames import Trace
from cudalens.frames.build import STEP_PREFIX
from cudalens.frames.column_arrays import (
    Bools,
    Ints,
    categorical,
    combined,
    integers,
    is_category,
    map_texts,
    run_starts,
    text_column,
)
from cudalens.frames.stacks import ENTRY_COLUMNS, OWN_FILES, Place, entry_text, function_entry, torchs_text, user_place

#: Key of `RunInfo.extra` that holds the labels of the files of a notebook's cells, as JSON.
CELLS: Final = "cells"

#: Pairs of texts: torch.profiler leaves out entries with both of them (torch/autograd/profiler_util.py).
_LEFT_OUT: Final = (
    ("autograd/__init__", "_make_grads"),
    ("autograd/__init__", "backward"),
    ("torch/tensor", "backward"),
    ("_internal/common_utils", "prof_callable"),
    ("_internal/common_utils", "prof_func_call"),
    ("_internal/common_utils", "prof_meth_call"),
)


class Stacks:
    """The call stacks of the rows of a Trace: the recorded ones, else those of the Python rows around them.

    A recorded stack is the row's own, or that of the forward operator for rows in its backward. Rows of Python
    functions have none: their stack is the Python rows around them, or within a backward function its stack.
    """

    def __init__(self, trace: Trace) -> None:
        events = trace.events
        self._n = len(events)
        self._table = trace.stacks
        self._stack, self._parent, self._launch = (integers(events[name]) for name in ("stack", "parent", "launch"))
        self._is_python = is_category(events["cat"].array, ("python_function",))
        self._is_backward = integers(events["fwd_tid"], 0) > 0
        self._labels = _cells(trace)
        names = events["name"].array
        # Texts of all entries; the entry of each row of the stack table; the entry that each name would be.
        what = self._table[list(ENTRY_COLUMNS)].drop_duplicates()
        texts = list(map(entry_text, *(what[name] for name in ENTRY_COLUMNS)))
        of_names = list(map(function_entry, names.categories.tolist()))
        codes, distinct = pd.factorize(np.array([*texts, *of_names], object))
        of_kind = codes[: len(what)]
        lines = (integers(self._table[name]) for name in ("line", "first_line"))
        kind = combined(self._table["file"].array.codes, *lines, self._table["function"].array.codes)
        self._texts = list(distinct)
        self._of_table = of_kind[kind].astype(np.int64)
        of_name = np.append(codes[len(what) :], -1).astype(np.int64)
        self._of_row: Ints = np.where(self._is_python, of_name[names.codes], -1)

    def innermost(self, num: int) -> tuple[Ints, list[str]]:
        """Return the `num` innermost entries of each row's stack.

        Returns:
            A code per row, -1 for no stack, shape (n,); and each code's entries, innermost first, a line per entry.
        """
        shown = np.append([not _is_left_out(text) for text in self._texts], False).astype(bool)
        stacks = self._recorded(shown, num)
        source, walked = self._sources()
        own = self._walked(walked, shown, num)
        both = np.concatenate([stacks, own])
        code = combined(*both.T)
        code[(both < 0).all(axis=1)] = -1
        result = np.where(source >= 0, np.append(code[: len(stacks)], -1)[source], -1)
        result[walked] = code[len(stacks) :]
        used, first = np.unique(code, return_index=True)
        texts = {
            int(c): "\n".join(torchs_text(self._texts[e]) for e in both[at] if e >= 0)
            for c, at in zip(used, first, strict=True)
        }
        dense, distinct = pd.factorize(result)
        # Entries that differ only in the line that ran are one for torch.
        labels = text_column(None if c < 0 else texts[int(c)] for c in distinct)
        return np.append(labels.codes, -1).astype(np.int64)[dense], labels.categories.tolist()

    def places(self) -> tuple[Ints, list[str]]:
        """Return the innermost line of the user's code in each row's stack, as ``In[7]:3`` or ``file:line``.

        Returns:
            A code per row, -1 for none, shape (n,); and the texts.
        """
        labels = text_column(map(self._label, self._texts))
        of_entry = np.append(labels.codes, -1).astype(np.int64)
        is_users = of_entry >= 0
        stacks = self._recorded(is_users, 1)[:, 0]
        source, walked = self._sources(with_self=True)
        result = np.full(self._n, -1, np.int64)
        at = source >= 0
        result[at] = of_entry[stacks[source[at]]]
        row = np.where(self._launch[walked] >= 0, self._launch[walked], walked)
        users_row = nearest(is_users[self._of_row], self._parent)[row]
        result[walked] = of_entry[np.append(self._of_row, -1)[users_row]]
        return result, labels.categories.tolist()

    def _label(self, entry: str) -> str | None:
        place = user_place(entry)
        return None if place is None else place._replace(file=self._labels.get(place.file, place.file)).text()

    def _recorded(self, counted: Bools, num: int) -> Ints:
        """The innermost `num` counted entries of each recorded stack, -1 beyond its end; shape (num stacks, num)."""
        owner, position = self._table["stack"].to_numpy(), self._table["position"].to_numpy()
        keep = counted[self._of_table]
        order = np.lexsort((position[keep], owner[keep]))
        owner, entry = owner[keep][order], self._of_table[keep][order]
        matrix = np.full((int(self._table["stack"].max()) + 1 if len(self._table) else 0, num), -1, np.int64)
        if len(owner):
            begin = np.flatnonzero(run_starts(owner))
            rank = np.arange(len(owner)) - np.repeat(begin, np.diff(np.append(begin, len(owner))))
            inner = rank < num
            matrix[owner[inner], rank[inner]] = entry[inner]
        return matrix

    def _sources(self, *, with_self: bool = False) -> tuple[Ints, Ints]:
        """The recorded stack of each row, -1 for none; and the rows that use the Python rows around them instead."""
        source = self._stack.copy()
        if not self._is_python.any():
            return source, np.empty(0, np.int64)
        lacking = self._is_python & (source < 0) if len(self._table) else np.ones(self._n, bool)
        backward = nearest(self._is_backward, self._parent)
        takes_backwards = len(self._table) > 0 and not with_self
        within = lacking & (backward >= 0) & takes_backwards
        source[within] = self._stack[backward[within]]
        return source, np.flatnonzero(lacking & ~within)

    def _walked(self, rows: Ints, counted: Bools, num: int) -> Ints:
        """The nearest `num` Python rows around each of `rows` as entries, -1 for none; shape (len(rows), num)."""
        matrix = np.full((len(rows), num), -1, np.int64)
        if not len(rows):
            return matrix
        counts = counted[self._of_row]
        start = np.where(self._launch[rows] >= 0, self._launch[rows], rows)
        above = np.append(enclosing(self._parent, counts), -1)
        at = above[start]
        for k in range(num):
            matrix[at >= 0, k] = self._of_row[at[at >= 0]]
            at = above[at]
        return matrix


def _is_left_out(entry: str) -> bool:
    return any(one in entry and other in entry for one, other in _LEFT_OUT)


def _cells(trace: Trace) -> dict[str, str]:
    """Labels of the files of a notebook's cells; empty if there are none, or if they are not valid."""
    try:
        return msgspec.json.decode(trace.info.extra.get(CELLS, "{}"), type=dict[str, str])
    except (msgspec.MsgspecError, RecursionError):
        return {}


#: The one name under which all steps are averaged, as torch does.
STEP_NAME: Final = "ProfilerStep*"

#: Largest number of entries of a stack key.
MAX_STACK: Final = 64

_STACK: Final = re.compile(r"stack:([1-9]\d{0,5})")

#: From row numbers to a column of the key's values there.
Values = Callable[[Ints], Any]


def with_torch_groups(by: Sequence[str] | str, *, by_input_shape: bool, stack_entries: int) -> tuple[str, ...]:
    """Return the keys of `by`, and those that torch.profiler's options of ``key_averages`` stand for."""
    keys = [by] if isinstance(by, str) else list(by)
    if by_input_shape and "input_shapes" not in keys:
        keys.append("input_shapes")
    if stack_entries > 0:
        keys.append(f"stack:{stack_entries}")
    return tuple(keys)


def check_keys(by: Sequence[str] | str) -> tuple[str, ...]:
    """Check and return the keys of `by`.

    Raises:
        TypeError: `by` has other values than texts.
        ValueError: A key is unknown or repeated, or there is none.
    """
    keys = (by,) if isinstance(by, str) else tuple(by)
    choices = ", ".join((*COLUMNS, "stack:<entries>"))
    if not keys:
        raise ValueError(f"by is empty; give at least one of: {choices}")
    for key in keys:
        if not isinstance(key, str):
            raise TypeError(f"by has {key!r}, expected texts out of: {choices}")
        match = _STACK.fullmatch(key)
        if key not in COLUMNS and (match is None or int(match[1]) > MAX_STACK):
            hint = f" (stack:1 to stack:{MAX_STACK})" if key.startswith("stack") else ""
            raise ValueError(f"by holds {key!r}{hint}; there are: {choices}")
    doubles = {"stack" if key.startswith("stack:") else key for key in keys}
    if len(doubles) < len(keys):
        raise ValueError(f"by={list(keys)} names a key twice")
    return keys


def column_of(key: str) -> str:
    """Return the column that holds the values of `key`."""
    return "stack" if key.startswith("stack:") else key


def codes_of(trace: Trace, key: str, stacks: Callable[[], Stacks]) -> tuple[Ints, Values]:
    """Return a code for each row's value of `key` (equal values, equal codes; -1 for none), and the values by row.

    Args:
        trace: Any Trace.
        key: One of `COLUMNS`, or ``stack:N``.
        stacks: Gives the Trace's stacks, for keys that need them.
    """
    match = _STACK.fullmatch(key)
    if match is not None:
        return _texts(*stacks().innermost(int(match[1])))
    if key == "cell_line":
        return _texts(*stacks().places())
    if key == "module" and len(unnamed_modules(trace.events)):
        return _texts(*_modules_around(trace))
    return COLUMNS[key](trace.events)


def step_names(names: pd.Categorical) -> tuple[Ints, list[str]]:
    """Codes and texts of the names with every step under one name."""
    return _recoded(names, lambda text: STEP_NAME if text.startswith(STEP_PREFIX) else text)


def _recoded(column: pd.Categorical, function: Callable[[str], str]) -> tuple[Ints, list[str]]:
    """Codes and texts of a column after `function` of each text."""
    texts = text_column(map(function, column.categories.tolist()))
    return np.append(texts.codes, -1).astype(np.int64)[column.codes], texts.categories.tolist()


def _texts(codes: Ints, texts: list[str]) -> tuple[Ints, Values]:
    return codes, lambda rows: categorical(codes[rows], texts)


def _modules_around(trace: Trace) -> tuple[Ints, list[str]]:
    """Return the module of each row, for device work that of its launch, from the calls of modules."""
    events = trace.events
    parent, forward, launch = (integers(events[link]) for link in ("parent", "forward", "launch"))
    key, texts = own_keys(trace, "module")
    key = inherited(key, parent, forward)
    return np.where(launch >= 0, key[launch], key), texts


def _by_name(events: pd.DataFrame) -> tuple[Ints, Values]:
    return _texts(*step_names(events["name"].array))


def _by_shapes(events: pd.DataFrame) -> tuple[Ints, Values]:
    """Shapes as torch.profiler groups them: a list of tensors is ``[]``, whatever their shapes are."""
    return _texts(*_recoded(events["shapes"].array, _flat))


def _flat(text: str) -> str:
    try:
        shapes = msgspec.json.decode(text, type=list[Any])
    except (msgspec.MsgspecError, RecursionError):
        return text
    is_nested = [isinstance(shape, list) and any(isinstance(size, list) for size in shape) for shape in shapes]
    flat = [[] if nested else shape for nested, shape in zip(is_nested, shapes, strict=True)]
    return msgspec.json.encode(flat).decode()


def _by_category(column: str, events: pd.DataFrame) -> tuple[Ints, Values]:
    values = events[column].array
    return values.codes.astype(np.int64), values.take


def _by_number(column: str, events: pd.DataFrame) -> tuple[Ints, Values]:
    values = events[column].array
    known = ~np.asarray(values.isna())
    codes = np.full(len(values), -1, np.int64)
    codes[known] = pd.factorize(values[known].to_numpy(dtype=np.int64))[0]
    return codes, values.take


def _from_stacks(events: pd.DataFrame) -> tuple[Ints, Values]:
    raise AssertionError("codes_of reads these from the stacks")


#: Keys by name, without ``stack:N``.
COLUMNS: Final[dict[str, Callable[[pd.DataFrame], tuple[Ints, Values]]]] = {
    "name": _by_name,
    "input_shapes": _by_shapes,
    "module": partial(_by_category, "module"),
    "cell_line": _from_stacks,
    "stream": partial(_by_number, "stream"),
    "device": partial(_by_number, "device"),
    "tid": partial(_by_number, "tid"),
    "thread": partial(_by_category, "thread"),
    "step": partial(_by_number, "step"),
    "cat": partial(_by_category, "cat"),
    "shapes": partial(_by_category, "shapes"),
    "dtypes": partial(_by_category, "dtypes"),
}


MODULE_PREFIX: Final = "nn.Module: "


_PYTHON: Final = re.compile(r"^(?P<file>.+)\(\d{1,9}\): (?P<function>.*)", re.DOTALL)
#: A `Place` without a line, as text.
_FUNCTION_PLACE: Final = re.compile(r".* \((?P<file>.*)\)$", re.DOTALL)


#: Files of libraries.
_LIBRARY: Final = re.compile(
    rf"(?:^|[/\\])(?:site-packages|dist-packages|lib[/\\]python3[^/\\]*)[/\\]|^(?:torch|<frozen)\b|{OWN_FILES}"
)


#: Modules that enclose a program: Python's own, notebooks, launchers, test runners.
_LIBRARY_MODULES: Final = sys.stdlib_module_names | {
    *("IPython", "ipykernel", "ipykernel_launcher", "traitlets", "tornado", "zmq", "jupyter_client", "nbclient"),
    *("torch", "accelerate", "lightning", "pytorch_lightning", "ray", "pytest", "_pytest", "pluggy", "cudalens"),
}


_CELL: Final = re.compile(r"(?:ipykernel_\d+[/\\]\d+\.py|<ipython-input-(?P<number>\d+)-[^>]*>)$")


def own_keys(trace: Trace, by: str) -> tuple[Ints, list[str]]:
    """Return the own key of each row: its number among the texts, -1 for none; shape (n,)."""
    events = trace.events
    names = events["name"].array
    if by == "op":
        return _named(events, ("cpu_op",), [str(name) for name in names.categories.tolist()])
    if by == "range":
        texts = [None if name.startswith(STEP_PREFIX) else str(name) for name in names.categories.tolist()]
        return _named(events, ("user_annotation",), texts)
    if by == "module":
        return _module_keys(events)
    return _line_keys(trace)


def _named(
    events: pd.DataFrame, categories: tuple[str, ...], texts: list[str | None] | list[str]
) -> tuple[Ints, list[str]]:
    """Return the names of rows of some categories as keys; none if the name's text is None."""
    known = [text for text in dict.fromkeys(texts) if text is not None]
    place = {text: number for number, text in enumerate(known)}
    of_name = np.array([*(place.get(text, -1) if text is not None else -1 for text in texts), -1], np.int64)
    key = np.where(is_category(events["cat"].array, categories), of_name[events["name"].array.codes], -1)
    return key, known


def _module_keys(events: pd.DataFrame) -> tuple[Ints, list[str]]:
    """The ``module`` column; for ``nn.Module`` calls without one, as in files, the chain of calls around them."""
    column = events["module"].array
    codes, texts = column.codes.astype(np.int64), [str(text) for text in column.categories.tolist()]
    rows = unnamed_modules(events)
    if not len(rows):
        return codes, texts
    chain, paths = _module_chains(events)
    known = {text: number for number, text in enumerate(texts)}
    of_path = np.array([known.setdefault(path, len(known)) for path in paths], np.int64)
    codes[rows] = of_path[chain[rows]]
    return codes, list(known)


def unnamed_modules(events: pd.DataFrame) -> Ints:
    """Rows of calls of nn.Modules without a ``module``: files have it for operators only, or not at all."""
    is_module = map_texts(events["name"].array, lambda name: name.startswith(MODULE_PREFIX), False)
    calls = is_module & is_category(events["cat"].array, ("python_function",))
    return np.flatnonzero(calls & (events["module"].array.codes < 0))


def _module_chains(events: pd.DataFrame) -> tuple[Ints, list[str]]:
    """For each call of an nn.Module its path, the modules around it and itself with dots; -1 for other rows."""
    parent = integers(events["parent"])
    texts = [
        name.removeprefix(MODULE_PREFIX) if name.startswith(MODULE_PREFIX) else None
        for name in events["name"].cat.categories.tolist()
    ]
    marked, labels = _named(events, ("python_function",), texts)
    rows = np.flatnonzero(marked >= 0)
    key, paths = np.full(len(events), -1, np.int64), dict[str, int]()
    closest, paths_of = nearest(marked >= 0, parent), np.full(len(events), "", object)
    for row in rows.tolist():  # calls of modules are few compared with other events
        outer = paths_of[closest[parent[row]]] if parent[row] >= 0 and closest[parent[row]] >= 0 else ""
        paths_of[row] = f"{outer}.{labels[marked[row]]}" if outer else labels[marked[row]]
        key[row] = paths.setdefault(paths_of[row], len(paths))
    return key, list(paths)


def _line_keys(trace: Trace) -> tuple[Ints, list[str]]:
    """Return the innermost line of the user's code in each row's call stack; its function where no line is known."""
    texts: dict[str, int] = {}
    names, parent = trace.events["name"].array, integers(trace.events["parent"])
    is_python = is_category(trace.events["cat"].array, ("python_function",))
    called = [_PYTHON.match(name) for name in names.categories.tolist()]
    files = [_user_file(match["file"]) if match else None for match in called]
    functions = [
        texts.setdefault(Place(file, None, match["function"]).text(), len(texts)) if match and file else -1
        for match, file in zip(called, files, strict=True)
    ]
    key = np.where(is_python, np.array([*functions, -1], np.int64)[names.codes], -1)
    # A call within a function of the user, other than that of another one, is the user's line.
    line = integers(trace.events["call_line"])
    rows = np.flatnonzero((line >= 0) & (key < 0) & (parent >= 0))
    rows = rows[key[parent[rows]] >= 0]
    for row, code, at in zip(rows.tolist(), names.codes[parent[rows]].tolist(), line[rows].tolist(), strict=True):
        key[row] = texts.setdefault(f"{files[code]}:{at}", len(texts))
    of_stack = {stack: texts.setdefault(text, len(texts)) for stack, text in _stack_places(trace.stacks).items()}
    stack, distinct = pd.factorize(trace.events["stack"])
    by_stack = np.array([*(of_stack.get(int(number), -1) for number in distinct), -1], np.int64)[stack]
    return np.where(by_stack >= 0, by_stack, key), list(texts)


def _stack_places(stacks: pd.DataFrame) -> dict[int, str]:
    """Return the innermost place of the user's code in each stack that has one, by its id."""
    places: dict[int, str] = {}
    columns = (stacks[name].astype(object) for name in ("stack", "file", "line", "first_line", "function"))
    for stack, file, line, first_line, function in zip(*columns, strict=True):
        is_known = isinstance(file, str) and not (pd.isna(line) and pd.isna(first_line))
        if stack not in places and is_known and (label := _user_file(file)):
            places[stack] = Place(label, None if pd.isna(line) else int(line), str(function)).text()
    return places


def is_library_call(name: str) -> bool:
    """Whether the name of a Python call is of a library: ``asyncio/events.py(80): _run``, ``<built-in method ...>``.

    torch shortens paths by the entries of ``sys.path``. So a library's file is known by its first folder or module.
    """
    match = _PYTHON.match(name)
    if match is None:
        return False
    return is_library_place(match["file"]) or _user_file(match["file"]) is None


def is_library_place(place: str) -> bool:
    """Whether a file, or a `Place` as text, is of Python, a notebook's kernel, a launcher, a test runner or torch."""
    match = _FUNCTION_PLACE.match(place)
    file = match["file"] if match else place
    top = file.partition(":")[0].replace("\\", "/").partition("/")[0].removesuffix(".py")
    return top in _LIBRARY_MODULES


def _user_file(file: str) -> str | None:
    """``In[n]`` for a notebook's cell, the file itself for other files of the user, None for libraries."""
    if (file.startswith("<") and not _CELL.search(file)) or _LIBRARY.search(file):
        return None
    if (cell := _CELL.search(file)) and cell["number"]:
        return f"In[{cell['number']}]"
    return file


def inherited(key: Ints, parent: Ints, forward: Ints) -> Ints:
    """Return each row's key: its own, or its forward operator's, or that of its parent, and so on; shape (n,).

    A backward row takes its forward operator's key if there is one, whatever its parent's key is.
    """
    with_forward = _resolved(key, np.where(forward >= 0, forward, np.where(key >= 0, -1, parent)))
    own = np.where(with_forward >= 0, with_forward, key)
    return _resolved(own, np.where(own >= 0, -1, parent))


def _resolved(key: Ints, link: Ints) -> Ints:
    """Return the key at the end of each row's links, which all lead to earlier rows."""
    at = np.where(link >= 0, link, np.arange(len(link)))
    while True:
        further = at[at]
        if (further == at).all():
            return key[at] if len(at) else key
        at = further
