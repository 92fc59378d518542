"""Layouts of Chrome traces of different years, vendors and tools, with one small trace each."""

import gzip
import json

import pytest
from chrome import column, kernel, launch, load_bytes, load_events, op, problems, write

import cudalens
from cudalens.analysis import findings
from cudalens.frames import Trace


def test_an_operator_with_its_launch_and_kernel(tmp_path):
    events = [op(1, 10), launch(2, 3, 5), kernel(8, 4, correlation=5, grid=[2, 1, 1], block=[128, 1, 1])]
    trace = load_events(tmp_path, events)
    assert column(trace, "ts") == [1000, 2000, 8000]
    assert column(trace, "dur") == [10_000, 3_000, 4_000]
    assert column(trace, "parent") == [None, 0, None]
    assert column(trace, "launch") == [None, None, 1]
    assert column(trace, "pid") == [10, 10, None]
    assert column(trace, "device") == [None, None, 0]
    assert column(trace, "stream") == [None, None, 7]
    assert column(trace, "grid")[2] == "[2,1,1]"
    assert column(trace, "block_dim")[2] == "[128,1,1]"
    assert trace.info.source == "file:kineto"
    assert trace.info.options["file_events"] == 3
    assert trace.info.problems == ()


@pytest.mark.parametrize("indent", [None, 0, 1, 4])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (" , ", " : ")])
def test_any_spacing(tmp_path, indent, separators):
    text = json.dumps({"traceEvents": [op(1, 2), op(5, 6)], "x": 1}, indent=indent, separators=separators)
    assert column(load_bytes(tmp_path, text.encode()), "ts") == [1000, 5000]


def test_white_space_before_json_is_not_taken_for_a_message(tmp_path):
    # The length that the second byte is as a message ends at a line break, the tag of the next message.
    text = "\n  " + json.dumps({"schemaVersion": 1, "n": 0, "traceEvents": [op(1, 2)]}, indent=4)
    for data in (text.encode(), gzip.compress(text.encode())):
        assert column(load_bytes(tmp_path, data), "ts") == [1000]


def test_format_is_detected_from_content_not_from_the_name(tmp_path):
    trace = load_events(tmp_path, [op(1, 2)])
    saved = trace.save(tmp_path / "looks_like.json")
    assert len(cudalens.load(saved)) == 1
    packed = tmp_path / "no_suffix"
    packed.write_bytes(gzip.compress((tmp_path / "trace.json").read_bytes()))
    assert len(cudalens.load(packed)) == 1


@pytest.mark.parametrize("prefix", [b"", b"\n\n", b"\xef\xbb\xbf", b" " * 100, b" " * 10_000])
def test_a_bare_list_after_space_or_a_byte_order_mark(tmp_path, prefix):
    trace = load_bytes(tmp_path, prefix + json.dumps([op(1, 2)]).encode())
    assert len(trace) == 1
    assert trace.info.problems == ()


def test_several_gzip_members_and_padding(tmp_path):
    text = json.dumps({"traceEvents": [op(1, 2), op(3, 4)]}).encode()
    data = gzip.compress(text[:40]) + gzip.compress(text[40:]) + b"\0" * 700
    trace = load_bytes(tmp_path, data)
    assert len(trace) == 2
    assert trace.info.problems == ()


def test_keys_may_are_on_either_side_of_the_events(tmp_path):
    first = json.dumps({"baseTimeNanoseconds": 10**18, "traceEvents": [op(1.5, 2)]})
    last = json.dumps({"traceEvents": [op(1.5, 2)], "baseTimeNanoseconds": "1000000000000000000"})
    assert column(load_bytes(tmp_path, first.encode()), "ts") == [10**18 + 1500]
    assert column(load_bytes(tmp_path, last.encode()), "ts") == [10**18 + 1500]


def test_the_key_of_the_events_may_also_are_deeper_or_in_a_text(tmp_path):
    around = {"a": {"traceEvents": [1]}, "b": '"traceEvents": [', "c": ["traceEvents"]}
    text = json.dumps({**around, "traceEvents": [op(1, 2)]})
    trace = load_bytes(tmp_path, text.encode())
    assert len(trace) == 1
    assert trace.info.problems == ()


def test_no_events_is_an_empty_trace(tmp_path):
    for text in (b'{"traceEvents": []}', b"[]", b'{"traceEvents" : [ ] , "x": 1 }'):
        trace = load_bytes(tmp_path, text)
        assert isinstance(trace, Trace)
        assert len(trace) == 0
        assert trace.info.problems == ()


