"""Select the variables whose values are compared: those whose memory a task wrote."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from cudalens.virtual.dispatch.dispatch_utils import below_modes
from cudalens.virtual.explorer.image import merged
from cudalens.virtual.explorer.places import Place

if TYPE_CHECKING:
    from cudalens.virtual.explorer.op_log import OpLog


@dataclass(frozen=True, slots=True)
class Output:
    """A variable at the end of the logged block.

    Attributes:
        place: The place of its tensor.
        digest: A hash of its value after the original run.
    """

    place: Place
    digest: bytes


def outputs_of(log: OpLog, variables: Mapping[str, torch.Tensor]) -> dict[str, Output]:
    """The variables that a task wrote, with one name per tensor.

    Args:
        log: The log of the run that has just ended.
        variables: Tensors by name.
    """
    written = merged(span for op in log.ops for span in op.written())
    found: dict[str, Output] = {}
    places = set()
    with below_modes():
        for name, tensor in variables.items():
            place = _known(log, tensor)
            if place is None or not any(extent.overlaps(place.span) for extent in written):
                continue
            key = place.storage, place.dtype, place.size, place.stride, place.offset
            if key not in places:
                places.add(key)
                found[name] = Output(place, digest(tensor))
    return found


def _known(log: OpLog, tensor: torch.Tensor) -> Place | None:
    try:
        span = log.memory.span_of(tensor.untyped_storage())
    except (RuntimeError, NotImplementedError):
        return None
    return None if span is None else Place.of(tensor, span)


def digest(tensor: torch.Tensor) -> bytes:
    """A hash of a tensor's elements."""
    flat = tensor.detach().clone(memory_format=torch.contiguous_format).reshape(-1)
    flat = flat.resolve_conj().resolve_neg().view(torch.uint8) if flat.numel() else flat.new_empty(0, dtype=torch.uint8)
    return hashlib.blake2b(flat.numpy().tobytes(), digest_size=16).digest()
