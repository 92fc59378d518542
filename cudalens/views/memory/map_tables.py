"""The small tables that stand beneath the pictures of a device's memory."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd

from cudalens.analysis import units
from cudalens.analysis.memory.categories import lifetime_categories
from cudalens.analysis.memory.replay import blocks_at, memory_peak
from cudalens.analysis.memory.totals import pool_totals
from cudalens.frames import Trace

TOP: Final = 8
NO_CATEGORY: Final = "unknown"
NO_STACK: Final = "stack not recorded"


def pool_rows(trace: Trace) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Titles and rows of the table of pools, at the end."""
    found = pool_totals(trace)
    titles = ("pool", "reserved", "allocated", "waiting", "rounding", "free", "largest free", "segments", "blocks")
    num_devices = found["device"].nunique(dropna=False)
    rows = []
    for row in found.to_dict("records"):
        sizes = (row["reserved_bytes"], row["allocated_bytes"], row["pending_bytes"], row["internal_bytes"])
        rest = (row["free_bytes"], row["largest_free_bytes"])
        counts = (units.count(int(row["num_segments"])), units.count(int(row["num_blocks"])))
        rows.append((pool_name(row, num_devices > 1), *(units.size(int(v)) for v in (*sizes, *rest)), *counts))
    return titles, rows


def pool_name(row: dict[Any, Any], is_device_told: bool) -> str:
    """How a pool is called: ``default pool, stream 0, large blocks``."""
    first, second = row["pool_id_first"], row["pool_id_second"]
    is_default = (pd.isna(first) or first == 0) and (pd.isna(second) or second == 0)
    parts = [f"cuda:{'?' if pd.isna(row['device']) else row['device']}"] if is_device_told else []
    parts.append("default pool" if is_default else f"private pool ({_known(first)}, {_known(second)})")
    parts.append(f"stream {_known(row['stream'])}")
    if not pd.isna(row["segment_type"]):
        parts.append(f"{row['segment_type']} blocks")
    return ", ".join(parts)


def _known(value: Any) -> str:
    return "not recorded" if pd.isna(value) else str(value)


def peak_lives(trace: Trace) -> tuple[str, pd.DataFrame]:
    """When the device that held most held it, in words, and what was alive then; at the end without a history."""
    peak = memory_peak(trace)
    if pd.isna(peak["row"]) or not len(trace.memory):
        return "at the end", blocks_at(trace)
    alive = blocks_at(trace, row=int(peak["row"]))
    alive = alive[(alive["device"] == peak["device"]).to_numpy(bool)].reset_index(drop=True)
    return f"at the peak of {units.size(int(peak['num_bytes']))}", alive


def holders(trace: Trace, alive: pd.DataFrame, by: str) -> list[tuple[str, int, int]]:
    """Label, bytes and blocks of what holds the rows `alive`, by ``category`` or ``stack``, most bytes first."""
    if by == "category":
        key: Any = lifetime_categories(trace, alive).astype(object).where(lambda c: c.notna(), NO_CATEGORY)
    else:
        key = alive["stack"].astype(object).where(alive["stack"].notna(), None)
    sizes = pd.Series(alive["num_bytes"].to_numpy())
    sums = sizes.groupby(pd.Series(key.to_numpy(), dtype=object), dropna=False, sort=False).agg(["sum", "size"])
    sums = sums.sort_values("sum", ascending=False, kind="stable")
    labels = stack_labels(trace, [k for k in sums.index[:TOP] if not pd.isna(k)]) if by == "stack" else {}
    return [
        (NO_STACK if pd.isna(k) else labels.get(k, str(k)), int(total), int(num))
        for k, total, num in zip(sums.index, sums["sum"], sums["size"], strict=True)
    ]


def stack_labels(trace: Trace, wanted: list[int]) -> dict[int, str]:
    """The stack frame that says most of each stack: the innermost one of Python code that is not torch's own."""
    stacks = trace.stacks
    part = stacks[stacks["stack"].isin(wanted).to_numpy()]
    return {int(number): _label(rows) for number, rows in part.groupby("stack", sort=False)}


def _label(rows: pd.DataFrame) -> str:
    entries = list(zip(rows["file"].astype(object), rows["line"], rows["function"].astype(object), strict=True))
    python = [entry for entry in entries if str(entry[0]).endswith(".py") or str(entry[0]).startswith(("In[", "<"))]
    own = [entry for entry in python if not _is_library(str(entry[0]))]
    file, line, function = (own or python or entries)[0]
    place = "" if pd.isna(file) else str(file).replace("\\", "/").rpartition("/")[2]
    place += "" if pd.isna(line) or not place else f":{line}"
    return " ".join(part for part in ("?" if pd.isna(function) else str(function), place) if part)


def _is_library(file: str) -> bool:
    path = file.replace("\\", "/")
    return any(f"/{name}/" in path for name in ("torch", "site-packages", "dist-packages"))
