"""Remove the host rows that exist only because of the virtual device, and find the new enclosing rows.

torch's profiler records an operator on the virtual device twice: where the program calls it, and where its handler
calls it again, below the Python dispatch key, to compute its values. The rows inside the second call (the CPU kernel's
own operators) belong to the first; the second call itself, the dispatch in between, and all other rows of the handler
are removed. So are the virtual device's Python functions and the helpers that they call; where they call the function
that they replace, its two rows are merged. Operators that only the CPU kernel of an operator calls are removed, too.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from cudalens.frames.column_arrays import Bools, Ints
from cudalens.virtual.dispatch.cuda_dtypes import CASTING
from cudalens.virtual.profile.host_tree import HostTree, by_name, has_category
from cudalens.virtual.profile.recorder import HIDDEN, Call, MemoryAct, Recorder

#: The name of the row around a dispatch mode's handler (torch 2.10 and later).
_DISPATCH: Final = "PythonDispatchMode"

#: Functions of the virtual device, and torch's functions that call them.
_OWN_CODE: Final = re.compile(r"(?:^|[/\\])(?:cudalens[/\\]virtual[/\\].*|torch[/\\]overrides)\.py\(\d+\): ")
_MODULE: Final = "nn.Module: "

#: Operators that a CUDA kernel calls as its CPU kernel does: they allocate, or make views.
_SHARED_NAMES: Final = """
_reshape_alias alias as_strided contiguous detach empty empty_like empty_strided expand narrow new_empty permute reshape
resize_ result_type select slice squeeze t to transpose unsqueeze view
"""
_SHARED: Final = frozenset(f"aten::{name}" for name in _SHARED_NAMES.split())
#: Other operators inside of an operator, as recorded traces of real GPUs show them. Exponents 1 and 0 of ``pow`` are in
#: ATen/native/Pow.cpp.
_SHARED_IN: Final = {
    "aten::adaptive_avg_pool2d": {"aten::mean", "aten::_adaptive_avg_pool2d"},
    "aten::max_pool2d_with_indices_backward": {"aten::zero_"},
    "aten::min": {"aten::minimum"},
    "aten::mse_loss": {"aten::mean"},
    "aten::nll_loss_backward": {"aten::zero_"},
    "aten::pow": {"aten::copy_", "aten::fill_"},
    "aten::relu": {"aten::clamp_min"},
    "aten::relu_": {"aten::clamp_min_"},
    "aten::repeat_interleave": {"aten::cumsum", "aten::index_select"},
    "aten::rsub": {"aten::sub"},
    "aten::where": {"aten::scalar_tensor"},
    "aten::zero_": {"aten::fill_"},
}
_CONVOLUTIONS: Final = frozenset({"aten::thnn_conv2d", "aten::slow_conv3d", "aten::convolution_backward"})
#: Operators that ask for a library of the CPU.
_ASKS_CPU: Final = frozenset({"aten::_nnpack_available"})
_CONVERT, _CONVERT_COPY = "aten::to", "aten::_to_copy"
#: Operators that convert their operands themselves, on a GPU, too (where_self_out in TensorCompare.cpp).
_CONVERTS_ITSELF: Final = frozenset({"aten::where"})

#: The origin of a row's children: the program, a handler, the virtual device's Python code, or a CPU kernel.
_SHOWN, _INSIDE, _PYTHON, _OF_CPU = 0, 1, 2, 3


@dataclass
class Pruned:
    """The remaining rows of a tree.

    Attributes:
        is_kept: Rows of events that are shown; shape (n,).
        up: Place of the nearest kept enclosing row, or -1; shape (n,).
        handler: Place of the innermost handler's mark around each row, including itself, or -1; shape (n,).
        op: Place of the innermost kept operator, including itself, or -1; shape (n,).
        annotation: The same for user annotations; shape (n,).
    """

    is_kept: Bools
    up: Ints
    handler: Ints
    op: Ints
    annotation: Ints


class _Facts:
    """Properties of each place that the traversal reads."""

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
        # The dispatch rows of the virtual device's handlers, without those of the program's modes.
        enclosing = tree.parent[self.is_handler]
        while (moves_up := (enclosing >= 0) & self.is_python[enclosing]).any():
            enclosing[moves_up] = tree.parent[enclosing[moves_up]]
        self.is_dispatch = np.zeros(len(tree), bool)
        self.is_dispatch[enclosing[enclosing >= 0]] = True
        self.is_dispatch &= self._of(tree, self._named(events, _DISPATCH.__eq__))
        self.wanted[self._internal_handlers(tree, self.is_dispatch)] = -2
        launches = Counter(act.mark for recorder in recorders for act in recorder.acts if isinstance(act, Call))
        self.num_launches = np.array([launches[mark] for mark in tree.mark.tolist()], np.int64)
        self.is_of_cpu = self._rows_of_cpu_kernels(tree, events)
        self.is_cast = self.is_of_cpu & self._inside(tree, self._of(tree, self._named(events, CASTING.__contains__)))
        self.is_cast &= self._of(tree, self._named(events, _CONVERT.__eq__))

    def _rows_of_cpu_kernels(self, tree: HostTree, events: dict[str, Any]) -> Bools:
        """Rows that an operator's CPU kernel has and its CUDA kernel has not, if it ran on the device."""
        names = events["name"].categories.tolist()
        is_of_op = self._inside(tree, self._of(tree, self._named(events, has_cpu_kernel)) & self.is_op)
        is_of_op |= self._of(tree, self._named(events, _ASKS_CPU.__contains__))
        copies = np.zeros(len(tree), bool)
        copies[tree.parent[self._of(tree, self._named(events, _CONVERT_COPY.__eq__))]] = True
        converts = copies & self._of(tree, self._named(events, _CONVERT.__eq__))
        found = np.zeros(len(tree), bool)
        for place in np.flatnonzero(is_of_op & self.is_op).tolist():
            name, outer = names[self.code[place]], names[self.code[tree.parent[place]]]
            if converts[place]:
                found[place] = outer not in _CONVERTS_ITSELF
            else:
                found[place] = name != outer and name not in _SHARED and name not in _SHARED_IN.get(outer, ())
        return found

    @staticmethod
    def _inside(tree: HostTree, of_parent: Bools) -> Bools:
        """Return a property of the enclosing row of each row; False without one."""
        return (tree.parent >= 0) & of_parent[tree.parent] if len(tree) else of_parent

    @staticmethod
    def _rows(tree: HostTree) -> Ints:
        return np.where(tree.is_memory, 0, tree.row)

    def _of(self, tree: HostTree, of_row: Bools) -> Bools:
        """Return a property of events at each place; False for allocator actions."""
        return of_row[self._rows(tree)] & ~tree.is_memory if len(of_row) else np.zeros(len(tree), bool)

    @staticmethod
    def _named(events: dict[str, Any], test: Any) -> Bools:
        return by_name(events, lambda name: int(test(name)), 0).astype(bool)

    def _internal_handlers(self, tree: HostTree, is_dispatch: Bools) -> Ints:
        """Handlers of operators that torch's C++ calls internally because a dispatch mode is active.

        (``detach`` of a saved tensor.) The program does not call them, and there is no operator row around the handler.
        """
        internal = []
        for place in np.flatnonzero(self.is_handler).tolist():
            enclosing = int(tree.parent[place])
            while enclosing >= 0 and (self.is_python[enclosing] or is_dispatch[enclosing]):
                enclosing = int(tree.parent[enclosing])
            outer = (enclosing, int(tree.parent[enclosing])) if enclosing >= 0 else ()
            if not any(at >= 0 and self.code[at] == self.wanted[place] for at in outer):
                internal.append(place)
        return np.array(internal, np.int64)


