"""Detect files from which operators were removed, by the gaps between the numbers that torch gave to them."""

from __future__ import annotations

from typing import Final

import numpy as np

from cudalens.analysis.cached import once_per_trace
from cudalens.frames import Trace, is_category
from cudalens.frames.column_arrays import integers

#: Of the operators' numbers, the share after which some are missing: 0.01 at most in whole files, 0.6 in sampled ones.
FILTERED: Final = 0.3

#: Fewer operators show nothing.
_LEAST: Final = 50


@once_per_trace
def share_of_gaps(trace: Trace) -> float:
    """Return the share of operators and ranges after whose number the next one is missing; 0 if there are too few.

    torch numbers operators and ranges one after the other. A complete file lacks few of these numbers: of operators
    that had not ended, and of what other threads ran between two recordings.
    """
    events = trace.events
    ids = integers(events["external_id"])[is_category(events["cat"].array, ("cpu_op", "user_annotation"))]
    steps = np.diff(np.sort(ids[ids > 0]))  # np.unique takes ten times as long for as many numbers
    steps = steps[steps > 0]
    return float((steps > 1).mean()) if len(steps) + 1 >= _LEAST else 0.0
