"""Each kind of synchronisation: no race where it orders two accesses, a race where it comes too early or is elsewhere.

Every program writes `a` on stream s1, synchronises, and reads `a` on stream s2. The same synchronisation before the
write orders nothing that follows it, so the read races. Each program also runs on streams and a host that have worked
and synchronised before: what a stream took in then is out of date.
"""

import pytest

from cudalens.sanitizer import RaceKind, replay

WRITER, READER = "s1", "s2"


def launch(stream, reads=(), writes=()):
    return {"op": "launch", "stream": stream, "reads": list(reads), "writes": list(writes)}


def op(kind, **fields):
    return {"op": kind, **fields}


def ordered(before, after, event="e"):
    return [op("event_record", event=event, stream=before), op("event_wait", event=event, stream=after)]


def host_and_event(kind):
    return [op("event_record", event="e", stream=WRITER), op(kind, event="e")]


ALLOCATED = [
    op("alloc", t="a", bytes=64, stream="s0"),
    op("alloc", t="scratch", bytes=64, stream="s0"),
    op("alloc", t="input", bytes=64, stream="s0"),
    op("alloc", t="h", bytes=64, host=True),
]
WRITE, READ = launch(WRITER, writes="a"), launch(READER, reads="a")
BLOCKING = [op("stream_create", stream=s, blocking=True) for s in (WRITER, READER)]
EDGES = {
    "event wait": ordered(WRITER, READER),
    "event wait over a third stream": ordered(WRITER, "s3") + ordered("s3", READER, "f"),
    "event wait over work of a third stream": [
        *ordered(WRITER, "s3"),
        launch("s3", writes=["scratch"]),
        *ordered("s3", READER, "f"),
    ],
    "event wait over a third stream of another device": ordered(WRITER, "1/s3") + ordered("1/s3", READER, "f"),
    "event synchronize": host_and_event("event_sync"),
    "event query": host_and_event("event_query"),
    "event synchronize of a later event": [*ordered(WRITER, "s3"), *host_and_event("event_sync")],
    "stream synchronize": [op("stream_sync", stream=WRITER)],
    "stream query": [op("stream_query", stream=WRITER)],
    "stream synchronize of a stream that waited": [*ordered(WRITER, "s3"), op("stream_sync", stream="s3")],
    "device synchronize": [op("device_sync", device=0)],
    "device synchronize of a device that waited": [*ordered(WRITER, "1/s3"), op("device_sync", device=1)],
    "default stream": [launch("s0", writes=["scratch"])],
    "event of the default stream": ordered("s0", READER),
    "event recorded on the default stream": [op("event_record", event="e", stream="s0")],
    "event wait on the default stream": ordered("s3", "s0"),
    "stream synchronize of the default stream": [op("stream_sync", stream="s0")],
}
NEEDS_BLOCKING = {kind for kind in EDGES if "default stream" in kind}
NOT_EDGES = {
    "nothing": [],
    "event wait of the writer for the reader": ordered(READER, WRITER),
    "event wait of a third stream": ordered(WRITER, "s3"),
    "event wait for a third stream": ordered("s3", READER),
    "record alone": [op("event_record", event="e", stream=WRITER)],
    "wait for an event that was never recorded": [op("event_wait", event="never", stream=READER)],
    "wait for a deleted event": [
        op("event_record", event="e", stream=WRITER),
        op("event_delete", event="e"),
        op("event_wait", event="e", stream=READER),
    ],
    "event synchronize of an event that was never recorded": [op("event_sync", event="never")],
    "stream synchronize of the reader": [op("stream_sync", stream=READER)],
    "stream query of the reader": [op("stream_query", stream=READER)],
    "device synchronize of another device": [op("device_sync", device=1)],
    "default stream without blocking streams": [launch("s0", writes=["scratch"])],
    "default stream of another device": [launch("1/s0", writes=["scratch"])],
    "host write": [op("host_write", t="h")],
}
HISTORIES = {
    "fresh streams": [],
    "streams that worked": [launch(WRITER, reads=["input"]), launch(READER, reads=["input"])],
    "streams that were synchronised": [
        launch(WRITER, reads=["input"]),
        launch(READER, reads=["input"]),
        op("device_sync", device=0),
        launch(WRITER, reads=["input"]),
        launch(READER, reads=["input"]),
    ],
    "streams that waited for each other": [
        launch(WRITER, reads=["input"]),
        *ordered(WRITER, READER, "old"),
        launch(READER, reads=["input"]),
        *ordered(READER, WRITER, "old"),
        launch(WRITER, reads=["input"]),
    ],
}


