"""Properties: the allocator's state equals a slow recount; a linear search finds the same blocks."""

from __future__ import annotations

from itertools import pairwise

import pytest
from budget import examples
from fake_host import MIB, OutOfMemory, make
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

_SIZES = st.one_of(
    st.integers(1, 4096),
    st.integers(1, 3 * MIB),
    st.integers(1, 64 * MIB),
    st.sampled_from(
        [512, 513, MIB - 1, MIB, MIB + 1, 2 * MIB, 10 * MIB - 1, 10 * MIB, 10 * MIB + 1, 20 * MIB, 32 * MIB]
    ),
)
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("malloc"), _SIZES, st.sampled_from([0, 0, 0, 64, 72])),
        st.tuples(st.just("free"), st.integers(0, 10**6)),
        st.tuples(st.just("free"), st.integers(0, 10**6)),
        st.tuples(st.just("use"), st.integers(0, 10**6), st.sampled_from([0, 64, 72])),
        st.tuples(st.just("finish"), st.sampled_from([0, 64, 72])),
        st.tuples(st.just("empty_cache")),
        st.tuples(st.just("capture")),
        st.tuples(st.just("release_pool")),
        st.tuples(st.just("empty_pool")),
    ),
    max_size=60,
)
_CONFS = [
    "",
    "expandable_segments:True",
    "max_split_size_mb:32",
    "max_split_size_mb:24,max_non_split_rounding_mb:21",
    "roundup_power2_divisions:[1:4,8:2,>:1]",
    "garbage_collection_threshold:0.3,per_process_memory_fraction:0.9",
    "large_segment_size_mb:32,expandable_segments:True",
]
_POOL = (0, 7)


class _Program:
    """Runs steps; checks the invariants after each."""

    def __init__(self, conf):
        self.allocator, self.host = make(total=256 * MIB, conf=conf, context_bytes=4 * MIB)
        self.live, self.num_failures, self.holds = [], 0, 0

    def run(self, steps):
        for name, *arguments in steps:
            getattr(self, name)(*arguments)
            check(self.allocator)

    def malloc(self, num_bytes, stream):
        try:
            block = self.allocator.malloc(num_bytes, stream)
        except OutOfMemory:
            self.num_failures += 1
            return
        assert block.requested_size == num_bytes <= block.size
        assert block.stream == stream
        assert not any(block.address < b.address + b.size and b.address < block.address + block.size for b in self.live)
        self.live.append(block)

    def free(self, which):
        if self.live:
            self.allocator.free(self.live.pop(which % len(self.live)))

    def use(self, which, stream):
        if self.live:
            self.allocator.record_stream(self.live[which % len(self.live)], stream)

    def finish(self, stream):
        self.host.finish(stream)

    def empty_cache(self):
        self.allocator.empty_cache()

    def capture(self):
        if self.host.capturing:
            self.host.capturing = False
            self.allocator.end_allocate_to_pool(_POOL)
        elif self.holds or _POOL not in self.allocator.pool_ids():
            self.allocator.begin_allocate_to_pool(_POOL, lambda stream: stream == 64)
            self.holds += 1
            self.host.capturing = True

    def release_pool(self):
        if self.holds and not self.host.capturing:
            self.allocator.release_pool(_POOL)
            self.holds -= 1

    def empty_pool(self):
        if not self.host.capturing:
            self.allocator.empty_cache(_POOL)


def check(allocator):
    segments = sorted(allocator._reserve.segments.values(), key=lambda s: s.address)
    for left, right in pairwise(segments):
        assert left.address + left.size <= right.address
    for segment in segments:
        check_tiling(segment)
    blocks = [b for s in segments for b in s.blocks()]
    check_free_sets(allocator, blocks)
    check_counters(allocator, segments, blocks)


def check_tiling(segment):
    here, previous = segment.address, None
    for block in segment.blocks():
        assert (block.address, block.prev, block.segment) == (here, previous, segment)
        if previous is not None and not previous.is_active and not block.is_active:
            assert previous.mapped != block.mapped  # else they would be one
        here, previous = here + block.size, block
    assert here == segment.address + segment.size
    assert segment.mapped_bytes == sum(b.size for b in segment.blocks() if b.mapped)


def check_free_sets(allocator, blocks):
    pools = list(allocator._heap.pools)
    free = {id(b) for pool in pools for b in pool}
    unmapped = {id(b) for pool in pools for stream in pool._unmapped for b in pool.unmapped(stream)}
    assert free == {id(b) for b in blocks if not b.is_active and b.mapped}
    assert unmapped == {id(b) for b in blocks if not b.mapped}
    for pool in pools:
        listed = list(pool)
        assert [(b.stream, b.size, b.address) for b in listed] == sorted((b.stream, b.size, b.address) for b in listed)
        assert all(b.pool is pool for b in listed)


