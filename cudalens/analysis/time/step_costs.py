"""Steps of the profiler side by side, with those that took much longer than the others."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis.cached import once_per_trace
from cudalens.analysis.time.attribution import attribution
from cudalens.frames import Trace
from cudalens.frames.build import STEP_PREFIX
from cudalens.frames.column_arrays import map_texts

#: A step is an outlier if it is longer than the median by this share of it, and by this multiple of the median
#: deviation from the median.
_SHARE: Final = 0.1
_NUMBER: Final = re.compile(re.escape(STEP_PREFIX) + r"(\d{1,12})$")
_DEVIATIONS: Final = 5.0


@once_per_trace
def step_costs(trace: Trace) -> pd.DataFrame:
    """A row per profiler step, in order.

    Returns:
        ``step`` (number), ``row`` (of its range on the host), ``dur_ns`` (its duration there), ``device_ns`` (durations
        of the device work that it launched), ``host_ns`` (self time of its host rows), ``num_works``, ``extra_ns``
        (duration less the median of all) and ``is_outlier`` (longer than the median by 10 % and by five times the
        median absolute deviation; never where there are fewer than 3 steps).
    """
    events = trace.events
    is_step = map_texts(events["name"].array, lambda name: name.startswith(STEP_PREFIX), False)
    rows = np.flatnonzero(is_step & events["device"].isna().to_numpy())
    names = events["name"].array[rows].astype(object)
    known = [(int(row), int(match[1])) for row, name in zip(rows, names, strict=True) if (match := _NUMBER.match(name))]
    rows, step = (np.array([pair[side] for pair in known], np.int64) for side in (0, 1))
    dur = events["dur"].to_numpy()[rows]
    costs = attribution(trace, by="step").dropna(subset=["key"]).astype({"key": "int64"}).set_index("key")
    costs = costs.reindex(step).fillna(0)
    median = int(np.median(dur)) if len(dur) else 0
    spread = float(np.median(np.abs(dur - median))) if len(dur) else 0.0
    extra = dur - median
    return pd.DataFrame(
        {
            "step": step,
            "row": rows,
            "dur_ns": dur,
            "device_ns": costs["device_self_ns"].to_numpy(np.int64),
            "host_ns": costs["host_self_ns"].to_numpy(np.int64),
            "num_works": costs["num_works"].to_numpy(np.int64),
            "extra_ns": extra,
            "is_outlier": (len(dur) >= 3) & (extra > _SHARE * median) & (extra > _DEVIATIONS * spread),
        }
    )
