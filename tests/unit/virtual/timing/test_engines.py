"""An engine schedules work first come, first served, as early as possible: compared with slow scans."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cudalens.virtual.timing.machine import Engine

jobs = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12), st.sampled_from([0.25, 0.5, 1.0])), max_size=25)


def used_at(placed, instant):
    return sum(room for start, end, room in placed if start <= instant < end)


def earliest_by_scan(placed, ready, duration, room):
    start = ready
    while any(used_at(placed, instant) + room > 1 for instant in range(start, start + duration)):
        start += 1
    return start


@given(jobs)
def test_nothing_ever_exceeds_the_engine(program):
    engine, placed = Engine(), []
    for ready, duration, room in program:
        start = engine.place(ready, duration, room, now_ns=0)
        placed.append((start, start + duration, room))
    assert all(start >= ready for (start, _, _), (ready, _, _) in zip(placed, program, strict=True))
    assert all(used_at(placed, instant) <= 1 for start, end, _ in placed for instant in range(start, end))


@given(jobs)
def test_full_size_work_starts_at_the_earliest_gap(program):
    engine, placed = Engine(), []
    for ready, duration, _ in program:
        start = engine.place(ready, duration, 1.0, now_ns=0)
        assert start == earliest_by_scan(placed, ready, duration, 1.0)
        placed.append((start, start + duration, 1.0))


def earliest_by_ends(spans, ready, duration, room):
    """All overlapping work counts; work starts when it is ready, or when other work ends."""
    for start in [ready, *sorted(end for _, end, _ in spans if end > ready)]:
        overlapping = sum(taken for begin, end, taken in spans if begin < start + duration and end > start)
        if overlapping + room <= 1:
            return start
    raise AssertionError("the last end leaves all room")


def plan_of(engine):
    return list(zip(engine._starts, engine._ends, engine._rooms, strict=True))


@given(jobs)
def test_work_of_any_size_starts_at_the_first_end_that_leaves_it_room(program):
    engine = Engine()
    for ready, duration, room in program:
        expected = earliest_by_ends(plan_of(engine), ready, duration, room)
        assert engine.place(ready, duration, room, now_ns=0) == expected
        assert (expected, expected + duration, room) in plan_of(engine) or engine._ends[-1] == expected + duration


def test_work_without_length_takes_no_room():
    engine = Engine()
    assert [engine.place(5, 0, 1.0, 0), engine.place(0, 10, 1.0, 0), engine.place(5, 0, 1.0, 0)] == [5, 0, 10]


def test_small_kernels_run_side_by_side_and_large_ones_do_not():
    engine = Engine()
    assert [engine.place(0, 10, 0.5, 0) for _ in range(3)] == [0, 0, 10]
    assert engine.place(0, 10, 1.0, 0) == 20


def test_ended_spans_are_dropped():
    engine = Engine()
    for number in range(10_000):
        engine.place(20 * number, 10, 1.0, now_ns=20 * number)
    assert len(engine._ends) < 200


def test_endless_plans_ahead_of_the_host_stay_bounded():
    engine = Engine()
    for number in range(20_000):
        engine.place(20 * number, 10, 1.0, now_ns=0)
    assert len(engine._ends) <= 5_000
    # Dropped spans still block earlier starts.
    assert engine.place(0, 10, 1.0, now_ns=0) > 20
