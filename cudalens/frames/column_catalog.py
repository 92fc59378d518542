"""The column catalog: every column of every frame of a Trace, read from ``column_catalog.csv``.

Empty frames, validation and the tables in ``docs/frames.md`` are made from it. There are no sentinels: what is unknown
is missing (``<NA>``), and `Column.missing` is what missing means.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_UNITS: Final = {
    "ts": "ns",
    "dur": "ns",
    "ns": "ns",
    "bytes": "bytes",
    "byte": "bytes",
    "pct": "%",
    "celsius": "°C",
    "watts": "W",
    "mhz": "MHz",
}


@dataclass(frozen=True)
class Column:
    """One column of a frame.

    Attributes:
        name: Column name; a suffix carries the unit where it is not nanoseconds.
        dtype: The pandas dtype by name. ``int64`` and ``bool`` are never missing; ``Int64``, ``Int32``, ``Float32``
            (pandas' masked arrays) and ``category`` may be.
        meaning: What the value is.
        missing: What ``<NA>`` means, or "never".
        source: Where a Kineto trace carries it.
        names: The frame whose row numbers the values are ("events"), "stacks" for ids of stacks, or "".
        since: First version of saved files that has it; read from an older file, all its values are missing.
    """

    name: str
    dtype: str
    meaning: str
    missing: str
    source: str
    names: str
    since: int

    @property
    def unit(self) -> str:
        """Physical unit, by the name's suffix; "" for a plain number or text."""
        return _UNITS.get(self.name.rpartition("_")[2], "")


def _read() -> dict[str, tuple[Column, ...]]:
    """Return the columns of each frame, in the order of the file."""
    frames: dict[str, list[Column]] = {}
    with Path(__file__).with_suffix(".csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            frame, since = row.pop("frame"), int(row.pop("since"))
            frames.setdefault(frame, []).append(Column(**row, since=since))
    return {frame: tuple(columns) for frame, columns in frames.items()}


#: The columns of each frame, in order.
FRAMES: Final[Mapping[str, tuple[Column, ...]]] = _read()

#: First version of saved files that has a frame; 1 for the others.
FRAMES_SINCE: Final[Mapping[str, int]] = {
    "races": 2,
    "blocks": 3,
    "graphs": 3,
    "metrics": 3,
    "syncs": 3,
    "counters": 6,
    "marks": 7,
}

#: States of a block, by torch's names; older documentation writes active_awaiting_free for the second.
BLOCK_STATES: Final = ("active_allocated", "active_pending_free", "inactive")

#: Uses of a block; missing if unknown.
BLOCK_CATEGORIES: Final = (
    "parameter",
    "gradient",
    "optimizer state",
    "activation",
    "input",
    "temporary",
    "graph pool",
    "workspace",
    "variable",
)

#: Columns of the events that a Kineto trace carries in ``args``, and its names for them; for readers and writers.
KINETO_ARGS: Final[Mapping[str, str]] = {
    c.name: c.source.removeprefix("args.").split(", ")[0] for c in FRAMES["events"] if c.source.startswith("args.")
}


def columns_of(frame: str) -> tuple[Column, ...]:
    """Columns of the frame named `frame`, in order."""
    return FRAMES[frame]
