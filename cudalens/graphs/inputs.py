"""The arguments of a recording: which are used in place, which are copied, and the memory of the copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from cudalens.device.graph_backend import GraphBackend, TensorPlace
from cudalens.graphs.liveness import span


@dataclass(frozen=True, slots=True)
class CopiedInput:
    """An argument that every replay copies into the recording's memory.

    Attributes:
        leaf: Its position among the leaves.
        buffer: A tensor at the copy's place, which owns nothing, without the expanded dimensions.
        expanded: Dimensions of stride 0: only their first index is stored.
        is_written: Whether the function overwrites it, so that it is copied back.
        place: The copy's place.
    """

    leaf: int
    buffer: torch.Tensor
    expanded: tuple[int, ...]
    is_written: bool
    place: TensorPlace

    def source(self, leaves: Sequence[Any]) -> torch.Tensor:
        """What is copied, of this call's leaves."""
        tensor: torch.Tensor = leaves[self.leaf]
        return stored_part(tensor.detach(), self.expanded) if self.expanded else tensor


def expanded_dims(tensor: torch.Tensor) -> tuple[int, ...]:
    """Dimensions along which a tensor repeats the same memory."""
    return tuple(
        d
        for d, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True))
        if stride == 0 and size > 1
    )


def stored_part(tensor: torch.Tensor, expanded: Sequence[int]) -> torch.Tensor:
    """A tensor without its repetitions."""
    for dim in expanded:
        tensor = tensor.narrow(dim, 0, 1)
    return tensor


def make_buffer(tensor: torch.Tensor) -> torch.Tensor:
    """Memory for a copy of `tensor`: same size and strides, first element at the start, so aligned."""
    span = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    flat = torch.empty(span if tensor.numel() else 0, dtype=tensor.dtype, device=tensor.device)
    return flat.as_strided(tensor.shape, tensor.stride())


def copy_all(targets: list[torch.Tensor], sources: list[torch.Tensor]) -> None:
    """Copy every source into the target at its position, in as few launches as torch can."""
    if not targets:
        return
    if not torch.is_grad_enabled():
        torch._foreach_copy_(targets, sources)
        return
    with torch.no_grad():
        torch._foreach_copy_(targets, sources)


class InputCopies:
    """The copies that each replay of a recording makes of its arguments.

    Args:
        copied: The arguments. All calls that a recording serves have the same sizes and strides.
    """

    def __init__(self, copied: Sequence[CopiedInput]) -> None:
        self._copied = copied
        self._targets = [one.buffer for one in copied]
        self._spans = list(map(span, self._targets))
        self._leaves = [one.leaf for one in copied]
        self._has_expanded = any(one.expanded for one in copied)
        self._num_bytes = [end - start for start, end in self._spans]
        self._longest = max(self._num_bytes, default=0)
        self._first = min((start for start, _ in self._spans), default=0)
        self._end = max((end for _, end in self._spans), default=0)

    def run(self, leaves: Sequence[Any]) -> None:
        """Copy the arguments of a call."""
        if not self._targets:
            return
        if self._has_expanded:
            sources = [one.source(leaves) for one in self._copied]
        else:
            sources = [leaves[n] for n in self._leaves]
        copy_all(self._targets, self._apart(sources))

    def _apart(self, sources: list[torch.Tensor]) -> list[torch.Tensor]:
        """The sources, cloned where copying one would overwrite what another copy still has to read."""
        starts = [source.data_ptr() for source in sources]
        if min(starts) >= self._end or max(starts) + self._longest <= self._first:
            return sources
        found = []
        for number, (source, start) in enumerate(zip(sources, starts, strict=True)):
            end = start + self._num_bytes[number]
            hit = [n for n, (low, high) in enumerate(self._spans) if start < high and low < end]
            is_itself = hit == [number] and self._spans[number] == (start, end)
            found.append(source.detach().clone() if hit and not is_itself else source)
        return found


def overlaps_itself(tensor: torch.Tensor) -> bool:
    """Whether two elements of a tensor share memory, other than by expanded dimensions."""
    stored = stored_part(tensor, expanded_dims(tensor))
    pairs = sorted((stride, size) for size, stride in zip(stored.shape, stored.stride(), strict=True) if size > 1)
    reach = 0
    for stride, size in pairs:
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


def move(tensor: torch.Tensor) -> torch.Tensor:
    """Give a tensor memory of its own with the same contents; it stays the same object, where it is no view.

    Returns:
        The tensor; of a view a copy, through which gradients flow.
    """
    expanded = expanded_dims(tensor)
    if tensor._is_view() or tensor.is_inference():
        return tensor.clone() if tensor.requires_grad else tensor.detach().clone()
    with torch.no_grad():
        buffer = make_buffer(tensor)
        stored_part(buffer, expanded).copy_(stored_part(tensor, expanded))
        tensor.data = buffer
    return tensor


def rebuilt(backend: GraphBackend, place: TensorPlace, expanded: Sequence[int]) -> torch.Tensor:
    """The target of a replay's copy: the memory of the copy, without ownership."""
    return stored_part(backend.tensor_at(place), expanded)