@pytest.fixture(params=list(HISTORIES))
def history(request):
    return HISTORIES[request.param]


def kinds(*ops):
    return [race.kind for race in replay([*ALLOCATED, *ops])]


def prologue(kind, history):
    return [*(BLOCKING if kind in NEEDS_BLOCKING else []), *history]


@pytest.mark.parametrize("kind", EDGES)
def test_an_edge_between_a_write_and_a_read_orders_them(kind, history):
    assert kinds(*prologue(kind, history), WRITE, *EDGES[kind], READ) == []


@pytest.mark.parametrize("kind", EDGES)
def test_an_edge_before_the_write_does_not_order_the_read(kind, history):
    assert kinds(*prologue(kind, history), *EDGES[kind], WRITE, READ) == [RaceKind.READ_AFTER_WRITE]


@pytest.mark.parametrize("kind", EDGES)
def test_an_edge_orders_nothing_that_is_written_after_it(kind, history):
    """The second write needs an edge of its own: the first one has ordered the first write alone."""
    edge = EDGES[kind]
    ordered_once = [WRITE, *edge, READ, *ordered(READER, WRITER, "back"), WRITE]
    assert kinds(*prologue(kind, history), *ordered_once, READ) == [RaceKind.READ_AFTER_WRITE]
    assert kinds(*prologue(kind, history), *ordered_once, *edge, READ) == []


@pytest.mark.parametrize("kind", EDGES)
def test_an_edge_orders_a_write_after_a_read(kind, history):
    read, write = launch(WRITER, reads="a"), launch(READER, writes="a")
    assert kinds(*prologue(kind, history), read, *EDGES[kind], write) == []
    assert kinds(*prologue(kind, history), *EDGES[kind], read, write) == [RaceKind.WRITE_AFTER_READ]


@pytest.mark.parametrize("kind", NOT_EDGES)
def test_what_is_no_edge_orders_nothing(kind, history):
    assert kinds(*history, WRITE, *NOT_EDGES[kind], READ) == [RaceKind.READ_AFTER_WRITE]


@pytest.mark.parametrize("kind", [k for k in EDGES if "synchronize" in k and k not in NEEDS_BLOCKING])
def test_what_the_host_waited_for_is_ordered_before_its_own_accesses(kind, history):
    write = launch(WRITER, writes="h")
    assert kinds(*history, write, *EDGES[kind], op("host_read", t="h")) == []
    assert kinds(*history, *EDGES[kind], write, op("host_read", t="h")) == [RaceKind.HOST]


@pytest.mark.parametrize("kind", ["event wait", "default stream", "event of the default stream"])
def test_streams_that_wait_do_not_make_the_host_wait(kind):
    write = launch(WRITER, writes="h")
    assert kinds(*prologue(kind, []), write, *EDGES[kind], op("host_read", t="h")) == [RaceKind.HOST]


def test_a_launch_is_ordered_after_what_the_host_did_before_it(history):
    write, read = op("host_write", t="h"), launch(READER, reads="h")
    assert kinds(*history, op("device_sync"), write, read) == []
    assert kinds(*history, op("device_sync"), read, write) == [RaceKind.HOST]


def test_each_host_access_is_a_step_of_its_own():
    """A stream that took in the first host write does not cover the second."""
    first, second = op("host_write", t="h"), op("host_write", t="h")
    read = launch(READER, reads="h")
    assert kinds(first, read, second) == [RaceKind.HOST]
    assert kinds(first, read, op("stream_sync", stream=READER), second, launch(WRITER, reads="h")) == []


def test_work_of_one_stream_is_ordered(history):
    assert kinds(*history, WRITE, launch(WRITER, reads="a"), WRITE) == []


def test_an_event_covers_only_what_was_there_when_it_was_recorded(history):
    late = [op("event_record", event="e", stream=WRITER), WRITE, op("event_wait", event="e", stream=READER)]
    assert kinds(*history, *late, READ) == [RaceKind.READ_AFTER_WRITE]


def test_a_stream_that_became_blocking_is_ordered_with_the_default_stream_from_then_on():
    create = op("stream_create", stream=WRITER, blocking=True)
    read = launch("s0", reads="a")
    assert kinds(launch("s0", reads="h"), create, WRITE, read) == []
    assert kinds(launch("s0", reads="h"), WRITE, create, read) == []
    assert kinds(launch("s0", reads="h"), WRITE, read, create) == [RaceKind.READ_AFTER_WRITE]


