"""Rules about runs without a device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from cudalens.analysis import units
from cudalens.analysis.findings.finding import Finding
from cudalens.analysis.findings.scene import Scene

_TINY_NS: Final = 5_000
"""Dispatching an operator from Python takes some microseconds; what takes less is mostly that."""

_MIN_OPS: Final = 500
_SHARE: Final = 0.20


def tiny_operators(scene: Scene) -> Iterator[Finding]:
    """``tiny_operators``: on the CPU alone, operators so short that calling them is most of the work.

    Cost: the summed time of outermost operators shorter than 5 µs. Told from five hundred of them, and a fifth of the
    measured window, on.
    """
    if len(scene.work.rows):
        return
    ops = scene.matching("", ("cpu_op",))
    ops = ops[np.isin(scene.parent[ops], ops, invert=True)]
    lengths = (scene.end - scene.ts)[ops]
    tiny = lengths < _TINY_NS
    cost = int(lengths[tiny].sum())
    if tiny.sum() < _MIN_OPS or cost < _SHARE * scene.wall_ns:
        return
    rows = ops[tiny]
    names = scene.events["name"].array[rows]
    most = str(names.categories[int(np.argmax(np.bincount(names.codes)))])
    what = (
        f"{units.count(len(rows))} of {units.plural(len(ops), 'operator')} took less than {units.duration(_TINY_NS)} "
        f"each, {units.duration(cost)} together, most often {most}."
    )
    yield scene.finding(
        "tiny_operators", "tiny operators", what, cost, scene.dearest(rows),
        "work on whole tensors instead of elements, torch.vmap, or torch.compile", "medium",
        scene.place(int(rows[0])),
    )  # fmt: skip
