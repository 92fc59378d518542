"""Blocks that other streams used, and graph captures."""

from __future__ import annotations

import pytest
from fake_host import MIB, actions, current, make


def test_a_block_used_by_another_stream_is_free_when_that_stream_has_reached_the_free():
    allocator, host = make()
    block = allocator.malloc(1000, 0)
    allocator.record_stream(block, 64)
    allocator.free(block)
    assert (current(allocator, "allocation"), current(allocator, "active")) == (0, 1)
    assert current(allocator, "active_bytes") == current(allocator, "requested_bytes") + 24 == 1024
    assert allocator.malloc(1000, 0).address == block.address + 1024
    host.finish(64)
    assert allocator.malloc(1000, 0).address == block.address
    assert current(allocator, "active") == 2


def test_the_blocks_own_stream_needs_no_waiting():
    allocator, host = make()
    block = allocator.malloc(1000, 64)
    allocator.record_stream(block, 64)
    allocator.free(block)
    assert host.recorded == {}
    assert current(allocator, "active") == 0


def test_every_stream_that_used_it_must_have_reached_the_free():
    allocator, host = make()
    block = allocator.malloc(1000, 0)
    for stream in (64, 72, 64):
        allocator.record_stream(block, stream)
    allocator.free(block)
    assert host.recorded == {64: 1, 72: 1}
    host.finish(64)
    allocator.malloc(1, 0)
    assert current(allocator, "active") == 2
    host.finish(72)
    allocator.malloc(1, 0)
    assert current(allocator, "active") == 2


def test_a_slow_stream_delays_only_its_own_blocks():
    allocator, host = make()
    a, b = allocator.malloc(1000, 0), allocator.malloc(1000, 0)
    allocator.record_stream(a, 64)
    allocator.record_stream(b, 72)
    allocator.free(a)
    allocator.free(b)
    host.finish(72)
    allocator.record_history("all", None)
    allocator.malloc(5, 0)
    assert actions(allocator, "free_completed") == [("free_completed", b.address, 1000)]


def test_one_malloc_frees_everything_that_was_passed():
    allocator, host = make()
    blocks = [allocator.malloc(1000, 0) for _ in range(3)]
    for block in blocks:
        allocator.record_stream(block, 64)
        allocator.free(block)
    host.finish(64, num_events=2)
    allocator.malloc(1, 0)
    assert current(allocator, "active") == 2


def test_empty_cache_waits_for_the_streams():
    allocator, host = make()
    block = allocator.malloc(30 * MIB, 0)
    allocator.record_stream(block, 64)
    allocator.free(block)
    allocator.empty_cache()
    assert host.log[1:] == [("wait", 64), ("segment_free", block.address, 30 * MIB)]
    assert allocator.stats()["num_sync_all_streams"] == 1
    assert allocator.reserved_bytes == 0


def test_such_frees_wait_for_the_end_of_a_capture():
    allocator, host = make()
    before, within = allocator.malloc(1000, 0), allocator.malloc(1000, 0)
    allocator.record_stream(before, 64)
    host.capturing = True
    allocator.record_stream(within, 72)
    allocator.free(before)
    allocator.free(within)
    allocator.malloc(1000, 0)
    assert (host.recorded, current(allocator, "active")) == ({}, 3)
    host.capturing = False
    allocator.malloc(1000, 0)
    # Uses inside the capture are ordered by the graph: only the one before it needs an event.
    assert host.recorded == {64: 1}
    assert current(allocator, "active") == 3
    host.finish(64)
    allocator.malloc(1000, 0)
    assert current(allocator, "active") == 3


def test_during_a_capture_the_default_cache_remains_and_events_are_not_queried():
    allocator, host = make()
    kept, used = allocator.malloc(30 * MIB, 0), allocator.malloc(30 * MIB, 0)
    allocator.record_stream(used, 64)
    allocator.free(used)
    allocator.free(kept)
    host.finish(64)
    host.capturing = True
    allocator.empty_cache()
    allocator.malloc(1, 0)
    assert host.segments("segment_free") == []
    assert current(allocator, "active") == 2
    with pytest.raises(RuntimeError, match="INTERNAL ASSERT FAILED"):
        allocator._heap._synchronize(None, None)
