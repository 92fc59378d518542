"""Changes that go up and down without a cause in the program are one disturbance."""

import itertools

import msgspec
import numpy as np
import pytest

from cudalens.views.sections.model import Table
from cudalens.watching import record
from cudalens.watching.record import group_changes
from cudalens.watching.run import STEP_COLUMNS, WatchedChange, WatchedRecording, WatchedRun, WatchFacts

MS = 1_000_000


def changes(*levels_ms, kinds=()):
    """Changes from each of these step times to the next."""
    pairs = itertools.pairwise(levels_ms)
    return tuple(WatchedChange(100 * k, k, a * MS, b * MS, 100 * k + 20, kinds=kinds) for k, (a, b) in enumerate(pairs))


def lengths(*given):
    return [len(group) for group in group_changes(given)]


def test_changes_in_turn_without_a_cause_are_one():
    assert lengths(*changes(20, 26, 21, 27, 20)) == [4]
    assert lengths(*changes(20, 26, 21, 27, 20, kinds=("host",))) == [4]


def test_two_changes_or_changes_in_one_direction_are_not_joined():
    assert lengths(*changes(20, 26, 20)) == [1, 1]
    assert lengths(*changes(20, 26, 32, 40)) == [1, 1, 1]


def test_a_change_with_a_cause_in_the_program_is_alone():
    first, cause, *rest = (*changes(20, 26, 21), *changes(21, 30, 22, 31, kinds=("idle",)))
    named = WatchedChange(150, 1, 26 * MS, 21 * MS, 170, ("-5 ms in data loading",), ("data loading",))
    assert lengths(first, named, *rest) == [1, 1, 3]
    assert lengths(first, cause, *rest) == [5]


def test_a_disturbance_is_one_line_with_its_range():
    facts = WatchFacts("job", "running", 1, 2, 40, "optimizer", "virtual", 0.02, 0.01, 1)
    run = WatchedRun(facts, {name: [] for name in STEP_COLUMNS}, changes(20, 26, 18, 27))
    line = record.describe_changes(group_changes(run.changes)[-1], run)
    assert line.startswith("since step 0: 3 changes, slower and faster in turn, from 18.0 to 27.0 ms")


def watched(*levels_ms, steps=100, kinds=("host",)):
    """A run that had each of these step times for `steps` steps, with the change between each two."""
    facts = WatchFacts("job", "running", 1, 2, steps * len(levels_ms), "optimizer", "virtual", 0.02, 0.01, 1)
    dur = np.repeat(np.array(levels_ms) * MS, steps).astype(np.int64)
    columns = {name: np.zeros(len(dur), np.int64) for name in STEP_COLUMNS} | {"dur": dur, "step": np.arange(len(dur))}
    found = [
        WatchedChange(steps * (k + 1), 1, a * MS, b * MS, steps * (k + 1) + 20, kinds=kinds)
        for k, (a, b) in enumerate(itertools.pairwise(levels_ms))
    ]
    return WatchedRun(facts, columns, tuple(found))


def test_the_step_time_is_of_the_steps_since_the_last_change():
    """Of the last 200 steps, half are of each side: their median is a time that no step has."""
    assert record.verdict(watched(10, 11.8)).startswith("step 200: 11.8 ms a step; since step 100: 18 % slower")
    assert record.verdict(watched(10, 11.8, steps=10)).startswith("step 20: 11.8 ms a step; ")
    assert record.verdict(watched(10)).startswith("step 100: 10.0 ms a step")


@pytest.mark.parametrize(
    ("levels_ms", "together", "said"),
    [
        ((2, 6), 1, "step 200: 6.00 ms a step since step 100, 2.00 ms before"),
        ((2, 6), 20, "step 200: 6.00 ms a step since step 100, 2.00 ms before"),
        ((2, 2.3), 20, "step 200: 2.15 ms a step"),  # a small one is left to the detector
        ((8, 2), 20, "step 200: 2.00 ms a step since step 100, 8.00 ms before"),
    ],
)
def test_the_step_time_is_of_the_last_steps_before_a_change_is_decided(levels_ms, together, said):
    """Where steps are timed together, the rows of later steps are few: a median of the rows is a time of the past."""
    run = watched(*levels_ms)
    late = np.arange(100, 200, together)
    kept = np.concatenate([np.arange(100), late])
    columns = {name: values[kept] for name, values in run.columns.items()}
    columns["num_steps"] = np.where(kept < 100, 1, together)
    verdict = record.verdict(WatchedRun(run.facts, columns))
    assert verdict.partition(";")[0] == said


