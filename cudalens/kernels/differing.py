"""`difference_of`: in which bits two tensors differ, in numbers that a page can show."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import torch

from cudalens.frames.exploration import Difference

#: Rows and columns of a picture of a tensor, at most.
MAX_CELLS: Final = 64

#: Elements whose difference is computed at a time, unless a single cell has more.
_MAX_AT_ONCE: Final = 1 << 24

#: Stands for the difference of numbers that are equal, while their bits are not (0.0 and -0.0, two NaNs).
_MAX_SAMPLES: Final = 6
_TINY: Final = torch.finfo(torch.float64).tiny


def difference_of(name: str, expected: torch.Tensor, found: torch.Tensor) -> Difference | None:
    """How two tensors of one dtype and device differ, bit by bit; None where they do not.

    Reads both once, and again where they differ. Meanwhile a byte of memory is taken for each element, and some 60 for
    each of at most 16 million of them (of more, where a single cell of the picture has more).

    Args:
        name: What to call it.
        expected: As it should be.
        found: As it is.
    """
    if (expected.shape, expected.dtype, expected.device) != (found.shape, found.dtype, found.device):
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
    given = [t.reshape(shape) for t in (expected, found, mask)]
    rows = [_row([t[low:high] for t in given], low * columns) for low, high in _bounds(shape[0], MAX_CELLS)]
    gap, places, first, second = (torch.stack(list(column)).cpu() for column in zip(*rows, strict=True))
    told = _Picture()
    known = gap[gap.isfinite() & (gap > _TINY)]
    if expected.dtype is not torch.bool and (known.numel() or gap.isfinite().all()):
        told.max_abs = float(known.max()) if known.numel() else 0.0
    told.worst = int(places.reshape(-1)[gap.argmax()])
    told.heat = _grid(_shares(gap, known))
    told.expected, told.found = _grid(first), _grid(second)
    return told


def _bounds(length: int, most: int) -> list[tuple[int, int]]:
    """Stretches of one length, but for the last, that make up a whole: first, end."""
    size = -(-length // min(length, most))
    return [(low, min(low + size, length)) for low in range(0, length, size)]


def _row(given: Sequence[torch.Tensor], start: int) -> tuple[torch.Tensor, ...]:
    """A row of cells: difference, number and both values of the element of each that differs most.

    Args:
        given: Some rows of both tensors, and which elements differ; each of shape (rows, columns).
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
    """Of each `width` columns: the largest difference, where it is (by number in `given`), and both values there."""
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
    return f"{_dtype(tensor)}{list(tensor.shape)} on {tensor.device}"


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
