"""Stragglers: which rank makes the job slow, in which operator, compared with its peers, and what it costs.

The steps:

1. `roles` gives each rank the number of the program that it runs. Ranks of one role are peers. The ranks of a pipeline
   stage run one program, so role, program and stage are one number here.
2. `Coverage` finds which part of each step each rank recorded: only parts that peers recorded too are compared.
3. `with_peers` adds to the work of each rank the time that its peers took for the same: the difference is its excess.
4. `JobGraph` replays the job without the excess of a rank, a stage or a process group: the time saved is the loss.
5. A rank is a straggler if its loss and its excess are large enough; its cause is that of its worst operator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final, Literal, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis import units
from cudalens.analysis.ranks.job_graph import JobGraph
from cudalens.analysis.ranks.rank_work import GAP
from cudalens.analysis.time.groups import sums
from cudalens.frames.column_arrays import Bools, Floats, Ints, combined, integers

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
    """``is 30 % slower``, ``takes 2.5 times as long``; in brief ``30 %``, ``2.5 times as long``.

    An operator that no peer runs has no ratio: ``alone spends time``, in brief ``most``.
    """
    if one.slower_pct == inf:
        return "most" if brief else "alone spends time"
    ratio = one.slower_pct / 100
    change = units.time_change(ratio)
    if units.is_factor(ratio):
        return change if brief else f"takes {change}"
    return units.percent(one.slower_pct) if brief else f"is {change}"


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
#: Of so many ranks, those by which the job loses most, the cost includes what their peers' compute loses by waiting.
_MOST_RELIEVED: Final = 16


@dataclass(frozen=True)
class Straggler:
    """A rank that makes the job slow.

    Attributes:
        rank: The rank.
        loss_ns: What the job loses by it in a step, ns: the job's time, less its time if this rank took as long as its
            peers.
        op: The operator with the largest excess, with its line where known.
        op_loss_ns: What the job loses by this operator on this rank, ns a step.
        slower_pct: How much longer the operator takes than on the peers; infinite if they spend no time in it.
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


def stragglers(
    graph: JobGraph, work: pd.DataFrame, waits: pd.DataFrame, summary: pd.DataFrame, step_ns: float | None = None
) -> Stragglers:
    """Replay the job with the times of peers for each rank and stage.

    Args:
        graph: The dependencies.
        work: ``work`` of `Ranks.frames`.
        waits: As of `with_waits`.
        summary: ``summary`` of `Ranks.frames`.
        step_ns: Time of a step if it is known; None: that of the replay, divided by the number of steps.
    """
    ranks = np.unique(integers(summary["rank"]))
    role = roles(waits, ranks)
    if not graph.is_consistent or not len(work):
        return Stragglers(
            0.0,
            (),
            pd.DataFrame({"rank": ranks, "role": role, "loss_ns": np.nan, "excess_ns": np.nan}),
            pd.DataFrame({"role": pd.Series(dtype="int64"), "ranks": pd.Series(dtype="int64"), "loss_ns": 0.0}),
            pd.DataFrame({"process_group": pd.Series(dtype="str"), "kind": pd.Series(dtype="str"), "loss_ns": 0.0}),
            is_consistent=graph.is_consistent,
        )
    return _Comparison(graph, work, waits, summary, ranks, role).result(step_ns)


