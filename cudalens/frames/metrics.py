"""The frame of readings of GPUs, from whoever took them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from cudalens.frames.catalog import columns_of
from cudalens.frames.schema import missing_array


def metrics_frame(readings: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    """The frame ``metrics``.

    Args:
        readings: By column of the catalog, a value per reading, None where it is not known; columns that are not there
            are missing. In any order.

    Returns:
        The frame, in time order, the devices of one moment by number.
    """
    num = len(readings["ts"])
    frame = pd.DataFrame(
        {
            column.name: _array(readings[column.name], column.dtype)
            if column.name in readings
            else missing_array(column.dtype, num)
            for column in columns_of("metrics")
        }
    )
    return frame.sort_values(["ts", "physical_index"], kind="stable", ignore_index=True)


def _array(values: Sequence[Any], dtype: str) -> Any:
    if dtype == "category":
        texts = sorted({value for value in values if value is not None})
        return pd.Categorical(values, categories=pd.Index(texts, dtype="str"))
    return pd.array(list(values), dtype=dtype)
