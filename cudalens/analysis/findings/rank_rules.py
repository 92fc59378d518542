"""Rules about the ranks of one job: which rank has more work, and which rank the others wait for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from cudalens.analysis import units
from cudalens.analysis.findings.finding import Finding
from cudalens.analysis.findings.trace_arrays import TraceArrays
from cudalens.analysis.time.intervals import length
from cudalens.analysis.time.work import COMMUNICATION, COMPUTE

_UNEVEN: Final = 0.10
_WAITING: Final = 0.05
_MIN_COLLECTIVES: Final = 3


def uneven(by_rank: dict[int, TraceArrays]) -> Iterator[Finding]:
    """``load_imbalance``: one rank computes longer than the others.

    Cost: the longest compute time of a rank (union of its compute kernels) minus the mean of all. Threshold: a tenth of
    the mean.
    """
    if len(by_rank) < 2:
        return
    compute = {rank: length(arrays.work_time(arrays.work.kind == COMPUTE)) for rank, arrays in by_rank.items()}
    mean = sum(compute.values()) / len(compute)
    most, least = max(compute, key=compute.__getitem__), min(compute, key=compute.__getitem__)
    cost = int(compute[most] - mean)
    if not mean or cost < _UNEVEN * mean:
        return
    what = (
        f"rank {most} computed for {units.duration(compute[most])}, rank {least} for {units.duration(compute[least])}; "
        f"the mean of the {len(compute)} ranks is {units.duration(mean)}."
    )
    advice = "give ranks equal work: batches with equal numbers of tokens, embedding tables sharded by load"
    yield by_rank[most].finding("load_imbalance", "uneven load", what, cost, advice, "high")


def straggling(by_rank: dict[int, TraceArrays]) -> Iterator[Finding]:
    """``straggler``: ranks wait in collectives for the rank that arrives last.

    If all ranks have the same number of collectives, the n-th kernel of each is taken for the same collective; it is
    shortest on the rank that arrives last. Cost: how much longer the others ran them, the mean over all ranks.
    Threshold: a twentieth of a rank's device time, and one rank was last in at least half of the collectives.
    """
    lengths = [arrays.dur[arrays.work.rows[arrays.work.kind == COMMUNICATION]] for arrays in by_rank.values()]
    if len(lengths) < 2 or len({len(each) for each in lengths}) > 1 or len(lengths[0]) < _MIN_COLLECTIVES:
        return
    table = np.stack(lengths)
    waited = (table - table.min(axis=0)).sum(axis=1)
    last = np.bincount(table.argmin(axis=0), minlength=len(table))
    slow = int(np.argmax(last))
    rank = list(by_rank)[slow]
    cost = int(waited.mean())
    if cost < _WAITING * max(arrays.span_ns for arrays in by_rank.values()) or last[slow] < len(table[0]) / 2:
        return
    what = (
        f"rank {rank} was last in {units.count(int(last[slow]))} of {units.plural(len(table[0]), 'collective')}; the "
        f"ranks waited {units.duration(cost)} in them on average, at most {units.duration(int(waited.max()))}."
    )
    advice = f"check what rank {rank} does before its collectives: more data, a slower GPU, logging or checkpoints"
    yield by_rank[rank].finding("straggler", f"waiting for rank {rank}", what, cost, advice, "medium")
