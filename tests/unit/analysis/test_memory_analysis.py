"""Lifetimes, totals, fragmentation, peaks and stacks against a simulated allocator, and of the virtual device."""

import numpy as np
import pandas as pd
import pytest
from budget import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from snapshots_simulated import SLOT, SLOTS, played, rounded

from cudalens.analysis import (
    block_lifetimes,
    blocks_at,
    bytes_by_stack,
    fragmentation,
    memory_diff,
    memory_peak,
    memory_totals,
    pool_totals,
    running_totals,
    segment_lifetimes,
    stack_texts,
)
from cudalens.frames import RunInfo, Trace
from cudalens.frames.snapshots.build import snapshot_frames

TOTALS = ("allocated_bytes", "active_bytes", "requested_bytes", "reserved_bytes")
steps = st.lists(
    st.tuples(
        st.sampled_from(["alloc", "alloc", "free", "free", "finish", "empty"]),
        st.integers(0, 9),
        st.integers(1, SLOT),
        st.sampled_from([0, 7]),
    ),
    max_size=40,
)


def traced(snapshot, name="simulated"):
    found = snapshot_frames(snapshot)
    assert found.problems == ()
    return Trace(RunInfo(name=name, source="virtual:h100", options=found.options, extra=found.extra), **found.frames)


def snapshot_of(*allocators):
    return {
        "segments": [segment for one in allocators for segment in one.snapshot_segments()],
        "device_traces": [one.trace for one in allocators],
    }


def has_known_waits(memory):
    """Whether a release that was requested before the history differs from one without a wait for a stream.

    With completed releases alone, both look the same.
    """
    actions = set(memory["action"])
    return "free_completed" not in actions or "free_requested" in actions


@settings(max_examples=examples(40))
@given(steps, st.integers(0, 20))
def test_every_row_states_what_was_held_after_it(steps, num_before):
    allocator = played(steps, num_before)
    memory = traced(snapshot_of(allocator)).memory
    assume(has_known_waits(memory))
    for name in TOTALS:
        assert memory[name].tolist() == [state[name] for state in allocator.states]


@settings(max_examples=examples(25))
@given(steps, st.integers(0, 20), st.data())
def test_what_lives_at_any_row(steps, num_before, data):
    allocator = played(steps, num_before)
    trace = traced(snapshot_of(allocator))
    assume(has_known_waits(trace.memory))
    row = data.draw(st.integers(-1, len(allocator.states) - 1))
    state = allocator.start if row < 0 else allocator.states[row]
    found = blocks_at(trace, row=row)
    pending = (found["state"] == "active_pending_free").tolist()
    expected = dict(
        zip(found["addr"].tolist(), zip(found["requested_bytes"].tolist(), pending, strict=True), strict=True)
    )
    assert expected == state["active"]
    assert found["num_bytes"].tolist() == [rounded(size) for size in found["requested_bytes"]]
    segments = segment_lifetimes(trace)
    added, removed = segments["added"].fillna(-1), segments["removed"].fillna(len(trace.memory) + 1)
    assert set(segments["addr"][(added <= row) & (removed > row)]) == state["segments"]


@settings(max_examples=examples(15))
@given(steps, st.integers(0, 20))
def test_a_block_has_its_allocation(steps, num_before):
    allocator = played(steps, num_before)
    trace = traced(snapshot_of(allocator))
    blocks = trace.blocks[trace.blocks["state"] != "inactive"]
    expected = dict(zip(blocks["addr"].tolist(), blocks["alloc"].astype(object), strict=True))
    rows = {addr: pd.NA if block[4] is None else block[4] for addr, block in allocator.blocks.items()}
    assert expected == rows
    for addr, row in rows.items():
        if row is not pd.NA:
            entry = trace.memory.iloc[row]
            assert (entry["action"], entry["addr"]) == ("alloc", addr)
            assert blocks.loc[blocks["addr"] == addr, "allocated_ns"].item() == entry["ts"]


