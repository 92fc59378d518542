"""Rules about the ranks of one job: which rank has more work, and which rank the others wait for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import msgspec

from cudalens.analysis import units
from cudalens.analysis.findings.finding import Confidence, Finding
from cudalens.analysis.ranks.stragglers import reason
from cudalens.frames import Ranks

_UNEVEN: Final = 0.10
_ADVICE: Final = {
    "data": "give ranks equal work: batches with equal numbers of tokens, embedding tables sharded by load",
    "clock": "check the power and temperature limits of the GPU of rank {rank}",
    "host": "check what rank {rank} does on its host: data loading, logging, checkpoints, other processes",
    "all operators": "check the hardware of rank {rank}: clocks, power limits, other processes on the same device",
    "operator": "check what rank {rank} does in {op}: its inputs, its code, other processes on the same device",
}


def uneven(ranks: Ranks) -> Iterator[Finding]:
    """``load_imbalance``: one rank computes longer than the others.

    Cost: the longest compute time of a rank (union of its compute kernels) minus the mean of all, at most what the
    other ranks waited for in collectives (their mean), where these are recorded. Threshold: a tenth of the mean.
    """
    known = ranks.frames["summary"].dropna(subset="comp_ns")
    compute = dict(zip(known["rank"].tolist(), known["comp_ns"].tolist(), strict=True))
    mean = sum(compute.values()) / max(len(compute), 1)
    if len(compute) < 2 or not mean:
        return
    most, least = max(compute, key=compute.__getitem__), min(compute, key=compute.__getitem__)
    cost = int(min(compute[most] - mean, _waited(ranks, most)))
    if cost < _UNEVEN * mean:
        return
    what = (
        f"Rank {most} computed for {units.duration(compute[most])}, rank {least} for {units.duration(compute[least])}; "
        f"the mean of the {len(compute)} ranks is {units.duration(mean)}."
    )
    advice = "give ranks equal work: batches with equal numbers of tokens, embedding tables sharded by load"
    yield _finding(ranks, most, "load_imbalance", "uneven load", what, cost, advice, "high")


def _waited(ranks: Ranks, rank: int) -> float:
    """How long the other ranks waited in collectives on average, ns; infinity where no collective has a counterpart."""
    collectives = ranks.analysis.collectives
    others = collectives[(collectives["rank"] != rank) & collectives["wait_ns"].notna()]
    return float(others["wait_ns"].sum()) / (len(ranks) - 1) if len(others) else float("inf")


def straggling(ranks: Ranks) -> Iterator[Finding]:
    """``straggler``: a rank that makes the job slow, as `cudalens.analysis.ranks.stragglers` finds them.

    Cost: the job's time less its time, replayed, if the rank took as long as the ranks of the same program.
    """
    found = ranks.analysis.stragglers
    for one in found.found:
        what = f"{reason(one)[:1].upper()}{reason(one)[1:]}: {found.loss(one.loss_ns)}."
        cost = int(one.loss_ns * one.num_steps)
        advice = _ADVICE[one.cause].format(rank=one.rank, op=one.op)
        yield _finding(ranks, one.rank, "straggler", f"waiting for rank {one.rank}", what, cost, advice, "medium")


def _finding(
    ranks: Ranks, rank: int, rule: str, title: str, what: str, cost_ns: int, advice: str, confidence: Confidence
) -> Finding:
    summary = ranks.frames["summary"]
    wall = int(summary.loc[summary["rank"] == rank, "wall_ns"].iloc[0])
    share = 100 * cost_ns / wall if wall else None
    is_modelled = ranks.infos[rank].is_simulated
    return Finding(rule, title, what, cost_ns, share, (), None, advice, confidence, is_modelled, alone_pct=share)


def each(ranks: Ranks) -> Iterator[Finding]:
    """The findings of every rank, in order of rank."""
    frame = ranks.frames["findings"]
    for rank, text in zip(frame["rank"].tolist(), frame["json"].tolist(), strict=True):
        yield replace(msgspec.json.decode(text, type=Finding), rank=rank)