def test_a_change_that_the_last_steps_have_undone_is_not_named():
    run = watched(10, 30)
    columns = {name: values.copy() for name, values in run.columns.items()}
    columns["dur"][-30:] = 10 * MS
    assert record.verdict(WatchedRun(run.facts, columns, run.changes)).startswith(
        "step 200: 10.0 ms a step since step 170, 30.0 ms before"
    )
    assert "since step 100" not in record.verdict(WatchedRun(run.facts, columns, run.changes))


def test_some_slow_steps_are_not_a_change():
    run = watched(2, steps=200)
    columns = {name: values.copy() for name, values in run.columns.items()}
    columns["dur"][::3] *= 5
    columns["dur"][-3:] *= 50
    assert record.verdict(WatchedRun(run.facts, columns)) == "step 200: 2.00 ms a step"


def test_a_change_after_which_the_step_time_has_drifted_is_not_one_since_then():
    """Twice as fast for some steps, and less so by now: the present time contradicts "2.08 times as fast"."""
    run = watched(32.2, 15.4)
    columns = {name: values.copy() for name, values in run.columns.items()}
    columns["dur"][-100:] = np.linspace(15.4 * MS, 18 * MS, 100).astype(np.int64)
    verdict = record.verdict(WatchedRun(run.facts, columns, run.changes))
    assert verdict == "step 200: 16.7 ms a step; at step 100: 2.09 times as fast (32.2 to 15.4 ms)"


def recording(step):
    return WatchedRecording(step, 1, 1, 1.0 * MS, "sample")


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ((3, 150), "not known: the steps that were recorded before and after do not show it"),
        ((3,), "not known: no recording after it"),
        ((150,), "not known: no recording before it"),
        ((3, 250), "not known: no recording after it"),  # it is after the next change
        ((), "not known: no recording"),
    ],
)
def test_a_change_without_a_cause_has_the_reason(steps, said):
    run = watched(10, 12, 14)
    found = record.section(WatchedRun(run.facts, run.columns, run.changes, tuple(map(recording, steps))))
    table = next(block for block in found.blocks if isinstance(block, Table) and block.key == "changes")
    assert table.rows[-1].cells[-1] == said


def test_a_cost_beyond_the_loops_own_time_is_readable():
    run = watched(10)
    costly = WatchedRun(msgspec.structs.replace(run.facts, cost=6.2345), run.columns)
    assert dict(record.run_facts(costly))["Cost"].startswith("623 % of the loop's time")


@pytest.mark.parametrize(
    ("levels_ms", "named"),
    [
        ((2, 22, 23.2), "at step 100: 11 times as long (2.00 to 22.0 ms)"),  # the sleep, not the 5.5 % after it
        ((20, 22, 40), "since step 200: 82 % slower"),
        ((10, 30, 10, 10.6), "since step 300: 6.0 % slower"),  # slow for a while, which is over
        ((10, 30, 10), "since step 200: 3 times as fast"),
        ((10, 20, 40, 19), "at step 100: 2 times as long (10.0 to 20.0 ms)"),  # the second doubling was undone
        ((3, 9, 6), "at step 100: 3 times as long (3.00 to 9.00 ms)"),  # partly undone: now twice as long
        ((9, 3, 4.5), "at step 100: 3 times as fast (9.00 to 3.00 ms)"),
        ((10, 12, 11.9, 11.8), "since step 100: 20 % slower"),
    ],
)
def test_the_largest_change_that_still_holds_comes_first(levels_ms, named):
    assert f"; {named}" in record.verdict(watched(*levels_ms, kinds=("data loading",)))
