"""Rules about the ranks of one job: which rank has more work, and which rank the others wait for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import msgspec
import numpy as np

from cudalens.analysis import units
from cudalens.analysis.findings.finding import Confidence, Finding
from cudalens.frames import Ranks

_UNEVEN: Final = 0.10
_WAITING: Final = 0.05
_MIN_COLLECTIVES: Final = 3


def uneven(ranks: Ranks) -> Iterator[Finding]:
    """``load_imbalance``: one rank computes longer than the others.

    Cost: the longest compute time of a rank (union of its compute kernels) minus the mean of all. Threshold: a tenth of
    the mean.
    """
    known = ranks.frames["summary"].dropna(subset="comp_ns")
    compute = dict(zip(known["rank"].tolist(), known["comp_ns"].tolist(), strict=True))
    mean = sum(compute.values()) / max(len(compute), 1)
    if len(compute) < 2 or not mean:
        return
    most, least = max(compute, key=compute.__getitem__), min(compute, key=compute.__getitem__)
    cost = int(compute[most] - mean)
    if cost < _UNEVEN * mean:
        return
    what = (
        f"Rank {most} computed for {units.duration(compute[most])}, rank {least} for {units.duration(compute[least])}; "
        f"the mean of the {len(compute)} ranks is {units.duration(mean)}."
    )
    advice = "give ranks equal work: batches with equal numbers of tokens, embedding tables sharded by load"
    yield _finding(ranks, most, "load_imbalance", "uneven load", what, cost, advice, "high")


def straggling(ranks: Ranks) -> Iterator[Finding]:
    """``straggler``: ranks wait in collectives for the rank that arrives last.

    If all ranks have the same number of collectives, the n-th kernel of each is taken for the same collective; it is
    shortest on the rank that arrives last. Cost: how much longer the others ran them, the mean over all ranks.
    Threshold: a twentieth of a rank's device time, and one rank was last in at least half of the collectives.
    """
    summary = ranks.frames["summary"]
    by_rank = ranks.frames["collectives"].groupby("rank")["dur"]
    lengths = {int(rank): durations.to_numpy() for rank, durations in by_rank}
    sizes = {len(each) for each in lengths.values()}
    if len(lengths) < 2 or len(lengths) < len(ranks) or len(sizes) > 1 or min(sizes) < _MIN_COLLECTIVES:
        return
    table = np.stack(list(lengths.values()))
    waited = (table - table.min(axis=0)).sum(axis=1)
    last = np.bincount(table.argmin(axis=0), minlength=len(table))
    slow = int(np.argmax(last))
    rank = list(lengths)[slow]
    cost = int(waited.mean())
    if cost < _WAITING * int(summary["span_ns"].max()) or last[slow] < len(table[0]) / 2:
        return
    what = (
        f"Rank {rank} was last in {units.count(int(last[slow]))} of {units.plural(len(table[0]), 'collective')}; the "
        f"ranks waited {units.duration(cost)} in them on average, at most {units.duration(int(waited.max()))}."
    )
    advice = f"check what rank {rank} does before its collectives: more data, a slower GPU, logging or checkpoints"
    yield _finding(ranks, rank, "straggler", f"waiting for rank {rank}", what, cost, advice, "medium")


def _finding(
    ranks: Ranks, rank: int, rule: str, title: str, what: str, cost_ns: int, advice: str, confidence: Confidence
) -> Finding:
    summary = ranks.frames["summary"]
    wall = int(summary.loc[summary["rank"] == rank, "wall_ns"].iloc[0])
    share = 100 * cost_ns / wall if wall else None
    is_modelled = ranks.infos[rank].is_simulated
    return Finding(rule, title, what, cost_ns, share, (), None, advice, confidence, is_modelled)


def each(ranks: Ranks) -> Iterator[Finding]:
    """The findings of every rank, in order of rank."""
    frame = ranks.frames["findings"]
    for rank, text in zip(frame["rank"].tolist(), frame["json"].tolist(), strict=True):
        yield replace(msgspec.json.decode(text, type=Finding), rank=rank)
