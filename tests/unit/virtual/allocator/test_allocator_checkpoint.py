"""The state of a private pool, saved and restored, as torch's setCheckpointPoolState does it."""

from __future__ import annotations

import pytest
from budget import examples
from fake_host import MIB, actions, current, make
from hypothesis import given, settings
from hypothesis import strategies as st

from cudalens.virtual.allocator import parse_conf

POOL = (0, 1)
OTHER = (0, 2)


def _everything(stream):
    return True


def _pooled(conf=""):
    """An allocator whose requests are routed to a held pool."""
    allocator, host = make(conf=conf)
    allocator.begin_allocate_to_pool(POOL, _everything)
    return allocator, host


def _layout(allocator, pool=POOL):
    """Address, size and state of every block of a pool; unmapped blocks are left out."""
    return [
        (block["address"], block["size"], block["state"])
        for segment in allocator.snapshot()["segments"]
        if segment["segment_pool_id"] == pool
        for block in segment["blocks"]
    ]


def _counts(allocator):
    names = ("allocation", "allocated_bytes", "active", "active_bytes", "inactive_split", "inactive_split_bytes")
    return {
        (name, kind): current(allocator, name, kind) for name in names for kind in ("all", "small_pool", "large_pool")
    }


def test_a_block_freed_since_is_allocated_again_with_the_history_of_torch():
    allocator, _ = _pooled()
    a, b, c = (allocator.malloc(1000, 0) for _ in range(3))
    allocator.free(b)
    state = allocator.checkpoint_pool(POOL)
    before, counts = _layout(allocator), _counts(allocator)
    allocator.free(a)
    allocator.free(c)
    allocator.record_history()
    restored = allocator.restore_pool(state)
    assert restored.freed == []
    assert [block.address for block in restored.created] == [a.address, c.address]
    assert _layout(allocator) == before
    assert _counts(allocator) == counts
    tail = c.address + 1024
    assert actions(allocator) == [
        ("alloc", a.address, 1024),
        ("alloc", b.address, 1024),
        ("alloc", c.address, 1024),
        ("alloc", tail, 2 * MIB - 3072),
        ("free_requested", b.address, 1024),
        ("free_completed", b.address, 1024),
        ("free_requested", tail, 2 * MIB - 3072),
        ("free_completed", tail, 2 * MIB - 3072),
        ("snapshot", 0, 2048),
    ]


def test_a_block_allocated_since_is_freed_and_its_owner_can_still_free_its_own_block():
    allocator, _ = _pooled()
    a, b = allocator.malloc(1000, 0), allocator.malloc(1000, 0)
    state = allocator.checkpoint_pool(POOL)
    later = allocator.malloc(3000, 0)
    assert allocator.restore_pool(state).freed == [a.address, b.address, later.address]
    assert [block.address for block in allocator.live_blocks(POOL)] == [a.address, b.address]
    with pytest.raises(RuntimeError, match=f"invalid device pointer: {later.address:#x}"):
        allocator.free(later)
    allocator.record_stream(b, 64)  # b is no longer a block: the block at its address is used
    allocator.record_stream(b, 0)
    allocator.free(a)
    assert [block.address for block in allocator.live_blocks(POOL)] == [b.address]
    allocator.free(b)
    assert allocator.live_blocks(POOL) == []


def test_newer_segments_remain_and_are_free():
    allocator, host = _pooled()
    kept = allocator.malloc(3 * MIB, 0)
    state = allocator.checkpoint_pool(POOL)
    more = allocator.malloc(30 * MIB, 0)
    reserved = current(allocator, "reserved_bytes")
    allocator.restore_pool(state)
    assert current(allocator, "reserved_bytes") == reserved
    assert host.segments("segment_free") == []
    assert [block.address for block in allocator.live_blocks(POOL)] == [kept.address]
    assert allocator.malloc(30 * MIB, 0).address == more.address


def test_a_block_is_split_as_saved_regardless_of_the_current_options():
    allocator, _ = _pooled()
    a = allocator.malloc(40 * MIB, 0)
    allocator.free(a)
    small = allocator.malloc(2 * MIB, 0)
    state, before = allocator.checkpoint_pool(POOL), _layout(allocator)
    allocator.free(small)
    allocator.set_conf(parse_conf("max_split_size_mb:20"))
    allocator.restore_pool(state)
    assert _layout(allocator) == before


def test_blocks_allocated_again_get_the_new_stack_frames():
    allocator, _ = _pooled()
    allocator.malloc(1000, 0)
    state = allocator.checkpoint_pool(POOL)
    allocator.record_history(context="state")
    frames = [{"filename": "user.py", "line": 3, "name": "step"}]
    allocator.restore_pool(state, stack=lambda: frames)
    assert [block.stack for block in allocator.live_blocks(POOL)] == [frames]