@settings(max_examples=examples(12))
@given(steps, st.integers(0, 20), steps)
def test_two_devices_in_one_history(first, num_before, second):
    clock = [1000]
    one, other = played(first, num_before, 0, clock), played(second, 0, 1, clock)
    trace = traced(snapshot_of(one, other))
    assert trace.memory["ts"].is_monotonic_increasing
    for device, allocator in ((0, one), (1, other)):
        mine = trace.memory[trace.memory["device"] == device]
        assert mine["active_bytes"].tolist() == [state["active_bytes"] for state in allocator.states]
        peak = memory_peak(trace, device, of="active_bytes")
        values = [allocator.start["active_bytes"], *(state["active_bytes"] for state in allocator.states)]
        if peak["num_bytes"] is not pd.NA:
            assert peak["num_bytes"] == max(values)
            assert peak["row"] == (-1 if values.index(max(values)) == 0 else mine.index[values.index(max(values)) - 1])
    assert len(block_lifetimes(trace)) >= len(one.blocks) + len(other.blocks)


@settings(max_examples=examples(12))
@given(steps, st.integers(0, 20))
def test_running_totals_of_streams(steps, num_before):
    allocator = played(steps, num_before)
    trace = traced(snapshot_of(allocator))
    found = running_totals(trace, by=("device", "stream"))
    both = dict.fromkeys((0, 7))
    for row, state in enumerate(allocator.states):
        one = found.iloc[row]
        both[one["stream"]] = one["active_bytes"], one["reserved_bytes"]
        if None not in both.values():
            assert sum(value for value, _ in both.values()) == state["active_bytes"]
            assert sum(value for _, value in both.values()) == state["reserved_bytes"]
    one_group = running_totals(trace, by=("device",))
    pd.testing.assert_frame_equal(one_group[list(TOTALS)], trace.memory[list(TOTALS)].astype("int64"))


@settings(max_examples=examples(12))
@given(steps)
def test_fragmentation_adds_up_to_what_is_reserved(steps):
    allocator = played(steps, len(steps))
    trace = traced(snapshot_of(allocator))
    if not allocator.segments:
        assert fragmentation(trace).empty
        return
    (parts,) = fragmentation(trace).to_dict("records")
    state = allocator.state()
    internal = state["active_bytes"] - state["requested_bytes"]
    empty = [s for s in allocator.segments if not any(s <= addr < s + SLOT * SLOTS for addr in allocator.blocks)]
    external = (len(allocator.segments) - len(empty)) * SLOT * SLOTS - state["active_bytes"]
    assert parts["internal_bytes"] == internal
    assert parts["external_bytes"] == external
    assert parts["empty_bytes"] == len(empty) * SLOT * SLOTS
    assert parts["fragmentation_pct"] == pytest.approx(100 * (internal + external) / state["reserved_bytes"])
    free = trace.blocks["num_bytes"][(trace.blocks["state"] == "inactive").to_numpy()]
    assert parts["largest_free_bytes"] == (free.max() if len(free) else 0)
    pools = pool_totals(trace, by=["stream"]).set_index("stream")
    for stream in set(allocator.segments.values()):
        mine = [block for block in allocator.blocks.values() if block[1] == stream]
        assert pools.loc[stream, "active_bytes"] == sum(rounded(block[0]) for block in mine)
        assert pools.loc[stream, "num_segments"] == list(allocator.segments.values()).count(stream)


