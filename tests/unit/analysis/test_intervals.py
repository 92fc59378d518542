"""Interval sets against sets of points."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cudalens.analysis.time.groups import Intervals, intersect, length, subtract, union, unite

PAIRS = st.lists(st.tuples(st.integers(-30, 30), st.integers(-3, 12)), max_size=12)


def of(pairs):
    start = np.array([a for a, _ in pairs], np.int64)
    return union(start, start + np.array([d for _, d in pairs], np.int64))


def points(pairs):
    return {p for a, d in pairs for p in range(a, a + d)}


def points_of(intervals):
    return {p for a, b in zip(*(side.tolist() for side in intervals), strict=True) for p in range(a, b)}


def assert_canonical(intervals):
    assert (intervals.start < intervals.end).all()
    assert (intervals.start[1:] > intervals.end[:-1]).all()


@given(PAIRS)
def test_union(pairs):
    found = of(pairs)
    assert_canonical(found)
    assert points_of(found) == points(pairs)
    assert length(found) == len(points(pairs))


@given(PAIRS, PAIRS)
def test_set_algebra(a, b):
    cases = ((unite, set.union), (intersect, set.intersection), (subtract, set.difference))
    for ours, theirs in cases:
        found = ours(of(a), of(b))
        assert_canonical(found)
        assert points_of(found) == theirs(points(a), points(b)), ours.__name__


def test_exact_at_epoch_nanoseconds():
    start = 1_716_423_322_388_068_751
    found = union(np.array([start, start + 3]), np.array([start + 2, start + 5]))
    assert length(found) == 4
    assert isinstance(found, Intervals)
