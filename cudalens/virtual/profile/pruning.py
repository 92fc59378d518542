"""Which of the host's rows a trace of a real GPU would show, and what encloses each of them then.

An operator on the virtual device is seen twice by torch's profiler: where the program calls it, and where its handler
calls it again, below Python's dispatch key, for its values. What the second call encloses (the CPU kernel's own
operators) belongs to the first; the second itself, the dispatch in between, and whatever else the handler did are no
part of the program, and go. So do the virtual device's own Python functions with the helpers that they call; where they
call the program's function again, which they were called in the place of, it is the same with its two rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cudalens.virtual.profile.host_tree import HostTree, by_name, has_category
from cudalens.virtual.profile.recorder import HIDDEN, Recorder

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: What torch calls the way into a dispatch mode's handler (torch 2.10 and later show it).
_DISPATCH: Final = "PythonDispatchMode"

#: Functions of the virtual device, and those by which torch comes to them.
_OWN_CODE: Final = re.compile(r"(?:^|[/\\])(?:cudalens[/\\]virtual[/\\].*|torch[/\\]overrides)\.py\(\d+\): ")
_MODULE: Final = "nn.Module: "

#: What a row's children are: the program's; a handler's; called from the virtual device's own Python code.
_SHOWN, _INSIDE, _PYTHON = 0, 1, 2


@dataclass
class Pruned:
    """What is left of a tree.

    Attributes:
        is_kept: Rows of events that are shown; shape (n,).
        up: Place of the nearest enclosing row that is kept, or -1; shape (n,).
        handler: Place of the mark of the innermost handler around each row, itself included, or -1; shape (n,).
        op: Place of the innermost operator that is kept, itself included, or -1; shape (n,).
        annotation: The same for ranges of the program; shape (n,).
    """

    is_kept: Bools
    up: Ints
    handler: Ints
    op: Ints
    annotation: Ints


class _Facts:
    """What the walk asks of each place."""

    def __init__(self, tree: HostTree, events: dict[str, Any], recorders: Sequence[Recorder]) -> None:
        names = {number: name for recorder in recorders for number, name, _ in recorder.begun}
        codes = {name: code for code, name in enumerate(events["name"].categories)}
        ranges = [number for recorder in recorders for number in recorder.ranges]
        self.is_handler = np.isin(tree.mark, list(names))
        self.is_range = np.isin(tree.mark, ranges)
        self.is_point = (tree.mark > 0) & ~self.is_handler & ~self.is_range
        self.code = np.where(tree.is_memory, -1, np.asarray(events["name"].codes, np.int64)[self._rows(tree)])
        self.wanted = np.full(len(tree), -2, np.int64)
        for place in np.flatnonzero(self.is_handler).tolist():
            self.wanted[place] = codes.get(names[int(tree.mark[place])], -2)
        self.is_op = self._of(tree, has_category(events, "cpu_op")) & (tree.mark == 0)
        self.is_annotation = self._of(tree, has_category(events, "user_annotation")) | self.is_range
        is_python = has_category(events, "python_function")
        self.is_python = self._of(tree, is_python)
        self.is_module = self._of(tree, is_python & self._named(events, lambda name: name.startswith(_MODULE)))
        self.is_own = self._of(tree, is_python & self._named(events, lambda name: bool(_OWN_CODE.search(name))))
        is_dispatch = self._of(tree, self._named(events, _DISPATCH.__eq__))
        self.is_dispatch = self._dispatches(tree, is_dispatch)
        self.wanted[self._unseen(tree, self.is_dispatch)] = -2

    @staticmethod
    def _rows(tree: HostTree) -> Ints:
        return np.where(tree.is_memory, 0, tree.row)

    def _of(self, tree: HostTree, of_row: Bools) -> Bools:
        """A fact of events at each place; False for memory."""
        return of_row[self._rows(tree)] & ~tree.is_memory if len(of_row) else np.zeros(len(tree), bool)

    @staticmethod
    def _named(events: dict[str, Any], test: Any) -> Bools:
        return by_name(events, lambda name: int(test(name)), 0).astype(bool)

    def _unseen(self, tree: HostTree, is_dispatch: Bools) -> Ints:
        """Handlers of operators that torch's C++ calls on its own account because a dispatch mode is there.

        (``detach`` of a saved tensor.) The program did not call them, and without a mode nobody would see them: there
        is no row of the operator around the handler.
        """
        unseen = []
        for place in np.flatnonzero(self.is_handler).tolist():
            above = int(tree.parent[place])
            while above >= 0 and (self.is_python[above] or is_dispatch[above]):
                above = int(tree.parent[above])
            outer = (above, int(tree.parent[above])) if above >= 0 else ()
            if not any(at >= 0 and self.code[at] == self.wanted[place] for at in outer):
                unseen.append(place)
        return np.array(unseen, np.int64)

    def _dispatches(self, tree: HostTree, is_dispatch: Bools) -> Bools:
        """The ways into our own handlers, not into those of the program's modes."""
        above = tree.parent[self.is_handler]
        while (climbs := (above >= 0) & self.is_python[above]).any():
            above[climbs] = tree.parent[above[climbs]]
        ours = np.zeros(len(tree), bool)
        ours[above[above >= 0]] = True
        return ours & is_dispatch


