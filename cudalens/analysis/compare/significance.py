"""Whether two sets of repeats differ: Welch's interval, and intervals by bootstrap.

Bootstrap: the median of n draws with replacement from n values depends only on the ranks that were drawn. So the ranks
are drawn once for all rows, and each row's medians are looked up in its sorted values. This is exactly the plain
bootstrap, at the cost of one look-up per row and draw.

Source: B. Efron and R. Tibshirani, An Introduction to the Bootstrap (1993), chapter 13, for percentile intervals; T.
Hesterberg, "What Teachers Should Know About the Bootstrap", The American Statistician 69 (2015), section 4.2 (expanded
percentile interval), for the factor by which those of small samples are too narrow.

Welch: steps of one run are not independent: caches, clocks and other processes change slowly. So the values of a side
are one per run, or, of a single run, one per stretch of consecutive steps, whose spread includes a drift within the
run.

Source: B. L. Welch, "The generalization of 'Student's' problem when several different population variances are
involved", Biometrika 34 (1947). Batch means: A. M. Law, Simulation Modeling and Analysis (2015), section 9.5.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import Final

import numpy as np

from cudalens.frames.column_arrays import Floats, Ints

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


#: A fixed seed: the same repeats always give the same interval.
NUM_DRAWS: Final = 2000
SEED: Final = 20_240_229

_ROWS: Final = 2000


def difference_interval(
    before: Floats, after: Floats, level: float, *, is_ratio: bool = False
) -> tuple[Floats, Floats]:
    """Interval of median(after) - median(before), or of median(after) / median(before) - 1, for each row.

    Args:
        before: Repeats of each row, shape (rows, n) with n of 2 or more.
        after: Repeats of each row, shape (rows, m) with m of 2 or more.
        level: Share of intervals that contain the true value, such as 0.95.
        is_ratio: Whether the change is relative; then the interval is NaN if a value is 0. It is computed from
            logarithms, so that it stays above -1 as a ratio does, and does not depend on which side comes first.

    Returns:
        Lower and upper ends, each of shape (rows,).

    Raises:
        ValueError: There are fewer than two repeats on one side: they do not show noise.
    """
    if before.shape[1] < 2 or after.shape[1] < 2:
        raise ValueError(f"{before.shape[1]} and {after.shape[1]} repeats: two or more of each are needed.")
    rng = np.random.default_rng(SEED)
    # Ranks of the two middle values of each draw (the same one if n is odd).
    ranks = []
    for values in (before, after):
        n = values.shape[1]
        drawn = np.sort(rng.integers(0, n, size=(NUM_DRAWS, n)), axis=1)
        ranks.append((drawn[:, (n - 1) // 2], drawn[:, n // 2]))
    widen = expansion(min(before.shape[1], after.shape[1]), level)
    ends = [
        _interval(before[k : k + _ROWS], after[k : k + _ROWS], ranks, level, widen, is_ratio)
        for k in range(0, len(before), _ROWS)
    ]
    if not ends:
        return np.empty(0), np.empty(0)
    low, high = (np.concatenate(part) for part in zip(*ends, strict=True))
    return low, high


def expansion(n: int, level: float) -> float:
    """Factor by which a percentile interval of `n` values is too narrow: sqrt(n / (n - 1)) * t / z."""
    tail = (1 + level) / 2
    return float(np.sqrt(n / (n - 1)) * student_quantile(tail, n - 1) / NormalDist().inv_cdf(tail))


def student_quantile(p: float, freedom: int) -> float:
    """Quantile `p` of Student's t with `freedom` degrees of freedom, to about half a per cent.

    Exact for one and two degrees; above, the expansion around the normal quantile of Abramowitz and Stegun, Handbook of
    Mathematical Functions (1964), 26.7.5.
    """
    if freedom == 1:
        return float(np.tan(np.pi * (p - 0.5)))
    if freedom == 2:
        return float((2 * p - 1) * np.sqrt(2 / (4 * p * (1 - p))))
    z = NormalDist().inv_cdf(p)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92_160,
    )
    return float(z + sum(term / freedom**power for power, term in enumerate(terms, 1)))


def _interval(
    before: Floats, after: Floats, ranks: list[tuple[Ints, Ints]], level: float,
    widen: float, is_ratio: bool,
) -> tuple[Floats, Floats]:  # fmt: skip
    drawn = []
    for values, (lower, upper) in zip((before, after), ranks, strict=True):
        ordered = np.sort(values, axis=1)
        drawn.append((ordered[:, lower] + ordered[:, upper]) / 2)
    middle = _change(np.median(before, axis=1), np.median(after, axis=1), is_ratio)
    tails = 100 * np.array([(1 - level) / 2, (1 + level) / 2])
    low, high = np.percentile(_change(drawn[0], drawn[1], is_ratio), tails, axis=1)
    ends = middle - widen * np.maximum(middle - low, 0), middle + widen * np.maximum(high - middle, 0)
    # Two repeats that differ a lot can widen it beyond the range of a float: that end is then limited.
    return (np.expm1(ends[0]), np.expm1(np.minimum(ends[1], _LOG_MOST))) if is_ratio else ends


_LOG_MOST: Final = 700.0


def _change(before: Floats, after: Floats, is_ratio: bool) -> Floats:
    """Return the difference; that of the logarithms, for a ratio."""
    if not is_ratio:
        return after - before
    known = (before > 0) & (after > 0)
    ratio: Floats = np.divide(after, before, out=np.full(after.shape, np.nan), where=known)
    return np.log(ratio)
