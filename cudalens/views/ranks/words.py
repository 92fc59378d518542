"""The verdict on a job in words."""

from __future__ import annotations

from typing import Final

from cudalens.analysis import units
from cudalens.analysis.ranks.stragglers import Straggler, Stragglers
from cudalens.analysis.ranks.stretches import GAP
from cudalens.frames import Ranks

_STAGE: Final = 0.05
_NAME: Final = 60


def verdict(ranks: Ranks) -> str:
    """``rank 17 is 30 % slower in aten::mm (train.py:88): the job loses 212 ms of 1.40 s a step``, and more."""
    found = ranks.analysis.stragglers
    return "; ".join(part for part in (_answer(ranks, found), _others(found), _clocks(ranks), _problems(ranks)) if part)


def _answer(ranks: Ranks, found: Stragglers) -> str:
    if found.found:
        first = found.found[0]
        return f"{reason(first)}: {loss(first.loss_ns, found.step_ns)}"
    groups = found.by_group.sort_values("loss_ns", ascending=False)
    if len(groups) and groups["loss_ns"].iloc[0] >= _STAGE * found.step_ns:
        row = groups.iloc[0]
        return f"{row['kind']} in process group {row['process_group']} is slow: {loss(row['loss_ns'], found.step_ns)}"
    stages = found.by_stage.sort_values("loss_ns", ascending=False)
    if len(stages) and stages["loss_ns"].iloc[0] >= _STAGE * found.step_ns:
        row = stages.iloc[0]
        who = list_ranks(members(found, int(row["role"])))
        more = f"compute {units.percent(row['excess_pct'])} longer than the other stages"
        return f"the stage of {who} {more}: {loss(row['loss_ns'], found.step_ns)}"
    size = units.plural(len(ranks), "rank")
    if not found.is_consistent:
        return f"{size}; stragglers cannot be found: the recorded communications contradict each other"
    if len(ranks) > 1 and not (ranks.analysis.collectives["match"] >= 0).any():
        return f"{size}; no communication between them is recorded, so that stragglers cannot be found"
    has_steps = len(ranks.analysis.steps) > 0
    steps = f", {units.duration(found.step_ns)} {'a step' if has_steps else 'in all'}" if found.step_ns else ""
    return f"no straggler among {size}{steps}" if len(ranks) > 1 else f"{size}{steps}"


def reason(one: Straggler) -> str:
    """What is slow on a straggler."""
    name = units.shorten(one.op, _NAME)
    if one.cause == "host" or one.op == GAP:
        what = f"rank {one.rank} waits for its host between kernels"
    elif one.cause == "all operators":
        what = f"rank {one.rank} is slower in most operators, {units.percent(one.slower_pct)} in {name}"
    else:
        what = f"rank {one.rank} is {units.percent(one.slower_pct)} slower in {name}"
    more = {"data": " on larger inputs", "clock": " at a lower clock"}.get(one.cause, "")
    often = "" if one.is_persistent else f" in {one.num_slow_steps} of {units.plural(one.num_steps, 'step')}"
    return f"{what}{more}{often}"


def loss(loss_ns: float, step_ns: float) -> str:
    """What the job loses."""
    return f"the job loses {units.duration(loss_ns)} of {units.duration(step_ns)} a step"


def members(found: Stragglers, role: int) -> list[int]:
    """The ranks that run a program."""
    rows = found.by_rank[found.by_rank["role"] == role]
    return [int(rank) for rank in rows["rank"].tolist()]


def list_ranks(ranks: list[int]) -> str:
    """``rank 3``, ``ranks 4 to 7``, ``ranks 1, 3 and 2 more``."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if ranks == list(range(ranks[0], ranks[-1] + 1)):
        return f"ranks {ranks[0]} to {ranks[-1]}"
    more = f" and {len(ranks) - 4} more" if len(ranks) > 4 else ""
    return f"ranks {', '.join(map(str, ranks[:4]))}{more}"


def _others(found: Stragglers) -> str:
    rest = found.found[1:]
    return (
        f"{units.plural(len(rest), 'other straggler')}: {list_ranks(sorted(one.rank for one in rest))}" if rest else ""
    )


def _clocks(ranks: Ranks) -> str:
    if len(ranks) < 2 or not (ranks.analysis.collectives["match"] >= 0).any():
        return ""
    clocks = ranks.analysis.clocks
    known = clocks["uncertainty_ns"].dropna()
    if len(known) < len(clocks):
        return f"clocks of {units.plural(len(clocks) - len(known), 'rank')} are not aligned"
    return f"clocks aligned within {units.duration(float(known.max()))}"


def _problems(ranks: Ranks) -> str:
    number = sum(problem.count for problem in ranks.problems)
    return units.plural(number, "problem") + " in the files" if number else ""
