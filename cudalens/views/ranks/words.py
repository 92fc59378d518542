"""The verdict on a job in words."""

from __future__ import annotations

from typing import Final

from cudalens.analysis import units
from cudalens.analysis.ranks.stragglers import Stragglers, reason
from cudalens.frames import Ranks

_STAGE: Final = 0.05


def verdict(ranks: Ranks, *, has_clocks: bool = True) -> str:
    """``rank 17 is 30 % slower in aten::mm (train.py:88): the job loses 212 ms of 1.40 s a step``, and more."""
    found = ranks.analysis.stragglers
    clocks = _clocks(ranks) if has_clocks else ""
    return "; ".join(part for part in (_answer(ranks, found), _others(found), clocks, _problems(ranks)) if part)


def _answer(ranks: Ranks, found: Stragglers) -> str:
    if found.found:
        first = found.found[0]
        return f"{reason(first)}: {found.loss(first.loss_ns)}"
    groups = found.by_group.sort_values("loss_ns", ascending=False)
    if len(groups) and groups["loss_ns"].iloc[0] >= _STAGE * found.step_ns:
        row = groups.iloc[0]
        return f"{row['kind']} in process group {row['process_group']} is slow: {found.loss(row['loss_ns'])}"
    stages = found.by_stage.sort_values("loss_ns", ascending=False)
    if len(stages) and stages["loss_ns"].iloc[0] >= _STAGE * found.step_ns:
        row = stages.iloc[0]
        who = list_ranks(members(found, int(row["role"])))
        longer = f"{units.percent(row['excess_pct'])} longer than"
        if units.is_factor(row["excess_pct"] / 100):
            longer = f"{units.time_change(row['excess_pct'] / 100)} as"
        more = f"compute {longer} the other stages"
        return f"the stage of {who} {more}: {found.loss(row['loss_ns'])}"
    size = units.plural(len(ranks), "rank")
    if not found.is_consistent:
        return f"{size}; stragglers cannot be found: the recorded communications contradict each other"
    if len(ranks) > 1 and not (ranks.analysis.collectives["match"] >= 0).any():
        return f"{size}; no communication between them is recorded, so that stragglers cannot be found"
    has_steps = len(ranks.analysis.steps) > 0
    per = "a step" if has_steps else "in all"
    steps = f", {units.duration(found.step_ns)} {per}" if found.step_ns else ""
    return f"no straggler among {size}{steps}" if len(ranks) > 1 else f"{size}{steps}"


def members(found: Stragglers, role: int) -> list[int]:
    """Return the ranks that run a program."""
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
    number = sum(problem.count for problem in ranks.problems) + len(_partial_ranks(ranks))
    return units.plural(number, "problem") + " in the files" if number else ""


def rank_ranges(ranks: list[int]) -> str:
    """``0 to 4, 6, 7``; of many ranges the first three."""
    ranges: list[list[int]] = []
    for rank in ranks:
        if ranges and ranges[-1][-1] == rank - 1:
            ranges[-1][1:] = [rank]
        else:
            ranges.append([rank])
    texts = [" to ".join(map(str, one)) for one in ranges]
    return ", ".join(texts[:3]) + (f" and {len(texts) - 3} more" if len(texts) > 3 else "")


def partial(ranks: Ranks) -> list[str]:
    """Return a note on the ranks whose traces are not whole; empty for none."""
    found = _partial_ranks(ranks)
    what, verb = ("trace", "is") if len(found) == 1 else ("traces", "are")
    return [f"the {what} of {list_ranks(found)} {verb} partial: see ranks[{found[0]}].trust()"] if found else []


def uneven(ranks: Ranks) -> list[str]:
    """Return a note on the ranks that recorded another number of steps than most; empty for none."""
    summary = ranks.frames["summary"]
    counts = summary["num_steps"].fillna(0).astype("int64")
    usual = int(counts.mode().iloc[-1]) if len(counts) else 0
    others: dict[int, list[int]] = {int(number): [] for number in counts.unique() if number != usual}
    for rank, number in zip(summary["rank"].tolist(), counts.tolist(), strict=True):
        if number != usual:
            others[number].append(int(rank))
    parts = [f"{list_ranks(found)} recorded {units.plural(number, 'step')}" for number, found in others.items()]
    more = f", and {units.plural(len(parts) - 3, 'other number')}" if len(parts) > 3 else ""
    how = "a step is compared among the ranks that recorded it"
    return [f"{', '.join(parts[:3])}{more}, most ranks {units.count(usual)}: {how}"] if parts else []


def _partial_ranks(ranks: Ranks) -> list[int]:
    summary = ranks.frames["summary"]
    return [int(rank) for rank in summary["rank"][(summary["trust"] == "partial").to_numpy(bool)]]
