"""`Finding`: one thing that costs time, with the evidence and what to try."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Confidence = Literal["high", "medium", "low"]

CONFIDENCES: Final[tuple[Confidence, ...]] = ("high", "medium", "low")

#: A measured gain comes before a likely one that is a fifth larger.
_WEIGHTS: Final[dict[Confidence, float]] = {"high": 1.0, "medium": 0.8, "low": 0.4}

#: Rows of evidence that a finding lists at most, the most expensive ones.
MAX_ROWS: Final = 1_000


@dataclass(frozen=True)
class Finding:
    """One thing that costs time.

    Attributes:
        rule: Name of the rule that found it, as `cudalens.analysis.findings.RULES` lists them.
        title: A short name for the users of the views.
        what: What was found, in one sentence with its numbers.
        gain_ns: An upper bound of the time that the advice can gain, ns; the docstring of each rule defines it. None if
            it costs something other than time. Gains of several findings can be the same work of the devices.
        share_pct: `gain_ns` as a share of the measured window; None without a gain.
        rows: Rows of ``trace.events`` that show it, in order of time: the `MAX_ROWS` most expensive ones at most.
        place: The user's line, as ``In[7]:3`` or ``file:line``; None if it is not known.
        advice: What to try.
        confidence: How certain it is that the time is lost for this reason. "high": measured directly. "medium": the
            evidence allows another reading. "low": the pattern often has this cause.
        is_modelled: Whether the times are modelled, not measured.
        rank: The rank on which it was found; None for a single Trace and for findings across ranks.
        is_idle: Whether the gain is idle time of the devices.
        idle_ns: The part of the gain that is idle time of the devices, ns. No two findings of a Trace claim the same
            idle time; `gain_ns` is in addition to what the findings before it gain.
        alone_pct: The share of the measured window that the advice can gain if no other finding's is followed: at least
            `share_pct`. None without a gain.
    """

    rule: str
    title: str
    what: str
    gain_ns: int | None
    share_pct: float | None
    rows: tuple[int, ...]
    place: str | None
    advice: str
    confidence: Confidence
    is_modelled: bool = False
    rank: int | None = None
    is_idle: bool = False
    idle_ns: int = 0
    alone_pct: float | None = None

    @property
    def weight(self) -> float:
        """Gain times confidence, ns, by which findings are ordered; -1 without a gain."""
        return -1.0 if self.gain_ns is None else self.gain_ns * _WEIGHTS[self.confidence]

    def __str__(self) -> str:
        """Title, sentence, place and advice on one line."""
        where = f" ({self.place})" if self.place else ""
        modelled = " (modelled)" if self.is_modelled else ""
        return f"{self.title}{modelled}: {self.what}{where} Try: {self.advice}"
