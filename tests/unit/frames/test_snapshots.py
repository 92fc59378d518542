"""Snapshots as frames: what is known finds its column, what is not is kept, what is missing is missing."""

import copy
import json
import pickle

import numpy as np
import pandas as pd
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import cudalens
from cudalens.errors import TraceFormatError
from cudalens.frames import check_frame
from cudalens.frames.snapshots.build import snapshot_frames
from cudalens.frames.snapshots.history import rounded
from cudalens.virtual.allocator.sizes import round_size

STEP = {"filename": "train.py", "name": "step", "line": 42}
MAIN = {"filename": "train.py", "name": "<module>", "line": 50}
ADDR = 0x7F00_0000_0000


def block(addr, size, requested, state="active_allocated", **more):
    return {"address": addr, "size": size, "requested_size": requested, "state": state, "frames": [STEP, MAIN], **more}


def segment(*blocks, **more):
    facts = {"device": 0, "address": ADDR, "total_size": sum(b["size"] for b in blocks), "stream": 0, "frames": []}
    facts |= {"segment_type": "large", "segment_pool_id": (0, 1), "is_expandable": True, "blocks": list(blocks)}
    return facts | more


def act(action, addr=ADDR, size=1000, time_us=10, **more):
    return {
        "action": action,
        "addr": addr,
        "size": size,
        "stream": 0,
        "time_us": time_us,
        "frames": [STEP, MAIN],
        **more,
    }


def of(*segments, traces=((),), **more):
    found = snapshot_frames({"segments": list(segments), "device_traces": [list(t) for t in traces], **more})
    for name, frame in found.frames.items():
        check_frame(name, frame)
    return found


def test_a_block_in_full():
    found = of(
        segment(block(ADDR, 1024, 1000), block(ADDR + 1024, 1024, 77, "inactive")),
        traces=[[act("segment_alloc", size=2048), act("alloc", time_us=11, user_metadata="prefetch")]],
    )
    first, second = (row for _, row in found.frames["blocks"].iterrows())
    columns = {
        name: first[name] for name in ("device", "segment_bytes", "segment_type", "stream", "num_bytes", "alloc")
    }
    assert columns == {
        "device": 0,
        "segment_bytes": 2048,
        "segment_type": "large",
        "stream": 0,
        "num_bytes": 1024,
        "alloc": 1,
    }
    assert (first["segment_addr"], first["addr"], second["addr"]) == (ADDR, ADDR, ADDR + 1024)
    assert (first["pool_id_first"], first["pool_id_second"], first["is_expandable"]) == (0, 1, True)
    assert (first["requested_bytes"], first["allocated_ns"], first["user_metadata"]) == (1000, 11_000, "prefetch")
    assert second["state"] == "inactive"
    assert pd.isna(second["requested_bytes"])  # the value belongs to the block's previous owner
    stacks = found.frames["stacks"]
    assert stacks[["file", "line", "function"]].values.tolist() == [
        ["train.py", 42, "step"],
        ["train.py", 50, "<module>"],
    ]
    assert found.problems == ()


def test_unknown_fields_are_kept():
    found = of(
        segment(block(ADDR, 512, 1, color="red"), numa=3),
        traces=[[act("alloc", size=1), act("free_requested", generation={"n": [1, 2.5, None, "ü"]}, size=1)]],
        allocator_settings={"max_split_size": -1},
        driver=["12.8"],
    )
    assert json.loads(found.frames["blocks"]["extra"].iloc[0]) == {"segment": {"numa": 3}, "block": {"color": "red"}}
    assert found.frames["memory"]["extra"].isna().tolist() == [True, False]
    assert json.loads(found.frames["memory"]["extra"].iloc[1]) == {"generation": {"n": [1, 2.5, None, "ü"]}}
    assert {name: json.loads(text) for name, text in found.extra.items()} == {
        "allocator_settings": {"max_split_size": -1},
        "driver": ["12.8"],
    }
    assert found.options["snapshot_keys"] == "segments|device_traces|allocator_settings|driver"