def test_objects_in_args_and_after_the_events_that_look_like_events(tmp_path):
    inner = [{"ph": "X", "name": "inner", "ts": 1}, {"ph": "X", "name": "}, {"}, {"name": "]}"}]
    events = [op(i, 1, name=f"}}, {{ {i}", inner=inner) for i in range(6000)]
    path = write(tmp_path / "trace.json", events)
    text = path.read_bytes()[:-1] + b', "after": ' + json.dumps(inner * 20_000).encode() + b"}"
    trace = load_bytes(tmp_path, text)
    assert len(trace) == 6000
    assert trace.info.options["file_events"] == 6000
    assert trace.info.problems == ()


def test_slices_are_cut_right_at_any_length(tmp_path):
    """Entries of all lengths, so that slices end in strings, nested lists and between events."""
    events = [op(i, 1, name="n" * (i % 501), blob=[{"ph": "}, {"}] * (i % 7)) for i in range(12_000)]
    trace = cudalens.load(write(tmp_path / "t.json.gz", events))
    assert column(trace, "ts") == [1000 * i for i in range(12_000)]
    assert trace.info.problems == ()


def test_2021_names_and_labelled_lanes(tmp_path):
    events = [
        op(1, 9, cat="Operator", tid="3004819264", **{"Input dims": [[2, 3], []], "External id": 4}),
        op(2, 1, "cudaLaunchKernel", cat="Runtime", tid="3004819264", correlation=7, **{"external id": 4}),
        kernel(5, 6, cat="Kernel", correlation=7, **{"external id": 4}) | {"tid": "stream 7"},
        {
            "ph": "X",
            "cat": "Memcpy",
            "name": "c",
            "pid": 1,
            "tid": "stream 20",
            "ts": 20,
            "dur": 1,
            "args": {"bytes": 64},
        },
        {"ph": "X", "cat": "Memset", "name": "s", "pid": 1, "tid": "stream 20", "ts": 30, "dur": 1},
    ]
    trace = load_events(tmp_path, events)
    assert column(trace, "cat") == ["cpu_op", "cuda_runtime", "kernel", "gpu_memcpy", "gpu_memset"]
    assert column(trace, "tid") == [3004819264, 3004819264, None, None, None]
    assert column(trace, "device") == [None, None, 0, 1, 1]
    assert column(trace, "stream") == [None, None, 7, 20, 20]
    assert column(trace, "external_id") == [4, 4, 4, None, None]
    assert column(trace, "launch")[2] == 1
    assert column(trace, "shapes")[0] == "[[2,3],[]]"
    assert column(trace, "num_bytes")[3] == 64


def test_a_stream_argument_alone_makes_no_device_work(tmp_path):
    events = [
        op(1, 2, "triton_poi", stream=0, device=0),
        op(2, 1, "hipMemcpyWithStream", cat="cuda_runtime", stream="0x0", correlation=3),
        op(3, 1, "range", cat="user_annotation", stream=0, device=0),
        op(4, 1, "frame", cat="python_function", pid=0, tid=0, stream=0, device=0),
        op(5, 1, "odd", cat="no_one_knows", stream=3),
        op(6, 1, "odd", cat="no_one_knows", stream=3, device=1),
    ]
    trace = load_events(tmp_path, events)
    assert column(trace, "device") == [None] * 5 + [1]
    assert column(trace, "pid") == [10, 10, 10, 0, 10, None]
    assert column(trace, "tid")[3] == 0
    assert trace.info.problems == ()


def test_annotations_and_syncs_are_on_streams(tmp_path):
    events = [
        {"ph": "X", "cat": "gpu_user_annotation", "name": "step", "pid": 2, "tid": 7, "ts": 1, "dur": 2, "args": {}},
        kernel(3, 1, "Context Sync", cat="cuda_sync", device=0, stream=-1),
    ]
    trace = load_events(tmp_path, events)
    assert column(trace, "device") == [2, 0]
    assert column(trace, "stream") == [7, None]