class _Comparison:
    def __init__(
        self, graph: JobGraph, work: pd.DataFrame, waits: pd.DataFrame, summary: pd.DataFrame, ranks: Ints, role: Ints
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
        #: The number of the step of each row of the work, and what communication beside it costs each rank and step.
        steps, self.step = np.unique(self.covered.step, return_inverse=True)
        self.slowed = np.zeros((len(ranks), len(steps)))
        np.add.at(self.slowed, (self.index, self.step), work["slowed_ns"].to_numpy(np.float64))
        self.excess: Floats = (self.work["work_ns"] - self.work["peers_ns"]).fillna(0.0).to_numpy(np.float64)

    def result(self, known_step_ns: float | None) -> Stragglers:
        n = len(self.ranks)
        each = [self._shortened(self.index == i, self.excess) for i in range(n)]
        stages = self._stages()
        groups = self._groups()
        times = self.graph.makespans([*each, *(saved for _, _, saved in stages), *(saved for _, saved in groups)])
        whole = float(self.graph.times[:-1].max())
        loss = (whole - times) / self.num_steps
        slowest = np.argsort(-loss[:n], kind="stable")[:_MOST_RELIEVED]
        slowest = slowest[loss[slowest] > 0]
        relieved = self.graph.makespans([self._with_relief(each[i], i, 1.0) for i in slowest.tolist()])
        loss[slowest] = (whole - relieved) / self.num_steps
        excess = np.bincount(self.index, self.excess, n) / self.num_steps
        by_rank = pd.DataFrame({"rank": self.ranks, "role": self.role, "loss_ns": loss[:n], "excess_ns": excess})
        step_ns = known_step_ns or whole / self.num_steps
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

    def _shortened(self, chosen: NDArray[np.bool_], less: Floats) -> tuple[Ints, Floats]:
        """Return the nodes of the chosen rows of the work, and by how much each is shorter, ns."""
        return self.nodes[chosen], less[chosen]

    def _with_relief(self, saved: tuple[Ints, Floats], i: int, share: float) -> tuple[Ints, Floats]:
        """`saved`, and `share` of what compute of ranks with its program loses while communication waits for rank i.

        Rank i waits least: what others lose more than it in a step, they lose by waiting for it, or for ranks that do.
        """
        least = self.slowed[i]
        waited = 1 - np.divide(least, self.slowed, out=np.ones(self.slowed.shape), where=self.slowed > least)
        waited[self.role != self.role[i]] = 0
        less = share * waited[self.index, self.step] * self.work["slowed_ns"].to_numpy(np.float64)
        rows = np.flatnonzero(less)
        return np.concatenate([saved[0], self.nodes[rows]]), np.concatenate([saved[1], less[rows]])

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
        share = float(np.clip(top["excess"] / max(by_op["excess"].sum(), 1), 0.0, 1.0))
        saved = self.graph.makespans([self._with_relief(self._shortened(chosen, self.excess), i, share)])
        by_step = rows.groupby("step")["excess"].sum().to_numpy(np.float64)
        return Straggler(
            rank=int(self.ranks[i]),
            loss_ns=float(loss_ns),
            op=str(op),
            op_loss_ns=float(self.graph.times[:-1].max() - saved[0]) / self.num_steps,
            slower_pct=float(100 * top["excess"] / top["peers_ns"]) if top["peers_ns"] >= 1 else inf,
            cause=self._cause(i, str(op), float(top["excess"]), by_op),
            num_slow_steps=int((by_step >= _LEAST_EXCESS * step_ns).sum()),
            num_steps=len(by_step),
            is_on_host=bool(self.summary["busy_ns"].isna().all()),
        )

    def _cause(self, i: int, op: str, op_excess: float, by_op: pd.DataFrame) -> Cause:
        if op == GAP:
            return "host"
        ratio = by_op.loc[op, "work_ns"] / max(by_op.loc[op, "peers_ns"], 1)
        # Larger inputs are the cause if they explain a third of the time ratio, in logarithms: for 8 times the time
        # they must have at least 2 times the elements.
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
        keys = [self.covered.step[chosen], self.covered.place_in_step[chosen], self.index[chosen]]
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
            found.append((number, float(100 * excess / max(known - excess, 1)), self._shortened(chosen, less)))
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
        # Of two groups it is not known which one is slow, so a median of three or more is the reference.
        frame = frame[(frame["count"] > 2) & (frame["transfer"] > 1.5 * frame["median"])]
        return [
            (
                (str(name), str(kind)),
                (self.graph.ends_of(part["row"].to_numpy()), (part["transfer"] - part["median"]).to_numpy()),
            )
            for (name, kind), part in frame.groupby(["process_group", "kind"])
        ]


# Compare the operators of each rank with those of its peers, in the part of each step that all of them recorded.

#: The communications of a step, each as a number for its kind, size and direction.
_Program: TypeAlias = tuple[int, ...]


def roles(matched: pd.DataFrame, ranks: Ints) -> Ints:
    """Return the number of the program that each of `ranks` runs: its communications in a step, by kind and size.

    A rank that recorded one step at most may have recorded only the beginning of a program: it gets the longest program
    of any rank that begins with the same communications.
    """
    rank, step = integers(matched["rank"]), integers(matched["step"])
    kind = matched["kind"].cat.codes.to_numpy()
    what = combined(kind, integers(matched["num_bytes"]), _direction(matched, rank))
    order = np.lexsort((matched["place"].to_numpy(), step, rank))
    programs: dict[_Program, int] = {}
    found, short = {}, {}
    for number in ranks.tolist():
        mine = order[rank[order] == number]
        mine = mine[step[mine] >= 0] if (step[mine] >= 0).any() else mine
        cuts = np.flatnonzero(np.diff(step[mine])) + 1
        usual = Counter(tuple(part.tolist()) for part in np.split(what[mine], cuts)).most_common(1)
        program = usual[0][0] if usual else ()
        found[number] = programs.setdefault(program, len(programs))
        if not len(cuts):
            short[number] = program
    for number, program in short.items():
        found[number] = programs[_longest(program, programs)]
    return np.unique([found[number] for number in ranks.tolist()], return_inverse=True)[1].astype(np.int64)


def _longest(program: _Program, programs: Iterable[_Program]) -> _Program:
    """Return the longest of `programs` that begins with `program`, itself if it is empty."""
    same = (one for one in programs if one[: len(program)] == program)
    return max(same, key=len) if program else program


def _direction(matched: pd.DataFrame, rank: Ints) -> Ints:
    """Return whether the other rank of a send or receive is higher (1) or lower (-1); 0 if unknown."""
    src, dst = integers(matched["src_rank"]), integers(matched["dst_rank"])
    other = np.where(src == rank, dst, src)
    return np.where((src < 0) | (dst < 0), 0, np.sign(other - rank))


def with_peers(work: pd.DataFrame, ranks: Ints, role: Ints, covered: Coverage) -> pd.DataFrame:
    """`work` with the time that the peers of each rank took for the same.

    Args:
        work: ``work`` of `Ranks.frames`.
        ranks: The ranks, ascending.
        role: As of `roles`.
        covered: What each rank recorded.

    Returns:
        `work` with ``peers_ns`` (float64): the time that the peers took, ns. It is computed for the times without
        ``slowed_ns``, what communication beside the work costs: the rank's own time of a row, times the median of the
        peers over the own time for this operator, in this step and between the same communications; then the row's
        ``slowed_ns`` is added. A rank that runs a program of its own is compared with all others by step and operator.
        NaN where no peer recorded this part of the step.
    """
    rank = np.searchsorted(ranks, integers(work["rank"]))
    role = shared_roles(role)
    step, op = covered.step, work["op"].cat.codes.to_numpy()
    slowed = work["slowed_ns"].to_numpy(np.float64)
    value = work["work_ns"].to_numpy(np.float64) - slowed
    ratio = np.full(len(work), np.nan)
    for number in np.unique(role).tolist():
        if number < 0:  # with all ranks, by whole steps
            # With the largest place, `covered.has` is True only for ranks that recorded the whole step.
            members, place = np.arange(len(ranks)), np.full(len(work), _WHOLE_STEP - 1)
            key = combined(step, op)
        else:
            members, place = np.flatnonzero(role == number), covered.place_in_step
            key = combined(step, place, op)
        rows = np.flatnonzero(np.isin(rank, members))
        if len(members) > 1 and len(rows):
            column = np.searchsorted(members, rank[rows])
            _, first, at = np.unique(key[rows], return_index=True, return_inverse=True)
            table = np.zeros((len(first), len(members)))
            np.add.at(table, (at, column), value[rows])
            table[~covered.has(members, rows[first], place)] = np.nan
            peers = _medians_of_others(table)[at, column]
            own = table[at, column]
            found = np.divide(peers, own, out=np.full(len(rows), np.nan), where=own > 0)
            is_of_program = role[rank[rows]] == number
            ratio[rows[is_of_program]] = found[is_of_program]
    return work.assign(peers_ns=value * ratio + slowed)


def _medians_of_others(table: Floats) -> Floats:
    """For each value the median of the other values in its row; NaN for NaN, and without others. Shape (k, n)."""
    order = np.argsort(table, axis=1, kind="stable")  # NaN last
    place = np.argsort(order, axis=1, kind="stable")
    ordered = np.take_along_axis(table, order, axis=1)
    n = np.count_nonzero(~np.isnan(table), axis=1)[:, None]
    found = np.zeros_like(table)
    for j in ((n - 2) // 2, (n - 1) // 2):
        j = np.maximum(j, 0)
        found += np.take_along_axis(ordered, np.minimum(np.where(place > j, j, j + 1), table.shape[1] - 1), axis=1) / 2
    return np.where(np.isnan(table) | (n < 2), np.nan, found)


def stage_ratios(work: pd.DataFrame, ranks: Ints, role: Ints, covered: Coverage) -> Floats:
    """For each row the time of its operator in the other programs over that in its own; NaN if only in one.

    Counts steps that all ranks recorded.
    """
    in_all = covered.in_all
    mine = role[np.searchsorted(ranks, integers(work["rank"]))]
    op = work["op"].cat.codes.to_numpy().astype(np.int64)
    num_roles, num_ops = int(role.max(initial=0)) + 1, len(work["op"].cat.categories)
    total = sums(np.where(in_all, work["work_ns"].to_numpy(), 0), mine * num_ops + op, num_roles * num_ops).reshape(
        num_roles, num_ops
    )
    each = total / np.bincount(role, minlength=num_roles)[:, None]
    others = np.full(each.shape, np.nan)
    for number in range(num_roles):
        rest = np.delete(each, number, axis=0)
        has = (rest > 0).any(axis=0)
        others[number, has] = np.nanmedian(np.where(rest > 0, rest, np.nan)[:, has], axis=0)
    ratio = np.divide(others, each, out=np.full(each.shape, np.nan), where=each > 0)
    return np.where(in_all, ratio[mine, op], np.nan)


#: In place of a number of communications: the whole step.
_WHOLE_STEP: Final = np.iinfo(np.int64).max


class Coverage:
    """What each rank recorded of each step.

    A step is complete on a rank that has as many communications in it as any rank of the same program; on another rank
    only what the program launched before the last of them is covered. On a rank that runs a program of its own all
    steps are complete, except the first and the last one if they have fewer communications than usual. Work outside of
    steps is covered only where no rank has steps.

    Attributes:
        step: The step of each row of the work, as the first rank numbers it; -1 for none.
        place_in_step: Communications that were launched in this step before each row.
    """

    def __init__(self, work: pd.DataFrame, matched: pd.DataFrame, ranks: Ints, role: Ints) -> None:
        """Compare the steps of all ranks.

        Args:
            work: ``work`` of `Ranks.frames`.
            matched: The communications, as of `matched_collectives`.
            ranks: The ranks, ascending.
            role: The program of each rank, as of `roles`.
        """
        offsets = step_number_offsets(matched, ranks.tolist())
        offset_of_rank = np.array([offsets[rank] for rank in ranks.tolist()], np.int64)

        # One array for both frames: rows of the work, then communications. A rank is its position in `ranks`.
        rank = np.searchsorted(ranks, np.concatenate([integers(work["rank"]), integers(matched["rank"])]))
        number = np.concatenate([integers(work["step"]), integers(matched["step"])])
        step = number - offset_of_rank[rank]
        earliest = int(step[number >= 0].min(initial=0))  # below 0 if a rank recorded steps before the first rank did
        step = np.where(number >= 0, step - earliest, -1)
        is_work = np.arange(len(step)) < len(work)

        self.step = step[is_work]
        self.place_in_step = _communications_before(work, matched, combined(rank, step))
        steps, column = np.unique(step, return_inverse=True)
        self._column = column[is_work]

        num_communications = np.zeros((len(ranks), len(steps)), np.int64)
        np.add.at(num_communications, (rank[~is_work], column[~is_work]), 1)
        has_work = np.zeros(num_communications.shape, bool)
        has_work[rank[is_work], self._column] = True
        if (steps >= 0).any():
            has_work[:, steps < 0] = False
        #: How many communications of each step each rank covers, shape (ranks, steps).
        self._limit = _covered_communications(num_communications, has_work, shared_roles(role))

    @property
    def num_steps(self) -> int:
        """Number of steps that any rank recorded, at least 1."""
        return max(len(np.unique(self.step[self.step >= 0])), 1)

    @property
    def in_all(self) -> Bools:
        """Whether all ranks recorded the whole step of each row."""
        return (self._limit == _WHOLE_STEP).all(axis=0)[self._column]

    def has(self, members: Ints, rows: Ints, place: Ints) -> Bools:
        """Return whether each of `members` (positions of ranks) recorded the part of these rows.

        Returns:
            Shape (rows, members).
        """
        return place[rows][:, None] < self._limit[members][:, self._column[rows]].T


def shared_roles(role: Ints) -> Ints:
    """Return `role` with -1 for all ranks that run a program of their own; they are compared with all others."""
    return np.where(np.bincount(role)[role] == 1, -1, role)


def step_number_offsets(matched: pd.DataFrame, ranks: Sequence[int]) -> dict[int, int]:
    """Return how far each rank's step numbers run ahead of the first rank's.

    Ranks start to record at different times, so the same step is number 7 on one rank and 5 on another. A communication
    that matched across ranks ran in the same step everywhere: its step numbers are compared.
    """
    matched = matched[(matched["match"] >= 0) & matched["step"].notna()]
    lowest_rank = matched.sort_values("rank").groupby("match")[["rank", "step"]].first()
    matched = matched.join(lowest_rank.add_prefix("first_"), on="match")

    offsets = dict.fromkeys(ranks, 0)
    for rank in ranks:
        shared = matched[(matched["rank"] == rank) & (matched["first_rank"] != rank)]
        if shared.empty:
            continue
        ahead = shared["step"] - shared["first_step"] + shared["first_rank"].map(offsets)
        offsets[rank] = int(ahead.mode()[0])  # the most frequent one: a single wrong match must not decide
    return offsets


def _covered_communications(num_communications: Ints, has_work: Bools, role: Ints) -> Ints:
    """Return how many communications of each step each rank covers, shape (ranks, steps)."""
    limit = np.zeros_like(num_communications)
    for program in np.unique(role[role >= 0]).tolist():
        own = num_communications[role == program]
        limit[role == program] = np.where(own == own.max(axis=0), _WHOLE_STEP, own)

    for rank in np.flatnonzero(role < 0).tolist():  # no other rank runs its program
        recorded = np.flatnonzero(has_work[rank])
        limit[rank, recorded] = _WHOLE_STEP
        ends = recorded[[0, -1]] if len(recorded) > 2 else recorded[-1:]
        usual = np.median(num_communications[rank, recorded])
        limit[rank, ends[num_communications[rank, ends] < usual]] = 0
    return np.where(has_work, limit, 0)


def _communications_before(work: pd.DataFrame, matched: pd.DataFrame, rank_step: Ints) -> Ints:
    """Return how many communications were launched in its step before each row of the work.

    ``place`` of both frames counts the communications of a rank from its start: a row with place 12, in a step whose
    first communication has place 10, came after two of them. A step without a communication begins at its first row.

    Args:
        work: The work.
        matched: The communications.
        rank_step: A number for the rank and step of each row of the work, then of each communication.
    """
    of_work, of_communication = rank_step[: len(work)], rank_step[len(work) :]
    num_groups = int(rank_step.max(initial=-1)) + 1
    place = work["place"].to_numpy()
    first_of_communications = np.full(num_groups, _WHOLE_STEP)
    np.minimum.at(first_of_communications, of_communication, matched["place"].to_numpy())
    first_of_work = np.full(num_groups, _WHOLE_STEP)
    np.minimum.at(first_of_work, of_work, place)

    has_none = first_of_communications == _WHOLE_STEP
    first = np.where(has_none, first_of_work, first_of_communications)
    return np.maximum(place - first[of_work], 0)
