"""Rows that do not belong to the profiled program are left out of a profile."""

import numpy as np
import pandas as pd

from cudalens.frames import RawRows, categorical, nullable
from cudalens.profiler.own_rows import without_earlier_work


def recorded(*rows):
    """Raw rows of (category, start, device, correlation id); -1 is missing."""
    names = list(dict.fromkeys(row[0] for row in rows))
    cat = categorical(np.array([names.index(row[0]) for row in rows]), names)
    ts, device, correlation = (np.array([row[k] for row in rows], np.int64) for k in (1, 2, 3))
    known = {"device": device, "correlation_id": correlation}
    return RawRows({"cat": cat, "ts": ts} | {name: nullable(value, value < 0) for name, value in known.items()})


def kept(rows):
    return pd.Series(without_earlier_work(rows).events["correlation_id"]).tolist()


def test_work_that_runs_before_the_first_launched_work_and_has_no_launch_is_left_out():
    launch, first, second = ("cuda_runtime", 100, -1, 7), ("kernel", 90, 0, 5), ("kernel", 95, 0, 6)
    assert kept(recorded(launch, first, second, ("kernel", 120, 0, 7))) == [7, 7]


def test_work_without_a_launch_after_launched_work_is_kept():
    launch = ("cuda_runtime", 100, -1, 7)
    assert kept(recorded(launch, ("kernel", 120, 0, 7), ("kernel", 130, 0, 99))) == [7, 7, 99]


def test_a_profile_without_launched_work_is_unchanged():
    rows = recorded(("kernel", 90, 0, 5), ("cpu_op", 80, -1, -1))
    assert without_earlier_work(rows) is rows
