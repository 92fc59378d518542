"""`Finding`, one thing that costs time with its evidence, its gain by `Replays`, and the ledger of idle time.

In the ledger, each nanosecond in which no device worked has one cause, and one finding can claim it. The causes are
those of `cudalens.analysis.findings.idle_attribution`. A finding claims the part of its gain that is idle time of the
devices, from the causes that its rule is about. What larger findings have claimed is gone: the gains of all findings
together hold at most the idle time of the measured window, and each is in addition to those before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import pandas as pd

from cudalens.analysis import units
from cudalens.analysis.critical_path.graph import build_graph
from cudalens.analysis.critical_path.replay import Change
from cudalens.analysis.time.groups import length
from cudalens.frames.column_arrays import Floats, Ints

if TYPE_CHECKING:
    from cudalens.analysis.critical_path.dependencies import Window
    from cudalens.analysis.findings.trace_arrays import TraceArrays
    from cudalens.frames import Trace

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


def sureness(confidence: str, *, is_modelled: bool) -> str:
    """Return how sure the gain of a finding is, in a word: ``measured``, ``modelled``, ``likely`` or ``possible``."""
    recorded = "modelled" if is_modelled else "measured"
    return {"high": recorded, "medium": "likely", "low": "possible"}[confidence]


# `Replays`: what changes of a run gain, by replaying its dependencies with other durations.

Edit = Callable[[Change], None]


class Replays:
    """What changes gain in one Trace; each replay takes milliseconds.

    The same estimates are `cudalens.analysis.CriticalPath.what_if`.

    Args:
        trace: The Trace.
        window: The part of it that is replayed.
        idle_ns: Idle time of its devices, ns.
    """

    def __init__(self, trace: Trace, window: Window, idle_ns: int) -> None:
        self._events = trace.events
        self._taken_out: tuple[Edit, ...] = ()
        self._graph = build_graph(trace, window)
        # Without the details of a stream's waits their lengths count as delays of launches, which stay: then a replay
        # can be too short by the idle time.
        self.has_event_waits = not any("CUDA events" in note for note in self._graph.notes)
        self.slack_ns = 0 if self.has_event_waits else idle_ns

    def without(self, *edits: Edit) -> Replays:
        """The replays of the run in which `edits` are made already."""
        other = copy(self)
        other._taken_out = edits
        other.__dict__.pop("length_ns", None)
        return other

    @cached_property
    def length_ns(self) -> int:
        """Length of the run, ns."""
        return self._length()

    def gain(self, *edits: Edit, after: tuple[Edit, ...] = ()) -> int:
        """By how much the run is shorter with all of `edits`, ns; 0 where it is not.

        Args:
            *edits: The changes.
            after: Changes that are made before, and whose gain does not count.
        """
        before = self._length(*after) if after else self.length_ns
        return max(before - self._length(*after, *edits), 0)

    def _length(self, *edits: Edit) -> int:
        change = Change(self._events, self._graph)
        for edit in (*self._taken_out, *edits):
            edit(change)
        return change.length_ns()

    def bound(self, size_ns: int, *edits: Edit) -> int:
        """`size_ns`, or the gain of `edits` where that is less."""
        return min(size_ns, self.gain(*edits) + self.slack_ns)


def without_host(rows: Ints) -> Edit:
    """The host spends no time in these rows and their descendants."""

    def edit(change: Change) -> None:
        which = np.zeros(len(change.events), bool)
        which[rows] = True
        change.scale_host(which, 0.0)

    return edit


def with_work(rows: Ints, factor: Floats | float) -> Edit:
    """The device work in these rows takes `factor` of its time."""
    return lambda change: change.scale_rows(rows, factor)


def without_waits(rows: Ints) -> Edit:
    """The host's calls in these rows do not wait."""
    return lambda change: change.drop_syncs(rows)


def overlapped(rows: Ints) -> Edit:
    """Work after the device work in these rows does not wait for its end."""
    return lambda change: change.overlap(rows)


def fused(rows: Ints, group: Ints, *, as_graph: bool = False) -> Edit:
    """One launch for the device work of each group; its other operators and launches take no time.

    Args:
        rows: Rows of device work, shape (n,).
        group: The group of each, shape (n,).
        as_graph: Nor does all else that the host does between the launches of a group.
    """

    def edit(change: Change) -> None:
        groups = np.full(len(change.events), -1, np.int64)
        groups[rows] = group
        change.fuse(groups, without_operators=True, as_graph=as_graph)

    return edit


#: Idle time while the host launches, waits, or is not the reason: what changes of operators and kernels can gain.
_USUAL: Final = ("launch", "queued", "sync", "device")

#: Causes that a replay without waits, or without a range of the host, can hide besides. Long driver calls are taken out
#: before.
_HIDDEN: Final = (*_USUAL, "host_work")

