"""Intervals of medians, against the plain bootstrap done the slow way."""

import numpy as np
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from cudalens.analysis.compare.significance import NUM_DRAWS, SEED, difference_interval, expansion, student_quantile

VALUES = st.lists(st.integers(1, 1000), min_size=2, max_size=9)


def slow_interval(before, after, level):
    """Draw, take medians, take percentiles, widen; one draw at a time."""
    rng = np.random.default_rng(SEED)
    medians = []
    for values in (before, after):
        ordered = np.sort(values)
        picks = rng.integers(0, len(values), size=(NUM_DRAWS, len(values)))
        medians.append(np.array([np.median(ordered[pick]) for pick in picks]))
    drawn = medians[1] - medians[0]
    low, high = np.percentile(drawn, [50 - 50 * level, 50 + 50 * level])
    middle = np.median(after) - np.median(before)
    widen = expansion(min(len(before), len(after)), level)
    return middle - widen * max(middle - low, 0), middle + widen * max(high - middle, 0)


@settings(max_examples=examples(12), deadline=None)
@given(VALUES, VALUES)
def test_is_the_plain_bootstrap_of_the_median(before, after):
    low, high = difference_interval(np.array([before], float), np.array([after], float), 0.95)
    assert (low[0], high[0]) == pytest.approx(slow_interval(before, after, 0.95))


@settings(max_examples=examples(20), deadline=None)
@given(VALUES, VALUES)
def test_holds_its_own_difference_and_grows_with_the_level(before, after):
    sides = np.array([before], float), np.array([after], float)
    middle = np.median(after) - np.median(before)
    (low,), (high,) = difference_interval(*sides, 0.95)
    (lower,), (higher,) = difference_interval(*sides, 0.99)
    assert lower <= low <= middle <= high <= higher


def test_rows_do_not_depend_on_each_other():
    rng = np.random.default_rng(1)
    before, after = rng.normal(100, 5, (4100, 7)), rng.normal(100, 5, (4100, 5))
    low, high = difference_interval(before, after, 0.95)
    alone = difference_interval(before[4099:], after[4099:], 0.95)
    assert (low[4099], high[4099]) == (alone[0][0], alone[1][0])


def test_covers_the_truth_about_as_often_as_it_states():
    """Both sides from one distribution: the true difference is 0, and 95 % of the intervals should hold it."""
    rng = np.random.default_rng(2)
    for n in (3, 5, 12):
        sides = rng.lognormal(0, 0.3, (2000, n)), rng.lognormal(0, 0.3, (2000, n))
        low, high = difference_interval(*sides, 0.95)
        covered = ((low <= 0) & (high >= 0)).mean()
        assert 0.93 <= covered <= 1.0


def test_one_repeat_is_refused():
    with pytest.raises(ValueError, match="two or more"):
        difference_interval(np.ones((1, 1)), np.ones((1, 5)), 0.95)


def test_a_ratio_without_a_base_is_not_a_number():
    low, high = difference_interval(np.zeros((1, 3)), np.ones((1, 3)), 0.95, is_ratio=True)
    assert np.isnan([low[0], high[0]]).all()


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [(1, 12.7062), (2, 4.30265), (3, 3.18245), (4, 2.77645), (9, 2.26216), (30, 2.04227)],
)
def test_students_quantiles_are_those_of_the_tables(freedom, quantile):
    assert student_quantile(0.975, freedom) == pytest.approx(quantile, rel=0.006)


@settings(max_examples=examples(20), deadline=None)
@given(VALUES, VALUES)
def test_a_ratio_is_the_bootstrap_of_logarithms(before, after):
    """Never below -1, as an interval of the ratio itself can be."""
    sides = np.array([before], float), np.array([after], float)
    (low,), (high,) = difference_interval(*sides, 0.95, is_ratio=True)
    middle = np.median(after) / np.median(before) - 1
    assert -1 <= low <= middle + 1e-9
    assert middle - 1e-9 <= high < np.inf
    rng = np.random.default_rng(SEED)
    medians = []
    for values in (before, after):
        ordered = np.sort(values)
        picks = rng.integers(0, len(values), size=(NUM_DRAWS, len(values)))
        medians.append(np.array([np.median(ordered[pick]) for pick in picks]))
    logs = np.log(medians[1]) - np.log(medians[0])
    ends = np.percentile(logs, [2.5, 97.5])
    at, widen = np.log1p(middle), expansion(min(len(before), len(after)), 0.95)
    assert low == pytest.approx(np.expm1(at - widen * max(at - ends[0], 0)), abs=1e-9)
    assert high == pytest.approx(np.expm1(min(at + widen * max(ends[1] - at, 0), 700)), rel=1e-6)


def test_ratios_cover_the_truth_about_as_often_as_they_state():
    rng = np.random.default_rng(3)
    for n in (3, 5, 12):
        sides = rng.lognormal(0, 0.3, (2000, n)), rng.lognormal(0, 0.3, (2000, n))
        low, high = difference_interval(*sides, 0.95, is_ratio=True)
        assert 0.93 <= ((low <= 0) & (high >= 0)).mean() <= 1.0
