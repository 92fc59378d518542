"""`difference_of`: in which bits two tensors differ, in numbers that a page can show."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Any, Final

import torch

from cudalens.frames.exploration import Difference

MAX_CELLS: Final = 64
"""Rows and columns of a picture of a tensor, at most."""

_MAX_SAMPLES: Final = 6
_TINY: Final = torch.finfo(torch.float64).tiny
"""Stands for the difference of numbers that are equal, while their bits are not (0.0 and -0.0, two NaNs)."""


def difference_of(name: str, expected: torch.Tensor, found: torch.Tensor) -> Difference | None:
    """How two tensors of one dtype and device differ, bit by bit; None where they do not.

    Reads both once, and again where they differ. Meanwhile a byte of memory is taken for each element, and some 30 for
    each of a 64th of them.

    Args:
        name: What to call it.
        expected: As it should be.
        found: As it is.
    """
    if expected.shape != found.shape or expected.dtype != found.dtype:
        told = f"ValueError: it is {_layout(found)}, in the program's order {_layout(expected)}"
        count = found.numel()
        return Difference(name, count, count, (), None, None, None, tuple(found.shape), _dtype(found), error=told)
    with torch.no_grad():
        pair = [t.detach().resolve_conj().resolve_neg().contiguous() for t in (expected, found)]
        mask = _unequal(*pair)
        count = int(mask.sum())
        return _told(name, count, mask, *pair) if count else None


def _told(name: str, count: int, mask: torch.Tensor, expected: torch.Tensor, found: torch.Tensor) -> Difference:
    picture = _picture(mask, expected, found)
    at = int(mask.to(torch.uint8).argmax())
    flat = expected.reshape(-1), found.reshape(-1)
    places = [int(n) for n in mask[at : at + (1 << 20)].nonzero()[:_MAX_SAMPLES, 0] + at]
    if picture.worst not in places:
        places[_MAX_SAMPLES - 1 :] = [picture.worst]
    samples = tuple((_index(n, expected.shape), value_of(flat[0][n]), value_of(flat[1][n])) for n in places)
    return Difference(
        name,
        count,
        expected.numel(),
        _index(at, expected.shape),
        value_of(flat[0][at]),
        value_of(flat[1][at]),
        picture.max_abs,
        tuple(expected.shape),
        _dtype(expected),
        heat=picture.heat,
        expected_map=picture.expected,
        found_map=picture.found,
        samples=samples,
    )


class _Picture:
    """A tensor in at most `MAX_CELLS` rows and columns: of each cell the element that differs most.

    Attributes:
        heat: Its difference, as a share of the largest; 0 where no element of the cell differs.
        expected: Its value, as it should be.
        found: Its value.
        max_abs: The largest difference; None where a cell has none that is a number.
        worst: Number of the element with the largest one.
    """

    def __init__(self) -> None:
        self.heat: tuple[tuple[float, ...], ...] = ()
        self.expected: tuple[tuple[float, ...], ...] = ()
        self.found: tuple[tuple[float, ...], ...] = ()
        self.max_abs: float | None = None
        self.worst = 0


def _picture(mask: torch.Tensor, expected: torch.Tensor, found: torch.Tensor) -> _Picture:
    columns = expected.shape[-1] if expected.dim() else 1
    shape = prod(expected.shape) // columns, columns
    before, now, differs = (t.reshape(shape) for t in (expected, found, mask))
    num_rows = min(shape[0], MAX_CELLS)
    bounds = [shape[0] * n // num_rows for n in range(num_rows + 1)]
    rows = [_row(*(t[low:high] for t in (before, now, differs))) for low, high in pairwise(bounds)]
    gap, places, first, second = (torch.stack(list(column)).cpu() for column in zip(*rows, strict=True))
    places += torch.tensor(bounds[:-1])[:, None] * columns
    told = _Picture()
    known = gap[gap.isfinite() & (gap > _TINY)]
    told.max_abs = float(known.max()) if known.numel() and expected.dtype is not torch.bool else None
    told.worst = int(places.reshape(-1)[gap.argmax()])
    told.heat = _grid(_shares(gap, known))
    told.expected, told.found = _grid(first), _grid(second)
    return told


def _row(before: torch.Tensor, now: torch.Tensor, differs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """A row of cells: difference, number and both values of the element of each that differs most."""
    one, two = _numbers(before), _numbers(now)
    gap = (two - one).abs()
    gap = torch.where(gap.isnan(), torch.full_like(gap, torch.inf), gap).clamp(min=_TINY)
    gap = torch.where(differs, gap, torch.zeros_like(gap))
    most, places = torch.nn.functional.adaptive_max_pool2d(
        gap[None], (1, min(gap.shape[1], MAX_CELLS)), return_indices=True
    )
    at = places[0, 0]
    return most[0, 0], at, _shown(one.reshape(-1)[at]), _shown(two.reshape(-1)[at])


def _numbers(values: torch.Tensor) -> torch.Tensor:
    """As float64, or complex128."""
    if values.is_complex():
        return values.to(torch.complex128)
    is_float8 = values.dtype.is_floating_point and values.dtype.itemsize == 1
    return (values.float() if is_float8 else values).double()


def _shown(values: torch.Tensor) -> torch.Tensor:
    return values.abs() if values.is_complex() else values


def _shares(gap: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
    """Of the largest difference; all there is where it is no number, and a trace where only bits differ."""
    most = float(known.max()) if known.numel() else 1.0
    return torch.where(gap > 0, (gap / most).clamp(0.001, 1.0), torch.zeros_like(gap))


def _grid(values: torch.Tensor) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(f"{value:.4g}") for value in row) for row in values.tolist())


def _unequal(expected: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
    """Which elements have other bits, flat."""
    if not expected.numel():
        return torch.zeros(0, dtype=torch.bool, device=expected.device)
    one, two = (_bits(tensor) for tensor in (expected, found))
    return (one != two).any(dim=1) if one.dim() > 1 else one != two


def _bits(values: torch.Tensor) -> torch.Tensor:
    """The elements as integers of their size; those of 16 bytes as pairs."""
    size = values.dtype.itemsize
    flat = (torch.view_as_real(values) if values.is_complex() else values).reshape(-1)
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[flat.dtype.itemsize]
    bits = flat.view(whole)
    return bits.reshape(-1, size // bits.dtype.itemsize) if size > bits.dtype.itemsize else bits


def value_of(element: torch.Tensor) -> Any:
    """An element as Python has it; complex ones as text."""
    is_float8 = element.dtype.is_floating_point and element.dtype.itemsize == 1
    value = (element.float() if is_float8 else element).item()
    return str(value) if isinstance(value, complex) else value


def _index(number: int, shape: torch.Size) -> tuple[int, ...]:
    index: list[int] = []
    for size in reversed(shape):
        number, at = divmod(number, size)
        index.insert(0, at)
    return tuple(index)


def _layout(tensor: torch.Tensor) -> str:
    return f"{_dtype(tensor)}{list(tensor.shape)}"


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
