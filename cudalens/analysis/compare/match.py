"""Match the kernels of two runs, also if autotuning, another GPU or another version renamed them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cudalens.analysis.compare.measure import NO_OP, Costs, Key


class Pair(NamedTuple):
    """A kernel of both sides, or of one.

    Attributes:
        a: Its key before, (name, operator that launched it, kind of work); None if it is new.
        b: Its key after; None if it is gone.
        matched_by: ``name``, ``op``, or None if it has no counterpart.
    """

    a: Key | None
    b: Key | None
    matched_by: str | None


def matched(before: Costs, after: Costs) -> list[Pair]:
    """Return the device work of both sides, each with its counterpart.

    1. Work with the same name, operator and kind is the same.
    2. Of the rest, work with the same name and kind is the same, whichever operator launched it.
    3. Of the rest, the most expensive work of each operator and kind on one side is matched with the most expensive on
       the other, the second with the second, and so on: an operator whose kernel was renamed still has the same task.
       This leaves out work that no operator launched, and copies and sets: a compiler does not choose their names, and
       a copy between other places is another copy.
    """
    old, new = dict(before), dict(after)
    found = _taken([(key, key) for key in old if key in new], "name", old, new)
    found += _taken(_by_group(old, new, lambda key: (key[0], key[2])), "name", old, new)
    found += _taken(_by_group(_renamable(old), _renamable(new), lambda key: key[1:]), "op", old, new)
    return [*found, *(Pair(key, None, None) for key in old), *(Pair(None, key, None) for key in new)]


def _taken(pairs: list[tuple[Key, Key]], how: str, old: Costs, new: Costs) -> list[Pair]:
    """`pairs` as matched; removes them from `old` and `new`."""
    for a, b in pairs:
        del old[a], new[b]
    return [Pair(a, b, how) for a, b in pairs]


def _renamable(costs: Costs) -> Costs:
    return {key: cost for key, cost in costs.items() if key[1] != NO_OP and key[2] != "memory"}


def _by_group(old: Costs, new: Costs, group_of: Callable[[Key], Key]) -> list[tuple[Key, Key]]:
    """Pairs within each group, in order of their costs."""
    groups: dict[Key, tuple[list[Key], list[Key]]] = defaultdict(lambda: ([], []))
    for side, costs in enumerate((old, new)):
        for key in sorted(costs, key=lambda one: (-float(np.median(costs[one][0])), one)):
            groups[group_of(key)][side].append(key)
    return [pair for first, second in groups.values() for pair in zip(first, second, strict=False)]
