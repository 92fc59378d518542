"""Look up the tensors from outside of a recording, and compare how each is read from its memory.

Addresses alone are not enough: another view can begin at the same address.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import is_
from typing import TYPE_CHECKING, Any

import torch

from cudalens.graphs.guards.comparing import Compared, PythonCompared
from cudalens.graphs.guards.lookups import AttributeItems
from cudalens.graphs.guards.tensor_forms import TensorForms
from cudalens.graphs.reasons import Reason

if TYPE_CHECKING:
    from cudalens.graphs.guards.captured import Name

#: Class, sizes, strides, offset in its storage, dtype, device, whether it is conjugated or negated when it is read, and
#: its id if it has attributes of Python, else 0.
Form = tuple[type, torch.Size, tuple[int, ...], int, torch.dtype, torch.device, bool, bool, int]


class NamedTensors:
    """Tensors in the places where the program keeps them, as they are now.

    Args:
        places: Container, key and label of each, and whether it is a parameter or buffer of a module.
        identical: Tensors that have to be the same objects, because a replay sets their ``.grad``.
    """

    def __init__(self, places: Sequence[tuple[Any, Any, str, bool]], identical: Iterable[torch.Tensor] = ()) -> None:
        self._places = [(container, key) for container, key, _, _ in places]
        self._labels = [label for _, _, label, _ in places]
        self._tensors = self._look_up()
        self._requires_grad = [tensor.requires_grad for tensor in self._tensors]
        self._shapes = [tensor.shape for tensor in self._tensors]
        self._strides = [tensor.stride() for tensor in self._tensors]
        self._forms = list(map(form_of, self._tensors))
        wanted = set(map(id, identical))
        self._identical = [n for n, tensor in enumerate(self._tensors) if id(tensor) in wanted]
        self._loose = [n for n, (_, _, _, is_static) in enumerate(places) if not is_static]
        self._compared = self._compare()
        self._tensor_forms = TensorForms(self._tensors)

    def _compare(self) -> PythonCompared:
        containers = [container for container, _ in self._places]
        keys = [key for _, key in self._places]
        return Compared(AttributeItems, containers, keys, self._tensors, (), (), (), (), (), (), (), ())

    def _look_up(self) -> list[torch.Tensor]:
        return [container[key] for container, key in self._places]

    def as_before(self) -> list[torch.Tensor] | None:
        """The tensors that are there now; None if one is read otherwise than before, or needs a gradient otherwise.

        Of a parameter or buffer that is the same object, only sizes and strides are compared, which
        ``p.data = p.data.t()`` changes.
        """
        if self._compared.has_items() and self._tensor_forms.are_as_before(self._tensors):
            has_changed = any(form_of(self._tensors[n]) != self._forms[n] for n in self._loose)
            return None if has_changed else self._tensors
        return self._as_before_in_python()

    def _as_before_in_python(self) -> list[torch.Tensor] | None:
        """The same, without the functions that compare many tensors at once."""
        found = self._look_up()
        if [tensor.requires_grad for tensor in found] != self._requires_grad:
            return None
        if [tensor.shape for tensor in found] != self._shapes or [tensor.stride() for tensor in found] != self._strides:
            return None
        if any(form_of(found[n]) != self._forms[n] for n in self._loose):
            return None
        if not all(map(is_, found, self._tensors)):
            if any(found[n] is not self._tensors[n] for n in self._identical):
                return None
            if list(map(form_of, found)) != self._forms:
                return None
            self._tensors = found
            self._compared = self._compare()
        return found

    def difference(self) -> tuple[Reason, str] | None:
        """The first tensor that is read otherwise than before, in words; None if there is none."""
        for found, label, before, form in zip(
            self._look_up(), self._labels, self._requires_grad, self._forms, strict=True
        ):
            if found.requires_grad != before:
                return Reason.NEW_MODE, f"'{label}' requires {'no' if before else 'a'} gradient now"
            if form_of(found) != form:
                return Reason.NEW_SHAPE, f"'{label}' is another view of the same memory"
        return None

    def other(self) -> str | None:
        """The label of the first tensor that is none now, or that is read otherwise; None if there is none."""
        for (container, key), label, before, form in zip(
            self._places, self._labels, self._requires_grad, self._forms, strict=True
        ):
            try:
                tensor = container[key]
                if tensor.requires_grad != before or form_of(tensor) != form:
                    return label
            except (LookupError, AttributeError, TypeError, ValueError, RuntimeError):
                return label
        return None


class OfBackward:
    """Tensors that the backward of a recording takes from outside, and that its forward may have passed to it.

    A recorded forward does not run again. So its autograd graph keeps the tensor that the forward read, on the context
    of a ``torch.autograd.Function`` or in a closure.
    """

    def __init__(self) -> None:
        self._names: list[tuple[Name, int, Form]] = []

    def add(self, names: Iterable[Name]) -> None:
        """Compare the tensors in these places from now on."""
        known = {(id(name.container), name.key) for name, *_ in self._names}
        for name in names:
            if (id(name.container), name.key) not in known:
                tensor = name.container[name.key]
                self._names.append((name, tensor.data_ptr(), form_of(tensor)))

    def moved(self) -> str | None:
        """The label of the first tensor that is another one than before; None if there is none."""
        for name, address, form in self._names:
            try:
                tensor = name.container[name.key]
                if tensor.data_ptr() != address or form_of(tensor) != form:
                    return name.label
            except (LookupError, AttributeError, TypeError, ValueError, RuntimeError):
                return name.label
        return None


def form_of(tensor: torch.Tensor) -> Form:
    """How the elements of a tensor are read from its memory."""
    sizes, strides = tensor.shape, tensor.stride()
    layout = (type(tensor), sizes, strides, int(tensor.storage_offset()), tensor.dtype, tensor.device)
    return (*layout, tensor.is_conj(), tensor.is_neg(), id(tensor) if tensor.__dict__ else 0)
