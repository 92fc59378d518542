"""Set operations on intervals of time, against sets of integers: the smallest subject, as an example."""

from __future__ import annotations

import numpy as np
from hunting import Fault, Subject
from hypothesis import strategies as st

from cudalens.analysis.time.groups import Intervals, intersect, subtract, union, unite

#: A program: an operation, and the `(start, length)` of each interval of its two sides.
Side = list[tuple[int, int]]
Program = tuple[str, Side, Side]

OPERATIONS = {
    "unite": (unite, set.union),
    "intersect": (intersect, set.intersection),
    "subtract": (subtract, set.difference),
}
SIDES = st.lists(st.tuples(st.integers(-50, 50), st.integers(-3, 12)), max_size=12)


def union_of(side: Side) -> Intervals:
    """Return the intervals of a side as cudalens does."""
    start = np.array([start for start, _ in side], np.int64)
    return union(start, start + np.array([length for _, length in side], np.int64))


def points_of(side: Side) -> set[int]:
    """Return the integers in the intervals of a side."""
    return {point for start, length in side for point in range(start, start + length)}


def check(program: Program) -> Fault | None:
    """Compare an operation with the same one on sets of integers."""
    name, left, right = program
    operation, set_operation = OPERATIONS[name]
    result = operation(union_of(left), union_of(right))
    pairs = zip(result.start.tolist(), result.end.tolist(), strict=True)
    points = {point for start, end in pairs for point in range(start, end)}
    expected = set_operation(points_of(left), points_of(right))
    if points != expected:
        return Fault(f"{name} has other points", f"missing {expected - points}, additional {points - expected}")
    return None


def source(program: Program) -> str:
    """Return the program as Python."""
    name, left, right = program
    return f"{name}(union_of({left}), union_of({right}))"


PROGRAMS = st.tuples(st.sampled_from(sorted(OPERATIONS)), SIDES, SIDES)
SUBJECT = Subject("intervals", PROGRAMS, check, source, num_quick=100)
