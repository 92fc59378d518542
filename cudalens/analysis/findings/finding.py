"""`Finding`: one thing that costs time, with the evidence and what to try."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Confidence = Literal["high", "medium", "low"]

CONFIDENCES: Final = ("high", "medium", "low")

#: Rows of evidence that a finding names at most; the dearest ones.
MAX_ROWS: Final = 1_000


@dataclass(frozen=True)
class Finding:
    """One thing that costs time.

    Attributes:
        rule: Name of the rule that found it, as `cudalens.analysis.findings.RULES` lists them.
        title: What it is, in a few words.
        what: What was found, in one sentence with its numbers.
        cost_ns: The time at stake, ns: no remedy gains more, and what each rule measures is in its docstring. None
            where it costs something else than time. Costs of several findings may be the same time.
        share_pct: That time as a share of the measured window; None without a cost.
        rows: Rows of ``trace.events`` that show it, at most `MAX_ROWS`, the dearest ones, in order of time.
        place: The user's line, as ``In[7]:3`` or ``file:line``; None where it is not known.
        advice: What to try.
        confidence: How sure it is that the time is lost for this reason: "high" where it was measured directly,
            "medium" where the evidence allows another reading, "low" where it is a pattern that often means this.
        is_modelled: Whether the times are a model's, not a clock's.
        rank: The rank that it was found on; None for a single Trace, and for what concerns several ranks.
    """

    rule: str
    title: str
    what: str
    cost_ns: int | None
    share_pct: float | None
    rows: tuple[int, ...]
    place: str | None
    advice: str
    confidence: Confidence
    is_modelled: bool = False
    rank: int | None = None

    def __str__(self) -> str:
        """Title, sentence, place and advice on one line."""
        where = f" ({self.place})" if self.place else ""
        modelled = " (modelled)" if self.is_modelled else ""
        return f"{self.title}{modelled}: {self.what}{where} Try: {self.advice}"
