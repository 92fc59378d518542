"""Tensors that a call makes and stores outside: gradients, and attributes that each call sets anew.

A gradient is the ``.grad`` of a parameter that was None, or that ``zero_grad()`` sets to None. An attribute holds a
tensor of the same form before the call, which the call does not use. A recording writes such a tensor into memory that
belongs to the place, outside of the pool: all recordings use the same memory, so a later one can accumulate into it.
After a replay, the tensor on that memory is in the place.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakValueDictionary

import torch

from cudalens.device.graph_backend import TensorPlace
from cudalens.graphs.guards.lookups import AttributeItems, SlotItems, attributes_in, place_id
from cudalens.graphs.inputs import copy_all, make_buffer
from cudalens.graphs.liveness import LEAST_REFERENCES, storage_id, use_count, version_of
from cudalens.graphs.observer import is_plain, is_wrapper

if TYPE_CHECKING:
    from cudalens.device.graph_backend import GraphBackend
    from cudalens.graphs.guards.captured import Name
    from cudalens.graphs.guards.effects import Snapshot
    from cudalens.graphs.observer import Observer

#: Sizes, strides, dtype.
Form: TypeAlias = tuple[torch.Size, tuple[int, ...], torch.dtype]


@dataclass(frozen=True)
class Wrapping:
    """How a tensor whose class calls operators itself is made of the one tensor inside.

    Attributes:
        kind: The class.
        name: The attribute that holds the tensor inside.
        others: The other parts, by name: not tensors.
        context: What the class needs besides.
        size: Of the wrapper.
        stride: Its strides.
    """

    kind: Any
    name: str
    others: tuple[tuple[str, Any], ...]
    context: Any
    size: torch.Size
    stride: tuple[int, ...]

    @classmethod
    def of(cls, wrapper: torch.Tensor) -> Wrapping | None:
        """Of a wrapper; None if it does not have exactly one plain tensor inside."""
        kind: Any = type(wrapper)
        if not (hasattr(kind, "__tensor_flatten__") and hasattr(kind, "__tensor_unflatten__")):
            return None
        flat: Any = wrapper
        names, context = flat.__tensor_flatten__()
        inside = [name for name in names if isinstance(getattr(wrapper, name), torch.Tensor)]
        if len(inside) != 1 or not is_plain(getattr(wrapper, inside[0])):
            return None
        others = tuple((name, getattr(wrapper, name)) for name in names if name not in inside)
        return cls(kind, inside[0], others, context, wrapper.shape, wrapper.stride())

    def wrap(self, inside: torch.Tensor) -> torch.Tensor:
        """Make a wrapper of another tensor."""
        parts = {self.name: inside, **dict(self.others)}
        made: torch.Tensor = self.kind.__tensor_unflatten__(parts, self.context, self.size, self.stride)
        return made

    def inside(self, wrapper: torch.Tensor) -> torch.Tensor:
        """The tensor inside of a wrapper."""
        found: torch.Tensor = getattr(wrapper, self.name)
        return found

    def holds(self, wrapper: torch.Tensor, container: Any) -> bool:
        """Whether a container is that of the attributes of a wrapper."""
        return container is attributes_in(wrapper) or (isinstance(container, SlotItems) and container.owner is wrapper)


@dataclass(slots=True, eq=False)
class StoredTensor:
    """A place outside in which a call stores a tensor that it makes.

    Attributes:
        container: What holds the tensor.
        key: By which it is found there.
        label: What the program calls the tensor, such as ``model.weight.grad``.
        form: Sizes, strides and dtype.
        was_missing: Whether there was None before the call: only where a gradient is.
        wrapping: How the tensor is made of the one whose memory is written; None if it is that one.
        latest: Of an attribute, the tensor that the call stored, until a recording has memory for it.
        memory: The memory that the recordings write.
        needs_same: Whether another tensor of the same form is another value, because code compares tensors by identity.
        owner: The tensor whose gradient it is; None for an attribute.
    """

    container: Any
    key: Any
    label: str
    form: Form
    was_missing: bool = False
    wrapping: Wrapping | None = None
    latest: torch.Tensor | None = None
    memory: StoredMemory | None = None
    needs_same: bool = True
    owner: torch.Tensor | None = field(init=False)

    def __post_init__(self) -> None:
        self.owner = self.container.owner if isinstance(self.container, AttributeItems) else None

    @property
    def place(self) -> tuple[int, Any]:
        """Identity of the place."""
        return place_id(self.container, self.key)

    def now(self) -> torch.Tensor | None:
        """What is in the place now; None if that is not a tensor."""
        try:
            found = self.container[self.key]
        except LookupError:
            return None
        return found if isinstance(found, torch.Tensor) else None

    def store(self, tensor: torch.Tensor | None) -> None:
        """Put a tensor into the place."""
        self.container[self.key] = tensor

    def inside(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """The tensor whose memory is written, of the one that a call stored; None if it is of another kind."""
        if self.wrapping is None:
            return None if is_wrapper(tensor) else tensor
        return self.wrapping.inside(tensor) if Wrapping.of(tensor) == self.wrapping else None

    def is_as_before(self) -> bool:
        """Whether there is what the warm-up found: None or not, and in an attribute a tensor of the same form."""
        if self.owner is not None:
            return (self.owner.grad is None) == self.was_missing
        found = self.now()
        if found is None:
            return False
        expected = self.latest if self.memory is None else self.memory.tensor
        return found is expected or (not self.needs_same and can_be_stored(found) and form_of(found) == self.form)


def form_of(tensor: torch.Tensor) -> Form:
    """Sizes, strides and dtype of a tensor."""
    return tensor.shape, tensor.stride(), tensor.dtype


def can_be_stored(tensor: torch.Tensor) -> bool:
    """Whether a tensor has nothing besides its elements that a replay would have to make again."""
    is_marked = tensor.requires_grad or tensor.is_conj() or tensor.is_neg() or tensor.is_inference()
    return type(tensor) is torch.Tensor and tensor.is_cuda and not is_marked and not tensor.__dict__


def find_stored(
    names: Mapping[int, Sequence[Name]],
    observer: Observer,
    results: Sequence[Any],
    before: Snapshot,
    saved: Set[int],
) -> list[StoredTensor]:
    """The tensors that a warm-up made and stored in gradients and attributes, and nowhere else.

    Args:
        names: Where the program holds what the warm-up made, by the identity of the storage.
        observer: What was seen of the warm-up.
        results: What it returned.
        before: What the program held before it.
        saved: Addresses of storages that autograd keeps for a backward after the call.
    """
    returned = {storage_id(result) for result in results if isinstance(result, torch.Tensor)}
    used = {id(external.tensor) for external in observer.externals.values()}
    missing, held = before.gradients_missing(), before.tensors_by_place()
    wrapped = _wrapped_gradients(missing)
    found = []
    for key, known in names.items():
        places = {place_id(name.container, name.key): name for name in known}
        if key in returned:
            continue
        if (gradient := _wrapped_gradient(wrapped, key, known)) is not None:
            found.append(gradient)
        elif len(places) == 1:
            ((place, name),) = places.items()
            tensor = name.container[name.key]
            if name.key == "grad" and isinstance(name.container, AttributeItems):
                owner = name.container.owner
                if id(owner) in missing and (id(owner) in used or is_wrapper(owner)):
                    was_missing = missing[id(owner)][1]
                    found.append(StoredTensor(name.container, "grad", name.label, form_of(tensor), was_missing))
            elif (
                place in held
                and observer.made[key].ref.address not in saved
                and _replaces(tensor, held[place], name.container, observer)
            ):
                found.append(StoredTensor(name.container, name.key, name.label, form_of(tensor), latest=tensor))
    return found


def _replaces(tensor: torch.Tensor, before: torch.Tensor, container: Any, observer: Observer) -> bool:
    """Whether an attribute has a new tensor like the one before, which the call did not use."""
    is_alike = can_be_stored(tensor) and can_be_stored(before) and form_of(tensor) == form_of(before)
    return type(container) is dict and is_alike and not observer.has_used(before)


def _wrapped_gradients(missing: Mapping[int, tuple[torch.Tensor, bool]]) -> dict[int, StoredTensor]:
    """The gradients whose class calls operators itself, by the identity of the storage inside."""
    found = {}
    for owner, was_missing in missing.values():
        grad = owner.grad
        if grad is not None and is_wrapper(grad) and (wrapping := Wrapping.of(grad)) is not None:
            inside = wrapping.inside(grad)
            if wrapping.inside(wrapping.wrap(inside)).data_ptr() != inside.data_ptr():
                continue  # the class copies what it gets
            found[storage_id(inside)] = StoredTensor(*gradient_of(owner), "", form_of(inside), was_missing, wrapping)
    return found


def _wrapped_gradient(wrapped: Mapping[int, StoredTensor], key: int, known: Sequence[Name]) -> StoredTensor | None:
    """The wrapped gradient in which alone a made tensor is; None if it is in none, or elsewhere too."""
    gradient = wrapped.get(key)
    grad = None if gradient is None else gradient.now()
    if gradient is None or gradient.wrapping is None or grad is None:
        return None
    is_inside = all(gradient.wrapping.holds(grad, name.container) for name in known)
    gradient.label = known[0].label.rpartition(".")[0]
    return gradient if is_inside else None


def move_out(stored: Iterable[StoredTensor]) -> None:
    """Give tensors that a warm-up stored memory outside of the pool. Gradients stay the same tensors.

    An attribute gets another tensor: a view would keep the memory that it was made in.
    """
    for one in stored:
        tensor = one.now()
        inside = None if tensor is None else one.inside(tensor)
        if inside is None:
            continue
        with torch.no_grad():
            memory = make_buffer(inside)
            memory.copy_(inside)
        if one.owner is not None:
            inside.data = memory
        else:
            one.latest = memory.data
            torch._C._autograd._unsafe_set_version_counter((one.latest,), (version_of(inside),))
            one.store(one.latest)


class StoredMemory:
    """The memory of one place, into which every recording writes.

    Attributes:
        target: All of the memory.
        tensor: What is in the place after a replay.
    """

    def __init__(self, backend: GraphBackend, stored: StoredTensor, device: torch.device) -> None:
        self._backend, self._form, self._wrapping = backend, stored.form, stored.wrapping
        self._container, self._key, self._owner = stored.container, stored.key, stored.owner
        size, stride, dtype = stored.form
        self.target = torch.empty_strided(size, stride, dtype=dtype, device=device)
        self._place = TensorPlace.of(self.target)
        self._storage = self.target.untyped_storage()
        self.renew()
        self._uses = self._count_uses()

    def renew(self) -> None:
        """Make another tensor on the memory, because the program holds or has changed the present one."""
        made = self._backend.tensor_at(self._place, self._storage)
        self.tensor = made if self._wrapping is None else self._wrapping.wrap(made)
        self._inside = made if self._wrapping is None else self._wrapping.inside(self.tensor)

    def fits(self, stored: StoredTensor) -> bool:
        """Whether a tensor of another warm-up in the same place has the same form."""
        return (stored.form, stored.wrapping) == (self._form, self._wrapping)

    def has_form(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor of these sizes, strides and dtype fits."""
        return form_of(tensor) == self._form

    def make_free(self) -> bool:
        """Prepare for a replay, which overwrites the memory: the program keeps the values of a tensor that it holds.

        Returns:
            Whether that was possible: not where a view, or another tensor on the memory, is held.
        """
        if self._inside.data_ptr() != self.target.data_ptr() or not self.has_form(self._inside):
            self.renew()  # the program gave the tensor other memory
        elif self._is_held() and self._count_uses() == self._uses:
            with torch.no_grad():
                values = make_buffer(self._inside)
                values.copy_(self._inside)
                self._inside.data = values
            self.renew()
        elif self._is_marked():
            self.renew()
        return self._count_uses() == self._uses

    def _is_held(self) -> bool:
        """Whether something else than the place holds the tensor."""
        expected = LEAST_REFERENCES + (self._now() is self.tensor)
        if self._wrapping is None:
            expected += 1  # `tensor` and `_inside` are the same
        elif sys.getrefcount(self._inside) + self._inside._use_count() > LEAST_REFERENCES + 1:  # type: ignore[attr-defined]
            return True  # by more than the wrapper
        return sys.getrefcount(self.tensor) + self.tensor._use_count() > expected  # type: ignore[attr-defined]

    def _now(self) -> Any:
        return self._container[self._key] if self._owner is None else self._owner.grad

    def assign(self) -> torch.Tensor:
        """Put the tensor into its place; returns the one on the memory."""
        if self._owner is None:
            self._container[self._key] = self.tensor
        elif self._owner.grad is not self.tensor:
            self._owner.grad = self.tensor
        return self._inside

    def _is_marked(self) -> bool:
        """Whether the program changed the tensor besides its elements."""
        tensor = self._inside
        has_flags = tensor.requires_grad or tensor.is_conj() or tensor.is_neg()
        return bool(has_flags or tensor.__dict__ or tensor._backward_hooks or tensor.grad is not None)

    def _count_uses(self) -> tuple[int, int]:
        """References to the memory: in C++, and in Python to the object of the storage."""
        return use_count(self._storage._cdata), sys.getrefcount(self._storage)


