"""`difference_of`: summarize the bitwise differences of two tensors for display."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import torch

from cudalens.frames.exploration import Difference
from cudalens.kernels.compare import index_of

#: Largest number of rows and columns of a tensor's heat map.
MAX_CELLS: Final = 64

#: Elements whose difference is computed at a time, unless a single cell of the heat map has more.
_MAX_AT_ONCE: Final = 1 << 24

_MAX_SAMPLES: Final = 6
#: Placeholder for the difference of numbers that are equal although their bits differ (0.0 and -0.0, two NaNs).
_TINY: Final = torch.finfo(torch.float64).tiny


def difference_of(name: str, expected: torch.Tensor, found: torch.Tensor) -> Difference | None:
    """Return how two tensors of one dtype and device differ, bit by bit; None if they do not.

    Reads both once, and again where they differ. Needs a byte of temporary memory for each element, and about 60 bytes
    for each of at most 16 million elements (more if a single cell of the heat map has more).

    Args:
        name: Name of the tensor.
        expected: The expected tensor.
        found: The actual tensor.
    """
    if (expected.shape, expected.dtype, expected.device) != (found.shape, found.dtype, found.device):
        error = f"ValueError: it is {_layout(found)}, in the program's order {_layout(expected)}"
        count = found.numel()
        return Difference(name, count, count, (), None, None, None, tuple(found.shape), _dtype(found), error=error)
    with torch.no_grad():
        pair = [t.detach().resolve_conj().resolve_neg().contiguous() for t in (expected, found)]
        mask = _unequal(*pair)
        count = int(mask.sum())
        return _difference(name, count, mask, *pair) if count else None


def _difference(name: str, count: int, mask: torch.Tensor, expected: torch.Tensor, found: torch.Tensor) -> Difference:
    heat_map = _heat_map(mask, expected, found)
    at = int(mask.to(torch.uint8).argmax())
    flat = expected.reshape(-1), found.reshape(-1)
    places = [int(n) for n in mask[at : at + (1 << 20)].nonzero()[:_MAX_SAMPLES, 0] + at]
    if heat_map.worst not in places:
        places[_MAX_SAMPLES - 1 :] = [heat_map.worst]
    samples = tuple((index_of(n, expected.shape), value_of(flat[0][n]), value_of(flat[1][n])) for n in places)
    return Difference(
        name,
        count,
        expected.numel(),
        index_of(at, expected.shape),
        value_of(flat[0][at]),
        value_of(flat[1][at]),
        heat_map.max_abs,
        tuple(expected.shape),
        _dtype(expected),
        heat=heat_map.heat,
        expected_map=heat_map.expected,
        found_map=heat_map.found,
        samples=samples,
    )


class _HeatMap:
    """A tensor as at most `MAX_CELLS` rows and columns of cells; a cell shows its element that differs most.

    Attributes:
        heat: Difference of each cell, as a share of the largest; 0 if no element of the cell differs.
        expected: Expected value of each cell.
        found: Actual value of each cell.
        max_abs: The largest difference; None if a difference is not a number.
        worst: Number of the element with the largest difference.
    """

    def __init__(self) -> None:
        self.heat: tuple[tuple[float, ...], ...] = ()
        self.expected: tuple[tuple[float, ...], ...] = ()
        self.found: tuple[tuple[float, ...], ...] = ()
        self.max_abs: float | None = None
        self.worst = 0


def _heat_map(mask: torch.Tensor, expected: torch.Tensor, found: torch.Tensor) -> _HeatMap:
    columns = expected.shape[-1] if expected.dim() else 1
    shape = prod(expected.shape) // columns, columns
    given = [t.reshape(shape) for t in (expected, found, mask)]
    rows = [_row([t[low:high] for t in given], low * columns) for low, high in _bounds(shape[0], MAX_CELLS)]
    gap, places, first, second = (torch.stack(list(column)).cpu() for column in zip(*rows, strict=True))
    heat_map = _HeatMap()
    known = gap[gap.isfinite() & (gap > _TINY)]
    if expected.dtype is not torch.bool and (known.numel() or gap.isfinite().all()):
        heat_map.max_abs = float(known.max()) if known.numel() else 0.0
    heat_map.worst = int(places.reshape(-1)[gap.argmax()])
    heat_map.heat = _grid(_shares(gap, known))
    heat_map.expected, heat_map.found = _grid(first), _grid(second)
    return heat_map


def _bounds(length: int, most: int) -> list[tuple[int, int]]:
    """(start, end) of the parts of `length`, all of one size except the last."""
    size = -(-length // min(length, most))
    return [(low, min(low + size, length)) for low in range(0, length, size)]


def _row(given: Sequence[torch.Tensor], start: int) -> tuple[torch.Tensor, ...]:
    """Return a row of cells: difference, number and both values of the element that differs most, for each cell.

    Args:
        given: Some rows of both tensors and of the mask of differing elements; each of shape (rows, columns).
        start: Number of their first element.
    """
    num_rows, columns = given[0].shape
    cells = _bounds(columns, MAX_CELLS)
    width = cells[0][1]
    at_once = max(1, _MAX_AT_ONCE // (num_rows * width)) * width
    parts = [_cells([t[:, low : low + at_once] for t in given], width) for low in range(0, columns, at_once)]
    lows = range(0, columns, at_once)
    most, places, first, second = (torch.cat(list(column)) for column in zip(*parts, strict=True))
    counts = torch.tensor([len(part[0]) for part in parts])
    low = torch.tensor(list(lows)).repeat_interleave(counts).to(places.device)
    part_columns = (
        torch.tensor([min(at_once, columns - low) for low in lows]).repeat_interleave(counts).to(places.device)
    )
    return most, start + places // part_columns * columns + low + places % part_columns, first, second


def _cells(given: Sequence[torch.Tensor], width: int) -> tuple[torch.Tensor, ...]:
    """For each `width` columns: the largest difference, its element's number in `given`, and both values there."""
    before, now, differs = given
    num_rows, columns = before.shape
    one, two = _numbers(before), _numbers(now)
    gap = (two - one).abs()
    gap = torch.where(gap.isnan(), torch.full_like(gap, torch.inf), gap).clamp(min=_TINY)
    gap = torch.where(differs, gap, torch.zeros_like(gap))
    num_cells = -(-columns // width)
    gap = torch.nn.functional.pad(gap, (0, num_cells * width - columns), value=-1.0)
    most, at = gap.reshape(num_rows, num_cells, width).transpose(0, 1).reshape(num_cells, -1).max(dim=1)
    column = torch.arange(num_cells, device=at.device) * width + at % width
    places = at // width * columns + column
    return most, places, _shown(one.reshape(-1)[places]), _shown(two.reshape(-1)[places])


def _numbers(values: torch.Tensor) -> torch.Tensor:
    """As float64, or complex128."""
    if values.is_complex():
        return values.to(torch.complex128)
    is_float8 = values.dtype.is_floating_point and values.dtype.itemsize == 1
    return (values.float() if is_float8 else values).double()


def _shown(values: torch.Tensor) -> torch.Tensor:
    return values.abs() if values.is_complex() else values


def _shares(gap: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
    """Shares of the largest difference: 1 if it is not a number, and a small value if only bits differ."""
    most = float(known.max()) if known.numel() else 1.0
    return torch.where(gap > 0, (gap / most).clamp(0.001, 1.0), torch.zeros_like(gap))


def _grid(values: torch.Tensor) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(f"{value:.4g}") for value in row) for row in values.tolist())


def _unequal(expected: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
    """Mask of the elements with different bits, flattened."""
    if not expected.numel():
        return torch.zeros(0, dtype=torch.bool, device=expected.device)
    one, two = (_bits(tensor) for tensor in (expected, found))
    return (one != two).any(dim=1) if one.dim() > 1 else one != two


def _bits(values: torch.Tensor) -> torch.Tensor:
    """Return the elements as integers of the same size; 16-byte elements as pairs."""
    size = values.dtype.itemsize
    flat = (torch.view_as_real(values) if values.is_complex() else values).reshape(-1)
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[flat.dtype.itemsize]
    bits = flat.view(whole)
    return bits.reshape(-1, size // bits.dtype.itemsize) if size > bits.dtype.itemsize else bits


def value_of(element: torch.Tensor) -> Any:
    """Return an element as a Python number; complex numbers as text."""
    is_float8 = element.dtype.is_floating_point and element.dtype.itemsize == 1
    value = (element.float() if is_float8 else element).item()
    return str(value) if isinstance(value, complex) else value


def _layout(tensor: torch.Tensor) -> str:
    return f"{_dtype(tensor)}{list(tensor.shape)} on {tensor.device}"


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
