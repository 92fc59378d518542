"""Cases at the edge of a rule: a size equal to a limit, a neighbour that just does not qualify."""

from __future__ import annotations

import pytest
from fake_host import GIB, MIB, OutOfMemory, actions, current, make

from cudalens.virtual.allocator import parse_conf

POOL, OTHER_POOL = (0, 1), (0, 2)
FRAMES = [{"filename": "train.py", "line": 3, "name": "step"}]
EXPANDABLE = "expandable_segments:True"


def fill(allocator, pool_id, num_bytes):
    """A cached segment of a private pool."""
    allocator.begin_allocate_to_pool(pool_id, lambda _: True)
    try:
        allocator.free(allocator.malloc(num_bytes, 0))
    finally:
        allocator.end_allocate_to_pool(pool_id)


def free_blocks(allocator):
    """(address, size, requested size) of the inactive blocks."""
    blocks = [block for segment in allocator.snapshot()["segments"] for block in segment["blocks"]]
    return [(b["address"], b["size"], b["requested_size"]) for b in blocks if b["state"] == "inactive"]


def test_a_block_and_a_segment_of_the_max_split_size_are_oversize():
    allocator, _ = make(conf="max_split_size_mb:30")
    block = allocator.malloc(30 * MIB, 0)
    stats = allocator.stats()
    assert (stats["oversize_allocations"]["current"], stats["oversize_segments"]["current"]) == (1, 1)
    allocator.free(block)
    allocator.empty_cache()
    stats = allocator.stats()
    assert (stats["oversize_allocations"]["current"], stats["oversize_segments"]["current"]) == (0, 0)


def test_a_cached_block_of_the_max_split_size_does_not_serve_smaller_requests():
    allocator, host = make(conf="max_split_size_mb:30")
    allocator.free(allocator.malloc(30 * MIB, 0))
    allocator.malloc(28 * MIB, 0)
    assert host.segments("segment_alloc") == [30 * MIB, 28 * MIB]


