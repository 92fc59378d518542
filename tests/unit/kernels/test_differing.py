"""Bitwise differences of two tensors and their heat map, compared with a loop over all elements."""

import itertools
import math

import pytest
import torch
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from cudalens.kernels import differing
from cudalens.kernels.differing import difference_of

SHAPES = st.lists(st.integers(1, 9), max_size=3)


def bounds(length, most):
    size = math.ceil(length / min(length, most))
    return [range(low, min(low + size, length)) for low in range(0, length, size)]


def oracle(expected, found, most):
    """Differing elements, the largest gap, and of each cell (gap, expected, found) of the element that differs most."""
    columns = expected.shape[-1] if expected.dim() else 1
    one, two = expected.reshape(-1, columns).tolist(), found.reshape(-1, columns).tolist()
    differ = [(r, c) for r in range(len(one)) for c in range(columns) if str(one[r][c]) != str(two[r][c])]
    cells = []
    for rows in bounds(len(one), most):
        cells.append([])
        for cols in bounds(columns, most):
            gaps = [abs(two[r][c] - one[r][c]) if (r, c) in differ else 0.0 for r, c in itertools.product(rows, cols)]
            cells[-1].append(max(gaps))
    return differ, cells


@settings(max_examples=examples(60), deadline=None)
@given(SHAPES, st.data(), st.sampled_from([2, 5, 64]), st.sampled_from([1, 7, 1 << 24]))
def test_the_picture_is_that_of_a_loop(shape, data, most, at_once):
    count = math.prod(shape)
    values = st.lists(st.integers(-4, 4).map(float), min_size=count, max_size=count)
    expected, found = (torch.tensor(data.draw(values)).reshape(shape) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(differing, "MAX_CELLS", most)
        patch.setattr(differing, "_MAX_AT_ONCE", at_once)
        result = difference_of("y", expected, found)
    differ, cells = oracle(expected, found, most)
    if not differ:
        assert result is None
        return
    columns = shape[-1] if shape else 1
    first = [int(i) for i in torch.unravel_index(torch.tensor(differ[0][0] * columns + differ[0][1]), tuple(shape))]
    assert (result.num_differing, result.num_elements, list(result.first_index)) == (len(differ), count, first)
    assert (result.expected, result.found) == (expected[tuple(first)].item(), found[tuple(first)].item())
    largest = max(map(max, cells))
    assert result.max_abs == largest
    assert len(result.heat) <= most
    assert [[round(share * largest) for share in row] for row in result.heat] == [
        [round(gap) for gap in row] for row in cells
    ]
    for row, gaps in zip(range(len(cells)), cells, strict=True):
        for column, gap in enumerate(gaps):
            if gap:
                assert abs(result.found_map[row][column] - result.expected_map[row][column]) == gap
    assert all(expected[i].item() == a and found[i].item() == b and a != b for i, a, b in result.samples)
    assert any(abs(b - a) == largest for _, a, b in result.samples)


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.int64, torch.uint8, torch.complex64, torch.bool]
)
def test_every_dtype(dtype):
    expected = torch.zeros(3, 5).to(dtype)
    found = expected.clone()
    found[1, 2] = 1
    result = difference_of("y", expected, found)
    assert (result.num_differing, result.first_index) == (1, (1, 2))
    assert [column for row in result.heat for column in row].count(1.0) == 1
    assert result.max_abs == (None if dtype is torch.bool else 1.0)


def test_bits_that_compare_equal_as_numbers():
    result = difference_of("y", torch.tensor([0.0, math.nan, 1.0]), torch.tensor([-0.0, math.nan, math.inf]))
    assert (result.num_differing, result.first_index, result.max_abs) == (2, (0,), None)
    assert result.heat[0][0] > 0
    assert result.heat[0][1:] == (0.0, 1.0)


def test_other_layouts_are_reported():
    result = difference_of("y", torch.zeros(2), torch.zeros(3))
    assert result.error == "ValueError: it is float32[3] on cpu, in the program's order float32[2] on cpu"