def test_other_fields_of_a_stack_frame():
    node = STEP | {"fx_node_op": "call_function", "fx_node_name": "linear"}
    found = of(segment(block(ADDR, 512, 1, frames=[node]), block(ADDR + 512, 512, 1, frames=[STEP])))
    stacks = found.frames["stacks"]
    assert stacks["extra"].isna().tolist() == [False, True]
    assert json.loads(stacks["extra"].iloc[0]) == {"fx_node_op": "call_function", "fx_node_name": "linear"}
    assert found.frames["blocks"]["stack"].tolist() == [0, 1]


def test_stacks_with_equal_content_are_one_and_native_frames_have_no_line():
    native = {"filename": "??", "name": "torch::unwind::unwind()", "line": 0}
    first, second = [native, STEP], [copy.deepcopy(native), dict(STEP)]
    found = of(segment(block(ADDR, 512, 1, frames=first), block(ADDR + 512, 512, 1, frames=second)))
    assert found.frames["blocks"]["stack"].tolist() == [0, 0]
    assert found.frames["stacks"]["line"].tolist() == [pd.NA, 42]
    assert found.frames["stacks"]["file"].isna().tolist() == [True, False]


def test_the_layout_of_torch_2_0():
    used = {"addr": ADDR + 512, "real_size": 700, "frames": [STEP]}
    old = segment(
        {"size": 512, "requested_size": 100, "state": "active_allocated"},
        {"size": 1024, "requested_size": 700, "state": "active_awaiting_free", "history": [used]},
    )
    for key in ("segment_pool_id", "is_expandable", "frames"):
        del old[key]
    found = of(old, traces=[[{"action": "free_requested", "addr": ADDR + 512, "size": 700, "stream": 0}]])
    blocks = found.frames["blocks"]
    assert blocks["addr"].tolist() == [ADDR, ADDR + 512]
    assert blocks["state"].tolist() == ["active_allocated", "active_pending_free"]
    assert blocks["stack"].tolist() == [pd.NA, 0]
    assert blocks["pool_id_first"].isna().all()
    assert blocks["extra"].isna().all()
    assert found.options["snapshot_has_times"] is False
    memory = found.frames["memory"]
    assert memory["ts"].tolist() == [0]
    assert memory[["allocated_bytes", "active_bytes"]].values.tolist() == [[512, 1536]]


def test_an_oom_reports_what_was_free():
    entry = {"action": "oom", "device_free": 77, "size": 1 << 30, "stream": 0, "time_us": 3, "frames": []}
    memory = of(traces=[[entry]]).frames["memory"]
    assert memory[["device_free_bytes", "num_bytes"]].values.tolist() == [[77, 1 << 30]]
    assert memory["addr"].isna().all()


def test_a_pool_that_the_history_does_not_name_is_that_of_the_segment():
    found = of(segment(block(ADDR, 512, 1)), traces=[[act("alloc", size=1), act("alloc", addr=ADDR + 512, size=1)]])
    assert found.frames["memory"]["pool_id_second"].tolist() == [1, pd.NA]
    named = of(segment(block(ADDR, 512, 1)), traces=[[act("alloc", size=1, pool_id=(5, 0))]])
    assert named.frames["memory"][["pool_id_first", "pool_id_second"]].values.tolist() == [[5, 0]]


def test_annotations_are_events():
    def mark(stage, time_us, name="Optimizer.step#SGD.step"):
        return {"stage": stage, "name": name, "device": 0, "time_us": time_us}

    marks = [mark("START", 5), mark("START", 6, "inner"), mark("END", 8, "inner"), mark("END", 9), mark("START", 10)]
    found = of(traces=[[act("alloc", time_us=12)]], external_annotations=[*marks, mark("END", 1, "lost"), 7])
    events = found.frames["events"]
    rows = events[["name", "ts", "dur"]].astype({"name": object}).values.tolist()
    assert rows == [
        ["Optimizer.step#SGD.step", 5000, 4000],
        ["inner", 6000, 2000],
        ["Optimizer.step#SGD.step", 10_000, 2000],
    ]
    assert events["parent"].tolist() == [pd.NA, 0, pd.NA]
    assert {p.kind for p in found.problems} == {
        "annotation that ends without a start",
        "annotation of another form",
    }


