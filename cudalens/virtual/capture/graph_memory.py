"""The memory that a CUDA graph reads and writes: addresses in its pool, and storages elsewhere.

A graph does not keep the user's tensors alive, so that their blocks return to the graph's pool as on a real device. In
a pool, a graph reads and writes by address (`arenas`), whichever tensor has that memory at the replay: graphs that
share a pool and are replayed out of order overwrite each other's results, as on a GPU. Memory outside of pools is
identified by its storage; a replay raises an error if the storage was freed.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import torch

from cudalens.errors import VirtualDeviceError
from cudalens.virtual.tensors.residency import KEY, PINNED_KEY

if TYPE_CHECKING:
    from cudalens.virtual.capture.captured_ops import Tape
    from cudalens.virtual.tensors.arenas import Arena
    from cudalens.virtual.tensors.residency import Residence

MEMORY_KEY: Final = "_cudalens_memory"


class Memory:
    """A range of memory that a graph reads or writes.

    Attributes:
        maker: The tape whose operator created it; None for memory from outside of captures.
        num_bytes: Its size.
        arena: In a pool, the arena that contains it; None elsewhere.
        address: Its address in a pool.
        own: Outside of a pool, its contents if a graph created it and the user's tensor was freed.
    """

    __slots__ = ("_storage", "address", "arena", "maker", "num_bytes", "own")

    def __init__(self, storage: torch.UntypedStorage, maker: Tape | None) -> None:
        self._storage: Callable[[], torch.UntypedStorage | None] = weakref.ref(storage)
        residence: Residence | None = storage.__dict__.get(KEY)
        if maker is None and residence is None:  # page-locked host memory is kept alive: a replay copies from or to it
            self._storage = lambda: storage
        self.maker = None if maker is None else weakref.ref(maker)
        self.num_bytes = storage.nbytes()
        self.own: torch.UntypedStorage | None = None
        self.arena: Arena | None = None
        self.address = 0
        if residence is not None:
            self.relocate(residence, self.num_bytes)

    def relocate(self, residence: Residence, num_bytes: int) -> None:
        """Update it after its storage was placed on a device."""
        self.num_bytes = num_bytes
        self.arena, self.address = residence.arena, residence.address

    @property
    def storage(self) -> torch.UntypedStorage | None:
        """The user's storage while it is alive; outside of a pool."""
        return self._storage()

    @property
    def live(self) -> torch.UntypedStorage | None:
        """The storage with its contents; outside of a pool."""
        storage = self._storage()
        if (
            storage is None and self.own is None and not self.num_bytes and self.arena is None
        ):  # empty memory needs no storage
            self.own = torch.empty(0, dtype=torch.uint8).untyped_storage()
        return self.own if storage is None else storage

    def contents(self) -> torch.Tensor | None:
        """Return its bytes as a flat tensor of uint8, or None if they were freed."""
        if self.arena is not None:
            return self.arena.bytes_at(self.address, self.num_bytes) if self.arena.is_allocated else None
        storage = self.live
        return None if storage is None else bytes_of(storage)

    def clear(self) -> None:
        """Set it to zero, in a pool."""
        if self.arena is not None and self.arena.is_allocated:
            self.arena.clear(self.address, self.num_bytes)

    def made_by(self, tape: Tape) -> bool:
        """Return whether an operator of `tape` created it."""
        return self.maker is not None and self.maker() is tape


def relocate(storage: torch.UntypedStorage, residence: Residence) -> None:
    """Update the `Memory` of a storage after the storage was moved to a pool."""
    memory: Memory | None = storage.__dict__.get(MEMORY_KEY)
    if memory is not None:
        memory.relocate(residence, storage.nbytes())