def check_counters(allocator, segments, blocks):
    stats = allocator.stats()
    for kind, wanted in (("all", (True, False)), ("small_pool", (True,)), ("large_pool", (False,))):
        mine = [b for b in blocks if b.pool.is_small in wanted]
        live, active = [b for b in mine if b.is_allocated], [b for b in mine if b.is_active]
        split = [b for b in mine if not b.is_active and b.is_split and not b.segment.is_expandable]
        whole = [s for s in segments if s.head.pool.is_small in wanted]
        expected = {
            "allocation": len(live),
            "allocated_bytes": sum(b.size for b in live),
            "active": len(active),
            "active_bytes": sum(b.size for b in active),
            "requested_bytes": sum(b.requested_size for b in active),
            "inactive_split": len(split),
            "inactive_split_bytes": sum(b.size for b in split),
            "segment": sum(not s.is_expandable for s in whole),
            "reserved_bytes": sum(s.mapped_bytes for s in whole),
        }
        assert {name: stats[name][kind]["current"] for name in expected} == expected
        for name in expected:
            row = stats[name][kind]
            assert row["allocated"] - row["freed"] == row["current"] <= row["peak"] <= row["allocated"]
    free, total = allocator.memory_info()
    assert total - free - 4 * MIB == stats["reserved_bytes"]["all"]["current"]
    assert free >= 0
    for pool_id, rows in stats["reserved_bytes_by_private_pools"].items():
        mine = sum(s.mapped_bytes for s in segments if s.head.pool_id == pool_id)
        assert rows["all"]["current"] == mine == rows["small_pool"]["current"] + rows["large_pool"]["current"]


@pytest.mark.parametrize("conf", _CONFS)
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=_STEPS)
def test_the_state_equals_a_recount_after_every_step(conf, steps):
    program = _Program(conf)
    program.run(steps)
    if program.host.capturing:
        program.capture()
    for block in program.live:
        program.allocator.free(block)
    while program.holds:
        program.release_pool()
    program.allocator.empty_cache()
    check(program.allocator)
    assert program.allocator.reserved_bytes == 0
    assert program.allocator.pool_ids() == []


@settings(max_examples=examples(60), deadline=None)
@given(steps=_STEPS, conf=st.sampled_from(_CONFS))
def test_equal_programs_leave_equal_traces(steps, conf):
    traces = []
    for _ in range(2):
        program = _Program(conf)
        program.allocator.record_history("all", None)
        program.run(steps)
        traces.append((program.allocator.snapshot(), program.host.log, program.num_failures))
    assert traces[0] == traces[1]


class _Naive:
    """The allocator's rules by linear search over all blocks of all segments; one stream per segment, no options."""

    def __init__(self):
        self.segments = []  # [stream, is_small, [[size, is_free], ...]]

    def malloc(self, num_bytes, stream):
        """(segment number, offset, size) of the block."""
        size = max(1, -(-num_bytes // 512)) * 512
        small = size <= MIB
        best = None
        for s, (its_stream, its_small, blocks) in enumerate(self.segments):
            for b, (block_size, is_free) in enumerate(blocks):
                fits = is_free and its_stream == stream and its_small == small and block_size >= size
                if fits and (best is None or block_size < best[0]):
                    best = (block_size, s, b)
        if best is None:
            length = 2 * MIB if small else 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
            self.segments.append([stream, small, [[length, True]]])
            best = (length, len(self.segments) - 1, 0)
        blocks = self.segments[best[1]][2]
        rest = best[0] - size
        if rest >= 512 if small else rest > MIB:
            blocks[best[2] : best[2] + 1] = [[size, False], [rest, True]]
        else:
            blocks[best[2]][1] = False
        return best[1], sum(block[0] for block in blocks[: best[2]]), blocks[best[2]][0]

    def free(self, segment, offset):
        blocks, merged = self.segments[segment][2], []
        for size, is_free in blocks:
            is_free = is_free or offset == 0
            offset -= size
            if is_free and merged and merged[-1][1]:
                merged[-1][0] += size
            else:
                merged.append([size, is_free])
        blocks[:] = merged


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("malloc"), _SIZES, st.sampled_from([0, 0, 64])),
            st.tuples(st.just("free"), st.integers(0, 999)),
        ),
        max_size=80,
    )
)
def test_every_block_is_where_a_linear_search_puts_it(steps):
    allocator, host = make(total=1 << 40)
    naive, live = _Naive(), []
    for name, *arguments in steps:
        if name == "malloc":
            block, place = allocator.malloc(*arguments), naive.malloc(*arguments)
            starts = [address for action, address, _ in host.log if action == "segment_alloc"]
            assert (block.address - starts[place[0]], block.size) == place[1:]
            live.append((block, place))
        elif live:
            block, place = live.pop(arguments[0] % len(live))
            allocator.free(block)
            naive.free(*place[:2])
