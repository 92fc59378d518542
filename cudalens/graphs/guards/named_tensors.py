"""Look up the tensors from outside of a recording, and compare how each is read from its memory.

Addresses alone are not enough: another view can begin at the same address.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any

import torch

from cudalens.graphs.reasons import Reason

#: Sizes, strides, dtype, device, and whether it is conjugated or negated when it is read.
Form = tuple[torch.Size, tuple[int, ...], torch.dtype, torch.device, bool, bool]


class NamedTensors:
    """Tensors in the places where the program keeps them, as they are now.

    Args:
        places: Container, key and label of each, and whether it is a parameter or buffer of a module.
    """

    def __init__(self, places: Sequence[tuple[Any, Any, str, bool]]) -> None:
        self._places = [(container, key) for container, key, _, _ in places]
        self._labels = [label for _, _, label, _ in places]
        self._tensors = self._look_up()
        self._requires_grad = [tensor.requires_grad for tensor in self._tensors]
        self._shapes = [tensor.shape for tensor in self._tensors]
        self._strides = [tensor.stride() for tensor in self._tensors]
        self._forms = list(map(form_of, self._tensors))
        self._loose = [n for n, (_, _, _, is_static) in enumerate(places) if not is_static]

    def _look_up(self) -> list[torch.Tensor]:
        return [container[key] for container, key in self._places]

    def as_before(self) -> list[torch.Tensor] | None:
        """The tensors that are there now; None if one is read otherwise than before, or needs a gradient otherwise.

        Of a parameter or buffer that is the same object, only sizes and strides are compared, which
        ``p.data = p.data.t()`` changes.
        """
        found = self._look_up()
        if [tensor.requires_grad for tensor in found] != self._requires_grad:
            return None
        if [tensor.shape for tensor in found] != self._shapes or [tensor.stride() for tensor in found] != self._strides:
            return None
        if any(form_of(found[n]) != self._forms[n] for n in self._loose):
            return None
        if not all(map(is_, found, self._tensors)):
            if list(map(form_of, found)) != self._forms:
                return None
            self._tensors = found
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


def form_of(tensor: torch.Tensor) -> Form:
    """How the elements of a tensor are read from its memory."""
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.device, tensor.is_conj(), tensor.is_neg()
