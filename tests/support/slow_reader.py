"""Read trace files with the standard library alone: a slow second opinion on what `cudalens.load` reads.

Only for files without damage. Times are in ns, of whole or decimal microseconds in Chrome JSON.
"""

from __future__ import annotations

import json
import pickle
import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

WORK = ("kernel", "gpu_memcpy", "gpu_memset")
NSYS_WORK = {"CUPTI_ACTIVITY_KIND_KERNEL": "kernel", "CUPTI_ACTIVITY_KIND_MEMCPY": "gpu_memcpy"}


@dataclass
class Figures:
    """What a file holds.

    Attributes:
        count: Number of events by category.
        span_ns: From the first start to the last end of device work.
        busy_ns: Time in which a device was at work, by device.
        num_bytes: Bytes that were copied.
        work_ns: Time of device work by name.
    """

    count: Counter[str] = field(default_factory=Counter)
    span_ns: int = 0
    busy_ns: dict[int, int] = field(default_factory=dict)
    num_bytes: int = 0
    work_ns: Counter[str] = field(default_factory=Counter)


def read_chrome(path: Path) -> Figures:
    """Return the figures of Chrome JSON with complete events (``ph`` is ``X``)."""
    events = json.loads(path.read_text(), parse_float=Decimal)["traceEvents"]
    rows = []
    for event in events:
        args = event.get("args", {})
        start, dur = (int(Decimal(event[key]) * 1000) for key in ("ts", "dur"))
        rows.append((event["cat"], event["name"], args.get("device"), start, start + dur, args.get("bytes", 0)))
    return _figures(rows)


def read_nsys(path: Path) -> Figures:
    """Return the figures of a database that ``nsys export`` wrote."""
    rows: list[tuple[Any, ...]] = []
    with closing(sqlite3.connect(path)) as connection:
        text = dict(connection.execute("SELECT id, value FROM StringIds"))
        for start, end, name in connection.execute("SELECT start, end, nameId FROM CUPTI_ACTIVITY_KIND_RUNTIME"):
            rows.append(("cuda_runtime", text[name], None, start, end, 0))
        kernels = "SELECT start, end, deviceId, demangledName FROM CUPTI_ACTIVITY_KIND_KERNEL"
        for start, end, device, name in connection.execute(kernels):
            rows.append(("kernel", text[name], device, start, end, 0))
        copies = "SELECT start, end, deviceId, bytes FROM CUPTI_ACTIVITY_KIND_MEMCPY"
        for start, end, device, num_bytes in connection.execute(copies):
            rows.append(("gpu_memcpy", "", device, start, end, num_bytes))
    return _figures(rows)


def read_snapshot(path: Path) -> dict[str, int]:
    """Return the bytes and counts of a memory snapshot; only of a pickle that a test has made."""
    snapshot = pickle.loads(path.read_bytes())
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
    entries = [entry for device in snapshot["device_traces"] for entry in device]
    return {
        "reserved": sum(segment["total_size"] for segment in snapshot["segments"]),
        "allocated": sum(block["size"] for block in blocks if block["state"] == "active_allocated"),
        "blocks": len(blocks),
        "actions": len(entries),
    }


def _figures(rows: Iterable[tuple[Any, ...]]) -> Figures:
    found, by_device = Figures(), {}
    for cat, name, device, start, end, num_bytes in rows:
        found.count[cat] += 1
        if cat in WORK:
            found.work_ns[name] += end - start
            found.num_bytes += num_bytes
            by_device.setdefault(device, []).append((start, end))
    spans = [span for of_device in by_device.values() for span in of_device]
    found.span_ns = max(end for _, end in spans) - min(start for start, _ in spans) if spans else 0
    found.busy_ns = {device: _covered(of_device) for device, of_device in by_device.items()}
    return found


def _covered(spans: list[tuple[int, int]]) -> int:
    """Length of the union of intervals, one after the other."""
    covered, reached = 0, -(1 << 63)
    for start, end in sorted(spans):
        covered += max(0, end - max(start, reached))
        reached = max(reached, end)
    return covered
