"""The ``metrics`` frame, from readings of GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from cudalens.frames.catalog_frames import column_array, frame_of
from cudalens.frames.column_catalog import columns_of


def metrics_frame(readings: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    """Return the frame ``metrics``.

    Args:
        readings: By column of the catalog, a value per reading, None if unknown; absent columns are missing. In any
            order.

    Returns:
        The frame, in order of time, then of the device's number.
    """
    arrays = {c.name: column_array(readings[c.name], c.dtype) for c in columns_of("metrics") if c.name in readings}
    return frame_of("metrics", arrays).sort_values(["ts", "physical_index"], kind="stable", ignore_index=True)
