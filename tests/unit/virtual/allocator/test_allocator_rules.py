"""Sizes, splitting and coalescing: torch's rules, one by one."""

from __future__ import annotations

import ast
import gc
import sys
import threading
from itertools import pairwise
from pathlib import Path

import pytest
from fake_host import GIB, MIB, FakeHost, actions, current, make

import cudalens.virtual.allocator
from cudalens.errors import VirtualDeviceError
from cudalens.virtual.allocator import AddressSpace, CachingAllocator, parse_conf


@pytest.mark.parametrize(
    ("num_bytes", "block", "segment"),
    [
        (1, 512, 2 * MIB),
        (513, 1024, 2 * MIB),
        (MIB, MIB, 2 * MIB),
        (MIB + 1, MIB + 512, 20 * MIB),
        (10 * MIB - 512, 10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB, 10 * MIB),
        (10 * MIB + 1, 10 * MIB + 512, 12 * MIB),  # a rest above 1 MiB is split off a large block
        (21 * MIB, 22 * MIB, 22 * MIB),  # one of 1 MiB is not
        (20 * MIB + 512, 20 * MIB + 512, 22 * MIB),
    ],
)
def test_the_block_and_the_segment_of_a_request(num_bytes, block, segment):
    allocator, host = make()
    got = allocator.malloc(num_bytes, 0)
    assert (got.size, got.requested_size) == (block, num_bytes)
    assert host.segments("segment_alloc") == [segment]
    assert current(allocator, "reserved_bytes", "small_pool" if block <= MIB else "large_pool") == segment
    assert current(allocator, "requested_bytes") == num_bytes


def test_best_fit_takes_the_smallest_then_the_lowest():
    allocator, _ = make()
    blocks = [allocator.malloc(size, 0) for size in (4096, 512, 2048, 512, 2048, 512)]
    addresses = [b.address for b in blocks]
    for i in (0, 2, 4):
        allocator.free(blocks[i])
    assert allocator.malloc(2000, 0).address == addresses[2]
    assert allocator.malloc(1536, 0).address == addresses[4]
    assert allocator.malloc(2560, 0).address == addresses[0]


def test_freed_neighbours_become_one_block_and_the_segment_whole_again():
    allocator, _ = make()
    blocks = [allocator.malloc(512 * 1024, 0) for _ in range(4)]
    assert current(allocator, "inactive_split") == 0
    for block, split in zip(blocks, (1, 1, 1, 0), strict=True):
        allocator.free(block)
        assert current(allocator, "inactive_split") == split
    assert [len(s["blocks"]) for s in allocator.snapshot()["segments"]] == [1]
    assert current(allocator, "reserved_bytes") == 2 * MIB


def test_streams_do_not_share():
    allocator, host = make()
    first = allocator.malloc(1000, 0)
    allocator.free(first)
    assert allocator.malloc(1000, 64).address != first.address
    assert host.segments("segment_alloc") == [2 * MIB, 2 * MIB]
    assert [s["stream"] for s in allocator.snapshot()["segments"]] == [0, 64]


def test_a_request_for_nothing_gets_the_null_block():
    allocator, host = make()
    null = allocator.malloc(0, 0)
    assert (null.address, null.size, null.is_allocated) == (0, 0, False)
    allocator.record_stream(null, 64)
    allocator.free(null)
    allocator.free(null)
    assert host.log == []
    assert current(allocator, "allocation") == 0


def test_a_block_cannot_be_freed_twice():
    allocator, _ = make()
    block = allocator.malloc(10, 0)
    allocator.free(block)
    with pytest.raises(RuntimeError, match="invalid device pointer: 0x"):
        allocator.free(block)
    assert current(allocator, "allocation") == 0


def test_empty_cache_gives_back_whole_segments_alone():
    allocator, host = make()
    small, large = allocator.malloc(10, 0), allocator.malloc(30 * MIB, 0)
    allocator.free(large)
    allocator.empty_cache()
    assert host.segments("segment_free") == [30 * MIB]
    assert allocator.reserved_bytes == 2 * MIB
    allocator.free(small)
    allocator.empty_cache()
    assert allocator.reserved_bytes == 0
    assert allocator.memory_info() == (GIB, GIB)
    assert allocator.malloc(30 * MIB, 0).address == large.address - 2 * MIB  # the lowest gap


def test_peaks_and_sums_since_their_resets():
    allocator, _ = make()
    block = allocator.malloc(3 * MIB, 0)
    allocator.free(block)
    row = allocator.stats()["allocated_bytes"]["large_pool"]
    assert row == {"current": 0, "peak": 3 * MIB, "allocated": 3 * MIB, "freed": 3 * MIB}
    kept = allocator.malloc(MIB, 0)
    allocator.reset_peak_stats()
    allocator.reset_accumulated_stats()
    stats = allocator.stats()
    assert stats["allocated_bytes"]["all"] == {"current": MIB, "peak": MIB, "allocated": 0, "freed": 0}
    assert stats["num_device_alloc"] == 0
    allocator.free(kept)
    assert allocator.stats()["allocation"]["all"] == {"current": 0, "peak": 1, "allocated": 0, "freed": 1}
    allocator.empty_cache()
    allocator.reset_peak_stats()
    row = allocator.stats()["reserved_bytes"]["all"]
    assert row == {"current": 0, "peak": 0, "allocated": 0, "freed": 22 * MIB}


