"""Memory as a CUDA graph sees it: places in storages, not tensors.

A graph does not keep the user's tensors alive, so that their blocks go back to the graph's pool as they do on a real
device. Where the user's storage is gone, the graph computes in memory of its own, or in what has taken the place in the
pool since: graphs that share a pool and are replayed out of order overwrite each other's results as on a GPU.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

import torch

from cudalens.errors import VirtualDeviceError
from cudalens.virtual.residency import KEY, PINNED_KEY

if TYPE_CHECKING:
    from cudalens.virtual.captured_ops import Tape

MEMORY_KEY: Final = "_cudalens_memory"
_AUTOCAST: Final = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU) | torch._C.DispatchKeySet(
    torch._C.DispatchKey.AutocastCUDA
)


class Slot:
    """A place in a graph's memory pool, by its address: whatever lies there is overwritten by what comes there next.

    Attributes:
        own: The contents, while no tensor of the user has the place.
    """

    __slots__ = ("__weakref__", "_occupant", "own")

    def __init__(self) -> None:
        self._occupant: Callable[[], torch.UntypedStorage | None] = lambda: None
        self.own: torch.UntypedStorage | None = None

    def occupy(self, storage: torch.UntypedStorage) -> None:
        """A tensor of the user takes the place."""
        self._occupant = weakref.ref(storage)

    def occupant(self, num_bytes: int) -> torch.UntypedStorage | None:
        """The user's storage here, where `num_bytes` fit into it."""
        storage = self._occupant()
        return storage if storage is not None and storage.nbytes() >= num_bytes else None


_slots: WeakValueDictionary[tuple[int, int], Slot] = WeakValueDictionary()
"""By the GPUs' identity and the address: graphs that share a pool share its places."""


class Memory:
    """A storage that a graph reads or writes.

    Attributes:
        maker: The tape whose operator made it; None for memory from outside of any capture.
        num_bytes: Its size.
        slot: Its place in the pool.
    """

    __slots__ = ("_storage", "maker", "num_bytes", "slot")

    def __init__(self, storage: torch.UntypedStorage, maker: Tape | None) -> None:
        self._storage: Callable[[], torch.UntypedStorage | None] = weakref.ref(storage)
        if maker is None and KEY not in storage.__dict__:  # page-locked host memory: a replay copies from or to it
            self._storage = lambda: storage
        self.maker = None if maker is None else weakref.ref(maker)
        self.num_bytes = storage.nbytes()
        self.slot = Slot()

    @property
    def storage(self) -> torch.UntypedStorage | None:
        """The user's storage, while anything refers to it."""
        return self._storage()

    @property
    def taken(self) -> torch.UntypedStorage | None:
        """The storage of the user that lies there now: this one, or what took its place in the pool."""
        storage = self._storage()
        return self.slot.occupant(self.num_bytes) if storage is None else storage

    @property
    def live(self) -> torch.UntypedStorage | None:
        """Where its contents are now."""
        storage = self.taken
        return self.slot.own if storage is None else storage

    def made_by(self, tape: Tape) -> bool:
        """Whether an operator of `tape` made it."""
        return self.maker is not None and self.maker() is tape


def settled(storage: torch.UntypedStorage, gpus: object, address: int) -> None:
    """A storage got its address while a capture is under way."""
    memory: Memory | None = storage.__dict__.get(MEMORY_KEY)
    if memory is None or memory.maker is None:
        return
    slot = _slots.get((id(gpus), address))
    if slot is None:
        slot = _slots[id(gpus), address] = Slot()
    slot.occupy(storage)
    memory.slot, memory.num_bytes = slot, storage.nbytes()


class Operand:
    """A tensor as a replay sees it: a place in a piece of memory."""

    __slots__ = ("_dtype", "_flags", "_offset", "_size", "_stride", "memory")

    def __init__(self, tensor: torch.Tensor, memory: Memory) -> None:
        self.memory, self._dtype = memory, tensor.dtype
        self._size, self._stride, self._offset = tensor.size(), tensor.stride(), tensor.storage_offset()
        self._flags = (tensor.is_conj(), tensor.is_neg())

    def take(self) -> torch.Tensor:
        """The tensor, made anew.

        Raises:
            VirtualDeviceError: Its memory is gone.
        """
        storage = self.memory.live
        if storage is None:
            raise self._gone()
        tensor = torch.empty(0, dtype=self._dtype)
        tensor.set_(storage, self._offset, self._size, self._stride)
        if self._flags != (False, False):
            torch._C._set_conj(tensor, self._flags[0])
            torch._C._set_neg(tensor, self._flags[1])
        return tensor

    def store(self, result: torch.Tensor) -> None:
        """Take over what an operator returned this time."""
        if self.memory.taken is not None:
            self.take().copy_(result)
        elif result.storage_offset() == self._offset and result.stride() == self._stride:
            self.memory.slot.own = result.untyped_storage()
        else:
            if self.memory.slot.own is None:
                self.memory.slot.own = torch.empty(self.memory.num_bytes, dtype=torch.uint8).untyped_storage()
            self.take().copy_(result)

    def blank(self, result: torch.Tensor) -> None:
        """As `store`, of an operator that leaves its result unwritten."""
        if self.memory.live is None:
            self.store(result)

    def undefine(self) -> None:
        """Mark its contents as never written."""
        if self.memory.storage is not None:
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


@contextmanager
def unseen() -> Iterator[None]:
    """Run operators as the dispatch handler does: below autograd and autocast, and seen by no mode of torch."""
    with (
        torch._C.DisableTorchFunction(),
        torch._C._DisableTorchDispatch(),
        torch._C._AutoDispatchBelowAutograd(),
        torch._C._ExcludeDispatchKeyGuard(_AUTOCAST),
    ):
        yield
