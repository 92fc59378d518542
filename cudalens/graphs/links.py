"""How a returned tensor is derived from the tensor whose memory it shares: found in a recording, repeated per replay.

Results that share memory differ in autograd: ``y[1:]`` follows in-place changes of ``y``, ``y.detach()`` has no
gradient, ``y.data`` has a version counter of its own, and ``y.detach().requires_grad_()`` is a leaf.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

import torch
from torch.autograd.grad_mode import _unsafe_preserve_version_counter
from torch.autograd.graph import increment_version

from cudalens.device.graph_backend import TensorPlace


class Kind(Enum):
    """The operation that makes a result of its base."""

    OWN = auto()  #: it has a base with autograd history of its own, or none
    SAME = auto()  #: it is the base
    VIEW = auto()  #: a view that autograd tracks
    UNTRACKED_VIEW = auto()  #: a view that was made under no_grad
    DETACHED = auto()  #: by detach()
    DATA = auto()  #: by .data: with a version counter of its own


@dataclass(frozen=True, slots=True)
class Link:
    """How a result is derived from its base.

    Attributes:
        kind: The operation.
        is_new_leaf: Whether requires_grad_() was called on the result.
    """

    kind: Kind = Kind.OWN
    is_new_leaf: bool = False


#: Of a result that is derived from no other.
OWN: Final = Link()


def base_of(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor whose view a tensor is, as autograd tracks it; itself if it is no view."""
    base = tensor._base
    return tensor if base is None else base


def is_new_leaf(tensor: torch.Tensor) -> bool:
    """Whether a tensor that a function made is a leaf that requires gradients."""
    return tensor.requires_grad and tensor.is_leaf


def link_between(result: torch.Tensor, base: torch.Tensor) -> Link:
    """How `result` is derived from `base`, with which it shares memory."""
    if result is base:
        return Link(Kind.SAME)
    is_related = base_of(result) is base_of(base)
    if result.requires_grad and not result.is_leaf:
        repeats_memory = any(stride == 0 and size > 1 for size, stride in zip(base.shape, base.stride(), strict=True))
        return Link(Kind.VIEW if is_related and not repeats_memory else Kind.OWN)
    if is_related and not is_new_leaf(result):
        return Link(Kind.UNTRACKED_VIEW if base.requires_grad else Kind.VIEW)
    return Link(Kind.DETACHED if share_version(result, base) else Kind.DATA, is_new_leaf(result))


def derive(base: torch.Tensor, link: Link, place: TensorPlace, *, requires_grad: bool = False) -> torch.Tensor:
    """Make a result of its base again.

    Args:
        base: Of this call.
        link: What is done to it.
        place: Where the result is in the base's storage.
        requires_grad: Whether the result of a view has a gradient.
    """
    if link.kind is Kind.SAME:
        return base
    if link.kind is Kind.VIEW:
        with torch.enable_grad() if requires_grad else nullcontext():
            return view_at(base, place)
    with torch.no_grad():
        made = view_at(base, place)
        if link.kind is not Kind.UNTRACKED_VIEW:
            made = made.data if link.kind is Kind.DATA else made.detach()
    return made.requires_grad_() if link.is_new_leaf else made


def view_at(base: torch.Tensor, place: TensorPlace) -> torch.Tensor:
    """The view of `base` at a place in its storage, whatever its dtype."""
    if base.is_conj():
        base = base.conj()
    if base.is_neg():
        base = torch._neg_view(base)
    whole = base if place.dtype == base.dtype else _as_dtype(base, place)
    view = whole.as_strided(place.size, place.stride, place.storage_offset)
    is_conj, is_neg = place.flags
    view = view.conj() if is_conj else view
    return torch._neg_view(view) if is_neg else view


def _as_dtype(base: torch.Tensor, place: TensorPlace) -> torch.Tensor:
    """All of the storage as elements of another dtype; with gradients between complex numbers and their parts."""
    num_bytes = base.untyped_storage().nbytes()
    num_bytes -= num_bytes % max(place.dtype.itemsize, base.element_size())
    flat = base.as_strided((num_bytes // base.element_size(),), (1,), 0)
    if base.is_complex() and place.dtype == base.dtype.to_real():
        return torch.view_as_real(flat).view(-1)
    if place.dtype.is_complex and base.dtype == place.dtype.to_real():
        return torch.view_as_complex(flat.view(-1, 2))
    return flat.view(place.dtype)


def share_version(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether an in-place change of one tensor is seen in the version of the other."""
    if a.is_inference() or b.is_inference():
        return True
    before = b._version
    with _unsafe_preserve_version_counter((a, b)):
        increment_version(a)
        return b._version != before
