"""Stragglers: which rank makes the job slow, in which operator and line, why, and what the job loses by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis import units
from cudalens.analysis.ranks.peers import Coverage, roles, stage_ratios, with_peers
from cudalens.analysis.ranks.rank_work import GAP
from cudalens.analysis.ranks.replay import Graph
from cudalens.frames.column_arrays import Ints, integers

_NAME: Final = 60


def reason(one: Straggler) -> str:
    """``rank 17 is 30 % slower in aten::mm (train.py:88)``."""
    name = units.shorten(one.op, _NAME)
    if one.cause == "host" or one.op == GAP:
        where = "takes longer between operators" if one.is_on_host else "waits for its host between kernels"
        what = f"rank {one.rank} {where}"
    elif one.cause == "all operators":
        what = f"rank {one.rank} is slower in most operators, {_slower(one, brief=True)} in {name}"
    else:
        what = f"rank {one.rank} {_slower(one)} in {name}"
    more = {"data": " on larger inputs", "clock": " at a lower clock"}.get(one.cause, "")
    often = "" if one.is_persistent else f" in {one.num_slow_steps} of {units.plural(one.num_steps, 'step')}"
    return f"{what}{more}{often}"


def _slower(one: Straggler, *, brief: bool = False) -> str:
    """``is 30 % slower``, ``takes 2.5 times as long``; in brief ``30 %``, ``2.5 times as long``."""
    ratio = one.slower_pct / 100
    change = units.time_change(ratio)
    if units.is_factor(ratio):
        return change if brief else f"takes {change}"
    return units.percent(one.slower_pct) if brief else f"is {change}"


Floats = NDArray[np.float64]
Cause = Literal["operator", "all operators", "host", "data", "clock"]

#: A rank is a straggler if the job loses this share of its time by it,
_LEAST_LOSS: Final = 0.01
#: if it exceeds its peers by this share of a step,
_LEAST_EXCESS: Final = 0.02
#: and by this many times the usual difference between ranks.
_LEAST_SPREAD: Final = 4.0
#: Share of the steps in which a persistent straggler is slow.
_PERSISTENT: Final = 0.6
_MOST_OF: Final = 0.5
_LOWER_CLOCK: Final = 0.95


@dataclass(frozen=True)
class Straggler:
    """A rank that makes the job slow.

    Attributes:
        rank: The rank.
        loss_ns: What the job loses by it in a step, ns: the job's time, less its time if this rank took as long as its
            peers.
        op: The operator with the largest excess, with its line where known.
        op_loss_ns: What the job loses by this operator on this rank, ns a step.
        slower_pct: How much longer the operator takes than on the peers.
        cause: ``data``: its inputs are larger; ``clock``: the GPU's clock is lower; ``host``: gaps between kernels;
            ``all operators``: no operator has most of the excess; else ``operator``.
        num_slow_steps: Steps in which it is slow.
        num_steps: Steps in which it is compared.
        is_on_host: Whether the job computes on CPUs: then gaps are between operators.
    """

    rank: int
    loss_ns: float
    op: str
    op_loss_ns: float
    slower_pct: float
    cause: Cause
    num_slow_steps: int
    num_steps: int
    is_on_host: bool = False

    @property
    def is_persistent(self) -> bool:
        """Whether it is slow in most steps."""
        return self.num_slow_steps >= _PERSISTENT * self.num_steps


@dataclass(frozen=True)
class Stragglers:
    """What slow ranks, stages and links cost a job.

    Attributes:
        step_ns: Time of the job for a step, ns.
        found: The stragglers, by what the job loses.
        by_rank: A row per ``rank``: ``role`` (ranks of one number run the same program), ``loss_ns`` a step,
            ``excess_ns`` of its work over that of its peers a step.
        by_stage: A row per ``role``: ``ranks`` (their number), ``loss_ns`` a step if it took as long as the others,
            ``excess_pct`` of its compute.
        by_group: A row per process group with a slower transfer than groups of the same kind and size: ``loss_ns``.
        has_steps: Whether profiler steps are recorded; else the whole recording is one.
        is_consistent: Whether the dependencies of the recorded communication have no loop; nothing is replayed if not.
    """

    step_ns: float
    found: tuple[Straggler, ...]
    by_rank: pd.DataFrame
    by_stage: pd.DataFrame
    by_group: pd.DataFrame
    has_steps: bool = True
    is_consistent: bool = True

    def loss(self, loss_ns: float) -> str:
        """``the job loses 212 ms of 1.40 s a step``."""
        a_step = " a step" if self.has_steps else ""
        return f"the job loses {units.duration(loss_ns)} of {units.duration(self.step_ns)}{a_step}"


def stragglers(graph: Graph, work: pd.DataFrame, waits: pd.DataFrame, summary: pd.DataFrame) -> Stragglers:
    """Replay the job with the times of peers for each rank and stage.

    Args:
        graph: The dependencies.
        work: ``work`` of `Ranks.frames`.
        waits: As of `with_waits`.
        summary: ``summary`` of `Ranks.frames`.
    """
    ranks = np.unique(integers(summary["rank"]))
    role = roles(waits, ranks)
    if not graph.is_consistent or not len(work):
        return Stragglers(
            0.0, (), _no_losses(ranks, role), _no_stages(), _no_groups(), is_consistent=graph.is_consistent
        )
    return _Comparison(graph, work, waits, summary, ranks, role).result()


def _no_losses(ranks: Ints, role: Ints) -> pd.DataFrame:
    return pd.DataFrame({"rank": ranks, "role": role, "loss_ns": np.nan, "excess_ns": np.nan})


def _no_stages() -> pd.DataFrame:
    return pd.DataFrame({"role": pd.Series(dtype="int64"), "ranks": pd.Series(dtype="int64"), "loss_ns": 0.0})


def _no_groups() -> pd.DataFrame:
    return pd.DataFrame({"process_group": pd.Series(dtype="str"), "kind": pd.Series(dtype="str"), "loss_ns": 0.0})


class _Comparison:
    def __init__(
        self, graph: Graph, work: pd.DataFrame, waits: pd.DataFrame, summary: pd.DataFrame, ranks: Ints, role: Ints
    ) -> None:
        self.graph, self.waits, self.summary = graph, waits, summary
        self.ranks, self.role = ranks, role
        self.covered = Coverage(work, waits, ranks, role)
        self.num_steps = self.covered.num_steps
        self.work = with_peers(work, ranks, role, self.covered)
        self.is_compared = ~np.isnan(self.work["peers_ns"].to_numpy(np.float64))
        first = np.searchsorted(graph.rank, ranks)
        self.index = np.searchsorted(ranks, integers(work["rank"]))
        self.nodes: Ints = first[self.index] + work["stretch"].to_numpy()
        self.excess: Floats = (self.work["work_ns"] - self.work["peers_ns"]).fillna(0.0).to_numpy(np.float64)

    def result(self) -> Stragglers:
        n = len(self.ranks)
        each = [self._saved(self.index == i, self.excess) for i in range(n)]
        stages = self._stages()
        groups = self._groups()
        times = self.graph.makespans([*each, *(saved for _, _, saved in stages), *(saved for _, saved in groups)])
        whole = float(self.graph.times[:-1].max())
        loss = (whole - times) / self.num_steps
        excess = np.bincount(self.index, self.excess, n) / self.num_steps
        by_rank = pd.DataFrame({"rank": self.ranks, "role": self.role, "loss_ns": loss[:n], "excess_ns": excess})
        step_ns = whole / self.num_steps
        found = [self._straggler(i, loss[i], step_ns) for i in self._suspects(loss[:n], excess, step_ns)]
        by_stage = pd.DataFrame(
            {
                "role": [number for number, _, _ in stages],
                "ranks": [int((self.role == number).sum()) for number, _, _ in stages],
                "loss_ns": loss[n : n + len(stages)],
                "excess_pct": [excess_pct for _, excess_pct, _ in stages],
            }
        )
        by_group = pd.DataFrame([name for name, _ in groups], columns=["process_group", "kind"])
        by_group["loss_ns"] = loss[n + len(stages) :]
        has_steps = bool((self.work["step"] >= 0).any())
        return Stragglers(step_ns, tuple(found), by_rank, by_stage, by_group, has_steps)

    def _saved(self, chosen: NDArray[np.bool_], less: Floats) -> tuple[Ints, Floats]:
        return self.nodes[chosen], less[chosen]

    def _suspects(self, loss: Floats, excess: Floats, step_ns: float) -> list[int]:
        if step_ns <= 0:  # all work has length 0
            return []
        suspects = []
        for i in np.argsort(-loss, kind="stable").tolist():
            others = np.delete(excess, i)
            usual = 1.4826 * float(np.median(np.abs(others - np.median(others)))) if len(others) > 2 else 0.0
            if loss[i] >= _LEAST_LOSS * step_ns and excess[i] >= max(_LEAST_EXCESS * step_ns, _LEAST_SPREAD * usual):
                suspects.append(i)
        return suspects

    def _straggler(self, i: int, loss_ns: float, step_ns: float) -> Straggler:
        mine = (self.index == i) & self.is_compared
        rows = self.work[mine].assign(excess=self.excess[mine], step=self.covered.step[mine])
        by_op = rows.groupby("op", observed=True)[["work_ns", "peers_ns", "excess", "elements"]].sum()
        op = by_op["excess"].idxmax()
        top = by_op.loc[op]
        chosen = mine & (self.work["op"] == op).to_numpy(bool)
        saved = self.graph.makespans([self._saved(chosen, self.excess)])
        by_step = rows.groupby("step")["excess"].sum().to_numpy(np.float64)
        return Straggler(
            rank=int(self.ranks[i]),
            loss_ns=float(loss_ns),
            op=str(op),
            op_loss_ns=float(self.graph.times[:-1].max() - saved[0]) / self.num_steps,
            slower_pct=float(100 * top["excess"] / max(top["peers_ns"], 1)),
            cause=self._cause(i, str(op), float(top["excess"]), by_op),
            num_slow_steps=int((by_step >= _LEAST_EXCESS * step_ns).sum()),
            num_steps=len(by_step),
            is_on_host=bool(self.summary["busy_ns"].isna().all()),
        )

    def _cause(self, i: int, op: str, op_excess: float, by_op: pd.DataFrame) -> Cause:
        if op == GAP:
            return "host"
        ratio = by_op.loc[op, "work_ns"] / max(by_op.loc[op, "peers_ns"], 1)
        if np.log(self._elements_ratio(i, op)) >= max(np.log(ratio), 0.0) / 3 > 0:
            return "data"
        clock = self.summary["clock_mhz"].astype("Float64")
        mine = clock[self.summary["rank"] == self.ranks[i]].iloc[0]
        if not pd.isna(mine) and mine < _LOWER_CLOCK * clock.median():
            return "clock"
        return "operator" if op_excess >= _MOST_OF * by_op["excess"].clip(lower=0).sum() else "all operators"

    def _elements_ratio(self, i: int, op: str) -> float:
        """Elements of the inputs of an operator on a rank over those of its peers for the same calls; 1 if unknown."""
        chosen = (self.work["op"] == op).to_numpy(bool) & self.is_compared & (self.role == self.role[i])[self.index]
        keys = [self.covered.step[chosen], self.covered.place[chosen], self.index[chosen]]
        table = self.work["elements"][chosen].groupby(keys).sum().unstack()
        others = table.drop(columns=i, errors="ignore")
        if i not in table or not len(others.columns):
            return 1.0
        theirs = others.where(table[i].notna(), axis=0)
        mine = theirs.notna().mul(table[i].fillna(0), axis=0)
        ratios = (mine.sum() / theirs.sum().replace(0, np.nan)).dropna()
        found = float(ratios.median()) if len(ratios) else 1.0
        return found if found > 0 else 1.0

    def _stages(self) -> list[tuple[int, float, tuple[Ints, Floats]]]:
        """For each program the excess of its compute over the others, per cent, and what it would save."""
        if len(np.unique(self.role)) < 2:
            return []
        ratio = stage_ratios(self.work, self.ranks, self.role, self.covered)
        own = self.work["work_ns"].to_numpy(np.float64)
        less = np.where(np.isnan(ratio), 0.0, own * (1 - ratio))
        found = []
        for number in np.unique(self.role).tolist():
            chosen = self.role[self.index] == number
            known = own[chosen & ~np.isnan(ratio)].sum()
            excess = less[chosen].sum()
            found.append((number, float(100 * excess / max(known - excess, 1)), self._saved(chosen, less)))
        return found

    def _groups(self) -> list[tuple[tuple[str, str], tuple[Ints, Floats]]]:
        """For each process group with slower transfers than groups of the same kind and size, what it would save."""
        waits = self.waits
        known = (waits["match"] >= 0).to_numpy() & ~waits["process_group"].isna().to_numpy()
        rows = np.flatnonzero(known)
        frame = waits.iloc[rows].assign(row=rows, transfer=waits["transfer_ns"].iloc[rows].astype("float64"))
        keys = ["kind", "num_bytes", "members"]
        frame["process_group"] = frame["process_group"].astype(str)
        frame["kind"] = frame["kind"].astype(str)
        each = frame.groupby([*keys, "process_group"], dropna=False)["transfer"].median().reset_index()
        usual = each.groupby(keys, dropna=False)["transfer"].agg(["median", "count"]).reset_index()
        frame = frame.merge(usual, "left", keys)
        frame = frame[(frame["count"] > 2) & (frame["transfer"] > 1.5 * frame["median"])]
        return [
            (
                (str(name), str(kind)),
                (self.graph.ends_of(part["row"].to_numpy()), (part["transfer"] - part["median"]).to_numpy()),
            )
            for (name, kind), part in frame.groupby(["process_group", "kind"])
        ]
