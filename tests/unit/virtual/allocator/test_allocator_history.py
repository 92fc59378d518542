"""The history, the snapshot and the tables that torch makes of them."""

from __future__ import annotations

import inspect
import pickle

import pytest
from fake_host import MIB, OutOfMemory, actions, make

from cudalens.virtual.allocator import combine

FRAMES = [{"filename": "train.py", "line": 3, "name": "step"}]


def test_what_is_recorded_and_in_which_order():
    allocator, _ = make()
    allocator.malloc(1, 0)  # before: not in it
    allocator.record_history()
    block = allocator.malloc(30 * MIB, 64, stack=FRAMES)
    allocator.record_stream(block, 0)
    allocator.free(block)
    allocator.empty_cache()
    trace = allocator.snapshot()["trace"]
    assert [e["action"] for e in trace] == [
        "segment_alloc",
        "alloc",
        "free_requested",
        "free_completed",
        "segment_free",
    ]
    assert trace[1] == {
        "action": "alloc",
        "addr": block.address,
        "size": 30 * MIB,
        "stream": 64,
        "time_us": trace[0]["time_us"] + 1,
        "compile_context": "N/A",
        "user_metadata": "",
        "pool_id": (0, 0),
        "frames": FRAMES,
    }
    assert allocator.snapshot()["trace"][-1]["action"] == "snapshot"  # the first one, in the second


def test_stacks_are_collected_only_if_recorded():
    allocator, _ = make()
    calls = []

    def stack():
        calls.append(1)
        return FRAMES

    allocator.free(allocator.malloc(1, 0, stack=stack), stack=stack)
    allocator.record_history("all", None)
    allocator.free(allocator.malloc(1, 0, stack=stack), stack=stack)
    assert calls == []
    allocator.record_history("all", "state")
    block = allocator.malloc(1, 0, stack=stack)
    assert len(calls) == 1
    assert allocator.snapshot()["segments"][0]["blocks"][0]["frames"] == FRAMES
    assert all("frames" not in e for e in allocator.snapshot()["trace"])
    allocator.record_history("all", "alloc")
    allocator.free(block, stack=stack)
    assert len(calls) == 1
    assert allocator.snapshot()["trace"][-1]["frames"] == FRAMES  # of its allocation
    allocator.record_history("all", "all")
    allocator.free(allocator.malloc(1, 0, stack=stack), stack=list)
    assert [e.get("frames") for e in allocator.snapshot()["trace"]][-3:] == [FRAMES, [], []]


def test_the_ring_keeps_the_last():
    allocator, _ = make()
    allocator.record_history("all", None, max_entries=5)
    blocks = [allocator.malloc(n, 0) for n in range(1, 12)]
    assert [e[2] for e in actions(allocator)] == [7, 8, 9, 10, 11]
    allocator.record_history("state", None)
    allocator.free(blocks[0])
    assert allocator.is_recording
    allocator.record_history(None, None)
    assert not allocator.is_recording
    assert actions(allocator) == []


def test_state_keeps_one_action():
    allocator, _ = make()
    allocator.record_history("state", "state")
    allocator.free(allocator.malloc(7, 0))
    assert [a[0] for a in actions(allocator)] == ["free_completed"]


def test_clearing_and_skipping():
    allocator, _ = make()
    allocator.record_history("all", None)
    allocator.malloc(1, 0)
    allocator.record_history("all", None, clear_history=True, skip_actions=["free_requested"])
    allocator.free(allocator.malloc(2, 0))
    assert [a[0] for a in actions(allocator)] == ["alloc", "free_completed"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("some",), "expected state to be 'state', 'all', or None"),
        (("all", "none"), "expected context to be 'state', 'alloc', 'all', or None"),
        (("all", "all", "cpp"), "expected stacks to be 'python', or 'all'"),
    ],
)
def test_invalid_arguments(arguments, words):
    with pytest.raises(RuntimeError, match=words):
        make()[0].record_history(*arguments)


