"""What a simulated job shows: the time of a step, what of it is communication, memory; then what all ranks show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from cudalens.analysis import units
from cudalens.frames import Ranks
from cudalens.views.ranks.section import section
from cudalens.views.sections.model import Facts, Section

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


def simulated_section(ranks: Ranks, facts: SimulatedFacts, *, has_pictures: bool = True) -> Section:
    """Return all that a simulated job shows; its first line is the answer."""
    shown = section(ranks, has_pictures=has_pictures, copies=facts.copies)
    on = f"{len(ranks)} {facts.gpu}" + (f", {facts.network}" if facts.network else "")
    rows = [("simulated", f"{on}; no GPU was used"), ("from traces", f"{shown.verdict}")]
    if len(facts.losses) > _IN_VERDICT:
        rows.append(("slow parts", "; ".join(map(_loss_text, facts.losses[:_SHOWN_LOSSES]))))
    if facts.note:
        rows.append(("copies", facts.note))
    return replace(shown, verdict=verdict(ranks, facts), badge="simulated", blocks=(Facts(tuple(rows)), *shown.blocks))


def verdict(ranks: Ranks, facts: SimulatedFacts) -> str:
    """Return the answer in one line: the time of a step with its band, exposed communication, and whether it fits."""
    what = "A step takes" if facts.num_steps else "The program takes"
    error_pct = (facts.step_high_ns / max(facts.step_ns, 1) - 1) * 100
    memory = f"{units.size(facts.needed_bytes)} of {units.size(facts.capacity_bytes)}"
    fits = f"it fits ({memory})" if facts.fits else f"it does not fit: {memory}"
    exposed = exposed_share(ranks)
    waits = "" if exposed is None else f", {exposed:.0%} of it exposed communication".replace("%", " %")
    found = ranks.analysis.stragglers.found[:1]
    slow = "".join(f"; rank {one.rank} is slow: the job loses {units.duration(one.loss_ns)} of it" for one in found)
    if facts.losses:
        slow = "".join(f"; {_loss_text(one)}" for one in facts.losses[:_IN_VERDICT])
    return f"{what} {units.duration(facts.step_ns)} ± {error_pct:.0f} % on {len(ranks)} GPUs{waits}{slow}; {fits}"


def _loss_text(loss: tuple[str, int | None, float, int]) -> str:
    """What a planted slow part is, and what a step loses by it."""
    what, where, amount, loss_ns = loss
    texts = {
        _SLOW_GPU: f"rank {where} is {amount:g} times slower",
        _SLOW_LINK: f"the links of node {where} are {amount:g} times slower",
    }
    cause = texts.get(what, f"the times of kernels vary by {amount * 100:g} %")
    return f"{cause}: the job loses {units.duration(max(loss_ns, 0))} a step"


def exposed_share(ranks: Ranks) -> float | None:
    """Return the share of the steps' time in which a GPU only communicates or waits; None without steps."""
    steps = ranks.analysis.steps
    total = float(steps["step_ns"].sum())
    return float((steps["wait_ns"] + steps["transfer_ns"]).sum()) / total if total else None
