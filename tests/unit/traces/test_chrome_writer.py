"""`to_chrome`: the file as read by a JSON reader, and as read by `load`."""

import gzip
import json

import numpy as np
import pandas as pd
import pytest
from budget import examples
from chrome import RECORDED, kernel, launch, load_events, needs_recorded, op
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cudalens
from cudalens.errors import OutputError
from cudalens.frames import DeviceInfo, RunInfo, StackTable, Trace, build_events, build_memory
from cudalens.traces.export.chrome import to_chrome

EPOCH = 1_716_423_322_388_068_751
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
INT64 = st.integers(-(1 << 62), 1 << 62)
SMALL = st.integers(0, 3)


def assert_same(frame, again, skip=()):
    """Equal column by column; categoricals are compared as text, since category codes may change."""
    assert len(frame) == len(again)
    for name in frame.columns.difference(list(skip)):
        pair = [f[name].astype(object) if f[name].dtype == "category" else f[name] for f in (frame, again)]
        pd.testing.assert_series_equal(*pair, obj=name)


def stacks_of(trace):
    """The call stack of each event as text, or None; ids are not compared, since they may change."""
    entries = trace.stacks.astype({"file": object, "function": object})
    texts = entries.groupby("stack")[["file", "line", "function"]].apply(lambda part: part.astype(str).values.tolist())
    return [None if pd.isna(stack) else texts[stack] for stack in trace.events["stack"]]


def round_trip(trace, folder, name="t.json"):
    return cudalens.load(to_chrome(trace, folder / name), repair=False)


@st.composite
def rows(draw):
    """One row as a mapping of columns; host and device rows have different columns."""
    row = {"ts": EPOCH + draw(st.integers(0, 10**7)), "dur": draw(st.integers(0, 10**7)), "name": draw(TEXT)}
    some = {"external_id": INT64, "correlation_id": SMALL}
    if draw(st.booleans()):
        row["cat"] = draw(st.sampled_from(["kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "cuda_sync"]))
        row |= {"device": draw(SMALL)}
        some |= {"stream": st.integers(0, 1 << 40), "num_bytes": INT64, "registers": SMALL, "graph_id": INT64}
        some |= {"grid": st.just("[1,2,3]"), "blocks_per_sm": st.floats(0, 9, width=32), "collective": TEXT}
    else:
        row["cat"] = draw(st.sampled_from(["cpu_op", "user_annotation", "cuda_runtime", "python_function", "Trace"]))
        row |= {"pid": draw(SMALL), "tid": draw(st.integers(0, 2))}
        is_op = row["cat"] in ("cpu_op", "user_annotation")
        some = (
            {"external_id": INT64, "sequence_nr": INT64, "shapes": st.just("[[2,3],[]]"), "module": TEXT}
            if is_op
            else {}
        )
        some |= {"correlation_id": SMALL, "external_id": INT64} if row["cat"] == "cuda_runtime" else {}
    return row | draw(st.fixed_dictionaries({}, optional=some))


DTYPES = {"device": "Int32", "registers": "Int32", "blocks_per_sm": "Float32"}
TEXTS = {"name", "cat", "grid", "collective", "shapes", "module"}


def events_of(found):
    columns = {}
    for name in {key for row in found for key in row} | {"ts", "dur", "name", "cat"}:
        values = [row.get(name) for row in found]
        if name in TEXTS:
            columns[name] = pd.Categorical(values)
        elif name in ("ts", "dur"):
            columns[name] = np.array(values, np.int64)
        else:
            columns[name] = pd.array(values, dtype=DTYPES.get(name, "Int64"))
    return build_events(columns)


@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(rows(), max_size=12), st.booleans())
def test_round_trip_of_any_events(tmp_path, found, packed):
    trace = Trace(RunInfo(name="r", source="cuda"), events=events_of(found))
    again = round_trip(trace, tmp_path, "t.json.gz" if packed else "t.json")
    assert_same(trace.events, again.events)
    assert again.info.problems == ()


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 1 << 61), st.integers(0, 1 << 61)), min_size=1, max_size=6))
def test_times_of_any_size_are_exact(tmp_path, times):
    found = [
        {"ts": ts, "dur": dur, "name": "x", "cat": "cpu_op", "pid": 1, "tid": i} for i, (ts, dur) in enumerate(times)
    ]
    trace = Trace(RunInfo(name="r", source="cpu"), events=events_of(found))
    again = round_trip(trace, tmp_path)
    assert again.events["ts"].tolist() == trace.events["ts"].tolist()
    assert again.events["dur"].tolist() == trace.events["dur"].tolist()


def test_a_thread_is_not_named_after_a_stream_of_its_numbers(tmp_path):
    host = {"ts": EPOCH, "dur": 9, "name": "op", "cat": "cpu_op", "pid": 1, "tid": 7}
    work = {"ts": EPOCH, "dur": 9, "name": "gemm", "cat": "kernel", "device": 1, "stream": 7}
    trace = Trace(RunInfo(name="r", source="cuda"), events=events_of([host, work]))
    assert_same(trace.events, round_trip(trace, tmp_path).events)


