"""Recorded programs and their verdicts, in the words of CUDA."""

import json
from pathlib import Path

import pytest

from cudalens import CudalensError
from cudalens.sanitizer import RaceKind, replay

CASES = Path(__file__).parents[4] / "shared" / "races" / "cases.jsonl"


def cases():
    return [json.loads(line) for line in CASES.read_text().splitlines()] if CASES.exists() else []


def alloc(t, size=1024, stream="s0", **more):
    return {"op": "alloc", "t": t, "bytes": size, "stream": stream, **more}


def pinned(t, **more):
    return {"op": "alloc", "t": t, "bytes": 1024, "host": True, **more}


def launch(stream, reads=(), writes=(), name="kernel"):
    return {"op": "launch", "stream": stream, "reads": list(reads), "writes": list(writes), "name": name}


def op(kind, **fields):
    return {"op": kind, **fields}


def record(event, stream):
    return op("event_record", event=event, stream=stream)


def wait(event, stream):
    return op("event_wait", event=event, stream=stream)


def kinds(*ops):
    return [race.kind for race in replay(ops)]


@pytest.mark.skipif(not CASES.exists(), reason="../shared/races/cases.jsonl is not beside this checkout")
@pytest.mark.parametrize("case", cases(), ids=lambda case: case["id"])
def test_cases_with_known_verdicts(case):
    races = replay(case["ops"])
    assert (len(races) > 0) == (case["expect"] == "race")
    assert set().union(*(race.tensors for race in races)) == set(case["race_on"])


def test_a_write_that_nothing_orders_with_a_write():
    assert kinds(alloc("a"), launch("s0", writes="a"), launch("s1", writes="a")) == [RaceKind.WRITE_AFTER_WRITE]


def test_an_event_recorded_again_marks_the_later_point():
    ops = [alloc("a"), record("e", "s1"), launch("s1", writes="a"), record("e", "s1"), wait("e", "s2")]
    assert kinds(*ops, launch("s2", reads="a")) == []


def test_waiting_before_the_event_is_recorded_again_covers_only_the_first():
    ops = [alloc("a"), record("e", "s1"), wait("e", "s2"), launch("s1", writes="a"), record("e", "s1")]
    assert kinds(*ops, launch("s2", reads="a")) == [RaceKind.READ_AFTER_WRITE]


def test_a_deleted_event_orders_nothing_for_the_next_of_its_name():
    ops = [alloc("a"), launch("s1", writes="a"), record("e", "s1"), op("event_delete", event="e"), wait("e", "s2")]
    assert kinds(*ops, launch("s2", reads="a")) == [RaceKind.READ_AFTER_WRITE]


@pytest.mark.parametrize("query", [op("event_query", event="e"), op("stream_query", stream="s1")])
def test_a_query_that_states_done_orders_what_comes_after(query):
    ops = [alloc("a"), launch("s1", writes="a"), record("e", "s1"), query]
    assert kinds(*ops, launch("s2", reads="a")) == []


def test_blocking_streams_are_ordered_with_the_legacy_default_stream():
    ops = [alloc("a"), op("stream_create", stream="s1", blocking=True), launch("s1", writes="a")]
    assert kinds(*ops, launch("s0", reads="a"), launch("s1", writes="a")) == []


def test_two_blocking_streams_are_not_ordered_with_each_other():
    streams = [op("stream_create", stream=s, blocking=True) for s in ("s1", "s2")]
    assert kinds(alloc("a"), *streams, launch("s1", writes="a"), launch("s2", writes="a")) != []


def test_synchronising_one_device_leaves_the_other_running():
    ops = [alloc("a"), launch("1/s1", writes="a")]
    assert kinds(*ops, op("device_sync", device=0), launch("s0", reads="a")) == [RaceKind.READ_AFTER_WRITE]
    assert kinds(*ops, op("device_sync", device=1), launch("s0", reads="a")) == []


def test_a_block_reused_while_an_unrecorded_stream_still_reads_it():
    ops = [alloc("x"), launch("copy", reads="x"), op("free", t="x"), alloc("y", reuse="x")]
    assert kinds(*ops, launch("s0", writes="y")) == [RaceKind.USE_AFTER_FREE]


