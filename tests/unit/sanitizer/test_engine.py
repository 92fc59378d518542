"""The engine against an obvious oracle: reachability in the explicit happens-before graph, byte by byte."""

import pytest
from budget import examples
from happens_before import BLOCKING, SIZE, Graph
from hypothesis import given, settings
from hypothesis import strategies as st

from cudalens.sanitizer.engine import (
    Detector,
    DeviceSynchronized,
    EventRecorded,
    EventWaited,
    MemoryAllocated,
    MemoryFreed,
    OperatorLaunched,
    Region,
    StreamCreated,
    StreamId,
    TensorBytes,
)
from cudalens.sanitizer.replay import records_of

STREAMS = ["s0", "s1", "s2", *BLOCKING]
ACCESSING = ("launch", "host_read", "host_write")

tensors = st.sampled_from(["a", "a", "a", "b", "h"])  # most accesses meet others of the same tensor
streams = st.sampled_from(STREAMS)
events = st.sampled_from(["e", "f"])


def weighted(*choices):
    """Draws from one of the strategies, each given with its weight."""
    return st.sampled_from([strategy for weight, strategy in choices for _ in range(weight)]).flatmap(lambda one: one)


@st.composite
def parts(draw):
    """Some bytes of a tensor: a slice, or a run of bytes at every step."""
    name = draw(tensors)
    low = draw(st.integers(0, SIZE - 1))
    high = draw(st.integers(low + 1, SIZE))
    if draw(st.booleans()):
        return f"{name}[{low}:{high}]"
    step = draw(st.integers(1, 6))
    places = -(-(high - low) // step)
    last = low + (places - 1) * step
    return f"{name}[{low}:{high}:{step}:{draw(st.integers(1, min(3, SIZE - last)))}]"


accesses = weighted((3, tensors), (2, parts()))


def op(kind, **fields):
    return st.fixed_dictionaries({"op": st.just(kind)} | fields)


def launch(max_reads, max_writes):
    reads, writes = (st.lists(accesses, min_size=1, max_size=n) if n else st.just([]) for n in (max_reads, max_writes))
    return op("launch", stream=streams, reads=reads, writes=writes).map(lambda launch: [launch])


def in_order(*ops):
    return st.tuples(*ops).map(list)


@st.composite
def event_edges(draw):
    """One stream waits for another, as programs do it: an event recorded, then waited for."""
    event, before, after = draw(events), draw(streams), draw(streams)
    return [
        {"op": "event_record", "event": event, "stream": before},
        {"op": "event_wait", "event": event, "stream": after},
    ]


@st.composite
def reuses(draw):
    """A tensor is freed and its memory handed out again, with or without record_stream and a late kernel."""
    tensor = draw(tensors)
    recorded = [{"op": "record_stream", "t": tensor, "stream": draw(streams)}] if draw(st.booleans()) else []
    late = draw(launch(1, 1)) if draw(st.booleans()) else []
    again = {"op": "alloc", "t": tensor, "bytes": SIZE, "stream": "s0", "host": tensor == "h", "reuse": tensor}
    return [*recorded, {"op": "free", "t": tensor}, *late, again]


work = weighted(
    (3, launch(2, 0)),
    (3, launch(0, 1)),
    (2, launch(1, 1)),
    (2, in_order(op("host_read", t=st.just("h")))),
    (2, in_order(op("host_write", t=st.just("h")))),
)
synchronisation = weighted(
    (3, event_edges()),
    (2, in_order(op("event_record", event=events, stream=streams))),
    (2, in_order(op("event_wait", event=events, stream=streams))),
    (2, in_order(op("event_sync", event=events))),
    (1, in_order(op("event_query", event=events))),
    (1, in_order(op("event_delete", event=events))),
    (2, in_order(op("stream_sync", stream=streams))),
    (1, in_order(op("stream_query", stream=streams))),
    (2, in_order(op("device_sync"))),
    (3, reuses()),
)
phases = st.lists(st.one_of(work, synchronisation), min_size=6, max_size=14)
programs = phases.map(lambda groups: [each for group in groups for each in group])

PROLOGUE = [
    {"op": "alloc", "t": "a", "bytes": SIZE, "stream": "s0"},
    {"op": "alloc", "t": "b", "bytes": SIZE, "stream": "s0"},
    {"op": "alloc", "t": "h", "bytes": SIZE, "host": True},
    *({"op": "stream_create", "stream": stream, "blocking": True} for stream in BLOCKING),
]


@settings(deadline=None, max_examples=examples(500))
@given(programs)
def test_the_engine_agrees_with_the_happens_before_graph(ops):
    program, detector = PROLOGUE + ops, Detector()
    found = [bool(detector.add(record)) for record in records_of(program)]
    assert [race for race, op in zip(found, program, strict=True) if op["op"] in ACCESSING] == Graph(program).racing()


regions = st.builds(
    Region,
    start=st.integers(0, 12),
    run=st.integers(1, 3),
    shape=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    strides=st.tuples(st.integers(0, 9), st.integers(0, 9)),
)


def bytes_of(region):
    return {
        region.start + i * region.strides[0] + j * region.strides[1] + k
        for i in range(region.shape[0])
        for j in range(region.shape[1])
        for k in range(region.run)
    }


@settings(max_examples=examples(500))
@given(regions, regions)
def test_overlap_and_cover_agree_with_the_sets_of_bytes(one, two):
    assert one.overlaps(two) == bool(bytes_of(one) & bytes_of(two))
    assert one.end == max(bytes_of(one)) + 1
    if one.is_contiguous:
        assert bytes_of(one) == set(range(one.start, one.end))
    if one.covers(two):
        assert bytes_of(two) <= bytes_of(one)


def test_memory_does_not_grow_with_the_number_of_reads():
    detector, weight = Detector(), TensorBytes("weight", Region(512, 4096))
    detector.add(MemoryAllocated("weight", weight.region, StreamId(0, 0)))
    for i in range(10_000):
        detector.add(OperatorLaunched(StreamId(0, i % 3), (weight,), ()))
    assert detector.num_touches == 3


def test_memory_does_not_grow_with_steps_that_reuse_a_block():
    detector, stream = Detector(), StreamId(0, 0)
    for step in range(1_000):
        block = TensorBytes(f"activation{step}", Region(512, 4096))
        detector.add(MemoryAllocated(block.tensor, block.region, stream))
        detector.add(OperatorLaunched(stream, (), (block,)))
        detector.add(OperatorLaunched(stream, (block,), ()))
        detector.add(MemoryFreed(block.tensor, block.region))
    assert detector.num_touches <= 2
    assert detector.races == []


def test_what_is_no_record_is_refused():
    with pytest.raises(TypeError, match="is not a record of the sanitizer"):
        Detector().add("launch")


def test_an_access_beyond_its_allocation_is_refused():
    detector = Detector()
    detector.add(MemoryAllocated("t", Region(512, 64), StreamId(0, 0)))
    with pytest.raises(ValueError, match="'t': bytes 0x220 to 0x260 lie in no allocation"):
        detector.add(OperatorLaunched(StreamId(0, 0), (TensorBytes("t", Region(544, 64)),), ()))


@pytest.mark.parametrize(("taken", "left"), [((512, 32), (544, 32)), ((544, 32), (512, 32)), ((528, 16), (544, 32))])
def test_the_rest_of_a_block_that_was_taken_in_part_keeps_what_touched_it(taken, left):
    """A block of 64 bytes gives a part of its bytes to a new one; a third one takes the rest."""
    detector, late, early = Detector(), StreamId(0, 1), StreamId(0, 2)
    detector.add(MemoryAllocated("whole", Region(512, 64), StreamId(0, 0)))
    detector.add(OperatorLaunched(early, (), (TensorBytes("whole", Region(512, 64)),)))
    for name, bounds in (("taken", taken), ("left", left)):
        detector.add(MemoryAllocated(name, Region(*bounds), StreamId(0, 0)))
    assert detector.add(OperatorLaunched(late, (), (TensorBytes("left", Region(*left)),)))


def test_repeated_races_are_one_finding_with_a_count():
    detector, t = Detector(), TensorBytes("t", Region(512, 64))
    detector.add(MemoryAllocated("t", t.region, StreamId(0, 0)))
    for _ in range(3):
        detector.add(OperatorLaunched(StreamId(0, 1), (), (t,), "fill", "In[1]:2"))
        detector.add(OperatorLaunched(StreamId(0, 2), (t,), (), "sum", "In[1]:4"))
    keys = {race.key: detector.counts[race.key] for race in detector.races}
    assert sorted(keys.values()) == [2, 3]


allocator_acts = st.one_of(
    st.tuples(st.just("alloc"), st.integers(0, 7), st.integers(1, 4)),
    st.tuples(st.just("touch"), st.integers(0, 3), streams, st.integers(0, 7), st.integers(1, 8), st.booleans()),
    st.tuples(st.just("order"), streams, streams),
    st.tuples(st.just("sync")),
)


@settings(deadline=None, max_examples=examples(300))
@given(st.lists(allocator_acts, max_size=14))
def test_blocks_that_are_cut_and_joined_keep_what_touched_their_bytes(acts):
    """Allocations at any addresses, each in the place of those it overlaps: races are those of the bytes themselves."""
    detector, graph, allocations, unit = Detector(), Graph([]), [], 8
    for stream in BLOCKING:
        detector.add(StreamCreated(StreamId(0, stream), is_blocking=True))
    found = []
    for act, *fields in acts:
        if act == "alloc":
            start, size = fields
            region = Region(512 + unit * start, unit * size)
            allocations = [r for r in allocations if r.end <= region.start or region.end <= r.start] + [region]
            detector.add(MemoryAllocated("t", region, StreamId(0, 0)))
        elif act == "touch" and allocations:
            which, stream, low, size, is_write = fields
            block = allocations[which % len(allocations)]
            low = min(low * 4, block.run - 1)
            part = Region(block.start + low, min(size * 3, block.run - low))
            access = (TensorBytes("t", part),)
            stream_id = StreamId(0, 0 if stream == "s0" else stream)
            found.append(
                bool(detector.add(OperatorLaunched(stream_id, () if is_write else access, access if is_write else ())))
            )
            graph.enqueue(stream, touches=[(is_write, "t", set(range(part.start, part.end)))])
        elif act == "order":
            before, after = fields
            ids = [StreamId(0, 0 if s == "s0" else s) for s in (before, after)]
            detector.add(EventRecorded("e", ids[0]))
            detector.add(EventWaited("e", ids[1]))
            graph.event_record("e", before)
            graph.event_wait("e", after)
        elif act == "sync":
            detector.add(DeviceSynchronized(0))
            graph.device_sync()
    assert found == graph.racing()
