"""Rules about the ranks of one job: who waits for whom, and who has more to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cudalens.analysis import units
from cudalens.analysis.findings.finding import Finding
from cudalens.analysis.findings.trace_arrays import Scene
from cudalens.analysis.time.intervals import length, union
from cudalens.analysis.time.work import COMMUNICATION, COMPUTE

Ints = NDArray[np.int64]

_UNEVEN: Final = 0.10
_WAITING: Final = 0.05
_MIN_COLLECTIVES: Final = 3


def uneven(scenes: dict[int, Scene]) -> Iterator[Finding]:
    """``load_imbalance``: one rank computes longer than the others.

    Cost: the longest compute time of a rank (union of its compute kernels) less the mean of all. Told from a tenth of
    the mean on.
    """
    if len(scenes) < 2:
        return
    compute = {rank: _busy(scene, COMPUTE) for rank, scene in scenes.items()}
    mean = sum(compute.values()) / len(compute)
    most = max(compute, key=lambda rank: compute[rank])
    least = min(compute, key=lambda rank: compute[rank])
    cost = int(compute[most] - mean)
    if not mean or cost < _UNEVEN * mean:
        return
    what = (
        f"rank {most} computed {units.duration(compute[most])}, rank {least} {units.duration(compute[least])}, the "
        f"{len(compute)} ranks {units.duration(mean)} on average."
    )
    yield scenes[most].finding(
        "load_imbalance", "uneven load", what, cost, (),
        "give ranks equal work: batches of equal token counts, embedding tables sharded by their load", "high",
    )  # fmt: skip


def straggling(scenes: dict[int, Scene]) -> Iterator[Finding]:
    """``straggler``: ranks wait within collectives for the one that comes last.

    The n-th collective's kernel of each rank is taken for the same collective, where all ranks have as many; the one
    that comes last runs it shortest. Cost: how much longer the others ran them, the mean over all ranks. Told from a
    twentieth of a rank's device time on, where one rank was last in at least half of them.
    """
    lengths = [_collectives(scene) for scene in scenes.values()]
    if len(lengths) < 2 or len({len(each) for each in lengths}) > 1 or len(lengths[0]) < _MIN_COLLECTIVES:
        return
    table = np.stack(lengths)
    waited = table - table.min(axis=0)
    last = np.bincount(table.argmin(axis=0), minlength=len(table))
    slow = int(np.argmax(last))
    rank = list(scenes)[slow]
    cost = int(waited.sum(axis=1).mean())
    span = max(scene.span_ns for scene in scenes.values())
    if cost < _WAITING * span or last[slow] < len(table[0]) / 2:
        return
    what = (
        f"rank {rank} came last to {units.count(int(last[slow]))} of {units.plural(len(table[0]), 'collective')}; the "
        f"ranks waited {units.duration(cost)} in them on average, up to "
        f"{units.duration(int(waited.sum(axis=1).max()))}."
    )
    yield scenes[rank].finding(
        "straggler", f"waiting for rank {rank}", what, cost, (),
        f"look at what rank {rank} does before its collectives: more data, a slower GPU, logging or saving on one rank",
        "medium",
    )  # fmt: skip


def _busy(scene: Scene, kind: int) -> int:
    mine = scene.work.kind == kind
    return length(union(scene.work.start[mine], scene.work.end[mine]))


def _collectives(scene: Scene) -> Ints:
    mine = scene.work.kind == COMMUNICATION
    found: Ints = (scene.work.end - scene.work.start)[mine]
    return found