def test_the_limit_itself_can_be_reserved():
    allocator, _ = make(total=GIB)
    allocator.set_memory_fraction(0.5)
    allocator.malloc(GIB // 2, 0)
    with pytest.raises(OutOfMemory):
        allocator.malloc(1, 0)


def test_a_request_of_a_private_pool_gets_no_memory_of_another_pool():
    allocator, _ = make(total=100 * MIB)
    allocator.create_or_hold_pool(POOL, use_on_oom=True)
    fill(allocator, POOL, 60 * MIB)
    with pytest.raises(OutOfMemory):
        fill(allocator, OTHER_POOL, 60 * MIB)
    assert allocator.malloc(60 * MIB, 0).pool_id == POOL


def test_a_pool_without_holders_is_freed_and_serves_nothing():
    allocator, host = make(total=100 * MIB)
    allocator.create_or_hold_pool(POOL, use_on_oom=True)
    fill(allocator, POOL, 60 * MIB)
    for _ in range(2):
        allocator.release_pool(POOL)
    assert allocator.malloc(60 * MIB, 0).pool_id == (0, 0)
    assert host.segments("segment_free") == [60 * MIB]


def test_emptying_one_pool_waits_for_the_streams_that_use_its_blocks():
    allocator, host = make()
    allocator.begin_allocate_to_pool(POOL, lambda _: True)
    block = allocator.malloc(30 * MIB, 0)
    allocator.end_allocate_to_pool(POOL)
    allocator.record_stream(block, 64)
    allocator.free(block)
    allocator.release_pool(POOL)
    allocator.empty_cache(POOL)
    assert ("wait", 64) in host.log
    assert allocator.pool_ids() == []


def test_garbage_collection_leaves_split_segments_and_younger_ones():
    allocator, host = make(total=GIB, conf="garbage_collection_threshold:0.5")
    allocator.set_memory_fraction(0.25)  # 256 MiB; the threshold is at 128 MiB
    searched = allocator.malloc(2 * MIB, 64)
    split = [allocator.malloc(size * MIB, 0) for size in (5, 14)]  # of one segment of 20 MiB
    old, young = allocator.malloc(40 * MIB, 0), allocator.malloc(50 * MIB, 0)
    for block in (searched, split[1], old):
        allocator.free(block)
    for _ in range(5):
        allocator.free(allocator.malloc(2 * MIB, 64))  # a search, by which age is counted
    allocator.free(young)
    allocator.malloc(60 * MIB, 0)
    assert host.segments("segment_free") == [40 * MIB]


def test_garbage_collection_computes_the_average_age_again_after_each_pass():
    allocator, host = make(total=GIB, conf="garbage_collection_threshold:0.25")
    allocator.set_memory_fraction(0.5)  # 512 MiB; the threshold is at 128 MiB
    allocator.malloc(2 * MIB, 64)  # of a segment that stays split
    blocks = [allocator.malloc(num_mib * MIB, 0) for num_mib in (100, 102, 104)]
    for block, num_searches in zip(blocks, (6, 3, 0), strict=True):
        allocator.free(block)
        for _ in range(num_searches):
            allocator.free(allocator.malloc(2 * MIB, 64))
    allocator.malloc(150 * MIB, 0)
    # Ages 10, 4 and 1: the first pass frees the oldest (average 5), the second one the next (average 2.5).
    assert host.segments("segment_free") == [100 * MIB, 102 * MIB]


def test_a_freed_block_that_merges_keeps_its_own_requested_size():
    allocator, _ = make()
    first, second, last = (allocator.malloc(size, 0) for size in (1000, 3000, MIB))
    allocator.free(first)
    allocator.free(second)
    assert free_blocks(allocator)[0] == (first.address, 1024 + 3072, 3000)
    assert last.is_allocated


def test_a_block_whose_free_is_deferred_merges_with_no_neighbour():
    allocator, host = make()
    left, middle, right = (allocator.malloc(1024, 0) for _ in range(3))
    allocator.malloc(MIB, 0)
    host.capturing = True
    allocator.record_stream(middle, 64)
    for block in (middle, left, right):
        allocator.free(block)
    assert [block[:2] for block in free_blocks(allocator)][:2] == [(left.address, 1024), (right.address, 1024)]


def test_a_segment_keeps_the_stack_of_its_allocation():
    allocator, _ = make()
    allocator.record_history("all", "all")
    block = allocator.malloc(30 * MIB, 0, stack=FRAMES)
    allocator.free(block)
    allocator.empty_cache()
    freed = [entry for entry in allocator.snapshot()["trace"] if entry["action"] == "segment_free"]
    assert [entry["frames"] for entry in freed] == [FRAMES]


def test_an_expandable_segment_grows_behind_an_allocated_block():
    allocator, host = make(conf=EXPANDABLE)
    first, second = allocator.malloc(40 * MIB, 0), allocator.malloc(20 * MIB, 0)
    assert second.address == first.address + 40 * MIB
    assert [s["address"] for s in allocator.snapshot()["segments"]] == [first.address]
    assert host.segments("segment_map") == [40 * MIB, 20 * MIB]


def test_a_gap_before_an_allocated_block_is_not_counted_beyond_it():
    allocator, _ = make(conf=EXPANDABLE)
    first, second, third = (allocator.malloc(20 * MIB, 0) for _ in range(3))
    allocator.free(first)
    allocator.empty_cache()  # unmaps the first page
    assert allocator.malloc(30 * MIB, 0).address == third.address + 20 * MIB
    assert allocator.malloc(20 * MIB, 0).address == first.address
    assert second.is_allocated


def test_several_free_expandable_blocks_are_skipped_while_the_option_is_off():
    allocator, host = make(conf=EXPANDABLE)
    blocks = [allocator.malloc(20 * MIB, 0) for _ in range(4)]
    for block in blocks[::2]:
        allocator.free(block)
    allocator.set_conf(parse_conf("expandable_segments:False"))
    allocator.malloc(20 * MIB, 0)
    assert host.segments("segment_alloc") == [20 * MIB]


def test_a_free_block_without_a_whole_page_stays_mapped():
    allocator, host = make(conf=EXPANDABLE)
    _, middle, _ = (allocator.malloc(size, 0) for size in (512, 1024, 512))
    allocator.free(middle)
    reserved = current(allocator, "reserved_bytes")
    allocator.empty_cache()
    assert current(allocator, "reserved_bytes") == reserved == 2 * MIB
    assert host.segments("segment_unmap") == []


def test_the_mapped_rests_around_unmapped_pages_have_no_requested_size():
    allocator, _ = make(conf=EXPANDABLE)
    _, middle, _ = (allocator.malloc(size * MIB, 0) for size in (5, 50, 5))
    allocator.free(middle)
    allocator.record_history("all", None)
    allocator.empty_cache()
    assert [action[2] for action in actions(allocator, "segment_unmap")] == [20 * MIB]
    assert [block[1:] for block in free_blocks(allocator)][:2] == [(15 * MIB, 0), (15 * MIB, 0)]
