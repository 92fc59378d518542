"""Changes that go up and down without a cause in the program are one disturbance."""

import itertools

from cudalens.analysis.watching.disturbances import grouped
from cudalens.frames.watching.run import STEP_COLUMNS, WatchedChange, WatchedRun, WatchFacts
from cudalens.views.watching import words

MS = 1_000_000


def changes(*levels_ms, kinds=()):
    """Changes from each of these step times to the next."""
    pairs = itertools.pairwise(levels_ms)
    return tuple(WatchedChange(100 * k, k, a * MS, b * MS, 100 * k + 20, kinds=kinds) for k, (a, b) in enumerate(pairs))


def lengths(*given):
    return [len(group) for group in grouped(given)]


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
    line = words.changes(grouped(run.changes)[-1], run)
    assert line.startswith("since step 0: 3 changes, slower and faster in turn, from 18.0 to 27.0 ms")