def test_max_split_size_keeps_large_blocks_whole_for_similar_requests():
    allocator, host = make(conf="max_split_size_mb:32")
    big = allocator.malloc(100 * MIB, 0)
    stats = allocator.stats()
    assert stats["max_split_size"] == 32 * MIB
    assert (stats["oversize_allocations"]["current"], stats["oversize_segments"]["current"]) == (1, 1)
    allocator.free(big)
    assert allocator.malloc(10 * MIB, 0).address != big.address  # small requests may not take it
    assert allocator.malloc(79 * MIB, 0).address != big.address  # nor one that is 20 MiB below or more
    near = allocator.malloc(81 * MIB, 0)
    assert (near.address, near.size) == (big.address, 100 * MIB)
    assert host.segments("segment_alloc") == [100 * MIB, 10 * MIB, 80 * MIB]


def test_a_request_of_the_max_split_size_itself_does_not_split():
    allocator, _ = make(conf="max_split_size_mb:32")
    allocator.free(allocator.malloc(50 * MIB, 0))
    assert allocator.malloc(32 * MIB, 0).size == 50 * MIB


def test_roundup_power2_divisions():
    allocator, _ = make(conf="roundup_power2_divisions:[1:1,2:4,>:2]")
    assert allocator.malloc(700_000, 0).size == -(-700_000 // 512) * 512
    assert allocator.malloc(2 * MIB + 1, 0).size == 2 * MIB + MIB // 2
    assert allocator.malloc(17 * MIB, 0).size == 24 * MIB


def test_options_change_at_run_time():
    allocator, host = make()
    allocator.set_conf(parse_conf("large_segment_size_mb:32", allocator.conf))
    allocator.malloc(2 * MIB, 0)
    assert host.segments("segment_alloc") == [32 * MIB]
    assert allocator.snapshot()["allocator_settings"]["PYTORCH_CUDA_ALLOC_CONF"] == "large_segment_size_mb:32"


def test_a_finalizer_may_free_during_a_malloc():
    allocator, host = make()
    held = allocator.malloc(1000, 0)
    log = host.on_segment

    def on_segment(*what):  # as a finalizer that the collector runs in the middle of a malloc
        log(*what)
        allocator.free(held)
        host.on_segment = log

    host.on_segment = on_segment
    allocator.record_history("all", None)
    large = allocator.malloc(5 * MIB, 0)
    assert [a[0] for a in actions(allocator)] == ["segment_alloc", "alloc", "free_requested", "free_completed"]
    assert allocator.live_blocks() == [large]


def test_only_free_is_allowed_during_a_malloc():
    allocator, host = make()
    host.on_segment = lambda *what: allocator.malloc(1, 0)
    with pytest.raises(VirtualDeviceError, match=r"device 0: a finalizer, .* only free\(\) is allowed"):
        allocator.malloc(1000, 0)
    host.on_segment = lambda *what: None
    allocator.free(allocator.malloc(5 * MIB, 0))  # still works
    assert current(allocator, "allocation") == 0


def test_threads_take_turns():
    allocator, _ = make()

    def work():
        for size in range(1, 400):
            allocator.free(allocator.malloc(size * 997, 0))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert current(allocator, "allocation") == current(allocator, "inactive_split") == 0
    assert allocator.stats()["allocation"]["all"]["allocated"] == 4 * 399


def test_the_state_does_not_grow():
    allocator, _ = make()
    blocks = [allocator.malloc(n * 1000, 0) for n in range(1, 50)]
    for block in blocks:
        allocator.free(block)
    del blocks, block
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(2000):
        allocator.free(allocator.malloc(3000, 0))
    gc.collect()
    assert len(gc.get_objects()) - before < 50


def test_addresses_come_from_the_lowest_gap_that_fits():
    space = AddressSpace(1000)
    a, b, c = (space.reserve(n * MIB) for n in (4, 3, 6))
    assert (a, b, c) == (2 * MIB, 6 * MIB, 10 * MIB)
    space.release(b, 3 * MIB)
    assert space.reserve(5 * MIB) == 16 * MIB
    assert space.reserve(4 * MIB) == b  # exactly the gap
    for address, size in ((c, 6), (a, 4), (b, 4)):
        space.release(address, size * MIB)
    assert space.reserve(14 * MIB) == a  # the three gaps are one
    space.release(16 * MIB, 5 * MIB)
    assert space.reserve(8 * MIB) == 16 * MIB  # the end moved back


def test_it_needs_neither_torch_nor_the_rest_of_cudalens():
    folder = Path(cudalens.virtual.allocator.__file__).parent
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                mine = name.startswith(("cudalens.virtual.allocator", "cudalens.errors"))
                assert mine or name.split(".")[0] in sys.stdlib_module_names, (path.name, name)


def test_devices_have_addresses_of_their_own():
    ranges = [CachingAllocator(d, 141 * GIB, FakeHost()).malloc(100 * GIB, 0) for d in range(8)]
    ends = sorted((b.address, b.address + 8 * 141 * GIB) for b in ranges)
    assert all(left[1] < right[0] for left, right in pairwise(ends))