def test_mtia_rows_are_on_their_device(tmp_path):
    events = [
        op(1, 2, "launch", cat="mtia_runtime", correlation=9),
        {
            "ph": "X",
            "cat": "mtia_ccp_events",
            "name": "k",
            "pid": 1,
            "tid": 4,
            "ts": 5,
            "dur": 2,
            "args": {"correlation": 9},
        },
    ]
    trace = load_events(tmp_path, events)
    assert column(trace, "device") == [None, 1]
    assert column(trace, "stream") == [None, 4]
    assert column(trace, "correlation_id") == [9, 9]
    assert column(trace, "launch") == [None, 0]


def test_autograd_profiler_before_kineto(tmp_path):
    events = [
        {"name": "add", "ph": "X", "ts": 1, "dur": 2, "tid": 0, "pid": "CPU functions", "args": {}},
        {"name": "k", "ph": "X", "ts": 2, "dur": 2, "tid": 1, "pid": "CUDA functions", "args": {}},
        {"name": "add", "ph": "s", "ts": 1, "tid": 0, "pid": "CPU functions", "id": 1, "cat": "cpu_to_cuda"},
    ]
    trace = load_bytes(tmp_path, json.dumps(events).encode())
    assert column(trace, "cat") == ["cpu_op", "kernel"]
    assert column(trace, "device") == [None, 1]


def test_operators_around_the_work_of_the_autograd_profiler_before_kineto_are_ranges(tmp_path):
    """It timed each operator by CUDA events, so that an outer one has the time of those within it once more."""
    nested = [("forward", 0, 900), ("conv2d", 0, 500), ("cudnn_conv", 5, 490), ("contiguous", 8, 3), ("add", 510, 400)]
    events = [
        {"name": name, "ph": "X", "ts": ts, "dur": dur, "tid": 0, "pid": "CUDA functions", "args": {}}
        for name, ts, dur in nested
    ]
    trace = load_bytes(tmp_path, json.dumps(events).encode())
    kinds = dict(zip(column(trace, "name"), column(trace, "cat"), strict=True))
    assert [name for name, cat in kinds.items() if cat == "kernel"] == ["cudnn_conv", "add"]
    assert set(kinds.values()) == {"kernel", "gpu_user_annotation"}


def test_labels_of_threads_and_of_lanes_without_a_number(tmp_path):
    label = {"ph": "M", "name": "thread_name", "pid": 10, "tid": "11", "ts": 0, "args": {"name": "main "}}
    spans = {"ph": "X", "cat": "Trace", "name": "all", "pid": "Spans", "tid": "PyTorch Profiler", "ts": 0, "dur": 99}
    instant = {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 5}
    trace = load_events(tmp_path, [label, spans, op(1, 2), instant])
    assert column(trace, "thread") == ["PyTorch Profiler", "main", None]
    assert column(trace, "tid") == [None, 11, None]
    assert column(trace, "pid") == [None, 10, None]
    assert column(trace, "is_instant") == [False, False, True]
    assert column(trace, "cat")[2] == "unknown"
    assert trace.info.problems == ()


def test_a_trace_of_another_program_is_chrome_not_kineto(tmp_path):
    event = {"ph": "X", "name": "paint", "cat": "blink", "pid": 1, "tid": 2, "ts": 3, "dur": 4}
    assert load_bytes(tmp_path, json.dumps({"traceEvents": [event]}).encode()).info.source == "file:chrome"


def test_begin_and_end_pairs_in_any_order(tmp_path):
    def mark(ph, ts, name="", **more):
        return {"ph": ph, "ts": ts, "name": name, "pid": 1, "tid": 2, "cat": "c"} | more

    events = [mark("E", 9), mark("B", 1, "outer"), mark("B", 2, "inner"), mark("E", 4)]
    events += [mark("b", 3, "wait", id="0x1"), mark("e", 8, "wait", id="0x1", tid=5)]
    trace = load_events(tmp_path, events)
    assert column(trace, "name") == ["outer", "inner", "wait"]
    assert column(trace, "dur") == [8000, 2000, 5000]
    assert column(trace, "parent") == [None, 0, None], "a range between threads has no place in a tree"
    assert trace.info.problems == ()


def test_begin_and_end_without_each_other(tmp_path):
    events = [{"ph": ph, "ts": ts, "name": "x", "pid": 1, "tid": 2} for ph, ts in (("E", 1), ("B", 2), ("i", 7))]
    trace = load_events(tmp_path, [*events, {"ph": "B", "ts": 6, "name": "y", "pid": 1, "tid": 3}])
    assert problems(trace) == {"end without a begin": 1, "begin without an end, ended with the trace": 2}
    assert sorted(zip(column(trace, "name"), column(trace, "dur"), strict=True)) == [("x", 0), ("x", 4000), ("y", 0)]