class StoredTensors:
    """What one recording makes and stores outside."""

    def __init__(self, stored: Sequence[StoredTensor], memories: Sequence[StoredMemory]) -> None:
        self._stored, self._memories = stored, memories
        self._versions: tuple[int, ...] = ()
        for one, memory in zip(stored, memories, strict=True):
            if one.owner is None:
                one.memory, one.latest = memory, None

    def __len__(self) -> int:
        return len(self._memories)

    def owners(self) -> list[torch.Tensor]:
        """The tensors whose gradients are among them."""
        return [owner for one in self._stored if (owner := one.owner) is not None]

    def take(self, observer: Observer) -> str | None:
        """Inside a capture, behind the function: write what it stored into the memory of the places.

        Args:
            observer: What was seen of the function.

        Returns:
            The label of a place that has no tensor, or one of another form than in the warm-up, or whose memory the
            function used although it only stores a tensor there; None if there is none.
        """
        made = []
        for one, memory in zip(self._stored, self._memories, strict=True):
            tensor = one.now()
            inside = None if tensor is None else one.inside(tensor)
            if inside is None or not memory.has_form(inside):
                return one.label
            if one.owner is None and (not can_be_stored(inside) or observer.has_used(memory.target)):
                return one.label
            made.append(inside)
        self._versions = tuple(map(version_of, made))
        with torch.no_grad():
            copy_all([memory.target for memory in self._memories], made)
        self.assign()
        return None

    def make_free(self) -> str | None:
        """Prepare for a replay; returns the label of a place whose memory the program holds, if there is one."""
        for one, memory in zip(self._stored, self._memories, strict=True):
            if not memory.make_free():
                return one.label
        return None

    def assign(self) -> None:
        """After a replay: the tensors are in their places."""
        if not self._memories:
            return
        tensors = tuple([memory.assign() for memory in self._memories])
        torch._C._autograd._unsafe_set_version_counter(tensors, self._versions)


class StoredMemories:
    """The memories of all places into which the recordings of one tree store tensors."""

    def __init__(self, backend: GraphBackend, device: int) -> None:
        self._backend, self._device = backend, torch.device("cuda", device)
        self._known: WeakValueDictionary[tuple[int, Any], StoredMemory] = WeakValueDictionary()

    def find(self, stored: StoredTensor) -> StoredMemory:
        """The memory for a place, for a tensor of the form that it has in the warm-up."""
        known = self._known.get(stored.place)
        if known is None or not known.fits(stored):
            known = StoredMemory(self._backend, stored, self._device)
            self._known[stored.place] = known
        return known


@contextmanager
def restored_on_error(places: Iterable[tuple[Any, Any]]) -> Iterator[None]:
    """If the body raises, restore what is in `places`, which the function's code replaced in a capture.

    Args:
        places: Containers with keys.
    """
    before = [(container, key, container[key]) for container, key in places]
    try:
        yield
    except BaseException:
        for container, key, value in before:
            if container[key] is not value:
                container[key] = value
        raise


def gradient_of(tensor: torch.Tensor) -> tuple[AttributeItems, str]:
    """The place of a gradient."""
    return AttributeItems(tensor), "grad"
