"""Changes of the level of step times: found soon where there is one, and not reported where there is none."""

import numpy as np
import pytest

from cudalens.watching.change_detector import ChangeDetector

MS = 1_000_000
STEADY = {
    "normal": lambda rng, n: rng.normal(20 * MS, 1 * MS, n),
    "log-normal": lambda rng, n: 20 * MS * rng.lognormal(0, 0.2, n),
    "heavy-tailed": lambda rng, n: 20 * MS * np.exp(0.02 * rng.standard_t(2, n)),
    "two values": lambda rng, n: np.where(rng.random(n) < 0.3, 30 * MS, 20 * MS) + rng.normal(0, MS / 10, n),
    "exact, with a slow step in a hundred": lambda rng, n: np.where(rng.random(n) < 0.01, 200 * MS, 20 * MS) * 1.0,
}


def shifts(times):
    detector = ChangeDetector()
    found = [detector.add(step, dur) for step, dur in enumerate(times.tolist())]
    return [shift for shift in found if shift is not None]


@pytest.mark.parametrize("kind", STEADY)
def test_at_most_one_false_report_in_twenty_steady_runs_of_two_thousand_steps(kind):
    reports = sum(len(shifts(STEADY[kind](np.random.default_rng(seed), 2000))) for seed in range(20))
    assert reports <= 1


@pytest.mark.parametrize("ratio", [1.18, 0.8, 3.0])
@pytest.mark.parametrize("noise", [0.0, 0.03, 0.06])
def test_a_change_is_found_within_thirty_steps(ratio, noise):
    rng = np.random.default_rng(7)
    level = np.where(np.arange(700) < 500, 20 * MS, ratio * 20 * MS)
    (shift,) = shifts(level * rng.lognormal(0, noise, 700))
    assert abs(shift.step - 500) <= 5
    assert shift.found_at <= 530
    assert shift.after_ns / shift.before_ns == pytest.approx(ratio, rel=0.05)


def test_each_of_several_changes_is_found():
    level = np.repeat([20.0, 30.0, 30.0, 20.0], 300) * MS
    assert [shift.step for shift in shifts(level)] == [300, 900]


def test_a_change_below_five_per_cent_is_not_reported():
    assert shifts(np.repeat([20.0, 20.6], 1000) * MS) == []


def test_slow_steps_that_are_not_in_a_row_are_not_a_change():
    times = np.full(2000, 20.0 * MS)
    times[::50] = 900 * MS
    assert shifts(times) == []


def test_times_that_are_not_positive_are_left_out():
    assert shifts(np.zeros(100)) == []


@pytest.mark.parametrize("num_before", [23, 24, 40])
def test_a_detector_of_pairs_finds_a_change_right_after_the_steps_that_it_is_made_of(num_before):
    rng = np.random.default_rng(5)
    times = iter(rng.lognormal(np.log(1e6), 0.01, 200).tolist())
    single = ChangeDetector()
    for step in range(num_before):
        single.add(step, next(times))
    pairs = single.in_pairs()
    steps = range(num_before, num_before + 60, 2)
    changed = num_before + 8
    found = [pairs.add(step, next(times) * (1 if step < changed else 1.5)) for step in steps]
    (shift,) = filter(None, found)
    assert shift.step == changed
    assert shift.after_ns / shift.before_ns == pytest.approx(1.5, rel=0.03)
