"""Every suggested fix removes its race and adds none; the cheapest one is suggested."""

import json
from pathlib import Path

import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from cudalens.sanitizer import RaceKind, replay
from cudalens.sanitizer.engine import (
    BlockRecordedOnStream,
    Detector,
    EventRecorded,
    EventWaited,
    OperatorLaunched,
    Region,
    StreamId,
    TensorBytes,
)
from cudalens.sanitizer.fixes.candidates import FixKind, plain_candidates
from cudalens.sanitizer.fixes.recorded import MAX_BETWEEN, Insertion, Run, between, inserted, judge
from cudalens.sanitizer.fixes.search import findings_of, suggest
from cudalens.sanitizer.replay import records_of

CASES = Path(__file__).parents[4] / "shared" / "races" / "cases.jsonl"
SIZE = 24


def racy_cases():
    cases = [json.loads(line) for line in CASES.read_text().splitlines()] if CASES.exists() else []
    return [case for case in cases if case["expect"] == "race"]


def alloc(t, size=1024, stream="s0", **more):
    return {"op": "alloc", "t": t, "bytes": size, "stream": stream, **more}


def pinned(t):
    return {"op": "alloc", "t": t, "bytes": 1024, "host": True}


def launch(stream, reads=(), writes=(), name="kernel"):
    return {"op": "launch", "stream": stream, "reads": list(reads), "writes": list(writes), "name": name}


def op(kind, **fields):
    return {"op": kind, **fields}


def races_by_key(records):
    """By the engine itself, without any of what is tested here."""
    detector = Detector()
    for record in records:
        detector.add(record)
    return {race.key for race in detector.races}


def assert_fixed(records, race):
    fix = suggest(records, race)
    assert fix is not None
    left = races_by_key(inserted(records, fix.insertions))
    assert race.key not in left
    assert left <= races_by_key(records)
    return fix


streams = st.sampled_from(["s0", "s1", "s2"])


@st.composite
def programs(draw):
    """Launches on three streams, events, host accesses, and blocks that are freed and handed out again."""
    ops, names, freed = (
        [alloc("t0", SIZE), alloc("t1", SIZE, "s1"), op("alloc", t="h", bytes=SIZE, host=True)],
        ["t0", "t1"],
        [],
    )
    for number in range(draw(st.integers(2, 14))):
        kind = draw(
            st.sampled_from(["launch"] * 6 + ["copy", "host", "event", "wait", "sync", "free", "alloc", "record"])
        )
        name = draw(st.sampled_from([*names, "h"]))
        low = draw(st.integers(0, SIZE - 1))
        access = f"{name}[{low}:{draw(st.integers(low + 1, SIZE))}]"
        stream, event = draw(streams), draw(st.sampled_from(["e", "f"]))
        if kind == "launch":
            is_write = draw(st.booleans())
            ops.append(launch(stream, [] if is_write else [access], [access] if is_write else [], f"k{number}"))
        elif kind == "copy" and names:
            ops.append(launch(stream, [draw(st.sampled_from(names))], ["h"], f"copy{number}"))
        elif kind == "host":
            ops.append(op(draw(st.sampled_from(["host_read", "host_write"])), t="h"))
        elif kind == "event":
            ops.append(op("event_record", event=event, stream=stream))
        elif kind == "wait":
            ops.append(op("event_wait", event=event, stream=stream))
        elif kind == "sync":
            ops.append(op("stream_sync", stream=stream))
        elif kind == "record" and names:
            ops.append(op("record_stream", t=draw(st.sampled_from(names)), stream=stream))
        elif kind == "free" and names:
            freed.append(names.pop(draw(st.integers(0, len(names) - 1))))
            ops.append(op("free", t=freed[-1]))
        elif kind == "alloc" and freed:
            names.append(f"t{number + 2}")
            ops.append(alloc(names[-1], SIZE, stream, reuse=freed.pop()))
    return ops


@settings(deadline=None, max_examples=examples(300))
@given(programs())
def test_every_fix_of_a_random_program_removes_its_race_and_adds_none(ops):
    records = records_of(ops)
    for race in replay(ops):
        assert_fixed(records, race)


