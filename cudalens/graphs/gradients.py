"""Gradients that a call makes: the ``.grad`` of parameters that was None, or that ``zero_grad()`` sets to None.

A recording writes such a gradient into memory that belongs to the parameter, outside of the pool: all recordings use
the same memory, so a later one can accumulate into it. After a replay, the tensor on that memory is the ``.grad``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakValueDictionary

import torch

from cudalens.device.graph_backend import TensorPlace
from cudalens.graphs.guards.lookups import AttributeItems
from cudalens.graphs.inputs import copy_all, make_buffer
from cudalens.graphs.liveness import LEAST_REFERENCES, storage_id, use_count, version_of

if TYPE_CHECKING:
    from cudalens.device.graph_backend import GraphBackend
    from cudalens.graphs.guards.captured import Name
    from cudalens.graphs.observer import Observer

#: Sizes, strides, dtype.
Form: TypeAlias = tuple[torch.Size, tuple[int, ...], torch.dtype]


@dataclass(slots=True)
class NewGradient:
    """A tensor from outside whose gradient a call makes.

    Attributes:
        owner: The tensor.
        label: What the program calls the gradient, such as ``model.weight.grad``.
        was_missing: Whether the gradient was None before the call.
        form: Sizes, strides and dtype of the gradient.
    """

    owner: torch.Tensor
    label: str
    was_missing: bool
    form: Form

    def is_as_before(self) -> bool:
        """Whether the gradient is None exactly if it was None before the warm-up."""
        return (self.owner.grad is None) == self.was_missing


def find_new_gradients(
    names: Mapping[int, Sequence[Name]],
    observer: Observer,
    results: Sequence[Any],
    was_missing: Mapping[int, bool],
) -> list[NewGradient]:
    """The gradients that a warm-up made and left in ``.grad``, and nowhere else.

    Args:
        names: Where the program holds what the warm-up made, by the identity of the storage.
        observer: What was seen of the warm-up.
        results: What it returned.
        was_missing: Whether the ``.grad`` of a tensor was None before it, by the identity of the tensor.
    """
    returned = {storage_id(result) for result in results if isinstance(result, torch.Tensor)}
    used = {id(external.tensor) for external in observer.externals.values()}
    found = []
    for key, known in names.items():
        owners = {id(name.container.owner): name for name in known if _is_gradient(name)}
        is_elsewhere = key in returned or not all(map(_is_gradient, known))
        if len(owners) != 1 or is_elsewhere:
            continue
        ((identity, name),) = owners.items()
        if identity in was_missing and identity in used:
            owner = name.container.owner
            found.append(NewGradient(owner, name.label, was_missing[identity], _form_of(owner.grad)))
    return found


def _form_of(tensor: torch.Tensor) -> Form:
    return tensor.shape, tensor.stride(), tensor.dtype


def _is_gradient(name: Name) -> bool:
    return name.key == "grad" and isinstance(name.container, AttributeItems)


def move_out(gradients: Iterable[NewGradient]) -> None:
    """Give gradients of a warm-up memory outside of the pool; they stay the same tensors."""
    for gradient in gradients:
        grad = gradient.owner.grad
        if grad is not None:
            with torch.no_grad():
                memory = make_buffer(grad)
                memory.copy_(grad)
                grad.data = memory


class GradientMemory:
    """The memory of one tensor's gradient, into which every recording writes.

    Attributes:
        owner: The tensor.
        tensor: What is its ``.grad`` after a replay.
    """

    def __init__(self, backend: GraphBackend, owner: torch.Tensor, form: Form) -> None:
        self._backend, self.owner, self._form = backend, owner, form
        size, stride, dtype = form
        self.target = torch.empty_strided(size, stride, dtype=dtype, device=owner.device)
        self._place = TensorPlace.of(self.target)
        self._storage = self.target.untyped_storage()
        self.renew()
        self._uses = self._count_uses()

    def renew(self) -> None:
        """Make another tensor on the memory, because the program holds or has changed the present one."""
        self.tensor = self._backend.tensor_at(self._place, self._storage)

    def has_form(self, form: Form) -> bool:
        """Whether a gradient of these sizes, strides and dtype fits."""
        return form == self._form

    def make_free(self) -> bool:
        """Prepare for a replay, which overwrites the memory: the program keeps the values of a gradient that it holds.

        Returns:
            Whether that was possible: not where a view, or another tensor on the memory, is held.
        """
        if self.tensor.data_ptr() != self.target.data_ptr() or not self.has_form(_form_of(self.tensor)):
            self.renew()  # the program gave the tensor other memory
        elif self._is_held() and self._count_uses() == self._uses:
            with torch.no_grad():
                values = make_buffer(self.tensor)
                values.copy_(self.tensor)
                self.tensor.data = values
            self.renew()
        elif self._is_marked():
            self.renew()
        return self._count_uses() == self._uses

    def _is_held(self) -> bool:
        """Whether something else than the ``.grad`` of the owner holds the tensor."""
        expected = LEAST_REFERENCES + (self.owner.grad is self.tensor)
        return sys.getrefcount(self.tensor) + self.tensor._use_count() > expected  # type: ignore[attr-defined]

    def _is_marked(self) -> bool:
        """Whether the program changed the tensor besides its elements."""
        tensor = self.tensor
        has_flags = tensor.requires_grad or tensor.is_conj() or tensor.is_neg()
        return bool(has_flags or tensor.__dict__ or tensor._backward_hooks or tensor.grad is not None)

    def _count_uses(self) -> tuple[int, int]:
        """References to the memory: in C++, and in Python to the object of the storage."""
        return use_count(self._storage._cdata), sys.getrefcount(self._storage)


class MadeGradients:
    """The gradients that one recording makes."""

    def __init__(self, gradients: Sequence[NewGradient], memories: Sequence[GradientMemory]) -> None:
        self._gradients, self._memories = gradients, memories
        self._versions: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self._memories)

    def owners(self) -> list[torch.Tensor]:
        """The tensors whose gradients they are."""
        return [memory.owner for memory in self._memories]

    def take(self) -> str | None:
        """Inside a capture, behind the function: write the gradients into their memory.

        Returns:
            The label of a gradient that is missing or has another form than in the warm-up; None if there is none.
        """
        made = [memory.owner.grad for memory in self._memories]
        for gradient, memory, grad in zip(self._gradients, self._memories, made, strict=True):
            if grad is None or not memory.has_form(_form_of(grad)):
                return gradient.label
        grads = [grad for grad in made if grad is not None]
        self._versions = tuple(map(version_of, grads))
        with torch.no_grad():
            copy_all([memory.target for memory in self._memories], grads)
        self.assign()
        return None

    def make_free(self) -> str | None:
        """Prepare for a replay; returns the label of a gradient whose memory the program holds, if there is one."""
        for gradient, memory in zip(self._gradients, self._memories, strict=True):
            if not memory.make_free():
                return gradient.label
        return None

    def assign(self) -> None:
        """After a replay: the gradients are the ``.grad`` of their owners."""
        if not self._memories:
            return
        tensors = tuple([memory.tensor for memory in self._memories])
        for memory, tensor in zip(self._memories, tensors, strict=True):
            if memory.owner.grad is not tensor:
                memory.owner.grad = tensor
        torch._C._autograd._unsafe_set_version_counter(tensors, self._versions)


class GradientMemories:
    """The memories of all tensors whose gradients the recordings of one tree make."""

    def __init__(self, backend: GraphBackend) -> None:
        self._backend = backend
        self._known: WeakValueDictionary[int, GradientMemory] = WeakValueDictionary()

    def find(self, gradient: NewGradient) -> GradientMemory:
        """The memory for a gradient of the form that it has in the warm-up."""
        known = self._known.get(id(gradient.owner))
        if known is None or not known.has_form(gradient.form):
            known = GradientMemory(self._backend, gradient.owner, gradient.form)
            self._known[id(gradient.owner)] = known
        return known


@contextmanager
def restored_on_error(owners: Iterable[torch.Tensor]) -> Iterator[None]:
    """If the body raises, restore the gradients of `owners`, which the function's code replaced in a capture."""
    before = [(owner, owner.grad) for owner in owners]
    try:
        yield
    except BaseException:
        for owner, grad in before:
            if owner.grad is not grad:
                owner.grad = grad
        raise
