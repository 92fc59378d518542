"""Counters of Chrome traces, and torch's memory timelines."""

import json

import numpy as np
import pytest
from chrome import load_bytes, load_events, op, problems

import cudalens
from cudalens.errors import TraceFormatError


def counter(ts, name, pid=7, **args):
    return {"ph": "C", "name": name, "pid": pid, "ts": ts, "args": args}


def rows(trace):
    frame = trace.counters.astype(object)
    return frame.where(frame.notna(), None).to_numpy().tolist()


def test_a_trace_of_counters_alone(tmp_path):
    trace = load_events(
        tmp_path,
        [
            counter(2, "memory", used=5, free=7.5),
            counter(1, "busy", pid="GPU 0", value=0.25),
            counter(3, "busy", value=1),
        ],
    )
    assert len(trace) == 0
    assert trace.info.problems == ()
    assert trace.summary().verdict == "4 values of 4 counters over 2.00 µs, in trace.counters"
    assert rows(trace) == [
        [1000, "busy", None, "GPU 0", 0.25, None],
        [2000, "memory", "used", "7", 5.0, None],
        [2000, "memory", "free", "7", 7.5, None],
        [3000, "busy", None, "7", 1.0, None],
    ]


def test_counters_beside_events_have_their_clock(tmp_path):
    trace = load_events(tmp_path, [op(1, 2), counter(3, "busy", value=1)], baseTimeNanoseconds=10**18)
    assert trace.counters["ts"].tolist() == [10**18 + 3000]


def test_values_that_are_no_numbers_are_counted(tmp_path):
    entries = [counter(1, "a", x="high", y=True, z=3), counter(2, "a"), {"ph": "C", "name": "a", "args": {"x": 1}}]
    trace = load_events(tmp_path, [*entries, counter(3, "b", x=10**400), counter(4, "c", v=[1])])
    assert [row[1:3] for row in rows(trace)] == [["a", "z"]]
    assert problems(trace) == {
        "counter with a value that is not a number": 4,
        "counter without a value": 1,
        "counter without a usable ts": 1,
    }


def test_counters_are_saved_and_exported(tmp_path):
    trace = load_events(tmp_path, [op(1, 2), counter(3, "busy", used=1, free=2)])
    again = cudalens.load(trace.save(tmp_path / "x.cudalens"))
    assert again.counters.equals(trace.counters)
    assert cudalens.load(trace.to_chrome(tmp_path / "x.json")).counters.equals(trace.counters)


SIZES = [[0, 512, 0, 0, 0, 0, 0, 0, 0], [0, 512, 0, 0, 0, 100, 0, 0, 0], [0, 0, 0, 0, 0, 100, 0, 0, 3]]


def test_a_memory_timeline(tmp_path):
    memory = load_bytes(tmp_path, json.dumps([[10, 20, 30], SIZES]).encode()).memory
    assert memory["ts"].tolist() == [10_000, 20_000, 30_000, 30_000]
    assert memory["action"].tolist() == ["alloc", "alloc", "free_completed", "alloc"]
    assert memory["num_bytes"].tolist() == [512, 100, 512, 3]
    assert memory["allocated_bytes"].tolist() == [512, 612, 100, 103]
    assert [json.loads(text)["category"] for text in memory["extra"]] == [
        "parameter",
        "activation",
        "parameter",
        "unknown",
    ]


def test_a_raw_memory_timeline(tmp_path):
    found = [[-1, 1, 512, 0], [20_000, 2, 100, 4], [30_000, 4, -512, 0], [30_000, 3, 0, 4]]
    memory = load_bytes(tmp_path, json.dumps(found).encode()).memory
    assert memory["ts"].tolist() == [20_000, 20_000, 30_000]
    assert memory["allocated_bytes"].tolist() == [512, 612, 100]


def test_the_timeline_that_torch_writes(tmp_path):
    torch = pytest.importorskip("torch")
    from torch.profiler import profile

    with profile(profile_memory=True, record_shapes=True, with_stack=True) as profiler:
        kept = torch.ones(64, 64) @ torch.ones(64, 64)
    profiler.export_memory_timeline(str(tmp_path / "x.json"), device="cpu")
    profiler.export_memory_timeline(str(tmp_path / "x.raw.json.gz"), device="cpu")
    times, sizes = json.loads((tmp_path / "x.json").read_text())
    memory = cudalens.load(tmp_path / "x.json").memory
    assert memory["allocated_bytes"].iloc[-1] == sum(sizes[-1])
    assert memory["ts"].max() <= max(times) * 1000
    raw = cudalens.load(tmp_path / "x.raw.json.gz").memory
    assert raw["allocated_bytes"].max() >= np.sum(sizes, axis=1).max()
    assert kept.sum() > 0


@pytest.mark.parametrize(
    "text", ["[[1, 2], [[1]]]", "[[1], [[0, 1.5]]]", '[[1, "a"]]', "[[1, 2, 3]]", f"[[{10**30}], [[1]]]"]
)
def test_other_lists_of_numbers(tmp_path, text):
    with pytest.raises(TraceFormatError, match="as export_memory_timeline writes them"):
        load_bytes(tmp_path, text.encode())


def test_series_beyond_the_first_thousand_are_counted(tmp_path):
    counter = {"ph": "C", "name": "c", "ts": 1, "pid": 1, "args": {f"s{i}": i for i in range(1500)}}
    trace = load_events(tmp_path, [counter])
    assert len(trace.counters) == 1000
    (problem,) = trace.info.problems
    assert (problem.kind, problem.count) == ("series of a counter beyond the first 1000", 500)


@pytest.mark.parametrize("text", [b"[[], []]", b" [ [ ] ,[]]"])
def test_a_timeline_of_a_run_that_allocated_nothing(tmp_path, text):
    (tmp_path / "t.json").write_bytes(text)
    trace = cudalens.load(tmp_path / "t.json")
    assert (trace.info.source, len(trace.memory), trace.info.problems) == ("file:memory timeline", 0, ())
