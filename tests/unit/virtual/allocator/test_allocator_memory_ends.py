"""Out of memory: retries, garbage collection, limits, torch's message."""

from __future__ import annotations

import pytest
from fake_host import GIB, MIB, OutOfMemory, actions, make


def test_the_cache_is_freed_before_an_error():
    allocator, host = make(total=100 * MIB)
    allocator.free(allocator.malloc(60 * MIB, 0))
    block = allocator.malloc(80 * MIB, 0)
    assert host.segments("segment_free") == [60 * MIB]
    stats = allocator.stats()
    assert (block.size, stats["num_alloc_retries"], stats["num_ooms"], stats["num_sync_all_streams"]) == (
        80 * MIB,
        1,
        0,
        1,
    )


def test_blocks_that_wait_for_a_stream_are_waited_for():
    allocator, host = make(total=100 * MIB)
    block = allocator.malloc(60 * MIB, 0)
    allocator.record_stream(block, 64)
    allocator.free(block)
    allocator.malloc(80 * MIB, 0)
    assert ("wait", 64) in host.log


def test_the_message_is_torchs():
    allocator, _ = make(total=2 * GIB, context_bytes=500 * MIB)
    allocator.malloc(GIB, 0)
    allocator.malloc(3 * MIB, 0)
    with pytest.raises(OutOfMemory) as caught:
        allocator.malloc(GIB + 1, 0)
    assert str(caught.value) == (
        "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 2.00 GiB of which 504.00 MiB "
        "is free. Including non-PyTorch memory, this process has 1.51 GiB memory in use. Of the allocated memory "
        "1.00 GiB is allocated by PyTorch, and 17.00 MiB is reserved by PyTorch but unallocated. If reserved but "
        "unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid "
        "fragmentation.  See documentation for Memory Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html"
        "#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"
    )
    assert allocator.stats()["num_ooms"] == 1


def test_the_message_names_the_limit_and_private_pools():
    allocator, _ = make(total=GIB)
    allocator.set_memory_fraction(0.5)
    allocator.begin_allocate_to_pool((1, 0), lambda stream: True)
    allocator.free(allocator.malloc(100 * MIB, 0))
    allocator.end_allocate_to_pool((1, 0))
    words = (
        r"memory in use\. 512\.00 MiB allowed; Of the allocated memory 100\.00 MiB is allocated by PyTorch, "
        r"with 100\.00 MiB allocated in private pools \(e\.g\., CUDA Graphs\), and 0 bytes is reserved"
    )
    with pytest.raises(OutOfMemory, match=words):
        allocator.malloc(500 * MIB, 0)


def test_more_than_an_exbibyte_is_refused_at_once():
    allocator, host = make()
    with pytest.raises(OutOfMemory, match=r"^CUDA out of memory\. Tried to allocate more than 1EB memory\.$"):
        allocator.malloc(1 << 60, 0)
    assert (host.log, allocator.stats()["num_ooms"]) == ([], 0)


def test_the_allocator_works_after_an_out_of_memory_error():
    allocator, _ = make(total=100 * MIB)
    kept = allocator.malloc(60 * MIB, 0)
    seen = []
    allocator.out_of_memory_observers.append(lambda *arguments: seen.append((*arguments, len(allocator.live_blocks()))))
    allocator.record_history("all", None)
    with pytest.raises(OutOfMemory):
        allocator.malloc(50 * MIB + 5, 0)
    assert seen == [(0, 52 * MIB, 100 * MIB, 40 * MIB, 1)]
    assert actions(allocator) == [("oom", None, 50 * MIB + 512)]
    assert allocator.snapshot()["trace"][0]["device_free"] == 40 * MIB
    allocator.free(kept)
    assert allocator.malloc(90 * MIB, 0).size == 90 * MIB


