"""The call stacks of all rows for averages: their innermost entries, and the line of the user's code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import pandas as pd

from cudalens.analysis.ancestors import nearest
from cudalens.analysis.time.breakdown import enclosing
from cudalens.frames.column_arrays import Bools, Ints, combined, integers, is_category, run_starts, text_column
from cudalens.frames.stacks import entry_text, user_line

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
        """The `num` innermost entries of each row's stack.

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
            int(c): "\n".join(self._texts[e] for e in both[at] if e >= 0) for c, at in zip(used, first, strict=True)
        }
        dense, distinct = pd.factorize(np.where(result < 0, -1, result))
        of_distinct = np.arange(len(distinct))
        kept = [texts[int(c)] for c in distinct if c >= 0]
        of_distinct = np.append(np.where(distinct < 0, -1, np.cumsum(distinct >= 0) - 1), -1)
        return of_distinct[dense], kept

    def places(self) -> tuple[Ints, list[str]]:
        """The innermost line of the user's code in each row's stack, as ``In[7]:3`` or ``file:line``.

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
        if (found := user_line(entry)) is None:
            return None
        file, line = found
        return f"{self._labels.get(file, file)}:{line}"

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
        within = lacking & (backward >= 0) & (len(self._table) > 0) & ~with_self
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
    what = table[["file", "line", "function"]].drop_duplicates()
    texts = list(map(entry_text, what["file"], what["line"], what["function"]))
    codes, distinct = pd.factorize(np.array([*texts, *names.categories.tolist()], object))
    of_kind = codes[: len(what)]
    kind = combined(table["file"].array.codes, integers(table["line"]), table["function"].array.codes)
    return list(distinct), of_kind[kind].astype(np.int64), np.append(codes[len(what) :], -1).astype(np.int64)


def _is_left_out(entry: str) -> bool:
    return any(one in entry and other in entry for one, other in _LEFT_OUT)


def _cells(trace: Trace) -> dict[str, str]:
    """Labels of the files of a notebook's cells; empty if there are none, or if they are not valid."""
    try:
        return msgspec.json.decode(trace.info.extra.get(CELLS, "{}"), type=dict[str, str])
    except (msgspec.MsgspecError, RecursionError):
        return {}
