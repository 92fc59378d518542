"""Sections of simulated jobs: the step and its communication, what all ranks show, and the layouts of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.analysis import units
from cudalens.frames import Ranks
from cudalens.views.ranks.section import section
from cudalens.views.sections.clean_text import clean
from cudalens.views.sections.model import Column, Facts, Note, Row, Section, Table, Text
from cudalens.views.sections.unknown_values import UnknownValues

#: Kinds of planted slow parts.
_SLOW_GPU: Final = "slow GPU"
_SLOW_LINK: Final = "slow link"
#: So many slow parts are in the first line, and in a list below it.
_IN_VERDICT: Final = 2
_SHOWN_LOSSES: Final = 4


@dataclass(frozen=True)
class SimulatedFacts:
    """Facts of a simulated job.

    Attributes:
        gpu: The name of the GPU.
        network: The links between nodes; "" for one node.
        num_nodes: The number of nodes.
        step_ns: Time of a step.
        step_low_ns: Lower end of its 80 % band.
        step_high_ns: Upper end of its 80 % band.
        num_steps: Recorded steps; 0 if the time is that of everything.
        needed_bytes: Memory that the rank with most of it needs.
        capacity_bytes: Memory of a GPU.
        fits: Whether the memory of each rank fits.
        note: Which ranks ran; "" if all did.
        losses: Of each planted slow part, the most expensive first: what it is, the rank or the node, the amount, and
            by how many ns a step is longer.
        copies: By rank, the ranks whose times are the same; ranks that are not the first of theirs are not in it.
        unknown: What the program did with values that were not computed.
    """

    gpu: str
    network: str
    num_nodes: int
    step_ns: int
    step_low_ns: int
    step_high_ns: int
    num_steps: int
    needed_bytes: int
    capacity_bytes: int
    fits: bool
    note: str
    losses: tuple[tuple[str, int | None, float, int], ...] = ()
    copies: Mapping[int, Sequence[int]] = field(default_factory=dict)
    unknown: UnknownValues = field(default_factory=UnknownValues)


def simulated_section(ranks: Ranks, facts: SimulatedFacts, *, has_pictures: bool = True) -> Section:
    """Return all that a simulated job shows; its first line is the answer."""
    shown = section(ranks, has_pictures=has_pictures, copies=facts.copies)
    on = f"{len(ranks)} {facts.gpu}" + (f", {facts.network}" if facts.network else "")
    rows = [("simulated", f"{on}; no GPU was used")]
    if facts.losses:
        # The traces show less: the kernels of a rank that waits in a collective are slower too.
        rows.append(("losses", "against the same job without the slow part; the tables compare ranks with each other"))
    else:
        rows.append(("from traces", shown.verdict))
    losses = _loss_texts(facts)
    if len(losses) > _IN_VERDICT:
        rows.append(("slow parts", "; ".join(losses[:_SHOWN_LOSSES])))
    if facts.note:
        rows.append(("copies", facts.note))
    rows += [("values", note) for note in facts.unknown.notes()]
    return replace(
        shown, verdict=simulated_verdict(ranks, facts), badge="simulated", blocks=(Facts(tuple(rows)), *shown.blocks)
    )


def simulated_verdict(ranks: Ranks, facts: SimulatedFacts) -> str:
    """Return the answer in one line: the time of a step with its band, exposed communication, and whether it fits."""
    what = "A step takes" if facts.num_steps else "The program takes"
    if facts.step_ns <= 0:
        return f"Nothing ran on the {len(ranks)} GPUs: move the model and its inputs to torch.cuda.current_device()"
    memory = f"{units.size(facts.needed_bytes)} of {units.size(facts.capacity_bytes)}"
    fits = f"it fits ({memory})" if facts.fits else f"it does not fit: {memory}"
    exposed = exposed_share(ranks)
    waits = "" if exposed is None else f", {exposed:.0%} of it exposed communication".replace("%", " %")
    found = ranks.analysis.stragglers.found[:1]
    slow = "".join(f"; rank {one.rank} is slow: the job loses {units.duration(one.loss_ns)} of it" for one in found)
    if facts.losses:
        slow = "".join(f"; {text}" for text in _loss_texts(facts)[:_IN_VERDICT])
    step = _with_band(facts.step_ns, facts.step_high_ns)
    return f"{what} {step} on {units.plural(len(ranks), 'GPU')}{waits}{slow}; {fits}"


def _loss_texts(facts: SimulatedFacts) -> list[str]:
    """What the planted slow parts are, and what a step, or a program without steps, loses by each of them."""
    found = []
    for what, where, amount, loss_ns in facts.losses:
        texts = {
            _SLOW_GPU: f"rank {where} is {amount:g} times slower",
            _SLOW_LINK: f"the links of node {where} are {amount:g} times slower",
        }
        cause = texts.get(what, f"the times of kernels vary by {amount * 100:g} %")
        loss = units.duration(max(loss_ns, 0)) + (" a step" if facts.num_steps else "")
        found.append(f"{cause}: the job loses {loss}")
    return found


def exposed_share(ranks: Ranks) -> float | None:
    """Return the share of the steps' time in which a GPU only communicates or waits; None without steps."""
    steps = ranks.analysis.steps
    total = float(steps["step_ns"].sum())
    return float((steps["wait_ns"] + steps["transfer_ns"]).sum()) / total if total else None


