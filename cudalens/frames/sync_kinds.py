"""The kinds of waits in the ``syncs`` frame, the rules that determine them, and the calls in which the host waits.

The evidence of a wait is what was recorded: the operators around it, the Python calls around those, the runtime calls
that blocked, the direction of the copy, the user's expression. Every part may be missing.

A blocking copy is a copy call and the wait for its stream. An allocator that is out of memory calls the driver,
releases memory and calls the driver again. A call counts if it always blocks (synchronisations, ``cudaMemcpy``) or if
it blocks with its arguments: an asynchronous copy of pageable memory, a release of memory while the GPU was at work.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.frames.build import GPU_ACTIVITIES, RUNTIME_CATEGORIES
from cudalens.frames.column_arrays import Ints, integers, is_category, map_texts


class SyncKind(StrEnum):
    """The kind of a wait; the values of the column ``kind``."""

    ITEM = "item"
    TRUTH = "truth test"
    PRINT = "print"
    EQUAL = "equality test"
    NONZERO = "nonzero"
    BOOLEAN_INDEX = "boolean index"
    UNIQUE = "unique"
    DATA_SIZE = "size from values"
    CHECK = "error check"
    CPU = ".cpu()"
    TOLIST = ".tolist()"
    NUMPY = ".numpy()"
    PAGEABLE_TO_HOST = "pageable copy to host"
    PAGEABLE_TO_DEVICE = "pageable copy to device"
    MODULE_TO_DEVICE = "module to device"
    BLOCKING_TO_HOST = "blocking copy to host"
    BLOCKING_TO_DEVICE = "blocking copy to device"
    COPY = "copy"
    ALLOCATOR_RETRY = "allocator retry"
    EMPTY_CACHE = "empty_cache()"
    FREE = "memory release"
    DEVICE_SYNC = "device synchronize"
    STREAM_SYNC = "stream synchronize"
    EVENT_SYNC = "event synchronize"
    OPERATOR = "operator"


#: Explicit synchronisations; all other kinds are hidden in other calls.
EXPLICIT: Final = frozenset({SyncKind.DEVICE_SYNC, SyncKind.STREAM_SYNC, SyncKind.EVENT_SYNC})


class Evidence(NamedTuple):
    """What was recorded of one wait.

    Attributes:
        calls: The runtime calls that blocked, in order, or the call after a callback of torch.
        ops: Operators around them, innermost first.
        called: What the program called, as of `called_name` and `python_context`; "" if unknown.
        way: ``HtoD``, ``DtoH`` or "" of the copy.
        is_pageable: Whether the copy's host side is pageable; None if unknown.
        prints: Whether torch was formatting a tensor as text.
        moves_module: Whether ``nn.Module.to`` or its like was copying parameters and buffers.
        is_torch: Whether the program uses torch, whose allocator releases memory only in `empty_cache` and retries.
    """

    calls: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    called: str = ""
    way: str = ""
    is_pageable: bool | None = None
    prints: bool = False
    moves_module: bool = False
    is_torch: bool = True


#: Operators that wait, themselves or in a part (ATen's CUDA sources: each ends in memcpy_and_sync).
_BY_OP: Final[dict[str, SyncKind]] = {
    "aten::is_nonzero": SyncKind.TRUTH,
    "aten::equal": SyncKind.EQUAL,
    "aten::allclose": SyncKind.EQUAL,
    "aten::masked_select": SyncKind.BOOLEAN_INDEX,
    "aten::index": SyncKind.BOOLEAN_INDEX,
    "aten::index_put": SyncKind.BOOLEAN_INDEX,
    "aten::index_put_": SyncKind.BOOLEAN_INDEX,
    "aten::_index_put_impl_": SyncKind.BOOLEAN_INDEX,
    "aten::nonzero": SyncKind.NONZERO,
    "aten::nonzero_numpy": SyncKind.NONZERO,
    "aten::argwhere": SyncKind.NONZERO,
    "aten::_unique": SyncKind.UNIQUE,
    "aten::_unique2": SyncKind.UNIQUE,
    "aten::unique_dim": SyncKind.UNIQUE,
    "aten::unique_consecutive": SyncKind.UNIQUE,
    "aten::unique_dim_consecutive": SyncKind.UNIQUE,
    "aten::repeat_interleave": SyncKind.DATA_SIZE,
    "aten::bincount": SyncKind.DATA_SIZE,
    "aten::one_hot": SyncKind.DATA_SIZE,
    "aten::tensor_split": SyncKind.DATA_SIZE,
    "aten::histc": SyncKind.DATA_SIZE,
    "aten::_pack_padded_sequence": SyncKind.DATA_SIZE,
    "aten::_linalg_check_errors": SyncKind.CHECK,
    "aten::_assert_tensor_metadata": SyncKind.CHECK,
}

#: Operators that read a number.
_READS: Final = frozenset({"aten::item", "aten::_local_scalar_dense"})
_COPIES: Final = frozenset({"aten::copy_", "aten::_to_copy"})
#: Kinds of operators that contain a wait of the given kind: the wait then has their kind.
_OUTER: Final = {
    SyncKind.ITEM: frozenset(
        {SyncKind.TRUTH, SyncKind.EQUAL, SyncKind.UNIQUE, SyncKind.DATA_SIZE, SyncKind.CHECK, SyncKind.NONZERO}
    ),
    SyncKind.NONZERO: frozenset({SyncKind.BOOLEAN_INDEX, SyncKind.DATA_SIZE, SyncKind.UNIQUE}),
}

_TEXTS: Final = frozenset({"print", "repr", "str", "display"})
_TESTS: Final = frozenset({"bool", "if", "while", "assert", "not", "and", "or"})
_MOVES: Final = {"cpu": SyncKind.CPU, "tolist": SyncKind.TOLIST, "numpy": SyncKind.NUMPY}

_STATEMENT: Final = re.compile(r"(?:if|while|assert)\b")
_SUFFIX: Final = re.compile(r"(?:_v\d+|_ptsz|_ptds)+$")
#: Last characters of names with such a suffix; most names need no search.
_VERSIONED: Final = ("_ptsz", "_ptds", *"0123456789")
_SYNCHRONIZE: Final = re.compile(r"(?:^|\W)(?:cuda|cu|hip)(Device|Ctx|Thread|Stream|Event)Synchronize$")
_HOST_COPY: Final = re.compile(r"^(?:cuda|cu|hip)Memcpy(?!.*(?:Peer|DtoD|AtoD|DtoA|AtoA))\w*$")
_METHOD: Final = re.compile(r"^<built-in method (\w+) of (?:Tensor|Parameter|Buffer)\b")
_TENSOR_TEXT: Final = "torch/_tensor_str.py"
_MODULE: Final = "torch/nn/modules/module.py"


def plain_call(name: str) -> str:
    """Return the name of a runtime or driver call without version suffixes."""
    return _SUFFIX.sub("", name) if name.endswith(_VERSIONED) else name


@lru_cache(1 << 12)
def kind_of(evidence: Evidence) -> SyncKind:
    """Return the kind of a wait."""
    if evidence.called == "empty_cache":
        return SyncKind.EMPTY_CACHE
    by_op = _by_op(evidence.ops)
    if (evidence.prints or evidence.called in _TEXTS) and _is_read(evidence, by_op):
        return SyncKind.PRINT
    if by_op is SyncKind.ITEM and evidence.called in _TESTS:
        return SyncKind.TRUTH
    if (memory := _of_memory(evidence)) is not None:
        return memory
    if by_op is not None:
        return by_op
    return _of_copy(evidence) or _of_call(evidence)


def _is_read(evidence: Evidence, by_op: SyncKind | None) -> bool:
    """Return whether it can be a part of formatting: torch selects and reads elements for that."""
    is_part = by_op in (None, SyncKind.ITEM, SyncKind.NONZERO, SyncKind.BOOLEAN_INDEX, SyncKind.TRUTH)
    return is_part and not any(plain_call(call).endswith(("DeviceSynchronize", "Free")) for call in evidence.calls)


def _by_op(ops: tuple[str, ...]) -> SyncKind | None:
    """By the innermost operator that waits, and the operators around it that contain it."""
    found: SyncKind | None = None
    is_copy = _READS.isdisjoint(ops)
    for op in ops:
        kind = SyncKind.ITEM if op in _READS else _BY_OP.get(op)
        if found is None and is_copy and op in _COPIES:
            return None  # the copy of an argument of any operator
        if kind is not None and (found is None or kind in _OUTER.get(found, ())):
            found = kind
    return found


def _of_memory(evidence: Evidence) -> SyncKind | None:
    calls = [plain_call(call) for call in evidence.calls]
    if not any(is_release(call) for call in calls):
        return None
    if any(is_allocation(call) for call in calls):
        return SyncKind.ALLOCATOR_RETRY
    return SyncKind.FREE if evidence.ops or not evidence.is_torch else SyncKind.EMPTY_CACHE


def _of_copy(evidence: Evidence) -> SyncKind | None:
    if evidence.called in _MOVES and evidence.way != "HtoD" and not _is_explicit(evidence):
        return _MOVES[evidence.called]
    if evidence.called == "item" and not _is_explicit(evidence):
        return SyncKind.ITEM
    if evidence.moves_module and evidence.way == "HtoD":
        return SyncKind.MODULE_TO_DEVICE
    if evidence.way:
        to_host = evidence.way == "DtoH"
        if evidence.is_pageable:
            return SyncKind.PAGEABLE_TO_HOST if to_host else SyncKind.PAGEABLE_TO_DEVICE
        return SyncKind.BLOCKING_TO_HOST if to_host else SyncKind.BLOCKING_TO_DEVICE
    has_copied = any("Memcpy" in call for call in evidence.calls) or not _COPIES.isdisjoint(evidence.ops)
    return SyncKind.COPY if has_copied else None


def _is_explicit(evidence: Evidence) -> bool:
    return bool(evidence.calls) and not any("Memcpy" in c or "Stream" in c for c in evidence.calls)


def _of_call(evidence: Evidence) -> SyncKind:
    if evidence.ops:
        return SyncKind.OPERATOR
    kinds = {"device": SyncKind.DEVICE_SYNC, "event": SyncKind.EVENT_SYNC}
    return next((kinds[target] for target in map(sync_target, evidence.calls) if target in kinds), SyncKind.STREAM_SYNC)


def sync_target(call: str) -> str:
    """Return what a synchronising call waits for: ``device``, ``stream`` or ``event``; "" for other calls."""
    match = _SYNCHRONIZE.search(plain_call(call))
    return {"Stream": "stream", "Event": "event"}.get(match[1], "device") if match else ""


def is_host_copy(call: str) -> bool:
    """Return whether a runtime call may copy to or from the host."""
    return _HOST_COPY.match(call) is not None


def is_release(call: str) -> bool:
    """Return whether a runtime call releases memory, for which the driver waits for the device."""
    return call in _RELEASES


def is_allocation(call: str) -> bool:
    """Return whether a runtime call allocates memory."""
    return call in _ALLOCATIONS


_RELEASES: Final = frozenset({"cudaFree", "cuMemFree", "hipFree", "cudaFreeHost", "hipHostFree", "cuMemFreeHost"})
_ALLOCATIONS: Final = frozenset({"cudaMalloc", "cuMemAlloc", "hipMalloc"})


def called_name(expression: str) -> str:
    """Name of the call or operation of an expression: ``item`` for ``loss.item()``, ``[]`` for ``x[mask]``, or ""."""
    if statement := _STATEMENT.match(expression):
        return statement[0]
    try:
        node = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    while isinstance(node, (ast.Await, ast.Starred)):
        node = node.value
    if isinstance(node, ast.Call):
        return _called(node.func)
    if isinstance(node, ast.Subscript):
        return "[]"
    return "not" if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) else ""


def _called(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


class PythonContext(NamedTuple):
    """What the Python calls around a wait say.

    Attributes:
        method: The method of a tensor that waited; "" for none.
        prints: Whether torch was formatting a tensor as text.
        moves_module: Whether ``nn.Module.to`` or its like was copying parameters and buffers.
    """

    method: str = ""
    prints: bool = False
    moves_module: bool = False


@lru_cache(1 << 16)
def _is_in_file(name: str, file: str) -> bool:
    """Whether a Python call is of a file of torch, on any system."""
    return file in name.replace("\\", "/")


def python_context(python: Sequence[str]) -> PythonContext:
    """Return what the Python calls around a wait say of it.

    Args:
        python: Their names, innermost first, as torch's profiler writes them: ``file(line): function``.
    """
    found = _METHOD.match(python[0]) if python else None
    return PythonContext(
        method=found[1] if found else "",
        prints=any(_is_in_file(name, _TENSOR_TEXT) for name in python),
        moves_module=any(name.endswith(("._apply", " _apply")) and _is_in_file(name, _MODULE) for name in python),
    )


_WAY: Final = re.compile(r"HtoD|DtoH")

#: Upper limit of the difference between the clocks of host and device in a recording.
SKEW_NS: Final = 10_000

_NOTHING, _SYNC, _STREAM_SYNC, _BLOCKING_COPY, _COPY_CALL, _RELEASE, _ALLOCATION = range(7)


@dataclass(slots=True)
class Wait:
    """Calls of one thread by which the host waited once.

    Attributes:
        rows: Rows of the calls, in order.
        start_ns: Start of the first.
        end_ns: End of the last.
        work: Row of its copy or synchronisation on the device; -1 if not recorded.
        way: ``HtoD``, ``DtoH`` or "" of the copy.
        is_pageable: Whether the copy's host side is pageable; None if unknown.
    """

    rows: list[int]
    start_ns: int
    end_ns: int
    work: int = -1
    way: str = ""
    is_pageable: bool | None = None


def find_waits(events: pd.DataFrame, names: Names | None = None) -> list[Wait]:
    """The waits in the runtime calls of `events`, by start. `names` are those of the events, if they are known."""
    is_call = is_category(events["cat"].array, RUNTIME_CATEGORIES)
    kind = np.full(len(events), _NOTHING)
    kind[is_call] = map_texts(events["name"].array[is_call], _kind_of_call, _NOTHING)
    rows = np.flatnonzero(kind != _NOTHING)
    if not len(rows):
        return []
    table = _Calls(events, names or Names(events["name"]), kind, is_call, rows)
    found = [wait for group in table.groups() for wait in table.waits(group)]
    return sorted(found, key=lambda wait: (wait.start_ns, wait.rows[0]))


def _kind_of_call(name: str) -> int:
    call = plain_call(name)
    if target := sync_target(call):
        return _STREAM_SYNC if target == "stream" else _SYNC
    if is_host_copy(call):
        return _COPY_CALL if call.endswith("Async") else _BLOCKING_COPY
    if is_release(call):
        return _RELEASE
    return _ALLOCATION if is_allocation(call) else _NOTHING


class _Calls:
    """The calls that may have blocked, and the rows around them."""

    def __init__(self, events: pd.DataFrame, names: Names, kind: Ints, is_call: NDArray[np.bool_], rows: Ints) -> None:
        start, parent = events["ts"].to_numpy(), integers(events["parent"])
        # Memory views: faster by element than arrays.
        self._start, self._end = start.data, (start + events["dur"].to_numpy()).data
        self._parent, self._tids, self._kind = parent.data, integers(events["tid"]), kind.data
        self._tid = self._tids.data
        self._work = _device_rows(events, rows)
        self._names = names
        self._pending = Pending(events)
        self._is_call = is_call
        self._is_op = is_category(events["cat"].array, ("cpu_op",))
        above = parent[rows]
        inner = (above >= 0) & (kind[above] != _NOTHING)  # a driver call inside the runtime call that made it
        self._rows = rows[~inner]
        self._place = self._places()

    def _places(self) -> dict[int, int]:
        """Number of each call among all calls of its thread."""
        calls = np.flatnonzero(self._is_call)
        order = calls[np.lexsort((calls, self._tids[calls]))]
        place = np.empty(len(self._tids), np.int64)
        place[order] = np.arange(len(order))
        return dict(zip(self._rows.tolist(), place[self._rows].tolist(), strict=True))

    def groups(self) -> Iterator[list[int]]:
        """Consecutive calls of the same thread and parent that are one operation."""
        group: list[int] = []
        for row in self._rows[np.argsort(self._tids[self._rows], kind="stable")].tolist():
            if group and not (self._follows(group[-1], row) and self._belongs(group, row)):
                yield group
                group = []
            group.append(row)
        if group:
            yield group

    def _follows(self, before: int, row: int) -> bool:
        is_next = self._place[row] == self._place[before] + 1 and self._tid[row] == self._tid[before]
        return is_next and self._parent[row] == self._parent[before]

    def _belongs(self, group: list[int], row: int) -> bool:
        before, kind = self._kind[group[-1]], self._kind[row]
        if kind == _STREAM_SYNC:
            return before == _COPY_CALL and self._way(group[-1]) != "other"
        memory = (_RELEASE, _ALLOCATION)
        return before in memory and kind in memory

    def waits(self, group: list[int]) -> Iterator[Wait]:
        """Yield the wait of a group; none if the host did not wait."""
        kinds = {self._kind[row] for row in group}
        if kinds <= {_RELEASE, _ALLOCATION}:
            yield from self._of_memory(group)
            return
        wait = self._wait(group)
        copies = [row for row in group if self._kind[row] in (_COPY_CALL, _BLOCKING_COPY)]
        if copies:
            way, name = self._way(copies[0]), self._work_name(copies[0])
            wait.way = way if way != "other" else ""
            wait.is_pageable = None
            if "Pageable" in name or "Pinned" in name:
                wait.is_pageable = "Pageable" in name
        if kinds != {_COPY_CALL} or (wait.is_pageable and wait.way):
            yield wait

    def _of_memory(self, group: list[int]) -> Iterator[Wait]:
        """Find retries of the allocator: a release between two allocations is one.

        Other releases are waits if no operator was running (the program itself released memory), or if the call lasted
        as long as the GPU was at work: libraries also release memory during their initialisation.
        """
        released = [row for row in group if self._kind[row] == _RELEASE]
        if not released:
            return
        first, last = group.index(released[0]), len(group) - 1 - group[::-1].index(released[-1])
        if first > 0 and last < len(group) - 1:
            yield self._wait(group[first - 1 : last + 2])
            return
        wait = self._wait(group[first : last + 1])
        busy_ns = int(self._pending.until(np.array([wait.start_ns]))[0])
        if not self._is_in_operator(wait.rows[0]) or wait.start_ns < busy_ns <= wait.end_ns + SKEW_NS:
            yield wait

    def _is_in_operator(self, row: int) -> bool:
        while row >= 0 and not self._is_op[row]:
            row = self._parent[row]
        return row >= 0

    def _wait(self, rows: list[int]) -> Wait:
        work = next((self._work[row] for row in rows if row in self._work), -1)
        return Wait(rows, self._start[rows[0]], max(map(self._end.__getitem__, rows)), work)

    def _work_name(self, row: int) -> str:
        work = self._work.get(row, -1)
        return self._names[work] if work >= 0 else ""

    def _way(self, row: int) -> str:
        """``HtoD`` or ``DtoH`` of a copy call, "" if its copy was not recorded, "other" between devices."""
        name = self._work_name(row)
        found = _WAY.search(name or self._names[row])
        if found:
            return found[0]
        return "other" if name else ""


class Pending:
    """End of the GPU work that was issued before a time."""

    def __init__(self, events: pd.DataFrame) -> None:
        work = np.flatnonzero(is_category(events["cat"].array, GPU_ACTIVITIES))
        start = events["ts"].to_numpy()
        launch = integers(events["launch"])[work]
        issued = np.where(launch >= 0, start[launch], start[work])
        order = np.argsort(issued, kind="stable")
        end = (start + events["dur"].to_numpy())[work]
        self._issued = issued[order]
        #: Of the first k works by the time at which they were issued.
        self._last_end = np.maximum.accumulate(np.append(np.iinfo(np.int64).min, end[order]))

    def __bool__(self) -> bool:
        """Return whether any work was recorded."""
        return len(self._issued) > 0

    def until(self, ts: Ints) -> Ints:
        """End of the last work that was issued before each of `ts`, ns; the smallest int64 if there is none."""
        return self._last_end[np.searchsorted(self._issued, ts)]

    def gpu_durs(self, start_ns: Ints, end_ns: Ints) -> Ints:
        """Return how much of each span of the host the GPU was at work that was issued before its end, ns."""
        return np.maximum(start_ns, np.minimum(end_ns, self.until(end_ns))) - start_ns


class Names:
    """Texts of a categorical column by row, faster than the column itself.

    Attributes:
        texts: The distinct texts, and at the end "" for rows without one.
    """

    def __init__(self, column: pd.Series) -> None:
        self._codes: memoryview = column.array.codes.data
        self.texts = [*map(str, column.array.categories.tolist()), ""]

    def __getitem__(self, row: int) -> str:
        return self.texts[self._codes[row]]

    def of(self, rows: Sequence[int]) -> tuple[str, ...]:
        """Return the texts of some rows."""
        texts, codes = self.texts, self._codes
        return tuple([texts[codes[row]] for row in rows])


def _device_rows(events: pd.DataFrame, rows: Ints) -> dict[int, int]:
    """Return the first device row of each of `rows`, calls; copies come before rows of synchronisation."""
    launch = integers(events["launch"])
    device = np.flatnonzero(np.isin(launch, rows))
    first, at = np.unique(launch[device], return_index=True)
    return dict(zip(first.tolist(), device[at].tolist(), strict=True))
