"""Sections of a job's ranks: stragglers, the rank x step map, arrivals, bandwidth."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis import units
from cudalens.analysis.ranks.stragglers import Stragglers, reason
from cudalens.frames import Ranks
from cudalens.views.ranks import pictures
from cudalens.views.sections.clean_text import clean
from cudalens.views.sections.markup import Node
from cudalens.views.sections.model import Block, Column, Facts, Note, Picture, Row, Section, Table
from cudalens.views.sections.shown import Shown, write_page

_MAX_ROWS: Final = 40
#: Slow steps whose timelines are in the page, folded.
_SLOWEST: Final = 3
#: At most so many ranks that differ have a lane each in the timeline of a simulated job.
_MAX_LANES: Final = 8


def summary(ranks: Ranks, *, has_pictures: bool = True) -> RanksSummary:
    """Return the summary of a job's ranks."""
    return RanksSummary(ranks, has_pictures=has_pictures)


class RanksSummary(Shown):
    """A job's ranks: prints as text, shows as pictures and tables in a notebook."""

    def __init__(self, ranks: Ranks, *, has_pictures: bool = True) -> None:
        super().__init__(section(ranks, has_pictures=has_pictures))

    @property
    def verdict(self) -> str:
        """The answer in one line."""
        return self.section.verdict


def mimebundle(ranks: Ranks) -> dict[str, str]:
    """`ranks` for notebooks: text, and HTML that needs no script."""
    shown = summary(ranks)
    return {"text/plain": str(shown), "text/html": shown._repr_html_()}


def to_html(ranks: Ranks, path: str | os.PathLike[str], *, title: str | None = None) -> Path:
    """Write the summary of `ranks` as one offline page, light or dark as the reader's system is; returns its path.

    Raises:
        OutputError: The file cannot be written; an existing file is unchanged.
    """
    name = title or f"Ranks of {ranks.name}"
    return write_page(path, name, f"<h1>{escape(clean(name))}</h1>{summary(ranks)._repr_html_()}")


def section(ranks: Ranks, *, has_pictures: bool = True, copies: Mapping[int, Sequence[int]] | None = None) -> Section:
    """Return all that a job's ranks show; the live widget has the pictures itself.

    Args:
        ranks: The ranks.
        has_pictures: Whether pictures are among it.
        copies: Of a simulated job, whose ranks have one clock: by rank, the ranks whose times are the same, itself
            among them. These share a row.
    """
    notes = (
        *partial(ranks),
        *uneven(ranks),
        *(f"{units.count(one.count)}x {one.kind} (first: {one.where})" for one in ranks.problems),
    )
    return Section(
        "ranks",
        "cr",
        verdict=ranks_verdict(ranks, has_clocks=copies is None),
        notes=notes,
        blocks=tuple(_blocks(ranks, has_pictures, copies)),
        is_in_text=True,
    )


def _blocks(ranks: Ranks, has_pictures: bool, copies: Mapping[int, Sequence[int]] | None) -> Iterator[Block]:
    yield _facts(ranks)
    yield from _slow(ranks)
    if has_pictures:
        yield from _pictures(ranks, copies)
    yield _each(ranks, copies)
    yield from _changes(ranks)
    load = ranks.analysis.experts.dropna(subset=["load_pct"])
    if len(load) and (most := load.loc[load["load_pct"].idxmax()])["load_pct"] >= 110:
        more = units.percent(float(most["load_pct"]) - 100)
        who, step = f"Rank {int(most['rank'])}", f"in step {int(most['step'])}"
        yield Note(f"{who} receives {more} more in all-to-alls than the mean rank {step}.")


