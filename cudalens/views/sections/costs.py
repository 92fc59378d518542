"""The largest costs by name, of the GPU and of the host."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd

from cudalens.analysis import units
from cudalens.analysis.facts import averages, names_in_short
from cudalens.analysis.time.averages import UNCOUNTED
from cudalens.frames import Trace
from cudalens.views.sections.model import Column, Row, Section, Table, Text

_NUM_ROWS: Final = 10
_COLUMNS: Final = (
    Column("name", text_width=34, html_width=130),
    Column("kind"),
    *(Column(title, align="right") for title in ("count", "total", "self", "mean ± sd", "share")),
)
_KINDS: Final = {
    "cpu_op": "CPU op",
    "user_annotation": "range",
    "gpu_user_annotation": "GPU range",
    "cuda_runtime": "runtime",
    "cuda_driver": "driver",
    "kernel": "kernel",
    "gpu_memcpy": "copy",
    "gpu_memset": "set",
    "python_function": "Python",
    "cuda_sync": "sync",
}


def section(trace: Trace) -> Section | None:
    """The largest self times: of the device, where there is any, then of the host; None where nothing was recorded."""
    short = names_in_short(trace)
    rows = [Row((Text(short.get(name, name), full=name), *texts)) for name, *texts in cost_rows(trace)]
    return Section("costs", "cl-costs", blocks=(Table(_COLUMNS, rows, is_stacked=True),)) if rows else None


def cost_rows(trace: Trace) -> tuple[tuple[str, ...], ...]:
    """Return the rows as texts: name, kind, count, total, self, mean ± sd, share."""
    costs = averages(trace)
    costs = costs[~costs["cat"].isin(UNCOUNTED)].sort_values("share_pct", ascending=False, kind="stable")
    device, host = costs[costs["is_device"]], costs[~costs["is_device"]]
    half = _NUM_ROWS // 2
    shown = host.head(_NUM_ROWS) if device.empty else pd.concat([device.head(half), host.head(half)])
    return tuple(_texts(row) for row in shown.to_dict("records"))


def _texts(row: dict[Any, Any]) -> tuple[str, ...]:
    spread = f" ± {units.duration(row['std_ns'])}" if row["count"] > 1 else ""
    return (
        str(row["name"]),
        _KINDS.get(str(row["cat"]), str(row["cat"])),
        units.count(int(row["count"])),
        units.duration(row["total_ns"]),
        units.duration(row["self_ns"]),
        units.duration(row["mean_ns"]) + spread,
        f"{units.percent(row['share_pct'])} {'GPU' if row['is_device'] else 'CPU'}",
    )
