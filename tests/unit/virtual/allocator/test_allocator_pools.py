"""Private pools: of graphs, and torch.cuda.MemPool."""

from __future__ import annotations

import pytest
from fake_host import MIB, OutOfMemory, current, make

POOL = (0, 1)


def _everything(stream):
    return True


def test_requests_are_routed_to_the_pool_until_its_route_ends():
    allocator, _ = make()
    cached = allocator.malloc(1000, 0)
    allocator.free(cached)
    allocator.begin_allocate_to_pool(POOL, lambda stream: stream == 64)
    inside, outside = allocator.malloc(1000, 64), allocator.malloc(1000, 0)
    allocator.end_allocate_to_pool(POOL)
    assert (inside.pool_id, outside.pool_id, outside.address) == (POOL, (0, 0), cached.address)
    assert allocator.malloc(1000, 64).pool_id == (0, 0)
    assert allocator.live_blocks(POOL) == [inside]
    allocator.free(inside)
    assert allocator.malloc(1000, 64).address != inside.address  # its memory stays the pool's


def test_its_memory_is_freed_without_holders_and_allocated_blocks():
    allocator, host = make()
    allocator.begin_allocate_to_pool(POOL, _everything)
    a, b = allocator.malloc(30 * MIB, 0), allocator.malloc(1000, 0)
    allocator.end_allocate_to_pool(POOL)
    allocator.free(a)
    allocator.empty_cache()
    assert host.segments("segment_free") == []
    assert allocator.pool_use_count(POOL) == 1
    allocator.release_pool(POOL)
    allocator.empty_cache()
    assert host.segments("segment_free") == [30 * MIB]
    assert allocator.pool_ids() == [POOL]  # b lives in it
    allocator.free(b)
    allocator.empty_cache()
    assert allocator.pool_ids() == []
    row = allocator.stats()["reserved_bytes_by_private_pools"][POOL]
    assert row["all"] == {"current": 0, "peak": 32 * MIB, "allocated": 32 * MIB, "freed": 32 * MIB}
    assert row["small_pool"]["peak"] == 2 * MIB


def test_graphs_can_share_a_pool():
    allocator, _ = make()
    for _ in range(2):
        allocator.begin_allocate_to_pool(POOL, _everything)
        allocator.end_allocate_to_pool(POOL)
    allocator.create_or_hold_pool(POOL)
    assert allocator.pool_use_count(POOL) == 3


def test_the_newest_route_comes_first():
    allocator, _ = make()
    allocator.begin_allocate_to_pool(POOL, _everything)
    allocator.begin_allocate_to_pool((0, 2), lambda stream: stream == 64)
    assert [allocator.malloc(1, stream).pool_id for stream in (64, 0)] == [(0, 2), POOL]


def test_misuse_is_refused_with_torchs_messages():
    allocator, _ = make()
    with pytest.raises(RuntimeError, match="endAllocatePool: not currently recording to mempool_id"):
        allocator.end_allocate_to_pool(POOL)
    allocator.begin_allocate_to_pool(POOL, _everything)
    with pytest.raises(RuntimeError, match="beginAllocateToPool: already recording to mempool_id"):
        allocator.begin_allocate_to_pool(POOL, _everything)
    allocator.end_allocate_to_pool(POOL)
    block = allocator.malloc(1, 0)
    allocator.release_pool(POOL)
    with pytest.raises(RuntimeError, match="released by all its holders"):
        allocator.begin_allocate_to_pool(POOL, _everything)
    with pytest.raises(RuntimeError, match="released too often"):
        allocator.release_pool(POOL)
    with pytest.raises(RuntimeError, match=r"there is no memory pool \(3, 3\)"):
        allocator.release_pool((3, 3))
    allocator.free(block)


def test_one_pool_alone_is_emptied():
    allocator, host = make()
    for number in (1, 2):
        allocator.begin_allocate_to_pool((0, number), _everything)
        allocator.free(allocator.malloc(number * 20 * MIB, 0))
        allocator.end_allocate_to_pool((0, number))
        allocator.release_pool((0, number))
    allocator.free(allocator.malloc(60 * MIB, 0))
    allocator.empty_cache((0, 2))
    assert host.segments("segment_free") == [40 * MIB]
    allocator.empty_cache()
    assert host.segments("segment_free") == [40 * MIB, 60 * MIB, 20 * MIB]


def test_a_pool_that_may_overflow_serves_others_before_memory_runs_out():
    allocator, _ = make(total=100 * MIB)
    allocator.create_or_hold_pool(POOL, use_on_oom=True)
    allocator.begin_allocate_to_pool(POOL, _everything)
    inside = allocator.malloc(60 * MIB, 0)
    allocator.end_allocate_to_pool(POOL)
    with pytest.raises(OutOfMemory):
        allocator.malloc(50 * MIB, 0)
    allocator.free(inside)
    block = allocator.malloc(50 * MIB, 0)
    assert (block.address, block.pool_id, allocator.stats()["num_alloc_retries"]) == (inside.address, POOL, 1)


def test_a_pool_that_does_not_split():
    allocator, _ = make()
    allocator.create_or_hold_pool(POOL, no_split=True)
    allocator.begin_allocate_to_pool(POOL, _everything)
    assert [allocator.malloc(n, 0).size for n in (1, 2 * MIB)] == [2 * MIB, 20 * MIB]
    assert current(allocator, "inactive_split") == 0


def test_a_snapshot_of_one_pool():
    allocator, _ = make()
    allocator.malloc(1000, 0)
    allocator.begin_allocate_to_pool(POOL, _everything)
    allocator.malloc(3000, 0)
    segments = allocator.snapshot(pool_id=POOL)["segments"]
    assert [(s["segment_pool_id"], s["requested_size"]) for s in segments] == [(POOL, 3000)]
    assert [s["segment_pool_id"] for s in allocator.snapshot()["segments"]] == [(0, 0), POOL]
