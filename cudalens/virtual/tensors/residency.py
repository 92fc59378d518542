"""Residency: which storages are on a virtual device, and their blocks.

Values are in host memory, in the tensor's own CPU storage. The residence on a virtual GPU is an attribute of torch's
storage object, which lives exactly as long as the storage, so that its end frees the block.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol

import torch

from cudalens.device import call_tracing
from cudalens.device.modes import has_own_dispatch
from cudalens.device.tensors import PLAIN_TYPES, stored_parts
from cudalens.virtual.dispatch.dispatch_utils import below_modes
from cudalens.virtual.torch_cuda import host_memory

if TYPE_CHECKING:
    from cudalens.virtual.allocator import Block
    from cudalens.virtual.tensors.arenas import Arena, Lease
    from cudalens.virtual.timing.machine import Device
    from cudalens.virtual.timing.streams import Stream

KEY: Final = "_cudalens_residence"
PINNED_KEY: Final = "_cudalens_pinned"
#: Marks a host tensor that torch created for internal use; it moves to the device of the first operator that uses it.
ADOPT_KEY: Final = "_cudalens_adopt"
_SPARSE: Final = frozenset({torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc})


class MemoryOwner(Protocol):
    """The interface to allocate and free blocks; `cudalens.virtual.gpus.Gpus` implements it.

    Attributes:
        torch_devices: ``torch.device("cuda", index)`` of each.
        is_closed: Whether the virtual device has ended, and its memory with it.
    """

    torch_devices: list[torch.device]
    is_closed: bool

    def reserve(self, device: Device, num_bytes: int) -> Block:
        """Allocate a block for the current stream of a device.

        Raises:
            torch.OutOfMemoryError: The virtual device is full; torch's own text.
        """

    def release(self, device: Device, block: Block) -> None:
        """Free a block. Safe inside the garbage collector."""


class Residence:
    """The residence of a storage on a virtual device; frees the block at the end of the storage.

    Attributes:
        gpus: The virtual GPUs.
        device: The device.
        torch_device: The device as a ``torch.device``.
        block: The block; None for an empty storage.
        num_bytes: The size of the storage at the allocation.
    """

    __slots__ = ("block", "device", "gpus", "num_bytes", "torch_device")

    #: The arena that contains the storage; None outside of arenas.
    arena: Arena | None = None

    def __init__(self, gpus: MemoryOwner, device: Device, block: Block | None, num_bytes: int) -> None:
        self.gpus, self.device, self.block, self.num_bytes = gpus, device, block, num_bytes
        self.torch_device = gpus.torch_devices[device.index]

    @property
    def address(self) -> int:
        """The device pointer of the storage, 0 for an empty storage."""
        return self.block.address if self.block is not None else 0

    @call_tracing.pausable
    def __del__(self) -> None:
        block = self.block
        if block is not None and not self.gpus.is_closed:
            self.gpus.release(self.device, block)


class ArenaResidence(Residence):
    """The residence of a storage in an arena, whose bytes others may write too; it may own no block.

    The block is freed with the storage's data (`arenas.Lease`): up to torch 2.10, a weak reference to a storage keeps
    this object alive longer than the data.

    Attributes:
        arena: The arena.
    """

    __slots__ = ("_address", "_lease", "arena")

    arena: Arena

    def __init__(self, lease: Lease, arena: Arena, address: int, num_bytes: int) -> None:
        self.gpus, self.device, self.num_bytes = lease.gpus, lease.place, num_bytes
        self.torch_device = lease.gpus.torch_devices[lease.place.index]
        self.arena, self._address, self._lease = arena, address, weakref.ref(lease)

    @property
    def address(self) -> int:
        """Device pointer of the storage."""
        return self._address

    @property
    def block(self) -> Block | None:  # type: ignore[override]
        """The block, if the storage owns one."""
        lease = self._lease()
        return None if lease is None else lease.block

    def own(self, block: Block) -> None:
        """Give the storage, which owns no block, ownership of a block."""
        lease = self._lease()
        if lease is not None:
            lease.block = block

    def disown(self) -> None:
        """Free the storage's block now."""
        lease = self._lease()
        if lease is not None:
            lease.free()

    def __del__(self) -> None:
        """Do nothing: the lease frees the block."""


