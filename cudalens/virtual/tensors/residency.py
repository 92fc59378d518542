"""Which storage lives on which virtual device.

Values stay in host memory, in the tensor's own CPU storage. That a storage belongs to a virtual GPU is an attribute of
torch's storage object, which lives exactly as long as the storage does, so that its end is the block's end.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol

import torch

from cudalens.virtual.torch_cuda import host_memory

if TYPE_CHECKING:
    from cudalens.virtual.allocator import Block
    from cudalens.virtual.tensors.arenas import Arena, Lease
    from cudalens.virtual.timing.machine import Device

KEY: Final = "_cudalens_residence"
PINNED_KEY: Final = "_cudalens_pinned"
#: Marks a host tensor that torch made for itself; it joins the first device that it meets.
ADOPT_KEY: Final = "_cudalens_adopt"


class MemoryOwner(Protocol):
    """The virtual GPUs as the holders of memory; `cudalens.virtual.gpus.Gpus` is one.

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
    """A storage's place on a virtual device; gives its block back when the storage dies.

    Attributes:
        gpus: The virtual GPUs that it belongs to.
        device: Which of them.
        torch_device: The same, as torch writes it.
        block: The allocator's block; None for an empty storage.
        num_bytes: Size of the storage when the block was taken.
    """

    __slots__ = ("block", "device", "gpus", "num_bytes", "torch_device")

    #: The bytes of its segment, where those are the storage's own (`arenas`).
    arena: Arena | None = None

    def __init__(self, gpus: MemoryOwner, device: Device, block: Block | None, num_bytes: int) -> None:
        self.gpus, self.device, self.block, self.num_bytes = gpus, device, block, num_bytes
        self.torch_device = gpus.torch_devices[device.index]

    @property
    def address(self) -> int:
        """Device pointer of the storage, 0 for an empty one."""
        return self.block.address if self.block is not None else 0

    def __del__(self) -> None:
        block = self.block
        if block is not None and not self.gpus.is_closed:
            self.gpus.release(self.device, block)


class ArenaResidence(Residence):
    """A storage's place in memory of a graph's pool, which others may write too, and which it need not own.

    The block goes back with the storage's data (`arenas.Lease`): who watches a storage by a weak reference keeps this
    object alive longer than that, up to torch 2.10.

    Attributes:
        arena: The bytes of its segment.
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
        """The allocator's block, where the storage owns one."""
        lease = self._lease()
        return None if lease is None else lease.block

    def own(self, block: Block) -> None:
        """The storage, which owns nothing, owns that block from now on."""
        lease = self._lease()
        if lease is not None:
            lease.block = block

    def disown(self) -> None:
        """The storage's block goes back now."""
        lease = self._lease()
        if lease is not None:
            lease.give_back()

    def __del__(self) -> None:
        """Nothing: the block is the lease's to give back."""


class Spoilt(Residence):
    """In the place of a residence: somebody else's values lie where the storage was, and whoever uses it is told."""

    __slots__ = ("message",)

    def __init__(self, of: Residence, message: str) -> None:
        self.gpus, self.torch_device, self.num_bytes, self.message = of.gpus, of.torch_device, of.num_bytes, message

    @property
    def device(self) -> Device:  # type: ignore[override]
        """Asked by whoever is about to use the storage.

        Raises:
            RuntimeError: Always.
        """
        raise RuntimeError(self.message)

    @property
    def address(self) -> int:
        """Likewise."""
        raise RuntimeError(self.message)

    @property
    def block(self) -> Block | None:  # type: ignore[override]
        """It owns nothing."""
        return None


def residence_of(tensor: torch.Tensor) -> Residence | None:
    """Where `tensor` lives; None for host memory, and for a tensor without storage (sparse, or a subclass)."""
    try:
        storage = tensor.untyped_storage()
    except (RuntimeError, NotImplementedError):
        return _residence_inside(tensor)
    except ValueError:  # a lazy module's, which lets nobody look at it before it has a shape
        with torch._C.DisableTorchFunctionSubclass():
            storage = tensor.untyped_storage()
    residence = storage.__dict__.get(KEY)
    return residence if residence is not None and not residence.gpus.is_closed else None


def place_of(tensor: torch.Tensor) -> Residence | None:
    """As `residence_of`; of a wrapper subclass, such as DTensor, the place of the first tensor that it wraps."""
    residence = residence_of(tensor)
    if residence is not None or not hasattr(type(tensor), "__tensor_flatten__"):
        return residence
    try:
        names, _ = tensor.__tensor_flatten__()  # type: ignore[attr-defined]
        wrapped = [getattr(tensor, name) for name in names]
    except AttributeError:  # it is being made
        return None
    return next(filter(None, map(place_of, wrapped)), None)


def is_any_resident(values: Iterable[Any]) -> bool:
    """Whether a tensor among `values`, or in lists of them, lives on a virtual device."""
    return any(
        residence_of(value) is not None if isinstance(value, torch.Tensor) else is_any_resident(value)
        for value in values
        if isinstance(value, torch.Tensor | list | tuple)
    )


def _residence_inside(tensor: torch.Tensor) -> Residence | None:
    """Of a tensor that torch.func has wrapped: that of what is in it."""
    functorch = torch._C._functorch
    return residence_of(functorch.get_unwrapped(tensor)) if functorch.is_functorch_wrapped_tensor(tensor) else None


def is_pinned(tensor: torch.Tensor) -> bool:
    """Whether `tensor` is in page-locked host memory, as far as the virtual device was told."""
    try:
        return PINNED_KEY in tensor.untyped_storage().__dict__
    except (RuntimeError, NotImplementedError):
        return False


def pin(tensor: torch.Tensor) -> None:
    """Declare a host tensor's storage page-locked."""
    storage: Any = tensor.untyped_storage()
    if PINNED_KEY not in storage.__dict__:
        storage.__dict__[PINNED_KEY] = host_memory.take(storage.nbytes())
