"""Places, overlaps, the memory image, and comparison by bits: each compared with a simple implementation."""

import numpy as np
import pytest
import torch
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from cudalens.virtual.explorer.exploring import overlap
from cudalens.virtual.explorer.logged import UNWRITTEN, Image, Place, Span, merged
from cudalens.virtual.explorer.outcomes import compared

spans = st.builds(
    lambda space, start, length: Span(space, start, start + length), *map(st.integers, (0, 0, 0), (1, 5000, 900))
)
places = st.builds(
    lambda start, rows, columns, step, offset, dtype: Place(
        Span(0, start * 8, start * 8 + 4096), dtype, (rows, columns), (step, 1), offset
    ),
    st.integers(0, 20),
    st.integers(0, 4),
    st.integers(1, 4),
    st.integers(1, 9),
    st.integers(0, 9),
    st.sampled_from([torch.uint8, torch.float32, torch.float64]),
)


def bytes_of(place):
    item = place.dtype.itemsize
    return {
        place.storage.start + (place.offset + row * place.stride[0] + column) * item + byte
        for row in range(place.size[0])
        for column in range(place.size[1])
        for byte in range(item)
    }


@settings(deadline=None)
@given(places, places)
def test_tensors_overlap_where_they_share_a_byte(one, other):
    assert overlap(one, other) == bool(bytes_of(one) & bytes_of(other))


@given(st.lists(spans))
def test_extents_hold_every_span_once(given_spans):
    extents = merged(given_spans)
    for span in given_spans:
        holding = [e for e in extents if e.space == span.space and e.start <= span.start and span.end <= e.end]
        assert len(holding) == 1 or span.start == span.end
    assert not any(one.overlaps(other) for n, one in enumerate(extents) for other in extents[:n])


def test_memory_that_was_allocated_twice_is_the_same_bytes():
    whole, part = Span(0, 1024, 2048), Span(0, 1536, 2048)
    image = Image([whole, part, Span(3, 0, 4)], [(Span(0, 1024, 1032), torch.arange(8, dtype=torch.uint8))])
    image.reset()
    assert image.bytes_of(Span(0, 1024, 1034)).tolist() == [*range(8), UNWRITTEN, UNWRITTEN]
    image.view(Place(part, torch.float32, (2,), (1,), 1)).fill_(2.5)
    assert image.view(Place(whole, torch.float32, (2,), (1,), 129)).tolist() == [2.5, 2.5]
    image.reset()
    assert image.view(Place(whole, torch.uint8, (1,), (1,), 600)).tolist() == [UNWRITTEN]


DTYPES = [
    torch.complex128,
    torch.float32,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.int64,
    torch.bool,
    torch.complex64,
    torch.uint8,
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@settings(deadline=None, max_examples=examples(30))
@given(st.lists(st.integers(1, 5), max_size=3), st.data())
def test_differences_are_counted_bit_by_bit(dtype, shape, data):
    count = int(np.prod(shape))
    before = torch.arange(count).reshape(shape).to(dtype)
    changed = data.draw(st.sets(st.integers(0, count - 1), max_size=3))
    now = before.clone()
    raw = now.reshape(-1).view(torch.uint8).reshape(count, -1)
    for at in changed:
        raw[at, -1] ^= 1
    found = compared("x", before, now)
    if not changed:
        assert found is None
        return
    first = min(changed)
    index = tuple(int(i) for i in np.unravel_index(first, shape)) if shape else ()
    assert (found.num_differing, found.num_elements, found.first_index) == (len(changed), count, index)
    assert found.shape == tuple(shape)
    assert 0 < sum(map(sum, found.heat)) <= count


def test_nan_is_nan_and_minus_zero_is_not_zero():
    nan = torch.tensor([float("nan"), 0.0])
    assert compared("x", nan, nan.clone()) is None
    found = compared("x", nan, torch.tensor([float("nan"), -0.0]))
    assert (found.num_differing, found.first_index, found.max_abs) == (1, (1,), 0.0)
    assert compared("x", torch.zeros(0), torch.zeros(0)) is None
    assert "it is float32[3] on cpu" in compared("x", torch.zeros(2), torch.zeros(3)).error