class Invalidated(Residence):
    """Replaces the residence of a storage whose memory was overwritten; each use of the storage raises an error."""

    __slots__ = ("message",)

    def __init__(self, of: Residence, message: str) -> None:
        self.gpus, self.torch_device, self.num_bytes, self.message = of.gpus, of.torch_device, of.num_bytes, message

    @property
    def device(self) -> Device:  # type: ignore[override]
        """Refuse the use of the storage.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(self.message)

    @property
    def address(self) -> int:
        """Refuse the use of the storage.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(self.message)

    @property
    def block(self) -> Block | None:  # type: ignore[override]
        """None: it owns no block."""
        return None


def residence_of(tensor: torch.Tensor) -> Residence | None:
    """The residence of a tensor (of a sparse one: of its values); None in host memory, and for a wrapper subclass."""
    try:
        if type(tensor) in PLAIN_TYPES:
            storage = tensor.untyped_storage()
        else:  # a class may count or refuse what is called: a lazy module's tensor without a shape does
            with torch._C.DisableTorchFunctionSubclass():
                storage = tensor.untyped_storage()
    except (RuntimeError, NotImplementedError):
        # A tensor that torch.func wraps, or a sparse one.
        inside = _inside(tensor)
        if inside is not None:
            return residence_of(inside)
        parts = parts_of(tensor)
        return residence_of(parts[0]) if parts else None
    residence = storage.__dict__.get(KEY)
    return residence if residence is not None and not residence.gpus.is_closed else None


def place_of(tensor: torch.Tensor) -> Residence | None:
    """As `residence_of`; of a wrapper subclass its given place, else that of the first tensor that it wraps."""
    residence = residence_of(tensor)
    if residence is not None or not has_own_dispatch((type(tensor),)):
        return residence
    given: Residence | None = tensor.__dict__.get(KEY)
    if given is not None and not given.gpus.is_closed:
        return given
    if not hasattr(tensor, "__tensor_flatten__"):
        return None
    try:
        names, _ = tensor.__tensor_flatten__()
        inner = [getattr(tensor, name) for name in names]
    except AttributeError:  # it is being made
        return None
    wrapped = [value for value in inner if isinstance(value, torch.Tensor)]  # a DTensor also lists its mesh
    return next(filter(None, map(place_of, wrapped)), None)


def is_any_resident(values: Iterable[Any]) -> bool:
    """Return whether a tensor in `values`, or in nested lists, is on a virtual device."""
    return any(
        residence_of(value) is not None if isinstance(value, torch.Tensor) else is_any_resident(value)
        for value in values
        if isinstance(value, torch.Tensor | list | tuple)
    )


def is_sparse(tensor: torch.Tensor) -> bool:
    """Return whether dense tensors store a tensor (`parts_of`)."""
    return tensor.layout in _SPARSE


def parts_of(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the dense tensors that store a sparse tensor, its values first; none for another layout."""
    if not is_sparse(tensor):
        return ()
    with below_modes():
        return stored_parts(tensor)


def dense_parts(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the dense tensors that store a tensor: itself, or the parts of a sparse one; none for another layout."""
    return (tensor,) if tensor.layout is torch.strided else parts_of(tensor)


def _inside(tensor: torch.Tensor) -> torch.Tensor | None:
    functorch = torch._C._functorch
    return functorch.get_unwrapped(tensor) if functorch.is_functorch_wrapped_tensor(tensor) else None


def is_pinned(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is marked as page-locked host memory."""
    try:
        storage = tensor.untyped_storage()
        return PINNED_KEY in storage.__dict__ or (
            bool(host_memory.registered)
            and KEY not in storage.__dict__
            and host_memory.is_registered(storage.data_ptr())
        )
    except (RuntimeError, NotImplementedError):
        inside = _inside(tensor)
        return inside is not None and is_pinned(inside)


def pin(tensor: torch.Tensor) -> None:
    """Mark a host tensor's storage as page-locked."""
    storage: Any = tensor.untyped_storage()
    if PINNED_KEY not in storage.__dict__:
        storage.__dict__[PINNED_KEY] = host_memory.allocate(storage.nbytes())


def use_pinned(tensor: torch.Tensor, stream: Stream) -> None:
    """A copy that does not block the host uses page-locked memory in a stream: it is not used again before its end."""
    block = tensor.untyped_storage().__dict__.get(PINNED_KEY)
    if isinstance(block, host_memory.PinnedBlock):
        block.use(stream)
