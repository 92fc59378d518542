"""The bytes of graphs' memory pools: tensors whose addresses overlap share them, as on a GPU.

Memory that a CUDA graph uses is written by every replay, whoever has it by then. So a storage in the pool of a graph
(one that a capture uses or has used) does not keep its values for itself: its bytes are those of its segment, at its
address. Elsewhere every storage has bytes of its own, which nobody could tell apart.
"""

from __future__ import annotations

import mmap
import sys
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from cudalens.virtual.allocator.sizes import round_up
from cudalens.virtual.dispatch.dispatch_utils import unseen
from cudalens.virtual.tensors.backing import LARGE_BYTES, reserve
from cudalens.virtual.tensors.residency import KEY, ArenaResidence, MemoryOwner, Residence, residence_of

if TYPE_CHECKING:
    from cudalens.virtual.allocator import Block, Segment
    from cudalens.virtual.timing.machine import Device

#: On Linux, pages of a private anonymous mapping read as zeros after it (madvise(2)).
_FORGET: Final[int | None] = getattr(mmap, "MADV_DONTNEED", None) if sys.platform == "linux" else None

#: Where a storage was made before its values moved to an arena: a weak reference to the one there.
MOVED_KEY: Final = "_cudalens_moved"


class Lease(np.ndarray[Any, Any]):
    """The memory of one storage in an arena; torch holds it exactly as long as the storage has its data.

    Attributes:
        gpus: The virtual GPUs.
        place: Which of them.
        block: What goes back to the allocator at the end; None where the storage owns nothing.
    """

    gpus: MemoryOwner
    place: Device
    block: Block | None = None

    def give_back(self) -> None:
        """The block goes back to the allocator now."""
        block, self.block = self.block, None
        if block is not None and not self.gpus.is_closed:
            self.gpus.release(self.place, block)

    def __del__(self) -> None:
        self.give_back()


class Arena:
    """The bytes of one segment.

    Attributes:
        address: The segment's first byte, as the device counts.
        storage: All of them.
    """

    __slots__ = ("__weakref__", "_memory", "_segment", "address", "storage")

    def __init__(self, segment: Segment) -> None:
        self._segment, self.address = segment, segment.address
        self._memory: mmap.mmap = reserve(segment.size)
        self.storage: torch.UntypedStorage = torch.frombuffer(self._memory, dtype=torch.uint8).untyped_storage()

    @classmethod
    def of(cls, segment: Segment) -> Arena:
        """The segment's, made where it has none."""
        arena: Arena | None = segment.backing
        if arena is None:
            arena = segment.backing = cls(segment)
        return arena

    @property
    def is_allocated(self) -> bool:
        """Whether the allocator still holds the segment."""
        return self._segment.backing is self

    def place(self, gpus: MemoryOwner, device: Device, address: int, num_bytes: int, block: Block | None = None) -> Any:
        """A storage of its own over some of the bytes, which knows its place; it cannot be resized.

        Args:
            gpus: The virtual GPUs.
            device: The segment's.
            address: The storage's first byte.
            num_bytes: Its size.
            block: The block that it owns, and gives back at its end; None where it owns nothing.
        """
        part = np.frombuffer(self._memory, np.uint8, num_bytes, address - self.address).view(Lease)
        part.gpus, part.place, part.block = gpus, device, block
        storage: Any = torch.frombuffer(part, dtype=torch.uint8).untyped_storage()
        storage.__dict__[KEY] = ArenaResidence(part, self, address, num_bytes)
        return storage

    def bytes_at(self, address: int, num_bytes: int) -> torch.Tensor:
        """Some of the bytes, as a flat tensor of uint8."""
        return torch.empty(0, dtype=torch.uint8).set_(self.storage, address - self.address, (num_bytes,), (1,))

    def clear(self, address: int, num_bytes: int) -> None:
        """Let some of the bytes read as zeros; of many, pages go back to the system for that, where it can."""
        first = address - self.address
        start, end = round_up(first, mmap.PAGESIZE), (first + num_bytes) // mmap.PAGESIZE * mmap.PAGESIZE
        if _FORGET is None or num_bytes < LARGE_BYTES:
            self.bytes_at(address, num_bytes).zero_()
            return
        self._memory.madvise(_FORGET, start, end - start)
        self.bytes_at(address, start - first).zero_()
        self.bytes_at(self.address + end, first + num_bytes - end).zero_()


def keeps_bytes(block: Block) -> bool:
    """Whether a block's bytes are kept by its segment."""
    owner = block.pool.owner
    return owner is not None and owner.serves_graphs


