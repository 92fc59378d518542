"""Memory as a CUDA graph sees it: addresses in its pool, and storages elsewhere; never the user's tensors.

A graph does not keep the user's tensors alive, so that their blocks go back to the graph's pool as they do on a real
device. What a graph reads and writes in a pool it finds by address (`arenas`), whoever has that memory by then: graphs
that share a pool and are replayed out of order overwrite each other's results as on a GPU. Memory from outside of any
pool it knows by its storage, and says so where that is gone.
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
    """A piece of memory that a graph reads or writes.

    Attributes:
        maker: The tape whose operator made it; None for memory from outside of any capture.
        num_bytes: Its size.
        arena: The bytes of the segment that it lies in, in a pool; None elsewhere.
        address: Where in a pool.
        own: Its contents outside of a pool, where a graph made it and no tensor of the user has it any more.
    """

    __slots__ = ("_storage", "address", "arena", "maker", "num_bytes", "own")

    def __init__(self, storage: torch.UntypedStorage, maker: Tape | None) -> None:
        self._storage: Callable[[], torch.UntypedStorage | None] = weakref.ref(storage)
        residence: Residence | None = storage.__dict__.get(KEY)
        if maker is None and residence is None:  # page-locked host memory: a replay copies from or to it
            self._storage = lambda: storage
        self.maker = None if maker is None else weakref.ref(maker)
        self.num_bytes = storage.nbytes()
        self.own: torch.UntypedStorage | None = None
        self.arena: Arena | None = None
        self.address = 0
        if residence is not None:
            self.move(residence, self.num_bytes)

    def move(self, residence: Residence, num_bytes: int) -> None:
        """Its storage got a place on a device."""
        self.num_bytes = num_bytes
        self.arena, self.address = residence.arena, residence.address

    @property
    def storage(self) -> torch.UntypedStorage | None:
        """The user's storage, while anything refers to it; outside of a pool."""
        return self._storage()

    @property
    def live(self) -> torch.UntypedStorage | None:
        """Where its contents are; outside of a pool."""
        storage = self._storage()
        if storage is None and self.own is None and not self.num_bytes and self.arena is None:  # nothing to be freed
            self.own = torch.empty(0, dtype=torch.uint8).untyped_storage()
        return self.own if storage is None else storage

    def contents(self) -> torch.Tensor | None:
        """Its bytes, as a flat tensor of uint8; None where they are gone."""
        if self.arena is not None:
            return self.arena.bytes_at(self.address, self.num_bytes) if self.arena.is_there else None
        storage = self.live
        return None if storage is None else bytes_of(storage)

    def clear(self) -> None:
        """Let it read as zeros, in a pool."""
        if self.arena is not None and self.arena.is_there:
            self.arena.clear(self.address, self.num_bytes)

    def made_by(self, tape: Tape) -> bool:
        """Whether an operator of `tape` made it."""
        return self.maker is not None and self.maker() is tape


def moved(storage: torch.UntypedStorage, residence: Residence) -> None:
    """A storage got a place in a pool: what graphs know of it so far had none yet."""
    memory: Memory | None = storage.__dict__.get(MEMORY_KEY)
    if memory is not None:
        memory.move(residence, storage.nbytes())


class Operand:
    """A tensor as a replay sees it: a place in a piece of memory."""

    __slots__ = ("_dtype", "_flags", "_offset", "_size", "_stride", "memory")

    def __init__(self, tensor: torch.Tensor, memory: Memory) -> None:
        self.memory, self._dtype = memory, tensor.dtype
        self._size, self._stride, self._offset = tensor.size(), tensor.stride(), tensor.storage_offset()
        self._flags = (tensor.is_conj(), tensor.is_neg())

    @property
    def layout(self) -> tuple[torch.dtype, torch.Size, tuple[int, ...], int, tuple[bool, bool]]:
        """Its dtype, size, stride, offset in its memory (elements), and whether it is conjugated or negated."""
        return self._dtype, self._size, self._stride, int(self._offset), self._flags

    def take(self) -> torch.Tensor:
        """The tensor, made anew.

        Raises:
            VirtualDeviceError: Its memory is gone.
        """
        memory, tensor = self.memory, torch.empty(0, dtype=self._dtype)
        arena = memory.arena
        storage = memory.live if arena is None else arena.storage
        if storage is None or (arena is not None and not arena.is_there):
            raise self._gone()
        first = 0 if arena is None else (memory.address - arena.address) // tensor.element_size()
        tensor.set_(storage, first + self._offset, self._size, self._stride)
        if self._flags != (False, False):
            torch._C._set_conj(tensor, self._flags[0])
            torch._C._set_neg(tensor, self._flags[1])
        return tensor

    def store(self, result: torch.Tensor) -> None:
        """Take over what an operator returned this time."""
        memory = self.memory
        storage, is_alike = result.untyped_storage(), self._is_alike(result)
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

    def _is_alike(self, result: torch.Tensor) -> bool:
        return result.storage_offset() == self._offset and result.stride() == self._stride

    def blank(self, result: torch.Tensor) -> None:
        """As `store`, of an operator that leaves its result unwritten."""
        if self.memory.arena is None and self.memory.live is None:
            self.store(result)

    def undefine(self) -> None:
        """Mark its contents as never written."""
        if self.memory.arena is None and self.memory.storage is None:
            return
        tensor = self.take()
        tensor.fill_(float("nan") if tensor.is_floating_point() or tensor.is_complex() else 0)

    def _gone(self) -> VirtualDeviceError:
        what = f"a {self._dtype} tensor of size {tuple(self._size)}"
        if self.memory.maker is not None:
            return VirtualDeviceError(
                f"A graph reads {what} that another graph computes, and that graph has not been replayed since the "
                "tensor was freed. Replay the graphs in the order of their captures, or keep the tensor."
            )
        return VirtualDeviceError(
            f"A graph uses {what} that existed before the capture and has been freed since; on a GPU the replay would "
            "read or overwrite whatever lies there now. Keep every tensor that a graph uses as long as the graph."
        )


def memory_of(tensor: torch.Tensor, tape: Tape, *, is_result: bool = False) -> Memory:
    """The memory of a tensor that `tape` met.

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
    """Whether a tensor is in ordinary host memory."""
    found = tensor.untyped_storage().__dict__
    return KEY not in found and PINNED_KEY not in found


def bytes_of(storage: torch.UntypedStorage) -> torch.Tensor:
    """A storage as a flat tensor of uint8."""
    flat = torch.empty(0, dtype=torch.uint8)
    return flat.set_(storage)