def test_allocations_become_the_memory_frame(tmp_path):
    def memory(ts, name="[memory]", **args):
        return {
            "ph": "i",
            "name": name,
            "cat": "cpu_instant_event",
            "pid": 10,
            "tid": 11,
            "ts": ts,
            "s": "t",
            "args": args,
        }

    facts = {"Device Type": 1, "Device Id": 3, "Addr": (1 << 63) + 16, "Total Allocated": 700, "Total Reserved": 900}
    events = [
        memory(5, Bytes=-600, **facts),
        memory(2, Bytes=600, **facts),
        memory(3, Bytes=8, **{"Device Type": 0, "Device Id": -1}),
        memory(6, "[OutOfMemory]", Bytes=1 << 40, **{"Device Type": 6, "Device Id": 0}),
        op(1, 9),
    ]
    trace = load_events(tmp_path, events)
    frame = trace.memory
    assert frame["action"].tolist() == ["alloc", "alloc", "free_completed", "oom"]
    assert frame["num_bytes"].tolist() == [600, 8, 600, 1 << 40]
    assert frame["device_type"].tolist() == ["cuda", "cpu", "cuda", "hip"]
    assert frame["device"].isna().tolist() == [False, True, False, False]
    assert int(frame["addr"].iloc[0]) == (1 << 63) + 16
    assert frame["event"].tolist() == [0, 0, 0, 0]
    assert len(trace) == 1


def test_facts_about_the_run(tmp_path):
    trace = load_events(
        tmp_path,
        [op(1, 2)],
        distributedInfo={"rank": 3, "world_size": 8},
        deviceProperties=[
            {"id": 1, "name": "G", "computeMajor": 9, "computeMinor": 0, "totalGlobalMem": 5, "numSms": 2}
        ],
        cuda_runtime_version=12080,
        with_stack=1,
        host_name="node7",
    )
    info = trace.info
    assert (info.rank, info.world_size, info.host) == (3, 8, "node7")
    assert info.versions == {"cuda_runtime": "12080"}
    assert info.options["with_stack"] is True
    assert (info.devices[0].index, info.devices[0].capability, info.devices[0].num_sms) == (1, "9.0", 2)
    assert info.name == "trace"
    assert (info.started_ns, info.ended_ns) == (1000, 3000)
    assert info.build_s > 0


@pytest.mark.parametrize(
    "around",
    [
        {"distributedInfo": [1]},
        {"distributedInfo": {"rank": "x", "world_size": 1e99}},
        {"deviceProperties": {"id": 0}},
        {"deviceProperties": [3, None, {"id": "a", "name": 7, "totalGlobalMem": -1.5}]},
        {"with_stack": [], "cuda_runtime_version": {"a": 1}},
    ],
)
def test_odd_facts_are_ignored(tmp_path, around):
    assert len(load_events(tmp_path, [op(1, 2)], **around)) == 1


def test_kernel_facts_and_operator_facts(tmp_path):
    facts = {"registers per thread": 40, "shared memory": 1024, "blocks per SM": 0.5, "warps per SM": 2.0}
    ids = {"graph id": 6, "graph node id": 7, "est. achieved occupancy %": 31, "Collective name": "allreduce"}
    names = {"Sequence number": 5, "Fwd thread id": 1, "Input type": ["long int", "Scalar"], "Flops": 99}
    stack = {"Call stack": "a.py(3): f;b.py(9): g", "Module Hierarchy": "Net.fc", "Process Group Name": "0"}
    trace = load_events(tmp_path, [op(1, 2, **names, **stack), kernel(4, 1, **facts, **ids)])
    first, last = trace.events.iloc[0], trace.events.iloc[1]
    assert (last.registers, last.shared_memory_bytes, last.blocks_per_sm, last.warps_per_sm) == (40, 1024, 0.5, 2.0)
    assert (last.graph_id, last.graph_node_id, last.occupancy_pct, last.collective) == (6, 7, 31, "allreduce")
    assert (first.sequence_nr, first.fwd_tid, first["dtypes"], first.flops) == (5, 1, '["long int","Scalar"]', 99)
    assert (first["module"], first.process_group) == ("Net.fc", "0")
    assert trace.stacks[["file", "line", "function"]].values.tolist() == [["a.py", 3, "f"], ["b.py", 9, "g"]]


