"""Segments that grow by mapped pages."""

from __future__ import annotations

import pytest
from fake_host import GIB, MIB, OutOfMemory, actions, current, make

_ON = "expandable_segments:True"


def test_one_segment_per_stream_and_kind_grows():
    allocator, host = make(conf=_ON)
    blocks = [allocator.malloc(size, stream) for size, stream in ((1000, 0), (30 * MIB, 0), (15 * MIB, 0), (1000, 64))]
    assert [entry[0::2] for entry in host.log] == [
        ("segment_map", 2 * MIB),
        ("segment_map", 40 * MIB),
        ("segment_map", 20 * MIB),
        ("segment_map", 2 * MIB),
    ]
    assert blocks[2].address == blocks[1].address + 30 * MIB
    segments = allocator.snapshot()["segments"]
    assert [(s["total_size"], s["stream"], s["is_expandable"]) for s in segments] == [
        (2 * MIB, 0, True),
        (60 * MIB, 0, True),
        (2 * MIB, 64, True),
    ]
    assert current(allocator, "segment") == 0  # torch counts cudaMalloc's segments alone
    assert current(allocator, "reserved_bytes") == 64 * MIB
    assert current(allocator, "inactive_split") == 0
    assert allocator.stats()["num_device_alloc"] == 4


def test_the_free_end_is_used_before_more_is_mapped():
    allocator, host = make(conf=_ON)
    first = allocator.malloc(12 * MIB, 0)
    second = allocator.malloc(9 * MIB, 0)  # 8 MiB are left: one more page
    assert second.address == first.address + 12 * MIB
    assert host.segments("segment_map") == [20 * MIB, 20 * MIB]
    third = allocator.malloc(19 * MIB, 0)
    assert host.segments("segment_map") == [20 * MIB, 20 * MIB]
    assert third.address == second.address + 9 * MIB


def test_a_block_that_can_grow_is_kept_for_larger_requests():
    allocator, _ = make(conf=_ON)
    first, _, _ = (allocator.malloc(size * MIB, 0) for size in (15, 5, 12))
    allocator.free(first)  # free: 15 MiB between others, 8 MiB at the end that can grow
    assert allocator.malloc(6 * MIB, 0).address == first.address


def test_large_blocks_split_to_the_last_512_bytes():
    allocator, _ = make(conf=_ON)
    assert [allocator.malloc(20 * MIB - 512, 0).size, allocator.malloc(2 * MIB, 0).size] == [20 * MIB - 512, 2 * MIB]


def test_empty_cache_unmaps_whole_free_pages_and_the_gap_is_filled_again():
    allocator, host = make(conf=_ON)
    first, last = allocator.malloc(50 * MIB, 0), allocator.malloc(30 * MIB, 0)
    allocator.free(first)
    allocator.record_history("all", None)
    allocator.empty_cache()
    assert actions(allocator) == [("segment_unmap", first.address, 40 * MIB)]
    assert ("wait", 0) in host.log
    segments = allocator.snapshot()["segments"]
    assert [(s["address"], s["total_size"]) for s in segments] == [(first.address + 40 * MIB, 40 * MIB)]
    again = allocator.malloc(45 * MIB, 0)  # the lowest room: two pages, and the free 10 MiB after them
    assert again.address == first.address
    assert host.segments("segment_map")[-1] == 40 * MIB
    allocator.free(again)
    allocator.free(last)
    allocator.empty_cache()
    assert allocator.memory_info() == (GIB, GIB)
    assert allocator.snapshot()["segments"] == []


def test_what_was_mapped_before_the_memory_ran_out_is_kept_free():
    allocator, _ = make(total=100 * MIB, conf=_ON)
    low, high = allocator.malloc(40 * MIB, 0), allocator.malloc(40 * MIB, 0)
    allocator.free(low)
    with pytest.raises(OutOfMemory):
        allocator.malloc(70 * MIB, 0)
    assert current(allocator, "active") == 1
    assert allocator.malloc(15 * MIB, 0).address == low.address
    allocator.free(high)
    assert allocator.malloc(70 * MIB, 0).size == 70 * MIB


def test_switched_off_at_run_time_its_blocks_are_left_alone():
    from cudalens.virtual.allocator import parse_conf

    allocator, host = make(conf=_ON)
    block = allocator.malloc(30 * MIB, 0)
    allocator.free(block)
    allocator.set_conf(parse_conf("expandable_segments:False"))
    other = allocator.malloc(30 * MIB, 0)
    assert other.address != block.address
    assert host.segments("segment_alloc") == [30 * MIB]
    allocator.set_conf(parse_conf(_ON))
    assert allocator.malloc(30 * MIB, 0).address == block.address


def test_in_a_private_pool():
    allocator, _ = make(conf=_ON)
    allocator.begin_allocate_to_pool((1, 0), lambda stream: True)
    block = allocator.malloc(30 * MIB, 0)
    allocator.end_allocate_to_pool((1, 0))
    allocator.free(block)
    allocator.release_pool((1, 0))
    allocator.empty_cache()
    assert (allocator.pool_ids(), allocator.reserved_bytes) == ([], 0)


def test_a_fraction_bounds_mapped_memory_too():
    allocator, _ = make(total=200 * MIB, conf=_ON + ",per_process_memory_fraction:0.5")
    allocator.malloc(80 * MIB, 0)
    with pytest.raises(OutOfMemory, match=r"100\.00 MiB allowed"):
        allocator.malloc(30 * MIB, 0)


def test_of_two_equal_holes_the_lower_one_is_used():
    allocator, _ = make(conf=_ON)
    low, _, high, _ = (allocator.malloc(size * MIB, 0) for size in (8, 4, 8, 4))
    allocator.free(high)
    allocator.free(low)
    assert allocator.malloc(8 * MIB, 0).address == low.address


def test_a_segment_has_addresses_for_nine_eighths_of_the_memory():
    allocator, _ = make(total=160 * MIB, conf=_ON)
    first, second = allocator.malloc(20 * MIB, 0), allocator.malloc(20 * MIB, 64)
    assert second.address - first.address == 180 * MIB


def test_a_segment_keeps_the_stack_of_its_first_mapping():
    allocator, _ = make(conf=_ON)
    allocator.record_history()
    first, second = ([{"filename": "train.py", "line": line, "name": "step"}] for line in (3, 9))
    allocator.free(allocator.malloc(40 * MIB, 0, stack=first))
    allocator.malloc(80 * MIB, 0, stack=second)
    assert [segment["frames"] for segment in allocator.snapshot()["segments"]] == [first]