#: The causes that each rule can claim, in order; other rules claim `_USUAL`.
CLAIMS: Final[dict[str, tuple[str, ...]]] = {
    "launch_bound": ("launch", "queued"),
    "graphable": ("launch", "queued"),
    "host_sync": ("sync", "launch", "queued"),
    "data_loader": ("loader",),
    "replay_check": ("check", *_USUAL),
    "garbage_collection": ("garbage",),
    "graph_recording": ("record",),
    "compiling": ("compile", "host_work"),
    "driver_memory": ("allocate", *_USUAL),
    "driver_calls": ("driver_calls",),
    "host_work": ("host_work",),
    "first_calls": ("host_work",),
    "idle_ends": ("ends",),
    "unified_memory": ("device", *_HIDDEN),
    "host_pauses": ("host_work",),
    "pageable_copies": _HIDDEN,
    "small_copies": _HIDDEN,
    "made_on_host": (*_HIDDEN, "ends"),
    "zero_grad": _HIDDEN,
    "optimizer_loop": _HIDDEN,
    "cold_start": (
        "compile", "allocate", "record", "loader", "garbage", "check", "profiler", "driver_calls", *_HIDDEN, "ends",
    ),
}  # fmt: skip


#: A gain below this share of what the advice gains alone has a remark.
_CLEARLY: Final = 0.8


def idle_by_cause(arrays: TraceArrays) -> dict[str, int]:
    """The idle time of the measured window by cause, ns; its sum is that idle time.

    ``ends``: before the first and after the last work. ``device``: gaps that the host did not cause.
    """
    idle = arrays.idle
    in_call = arrays.long_calls.in_call
    causes = {reason: length(times) for reason, times in idle.by_event.items()}
    causes |= {
        "sync": idle.sync.total_ns,
        "driver_calls": int(idle.host_work.length[in_call].sum()),
        "host_work": int(idle.host_work.length[~in_call].sum()),
        "launch": idle.launch.total_ns,
        "queued": idle.queued.total_ns,
        "ends": length(idle.outside),
    }
    busy_ns = length(arrays.busy)
    total = max(arrays.wall_ns - busy_ns, arrays.idle_ns)
    return causes | {"device": max(total - sum(causes.values()), 0)}


@dataclass
class Ledger:
    """Who claims which idle time, ns.

    Attributes:
        whole: The idle time of the measured window by cause.
        claims: The part of it that each finding claims, by cause and the finding's rule.
    """

    whole: dict[str, int]
    claims: dict[tuple[str, str], int]

    def left(self) -> dict[str, int]:
        """The idle time that no finding claims, by cause."""
        left = dict(self.whole)
        for (cause, _), part in self.claims.items():
            left[cause] -= part
        return left

    def claim(self, rule: str, parts: Mapping[str, int]) -> None:
        """Give these parts to a finding of `rule`."""
        for cause, part in parts.items():
            if part:
                self.claims[cause, rule] = self.claims.get((cause, rule), 0) + part

    def to_frame(self) -> pd.DataFrame:
        """A row per cause with time, the largest first, as `cudalens.analysis.idle_ledger` defines it."""
        causes = sorted((cause for cause, ns in self.whole.items() if ns), key=lambda cause: -self.whole[cause])
        left, total = self.left(), sum(self.whole.values())
        by = {cause: [rule for of, rule in self.claims if of == cause] for cause in causes}
        return pd.DataFrame(
            {
                "cause": pd.Series(causes, dtype=object),
                "idle_ns": np.array([self.whole[cause] for cause in causes], np.int64),
                "idle_pct": np.array([100 * self.whole[cause] / total for cause in causes], np.float64),
                "claimed_ns": np.array([self.whole[cause] - left[cause] for cause in causes], np.int64),
                "claimed_by": pd.Series([", ".join(by[cause]) for cause in causes], dtype=object),
            }
        )


def settle_claims(arrays: TraceArrays, found: Iterable[Finding], min_share_pct: float) -> tuple[list[Finding], Ledger]:
    """`found` with gains that hold no idle time twice; without those about idle time of which too little is left.

    Args:
        arrays: The Trace.
        found: Findings, in the order in which they claim.
        min_share_pct: The smallest share of the measured window that is reported.

    Returns:
        The findings, and what they claim.
    """
    whole = idle_by_cause(arrays)
    ledger, left, settled = Ledger(whole, {}), dict(whole), []
    for one in found:
        if one.gain_ns is None or not one.idle_ns:
            settled.append(one)
            continue
        drawn = _draw(left, one)
        claimed_ns = sum(drawn.values())
        gain_ns = one.gain_ns - one.idle_ns + claimed_ns
        share_pct = 100 * gain_ns / arrays.wall_ns
        alone_ns = one.gain_ns - one.idle_ns + sum(_draw(whole, one).values())
        stays = not one.is_idle and 100 * alone_ns >= min_share_pct * arrays.wall_ns
        if share_pct < min_share_pct and not stays:
            continue
        ledger.claim(one.rule, drawn)
        left = ledger.left()
        note = ""
        if gain_ns < _CLEARLY * alone_ns:
            note = f" Its advice alone gains up to {units.duration(alone_ns)}; the rest of that is in other findings."
        what = f"{one.what}{note}"
        alone_pct = 100 * alone_ns / arrays.wall_ns
        settled.append(
            replace(one, what=what, gain_ns=gain_ns, share_pct=share_pct, idle_ns=claimed_ns, alone_pct=alone_pct)
        )
    return settled, ledger


def _draw(left: dict[str, int], one: Finding) -> dict[str, int]:
    """What a finding can claim of each cause."""
    wanted, drawn = one.idle_ns, {}
    for cause in CLAIMS.get(one.rule, _USUAL):
        if cause not in drawn:
            drawn[cause] = min(wanted, left[cause])
            wanted -= drawn[cause]
    return drawn
