"""``torch.cuda.MemPool`` and ``use_mem_pool`` on a virtual device."""

from __future__ import annotations

import gc
import threading

import pytest
import torch
from graph_helpers import capture

from cudalens.errors import VirtualDeviceError
from cudalens.virtual import device

MIB = 1 << 20


def pool_of(tensor):
    """The pool that a tensor's memory is in, from the allocator's snapshot."""
    address = tensor.data_ptr()
    for segment in torch.cuda.memory_snapshot():
        if segment["address"] <= address < segment["address"] + segment["total_size"]:
            return tuple(segment["segment_pool_id"])
    raise AssertionError(f"no segment holds {address:#x}")


def test_allocations_go_to_the_pool_within_the_block(graph_gpus):
    pool = torch.cuda.MemPool()
    before = torch.empty(MIB, device="cuda")
    with torch.cuda.use_mem_pool(pool):
        inside = torch.empty(MIB, device="cuda")
    after = torch.empty(MIB, device="cuda")
    assert pool_of(inside) == pool.id
    assert pool_of(before) == pool_of(after) == (0, 0)
    assert pool.id[0] == 0
    assert pool.id != torch.cuda.MemPool().id


def test_only_the_threads_own_allocations_go_to_the_pool(graph_gpus):
    pool, made = torch.cuda.MemPool(), []

    def allocate():
        torch.cuda.set_device(0)
        made.append(graph_gpus.reserve(graph_gpus.devices[0], MIB))

    with torch.cuda.use_mem_pool(pool):
        thread = threading.Thread(target=allocate)
        thread.start()
        thread.join()
        allocate()
    assert [block.pool_id for block in made] == [(0, 0), pool.id]


def test_a_pool_keeps_its_memory_until_it_is_gone(graph_gpus):
    pool = torch.cuda.MemPool()
    assert pool.use_count() == 1
    with torch.cuda.use_mem_pool(pool):
        assert pool.use_count() == 2
        x = torch.empty(8 * MIB, device="cuda")
    assert pool.use_count() == 1
    reserved = torch.cuda.memory_reserved()
    del x
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == reserved
    del pool
    gc.collect()
    assert torch.cuda.memory_reserved() < reserved


def test_memory_of_a_pool_is_reused_within_it_alone(graph_gpus):
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        address = torch.empty(4 * MIB, device="cuda").data_ptr()
    assert torch.empty(4 * MIB, device="cuda").data_ptr() != address
    with torch.cuda.use_mem_pool(pool):
        assert torch.empty(4 * MIB, device="cuda").data_ptr() == address


def test_a_pools_snapshot_shows_its_segments_alone(graph_gpus):
    pool = torch.cuda.MemPool()
    outside = torch.empty(4 * MIB, device="cuda")
    with torch.cuda.use_mem_pool(pool):
        inside = torch.empty(4 * MIB, device="cuda")
    segments = pool.snapshot()
    assert [segment["address"] for segment in segments] == [inside.data_ptr()]
    assert outside.data_ptr() != inside.data_ptr()


def test_a_pool_serves_a_capture(graph_gpus):
    pool = torch.cuda.MemPool()
    x = torch.ones(MIB, device="cuda")
    graph, out = capture(lambda: x + 1, pool=pool.id)
    assert pool_of(out) == graph.pool() == pool.id
    assert pool.use_count() == 2
    graph.replay()
    assert out[0].item() == 2
    graph.reset()
    assert pool.use_count() == 1


def test_a_pool_on_another_device(graph_gpus):
    with torch.cuda.device(1):
        pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool, device=1):
        x = torch.empty(MIB, device="cuda:1")
        y = torch.empty(MIB, device="cuda:0")
    assert pool_of(x) == pool.id
    assert pool_of(y) == (0, 0)


def test_use_on_oom_lends_the_pool_before_memory_is_exhausted():
    def fill(**options):
        with device("t4"):
            pool = torch.cuda.MemPool(**options)
            with torch.cuda.use_mem_pool(pool):
                big = torch.empty(10 << 30, dtype=torch.uint8, device="cuda")
            del big
            return torch.empty(8 << 30, dtype=torch.uint8, device="cuda").nbytes

    with pytest.raises(torch.OutOfMemoryError):
        fill()
    assert fill(use_on_oom=True) == 8 << 30


def test_allocators_of_ones_own_are_refused(graph_gpus):
    with pytest.raises(VirtualDeviceError, match="calls CUDA functions that a virtual device does not have"):
        torch.cuda.MemPool(object())


def test_a_pool_does_not_outlive_its_device():
    with device("h100"):
        pool = torch.cuda.MemPool()
        pool_id = pool.id
    with device("h100"):
        fresh = torch.cuda.MemPool()
        assert fresh.id != pool_id
    del pool
    gc.collect()


def test_the_live_blocks_of_a_pool_can_be_checked(graph_gpus):
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        kept, dropped = torch.empty(MIB, device="cuda"), torch.empty(MIB, device="cuda")
    both = {kept.data_ptr(), dropped.data_ptr()}
    assert torch._C._cuda_checkPoolLiveAllocations(0, pool.id, both)
    del dropped
    assert not torch._C._cuda_checkPoolLiveAllocations(0, pool.id, both)
    assert torch._C._cuda_checkPoolLiveAllocations(0, pool.id, {kept.data_ptr()})
