"""What made the host wait for the GPU: the kinds of the ``syncs`` frame, and how one is told from what was running.

Evidence is what a recording knows of a wait: the operators around it, the Python calls around those, the runtime calls
that blocked, the direction of the copy, the user's expression. Every part may be missing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class SyncKind(StrEnum):
    """What the host waited in; the values stand in the column ``kind``."""

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


#: Kinds that the program asks for by name; all others are hidden in something else.
EXPLICIT: Final = frozenset({SyncKind.DEVICE_SYNC, SyncKind.STREAM_SYNC, SyncKind.EVENT_SYNC})


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of one wait.

    Attributes:
        calls: The runtime calls that blocked, in order; what a callback of torch told stands for the call that follows.
        ops: Operators around them, innermost first.
        asked: What the program called, as `asked_for` and `asked_by` name it; "" where that is not known.
        way: ``HtoD``, ``DtoH`` or "" of the copy.
        is_pageable: Whether the copy's host side is pageable; None where that is not known.
        prints: Whether torch was making text of a tensor.
    """

    calls: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    asked: str = ""
    way: str = ""
    is_pageable: bool | None = None
    prints: bool = False


#: Operators that wait by themselves, or whose parts do (ATen's CUDA sources: each ends in memcpy_and_sync).
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

#: A read of a number, or of a count, is what these are made of: then they are what waited.
_READS: Final = frozenset({"aten::item", "aten::_local_scalar_dense"})
_COPIES: Final = frozenset({"aten::copy_", "aten::_to_copy"})
_OUTER: Final = {
    SyncKind.ITEM: frozenset(
        {SyncKind.TRUTH, SyncKind.EQUAL, SyncKind.UNIQUE, SyncKind.DATA_SIZE, SyncKind.CHECK, SyncKind.NONZERO}
    ),
    SyncKind.NONZERO: frozenset({SyncKind.BOOLEAN_INDEX, SyncKind.DATA_SIZE, SyncKind.UNIQUE}),
}

_TEXTS: Final = frozenset({"print", "repr", "str", "display"})
_TESTS: Final = frozenset({"bool", "if", "while", "assert", "not", "and", "or"})
_MOVES: Final = {"cpu": SyncKind.CPU, "tolist": SyncKind.TOLIST, "numpy": SyncKind.NUMPY}

#: How such names end: most names do not, and need no look.
_STATEMENT: Final = re.compile(r"(?:if|while|assert)\b")
_SUFFIX: Final = re.compile(r"(?:_v\d+|_ptsz|_ptds)+$")
_VERSIONED: Final = ("_ptsz", "_ptds", *"0123456789")
_METHOD: Final = re.compile(r"^<built-in method (\w+) of (?:Tensor|Parameter|Buffer)\b")
_TENSOR_TEXT: Final = ("torch/_tensor_str.py", "torch\\_tensor_str.py")


def plain_call(name: str) -> str:
    """A runtime or driver call without the suffixes by which tools and drivers tell versions of it apart."""
    return _SUFFIX.sub("", name) if name.endswith(_VERSIONED) else name


def kind_of(evidence: Evidence) -> SyncKind:
    """What the host waited in."""
    if evidence.asked == "empty_cache":
        return SyncKind.EMPTY_CACHE
    by_op = _by_op(evidence.ops)
    if (evidence.prints or evidence.asked in _TEXTS) and _is_read(evidence, by_op):
        return SyncKind.PRINT
    if by_op is SyncKind.ITEM and evidence.asked in _TESTS:
        return SyncKind.TRUTH
    if (memory := _of_memory(evidence)) is not None:
        return memory
    if by_op is not None:
        return by_op
    return _of_copy(evidence) or _of_call(evidence)


def _is_read(evidence: Evidence, by_op: SyncKind | None) -> bool:
    """Whether it can be a part of making text: torch picks and reads elements for that."""
    is_part = by_op in (None, SyncKind.ITEM, SyncKind.NONZERO, SyncKind.BOOLEAN_INDEX, SyncKind.TRUTH)
    return is_part and not any(plain_call(call).endswith(("DeviceSynchronize", "Free")) for call in evidence.calls)


def _by_op(ops: tuple[str, ...]) -> SyncKind | None:
    """By the innermost operator that is known to wait, and those around it of which it is a part."""
    found: SyncKind | None = None
    is_copy = _READS.isdisjoint(ops)
    for op in ops:
        kind = SyncKind.ITEM if op in _READS else _BY_OP.get(op)
        if found is None and is_copy and op in _COPIES:
            return None  # the copy of an argument, whatever operator wanted it
        if kind is not None and (found is None or kind in _OUTER.get(found, ())):
            found = kind
    return found


def _of_memory(evidence: Evidence) -> SyncKind | None:
    calls = [plain_call(call) for call in evidence.calls]
    if not any(is_release(call) for call in calls):
        return None
    if any(is_allocation(call) for call in calls):
        return SyncKind.ALLOCATOR_RETRY
    return SyncKind.FREE if evidence.ops else SyncKind.EMPTY_CACHE


def _of_copy(evidence: Evidence) -> SyncKind | None:
    if evidence.asked in _MOVES and evidence.way != "HtoD" and not _is_explicit(evidence):
        return _MOVES[evidence.asked]
    if evidence.asked == "item" and not _is_explicit(evidence):
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
    for call in map(plain_call, evidence.calls):
        if call.endswith(("DeviceSynchronize", "CtxSynchronize", "ThreadSynchronize")):
            return SyncKind.DEVICE_SYNC
        if call.endswith("EventSynchronize"):
            return SyncKind.EVENT_SYNC
    return SyncKind.STREAM_SYNC


def is_release(call: str) -> bool:
    """Whether a runtime call gives memory back, for which the driver waits for the device."""
    return call in _RELEASES


def is_allocation(call: str) -> bool:
    """Whether a runtime call asks the driver for memory."""
    return call in _ALLOCATIONS


_RELEASES: Final = frozenset({"cudaFree", "cuMemFree", "hipFree", "cudaFreeHost", "hipHostFree", "cuMemFreeHost"})
_ALLOCATIONS: Final = frozenset({"cudaMalloc", "cuMemAlloc", "hipMalloc"})


def asked_for(expression: str) -> str:
    """What an expression of the program calls or does: ``item`` for ``loss.item()``, ``[]`` for ``x[mask]``, or ""."""
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


def asked_by(python: Iterable[str]) -> tuple[str, bool]:
    """What the Python calls around a wait say, innermost first.

    Args:
        python: Their names as torch's profiler writes them.

    Returns:
        The method of a tensor that was called ("" where none was), and whether torch was making text of a tensor.
    """
    method = ""
    for number, name in enumerate(python):
        if number == 0 and (found := _METHOD.match(name)):
            method = found[1]
        if any(file in name for file in _TENSOR_TEXT):
            return method, True
    return method, False