def test_listeners_get_every_action_without_a_history():
    allocator, _ = make()
    received = []
    allocator.listeners.append(received.append)
    block = allocator.malloc(1000, 64)
    allocator.free(block)
    assert [(a.kind, a.num_bytes, a.stream, a.pool_id, a.stack) for a in received] == [
        ("segment_alloc", 2 * MIB, 64, (0, 0), None),
        ("alloc", 1000, 64, (0, 0), None),
        ("free_requested", 1000, 64, (0, 0), None),
        ("free_completed", 1000, 64, (0, 0), None),
    ]
    assert [a.time_us for a in received] == [1, 2, 3, 4]
    allocator.listeners.clear()
    allocator.malloc(1000, 64)
    assert len(received) == 4
    assert actions(allocator) == []


def test_the_snapshot_of_several_devices_opens_in_torchs_viewer():
    _memory_viz = pytest.importorskip("torch.cuda._memory_viz")
    allocators = [make()[0] for _ in range(2)]
    for allocator in allocators:
        allocator.record_history()
        allocator.user_metadata = "phase 1"
        allocator.free(allocator.malloc(5000, 0, stack=FRAMES), stack=FRAMES)
        block = allocator.malloc(3 * MIB, 64, stack=FRAMES)
        allocator.record_stream(block, 0)
        allocator.free(block, stack=FRAMES)
        with pytest.raises(OutOfMemory):
            allocator.malloc(1 << 40, 0, stack=FRAMES)
        allocator.malloc(100, 0, stack=FRAMES)
    snapshot = combine(allocators)
    assert pickle.loads(pickle.dumps(snapshot)) == snapshot
    assert [len(trace) for trace in snapshot["device_traces"]] == [13, 13]
    assert snapshot["device_traces"][0][0]["user_metadata"] == "phase 1"
    assert "train.py:3:step" in _memory_viz.segments(snapshot, format_flamegraph=str)
    assert "train.py:3:step" in _memory_viz.memory(snapshot, format_flamegraph=str)
    assert "1.0TiB requested, 1.0GiB free in CUDA" in _memory_viz.trace(snapshot)
    assert combine(allocators, include_traces=False)["device_traces"] == [[], []]


def test_the_schema_is_that_of_recorded_snapshots():
    allocator, _ = make()
    allocator.malloc(5, 0)
    part = allocator.snapshot()
    assert list(part["segments"][0]) == [
        "device", "address", "total_size", "allocated_size", "active_size", "requested_size", "stream",
        "segment_type", "segment_pool_id", "is_expandable", "frames", "blocks",
    ]  # fmt: skip
    assert list(part["segments"][0]["blocks"][0]) == ["address", "size", "requested_size", "state", "frames"]
    assert part["allocator_settings"]["max_split_size"] == -1
    assert part["allocator_settings"]["roundup_power2_divisions"] == {str(1 << i): 0 for i in range(16)}


def test_torchs_memory_summary_can_be_made_of_the_counters(monkeypatch):
    torch = pytest.importorskip("torch")
    allocator, _ = make()
    allocator.begin_allocate_to_pool((0, 1), lambda stream: stream == 64)
    allocator.malloc(3 * MIB, 64)
    allocator.malloc(700, 0)
    monkeypatch.setattr(torch.cuda.memory, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda.memory, "_get_device_index", lambda device, optional: 0)
    stats = allocator.stats()
    if not _flattens_tuples(torch):
        stats.pop("reserved_bytes_by_private_pools")
    monkeypatch.setattr(torch._C, "_cuda_memoryStats", lambda device: stats, raising=False)
    summary = torch.cuda.memory_summary()
    assert "Allocated memory" in summary
    row = next(line for line in summary.splitlines() if line.startswith("| GPU reserved memory"))
    assert row.split("|")[2].split() == ["22528", "KiB"]
    flat = torch.cuda.memory_stats()
    assert flat["requested_bytes.small_pool.current"] == 700
    assert flat["inactive_split.all.current"] == 2
    if _flattens_tuples(torch):
        assert flat["reserved_bytes_by_private_pools.0_1.large_pool.peak"] == 20 * MIB


def _flattens_tuples(torch):  # torch 2.12 and later
    return "tuple" in inspect.getsource(torch.cuda.memory.memory_stats)


def test_an_allocator_that_was_never_used_has_all_counters():
    stats = make()[0].stats()
    assert stats["allocation"]["all"] == {"current": 0, "peak": 0, "allocated": 0, "freed": 0}
    assert stats["max_split_size"] == -1
    assert stats["reserved_bytes_by_private_pools"] == {}
