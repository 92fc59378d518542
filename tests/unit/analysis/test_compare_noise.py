"""Whether comparisons claim changes of equal programs, and find those of slower ones, on machines with noise."""

import numpy as np
import pandas as pd
import pytest
from made_traces import host, trace_of

from cudalens.analysis import differences
from cudalens.analysis.compare.measure import least_host_times
from cudalens.analysis.compare.significance import half_width, run_values

STEPS, OPS = 12, 6


def noisy_run(rng, *, factor=1.0, between=0.3, drift=0.2, outliers=0.05):
    """A run of `STEPS` steps of `OPS` equal operators of 100 µs times `factor`, on a machine with noise.

    Steps are slower by one factor for the run, a drift over it, autocorrelated noise, and outliers of three times the
    time. Operators are interrupted: a part of them takes longer, by as much as the step is slower; all vary by 2 %.
    """
    level = abs(rng.normal(0, between)) + np.linspace(0, rng.normal(0, drift), STEPS)
    noise = np.zeros(STEPS)
    for k in range(1, STEPS):
        noise[k] = 0.8 * noise[k - 1] + rng.normal(0, 0.1)
    slow = np.maximum(level + noise, 0) + 2 * (rng.random(STEPS) < outliers)
    machine = rng.normal(1, 0.03)
    rows, at = [], 0
    for k in range(STEPS):
        own = 100_000 * factor * machine * (1 + abs(rng.normal(0, 0.02, OPS)))
        interrupted = rng.random(OPS) < 0.5
        own[interrupted] *= 1 + 2 * slow[k]
        start = at
        for length in own.astype(int).tolist():
            rows.append(host(at, length, "aten::mm"))
            at += length
        rows.append(host(start, at - start, f"ProfilerStep#{k}", "user_annotation"))
    return trace_of(rows)


@pytest.fixture(scope="module")
def pools():
    """Runs of a program, and of one that is a tenth slower."""
    rng = np.random.default_rng(20_240_601)
    return [noisy_run(rng) for _ in range(16)], [noisy_run(rng, factor=1.1) for _ in range(8)]


def claims(before, after, runs, pairs):
    """How many of `pairs` comparisons of random runs of two pools, which can be one, claim a change."""
    rng = np.random.default_rng(7)
    claimed = 0
    for _ in range(pairs):
        a = rng.permutation(len(before))
        b = a[runs:] if before is after else rng.permutation(len(after))
        found = differences([before[k] for k in a[:runs]], [after[k] for k in b[:runs]])
        claimed += found.status in ("faster", "slower")
    return claimed


def test_equal_programs_are_hardly_ever_called_changed(pools):
    assert claims(pools[0], pools[0], runs=5, pairs=12) <= 1


def test_one_run_a_side_is_never_called_changed(pools):
    assert claims(*pools, runs=1, pairs=4) == 0


def test_a_slow_down_of_a_tenth_is_found_with_five_runs(pools):
    assert claims(*pools, runs=5, pairs=5) >= 4


def test_a_slow_down_is_found_in_the_steps_of_a_quiet_machine():
    rng = np.random.default_rng(5)
    quiet = {"between": 0.005, "drift": 0.0, "outliers": 0.0}
    a, b = ([noisy_run(rng, factor=factor, **quiet) for _ in range(5)] for factor in (1.0, 1.3))
    assert differences(a, b).whole.status == "slower"


class TestWelch:
    def test_against_a_table(self):
        """Student's t of 8 degrees of freedom is 2.306 at 95 %: two sets of five values of equal variance."""
        values = np.array([[1.0, 2.0, 3.0, 4.0, 5.0]])
        expected = 2.306 * np.sqrt(2 * values.var(ddof=1) / 5)
        assert half_width(values, values + 7, 0.95)[0] == pytest.approx(expected, rel=0.01)

    def test_no_spread_is_no_width(self):
        assert half_width(np.full((1, 3), 5.0), np.full((1, 4), 7.0), 0.99).tolist() == [0]

    def test_values_of_runs_and_of_stretches(self):
        values = np.arange(12.0)[None]
        assert run_values(values, (4, 8)).tolist() == [[1.5, 7.5]]
        assert run_values(values, (12,)).shape == (1, 5)
        assert run_values(values[:, :9], (9,)).shape == (1, 9)

    def test_a_drift_within_a_run_widens_its_interval(self):
        calm, drifting = np.tile([10.0, 11.0], 20)[None], np.linspace(5, 16, 40)[None]
        width = [half_width(run_values(v, (40,)), run_values(calm, (40,)), 0.95)[0] for v in (calm, drifting)]
        assert width[1] > 4 > 2 > width[0]


class TestLeastHostTime:
    def trace(self, steps):
        rows, at = [], 0
        for number, calls in enumerate(steps):
            start = at
            for name, length in calls:
                rows.append(host(at, length, name))
                at += length
            at += 5
            rows.append(host(start, at - start, f"ProfilerStep#{number}", "user_annotation"))
        return trace_of(rows)

    def test_the_least_time_of_each_place(self):
        """Two sizes of matrices: 100 and 300 at least; one softmax of 50; then 5 to the end of the step."""
        steps = [
            [("aten::mm", 100), ("aten::mm", 900), ("aten::softmax", 80)],
            [("aten::mm", 5_000), ("aten::mm", 300), ("aten::softmax", 50)],
        ]
        assert sum(least_host_times(self.trace(steps)).values()) == 100 + 300 + 50 + 5

    def test_places_that_take_about_as_long_are_the_same_work(self):
        steps = [[("aten::mm", 100), ("aten::mm", 120)], [("aten::mm", 130), ("aten::mm", 140)]]
        assert sum(least_host_times(self.trace(steps)).values()) == 2 * 100 + 5

    def test_without_steps_and_without_operators(self):
        assert sum(least_host_times(trace_of([host(0, 100, "aten::mm"), host(100, 900, "aten::mm")])).values()) == 1_000
        assert least_host_times(trace_of([host(0, 100, "range", "user_annotation")])) is None

    def test_an_operator_that_is_not_in_every_step_counts_as_often_as_it_is_there(self):
        steps = [[("aten::mm", 100), ("aten::item", 40)], [("aten::mm", 100)]]
        assert sum(least_host_times(self.trace(steps)).values()) == 100 + 20 + 5


def test_missing_values_of_tables_are_missing():
    one = noisy_run(np.random.default_rng(1))
    found = differences(one, one)
    assert not found.ops["low_ns"].isna().any()
    assert isinstance(found.ops["low_ns"].array, pd.arrays.FloatingArray)
