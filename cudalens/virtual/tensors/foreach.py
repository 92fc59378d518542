"""Group lists of tensors by virtual device for torch's foreach optimizers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches
from cudalens.virtual.tensors.residency import residence_of

_GROUP = "_group_tensors_by_device_and_dtype"


def install(patches: Patches, gpus: Gpus) -> None:
    """Group by the virtual device of the tensors."""
    original = getattr(torch._C, _GROUP, None)
    if original is None:
        return

    def group(lists: Sequence[Sequence[Any]], with_indices: bool = False) -> Any:
        if lists and any(tensor is not None and residence_of(tensor) is not None for tensor in lists[0]):
            return _grouped(lists, with_indices)
        return original(lists, with_indices)

    patches.set(torch._C, _GROUP, group)


def _grouped(lists: Sequence[Sequence[Any]], with_indices: bool) -> dict[Any, tuple[list[list[Any]], list[int]]]:
    """Group by device and dtype of the tensors in the first list, in order."""
    groups: dict[Any, tuple[list[list[Any]], list[int]]] = {}
    for position, first in enumerate(lists[0]):
        key = first.device, first.dtype
        members, indices = groups.setdefault(key, ([[] for _ in lists], []))
        for member, values in zip(members, lists, strict=True):
            if values:
                member.append(values[position])
        if with_indices:
            indices.append(position)
    return groups
