"""The ledger of idle time: each nanosecond in which no device worked has one cause, and one finding can claim it.

The causes are those of `cudalens.analysis.findings.idle_attribution`. A finding claims the part of its gain that is
idle time of the devices, from the causes that its rule is about. What larger findings have claimed is gone: the gains
of all findings together hold at most the idle time of the measured window, and each is in addition to those before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from cudalens.analysis import units
from cudalens.analysis.time.groups import length

if TYPE_CHECKING:
    from cudalens.analysis.findings.finding import Finding
    from cudalens.analysis.findings.trace_arrays import TraceArrays

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
        what = f"{one.what}{_note_of(alone_ns, gain_ns)}"
        alone_pct = 100 * alone_ns / arrays.wall_ns
        settled.append(
            replace(one, what=what, gain_ns=gain_ns, share_pct=share_pct, idle_ns=claimed_ns, alone_pct=alone_pct)
        )
    return settled, ledger


def _note_of(alone_ns: int, gain_ns: int) -> str:
    """A remark if a finding gains clearly less than its advice alone."""
    if gain_ns >= _CLEARLY * alone_ns:
        return ""
    return f" Its advice alone gains up to {units.duration(alone_ns)}; the rest of that is in other findings."


def _draw(left: dict[str, int], one: Finding) -> dict[str, int]:
    """What a finding can claim of each cause."""
    wanted, drawn = one.idle_ns, {}
    for cause in CLAIMS.get(one.rule, _USUAL):
        if cause not in drawn:
            drawn[cause] = min(wanted, left[cause])
            wanted -= drawn[cause]
    return drawn
