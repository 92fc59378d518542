"""The keys by which costs can be grouped: a code for every row, and a value for every code."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pandas as pd

from cudalens.analysis.ancestors import nearest
from cudalens.analysis.time.attribution_keys import inherited, own_keys, unnamed_modules
from cudalens.analysis.time.breakdown import enclosing
from cudalens.frames.build import STEP_PREFIX
from cudalens.frames.column_arrays import (
    Bools,
    Ints,
    categorical,
    combined,
    integers,
    is_category,
    run_starts,
    text_column,
)
from cudalens.frames.stacks import ENTRY_COLUMNS, entry_text, function_entry, torchs_text, user_place

if TYPE_CHECKING:
    from cudalens.frames import Trace

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
        self._texts, of_table, of_name = _entry_codes(self._table, names)
        self._of_table = of_table
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


def _entry_codes(table: pd.DataFrame, names: pd.Categorical) -> tuple[list[str], Ints, Ints]:
    """Texts of all entries; the entry of each row of the stack table; the entry that each name would be."""
    what = table[list(ENTRY_COLUMNS)].drop_duplicates()
    texts = list(map(entry_text, *(what[name] for name in ENTRY_COLUMNS)))
    of_names = list(map(function_entry, names.categories.tolist()))
    codes, distinct = pd.factorize(np.array([*texts, *of_names], object))
    of_kind = codes[: len(what)]
    lines = (integers(table[name]) for name in ("line", "first_line"))
    kind = combined(table["file"].array.codes, *lines, table["function"].array.codes)
    return list(distinct), of_kind[kind].astype(np.int64), np.append(codes[len(what) :], -1).astype(np.int64)


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
