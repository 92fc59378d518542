"""What differs between two outcomes, by the bits."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, Final

import torch

from cudalens.frames.exploration import Difference
from cudalens.virtual.explorer.image import UNWRITTEN
from cudalens.virtual.explorer.outcomes import Outcome, Seen

HEAT_CELLS: Final = 32
"""Rows and columns of a heat map, at most."""


_INTEGERS: Final = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""By the bytes of an element; complex numbers of 16 bytes are two each."""


def differences(expected: Outcome, found: Outcome, names: Mapping[Seen, str]) -> list[Difference]:
    """Everything that is not as expected, what the host saw first.

    Args:
        expected: What comes of the program's own order.
        found: What comes of another.
        names: What to call things.
    """
    told: list[Difference] = []
    for number, error in found.errors.items():
        if expected.errors.get(number) != error:
            told.append(Difference(names.get(number, ""), 0, 0, (), None, None, None, (), "", error=error))
    for seen, before in expected.values.items():
        now = found.values.get(seen)
        if now is not None and (difference := compared(names.get(seen, str(seen)), before, now)) is not None:
            told.append(difference)
    return told


def compared(name: str, before: torch.Tensor, now: torch.Tensor) -> Difference | None:
    """The difference between two tensors of one dtype, None where every bit is the same.

    Reads both once. Both are contiguous, as `outcome_of` gives them.
    """
    if before.shape != now.shape:
        error = f"ValueError: it is of shape {tuple(now.shape)}, in the program's order {tuple(before.shape)}"
        count, shape = now.numel(), tuple(now.shape)
        return Difference(name, count, count, (), None, None, None, shape, _dtype(now), error=error)
    mask = _unequal(before, now)
    count = int(mask.sum())
    if not count:
        return None
    at = int(mask.nonzero()[0])
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(at), before.shape)) if before.dim() else ()
    return Difference(
        name,
        count,
        before.numel(),
        index,
        _value(before, at),
        _value(now, at),
        _max_abs(before, now),
        tuple(before.shape),
        _dtype(before),
        _heat(mask, tuple(before.shape)),
        is_unwritten=bool((now.reshape(-1)[at : at + 1].view(torch.uint8) == UNWRITTEN).all()),
    )


def _unequal(before: torch.Tensor, now: torch.Tensor) -> torch.Tensor:
    """Which elements have other bits, flat: they are compared as integers of their size."""
    if not before.numel():
        return torch.zeros(0, dtype=torch.bool)
    whole = _INTEGERS.get(before.dtype.itemsize)
    one, other = (tensor.reshape(-1).view(whole or torch.int64) for tensor in (before, now))
    return one != other if whole is not None else (one != other).reshape(before.numel(), -1).any(dim=1)


def _value(tensor: torch.Tensor, at: int) -> Any:
    value = tensor.reshape(-1)[at]
    found = value.item() if not value.dtype.is_floating_point or value.dtype.itemsize > 1 else value.float().item()
    return str(found) if isinstance(found, complex) else found


def _max_abs(before: torch.Tensor, now: torch.Tensor) -> float | None:
    if before.dtype is torch.bool or before.is_complex():
        return None
    gap = (now.double() - before.double()).abs()
    known = gap[~gap.isnan()]
    return float(known.max()) if known.numel() else None


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _heat(mask: torch.Tensor, shape: tuple[int, ...]) -> tuple[tuple[float, ...], ...]:
    """The share of differing elements in each cell of a grid."""
    columns = shape[-1] if shape else 1
    grid = mask.reshape(prod(shape) // columns, columns).float()
    size = (min(grid.shape[0], HEAT_CELLS), min(columns, HEAT_CELLS))
    cells = torch.nn.functional.adaptive_avg_pool2d(grid[None, None], size)[0, 0]
    return tuple(tuple(row) for row in cells.mul(1e4).round().div(1e4).tolist())