@functools.cache
def has_cpu_kernel(name: str) -> bool:
    """Return whether an operator has one kernel for the CPU and another one, or a branch in it, for CUDA.

    The ``_foreach`` operators have one for CUDA alone; on the CPU, they call an operator for each tensor. Convolutions
    call libraries.
    """
    if name in _CONVOLUTIONS:
        return True
    packet = getattr(torch.ops.aten, name.removeprefix("aten::"), None) if name.startswith("aten::") else None
    if packet is None or name.startswith("aten::_foreach_"):
        return packet is not None
    names = [getattr(packet, overload).name() for overload in packet.overloads()]
    known = [each for each in names if torch._C._dispatch_has_kernel(each)]  # scripts alone use the others
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(each, "CPU") for each in known)


def prune(tree: HostTree, events: dict[str, Any], recorders: Sequence[Recorder]) -> Pruned:
    """Decide for each row whether it is kept, level by level from the root.

    Args:
        tree: The host's rows.
        events: The columns of the rows.
        recorders: The records that the marks refer to.
    """
    n = len(tree)
    facts = _Facts(tree, events, recorders)
    state = np.full(n + 1, _SHOWN, np.int8)  # the last entry is for "no parent"
    found = Pruned(np.zeros(n + 1, bool), *(np.full(n + 1, -1, np.int64) for _ in range(4)))
    owner = np.full(n + 1, -1, np.int64)
    is_answered = np.zeros(n + 1, bool)
    for places in tree.levels():
        up = tree.parent[places]
        state[places] = _states(facts, places, state[up])
        begins = facts.is_handler[places]
        owner[places] = np.where(begins, places, np.where(state[up] == _INSIDE, owner[up], -1))
        again = _second_calls(facts, places, state[up], owner[places], is_answered)
        # Calls of the virtual device's Python code to the function that it replaces.
        nearest = np.where(found.is_kept[up], up, found.up[up])
        launches = np.where(found.handler[up] >= 0, facts.num_launches[found.handler[up]], 0)
        is_of_cpu = facts.is_of_cpu[places] & np.where(facts.is_cast[places], launches == 1, launches > 0)
        state[places[is_of_cpu | (state[up] == _OF_CPU)]] = _OF_CPU
        is_same = facts.code[places] == facts.code[nearest]
        again |= (state[up] == _PYTHON) & facts.is_python[places] & (nearest >= 0) & is_same
        state[places[again]] = _SHOWN
        owner[places[again]] = -1
        shown = (state[places] == _SHOWN) & ~again & ~facts.is_point[places] & ~tree.is_memory[places]
        found.is_kept[places] = shown
        found.up[places] = nearest
        found.handler[places] = np.where(begins, places, found.handler[up])
        found.op[places] = np.where(shown & facts.is_op[places], places, found.op[up])
        found.annotation[places] = np.where(shown & facts.is_annotation[places], places, found.annotation[up])
    return Pruned(found.is_kept[:n], found.up[:n], found.handler[:n], found.op[:n], found.annotation[:n])


