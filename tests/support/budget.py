"""How many examples a test takes: a share of the loaded hypothesis profile."""

from __future__ import annotations

from hypothesis import settings

DEFAULT = 100
LEAST = 10


def examples(num: int) -> int:
    """`num` where the profile draws 100 examples, in proportion otherwise; at least 10, or `num` where that is less."""
    return max(min(num, LEAST), num * settings().max_examples // DEFAULT)


def every(step: int) -> int:
    """The distance of examples in a row: `step` where the profile draws 100, in inverse proportion otherwise."""
    return max(1, step * DEFAULT // settings().max_examples)
