"""Which kernel of one run is which of another, where autotuning, another GPU or version gave it another name."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cudalens.analysis.compare.units import NO_OP, Costs, Measured

Floats = NDArray[np.float64]
Key = tuple[Any, ...]


@dataclass(frozen=True)
class Pair:
    """A kernel of both sides, or of one.

    Attributes:
        a_name: Its name before, None where it was not there.
        b_name: Its name after.
        op: The operator that launched it.
        kind: Kind of work: compute, communication, memory.
        matched_by: ``name``, ``op``, or None for what has no counterpart.
        before: Time in each repeat before, ns; shape (n,).
        after: Time in each repeat after; shape (m,).
        calls_a: Calls in each repeat before; (n,).
        calls_b: Calls in each repeat after; (m,).
    """

    a_name: str | None
    b_name: str | None
    op: str
    kind: str
    matched_by: str | None
    before: Floats
    after: Floats
    calls_a: Floats
    calls_b: Floats


def matched(before: Measured, after: Measured) -> list[Pair]:
    """The device work of both sides, counterpart by counterpart.

    Work of one name, operator and kind is the same. Of what is left, work of one name and kind is, whichever operator
    launched it. Then, operator by operator and within each kind, the dearest of one side is taken for the dearest of
    the other, the second for the second, and so on: an operator whose kernel was renamed still does what it did. Work
    that no operator launched is matched by its name alone; so are copies and sets, whose names are no compiler's choice
    but say what was done (a copy between other places is another copy).
    """
    old, new = dict(before.kernels), dict(after.kernels)
    found = [(key, key, "name") for key in list(old) if key in new]
    _take(old, new, found)
    found += _by_group(old, new, lambda key: (key[0], key[2]), "name")
    _take(old, new, found)
    found += _by_group(_renamable(old), _renamable(new), lambda key: (key[1], key[2]), "op")
    _take(old, new, found)
    alone = [(key, None, None) for key in old] + [(None, key, None) for key in new]
    return [_pair(before, after, *one) for one in [*found, *alone]]


def _take(old: Costs, new: Costs, found: list[tuple[Any, Any, Any]]) -> None:
    for a, b, _ in found:
        old.pop(a, None)
        new.pop(b, None)


def _renamable(costs: Costs) -> Costs:
    return {key: cost for key, cost in costs.items() if key[1] != NO_OP and key[2] != "memory"}


def _by_group(old: Costs, new: Costs, group_of: Any, how: str) -> list[tuple[Any, Any, Any]]:
    """Pairs within each group, dearest with dearest."""
    groups: dict[Any, tuple[list[Key], list[Key]]] = defaultdict(lambda: ([], []))
    for side, costs in enumerate((old, new)):
        for key in sorted(costs, key=lambda one: (-float(np.median(costs[one])), one)):
            groups[group_of(key)][side].append(key)
    return [(a, b, how) for first, second in groups.values() for a, b in zip(first, second, strict=False)]


def _pair(before: Measured, after: Measured, a: Key | None, b: Key | None, how: str | None) -> Pair:
    key: Key = b if b is not None else a if a is not None else ()
    none = np.zeros(len(before.wall)), np.zeros(len(after.wall))
    return Pair(
        None if a is None else a[0],
        None if b is None else b[0],
        key[1],
        key[2],
        how,
        none[0] if a is None else before.kernels[a],
        none[1] if b is None else after.kernels[b],
        none[0] if a is None else before.calls["kernels"][a],
        none[1] if b is None else after.calls["kernels"][b],
    )