def _pictures(ranks: Ranks, copies: Mapping[int, Sequence[int]] | None) -> Iterator[Block]:
    are_equal = copies is not None and len(copies) == 1
    if not are_equal:
        yield from work_map(ranks)
    if len(ranks) < 2:
        return
    if not are_equal:
        yield from arrivals(pictures.arrival_fan(ranks), "Collective with the longest waits")
    times = ranks.analysis.steps.groupby("step")["step_ns"].max().sort_values(kind="stable")
    steps = [int(step) for step in times.index.tolist() if step >= 0]
    if steps:  # the one of median length, the slowest ones, and the fastest
        steps = list(dict.fromkeys([steps[len(steps) // 2], *steps[: -1 - _SLOWEST : -1], steps[0]]))
    chosen = None if copies is None or len(copies) > _MAX_LANES else sorted(copies)
    one = pictures.merged_timeline(ranks, step=steps[0] if steps else None, chosen=chosen)
    yield from timeline(one, "One step")
    if copies is not None:  # simulated steps are alike
        yield from bandwidths(ranks)
        return
    longest = ranks.analysis.steps.groupby("step")["step_ns"].max()
    for step in steps[1:]:
        title = f"Step {step}, {units.duration(int(longest[step]))}"
        yield from timeline(pictures.merged_timeline(ranks, step=step), title, is_open=False)
    yield from bandwidths(ranks)


def work_map(ranks: Ranks) -> Iterator[Section]:
    """Yield the rank x step map with its legend; nothing if there is none."""
    note = "Orange: longer than the median rank; blue: shorter."
    yield from _picture("Work of each rank and step", pictures.heat_map(ranks), note)


def arrivals(fan: Node | None, title: str) -> Iterator[Section]:
    """Yield the arrivals at a collective with their legend."""
    yield from _picture(title, fan, "Blue: waits; green: transfer, after the last arrival.")


def timeline(picture: Node | None, title: str, *, is_open: bool | None = None) -> Iterator[Section]:
    """Yield the timeline of a step with its legend."""
    note = "Orange: compute; blue: waits; green: transfers. Aligned clocks."
    yield from _picture(title, picture, note, is_open=is_open)


def bandwidths(ranks: Ranks) -> Iterator[Section]:
    """Yield the bandwidths by size with their legend."""
    yield from _picture("Bandwidth of transfers", pictures.bandwidth_scatter(ranks), _lines(ranks))


def _lines(ranks: Ranks) -> str:
    """Return what the lines of the bandwidths are."""
    modelled = " Dashed: modelled for an idle node of this GPU, by group size." if len(ranks.transfer_curves) else ""
    return f"Line: median of each size.{modelled}"


def _picture(title: str, picture: Node | None, note: str, *, is_open: bool | None = None) -> Iterator[Section]:
    if picture is not None:
        blocks = (Picture(picture), Note(note, is_in_text=False))
        yield Section("", "cr", title=title, blocks=blocks, is_in_text=False, is_open=is_open)


def _facts(ranks: Ranks) -> Facts:
    steps, found = ranks.analysis.steps, ranks.analysis.collectives
    items = [("ranks", _of(ranks)), ("steps", units.count(int(steps["step"].nunique())))]
    if total := int(steps["step_ns"].sum()):
        shares = {title: 100 * int(steps[name].sum()) / total for name, title in _parts(steps).items()}
        texts = [f"{title} {units.percent(share)}" for title, share in shares.items()]
        items.append(("time", f"{', '.join(texts)} of all ranks"))
    if len(found):
        how = found["confidence"].value_counts()
        sure = ", ".join(f"{units.count(int(how[name]))} with {name} confidence" for name in how.index if how[name])
        items.append(("communication", f"{units.count(len(found))}, matched: {sure}"))
    return Facts(tuple(items))


def _parts(steps: pd.DataFrame) -> dict[str, str]:
    """Return the columns of the parts of a step and their titles; copies only if there are any."""
    copies = {"copy_ns": "copies"} if steps["copy_ns"].any() else {}
    return {"compute_ns": "compute", "wait_ns": "wait", "transfer_ns": "transfer", **copies, "idle_ns": "idle"}


def _of(ranks: Ranks) -> str:
    worlds = [info.world_size for info in ranks.infos.values() if info.world_size]
    gpus = [gpu for gpu in ranks.frames["summary"]["gpu"].dropna().unique().tolist() if gpu][:3]
    of = f" of {worlds[0]}" if worlds and worlds[0] != len(ranks) else ""
    return f"{len(ranks)}{of}{', ' if gpus else ''}{', '.join(clean(gpu, 60) for gpu in gpus)}"


def _slow(ranks: Ranks) -> Iterator[Block]:
    found = ranks.analysis.stragglers
    if not found.found:
        return
    columns = (
        Column("rank", align="right"),
        Column("job loses a step" if found.has_steps else "job loses", align="right"),
        Column("what is slow", "what", text_width=60, html_width=120),
        Column("by this operator", align="right"),
        Column("slow steps", align="right"),
    )
    rows = [
        Row(
            (
                str(one.rank),
                f"{units.duration(one.loss_ns)} ({units.percent(100 * one.loss_ns / found.step_ns)})",
                reason(one),
                units.duration(one.op_loss_ns),
                f"{one.num_slow_steps} of {one.num_steps}",
            )
        )
        for one in found.found[:_MAX_ROWS]
    ]
    note = Note("Loss: time saved in each step if this rank were as fast as the others.")
    yield Section("", "cr", title="Stragglers", blocks=(Table(columns, rows, len(found.found), is_stacked=True), note))


def _each(ranks: Ranks, copies: Mapping[int, Sequence[int]] | None) -> Section:
    analysis = ranks.analysis
    steps, found = analysis.steps, analysis.collectives
    parts = _parts(steps)
    means = steps.groupby("rank")[[*parts]].mean()
    last = found[found["is_last"].to_numpy(bool) & (found["members"] > 2).to_numpy()].groupby("rank").size()
    bubble = analysis.bubbles.groupby("rank")["bubble_ns"].mean()
    losses = analysis.stragglers.by_rank.set_index("rank")["loss_ns"]
    clocks = analysis.clocks.set_index("rank")
    order = losses.fillna(0).sort_values(ascending=False, kind="stable").index
    if copies is not None:
        order = order[order.isin(list(copies))]
    rows = []
    for rank in order[:_MAX_ROWS]:
        times = [units.duration(float(means.at[rank, part])) if rank in means.index else "-" for part in parts]
        clock = (_clock(clocks, rank),) if copies is None else ()
        who = str(rank) if copies is None else rank_ranges(sorted(copies[rank]))
        bubbles = units.duration(float(bubble[rank])) if rank in bubble.index else "-"
        loss = units.duration(max(float(losses[rank]), 0)) if not np.isnan(losses[rank]) else "-"
        rows.append(Row((who, loss, *times, bubbles, units.count(int(last.get(rank, 0))), *clock)))
    titles = ["rank", "job loses", *parts.values(), "bubble", "last", "clock"]
    if copies is not None:
        titles.pop()
    columns = tuple(Column(title, align="right", text_width=26) for title in titles)
    table = Table(columns, rows, len(order), num_open=12, more=("rank", "ranks.analysis.steps"), is_stacked=True)
    note = Note(
        "Means of a step. Last: collectives in which the rank arrived last."
        + (" Clock: against the first rank." if copies is None else ""),
        is_in_text=False,
    )
    return Section("", "cr", title="Ranks", blocks=(table, note))


def _clock(clocks: pd.DataFrame, rank: int) -> str:
    if rank not in clocks.index or pd.isna(clocks.at[rank, "offset_ns"]):
        return "-"
    offset, within = float(clocks.at[rank, "offset_ns"]), float(clocks.at[rank, "uncertainty_ns"])
    return f"{'+' if offset > 0 else ''}{units.duration(offset)} ± {units.duration(within)}"


def _changes(ranks: Ranks) -> Iterator[Block]:
    for row in ranks.analysis.changes.to_dict("records"):
        times = f"{units.duration(row['before_ns'])} → {units.duration(row['after_ns'])}"
        yield Note(f"From step {row['step']} on, a step takes {times}.")


_STAGE: Final = 0.05


def ranks_verdict(ranks: Ranks, *, has_clocks: bool = True) -> str:
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
