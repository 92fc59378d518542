"""Build the `RunInfo` of every Trace that this process records."""

from __future__ import annotations

from typing import Any

import torch

from cudalens.api.outcome import OK, Outcome
from cudalens.frames import RunInfo
from cudalens.gpus.constants import label_of
from cudalens.profiler import metadata
from cudalens.virtual import active


def run_info(name: str, outcome: Outcome = OK, **fields: Any) -> RunInfo:
    """Return the run info of a run in this process.

    Args:
        name: Name of the run.
        outcome: How its code ended.
        **fields: Further fields of `RunInfo`. They replace the values that are found here: source, versions, host, rank
            and world size.
    """
    rank, world_size = metadata.rank()
    found = {
        "source": source(),
        "versions": metadata.versions(),
        "host": metadata.host(),
        "rank": rank,
        "world_size": world_size,
    }
    return RunInfo(name=name, status=outcome.status, error=outcome.error, **(found | fields))


def source() -> str:
    """Return the device that ``torch.cuda`` calls reach now: ``virtual:<spec>``, ``cuda`` or ``cpu``."""
    device = active()
    if device is not None:
        return f"virtual:{label_of(device.spec)}"
    return "cuda" if torch.cuda.is_available() else "cpu"
