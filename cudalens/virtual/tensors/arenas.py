"""Arenas: tensors in the memory pool of a CUDA graph share bytes if their addresses overlap, as on a GPU.

Memory that a CUDA graph uses is overwritten by every replay, whichever tensor has it then. So the bytes of a storage in
the pool of a graph (one that a capture uses or has used) are those of its segment, at its address. Outside of such
pools every storage has its own bytes, which makes no difference.
"""

from __future__ import annotations

import mmap
import sys
import weakref
from collections.abc import Callable, Iterable
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from cudalens.virtual.allocator.sizes import round_up
from cudalens.virtual.dispatch.dispatch_utils import below_modes
from cudalens.virtual.tensors.residency import KEY, ArenaResidence, MemoryOwner, Residence, residence_of

if TYPE_CHECKING:
    from cudalens.virtual.allocator import Block, Segment
    from cudalens.virtual.timing.machine import Device


#: On Linux, pages of a private anonymous mapping read as zeros after this advice (madvise(2)).
_DISCARD: Final[int | None] = getattr(mmap, "MADV_DONTNEED", None) if sys.platform == "linux" else None

#: Attribute of a storage whose values were moved to an arena: a weak reference to the storage there.
MOVED_KEY: Final = "_cudalens_moved"


class Lease(np.ndarray[Any, Any]):
    """The memory of one storage in an arena; torch keeps it alive exactly as long as the storage's data.

    Attributes:
        gpus: The virtual GPUs.
        place: The device.
        block: The block to free at the end; None if the storage owns no block.
    """

    gpus: MemoryOwner
    place: Device
    block: Block | None = None

    def free(self) -> None:
        """Free the block now."""
        block, self.block = self.block, None
        if block is not None and not self.gpus.is_closed:
            self.gpus.release(self.place, block)

    def __del__(self) -> None:
        self.free()


class Arena:
    """The bytes of one segment.

    Attributes:
        address: The device address of the segment's first byte.
        storage: A storage of all bytes.
    """

    __slots__ = ("__weakref__", "_memory", "_segment", "address", "storage")

    def __init__(self, segment: Segment) -> None:
        self._segment, self.address = segment, segment.address
        self._memory: mmap.mmap = reserve(segment.size)
        self.storage: torch.UntypedStorage = torch.frombuffer(self._memory, dtype=torch.uint8).untyped_storage()

    @classmethod
    def of(cls, segment: Segment) -> Arena:
        """Return the arena of a segment; created at the first call."""
        arena: Arena | None = segment.backing
        if arena is None:
            arena = segment.backing = cls(segment)
        return arena

    @property
    def is_allocated(self) -> bool:
        """Whether the allocator still holds the segment."""
        return self._segment.backing is self

    def place(self, gpus: MemoryOwner, device: Device, address: int, num_bytes: int, block: Block | None = None) -> Any:
        """Create a storage over some of the bytes, with a residence; it cannot be resized.

        Args:
            gpus: The virtual GPUs.
            device: The device of the segment.
            address: The storage's first byte.
            num_bytes: The storage's size.
            block: The block that the storage owns and frees at its end; None if it owns none.
        """
        part = np.frombuffer(self._memory, np.uint8, num_bytes, address - self.address).view(Lease)
        part.gpus, part.place, part.block = gpus, device, block
        storage: Any = torch.frombuffer(part, dtype=torch.uint8).untyped_storage()
        storage.__dict__[KEY] = ArenaResidence(part, self, address, num_bytes)
        return storage

    def bytes_at(self, address: int, num_bytes: int) -> torch.Tensor:
        """Some of the bytes as a flat tensor of uint8."""
        return torch.empty(0, dtype=torch.uint8).set_(self.storage, address - self.address, (num_bytes,), (1,))

    def clear(self, address: int, num_bytes: int) -> None:
        """Set some of the bytes to zero; for large sizes, by returning pages to the system if supported."""
        first = address - self.address
        start, end = round_up(first, mmap.PAGESIZE), (first + num_bytes) // mmap.PAGESIZE * mmap.PAGESIZE
        if _DISCARD is None or num_bytes < LARGE_BYTES:
            self.bytes_at(address, num_bytes).zero_()
            return
        self._memory.madvise(_DISCARD, start, end - start)
        self.bytes_at(address, start - first).zero_()
        self.bytes_at(self.address + end, first + num_bytes - end).zero_()


def has_arena(block: Block) -> bool:
    """Return whether a block's bytes are stored in an arena."""
    owner = block.pool.owner
    return owner is not None and owner.serves_graphs