def test_the_cache_is_not_freed_during_a_capture():
    allocator, host = make(total=100 * MIB)
    allocator.free(allocator.malloc(60 * MIB, 0))
    host.capturing = True
    with pytest.raises(OutOfMemory):
        allocator.malloc(80 * MIB, 0)
    assert allocator.stats()["num_alloc_retries"] == 0


def test_a_fraction_limits_what_is_reserved():
    allocator, _ = make(total=GIB)
    assert allocator.memory_fraction == 1.0
    allocator.set_memory_fraction(0.25)
    assert allocator.memory_fraction == 0.25
    allocator.malloc(200 * MIB, 0)
    with pytest.raises(OutOfMemory, match=r"256\.00 MiB allowed"):
        allocator.malloc(100 * MIB, 0)
    allocator.malloc(40 * MIB, 0)
    with pytest.raises(OutOfMemory, match=r"Tried to allocate 20\.00 MiB"):
        allocator.malloc(2 * MIB, 0)  # its segment would be too much
    allocator.set_memory_fraction(1)
    allocator.malloc(100 * MIB, 0)
    with pytest.raises(RuntimeError, match=r"^invalid fraction:1\.5\. Please set within \[0, 1\]\.$"):
        allocator.set_memory_fraction(1.5)
    assert make(conf="per_process_memory_fraction:0.5")[0].memory_fraction == 0.5


def test_oversize_blocks_of_the_stream_go_first_the_smallest_that_suffices():
    allocator, host = make(total=400 * MIB, conf="max_split_size_mb:32")
    blocks = [allocator.malloc(size * MIB, 0) for size in (60, 100, 140)]
    for block in blocks:
        allocator.free(block)
    allocator.malloc(180 * MIB, 0)  # no single one suffices: from the largest down until 180 MiB are free
    assert host.segments("segment_free") == [140 * MIB, 100 * MIB]
    assert allocator.stats()["num_alloc_retries"] == 0


def test_blocks_that_are_not_oversize_are_freed_last():
    allocator, host = make(total=200 * MIB, conf="max_split_size_mb:32")
    for block in [allocator.malloc(size * MIB, 0) for size in (30, 150)]:
        allocator.free(block)
    allocator.malloc(180 * MIB, 0)
    assert host.segments("segment_free") == [150 * MIB, 30 * MIB]
    assert allocator.stats()["num_alloc_retries"] == 1


def test_one_oversize_block_that_suffices_goes_alone():
    allocator, host = make(total=400 * MIB, conf="max_split_size_mb:32")
    for block in [allocator.malloc(size * MIB, 0) for size in (60, 100, 200)]:
        allocator.free(block)
    allocator.malloc(75 * MIB, 0)  # 100 MiB is too far above to be given for 75 MiB, but it makes room
    assert host.segments("segment_free") == [100 * MIB]


def test_garbage_collection_frees_the_older_half():
    allocator, host = make(total=GIB, conf="garbage_collection_threshold:0.4,per_process_memory_fraction:0.5")
    old, young, used = (allocator.malloc(size * MIB, 0) for size in (100, 60, 50))
    allocator.free(old)
    for _ in range(5):  # five searches later
        allocator.free(allocator.malloc(2 * MIB, 64))
    allocator.free(young)
    allocator.malloc(120 * MIB, 0)  # 230 MiB are above 0.4 x 512 MiB: blocks older than the average are freed
    assert host.segments("segment_free") == [100 * MIB]
    assert used.is_allocated


def test_garbage_collection_frees_a_block_of_just_the_average_age():
    allocator, host = make(total=GIB, conf="garbage_collection_threshold:0.2,per_process_memory_fraction:0.5")
    allocator.free(allocator.malloc(200 * MIB, 0))
    allocator.malloc(1000, 0)
    assert host.segments("segment_free") == [200 * MIB]


def test_no_garbage_collection_without_a_limit():
    allocator, host = make(total=GIB, conf="garbage_collection_threshold:0.1")
    for size in (100, 200, 300):
        allocator.free(allocator.malloc(size * MIB, 0))
    assert host.segments("segment_free") == []