def _states(facts: _Facts, places: Ints, enclosing: NDArray[np.int8]) -> NDArray[np.int8]:
    python = facts.is_python[places] & ~facts.is_module[places]
    stays_python = (enclosing == _PYTHON) & python
    state = np.where(enclosing == _INSIDE, _INSIDE, np.where(stays_python, _PYTHON, _SHOWN)).astype(np.int8)
    state[(state == _SHOWN) & facts.is_own[places]] = _PYTHON
    state[facts.is_handler[places] | facts.is_dispatch[places]] = _INSIDE
    return state


def _second_calls(facts: _Facts, places: Ints, enclosing: NDArray[np.int8], owner: Ints, is_answered: Bools) -> Bools:
    """The calls in which handlers compute the values of their operator; the last one of several."""
    hit = (enclosing == _INSIDE) & (owner >= 0) & facts.is_op[places] & (facts.code[places] == facts.wanted[owner])
    hit &= ~is_answered[owner]
    last = {int(owner[k]): int(k) for k in np.flatnonzero(hit)}
    chosen = np.zeros(len(places), bool)
    chosen[list(last.values())] = True
    is_answered[list(last)] = True
    return chosen


def hidden_marks(recorders: Sequence[Recorder]) -> set[int]:
    """Marks of internal work that no trace of a GPU contains."""
    return {number for recorder in recorders for number, name, _ in recorder.begun if name == HIDDEN}


# Locate runtime calls and allocator actions in the host's call tree.

Act = Call | MemoryAct

_MEMORY_CALLS: Final = frozenset({"cudaMalloc", "cudaFree", "cuMemCreate", "cuMemMap", "cuMemUnmap", "cuMemRelease"})
#: Name prefix of operators that only allocate memory.
_FACTORY: Final = "aten::empty"


@dataclass
class Segment:
    """A recorded part of the run on one virtual machine, and the offset of its clock to the run's clock."""

    recorder: Recorder
    offset_ns: int


