"""The kinds of waits in the ``syncs`` frame, and the rules that determine the kind of a wait.

The evidence of a wait is what was recorded: the operators around it, the Python calls around those, the runtime calls
that blocked, the direction of the copy, the user's expression. Every part may be missing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple


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
        is_torch: Whether the program uses torch, whose allocator releases memory only in `empty_cache` and retries.
    """

    calls: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    called: str = ""
    way: str = ""
    is_pageable: bool | None = None
    prints: bool = False
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
_TENSOR_TEXT: Final = ("torch/_tensor_str.py", "torch\\_tensor_str.py")


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


@lru_cache(1 << 16)
def _is_tensor_text(name: str) -> bool:
    return any(file in name for file in _TENSOR_TEXT)


def python_context(python: Sequence[str]) -> tuple[str, bool]:
    """Return the tensor method of a wait, and whether torch was formatting a tensor.

    Args:
        python: Names of the Python calls around the wait, innermost first, as torch's profiler writes them.

    Returns:
        The method ("" for none), and whether torch was formatting a tensor as text.
    """
    found = _METHOD.match(python[0]) if python else None
    return found[1] if found else "", any(map(_is_tensor_text, python))
