"""What a row's call stack says for averages: its innermost entries, and the user's line, for every row at once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.frames import is_category

if TYPE_CHECKING:
    from cudalens.frames import Trace

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Key of `RunInfo.extra` under which a live run tells what its notebook called the files of its cells, as JSON.
CELLS: Final = "cells"

#: Entries with both texts in them are machinery, which torch.profiler leaves out (torch/autograd/profiler_util.py).
_LEFT_OUT: Final = (
    ("autograd/__init__", "_make_grads"),
    ("autograd/__init__", "backward"),
    ("torch/tensor", "backward"),
    ("_internal/common_utils", "prof_callable"),
    ("_internal/common_utils", "prof_func_call"),
    ("_internal/common_utils", "prof_meth_call"),
)

_NOT_USERS: Final = re.compile(
    r"^(?:torch[/\\]|<built-in |<frozen |nn\.Module: |\[)|[/\\]torch[/\\]"
    r"|[/\\]cudalens[/\\](?:device|virtual|sanitizer|profiler|graphs|memory)[/\\]"
    r"|(?:^|[/\\])(?:contextlib|functools|threading)\.py"
)
_ENTRY: Final = re.compile(r"^(?P<file>.*)\((?P<line>\d{1,9})\): ", re.DOTALL)


class Stacks:
    """The call stacks of the rows of a Trace: those that were recorded, else those that the Python rows around tell.

    What is recorded is the row's own stack, or that of the forward operator for what runs in its backward. Rows of
    Python functions have none recorded: theirs are the Python rows above them, or within a backward function its stack.
    """

    def __init__(self, trace: Trace) -> None:
        events = trace.events
        self._n = len(events)
        self._table = trace.stacks
        self._stack: Ints = _plain(events["stack"].array)
        self._parent: Ints = _plain(events["parent"].array)
        self._launch: Ints = _plain(events["launch"].array)
        self._is_python = is_category(events["cat"].array, ("python_function",))
        self._is_backward = events["fwd_tid"].array.to_numpy(dtype=np.int64, na_value=0) > 0
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
        code = np.zeros(len(both), np.int64)
        for k in range(num):
            code = pd.factorize(code * (len(self._texts) + 1) + both[:, k] + 1)[0].astype(np.int64)
        empty = (both < 0).all(axis=1)
        code[empty] = -1
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
        """The user's innermost line of each row's stack, as ``In[7]:3`` or ``file:line``.

        Returns:
            A code per row, -1 where no entry is the user's, shape (n,); and the texts.
        """
        told = [self._label(text) for text in self._texts]
        codes, texts = pd.factorize(np.array(told, object))
        of_entry = np.append(codes, -1).astype(np.int64)
        is_users = of_entry >= 0
        stacks = self._recorded(is_users, 1)[:, 0]
        source, walked = self._sources(with_self=True)
        result = np.full(self._n, -1, np.int64)
        at = source >= 0
        result[at] = of_entry[stacks[source[at]]]
        row, left = np.where(self._launch[walked] >= 0, self._launch[walked], walked), np.arange(len(walked))
        users_row = is_users[self._of_row]
        while len(left):
            hit = users_row[row[left]]
            result[walked[left[hit]]] = of_entry[self._of_row[row[left[hit]]]]
            left = left[~hit]
            row[left] = self._parent[row[left]]
            left = left[row[left] >= 0]
        return result, list(texts)

    def _label(self, entry: str) -> str | None:
        match = _ENTRY.match(entry)
        if match is None or _NOT_USERS.search(entry):
            return None
        return f"{self._labels.get(match['file'], match['file'])}:{match['line']}"

    def _recorded(self, counted: Bools, num: int) -> Ints:
        """The innermost `num` entries that count of each recorded stack, -1 beyond its end; shape (num stacks, num)."""
        owner, position = self._table["stack"].to_numpy(), self._table["position"].to_numpy()
        keep = counted[self._of_table]
        order = np.lexsort((position[keep], owner[keep]))
        owner, entry = owner[keep][order], self._of_table[keep][order]
        matrix = np.full((int(self._table["stack"].max()) + 1 if len(self._table) else 0, num), -1, np.int64)
        if len(owner):
            begin = np.flatnonzero(np.append(True, owner[1:] != owner[:-1]))
            rank = np.arange(len(owner)) - np.repeat(begin, np.diff(np.append(begin, len(owner))))
            inner = rank < num
            matrix[owner[inner], rank[inner]] = entry[inner]
        return matrix

    def _sources(self, *, with_self: bool = False) -> tuple[Ints, Ints]:
        """The recorded stack that speaks for each row, -1 for none; and the rows whose Python rows speak instead."""
        source = self._stack.copy()
        if not self._is_python.any():
            return source, np.empty(0, np.int64)
        lacking = self._is_python & (source < 0) if len(self._table) else np.ones(self._n, bool)
        backward = self._nearest(self._is_backward, np.arange(self._n))
        within = lacking & (backward >= 0) & (len(self._table) > 0) & ~with_self
        source[within] = self._stack[backward[within]]
        return source, np.flatnonzero(lacking & ~within)

    def _walked(self, rows: Ints, counted: Bools, num: int) -> Ints:
        """The names of the nearest `num` Python rows above each of `rows`, -1 beyond; shape (len(rows), num)."""
        matrix = np.full((len(rows), num), -1, np.int64)
        if not len(rows):
            return matrix
        counts = counted[self._of_row]
        start = np.where(self._launch[rows] >= 0, self._launch[rows], rows)
        nearest = self._nearest(counts, self._parent)
        at = nearest[start]
        for k in range(num):
            matrix[at >= 0, k] = self._of_row[at[at >= 0]]
            at = np.where(at >= 0, nearest[at], -1)
        return matrix

    def _nearest(self, wanted: Bools, begin: Ints) -> Ints:
        """From `begin` on upwards the first row that is wanted, -1 where there is none; shape (n,)."""
        at = begin.copy()
        if not wanted.any():
            return np.full(len(at), -1, np.int64)
        left = np.flatnonzero((at >= 0) & ~wanted[at])
        while len(left):
            at[left] = self._parent[at[left]]
            left = left[at[left] >= 0]
            left = left[~wanted[at[left]]]
        return at


def _plain(values: Any) -> Ints:
    plain: Ints = values.to_numpy(dtype=np.int64, na_value=-1)
    return plain


def _entry_codes(table: pd.DataFrame, names: pd.Categorical) -> tuple[list[str], Ints, Ints]:
    """Texts of all entries; the entry of each row of the stack table; the entry that each name would be."""
    what = table[["file", "line", "function"]].drop_duplicates()
    texts = [
        str(function) if pd.isna(file) or pd.isna(line) else f"{file}({line}): {function}"
        for file, line, function in zip(what["file"], what["line"], what["function"], strict=True)
    ]
    codes, distinct = pd.factorize(np.array([*texts, *names.categories.tolist()], object))
    of_kind = codes[: len(what)]
    keys = [table["file"].cat.codes, table["line"].fillna(-1).astype(np.int64), table["function"].cat.codes]
    combined = np.zeros(len(table), np.int64)
    for key in keys:
        part, kinds = pd.factorize(key.to_numpy())
        combined = pd.factorize(combined * max(len(kinds), 1) + part)[0].astype(np.int64)
    return list(distinct), of_kind[combined].astype(np.int64), np.append(codes[len(what) :], -1).astype(np.int64)


def _is_left_out(entry: str) -> bool:
    return any(one in entry and other in entry for one, other in _LEFT_OUT)


def _cells(trace: Trace) -> dict[str, str]:
    """What the notebook called the files of its cells; nothing where nobody told, or it is no such table."""
    try:
        return msgspec.json.decode(trace.info.extra.get(CELLS, "{}"), type=dict[str, str])
    except msgspec.MsgspecError:
        return {}