_MAX_ERROR: Final = 160


def plan_section(layouts: pd.DataFrame, arguments: list[str], gpus: str, unknown: UnknownValues) -> Section:
    """Return the answer and a table of the layouts."""
    has_cost = bool(layouts["cost"].notna().any())
    columns = (
        Column("layout"),
        Column("step", key="number", align="right"),
        Column("exposed", key="number", align="right"),
        Column("needs", key="number", align="right"),
        Column("fits"),
        Column("GPU seconds", key="number", align="right"),
        *((Column("cost", key="number", align="right"),) if has_cost else ()),
    )
    rows = layouts.to_dict("records")
    table = Table(
        columns,
        [Row(_cells(row, arguments, has_cost=has_cost)) for row in rows],
        more=("layout", ".layouts"),
        is_stacked=True,
    )
    errors = [f"{_name(row, arguments)}: {clean(str(row['error']))[:_MAX_ERROR]}" for row in rows if _failed(row)]
    notes = [Note(text) for text in (*errors, *unknown.notes())]
    note = Note("Simulated: no GPU was used. Exposed: share of a step in which GPUs only communicate or wait.")
    return Section(
        "fit", "cf", verdict=plan_verdict(layouts, arguments, gpus), badge="simulated", blocks=(table, *notes, note)
    )


def plan_verdict(layouts: pd.DataFrame, arguments: list[str], gpus: str) -> str:
    """Return the answer in one line: the fastest layout that fits."""
    rows = layouts.to_dict("records")
    fitting = [row for row in rows if row["fits"]]
    if not fitting:
        what = "runs" if all(map(_failed, rows)) else "fits"
        return f"None of {units.plural(len(rows), 'layout')} {what} on {gpus}."
    best = fitting[0]
    if not best["step_ns"]:
        return f"Nothing ran on {gpus}: move the model and its inputs to torch.cuda.current_device()."
    what = "for the whole program" if pd.isna(best["exposed_pct"]) else "a step"  # shares are of steps
    return f"{_name(best, arguments)} is the fastest layout that fits on {gpus}: {_step(best)} {what}."


def _name(row: dict[Any, Any], arguments: list[str]) -> str:
    return " x ".join(f"{name} {row[name]}" for name in arguments)


def _failed(row: dict[Any, Any]) -> bool:
    return isinstance(row["error"], str)


def _step(row: dict[Any, Any]) -> str:
    return _with_band(row["step_ns"], row["step_high_ns"])


def _with_band(step_ns: int, high_ns: int) -> str:
    if not step_ns:  # a program that does nothing on the GPU
        return units.duration(0)
    return f"{units.duration(step_ns)} ± {(high_ns / step_ns - 1) * 100:.0f} %"


def _cells(row: dict[Any, Any], arguments: list[str], *, has_cost: bool) -> tuple[Any, ...]:
    if _failed(row):
        return (_name(row, arguments), "-", "-", "-", "cannot run", "-", *("-" for _ in range(has_cost)))
    exposed = "-" if pd.isna(row["exposed_pct"]) else f"{row['exposed_pct']:.0f} %"
    fits = Text("yes", "strong") if row["fits"] else "no"
    cost = (np.format_float_positional(row["cost"], precision=2, fractional=False, trim="-"),) if has_cost else ()
    return (
        _name(row, arguments),
        _step(row),
        exposed,
        units.size(row["total_bytes"]),
        fits,
        f"{row['gpu_seconds']:.3g}",
        *cost,
    )