@settings(deadline=None, max_examples=examples(200))
@given(programs())
def test_a_program_judged_with_positions_has_the_same_races(ops):
    records = records_of(ops)
    found = judge(records)
    assert found.keys() == races_by_key(records)
    for occurrences in found.values():
        for seen in occurrences:
            assert seen.first < seen.second
            assert isinstance(records[seen.first], OperatorLaunched) or records[seen.first].access
            touched = {a.tensor for a in getattr(records[seen.second], "writes", ())}
            touched |= {a.tensor for a in getattr(records[seen.second], "reads", ())}
            assert seen.race.second.tensor in (touched or {"h"})


@pytest.mark.skipif(not CASES.exists(), reason="../shared/races/cases.jsonl is not beside this checkout")
@pytest.mark.parametrize("case", racy_cases(), ids=lambda case: case["id"])
def test_every_race_of_the_cases_is_fixed(case):
    records = records_of(case["ops"])
    races = replay(case["ops"])
    assert races
    for race in races:
        assert_fixed(records, race)


def only_fix(*ops):
    (race,) = replay(ops)
    return assert_fixed(records_of(ops), race)


def test_a_stream_waits_where_that_is_enough():
    fix = only_fix(alloc("a"), launch("s0", writes="a"), launch("s1", reads="a"))
    assert fix.kind is FixKind.WAIT_STREAM
    assert fix.words == "before kernel of a, let stream s1 wait for the default stream (wait_stream)"


def test_an_event_is_used_where_the_stream_has_gone_on_to_other_work():
    busy = [launch("s1", writes="b") for _ in range(3)]
    fix = only_fix(alloc("a"), alloc("b"), launch("s1", writes="a"), *busy, launch("s0", reads="a"))
    assert fix.kind is FixKind.WAIT_EVENT


def test_a_freed_tensor_is_recorded_on_the_stream_that_still_reads_it():
    ops = [alloc("x"), launch("copy", reads="x"), op("free", t="x"), alloc("y", reuse="x"), launch("s0", writes="y")]
    assert only_fix(*ops).kind is FixKind.RECORD_STREAM


def test_recording_a_tensor_on_its_own_stream_is_never_suggested():
    ops = [alloc("x"), launch("s0", writes="x"), op("free", t="x"), alloc("y", reuse="x"), launch("s1", writes="y")]
    (race,) = replay(ops)
    assert race.kind is RaceKind.USE_AFTER_FREE
    run = Run(records_of(ops))
    kinds = {candidate.kind for candidate in plain_candidates(run, run.occurrences[race.key], race)}
    assert kinds == {FixKind.WAIT_STREAM, FixKind.WAIT_EVENT}


def test_the_host_waits_only_where_it_is_the_host_that_races():
    fix = only_fix(alloc("d"), pinned("h"), launch("s1", reads="d", writes="h"), op("host_read", t="h"))
    assert fix.kind is FixKind.SYNC_STREAM
    busy = launch("s1", writes="d")
    fix = only_fix(alloc("d"), pinned("h"), launch("s1", writes="h"), busy, op("host_read", t="h"))
    assert fix.kind is FixKind.SYNC_EVENT


def test_of_two_fixes_that_removes_more_races_is_preferred():
    both = [launch("s1", writes="a"), launch("s1", writes="b", name="k2")]
    ops = [alloc("a"), alloc("b"), *both, launch("s0", reads="ab")]
    first, second = replay(ops)
    records = records_of(ops)
    for race in (first, second):
        fix = suggest(records, race)
        assert fix.removes == {first.key, second.key}
        assert fix.kind is FixKind.WAIT_STREAM
    one, two = findings_of(records, [first, second])
    assert one.fix is two.fix


def test_all_occurrences_are_fixed():
    step = [launch("s1", writes="a", name="fill"), launch("s0", reads="a", name="sum")]
    ops = [alloc("a"), *step, *step, *step]
    for race in replay(ops):
        assert_fixed(records_of(ops), race)


def test_what_the_run_does_not_show_has_no_fix():
    ops = [alloc("a"), launch("s0", writes="a"), launch("s1", reads="a")]
    (race,) = replay(ops)
    assert suggest([], race) is None
    assert suggest(records_of(ops[:2]), race) is None
    assert between(Run([]), race.key) is None