def test_pools_whose_state_cannot_be_saved_or_restored():
    allocator, _ = _pooled()
    with pytest.raises(RuntimeError, match=r"^Could not find pool of id$"):
        allocator.checkpoint_pool(OTHER)
    block = allocator.malloc(1000, 0)
    state = allocator.checkpoint_pool(POOL)
    allocator.end_allocate_to_pool(POOL)
    allocator.release_pool(POOL)
    for call in (lambda: allocator.checkpoint_pool(POOL), lambda: allocator.restore_pool(state)):
        with pytest.raises(RuntimeError, match=r"^Not expected to checkpoint freeable graph$"):
            call()
    allocator.free(block)
    allocator.empty_cache()
    with pytest.raises(RuntimeError, match=r"^Could not find private pool id$"):
        allocator.restore_pool(state)


def test_a_freed_segment_cannot_be_restored():
    allocator, _ = _pooled()
    a = allocator.malloc(1000, 0)
    state = allocator.checkpoint_pool(POOL)
    allocator.free(a)
    allocator.end_allocate_to_pool(POOL)
    allocator.release_pool(POOL)
    allocator.empty_cache()
    allocator.begin_allocate_to_pool(POOL, _everything)
    with pytest.raises(RuntimeError, match=f"^ could not find {a.address:#x}$"):
        allocator.restore_pool(state)


def test_blocks_that_another_stream_may_still_use():
    allocator, host = _pooled()
    a = allocator.malloc(1000, 0)
    allocator.record_stream(a, 64)
    host.capturing = True
    allocator.free(a)  # deferred to the end of the capture
    assert allocator.checkpoint_pool(POOL)
    host.capturing = False
    with pytest.raises(RuntimeError, match=r"^Events should have synchronized when checkpointing block$"):
        allocator.checkpoint_pool(POOL)
    host.finish(64)
    allocator.malloc(10, 0)
    assert allocator.checkpoint_pool(POOL)


EXPANDABLE = "expandable_segments:True"


def test_an_expandable_segment_that_did_not_grow():
    allocator, _ = _pooled(EXPANDABLE)
    a, b = allocator.malloc(3 * MIB, 0), allocator.malloc(5 * MIB, 0)
    allocator.free(a)
    state, before, counts = allocator.checkpoint_pool(POOL), _layout(allocator), _counts(allocator)
    allocator.free(b)
    allocator.malloc(1 * MIB + 1, 0)
    allocator.restore_pool(state)
    assert _layout(allocator) == before
    assert _counts(allocator) == counts


def test_an_expandable_segment_that_grew_is_refused_as_torch_refuses_it():
    """pytorch/pytorch#161356."""
    allocator, _ = _pooled(EXPANDABLE)
    allocator.malloc(3 * MIB, 0)
    state = allocator.checkpoint_pool(POOL)
    allocator.malloc(50 * MIB, 0)
    with pytest.raises(RuntimeError, match=r"^Expected curr_block->next == nullptr to be true, but got false\."):
        allocator.restore_pool(state)


SIZES = st.sampled_from([1, 512, 700, 5000, MIB, MIB + 1, 3 * MIB, 12 * MIB])
STEPS = st.lists(st.tuples(st.sampled_from(["malloc", "free", "keep", "back"]), SIZES, st.integers(0, 99)), max_size=40)


@settings(max_examples=examples(150))
@given(STEPS)
def test_every_state_is_restored_with_its_layout_and_counters(steps):
    """The state after a restore is that of the checkpoint, plus free memory of newer segments."""
    allocator, _ = _pooled()
    live, kept = [], []
    for step, size, pick in steps:
        if step == "malloc":
            live.append(allocator.malloc(size, 0))
        elif step == "free" and live:
            allocator.free(live.pop(pick % len(live)))
        elif step == "keep":
            kept.append((allocator.checkpoint_pool(POOL), _layout(allocator), _counts(allocator)))
        elif step == "back" and kept:
            _go_back(allocator, *kept[pick % len(kept)])
            live = allocator.live_blocks(POOL)
    for block in live:
        allocator.free(block)
    assert all(count == 0 for count in _counts(allocator).values())


def _go_back(allocator, state, layout, counts):
    known = {address for segment in state.segments for address, _, _ in segment}
    allocator.restore_pool(state)
    now = _layout(allocator)
    assert [block for block in now if block[0] in known] == layout
    assert all(state == "inactive" for address, _, state in now if address not in known)
    assert _counts(allocator) == counts, "segments that came since are whole, and count nowhere"