@settings(max_examples=examples(15))
@given(steps)
def test_bytes_by_stack_are_a_tree_that_adds_up(steps):
    allocator = played(steps, 0)
    trace = traced(snapshot_of(allocator))
    nodes = bytes_by_stack(trace)
    wanted = {}
    for requested, _, _, stack, _ in allocator.blocks.values():
        wanted[f"f{stack}"] = wanted.get(f"f{stack}", 0) + rounded(requested)
    assert nodes["num_bytes"].iloc[0] == sum(wanted.values())
    assert nodes["num_blocks"].iloc[0] == len(allocator.blocks)
    leaves = nodes[nodes["self_bytes"] > 0]
    assert dict(zip(leaves["function"].astype(str), leaves["self_bytes"], strict=True)) == wanted
    for row, node in nodes.iterrows():
        below = nodes[nodes["parent"] == row]
        assert node["num_bytes"] == node["self_bytes"] + below["num_bytes"].sum()
        if row:
            assert node["depth"] == nodes["depth"].iloc[node["parent"]] + 1
    if wanted:
        assert nodes["function"].iloc[1] == "main"


@settings(max_examples=examples(8))
@given(steps, steps)
def test_a_diff_by_stack(before, after):
    first, second = played(before, 0), played(after, 0)
    diff = memory_diff(traced(snapshot_of(first)), traced(snapshot_of(second)))
    wanted = {}
    for sign, allocator in ((-1, first), (1, second)):
        for requested, _, _, stack, _ in allocator.blocks.values():
            text = f"a.py:{stack + 1} f{stack}\nmain.py:1 main"
            wanted[text] = wanted.get(text, 0) + sign * rounded(requested)
    assert dict(zip(diff["stack"], diff["delta_bytes"], strict=True)) == wanted
    assert (diff["after_bytes"] - diff["before_bytes"] == diff["delta_bytes"]).all()
    assert diff["delta_bytes"].abs().is_monotonic_decreasing
    by_stream = memory_diff(traced(snapshot_of(first)), traced(snapshot_of(second)), by="stream")
    assert by_stream["delta_bytes"].sum() == sum(wanted.values())


def test_two_moments_at_once_are_refused():
    with pytest.raises(ValueError, match="give one"):
        blocks_at(traced(snapshot_of()), row=1, ts=2)


def test_a_moment_by_its_time():
    allocator = played([("alloc", 0, 100, 0), ("alloc", 0, 200, 0), ("free", 0, 1, 0)], 0)
    trace = traced(snapshot_of(allocator))
    ts = trace.memory["ts"][(trace.memory["action"] == "alloc").to_numpy()]
    assert blocks_at(trace, ts=int(ts.iloc[0]))["requested_bytes"].tolist() == [100]
    assert blocks_at(trace, ts=int(ts.iloc[1]))["requested_bytes"].tolist() == [100, 200]
    assert blocks_at(trace, ts=int(ts.iloc[0]) - 1)["requested_bytes"].tolist() == []
    assert blocks_at(trace)["requested_bytes"].tolist() == [200]


def test_nothing_at_all():
    trace = Trace(RunInfo(name="none", source="cpu"))
    totals = memory_totals(trace)
    assert totals["reserved"] == totals["segments"] == totals["trace_entries"] == 0
    assert totals["has_time_us"] is False
    for found in (block_lifetimes(trace), blocks_at(trace), running_totals(trace), fragmentation(trace)):
        assert found.empty
    assert memory_peak(trace).isna().all()
    assert bytes_by_stack(trace)["num_bytes"].tolist() == [0]
    assert memory_diff(trace, trace).empty
    assert stack_texts(trace.stacks).empty


