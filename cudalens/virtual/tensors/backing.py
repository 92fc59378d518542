"""Reserve host memory for large device tensors without committing it before it is written."""

from __future__ import annotations

import mmap
import sys
from math import prod
from typing import Any, Final

import torch

#: New tensors of at least this size get their own mapping; for smaller ones malloc also commits lazily.
LARGE_BYTES: Final = 64 << 20

_MAX_ITEM_BYTES: Final = 16
#: In Python's mmap from 3.12; the number is Linux's (asm-generic/mman.h).
_NO_RESERVE: Final[int] = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)

_META: Final = torch.device("meta")
_aten = torch.ops.aten
#: Factories whose memory need not be written: a new mapping reads as zeros.
_BLANK: Final = {
    _aten.empty.memory_format,
    _aten.empty_strided.default,
    _aten.new_empty.default,
    _aten.new_empty_strided.default,
    _aten.empty_like.default,
    _aten.zeros.default,
    _aten.new_zeros.default,
    _aten.zeros_like.default,
}

_ZEROS: Final = frozenset({_aten.zeros.default, _aten.new_zeros.default, _aten.zeros_like.default})


def meta_result(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor | None:
    """Return the result of a factory as a meta tensor if it may be large; otherwise None.

    Size, strides and dtype follow torch's rules, because the factory runs on the meta device.
    """
    if not args or _most_bytes(args) < LARGE_BYTES:
        return None
    on_meta = [_without_memory(a) if isinstance(a, torch.Tensor) else a for a in args]
    others = {key: None if key == "generator" else value for key, value in kwargs.items() if key != "pin_memory"}
    made: torch.Tensor = func(*on_meta, **{**others, "device": _META})
    if made.layout is not torch.strided:
        return None
    return made if made.untyped_storage().nbytes() >= LARGE_BYTES else None


def _most_bytes(args: tuple[Any, ...]) -> int:
    """Return an upper bound of the result's size for these arguments: tensors, or lists of sizes."""
    most = 0
    for arg in args[:3]:
        if isinstance(arg, torch.Tensor):
            most = max(most, arg.numel())
        elif isinstance(arg, list | tuple):
            most = max(most, prod(arg))
        elif isinstance(arg, int):
            most = max(most, arg)
    return most * _MAX_ITEM_BYTES


def _without_memory(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=_META)


def leaves_blank(func: Any) -> bool:
    """Return whether a factory's memory need not be written if it reads as zeros."""
    return func in _BLANK


def is_zeros(func: Any) -> bool:
    """Return whether a factory returns zeros."""
    return func in _ZEROS


def blank(func: Any, like: torch.Tensor) -> torch.Tensor | None:
    """Return a tensor like `like` in unwritten memory if `func` allows that; otherwise None."""
    if func not in _BLANK:
        return None
    memory = reserve(like.untyped_storage().nbytes())
    storage = torch.frombuffer(memory, dtype=torch.uint8).untyped_storage()
    made = torch.empty(0, dtype=like.dtype)
    return made.set_(storage, 0, like.shape, like.stride())


def reserve(num_bytes: int) -> mmap.mmap:
    """Reserve address space without committing memory if the system supports it (Linux: MAP_NORESERVE)."""
    flags = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0)
    if not flags:
        return mmap.mmap(-1, num_bytes)
    return mmap.mmap(-1, num_bytes, flags=flags | _NO_RESERVE)