@dataclass
class ActPlaces:
    """The position of each act; each of shape (num acts,).

    Attributes:
        lane: Its thread number; threads without a profiled row have numbers after those of the tree.
        key: Its position in the thread: twice the index of a start or an end in the tree, or just before one.
        up: Place of the enclosing row, or -1.
        tid: Its thread id.
    """

    lane: Ints
    key: Ints
    up: Ints
    tid: Ints


def locate_acts(tree: HostTree, pruned: Pruned, names: Sequence[str], acts: Sequence[tuple[Segment, Act]]) -> ActPlaces:
    """Find the position of each act by its mark.

    The acts in a handler's mark belong to its operator, or to one of the operators inside it: a copy to the
    ``aten::copy_`` of an ``aten::_to_copy``, memory to its ``aten::empty_strided``.

    Args:
        tree: The host's rows.
        pruned: Which rows are shown.
        names: The name of the row at each place.
        acts: The acts in order.
    """
    tids = np.array([act.tid for _, act in acts], np.int64)
    at = np.array([tree.place_of.get(act.mark, -1) for _, act in acts], np.int64)
    unprofiled = at < 0
    lane = np.where(unprofiled, 0, tree.lane[at]).astype(np.int64) if len(tree) else np.zeros(len(acts), np.int64)
    lane[unprofiled] = len(tree.tid) + np.unique(tids[unprofiled], return_inverse=True)[1].reshape(-1)
    ends = tree.end
    key, up = np.arange(len(acts)), np.full(len(acts), -1, np.int64)
    key[~unprofiled], up[~unprofiled] = 2 * ends[at[~unprofiled]] - 1, pruned.up[at[~unprofiled]]
    kept = np.append(0, np.cumsum(pruned.is_kept))
    encloses = (
        ~unprofiled & (kept[np.minimum(at + tree.size[at], len(tree))] > kept[at + 1]) if len(tree) else unprofiled
    )
    for place, members in _groups(at, np.flatnonzero(encloses)).items():
        found = _within(tree, pruned, names, place, [acts[k] for k in members])
        key[members], up[members] = _in_order(ends, pruned, place, found)
    return ActPlaces(lane, key, up, tids)


def _groups(keys: Ints, members: Ints) -> dict[int, list[int]]:
    """Return the members grouped by key, in order."""
    groups: dict[int, list[int]] = {}
    for key, member in zip(keys[members].tolist(), members.tolist(), strict=True):
        groups.setdefault(key, []).append(member)
    return groups


def _within(
    tree: HostTree, pruned: Pruned, names: Sequence[str], at: int, acts: Sequence[tuple[Segment, Act]]
) -> list[int | None]:
    """The operator inside a handler for each act; the mark for its own acts; None for acts grouped with others."""
    inner = (at + 1 + np.flatnonzero(pruned.is_kept[at + 1 : at + tree.size[at]])).tolist()
    named = {names[place]: place for place in inner}  # the last of several
    direct = [place for place in inner if pruned.up[place] == pruned.up[at]]
    factory = direct[0] if direct and names[direct[0]].startswith(_FACTORY) else None
    # The last operator of a factory (aten::zero_, aten::normal_) fills the memory that aten::empty allocated.
    own = direct[-1] if factory is not None and names[direct[-1]].endswith("_") else at
    found: list[int | None] = []
    for segment, act in acts:
        if isinstance(act, MemoryAct) or act.name in _MEMORY_CALLS:
            found.append(factory)
        else:
            op = segment.recorder.op_of(act.correlation_id)
            found.append(None if op is None else named.get(op, own))
    return found


def _in_order(ends: Ints, pruned: Pruned, at: int, found: list[int | None]) -> tuple[list[int], list[int]]:
    """Keys and enclosing rows, in ascending order; a grouped act gets the position of the next act."""
    filled, where = list[int](), next((place for place in reversed(found) if place is not None), at)
    for place in reversed(found):
        where = where if place is None else place
        filled.append(where)
    keys, up, latest, enclosing = list[int](), list[int](), -1, -1
    for where in reversed(filled):
        key = 2 * int(ends[where]) - 1
        if key >= latest:
            latest, enclosing = key, int(pruned.up[at]) if where == at else where
        keys.append(latest)
        up.append(enclosing)
    return keys, up
