"""Waits of the host for the GPU, grouped by the line and the expression that waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from cudalens.analysis.cached import once_per_trace
from cudalens.analysis.time.intervals import length, union
from cudalens.analysis.time.sync_advice import advice
from cudalens.frames.syncs.kinds import EXPLICIT, SyncKind

if TYPE_CHECKING:
    from cudalens.frames import Trace

_KEY: Final = ("place", "source", "expression", "kind", "op")
_DTYPES: Final = {
    **dict.fromkeys(_KEY, object),
    "is_hidden": bool,
    "count": "int64",
    "total_ns": "Int64",
    "mean_ns": "Float64",
    "max_ns": "Int64",
    "gpu_ns": "Int64",
    "share_pct": "Float64",
    "event": "Int64",
    "advice": object,
}


def syncs(trace: Trace) -> pd.DataFrame:
    """The waits of `trace` by place and kind, most expensive first.

    Returns:
        A row per ``place`` (with its ``source`` and ``expression``), ``kind`` and ``op``, None if unknown.
        ``is_hidden``: it is not an explicit synchronisation. ``count``: waits. ``total_ns``, ``mean_ns``, ``max_ns``:
        durations, missing if no end is known. ``gpu_ns``: of the total, while the GPU was at work. ``share_pct``: of
        all waiting. ``event``: row of ``trace.events`` of the longest. ``advice``: how to avoid it.
    """
    return wait_groups(trace).copy()


@once_per_trace
def wait_groups(trace: Trace) -> pd.DataFrame:
    """The frame of `syncs`, cached; callers must not change it."""
    waits = trace.syncs
    if not len(waits):
        return pd.DataFrame({name: pd.Series(dtype=dtype) for name, dtype in _DTYPES.items()})
    plain = waits.astype(dict.fromkeys(_KEY, object))
    for name in _KEY:
        plain[name] = plain[name].where(plain[name].notna(), "")
    rows = [_group(key, group) for key, group in plain.groupby(list(_KEY), sort=False)]
    total = sum(0 if row["total_ns"] is pd.NA else row["total_ns"] for row in rows)
    for row in rows:
        row["share_pct"] = _share(row["total_ns"], total)
    frame = pd.DataFrame({name: pd.Series([row[name] for row in rows], dtype=dtype) for name, dtype in _DTYPES.items()})
    return frame.sort_values(
        ["total_ns", "count"], ascending=False, na_position="last", kind="stable", ignore_index=True
    )


def _group(key: Any, group: pd.DataFrame) -> dict[str, Any]:
    found = {name: value or None for name, value in zip(_KEY, key, strict=True)}
    kind = SyncKind(str(found["kind"]))
    known = group["dur"].dropna()
    longest = known.index[int(np.argmax(known.to_numpy(np.int64)))] if len(known) else group.index[0]
    gpu = group["gpu_dur"].dropna()
    return found | {
        "is_hidden": kind not in EXPLICIT,
        "count": len(group),
        "total_ns": int(known.sum()) if len(known) else pd.NA,
        "mean_ns": float(known.mean()) if len(known) else pd.NA,
        "max_ns": int(known.max()) if len(known) else pd.NA,
        "gpu_ns": int(gpu.sum()) if len(gpu) else pd.NA,
        "event": group["event"][longest],
        "advice": advice(kind, found["op"], found["expression"]),
    }


def _share(value: Any, total: int) -> Any:
    return pd.NA if value is pd.NA or not total else 100 * value / total


def waited_ns(waits: pd.DataFrame) -> int:
    """Time in which any thread was in one of some rows of ``trace.syncs``, ns: waits at the same time count once."""
    known = waits[waits["dur"].notna()]
    start = known["ts"].to_numpy(np.int64)
    return length(union(start, start + known["dur"].to_numpy(np.int64)))


@dataclass(frozen=True)
class SyncSummary:
    """Totals of the waits, for a verdict.

    Attributes:
        num_hidden: Number of waits that are not explicit synchronisations.
        hidden_ns: Their total duration; of a Trace (`cudalens.analysis.facts.wait_summary`) the time in which any
            thread was in one.
        num_places: Number of their places (or operators, if the place is unknown).
        num_explicit: Number of explicit synchronisations.
        explicit_ns: The same for these.
        worst: The most expensive group, of the hidden ones if there are any; a row of `syncs` by column.
    """

    num_hidden: int
    hidden_ns: int
    num_places: int
    num_explicit: int
    explicit_ns: int
    worst: dict[str, Any] | None


def summarize_syncs(groups: pd.DataFrame) -> SyncSummary:
    """The totals of the frame of `syncs`."""
    hidden, explicit = groups[groups["is_hidden"]], groups[~groups["is_hidden"]]
    first = hidden if len(hidden) else explicit
    named = hidden["place"].combine_first(hidden["op"]).combine_first(hidden["kind"])
    return SyncSummary(
        num_hidden=int(hidden["count"].sum()),
        hidden_ns=int(hidden["total_ns"].sum()),
        num_places=int(named.nunique()),
        num_explicit=int(explicit["count"].sum()),
        explicit_ns=int(explicit["total_ns"].sum()),
        worst=first.iloc[0].to_dict() if len(first) else None,
    )