@pytest.mark.parametrize(
    ("snapshot", "where"),
    [
        (7, "int"),
        ({}, "without 'segments'"),
        ({"segments": 3}, "segments"),
        ({"segments": [3]}, r"segments\[0\]"),
        ({"segments": [{"blocks": 3}]}, "blocks"),
        ({"segments": [{"blocks": [[]]}]}, r"blocks\[0\]"),
        ({"segments": [], "device_traces": {}}, "device_traces"),
        ({"segments": [], "device_traces": [3]}, r"device_traces\[0\]"),
        ({"segments": [], "device_traces": [[3]]}, r"device_traces\[0\]"),
        ({"segments": [], "device_traces": [[{"frames": 3}]]}, "device_traces"),
        ({"segments": [], "device_traces": [[{"frames": [3]}]]}, "frames"),
    ],
)
def test_what_is_no_snapshot_states_where(snapshot, where):
    with pytest.raises(TraceFormatError, match=where) as raised:
        snapshot_frames(snapshot, name="given.pickle")
    assert "given.pickle" in str(raised.value)


odd = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just([1]) | st.just({"a": 1})


@settings(max_examples=examples(30))
@given(
    st.dictionaries(st.sampled_from(["address", "size", "requested_size", "state", "more"]), odd),
    st.dictionaries(
        st.sampled_from(["device", "address", "total_size", "stream", "segment_pool_id", "segment_type"]), odd
    ),
    st.dictionaries(st.sampled_from(["action", "addr", "size", "stream", "time_us", "pool_id", "user_metadata"]), odd),
)
def test_values_of_any_type_are_survived(block_fields, segment_fields, act_fields):
    facts = {**segment(block(ADDR, 512, 1)), "blocks": [block(ADDR, 512, 1) | block_fields], **segment_fields}
    snapshot = {"segments": [facts]}
    snapshot["device_traces"] = [[act("alloc") | act_fields, act("free_completed")]]
    for name, frame in snapshot_frames(snapshot).frames.items():
        check_frame(name, frame)


def test_odd_values_are_counted_and_missing():
    found = of(
        segment(block(ADDR, 512, 1), stream="main"), traces=[[act("alloc", size=-5), act("alloc", addr=1 << 64)]]
    )
    assert found.frames["blocks"]["stream"].isna().all()
    assert found.frames["memory"]["num_bytes"].tolist() == [0, 1000]
    assert found.frames["memory"]["addr"].isna().tolist() == [False, True]
    assert {(p.kind, p.count) for p in found.problems} == {
        ("'stream' of another type or out of range", 1),
        ("'addr' of another type or out of range", 1),
        ("'size' of another type or out of range", 1),
    }


def test_blocks_that_do_not_fill_their_segment_are_reported():
    found = of(segment(block(ADDR, 512, 1), total_size=1024), {"device": 0, "address": 1, "total_size": 99})
    assert {p.kind for p in found.problems} == {
        "segment whose blocks do not add up to its total_size",
        "segment without blocks",
    }
    assert found.frames["blocks"]["segment_bytes"].tolist() == [1024, 99]
    assert found.frames["blocks"]["state"].tolist() == ["active_allocated", "inactive"]


def test_times_that_go_back_keep_the_order_of_the_history():
    memory = of(traces=[[act("alloc", time_us=20), act("free_completed", time_us=10)]]).frames["memory"]
    assert memory["action"].tolist() == ["alloc", "free_completed"]
    assert memory["ts"].tolist() == [20_000, 20_000]


