"""The events of a Trace as numpy arrays: what the rules of findings and of trust have in common."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cudalens.analysis.time.work import Work, device_work
from cudalens.frames import Trace, is_category
from cudalens.frames.column_arrays import integers, map_texts

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


class EventArrays:
    """The events of a Trace as arrays of shape (n,); columns are converted at first use.

    Args:
        trace: Any Trace.

    Attributes:
        trace: That Trace.
        events: Its events.
        ts: Start of each event, ns.
        dur: Duration of each event, ns.
        end: End of each event, ns.
        work: Its device work.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace, self.events = trace, trace.events
        self.ts: Ints = self.events["ts"].to_numpy()
        self.dur: Ints = self.events["dur"].to_numpy()
        self.end: Ints = self.ts + self.dur
        self.work: Work = device_work(trace)

    @cached_property
    def parent(self) -> Ints:
        """Row of each event's parent, -1 for none."""
        return self.ints("parent")

    @cached_property
    def self_dur(self) -> Ints:
        """Self time of each event, ns."""
        return self.events["self_dur"].to_numpy()

    def ints(self, column: str, rows: Any = slice(None), *, missing: int = -1) -> Ints:
        """Return a nullable integer column of `rows` as int64, with `missing` for missing values."""
        return integers(self.events[column].array[rows], missing)

    def is_in(self, *categories: str) -> Bools:
        """True for events of any of these categories."""
        return is_category(self.events["cat"].array, categories)

    def is_named(self, pattern: str, rows: Any = slice(None)) -> Bools:
        """True for those of `rows` in whose name the regular expression `pattern` is found; searches a name once."""
        search = re.compile(pattern).search
        return map_texts(self.events["name"].array[rows], lambda name: search(name) is not None, False)
