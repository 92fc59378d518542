"""Locations of tensors in a logged program: an address on a device, or a piece of host memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import torch

#: The space of device addresses, shared by all devices (their addresses differ). Each host storage has its own space,
#: numbered from 1.
DEVICE: Final = 0


class Span(NamedTuple):
    """Bytes from `start` up to `end` of a space."""

    space: int
    start: int
    end: int

    def overlaps(self, other: Span) -> bool:
        """Return whether they share a byte."""
        return self.space == other.space and max(self.start, other.start) < min(self.end, other.end)


class Place:
    """The layout of a tensor without its memory: the span of its storage, and its view of it.

    Attributes:
        storage: The bytes of its storage.
        dtype: Its dtype.
        size: Its shape.
        stride: Its strides, in elements.
        offset: The offset of its first element in the storage, in elements.
        is_conj: Whether its conjugate bit is set.
        is_neg: Whether its negative bit is set.
    """

    __slots__ = ("dtype", "is_conj", "is_neg", "offset", "size", "storage", "stride")

    def __init__(
        self,
        storage: Span,
        dtype: torch.dtype,
        size: tuple[int, ...],
        stride: tuple[int, ...],
        offset: int,
        flags: tuple[bool, bool] = (False, False),
    ) -> None:
        self.storage, self.dtype, self.size, self.stride, self.offset = storage, dtype, size, stride, offset
        self.is_conj, self.is_neg = flags

    @classmethod
    def of(cls, tensor: torch.Tensor, storage: Span) -> Place:
        """Return the place of a tensor whose storage is at a span."""
        flags = (tensor.is_conj(), tensor.is_neg())
        return cls(storage, tensor.dtype, tuple(tensor.size()), tensor.stride(), int(tensor.storage_offset()), flags)

    @property
    def span(self) -> Span:
        """From its first byte to its last; empty without elements."""
        item, first = self.dtype.itemsize, self.storage.start + self.offset * self.dtype.itemsize
        if 0 in self.size:
            return Span(self.storage.space, first, first)
        last = sum((length - 1) * step for length, step in zip(self.size, self.stride, strict=True))
        return Span(self.storage.space, first, first + (last + 1) * item)

    def within(self, memory: torch.UntypedStorage, start: int) -> torch.Tensor:
        """Return the tensor in a buffer whose first byte is at `start` of the space."""
        tensor = torch.empty(0, dtype=self.dtype)
        first = (self.storage.start - start) // self.dtype.itemsize + self.offset
        tensor.set_(memory, first, self.size, self.stride)
        if self.is_conj:
            torch._C._set_conj(tensor, True)
        if self.is_neg:
            torch._C._set_neg(tensor, True)
        return tensor


def places_in(value: Any) -> Iterator[Place]:
    """Yield the places in an operator's logged arguments."""
    if isinstance(value, Place):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from places_in(item)
    elif isinstance(value, dict):
        yield from places_in(list(value.values()))
