"""Allocations that a payload has no room for: which they are, and what they held, as a coarse curve."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.frames import Trace
from cudalens.frames.columns import integers
from cudalens.views.timeline.payload_codec import PayloadWriter

Ints = NDArray[np.int64]

#: Stretches of the history into which the curve of what is left out is cut.
MAX_STEPS: Final = 4000


def kept_lives(lives: pd.DataFrame, num_kept: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The `num_kept` rows to send, what is alive at the end first, then the largest; and those that are left out."""
    if num_kept >= len(lives):
        return lives, lives.iloc[:0]
    order = np.lexsort((-lives["num_bytes"].to_numpy(), lives["block"].isna().to_numpy()))
    is_kept = np.zeros(len(lives), bool)
    is_kept[order[:num_kept]] = True
    return lives[is_kept], lives[~is_kept]


def add_rest(
    writer: PayloadWriter, trace: Trace, hidden: pd.DataFrame, device: Ints, num_devices: int
) -> dict[str, Any]:
    """Add the columns ``rest.*``: what the rows `hidden` add to each device's totals, stretch by stretch.

    Args:
        writer: Where to.
        trace: Of the rows.
        hidden: Rows of `block_lifetimes` that are not sent.
        device: Place of the device of each, shape (n,).
        num_devices: How many there are.

    Returns:
        For the header: ``num`` and ``bytes`` of what is left out, and ``stretch``, how many rows of the history a
        value of the columns stands for.
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