def test_facts_of_collectives_and_of_compiled_kernels(tmp_path):
    group = {"Process Group Description": "default_pg", "In split size": "[3, 5]", "Out split size": [4, 4]}
    code = {"kernel_backend": "triton", "kernel_hash": "cqaokw", "Concrete Inputs": ["", "[1, 1]"]}
    trace = load_events(tmp_path, [op(1, 2, **code), kernel(4, 1, **group)])
    first, last = trace.events.iloc[0], trace.events.iloc[1]
    assert (first.kernel_backend, first.kernel_hash, first.concrete_inputs) == ("triton", "cqaokw", '["","[1, 1]"]')
    assert (last.process_group_description, last.out_split_sizes) == ("default_pg", "[4,4]")
    assert last.in_split_sizes == "[3,5]"
    assert first[["process_group_description", "in_split_sizes"]].isna().all()
    again = cudalens.load(trace.to_chrome(tmp_path / "again.json"))
    assert again.events.iloc[0].concrete_inputs == first.concrete_inputs
    assert again.events.iloc[1][["in_split_sizes", "out_split_sizes"]].tolist() == ["[3,5]", "[4,4]"]


def _mark(ph, ts, name="r", **more):
    return {"ph": ph, "ts": ts, "name": name, "pid": 1, "tid": 2, "cat": "c"} | more


def test_pairs_with_the_same_two_ends_nest_in_the_order_of_their_begins(tmp_path):
    events = [_mark("B", 1, "outer"), _mark("B", 1, "inner"), _mark("E", 5), _mark("E", 5)]
    trace = load_events(tmp_path, events)
    assert column(trace, "name") == ["outer", "inner"]
    assert column(trace, "parent") == [None, 0]
    assert column(trace, "self_dur") == [0, 4000]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"id2": {"local": "0x1"}}, {"id2": {"local": "0x2"}}),
        ({"id2": {"local": 1}}, {"id2": {"local": 1}, "pid": 5}),
        ({"id2": {"global": 1.0}}, {"id2": {"global": 2.0}}),
        ({"id": 1, "scope": "a"}, {"id": 1, "scope": "b"}),
        ({"id": 1}, {"id": 1, "name": "s"}),
        ({"id": 1}, {"id": 2}),
    ],
)
@pytest.mark.parametrize("phases", ["be", "SF"])
def test_asynchronous_ranges_side_by_side_are_distinguished(tmp_path, one, other, phases):
    begin, end = phases
    events = [_mark(begin, 1, **one), _mark(begin, 2, **other), _mark(end, 10, **one), _mark(end, 30, **other)]
    trace = load_events(tmp_path, events)
    assert column(trace, "dur") == [9000, 28_000]
    assert trace.info.problems == ()


def test_the_empty_object_at_the_end_of_a_list_is_no_damage(tmp_path):
    """XLA and TensorFlow end their lists with an empty object, to avoid a trailing comma."""
    assert load_events(tmp_path, [op(1, 2), {}]).info.problems == ()
    assert problems(load_events(tmp_path, [op(1, 2), {}, {}])) == {"event without ph": 1}
    assert problems(load_events(tmp_path, [op(1, 2), {"ts": 3}])) == {"event without ph": 1}


@pytest.mark.parametrize("cat", ["cuda_runtime", "cuda_driver", "hip_runtime", "xpu_runtime", "mtia_runtime"])
def test_launches_of_every_runtime(tmp_path, cat):
    events = [op(1, 1, "launch", cat=cat, correlation=5), kernel(8, 4, correlation=5)]
    assert column(load_events(tmp_path, events), "launch") == [None, 0]


def test_a_correlation_of_zero_that_many_calls_bear_is_no_link(tmp_path):
    events = [launch(1, 1, 0, "cudaGetDevice"), launch(2, 1, 0, "cudaMalloc"), launch(3, 1, 4)]
    trace = load_events(tmp_path, [*events, kernel(8, 4, correlation=0), kernel(20, 4, correlation=4)])
    assert column(trace, "launch") == [None, None, None, None, 2]
    alone = load_events(tmp_path, [launch(1, 1, 0), kernel(8, 4, correlation=0)])
    assert column(alone, "launch") == [None, 0]


