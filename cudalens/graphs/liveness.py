"""Whether an output is alive: found by counting references to its storage, without holding one.

The memory of the pool may be used again only when the outputs in it are dead. The C++ reference count of a storage
shows that, through a weak reference. A tensor that the recording keeps for later replays is subtracted from the count.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from cudalens.device.tensors import PLAIN_TYPES, stored_parts

#: References to a storage in C++, by its address.
use_count: Callable[[Any], int] = torch._C._storage_Use_Count


class OutputRef:
    """One output of a node, as those see it who must not keep it alive.

    Attributes:
        address: Of the storage, also after its end.
        num_bytes: Size of the storage.
        kept: The tensor that the node returns again; None where it makes a new one each time.
    """

    __slots__ = ("_base", "_ref", "_tensor", "_wrapped", "address", "kept", "num_bytes")

    def __init__(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        self.address, self.num_bytes = storage.data_ptr(), storage.nbytes()
        self.kept: torch.Tensor | None = None
        self._base = self._wrapped = 0
        self._ref: Any = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
        self._tensor: Any = _weak(tensor)

    def keep(self, tensor: torch.Tensor) -> None:
        """Hold `tensor` to hand it out again; nothing but Python's own tensor object may share its storage yet."""
        self.point_to(tensor)
        self.kept = tensor
        self._base = use_count(self._ref.cdata)
        self._wrapped = sys.getrefcount(tensor.untyped_storage())

    def point_to(self, tensor: torch.Tensor) -> None:
        """Replace the tensor of the output."""
        self.kept = None
        self._ref = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
        self._tensor = _weak(tensor)

    def let_go(self) -> None:
        """Hold nothing any more; who holds the output otherwise still does."""
        self.kept = None

    def is_alive(self) -> bool:
        """Whether anybody but the node holds the output, or something that shares its storage."""
        if self.kept is None:
            return use_count(self._ref.cdata) > 0
        # Counted here and not in a function: where torch.compile has put its hook around calls, a call holds what it
        # is given once more.
        references = sys.getrefcount(self.kept) + self.kept._use_count()  # type: ignore[attr-defined]
        if references > LEAST_REFERENCES or use_count(self._ref.cdata) > self._base:
            return True
        # Python's own object of the storage: from torch 2.10 on it counts in C++ whether or not it is referenced.
        return sys.getrefcount(self.kept.untyped_storage()) > self._wrapped

    def storage(self) -> torch.UntypedStorage | None:
        """The storage; None after it was freed."""
        if use_count(self._ref.cdata) == 0:
            return None
        found: torch.UntypedStorage = torch.UntypedStorage._new_with_weak_ptr(self._ref.cdata)
        return found

    def tensor(self) -> torch.Tensor | None:
        """The tensor that was returned; None where it does not exist any more."""
        found: torch.Tensor | None = self._tensor()
        return found


def storage_id(tensor: torch.Tensor) -> int:
    """Identity of a tensor's storage while it lives; 0 for a tensor that has none."""
    try:
        if type(tensor) in PLAIN_TYPES:
            return int(tensor.untyped_storage()._cdata)
        with torch._C.DisableTorchFunctionSubclass():  # a program's class may count or change what is read
            return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError, ValueError):
        return 0


def memory_parts(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return the tensors that own the memory of a tensor: itself, or the indices and values of a sparse one."""
    return stored_parts(tensor) or (tensor,)


def version_of(tensor: torch.Tensor) -> int:
    """The version counter of a tensor, by which autograd notices in-place changes; 0 for an inference tensor."""
    return 0 if tensor.is_inference() else tensor._version


def set_versions(tensors: Sequence[torch.Tensor], versions: Sequence[int]) -> None:
    """Set version counters."""
    if tensors:
        torch._C._autograd._unsafe_set_version_counter(tuple(tensors), tuple(versions))


@contextmanager
def versions_restored_on_error(tensors: Iterable[torch.Tensor]) -> Iterator[None]:
    """Set version counters back if an exception is raised: what is captured and never launched changes nothing."""
    versions = [
        (weakref.ref(tensor), tensor._version)
        for tensor in tensors
        if isinstance(tensor, torch.Tensor) and not tensor.is_inference()
    ]
    try:
        yield
    except BaseException:
        alive = [(tensor, version) for ref, version in versions if (tensor := ref()) is not None]
        set_versions([tensor for tensor, _ in alive], [version for _, version in alive])
        raise


def span(tensor: torch.Tensor) -> tuple[int, int]:
    """First byte, and the one behind the last, that a tensor touches."""
    start = tensor.data_ptr()
    if not tensor.numel():
        return start, start
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + (last + 1) * tensor.element_size()


def _weak(tensor: torch.Tensor) -> Any:
    from torch.utils.weak import TensorWeakRef

    return TensorWeakRef(tensor)


class _Probe:
    """An attribute that holds a tensor, and nothing else does."""

    def __init__(self) -> None:
        self.kept = torch.empty(0)

    def count(self) -> int:
        """References by Python's names and containers, and C++ ones (autograd's, say) beyond Python's own object."""
        count: int = sys.getrefcount(self.kept) + self.kept._use_count()  # type: ignore[attr-defined]
        return count


#: References to a tensor that only one attribute holds: how this Python and this torch count.
LEAST_REFERENCES: Final = _Probe().count()
