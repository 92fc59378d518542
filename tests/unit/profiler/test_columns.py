"""What each option brings into the frames, against what torch's own events of the same run say."""

from __future__ import annotations

import gc
import json
import os
import threading

import pytest
import torch
from profiled_programs import mlp_training, nested_same_name, recorded, transformer_step
from torch import nn

from cudalens.frames import check_frame
from cudalens.profiler import ProfilerOptions


def by_start(events):
    """Rows of the frame by (start, name, external id), unique in these programs."""
    keys = zip(events["ts"], events["name"], events["external_id"].fillna(0), strict=True)
    return {(int(ts), str(name), int(external)): row for row, (ts, name, external) in enumerate(keys)}


def shown(peer):
    names = {"[memory]", "[OutOfMemory]", "aten::is_leaf", "aten::output_nr", "aten::_version"}
    return [e for e in peer.kineto_results.events() if e.name() not in names and not e.is_hidden_event()]


def test_plain_run_has_every_event_with_times_ids_and_category():
    frames, peer = recorded(mlp_training, ProfilerOptions(cpu_only=True))
    events = check_frame("events", frames["events"])
    rows = by_start(events)
    raw = shown(peer)
    assert len(raw) == len(events) == len(rows)
    for event in raw:
        row = events.iloc[rows[event.start_ns(), event.name(), event.correlation_id()]]
        assert row["dur"] == event.duration_ns()
        assert row["cat"] == event.activity_type()
        assert row["tid"] == threading.get_native_id()
        assert row["pid"] == os.getpid()
        assert (event.sequence_nr() < 0) == (
            row["sequence_nr"] is not row["sequence_nr"] or str(row["sequence_nr"]) == "<NA>"
        )
    assert set(events["cat"].cat.categories) == {"cpu_op", "user_annotation"}
    assert events["device"].isna().all()
    assert events["step"].dropna().nunique() == 3
    assert frames.keys() == {"events"}


def test_columns_that_were_not_asked_for_are_missing():
    frames, _ = recorded(nested_same_name, ProfilerOptions(cpu_only=True))
    for column in ("shapes", "dtypes", "flops", "stack", "module", "grid", "stream", "correlation_id"):
        assert frames["events"][column].isna().all(), column


def test_backward_rows_name_the_forward_thread():
    frames, peer = recorded(mlp_training, ProfilerOptions(cpu_only=True))
    events = frames["events"]
    expected = sum(e.fwd_thread_id() > 0 and e.sequence_nr() >= 0 for e in shown(peer))
    assert events["fwd_tid"].notna().sum() == expected > 0


def test_shapes_and_dtypes_are_json_of_what_torch_recorded():
    frames, peer = recorded(transformer_step, ProfilerOptions(shapes=True, cpu_only=True))
    events = frames["events"]
    rows = by_start(events)
    for event in shown(peer):
        row = events.iloc[rows[event.start_ns(), event.name(), event.correlation_id()]]
        shapes = event.structured_input_shapes()
        if shapes:
            assert json.loads(row["shapes"]) == shapes
            assert json.loads(row["dtypes"]) == list(event.dtypes())
        else:
            assert row["shapes"] != row["shapes"]
    assert events["shapes"].notna().any()


def test_tensor_lists_keep_the_shape_of_each_tensor():
    frames, _ = recorded(
        lambda: torch.cat([torch.ones(2, 3), torch.ones(4, 3)]), ProfilerOptions(shapes=True, cpu_only=True)
    )
    events = frames["events"]
    assert events.loc[events["name"] == "aten::cat", "shapes"].tolist() == ["[[[2,3],[4,3]],[]]"]


def test_empty_run_gives_an_empty_frame_with_all_columns():
    frames, _ = recorded(
        lambda: None, ProfilerOptions(shapes=True, memory=True, flops=True, modules=True, cpu_only=True)
    )
    ops = check_frame("events", frames["events"])
    assert not (ops["cat"] == "cpu_op").any()
    frames, _ = recorded(lambda: None, ProfilerOptions(cpu_only=True))
    assert len(check_frame("events", frames["events"])) == 0


@pytest.mark.parametrize("was_enabled", [True, False])
def test_garbage_collection_is_as_it_was(was_enabled):
    (gc.enable if was_enabled else gc.disable)()
    try:
        recorded(nested_same_name, ProfilerOptions(cpu_only=True))
        assert gc.isenabled() == was_enabled
    finally:
        gc.enable()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(4, 2))

    def forward(self, x):
        return self.rest(self.first(x)) + torch.ones(2)