def prune(tree: HostTree, events: dict[str, Any], recorders: Sequence[Recorder]) -> Pruned:
    """Walk down the tree, one generation at a time, and decide for each row.

    Args:
        tree: The host's rows.
        events: Their columns.
        recorders: What the marks mean.
    """
    n = len(tree)
    facts = _Facts(tree, events, recorders)
    state = np.full(n + 1, _SHOWN, np.int8)  # the last one stands for "no parent"
    found = Pruned(np.zeros(n + 1, bool), *(np.full(n + 1, -1, np.int64) for _ in range(4)))
    owner = np.full(n + 1, -1, np.int64)
    is_answered = np.zeros(n + 1, bool)
    for places in tree.levels():
        up = tree.parent[places]
        state[places] = _states(facts, places, state[up])
        begins = facts.is_handler[places]
        owner[places] = np.where(begins, places, np.where(state[up] == _INSIDE, owner[up], -1))
        again = _second_calls(facts, places, state[up], owner[places], is_answered)
        again |= _second_functions(facts, places, state[up], np.where(found.is_kept[up], up, found.up[up]))
        state[places[again]] = _SHOWN
        owner[places[again]] = -1
        shown = (state[places] == _SHOWN) & ~again & ~facts.is_point[places] & ~tree.is_memory[places]
        found.is_kept[places] = shown
        found.up[places] = np.where(found.is_kept[up], up, found.up[up])
        found.handler[places] = np.where(begins, places, found.handler[up])
        found.op[places] = np.where(shown & facts.is_op[places], places, found.op[up])
        found.annotation[places] = np.where(shown & facts.is_annotation[places], places, found.annotation[up])
    return Pruned(found.is_kept[:n], found.up[:n], found.handler[:n], found.op[:n], found.annotation[:n])


def _states(facts: _Facts, places: Ints, above: NDArray[np.int8]) -> NDArray[np.int8]:
    python = facts.is_python[places] & ~facts.is_module[places]
    stays_python = (above == _PYTHON) & python
    state = np.where(above == _INSIDE, _INSIDE, np.where(stays_python, _PYTHON, _SHOWN)).astype(np.int8)
    state[(state == _SHOWN) & facts.is_own[places]] = _PYTHON
    state[facts.is_handler[places] | facts.is_dispatch[places]] = _INSIDE
    return state


def _second_calls(facts: _Facts, places: Ints, above: NDArray[np.int8], owner: Ints, is_answered: Bools) -> Bools:
    """The calls by which handlers run their operator for its values; of several the last."""
    hit = (above == _INSIDE) & (owner >= 0) & facts.is_op[places] & (facts.code[places] == facts.wanted[owner])
    hit &= ~is_answered[owner]
    last = {int(owner[k]): int(k) for k in np.flatnonzero(hit)}
    chosen = np.zeros(len(places), bool)
    chosen[list(last.values())] = True
    is_answered[list(last)] = True
    return chosen


def _second_functions(facts: _Facts, places: Ints, above: NDArray[np.int8], nearest: Ints) -> Bools:
    """Where the virtual device's Python code calls the function that it was called in the place of."""
    same = facts.code[places] == facts.code[nearest]
    again: Bools = (above == _PYTHON) & facts.is_python[places] & (nearest >= 0) & same
    return again


def hidden_marks(recorders: Sequence[Recorder]) -> set[int]:
    """Marks of what no GPU's trace would show."""
    return {number for recorder in recorders for number, name, _ in recorder.begun if name == HIDDEN}