def move_in(gpus: MemoryOwner, tensor: torch.Tensor, device: Device, block: Block) -> ArenaResidence:
    """Put a tensor's values where its block is; the tensor stays the same object.

    Args:
        gpus: The virtual GPUs.
        tensor: In host memory of its own, of which nobody else has a view but what is moved in next (`follow`).
        device: The block's.
        block: Of a pool that serves graphs.
    """
    before: Any = tensor.untyped_storage()
    storage = Arena.of(block.segment).place(gpus, device, block.address, before.nbytes(), block)
    with unseen():
        _bytes_of(storage).copy_(_bytes_of(before))
        _lie_on(tensor, storage)
    residence: ArenaResidence = storage.__dict__[KEY]
    storage.__dict__.update({**before.__dict__, KEY: residence})
    if KEY in before.__dict__:
        before.__dict__[KEY] = residence
    before.__dict__[MOVED_KEY] = weakref.ref(storage)
    return residence


def follow(tensor: torch.Tensor, before: Any) -> ArenaResidence | None:
    """Where `before`, the tensor's storage, has moved already, let the tensor lie there; None where it has not."""
    find: Callable[[], Any] | None = before.__dict__.get(MOVED_KEY)
    storage = None if find is None else find()
    if storage is None:
        return None
    with unseen():
        _lie_on(tensor, storage)
    residence: ArenaResidence = storage.__dict__[KEY]
    return residence


def settle_blank(gpus: MemoryOwner, like: torch.Tensor, device: Device, block: Block, *, zeros: bool) -> torch.Tensor:
    """A tensor at its block, made without touching the bytes.

    Args:
        gpus: The virtual GPUs.
        like: A tensor without memory: its size, strides and dtype.
        device: The block's.
        block: Of a pool that serves graphs.
        zeros: Whether it is to read as zeros; what lay there lies there still otherwise.
    """
    arena, num_bytes = Arena.of(block.segment), like.untyped_storage().nbytes()
    storage = arena.place(gpus, device, block.address, num_bytes, block)
    if zeros:
        arena.clear(block.address, num_bytes)
    return torch.empty(0, dtype=like.dtype).set_(storage, 0, like.shape, like.stride())


def is_too_tight(error: RuntimeError) -> bool:
    """Whether an operator failed because a tensor cannot be resized in its place."""
    return "not resizable" in str(error)


def run_loosely(gpus: MemoryOwner, error: RuntimeError, values: Iterable[Any], call: Callable[[], Any]) -> Any:
    """Run an operator again that failed because a tensor cannot be resized in its place in a pool.

    What it resizes lies in host memory of its own afterwards, and is to be settled anew.

    Args:
        gpus: The virtual GPUs.
        error: How it failed.
        values: What it was given.
        call: Runs it.

    Raises:
        RuntimeError: `error`, where there is no such tensor; or what comes up now.
    """
    loose = [(tensor, tensor.untyped_storage()) for tensor in values if _can_grow(tensor)]
    if not loose:
        raise error
    for tensor, _ in loose:
        _loosen(gpus, tensor)
    try:
        return call()
    finally:
        for tensor, before in loose:
            if tensor.untyped_storage().nbytes() == before.nbytes():
                _put_back(tensor, before)


def _can_grow(value: object) -> bool:
    """Whether a tensor owns memory in a pool; where it does not, it cannot be resized on a GPU either."""
    if not isinstance(value, torch.Tensor):
        return False
    residence = residence_of(value)
    return residence is not None and residence.arena is not None and residence.block is not None


def _loosen(gpus: MemoryOwner, tensor: torch.Tensor) -> None:
    before: Any = tensor.untyped_storage()
    residence: ArenaResidence = before.__dict__[KEY]
    with unseen():
        storage: Any = _bytes_of(before).clone().untyped_storage()
        _lie_on(tensor, storage)
    storage.__dict__[KEY] = Residence(gpus, residence.device, None, residence.num_bytes)


def _put_back(tensor: torch.Tensor, before: torch.UntypedStorage) -> None:
    with unseen():
        _bytes_of(before).copy_(_bytes_of(tensor.untyped_storage()))
        _lie_on(tensor, before)


def _bytes_of(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8).set_(storage)


def _lie_on(tensor: torch.Tensor, storage: torch.UntypedStorage) -> None:
    """As ``set_``, of which autograd's count of in-place changes shall not know."""
    there = torch.empty(0, dtype=tensor.dtype)
    there.set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())
    if tensor.is_conj() or tensor.is_neg():
        torch._C._set_conj(there, tensor.is_conj())
        torch._C._set_neg(there, tensor.is_neg())
    tensor.data = there