def test_expandable_segments_are_mapped_and_unmapped_in_parts():
    piece = 2 << 20
    addr = 0x7000_0000_0000

    def act(action, place, size):
        return {"action": action, "addr": addr + place * piece, "size": size * piece, "stream": 0, "time_us": 1}

    trace = traced(
        {
            "segments": [
                {
                    "device": 0,
                    "address": addr,
                    "total_size": 3 * piece,
                    "is_expandable": True,
                    "blocks": [{"address": addr, "size": 3 * piece, "state": "inactive"}],
                }
            ],
            "device_traces": [
                [
                    act("segment_map", 1, 2),
                    act("segment_map", 3, 3),
                    act("segment_unmap", 4, 2),
                    act("segment_unmap", 3, 1),
                ]
            ],
        }
    )
    found = segment_lifetimes(trace).sort_values(["addr", "added"])
    rows = [((row.addr - addr) // piece, row.num_bytes // piece, row.added, row.removed) for row in found.itertuples()]
    assert rows == [(0, 1, pd.NA, pd.NA), (1, 2, 0, pd.NA), (3, 1, 1, 3), (4, 2, 1, 2)]
    assert trace.memory["reserved_bytes"].tolist() == [n * piece for n in (3, 6, 4, 3)]


def test_pages_of_free_blocks_in_an_expandable_segment_can_be_released():
    """One block of 12 pages is used of 40; a free block of a page and a half has a whole page at most."""
    page, addr = 20 << 20, 0x7000_0000_0000
    sizes = [("active_allocated", 12 * page), ("inactive", page // 2), ("active_allocated", page // 2)]
    sizes += [("inactive", 25 * page), ("active_allocated", page // 2), ("inactive", 3 * page // 2)]
    blocks = [{"size": size, "requested_size": size, "state": state} for state, size in sizes]
    segment = {"device": 0, "address": addr, "total_size": 40 * page, "segment_type": "large", "is_expandable": True}
    (parts,) = fragmentation(traced({"segments": [segment | {"blocks": blocks}]})).to_dict("records")
    assert parts["empty_bytes"] == 26 * page
    assert parts["external_bytes"] == page
    (plain,) = fragmentation(traced({"segments": [segment | {"blocks": blocks, "is_expandable": False}]})).to_dict(
        "records"
    )
    assert (plain["empty_bytes"], plain["external_bytes"]) == (0, 27 * page)


@pytest.fixture
def cuda():
    virtual = pytest.importorskip("cudalens.virtual")
    with virtual.device("h100"):
        yield


def test_the_virtual_devices_snapshot_agrees_with_its_statistics(cuda):
    import torch

    torch.cuda.memory._record_memory_history()
    held, expected = [], []

    def note():
        stats = torch.cuda.memory_stats()
        expected.append([stats[f"{name}.all.current"] for name in TOTALS])

    side = torch.cuda.Stream()
    draw = np.random.default_rng(3)
    for _ in range(40):
        if held and draw.random() < 0.4:
            held.pop(int(draw.integers(len(held))))
        else:
            with torch.cuda.stream(side if draw.random() < 0.3 else None):
                held.append(torch.empty(int(draw.integers(1, 1 << 22)), dtype=torch.uint8, device="cuda"))
        note()
    snapshot = torch.cuda.memory._snapshot()
    trace = traced(snapshot)
    rows = trace.memory[list(TOTALS)].to_numpy(dtype=np.int64).tolist()
    assert rows[-1] == expected[-1]
    exact = [i for i, name in enumerate(TOTALS) if name in ("requested_bytes", "reserved_bytes")]
    seen = [[row[i] for i in exact] for row in rows]
    assert all([one[i] for i in exact] in seen for one in expected)
    totals = memory_totals(trace)
    stats = torch.cuda.memory_stats()
    assert totals["peak_requested"] == stats["requested_bytes.all.peak"]
    assert totals["hist_peak_reserved_dev0"] == stats["reserved_bytes.all.peak"]
    assert totals["allocated"] == torch.cuda.memory_allocated()
    assert set(pool_totals(trace, by=["stream"])["stream"]) == {0, side.cuda_stream}
    torch.cuda.memory._record_memory_history(enabled=None)


def test_private_pools_of_the_virtual_device(cuda):
    import torch

    weights = torch.randn(256, 256, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        held = weights @ weights  # noqa: F841
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        own = torch.ones(5000, device="cuda")  # noqa: F841
    pools = pool_totals(traced(torch.cuda.memory._snapshot()), by=["pool_id_first", "pool_id_second"])
    found = {(row.pool_id_first, row.pool_id_second): row.requested_bytes for row in pools.itertuples()}
    assert found[graph.pool()] >= 256 * 256 * 4
    assert found[pool.id] == 20_000
    assert (0, 0) in found
