"""`Attempt`: what a try of a fix gave, or why it was not tried."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from cudalens.analysis import units
from cudalens.fixes.honest.checks import is_noise
from cudalens.fixes.rewrites.fix import FileChange
from cudalens.fixes.values import Difference

#: Of results that were not compared yet.
NO_DIFFERENCE: Final = Difference()


@dataclass(frozen=True)
class Attempt:
    """What a try of a fix gave.

    Attributes:
        rule: The rule of the finding.
        title: What the fix does.
        diff: The diff of the source; "" where no fix was written.
        refusal: Why it was not tried, or why its result is not valid; "" where it is.
        before_ns: Times of the runs of the program as it is, ns.
        after_ns: Times of the runs with the fix, ns.
        difference: How results with the fix differ.
        own_difference: How results of two runs without the fix differ: a program may not repeat its own.
        changes_numbers: Whether the fix is one that changes rounding.
        changes_behaviour: What is no longer the same apart from the time; "" if nothing is.
        changes_random: Whether random numbers are others, so that results are not compared.
        needs: What must hold for the fix, or what it changes besides, as a sentence; "" without one.
        peak_change_bytes: By how much peak memory changes; None on the CPU.
        setup_ns: Time of the lines that run once, ns; None without any.
        predicted_pct: Gain of the finding's advice alone, in per cent of the measured window; None without one.
        is_modelled: Whether the times are modelled.
        effects: Effects of each run outside of the program's objects, in words.
        fixed_text: The fixed cell, after the functions of other cells that the fix changes.
        file_changes: What the fix changes in files.
    """

    rule: str
    title: str
    diff: str = ""
    refusal: str = ""
    before_ns: tuple[int, ...] = ()
    after_ns: tuple[int, ...] = ()
    difference: Difference = NO_DIFFERENCE
    own_difference: Difference = NO_DIFFERENCE
    changes_numbers: bool = False
    changes_behaviour: str = ""
    changes_random: bool = False
    needs: str = ""
    peak_change_bytes: int | None = None
    setup_ns: int | None = None
    predicted_pct: float | None = None
    is_modelled: bool = False
    effects: tuple[str, ...] = ()
    fixed_text: str = ""
    file_changes: tuple[FileChange, ...] = ()

    @property
    def gain_pct(self) -> float | None:
        """The share of the time that the fix saves, in per cent; negative if it takes longer; None if not tried."""
        if not self.before_ns or not self.after_ns:
            return None
        return 100 * (1 - statistics.median(self.after_ns) / max(statistics.median(self.before_ns), 1))

    @property
    def is_faster(self) -> bool:
        """Whether the runs show that the fix is faster."""
        gain = self.gain_pct
        return gain is not None and gain > 0 and not is_noise(self.before_ns, self.after_ns)

    @property
    def helps(self) -> bool:
        """Whether the fix is faster, its results are as claimed, and nothing else changes."""
        return not self.refusal and self.is_faster and not self.changes_behaviour

    @property
    def saved_ns(self) -> float:
        """The time that a run saves, ns; negative if it takes longer."""
        if not self.before_ns or not self.after_ns:
            return 0.0
        return statistics.median(self.before_ns) - statistics.median(self.after_ns)

    def pays_off(self, repeats: int = 1) -> bool:
        """Return whether `repeats` runs save at least as much as the lines that run once cost."""
        return self.setup_ns is None or self.setup_ns <= self.saved_ns * repeats

    def headline(self) -> str:
        """Return the answer in one line."""
        if self.refusal:
            was_run = self.before_ns or self.fixed_text
            return f"refused: {self.refusal}" if was_run else f"not tried: {self.refusal}"
        gain = self.gain_pct or 0.0
        modelled = " (modelled)" if self.is_modelled else ""
        before, after = statistics.median(self.before_ns), statistics.median(self.after_ns)
        runs = f"{len(self.after_ns)} runs each"
        change = f"{abs(gain):.0f} % {'less' if gain >= 0 else 'more'}, {runs}"
        if is_noise(self.before_ns, self.after_ns):
            change = f"no difference beyond noise, {runs}"
        parts = [
            f"{units.duration(before)} -> {units.duration(after)} a run{modelled} ({change})",
            str(self.difference),
        ]
        if self.peak_change_bytes is not None:
            size = "unchanged"
            if self.peak_change_bytes:
                size = f"{'+' if self.peak_change_bytes > 0 else '-'}{units.size(abs(self.peak_change_bytes))}"
            parts.append(f"peak memory {size}")
        return ", ".join(parts)

    def notes(self) -> list[str]:
        """Return what else a reader must know."""
        found = []
        if self.setup_ns is not None:
            found.append(f"{self.setup_cost()}.")
        if self.changes_behaviour:
            found.append(f"No longer the same: {self.changes_behaviour}")
        if self.needs:
            found.append(self.needs)
        if self.own_difference.is_known and not self.own_difference.is_exact and self.own_difference.num_values:
            found.append(f"Two runs without the fix differ too: {self.own_difference}.")
        if self.predicted_pct is not None and self.gain_pct is not None and not self.refusal:
            found.append(f"Predicted: up to {self.predicted_pct:.0f} % less.")
        found += self.effects
        return found

    def setup_cost(self) -> str:
        """Return what the lines that run once cost, and after how many runs the fix has saved as much."""
        setup_ns = self.setup_ns or 0
        cost = f"The first lines run once, in {units.duration(setup_ns)}, which is not included"
        if not self.is_faster:
            return cost
        return f"{cost}: they pay off after {units.plural(max(1, math.ceil(setup_ns / self.saved_ns)), 'run')}"

    def __str__(self) -> str:
        """The answer, the title, the notes and the diff."""
        lines = [self.headline(), f"Fix for {self.rule}: {self.title}", *self.notes()]
        return "\n".join([*lines, "", self.diff]) if self.diff else "\n".join(lines)

    def __repr__(self) -> str:
        """The text, so that a notebook shows it."""
        return str(self)

    def _repr_html_(self) -> str:
        """The answer in bold, the notes, and the diff with colours."""
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes())
        return (
            f"<div class='cudalens-try' style='overflow-wrap:anywhere'><div><b>{escape(self.headline())}</b></div>"
            f"<div>Fix for <code>{escape(self.rule)}</code>: {escape(self.title)}</div>"
            + (f"<ul style='margin:.2em 0'>{notes}</ul>" if notes else "")
            + f"{self.diff_html()}</div>"
        )

    def diff_html(self) -> str:
        """Return the diff with colours; "" without one."""
        if not self.diff:
            return ""
        spans = []
        for line in self.diff.split("\n"):
            colours = {"+": "rgba(46,160,67,.22)", "-": "rgba(248,81,73,.22)"}
            is_head = line.startswith(("+++", "---"))
            colour = "" if is_head else colours.get(line[:1], "")
            css = f" style='background:{colour}'" if colour else ""
            spans.append(f"<span{css}>{escape(line)}</span>\n")
        lines = "".join(spans)
        style = "white-space:pre-wrap;overflow-wrap:anywhere;max-width:100%;line-height:1.35;margin:.4em 0"
        return f"<pre style='{style}'>{lines}</pre>"


def refused(rule: str, title: str, why: str, *, diff: str = "", effects: Sequence[str] = ()) -> Attempt:
    """Return the attempt for a fix that was not tried."""
    return Attempt(rule, title, diff=diff, refusal=why, effects=tuple(effects))
