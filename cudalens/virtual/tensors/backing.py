"""Host memory behind virtual device memory: reserved, but not taken before somebody writes it."""

from __future__ import annotations

import mmap
import sys
from math import prod
from typing import Any, Final

import torch

#: From this size on a fresh tensor is a mapping of its own; below it malloc is as lazy.
LARGE_BYTES: Final = 64 << 20

_MAX_ITEM_BYTES: Final = 16
#: Python's mmap names it from 3.12 on; the number is Linux's (asm-generic/mman.h).
_NO_RESERVE: Final[int] = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)

_META: Final = torch.device("meta")
_aten = torch.ops.aten
#: Factories whose memory need not be touched: a fresh mapping reads as zeros.
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


def likeness(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor | None:
    """What a factory is about to make, without memory, where that may be large; otherwise None.

    Size, strides and dtype follow torch's own rules: the factory is asked on the meta device.
    """
    if not args or _most_bytes(args) < LARGE_BYTES:
        return None
    on_meta = [_without_memory(a) if isinstance(a, torch.Tensor) else a for a in args]
    drawn = {key: value for key, value in kwargs.items() if key not in ("generator", "pin_memory")}
    made: torch.Tensor = func(*on_meta, **{**drawn, "device": _META})
    return made if made.untyped_storage().nbytes() >= LARGE_BYTES else None


def _most_bytes(args: tuple[Any, ...]) -> int:
    """More than a factory with these arguments can make: a tensor's likeness, or a list of sizes."""
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
    """Whether a factory's memory need not be touched, where it reads as zeros."""
    return func in _BLANK


def is_zeros(func: Any) -> bool:
    """Whether a factory's memory reads as zeros."""
    return func in _ZEROS


def blank(func: Any, like: torch.Tensor) -> torch.Tensor | None:
    """`like` in untouched memory, where `func` leaves its result blank; otherwise None."""
    if func not in _BLANK:
        return None
    memory = reserve(like.untyped_storage().nbytes())
    storage = torch.frombuffer(memory, dtype=torch.uint8).untyped_storage()
    made = torch.empty(0, dtype=like.dtype)
    return made.set_(storage, 0, like.shape, like.stride())


def reserve(num_bytes: int) -> mmap.mmap:
    """Address space without a claim on memory, where the system knows such a thing (Linux: MAP_NORESERVE)."""
    flags = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0)
    if not flags:
        return mmap.mmap(-1, num_bytes)
    return mmap.mmap(-1, num_bytes, flags=flags | _NO_RESERVE)
