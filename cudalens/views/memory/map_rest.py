"""Allocations that exceed the size limit of a payload: which are left out, and their totals as a coarse curve."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.frames import Trace
from cudalens.frames.column_arrays import integers
from cudalens.views.timeline.payload_codec import PayloadWriter

Ints = NDArray[np.int64]

#: Maximum number of points of the curve of left-out allocations.
MAX_STEPS: Final = 4000


def kept_allocations(allocations: pd.DataFrame, num_kept: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The `num_kept` rows to send (first those alive at the end, then the largest) and the rows that are left out."""
    if num_kept >= len(allocations):
        return allocations, allocations.iloc[:0]
    order = np.lexsort((-allocations["num_bytes"].to_numpy(), allocations["block"].isna().to_numpy()))
    is_kept = np.zeros(len(allocations), bool)
    is_kept[order[:num_kept]] = True
    return allocations[is_kept], allocations[~is_kept]


def add_rest(
    writer: PayloadWriter, trace: Trace, hidden: pd.DataFrame, device: Ints, num_devices: int
) -> dict[str, Any]:
    """Add the columns ``rest.*``: how the rows `hidden` change each device's totals, interval by interval.

    Args:
        writer: The payload.
        trace: The trace of the rows.
        hidden: Rows of `block_lifetimes` that are not sent.
        device: Position of the device of each row, shape (n,).
        num_devices: Number of devices.

    Returns:
        For the header: ``num`` and ``bytes`` of the hidden rows, and ``stretch``, the number of rows of the history in
        each interval.
    """
    num_rows = len(trace.memory)
    stretch = max(1, -(-num_rows // MAX_STEPS))
    num_steps = -(-num_rows // stretch) if len(hidden) else 0
    size = hidden["num_bytes"].to_numpy()
    done = integers(hidden["free_completed"])
    asked = integers(hidden["free_requested"])
    for name, end in (("allocated", np.where(asked >= 0, asked, done)), ("active", done)):
        changes = np.zeros((num_devices, num_steps), np.int64)
        for row, sign in ((integers(hidden["alloc"]), 1), (end, -1)):
            seen = row >= 0
            np.add.at(changes, (device[seen], row[seen] // stretch), sign * size[seen])
        writer.add_ints(f"rest.{name}", changes.ravel())
    return {"num": len(hidden), "bytes": int(size.sum()), "stretch": stretch}