def move_in(gpus: MemoryOwner, tensor: torch.Tensor, device: Device, block: Block) -> ArenaResidence:
    """Move a tensor's values into the arena of its block; the tensor remains the same object.

    Args:
        gpus: The virtual GPUs.
        tensor: In its own host memory; other views of it must be moved with `follow`.
        device: The device of the block.
        block: A block in a graph's pool.
    """
    before: Any = tensor.untyped_storage()
    storage = Arena.of(block.segment).place(gpus, device, block.address, before.nbytes(), block)
    with below_modes():
        _bytes_of(storage).copy_(_bytes_of(before))
        set_storage(tensor, storage)
    residence: ArenaResidence = storage.__dict__[KEY]
    storage.__dict__.update({**before.__dict__, KEY: residence})
    if KEY in before.__dict__:
        before.__dict__[KEY] = residence
    before.__dict__[MOVED_KEY] = weakref.ref(storage)
    return residence


def follow(tensor: torch.Tensor, before: Any) -> ArenaResidence | None:
    """Move a tensor to the arena that its storage `before` was moved to; None if it was not moved."""
    find: Callable[[], Any] | None = before.__dict__.get(MOVED_KEY)
    storage = None if find is None else find()
    if storage is None:
        return None
    with below_modes():
        set_storage(tensor, storage)
    return storage.__dict__[KEY]


def place_blank(gpus: MemoryOwner, like: torch.Tensor, device: Device, block: Block, *, zeros: bool) -> torch.Tensor:
    """Create a tensor at its block without writing the bytes.

    Args:
        gpus: The virtual GPUs.
        like: A meta tensor with its size, strides and dtype.
        device: The device of the block.
        block: A block in a graph's pool.
        zeros: Whether to set it to zero; otherwise the previous contents remain.
    """
    arena, num_bytes = Arena.of(block.segment), like.untyped_storage().nbytes()
    storage = arena.place(gpus, device, block.address, num_bytes, block)
    if zeros:
        arena.clear(block.address, num_bytes)
    return torch.empty(0, dtype=like.dtype).set_(storage, 0, like.shape, like.stride())


def is_resize_error(error: RuntimeError) -> bool:
    """Return whether an operator failed because a tensor in an arena cannot be resized."""
    return "not resizable" in str(error)


def run_resizable(gpus: MemoryOwner, error: RuntimeError, values: Iterable[Any], call: Callable[[], Any]) -> Any:
    """Run an operator again that failed because a tensor in an arena cannot be resized.

    Tensors that it resizes are then in their own host memory, and must be placed on the device again.

    Args:
        gpus: The virtual GPUs.
        error: The error of the operator.
        values: Its arguments.
        call: Runs the operator.

    Raises:
        RuntimeError: `error` if there is no such tensor, or a new error.
    """
    moved: list[tuple[torch.Tensor, torch.UntypedStorage]] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            residence = residence_of(value)
            # A tensor that does not own a block cannot be resized on a GPU either.
            if residence is not None and residence.arena is not None and residence.block is not None:
                moved.append((value, value.untyped_storage()))
    if not moved:
        raise error
    for tensor, in_arena in moved:
        held: ArenaResidence = in_arena.__dict__[KEY]
        with below_modes():
            own: Any = _bytes_of(in_arena).clone().untyped_storage()
            set_storage(tensor, own)
        own.__dict__[KEY] = Residence(gpus, held.device, None, held.num_bytes)
    try:
        return call()
    finally:
        for tensor, before in moved:
            if tensor.untyped_storage().nbytes() == before.nbytes():
                with below_modes():
                    _bytes_of(before).copy_(_bytes_of(tensor.untyped_storage()))
                    set_storage(tensor, before)


def _bytes_of(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8).set_(storage)


def set_storage(tensor: torch.Tensor, storage: torch.UntypedStorage) -> None:
    """As ``set_``, without changing autograd's version counter."""
    there = torch.empty(0, dtype=tensor.dtype)
    there.set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())
    if tensor.is_conj() or tensor.is_neg():
        torch._C._set_conj(there, tensor.is_conj())
        torch._C._set_neg(there, tensor.is_neg())
    tensor.data = there


# Reserve host memory for large device tensors without committing it before it is written.

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
    on_meta = [
        torch.empty_strided(a.shape, a.stride(), dtype=a.dtype, device=_META) if isinstance(a, torch.Tensor) else a
        for a in args
    ]
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
