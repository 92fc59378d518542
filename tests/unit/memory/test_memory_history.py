"""Snapshots and histories of a live device: what is in them, and what is left of them afterwards."""

from __future__ import annotations

import gc
import json
import weakref

import pytest
import torch

import cudalens
from cudalens.analysis import memory_peak, memory_totals

MIB = 1 << 20
pytestmark = pytest.mark.usefixtures("device")


def is_on():
    return torch._C._cuda_isHistoryEnabled()


def active(trace):
    return trace.blocks[trace.blocks["state"] == "active_allocated"]


def names(trace):
    return [json.loads(text)[0] for text in active(trace)["names"].dropna()]


def lost(trace):
    return [problem for problem in trace.info.problems if "lost" in problem.kind]


def test_a_snapshot_has_what_torch_counts():
    kept = [torch.zeros(MIB // 4 * k, device="cuda") for k in (1, 2, 30)]
    trace = cudalens.memory_snapshot(keep=False, namespace={"kept": kept})
    totals = memory_totals(trace)
    assert totals["allocated"] == torch.cuda.memory_allocated() == 33 * MIB
    assert totals["reserved"] == torch.cuda.memory_reserved()
    assert sorted(names(trace)) == ["kept[0]", "kept[1]", "kept[2]"]
    assert list(active(trace)["num_tensors"]) == [1, 1, 1]
    assert trace.memory.empty
    assert trace.info.source == "virtual:h100"
    assert all(one.is_modelled for one in trace.info.devices)
    assert not is_on()


def test_a_snapshot_keeps_no_tensor_alive():
    held = torch.zeros(MIB, device="cuda")
    alive = weakref.ref(held)
    trace = cudalens.memory_snapshot(keep=False, namespace={"held": held})
    del held
    assert alive() is None
    assert torch.cuda.memory_allocated() == 0
    assert names(trace) == ["held"]


def test_a_history_is_of_its_block_alone():
    before = torch.zeros(MIB, device="cuda")
    with cudalens.memory_history(keep=False) as run:
        assert is_on()
        inside = torch.zeros(2 * MIB, device="cuda")
        gone = torch.zeros(3 * MIB, device="cuda")
        del gone
    assert not is_on()
    actions = run.trace.memory["action"].value_counts()
    assert (actions["alloc"], actions["free_requested"], actions["free_completed"]) == (2, 1, 1)
    blocks = active(run.trace)
    in_block = blocks[blocks["alloc"].notna()]
    assert list(in_block["num_bytes"]) == [8 * MIB]
    assert memory_peak(run.trace)["num_bytes"] == 24 * MIB
    assert before.numel() + inside.numel() == 3 * MIB
    assert not lost(run.trace)


def test_call_stacks_end_at_the_program_and_leave_us_out():
    with cudalens.memory_history(keep=False) as run:
        kept = torch.zeros(MIB, device="cuda")
    files = set(run.trace.stacks["file"].dropna())
    assert __file__ in files
    assert not [file for file in files if "/cudalens/" in file.replace(__file__, "")]
    assert kept.is_cuda


def test_without_stacks_there_are_none():
    with cudalens.memory_history(keep=False, stacks=False) as run:
        kept = torch.zeros(MIB, device="cuda")
    assert run.trace.stacks.empty
    assert (run.trace.memory["action"] == "alloc").sum() == 1
    assert kept.is_cuda


def test_the_programs_own_history_goes_on_and_only_the_block_is_reported():
    torch.cuda.memory._record_memory_history("all", context="all", stacks="python", max_entries=1000)
    first = torch.zeros(MIB, device="cuda")
    num_before = len(torch.cuda.memory._snapshot()["device_traces"][0])
    with cudalens.memory_history(keep=False) as run:
        second = torch.zeros(2 * MIB, device="cuda")
    assert is_on()
    assert run.trace.memory["num_bytes"][(run.trace.memory["action"] == "alloc").to_numpy()].tolist() == [8 * MIB]
    own = torch.cuda.memory._snapshot()["device_traces"][0]
    assert [row["size"] for row in own if row["action"] == "alloc"] == [4 * MIB, 8 * MIB]
    assert len(own) > num_before
    assert not lost(run.trace)
    assert first.is_cuda
    assert second.is_cuda


def test_a_history_of_the_programs_that_is_too_short_reports_it():
    torch.cuda.memory._record_memory_history("all", max_entries=4)
    kept = torch.zeros(MIB, device="cuda")
    with cudalens.memory_history(keep=False) as run:
        for _ in range(10):
            torch.zeros(MIB, device="cuda")
    assert lost(run.trace)
    assert kept.is_cuda


def test_a_full_history_reports_it():
    with cudalens.memory_history(keep=False, max_entries=5) as run:
        for _ in range(10):
            torch.zeros(MIB, device="cuda")
    assert len(run.trace.memory) == 5
    assert lost(run.trace)


def test_an_exception_is_recorded_and_propagates():
    def fill():
        local = torch.zeros(MIB, device="cuda")
        return local, torch.empty(200 << 30, dtype=torch.uint8, device="cuda")

    with pytest.raises(torch.OutOfMemoryError), cudalens.memory_history(keep=False, namespace={}) as run:
        fill()
    assert not is_on()
    trace = run.trace
    assert trace.info.status == "raised"
    assert (trace.memory["action"] == "oom").sum() == 1
    assert names(trace) == ["<exception>.fill.local"]
    assert list(active(trace)["category"]) == ["temporary"]


def test_an_exception_that_passed_leaves_nothing_alive():
    def fill():
        local = torch.zeros(MIB, device="cuda")
        raise KeyError(local.shape)

    with pytest.raises(KeyError), cudalens.memory_history(keep=False, namespace={}):
        fill()
    gc.collect()
    assert torch.cuda.memory_allocated() == 0


def test_it_saves_and_loads(tmp_path):
    kept = {"weights": [torch.zeros(MIB, device="cuda")]}
    with cudalens.memory_history("mine", keep=False, namespace={"kept": kept}) as run:
        kept["more"] = torch.zeros(MIB, device="cuda")
    again = cudalens.load(run.trace.save(tmp_path / "m.cudalens"))
    for name, frame in run.trace.frames.items():
        assert frame.equals(again.frames[name]), name
    assert again.info == run.trace.info
    assert str(again.summary()) == str(run.trace.summary())


def test_runs_keep_it_by_name():
    cudalens.runs.clear()
    trace = cudalens.memory_snapshot("now")
    assert cudalens.runs["now"] is trace
    cudalens.runs.clear()


def test_a_history_serves_once():
    history = cudalens.memory_history(keep=False)
    with pytest.raises(cudalens.MemorySnapshotError, match="when the block ends"):
        _ = history.trace
    with history:
        pass
    with pytest.raises(cudalens.MemorySnapshotError, match="used only once"):
        history.__enter__()


def test_several_devices(device):
    device.disable()
    with cudalens.virtual.device("h100x2"):
        kept = [torch.zeros(MIB, device=f"cuda:{i}") for i in (0, 1)]
        trace = cudalens.memory_snapshot(keep=False, namespace={"kept": kept})
        assert dict(zip(active(trace)["device"], names(trace), strict=True)) == {0: "kept[0]", 1: "kept[1]"}


def test_private_pools_are_of_their_graphs():
    static = torch.zeros(MIB, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = static + 1
    trace = cudalens.memory_snapshot(keep=False, namespace={"mine": [graph], "static": static, "out": out})
    blocks = active(trace)
    private = blocks[(blocks["graph"] == "mine[0]").to_numpy()]
    assert list(private["category"]) == ["graph pool"] * len(private)
    assert {json.loads(text)[0] for text in private["names"].dropna()} == {"out"}
    assert not (blocks[blocks["names"] == '["static"]']["category"] == "graph pool").any()


def test_pools_of_a_manager_are_of_its_functions():
    @cudalens.cudagraph
    def double(x):
        return x * 2

    x = torch.ones(MIB, device="cuda")
    for _ in range(3):
        y = double(x)
    trace = cudalens.memory_snapshot(keep=False, namespace={"x": x, "y": y})
    private = trace.blocks[(trace.blocks["pool_id_second"] != 0).to_numpy()]
    (label,) = set(private["graph"])
    assert label.startswith("graphs of ")
    assert label.endswith("double")


def test_no_device_states_what_to_do(device):
    device.disable()
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(cudalens.MemorySnapshotError, match="cudadevice virtual"):
        cudalens.memory_snapshot()
    with pytest.raises(cudalens.MemorySnapshotError, match="cudadevice virtual"):
        cudalens.memory_history().__enter__()
