"""Containers hold again what they held before a recording that failed in the middle of a function."""

from collections import OrderedDict, deque

import pytest

from cudalens.graphs.guards.restoring import ContainerCopies

ONE, TWO = [1], [2]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([ONE, (TWO,)], [(ONE,), TWO]),  # the same objects in other tuples
        ([ONE, TWO], [TWO, ONE]),
        (deque([ONE, TWO]), deque([TWO])),
        ({"a": ONE}, {"a": TWO, "b": ONE}),
        (OrderedDict(a=ONE, b=TWO), OrderedDict(b=TWO, a=ONE)),
        ({1, 2}, {3}),
    ],
)
def test_a_changed_container_is_restored(before, after):
    held, expected = before.copy(), before.copy()
    copies = ContainerCopies([held])
    held.clear()
    (held.update if isinstance(held, dict | set) else held.extend)(after)
    copies.restore()
    assert held == expected
    assert list(held) == list(expected)
