"""Memory as a CUDA graph sees it: places in storages, not tensors.

A graph does not keep the user's tensors alive, so that their blocks go back to the graph's pool as they do on a real
device. Where the user's storage is gone, the graph computes in memory of its own.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import torch

from cudalens.errors import VirtualDeviceError
from cudalens.virtual.residency import KEY, PINNED_KEY

if TYPE_CHECKING:
    from cudalens.virtual.captured_ops import Tape

MEMORY_KEY: Final = "_cudalens_memory"


class Memory:
    """A storage that a graph reads or writes.

    Attributes:
        maker: The tape whose operator made it; None for memory from outside of any capture.
        is_shared: Another graph uses it too, so that its contents outlive a replay.
        own: What stands in for the storage once the user has let go of it.
    """

    __slots__ = ("_storage", "is_shared", "maker", "own")

    def __init__(self, storage: torch.UntypedStorage, maker: Tape | None) -> None:
        self._storage: Callable[[], torch.UntypedStorage | None] = weakref.ref(storage)
        if maker is None and KEY not in storage.__dict__:  # page-locked host memory: a replay copies from or to it
            self._storage = lambda: storage
        self.maker = None if maker is None else weakref.ref(maker)
        self.is_shared = False
        self.own: torch.UntypedStorage | None = None

    @property
    def storage(self) -> torch.UntypedStorage | None:
        """The user's storage, while anything refers to it."""
        return self._storage()

    @property
    def live(self) -> torch.UntypedStorage | None:
        """Where its contents are now."""
        storage = self._storage()
        return self.own if storage is None else storage

    def made_by(self, tape: Tape) -> bool:
        """Whether an operator of `tape` made it."""
        return self.maker is not None and self.maker() is tape


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
        memory = self.memory
        if memory.storage is not None:
            self.take().copy_(result)
        elif result.storage_offset() == self._offset and result.stride() == self._stride:
            memory.own = result.untyped_storage()
        else:
            if memory.own is None:
                end = sum((size - 1) * step for size, step in zip(self._size, self._stride, strict=True)) + 1
                memory.own = torch.empty(self._offset + max(end, 0), dtype=self._dtype).untyped_storage()
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
    elif not memory.made_by(tape):
        memory.is_shared = True
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
    """Run operators on the CPU that no mode of torch sees, and autograd neither."""
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch(), torch.no_grad():
        yield
