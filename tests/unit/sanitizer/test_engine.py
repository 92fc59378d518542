"""The engine against an obvious oracle: reachability in the explicit happens-before graph, byte by byte."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cudalens.sanitizer import replay
from cudalens.sanitizer.engine import (
    Access,
    Alloc,
    Detector,
    DeviceSync,
    EventRecord,
    EventWait,
    Free,
    Launch,
    Region,
    StreamCreate,
    StreamId,
)

STREAMS = ["s0", "s1", "s2", "s3"]
BLOCKING = "s3"
SIZE = 24

tensors = st.sampled_from(["a", "b", "h"])
streams = st.sampled_from(STREAMS)
events = st.sampled_from(["e", "f"])


@st.composite
def accesses(draw):
    name = draw(tensors)
    low = draw(st.integers(0, SIZE - 1))
    high = draw(st.integers(low + 1, SIZE))
    if draw(st.booleans()):
        return f"{name}[{low}:{high}]"
    step = draw(st.integers(1, 6))
    places = -(-(high - low) // step)
    last = low + (places - 1) * step
    return f"{name}[{low}:{high}:{step}:{draw(st.integers(1, min(3, SIZE - last)))}]"


operations = st.one_of(
    st.fixed_dictionaries(
        {
            "op": st.just("launch"),
            "stream": streams,
            "reads": st.lists(accesses(), max_size=2),
            "writes": st.lists(accesses(), max_size=1),
        }
    ),
    st.fixed_dictionaries({"op": st.just("event_record"), "event": events, "stream": streams}),
    st.fixed_dictionaries({"op": st.just("event_wait"), "event": events, "stream": streams}),
    st.fixed_dictionaries({"op": st.sampled_from(["event_sync", "event_query", "event_delete"]), "event": events}),
    st.fixed_dictionaries({"op": st.sampled_from(["stream_sync", "stream_query"]), "stream": streams}),
    st.just({"op": "device_sync"}),
    st.fixed_dictionaries({"op": st.sampled_from(["host_read", "host_write"]), "t": st.just("h")}),
)

PROLOGUE = [
    {"op": "alloc", "t": "a", "bytes": SIZE, "stream": "s0"},
    {"op": "alloc", "t": "b", "bytes": SIZE, "stream": "s0"},
    {"op": "alloc", "t": "h", "bytes": SIZE, "host": True},
    {"op": "stream_create", "stream": BLOCKING, "blocking": True},
]


def touched_bytes(text):
    """Tensor and set of byte offsets of an access, the slow way."""
    name, _, rest = text.partition("[")
    if not rest:
        return name, set(range(SIZE))
    numbers = [int(n) for n in rest[:-1].split(":")]
    if len(numbers) == 2:
        return name, set(range(*numbers))
    low, high, step, run = numbers
    return name, {at + i for at in range(low, high, step) for i in range(run)}


class Graph:
    """Nodes are operations; ``before[n]`` is every node that is done when n begins, by construction of edges."""

    def __init__(self, ops):
        self.before, self.touches = [], []
        self.host, self.last, self.recorded = None, {}, {}
        for operation in ops:
            getattr(self, operation["op"], self.ignore)(**{k: v for k, v in operation.items() if k != "op"})

    def node(self, parents, touches=()):
        known = set()
        for parent in parents:
            if parent is not None:
                known |= self.before[parent] | {parent}
        self.before.append(known)
        self.touches.append(list(touches))
        return len(self.before) - 1

    def ignore(self, **fields):
        pass

    def predecessors(self, stream):
        others = [BLOCKING] if stream == "s0" else ["s0"] if stream == BLOCKING else []
        return [self.last.get(s) for s in [stream, *others]]

    def enqueue(self, stream, more=(), touches=()):
        self.last[stream] = self.node([self.host, *self.predecessors(stream), *more], touches)
        return self.last[stream]

    def launch(self, stream, reads, writes):
        self.enqueue(
            stream, touches=[(False, *touched_bytes(r)) for r in reads] + [(True, *touched_bytes(w)) for w in writes]
        )

    def event_record(self, event, stream):
        # A record is a point in the stream, and no work of its own.
        self.recorded[event] = self.node([self.host, *self.predecessors(stream)])

    def event_wait(self, event, stream):
        if event in self.recorded:
            self.last[stream] = self.node([self.last.get(stream), self.recorded[event]])

    def event_sync(self, event):
        self.host = self.node([self.host, self.recorded.get(event)])

    event_query = event_sync

    def event_delete(self, event):
        self.recorded.pop(event, None)

    def stream_sync(self, stream):
        self.host = self.node([self.host, *self.predecessors(stream)])

    stream_query = stream_sync

    def device_sync(self):
        self.host = self.node([self.host, *self.last.values()])

    def host_read(self, t):
        self.host = self.node([self.host], [(False, *touched_bytes(t))])

    def host_write(self, t):
        self.host = self.node([self.host], [(True, *touched_bytes(t))])

    def racing_tensors(self):
        racing = set()
        for one, two in combinations(range(len(self.before)), 2):
            if one in self.before[two]:
                continue
            for write, name, these in self.touches[one]:
                for other_write, other_name, those in self.touches[two]:
                    if (write or other_write) and name == other_name and these & those:
                        racing.add(name)
        return racing


@settings(deadline=None, max_examples=5 * settings().max_examples)
@given(st.lists(operations, max_size=16))
def test_the_engine_agrees_with_the_happens_before_graph(ops):
    program = PROLOGUE + ops
    found = set().union(*(race.tensors for race in replay(program)))
    assert found == Graph(program).racing_tensors()


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


@settings(max_examples=500)
@given(regions, regions)
def test_overlap_and_cover_agree_with_the_sets_of_bytes(one, two):
    assert one.overlaps(two) == bool(bytes_of(one) & bytes_of(two))
    assert one.end == max(bytes_of(one)) + 1
    if one.is_contiguous:
        assert bytes_of(one) == set(range(one.start, one.end))
    if one.covers(two):
        assert bytes_of(two) <= bytes_of(one)


def test_memory_does_not_grow_with_the_number_of_reads():
    detector, weight = Detector(), Access("weight", Region(512, 4096))
    detector.add(Alloc("weight", weight.region, StreamId(0, 0)))
    for i in range(10_000):
        detector.add(Launch(StreamId(0, i % 3), (weight,), ()))
    assert detector.num_touches == 3


def test_memory_does_not_grow_with_steps_that_reuse_a_block():
    detector, stream = Detector(), StreamId(0, 0)
    for step in range(1_000):
        block = Access(f"activation{step}", Region(512, 4096))
        detector.add(Alloc(block.tensor, block.region, stream))
        detector.add(Launch(stream, (), (block,)))
        detector.add(Launch(stream, (block,), ()))
        detector.add(Free(block.tensor, block.region))
    assert detector.num_touches <= 2
    assert detector.races == []


def test_what_is_no_record_is_refused():
    with pytest.raises(TypeError, match="no record of the sanitizer"):
        Detector().add("launch")


def test_repeated_races_are_one_finding_with_a_count():
    detector, t = Detector(), Access("t", Region(512, 64))
    detector.add(Alloc("t", t.region, StreamId(0, 0)))
    for _ in range(3):
        detector.add(Launch(StreamId(0, 1), (), (t,), "fill", "In[1]:2"))
        detector.add(Launch(StreamId(0, 2), (t,), (), "sum", "In[1]:4"))
    keys = {race.key: detector.counts[race.key] for race in detector.races}
    assert sorted(keys.values()) == [2, 3]


allocator_acts = st.one_of(
    st.tuples(st.just("alloc"), st.integers(0, 7), st.integers(1, 4)),
    st.tuples(st.just("touch"), st.integers(0, 3), streams, st.integers(0, 7), st.integers(1, 8), st.booleans()),
    st.tuples(st.just("order"), streams, streams),
    st.tuples(st.just("sync")),
)


@settings(deadline=None, max_examples=3 * settings().max_examples)
@given(st.lists(allocator_acts, max_size=14))
def test_blocks_that_are_cut_and_joined_keep_what_touched_their_bytes(acts):
    """Allocations at any addresses, each in the place of those it overlaps: races are those of the bytes themselves."""
    detector, graph, lives, unit = Detector(), Graph([]), [], 8
    detector.add(StreamCreate(StreamId(0, BLOCKING), is_blocking=True))
    found = False
    for act, *fields in acts:
        if act == "alloc":
            start, size = fields
            region = Region(512 + unit * start, unit * size)
            lives = [r for r in lives if r.end <= region.start or region.end <= r.start] + [region]
            detector.add(Alloc("t", region, StreamId(0, 0)))
        elif act == "touch" and lives:
            which, stream, low, size, is_write = fields
            block = lives[which % len(lives)]
            low = min(low * 4, block.run - 1)
            part = Region(block.start + low, min(size * 3, block.run - low))
            access = (Access("t", part),)
            stream_id = StreamId(0, 0 if stream == "s0" else stream)
            found |= bool(detector.add(Launch(stream_id, () if is_write else access, access if is_write else ())))
            graph.enqueue(stream, touches=[(is_write, "t", set(range(part.start, part.end)))])
        elif act == "order":
            before, after = fields
            ids = [StreamId(0, 0 if s == "s0" else s) for s in (before, after)]
            detector.add(EventRecord("e", ids[0]))
            detector.add(EventWait("e", ids[1]))
            graph.event_record("e", before)
            graph.event_wait("e", after)
        elif act == "sync":
            detector.add(DeviceSync(0))
            graph.device_sync()
    assert found == bool(graph.racing_tensors())