def test_records_of_memory_from_before_are_passed_over():
    ops = [alloc("a"), launch("s0", writes="a"), launch("s1", reads="a")]
    (race,) = replay(ops)
    unknown = OperatorLaunched(
        StreamId(0, 0), (), records_of([alloc("z", 1 << 20), launch("s0", writes="z")])[1].writes
    )
    assert suggest([unknown, *records_of(ops)], race) is not None


def test_a_fix_that_leaves_the_race_or_makes_another_is_refused():
    ops = [alloc("a"), launch("s0", writes="a"), launch("s1", reads="a")]
    (race,) = replay(ops)
    run = Run(records_of(ops))
    assert run.is_fixed_by(race.key, []) is None
    assert run.is_fixed_by(race.key, [Insertion(2, EventRecorded("e", StreamId(0, 0)))]) is None
    whole = Region(512, 1024)
    assert run.is_fixed_by(race.key, [Insertion(2, BlockRecordedOnStream(whole, StreamId(0, "s1")))]) is None
    good = [Insertion(2, EventRecorded("e", StreamId(0, 0))), Insertion(2, EventWaited("e", StreamId(0, "s1")))]
    assert run.is_fixed_by(race.key, good) == {race.key}
    another = OperatorLaunched(StreamId(0, "s2"), (), (TensorBytes("a", whole),), "stray")
    assert run.is_fixed_by(race.key, [*good, Insertion(2, another)]) is None


def test_the_operations_between_include_both_streams_events_and_waits():
    ops = [
        alloc("a"),
        launch("s1", writes="a", name="fill"),
        op("event_record", event="late", stream="s2"),
        op("event_wait", event="late", stream="s0"),
        launch("s2", name="elsewhere"),
        launch("s0", name="other"),
        op("stream_sync", stream="s2"),
        launch("s0", reads="a", name="sum"),
    ]
    (race,) = replay(ops)
    (finding,) = findings_of(records_of(ops), [race])
    assert finding.between == [
        {"act": "first", "stream": "stream s1", "op": "fill"},
        {"act": "event_record", "stream": "stream s2", "event": 1},
        {"act": "event_wait", "stream": "the default stream", "event": 1},
        {"act": "launch", "stream": "the default stream", "op": "other"},
        {"act": "stream_sync", "stream": "stream s2"},
        {"act": "second", "stream": "the default stream", "op": "sum"},
    ]
    assert finding.fix.kind is FixKind.WAIT_STREAM


def test_the_operations_between_include_the_free_and_the_allocation_of_the_memory():
    ops = [
        alloc("x", 512),
        launch("s1", reads=["x"]),
        op("free", t="x"),
        alloc("y", 512, reuse="x"),
        launch("s0", writes=["y"]),
    ]
    (finding,) = findings_of(records_of(ops), replay(ops))
    assert [step["act"] for step in finding.between] == ["first", "free", "alloc", "second"]


def test_a_long_story_is_cut_in_the_middle():
    ops = [alloc("a"), launch("s1", writes="a"), *[launch("s0") for _ in range(500)], launch("s0", reads="a")]
    (race,) = replay(ops)
    story = between(Run(records_of(ops)), race.key)
    assert len(story) == MAX_BETWEEN + 1
    assert story[MAX_BETWEEN // 2] == {"act": "left out", "count": 502 - MAX_BETWEEN}
    assert (story[0]["act"], story[-1]["act"]) == ("first", "second")


def test_beyond_its_budget_no_more_fixes_are_tried():
    ops = [alloc("a"), launch("s0", writes="a"), launch("s1", reads="a")]
    (finding,) = findings_of(records_of(ops), replay(ops), budget_s=0.0)
    assert finding.fix is None
    assert finding.between is not None


def test_all_tensors_of_one_operator_that_are_freed_are_recorded():
    ops = [
        alloc("x", 512),
        alloc("y", 512),
        launch("copy", reads=["x", "y"]),
        op("free", t="x"),
        op("free", t="y"),
        alloc("z", 2048, reuse="x"),
        launch("s0", writes=["z"], name="zeros"),
    ]
    records = records_of(ops)
    occurrences = [seen for found in judge(records).values() for seen in found]
    assert {seen.race.first.tensor for seen in occurrences} == {"x", "y"}