@given(st.lists(st.integers(1, 1 << 45), min_size=1), st.lists(st.integers(0, 9), min_size=16, max_size=16))
def test_sizes_are_rounded_as_the_allocator_rounds(sizes, logs):
    divisions = tuple((1 << n) % 512 for n in logs)
    conf = {"roundup_power2_divisions": {str(1 << i): n for i, n in enumerate(divisions)}}
    assert rounded(np.array(sizes), conf).tolist() == [round_size(size, divisions) for size in sizes]
    assert rounded(np.array(sizes)).tolist() == [round_size(size, None) for size in sizes]


OPTIMIZER, MODULE = "/x/torch/optim/adamw.py", "/x/torch/nn/modules/module.py"


@pytest.mark.parametrize(
    ("frames", "more", "category"),
    [
        ([("_init_group", OPTIMIZER), ("step", OPTIMIZER)], {}, "optimizer state"),
        ([("_multi_tensor_adamw", OPTIMIZER)], {}, "optimizer state"),
        ([("f", "m.py"), ("_call_impl", MODULE)], {}, "activation"),
        ([("__init__", "/x/torch/nn/modules/linear.py"), ("__init__", "m.py")], {}, "parameter"),
        ([("convert", MODULE), ("_apply", MODULE)], {}, "parameter"),
        ([("torch::autograd::AccumulateGrad::apply()", "??")], {}, "gradient"),
        ([("torch::autograd::Engine::thread_main()", "engine.cpp")], {}, "gradient"),
        ([("_engine_run_backward", "/x/torch/autograd/graph.py")], {}, "gradient"),
        ([("at::cuda::getCurrentCUDABlasHandle()", "??"), ("_call_impl", MODULE)], {}, "workspace"),
        ([("pin", "/x/torch/utils/data/_utils/pin_memory.py")], {}, "input"),
        ([("backward", "mine.py")], {}, None),
        ([("workspace", "/home/me/mine.py")], {}, None),
        ([("f", "m.py")], {}, None),
        ([("f", "m.py"), ("_call_impl", MODULE)], {"segment_pool_id": (3, 0)}, "graph pool"),
    ],
)
def test_the_category_of_a_block_from_its_stack(frames, more, category):
    stack = [{"filename": file, "name": name, "line": 1} for name, file in frames]
    found = of(segment(block(ADDR, 512, 1, frames=stack), **{"segment_pool_id": (0, 0), **more}))
    columns = found.frames["blocks"]["category"].iloc[0]
    assert (None if pd.isna(columns) else columns) == category


def test_what_a_step_releases_is_temporary_while_it_runs():
    stack = [{"filename": OPTIMIZER, "name": "step", "line": 1}]
    other = ADDR + 512
    acts = [act("alloc", size=1, frames=stack), act("alloc", addr=other, size=1, frames=stack)]
    running = [*acts, act("free_completed", addr=other, size=1, frames=stack)]
    for traces, category in ((running, "temporary"), ([*running, act("alloc", addr=1)], "optimizer state")):
        found = of(segment(block(ADDR, 512, 1, frames=stack), segment_pool_id=(0, 0)), traces=[traces])
        assert found.frames["blocks"]["category"].tolist() == [category]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_all_protocols_give_the_same_trace_and_it_saves(tmp_path, protocol):
    snapshot = {
        "segments": [segment(block(ADDR, 512, 1), block(ADDR + 512, 512, 0, "inactive", note="free"))],
        "device_traces": [[act("alloc", addr=ADDR + i * 512, size=i, time_us=i) for i in range(300)]],
    }
    path = tmp_path / "snap.pickle"
    path.write_bytes(pickle.dumps(snapshot, protocol))
    trace = cudalens.load(path)
    assert trace.info.source == "file:torch_snapshot"
    assert (trace.info.name, trace.info.started_ns, trace.info.ended_ns) == ("snap.pickle", 0, 299_000)
    direct = snapshot_frames(snapshot).frames
    again = cudalens.load(trace.save(tmp_path / "snap.cudalens"))
    for name in ("blocks", "memory", "stacks", "events"):
        pd.testing.assert_frame_equal(trace.frames[name], direct[name])
        pd.testing.assert_frame_equal(again.frames[name], direct[name])