def test_a_blocking_stream_of_one_device_is_not_ordered_with_the_default_stream_of_another():
    create = op("stream_create", stream=WRITER, blocking=True)
    assert kinds(create, WRITE, launch("1/s0", reads="a")) == [RaceKind.READ_AFTER_WRITE]


@pytest.mark.parametrize("waited_for", [(), ("s1",), ("s2",), ("s3",), ("s1", "s3"), ("s2", "s3"), ("s1", "s2", "s3")])
@pytest.mark.parametrize("first", ["reads", "writes"])
def test_a_write_is_ordered_after_all_earlier_accesses_or_races(first, waited_for):
    """Several accesses that nothing orders are all remembered, not the last one alone."""
    earlier = [launch(s, **{first: "a"}) for s in ("s1", "s2", "s3")]
    edges = [each for s in waited_for for each in ordered(s, "s4", event=s)]
    program = [*ALLOCATED, *earlier, *edges, launch("s4", writes="a")]
    racing = {race.first.stream.stream for race in replay(program) if race.second.stream.stream == "s4"}
    assert racing == {"s1", "s2", "s3"} - set(waited_for)


@pytest.mark.parametrize("waited_for", [(), ("s1",), ("s2",), ("s1", "s2")])
def test_a_read_is_ordered_after_all_earlier_writes_or_races(waited_for):
    edges = [each for s in waited_for for each in ordered(s, "s4", event=s)]
    program = [*ALLOCATED, launch("s1", writes="a"), launch("s2", writes="a"), *edges, launch("s4", reads="a")]
    racing = {race.first.stream.stream for race in replay(program) if race.second.stream.stream == "s4"}
    assert racing == {"s1", "s2"} - set(waited_for)


def test_a_read_before_a_write_of_its_stream_is_not_reported_again():
    read, write = launch("s1", reads="a"), launch("s1", writes="a")
    assert kinds(read, write, launch("s2", writes="a")) == [RaceKind.WRITE_AFTER_WRITE]


@pytest.mark.parametrize("late", [False, True])
def test_the_allocator_waits_for_what_a_recorded_stream_held_at_the_free_and_for_nothing_later(late):
    read = launch("s1", reads="a")
    freed = [read, op("record_stream", t="a", stream="s1"), op("free", t="a"), *([read] if late else [])]
    again = [op("alloc", t="b", bytes=64, stream="s0", reuse="a"), launch("s0", writes="b")]
    assert kinds(*freed, *again) == ([RaceKind.USE_AFTER_FREE] if late else [])


@pytest.mark.parametrize("first", ["a", "a[0:16]"])
@pytest.mark.parametrize("part", ["a[8:24]", "a[8:64:16:8]"])
def test_a_write_of_some_bytes_leaves_what_was_done_to_the_others(first, part):
    """The second write is ordered after the first; a read of the bytes that it left alone races with the first."""
    overwritten = [launch("s1", writes=[first]), *ordered("s1", "s2"), launch("s2", writes=[part])]
    assert kinds(*overwritten, launch("s3", reads=["a[0:4]"])) == [RaceKind.READ_AFTER_WRITE]
    assert kinds(*overwritten, *ordered("s2", "s3", "f"), launch("s3", reads=["a[0:64]"])) == []


def test_a_write_that_races_leaves_what_was_done_to_other_bytes():
    earlier = [launch("s1", writes=["a[0:16]"]), launch("s2", writes=["a[16:24]"])]
    racing = [*ordered("s1", "s3"), launch("s3", writes=["a[8:20]"])]
    assert kinds(*earlier, *racing) == [RaceKind.WRITE_AFTER_WRITE]
    assert kinds(*earlier, *racing, launch("s4", reads=["a[0:8]"])) == [
        RaceKind.WRITE_AFTER_WRITE,
        RaceKind.READ_AFTER_WRITE,
    ]


def test_a_read_does_not_hide_the_write_before_it():
    """Neither where the read alone is ordered after the write, nor while other reads are not."""
    ops = [WRITE, *ordered("s1", "s2"), launch("s2", reads="a"), launch("s3", reads="a"), launch("s2", reads="a")]
    assert kinds(*ops) == [RaceKind.READ_AFTER_WRITE]
    assert kinds(*ops, launch("s4", reads="a")) == [RaceKind.READ_AFTER_WRITE] * 2


@pytest.mark.parametrize("size", [16, 64])
def test_the_allocator_waits_for_recorded_streams_whatever_part_it_hands_out_again(size):
    freed = [launch("s1", reads="a"), op("record_stream", t="a", stream="s1"), op("free", t="a")]
    assert kinds(*freed, op("alloc", t="b", bytes=size, stream="s0", reuse="a"), launch("s0", writes="b")) == []
