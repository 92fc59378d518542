"""Intervals of differences between two small sets of values, by Welch's t-test, for many rows at once.

Steps of one run are not independent: caches, clocks and other processes change slowly. So the values of a side are one
per run, or, of a single run, one per stretch of consecutive steps, whose spread includes a drift within the run.

Source: B. L. Welch, "The generalization of 'Student's' problem when several different population variances are
involved", Biometrika 34 (1947). Batch means: A. M. Law, Simulation Modeling and Analysis (2015), section 9.5.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from cudalens.analysis.compare.bootstrap import student_quantile
from cudalens.analysis.event_arrays import Floats

#: Stretches into which the steps of a single run are divided, if it has at least two steps for each.
NUM_STRETCHES: Final = 5


def run_values(values: Floats, of_run: Sequence[int]) -> Floats:
    """Return the independent values of each row: a median for each run, or for each stretch of a single run.

    Args:
        values: Repeats of each row, shape (rows, n), run after run.
        of_run: Number of repeats of each run; they add up to n.

    Returns:
        Shape (rows, runs), or (rows, stretches) for one run.
    """
    if len(of_run) > 1:
        parts = np.split(values, np.cumsum(of_run)[:-1], axis=1)
    elif values.shape[1] >= 2 * NUM_STRETCHES:
        parts = np.array_split(values, NUM_STRETCHES, axis=1)
    else:
        return values
    return np.stack([np.median(part, axis=1) for part in parts], axis=1)


def half_width(before: Floats, after: Floats, level: float) -> Floats:
    """Half of the interval of the difference of means of each row.

    Args:
        before: Independent values of each row, shape (rows, n) with n of 2 or more.
        after: The same of the other side, shape (rows, m).
        level: Share of intervals that contain the true difference.

    Returns:
        Shape (rows,).
    """
    parts = [(values.var(axis=1, ddof=1) / values.shape[1], values.shape[1]) for values in (before, after)]
    (a, n), (b, m) = parts
    total, least = a + b, min(n, m) - 1
    spread = a**2 / (n - 1) + b**2 / (m - 1)
    freedom = np.divide(total**2, spread, out=np.full(len(total), float(least)), where=spread > 0)
    whole = np.clip(np.floor(freedom), max(least, 1), n + m - 2).astype(np.int64)
    quantile = {k: student_quantile((1 + level) / 2, k) for k in np.unique(whole).tolist()}
    return np.array([quantile[k] for k in whole.tolist()]) * np.sqrt(total)