def test_memory_stacks_labels_and_facts_survive(tmp_path):
    stacks = StackTable()
    ids = [stacks.add(["model.py(12): forward", "<built-in method add>"]), stacks.add(["train.py(3): step"])]
    columns = {
        "ts": np.array([EPOCH, EPOCH + 5, EPOCH + 9]),
        "dur": np.array([100, 20, 0]),
        "is_instant": np.array([False, False, True]),
        "name": pd.Categorical(["</script>", "b", "mark"]),
        "cat": pd.Categorical(["cpu_op", "cpu_op", "cpu_instant_event"]),
        "pid": pd.array([1, 1, None], dtype="Int64"),
        "tid": pd.array([2, 2, None], dtype="Int64"),
        "thread": pd.Categorical(["main", "main", "markers"]),
        "stack": pd.array([*ids, None], dtype="Int64"),
    }
    events = build_events(columns)
    memory = build_memory(
        {
            "ts": np.array([EPOCH + 1, EPOCH + 7, EPOCH + 8]),
            "action": pd.Categorical(["alloc", "free_completed", "oom"]),
            "num_bytes": np.array([512, 512, 1 << 40]),
            "device_type": pd.Categorical(["cuda", "cuda", "cpu"]),
            "device": pd.array([1, 1, None], dtype="Int32"),
            "addr": pd.array([(1 << 64) - 512, (1 << 64) - 512, None], dtype="UInt64"),
            "allocated_bytes": pd.array([512, 0, None], dtype="Int64"),
            "pid": pd.array([1, 1, None], dtype="Int64"),
            "tid": pd.array([2, 2, None], dtype="Int64"),
        },
        events,
    )
    info = RunInfo(
        name="cell-3",
        source="cuda",
        devices=(DeviceInfo(1, "G", "9.0", 5, 7),),
        versions={"cuda_runtime": "12080", "torch": "2.13.0"},
        rank=1,
        world_size=2,
        host="node",
    )
    trace = Trace(info, events=events, memory=memory, stacks=stacks.to_frame())
    again = round_trip(trace, tmp_path)
    assert_same(trace.events, again.events, skip=["stack"])
    assert_same(trace.memory, again.memory)
    assert stacks_of(again) == stacks_of(trace)
    assert (again.info.devices, again.info.versions) == (info.devices, info.versions)
    assert (again.info.rank, again.info.world_size, again.info.host) == (1, 2, "node")


def test_what_another_reader_finds(tmp_path):
    trace = load_events(tmp_path, [op(1.125, 9), launch(2, 3, 5), kernel(8, 4, correlation=5, grid=[1, 1, 1])])
    path = to_chrome(trace, tmp_path / "out.json.gz")
    with gzip.open(path) as file:
        data = json.load(file)
    events = data["traceEvents"]
    complete = [event for event in events if event["ph"] == "X"]
    assert [event["cat"] for event in complete] == ["cpu_op", "cuda_runtime", "kernel"]
    assert complete[0]["ts"] == 1.125
    assert complete[2]["args"]["grid"] == [1, 1, 1]
    assert (complete[2]["pid"], complete[2]["tid"]) == (0, 7)
    start, end = (event for event in events if event["ph"] in "sf")
    assert (start["ph"], end["ph"], end["bp"]) == ("s", "f", "e")
    assert start["id"] == end["id"]
    assert (start["ts"], start["tid"]) == (complete[1]["ts"], complete[1]["tid"])
    assert (end["ts"], end["pid"], end["tid"]) == (complete[2]["ts"], 0, 7)
    labels = {(e["name"], e["pid"]): e["args"] for e in events if e["ph"] == "M"}
    assert labels["thread_name", 0] == {"name": "stream 7"}
    assert labels["process_labels", 0] == {"labels": "GPU 0"}


def test_an_empty_trace(tmp_path):
    path = to_chrome(Trace(RunInfo(name="none", source="cpu")), tmp_path / "t.json")
    assert json.loads(path.read_bytes())["traceEvents"] == []
    assert len(cudalens.load(path)) == 0


def test_a_refused_target_leaves_nothing_behind(tmp_path):
    trace = Trace(RunInfo(name="none", source="cpu"))
    with pytest.raises(OutputError):
        to_chrome(trace, tmp_path / "missing" / "t.json")
    with pytest.raises(OutputError):
        to_chrome(trace, tmp_path)
    assert list(tmp_path.iterdir()) == []


@needs_recorded
@pytest.mark.parametrize(
    "file",
    [
        "hta/amd_trace__mi250_minitoy_train_ROCm6_2_kineto.json.gz",
        "hta/critical_path__simple_add.json.gz",
        "hta/nccl_parser_config__nccl_data.json.gz",
        "hta/ns_resolution_rank-0.json.gz",
        "hta/cpu_only_rank-34.json.gz",
        "kineto/resnet50_workers4.1623213129365.pt.trace.json.gz",
        "tracelens/h100__gaunernst_bert-small-uncased__1016001.json.gz",
        "tracelens/inference__sglang_decode.json.gz",
    ],
)
def test_round_trip_of_recorded_traces(tmp_path, file):
    trace = cudalens.load(RECORDED / file)
    again = round_trip(trace, tmp_path, "t.json.gz")
    assert_same(trace.events, again.events, skip=["stack"])
    assert_same(trace.memory, again.memory)
    assert (trace.events["stack"].isna() == again.events["stack"].isna()).all()
    assert len(trace.stacks) == len(again.stacks)