class Operand:
    """A tensor for a replay: a view of a `Memory`."""

    __slots__ = ("_dtype", "_flags", "_offset", "_requires_grad", "_size", "_stride", "memory")

    def __init__(self, tensor: torch.Tensor, memory: Memory) -> None:
        self.memory, self._dtype = memory, tensor.dtype
        self._size, self._stride, self._offset = tensor.size(), tensor.stride(), tensor.storage_offset()
        self._flags = (tensor.is_conj(), tensor.is_neg())
        self._requires_grad = tensor.requires_grad

    @property
    def layout(self) -> tuple[torch.dtype, torch.Size, tuple[int, ...], int, tuple[bool, bool]]:
        """Its dtype, size, stride, offset in its memory (elements), and whether it is conjugated or negated."""
        return self._dtype, self._size, self._stride, int(self._offset), self._flags

    def take(self) -> torch.Tensor:
        """Create the tensor.

        Raises:
            VirtualDeviceError: Its memory was freed.
        """
        memory, tensor = self.memory, torch.empty(0, dtype=self._dtype)
        arena = memory.arena
        storage = memory.live if arena is None else arena.storage
        if storage is None or (arena is not None and not arena.is_allocated):
            raise self._freed_error()
        first = 0 if arena is None else (memory.address - arena.address) // tensor.element_size()
        tensor.set_(storage, first + self._offset, self._size, self._stride)
        if self._flags != (False, False):
            torch._C._set_conj(tensor, self._flags[0])
            torch._C._set_neg(tensor, self._flags[1])
        return tensor

    def take_leaf(self) -> torch.Tensor:
        """As `take`, and the tensor requires a gradient if that of the capture did."""
        return self.take().requires_grad_(self._requires_grad)

    def store(self, result: torch.Tensor) -> None:
        """Store the result of an operator in a replay."""
        memory = self.memory
        storage = result.untyped_storage()
        is_alike = result.storage_offset() == self._offset and result.stride() == self._stride
        if memory.arena is not None and is_alike and storage.nbytes() == memory.num_bytes:
            memory.arena.bytes_at(memory.address, memory.num_bytes).copy_(bytes_of(storage))
        elif memory.arena is not None or memory.storage is not None:
            self.take().copy_(result)
        elif is_alike:
            memory.own = storage
        else:
            if memory.own is None:
                memory.own = torch.empty(memory.num_bytes, dtype=torch.uint8).untyped_storage()
            self.take().copy_(result)

    def blank(self, result: torch.Tensor) -> None:
        """As `store`, for an operator that does not write its result."""
        if self.memory.arena is None and self.memory.live is None:
            self.store(result)

    def undefine(self) -> None:
        """Mark its contents as undefined."""
        if self.memory.arena is None and self.memory.storage is None:
            return
        tensor = self.take()
        tensor.fill_(float("nan") if tensor.is_floating_point() or tensor.is_complex() else 0)

    def _freed_error(self) -> VirtualDeviceError:
        what = f"a {self._dtype} tensor of size {tuple(self._size)}"
        if self.memory.maker is not None:
            return VirtualDeviceError(
                f"A graph reads {what} that another graph computes, and that graph has not been replayed since the "
                "tensor was freed. Replay the graphs in the order of their captures, or keep the tensor."
            )
        return VirtualDeviceError(
            f"A graph uses {what} that existed before the capture and has been freed since; on a GPU the replay would "
            "read or overwrite other data there. Keep every tensor that a graph uses as long as the graph."
        )


def memory_of(tensor: torch.Tensor, tape: Tape, *, is_result: bool = False) -> Memory:
    """Return the memory of a tensor that `tape` uses.

    Raises:
        VirtualDeviceError: The tensor has no storage.
    """
    try:
        storage = tensor.untyped_storage()
    except (RuntimeError, NotImplementedError):
        raise VirtualDeviceError(
            f"A graph capture on a virtual device met a tensor of layout {tensor.layout}, which has no storage of "
            "its own to record. Capture dense tensors only, or use a real GPU."
        ) from None
    memory: Memory | None = storage.__dict__.get(MEMORY_KEY)
    if memory is None:
        memory = storage.__dict__[MEMORY_KEY] = Memory(storage, tape if is_result else None)
    return memory


def is_pageable(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is in pageable host memory."""
    found = tensor.untyped_storage().__dict__
    return KEY not in found and PINNED_KEY not in found


def bytes_of(storage: torch.UntypedStorage) -> torch.Tensor:
    """Return a storage as a flat tensor of uint8."""
    flat = torch.empty(0, dtype=torch.uint8)
    return flat.set_(storage)