@pytest.mark.parametrize(("name", "expected"), [(7, "7"), (1.5, "1.5"), (7.0, "7"), (float("inf"), "Infinity")])
def test_a_number_as_a_name_keeps_its_value(tmp_path, name, expected):
    trace = load_events(tmp_path, [op(1, 2, name)])
    assert column(trace, "name") == [expected]


def test_streams_of_tensorflow_timelines_are_devices(tmp_path):
    """Its lanes "memcpy" and "stream:all" repeat the work, and the device's own lane is of the host."""
    labels = {
        1: "/job:localhost/replica:0/task:0/device:GPU:0 Compute",
        2: "/device:GPU:0/stream:14 Compute",
        3: "/device:GPU:0/memcpy Compute",
        4: "/device:GPU:0/stream:all Compute",
    }
    names = [{"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}} for pid, name in labels.items()]
    row = {"ph": "X", "cat": "Op", "tid": 0, "dur": 50}
    rows = [row | {"name": "IteratorGetNext", "pid": 1, "ts": 0, "dur": 900}]
    for k, name in enumerate(("Conv2D", "MEMCPYHtoD")):
        rows += [row | {"name": name, "pid": pid, "ts": 100 + 600 * k} for pid in (2, 4)]
    rows.append(row | {"name": "MEMCPYHtoD", "pid": 3, "ts": 700})
    trace = load_events(tmp_path, names + rows)
    work = trace.events[trace.events["device"].notna()]
    assert [
        (name, cat, stream) for name, cat, stream in zip(work["name"], work["cat"], work["stream"], strict=True)
    ] == [
        ("Conv2D", "kernel", 14),
        ("MEMCPYHtoD", "gpu_memcpy", 14),
    ]
    idle = next(one for one in findings(trace) if one.rule == "idle")
    assert "The host was longest in IteratorGetNext (550 µs of it)." in idle.what


def test_work_of_a_graph_on_a_logical_lane_is_on_its_stream(tmp_path):
    # PyTorch's newer writer puts each branch of a graph on a lane of its own, numbered from 1000.
    graphed = {"correlation": 7, "graph id": 3, "tid": 1000, "stream": 1000}
    events = [
        launch(2, 3, 7),
        kernel(8, 4, **graphed, original_stream=31),
        kernel(10, 4, **graphed, original_stream=32),
        kernel(20, 4, correlation=8),
    ]
    assert column(load_events(tmp_path, events), "stream") == [None, 31, 32, 7]


def test_kinds_of_copies_and_memsets_in_their_arguments(tmp_path):
    device = {"device": 0, "stream": 7, "bytes": 1000}
    kinds = [
        {"copy kind": "HtoD", "src kind": "pageable", "dst kind": "device"},
        {"copy kind": "DtoH", "src kind": "device", "dst kind": "pinned"},
        {"copy kind": "PtoP"},
        {},
    ]
    copies = [
        {**kernel(10 * i, 4), "name": "Memcpy", "cat": "gpu_memcpy", "args": device | kind}
        for i, kind in enumerate(kinds)
    ]
    named = {**copies[0], "ts": 40, "name": "Memcpy HtoD (Pinned -> Device)"}
    memset = {**kernel(50, 4), "name": "Memset", "cat": "gpu_memset", "args": device | {"memory kind": "device"}}
    assert column(load_events(tmp_path, [*copies, named, memset]), "name") == [
        "Memcpy HtoD (Pageable -> Device)",
        "Memcpy DtoH (Device -> Pinned)",
        "Memcpy PtoP (Unknown -> Unknown)",
        "Memcpy",
        "Memcpy HtoD (Pinned -> Device)",
        "Memset (Device)",
    ]


def test_host_functions_and_event_records_of_a_graph_are_no_work_of_the_device(tmp_path):
    args = {"device": 0, "stream": 1000, "original_stream": 31, "correlation": 7, "graph id": 3, "graph node id": 3}
    events = [
        kernel(8, 4, correlation=7),
        {**kernel(20, 30), "cat": "graph_host_node", "name": "HostNode: callback", "args": args},
        {**kernel(60, 1), "cat": "graph_event_node", "name": "EventRecord", "args": args},
    ]
    trace = load_events(tmp_path, events)
    assert column(trace, "cat") == ["kernel", "gpu_user_annotation", "gpu_user_annotation"]
    assert column(trace, "stream") == [7, 31, 31]
    assert column(trace, "graph_node_id") == [None, 3, 3]
    assert problems(trace) == {}