def test_modules_are_paths_and_reach_the_backward_pass():
    net = Net()
    frames, _ = recorded(lambda: net(torch.randn(3, 4)).sum().backward(), ProfilerOptions(modules=True, cpu_only=True))
    events = frames["events"]

    def modules(name):
        return events.loc[events["name"] == name, "module"].tolist()

    assert modules("aten::linear") == ["Net_0.Linear_0", "Net_0.Sequential_0.Linear_1"]
    assert modules("aten::relu") == ["Net_0.Sequential_0.ReLU_0"]
    assert modules("AddmmBackward0") == ["Net_0.Sequential_0.Linear_1", "Net_0.Linear_0"]
    assert modules("ReluBackward0") == ["Net_0.Sequential_0.ReLU_0"]
    assert modules("AddBackward0") == ["Net_0"]
    assert modules("SumBackward0") != modules("AddBackward0")
    under = events.loc[events["name"] == "aten::mm", "module"]
    assert set(under) == {"Net_0.Sequential_0.Linear_1", "Net_0.Linear_0"}
    assert events["stack"].isna().all()


def test_stacks_are_those_of_torch():
    """torch itself fills stack() only in verbose runs; so run its own profiler that way and walk the same tree."""
    net = Net()

    def program():
        net(torch.randn(3, 4)).sum().backward()

    frames, peer = recorded(program, ProfilerOptions(stacks=True, cpu_only=True))
    events, stacks = frames["events"], check_frame("stacks", frames["stacks"])
    rows = by_start(events)
    python = {e.python_id(): e for e in shown(peer) if e.is_python_function()}
    texts = {
        int(stack): [
            f"{file}({first_line}): {function}" if isinstance(file, str) else function
            for file, first_line, function in zip(part["file"], part["first_line"], part["function"], strict=True)
        ]
        for stack, part in stacks.groupby("stack")
    }
    checked = 0
    for event in shown(peer):
        if event.name() != "aten::linear":
            continue
        around = [p for p in python.values() if p.start_ns() <= event.start_ns() and p.end_ns() >= event.end_ns()]
        innermost = max(around, key=lambda p: p.start_ns())
        expected, at = [], innermost
        while at is not None:
            expected.append(at.name())
            at = python.get(at.python_parent_id())
        row = events.iloc[rows[event.start_ns(), event.name(), event.correlation_id()]]
        assert texts[int(row["stack"])] == expected
        checked += 1
    assert checked == 2
    of_backward = events.loc[events["name"] == "AddmmBackward0", "stack"].tolist()
    of_forward = events.loc[events["name"] == "aten::linear", "stack"].tolist()
    assert of_backward == of_forward[::-1]
    assert any("program" in function for function in stacks["function"])


def test_equal_stacks_are_kept_once():
    def program():
        for _ in range(5):
            torch.ones(2)

    frames, _ = recorded(program, ProfilerOptions(stacks=True, cpu_only=True))
    events = frames["events"]
    assert events.loc[events["name"] == "aten::ones", "stack"].nunique() == 1


def test_a_host_row_carries_the_name_of_its_thread():
    frames, _ = recorded(mlp_training, ProfilerOptions(cpu_only=True))
    events = frames["events"]
    here = events["tid"] == threading.get_native_id()
    assert here.any()
    assert set(events.loc[here, "thread"]) == {threading.current_thread().name}


def test_python_frames_of_threads_that_torch_does_not_list_are_apart():
    release = threading.Event()
    others = [threading.Thread(target=release.wait) for _ in range(2)]
    for other in others:
        other.start()
    try:
        frames, _ = recorded(mlp_training, ProfilerOptions(stacks=True, cpu_only=True))
    finally:
        release.set()
        for other in others:
            other.join()
    events = check_frame("events", frames["events"])
    elsewhere = events[events["tid"].isna()]
    assert set(elsewhere["thread"]) == {"other Python threads"}
    assert set(elsewhere["cat"]) == {"python_function"}
    assert elsewhere["name"].str.contains("wait").any()
    assert (events.loc[events["cat"] == "cpu_op", "tid"] == threading.get_native_id()).all()