def test_record_stream_of_the_reading_stream_makes_reuse_safe_and_of_another_does_not():
    for stream, expected in (("copy", []), ("other", [RaceKind.USE_AFTER_FREE])):
        ops = [alloc("x"), launch("copy", reads="x"), op("record_stream", t="x", stream=stream), op("free", t="x")]
        assert kinds(*ops, alloc("y", reuse="x"), launch("s0", writes="y")) == expected


def test_reuse_of_a_recorded_block_orders_nothing_else():
    """Had the copy been slower, the allocator would have taken another block; the host would still read too early."""
    ops = [pinned("h"), alloc("x"), op("record_stream", t="x", stream="copy"), launch("copy", reads="x", writes="h")]
    ops += [op("free", t="x"), alloc("y", reuse="x")]
    assert kinds(*ops, launch("s0", writes="y"), op("host_read", t="h")) == [RaceKind.HOST]


def test_record_stream_of_the_stream_of_the_pool_means_nothing():
    ops = [alloc("x"), launch("s0", writes="x"), op("record_stream", t="x", stream="s0"), op("free", t="x")]
    assert kinds(*ops, alloc("y", reuse="x"), launch("s1", writes="y")) == [RaceKind.USE_AFTER_FREE]
    assert kinds(*ops, alloc("y", reuse="x"), launch("s0", writes="y")) == []


def test_a_smaller_tensor_in_a_freed_block_meets_only_its_own_bytes():
    ops = [alloc("x"), launch("copy", reads=["x[512:1024]"]), op("free", t="x"), alloc("y", size=512, reuse="x")]
    assert kinds(*ops, launch("s0", writes="y")) == []


def test_the_pinned_allocator_waits_for_the_copies_that_used_a_block():
    ops = [pinned("h"), alloc("d"), launch("copy", reads="h", writes="d"), op("free", t="h"), pinned("g", reuse="h")]
    assert kinds(*ops, op("host_write", t="g")) == []


def test_the_host_writes_a_pinned_buffer_that_is_still_being_sent():
    ops = [pinned("h"), alloc("d"), launch("copy", reads="h", writes="d"), op("host_write", t="h")]
    assert kinds(*ops) == [RaceKind.HOST]


def test_what_the_host_wrote_before_a_launch_is_there():
    assert kinds(pinned("h"), alloc("d"), op("host_write", t="h"), launch("s1", reads="h", writes="d")) == []


def test_interleaved_columns_do_not_race_and_shifted_ones_do():
    left, right, shifted = "m[0:992:64:32]", "m[32:1024:64:32]", "m[31:1000:64:32]"
    assert kinds(alloc("m"), launch("s1", writes=[left]), launch("s2", writes=[right])) == []
    assert kinds(alloc("m"), launch("s1", writes=[left]), launch("s2", writes=[shifted])) != []


def test_strides_that_never_meet():
    evens, threes = "m[0:1024:6:1]", "m[1:1024:4:1]"  # 6a = 1 + 4b has no solution: the left is even
    assert kinds(alloc("m"), launch("s1", writes=[evens]), launch("s2", writes=[threes])) == []


def test_an_operation_does_not_race_with_itself():
    assert kinds(alloc("a"), launch("s1", reads="a", writes="a")) == []


def test_five_hundred_reads_and_one_write_are_one_finding():
    reads = [launch("s1", reads="a") for _ in range(500)]
    assert kinds(alloc("a"), *reads, launch("s2", writes="a")) == [RaceKind.WRITE_AFTER_READ]


def test_empty_tensors_touch_nothing():
    assert kinds(alloc("a", size=0), launch("s1", writes="a"), launch("s2", writes="a")) == []


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (op("dance"), "op 1.*invalid value for op: 'dance'; expected one of 'alloc'"),
        (op("launch", stream="s0"), "lacks the field 'reads'"),
        (launch("s0", writes=["b"]), "'b' was never allocated"),
        (launch("s0", writes=["a[0:2000]"]), "reaches byte 2000 of 1024"),
        (launch("s0", writes=["a[9:3]"]), "ends before it starts"),
        (launch("s0", writes=["a[0:8:2]"]), "a step and no run"),
        (launch("s0", writes=["a[0:8:0:1]"]), "step of 0"),
        (launch("s0", writes=["a[x]"]), "is not an access"),
        ("launch", "expected a mapping"),
        ({}, "lacks the field 'op'"),
    ],
)
def test_a_bad_record_states_where_and_what_was_expected(bad, message):
    with pytest.raises(CudalensError, match=message):
        replay([alloc("a"), bad])
