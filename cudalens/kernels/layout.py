"""Sizes and strides of tensors as a table for kernels."""

from __future__ import annotations

import torch

#: Size of a dimension, then its stride in each tensor, in elements.
Dim = tuple[int, ...]


def layout_table(*tensors: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Return the layout of `tensors`, which have the same shape.

    Returns:
        Sizes, then the strides of each tensor in turn, innermost dimension first: int64, shape ((1 + t) * d,) on their
        device; and d, the number of dimensions after merging (see `merged_dims`). d is 0 if all tensors are
        contiguous; no table is needed then.
    """
    dims = merged_dims(*tensors)
    if all(dim[1:] == (1,) * len(tensors) for dim in dims) and len(dims) <= 1:
        return torch.empty(1, dtype=torch.int64, device=tensors[0].device), 0
    flat = [dim[part] for part in range(1 + len(tensors)) for dim in dims]
    return torch.tensor(flat, dtype=torch.int64, device=tensors[0].device), len(dims)


def merged_dims(*tensors: torch.Tensor) -> list[Dim]:
    """Return the dimensions, innermost first, without those of size 1; neighbours with matching strides are merged."""
    strides = zip(*(tensor.stride() for tensor in tensors), strict=True)
    dims = [(size, *steps) for size, steps in zip(tensors[0].shape, strides, strict=True) if size != 1]
    merged: list[Dim] = []
    for size, *steps in reversed(dims):
        if merged and all(step == merged[-1][0] * inner for step, inner in zip(steps, merged[-1][1:], strict=True)):
            merged[-1] = (merged[-1][0] * size, *merged[-1][1:])
        else:
            merged.append((size, *steps))
    return merged
