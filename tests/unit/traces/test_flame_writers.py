"""Collapsed stacks and speedscope files, compared with a slow oracle and checked against the rules of the formats."""

import json
import re
from collections import Counter, defaultdict

import numpy as np
import pandas as pd
import pytest
from budget import examples
from chrome import RECORDED, kernel, launch, load_events, needs_recorded, op
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cudalens
from cudalens.errors import OutputError
from cudalens.frames import RunInfo, StackTable, Trace, build_events
from cudalens.traces.export.flame import tracks

LINE = re.compile(r"^(.*) (\d+)$")
GPU = {"kernel", "gpu_memcpy", "gpu_memset"}


def collapsed(trace, folder, **options):
    """The written lines as {(label, …): weight}."""
    text = trace.to_collapsed(folder / "x.folded", **options).read_text()
    found = {}
    for line in text.splitlines():
        stack, weight = LINE.match(line).groups()
        assert tuple(stack.split(";")) not in found
        found[tuple(stack.split(";"))] = int(weight)
    return found


@st.composite
def programs(draw):
    """A trace with nested and overlapping host rows on two threads, and device work that some of them launched."""
    rows = draw(
        st.lists(
            st.tuples(st.integers(0, 60), st.integers(0, 40), st.sampled_from("abc"), st.integers(1, 2)), max_size=14
        )
    )
    work = draw(st.lists(st.tuples(st.integers(0, 90), st.integers(0, 30), st.sampled_from("kl")), max_size=6))
    names, cats, ts, dur, tid, device, corr = [], [], [], [], [], [], []
    for k, (start, length, name, thread) in enumerate(rows):
        add = (name, "cuda_runtime" if k % 2 else "cpu_op", start, length, thread, None, k if k % 2 else None)
        for column, value in zip((names, cats, ts, dur, tid, device, corr), add, strict=True):
            column.append(value)
    for k, (start, length, name) in enumerate(work):
        for column, value in zip(
            (names, cats, ts, dur, tid, device, corr), (name, "kernel", start, length, None, 0, 2 * k + 1), strict=True
        ):
            column.append(value)
    columns = {"ts": np.array(ts, np.int64), "dur": np.array(dur, np.int64), "name": pd.Categorical(names)}
    columns |= {"cat": pd.Categorical(cats), "tid": pd.array(tid, "Int64"), "pid": pd.array([1] * len(ts), "Int64")}
    columns |= {"device": pd.array(device, "Int32"), "stream": pd.array(device, "Int64")}
    columns |= {"correlation_id": pd.array(corr, "Int64")}
    return Trace(RunInfo(name="r", source="cuda"), events=build_events(columns))


def host_stack(events, row):
    """The slow oracle: names from the root down, found by walking up the tree."""
    path = []
    while row is not pd.NA and not pd.isna(row):
        path.append(events.at[row, "name"])
        tid, row = events.at[row, "tid"], events.at[row, "parent"]
    several = events.loc[events["device"].isna(), "tid"].nunique() > 1
    return (*([f"thread {tid}"] if several else []), *path[::-1])


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(programs())
def test_weights_are_what_walking_up_states(tmp_path, trace):
    events = trace.events
    host, device = Counter(), Counter()
    for row in events.index:
        if events.at[row, "cat"] in GPU:
            start = events.at[row, "launch"]
            above = ("(no launch)",) if pd.isna(start) else host_stack(events, start)
            device[(*above, events.at[row, "name"])] += int(events.at[row, "dur"])
        else:
            host[host_stack(events, row)] += max(int(events.at[row, "self_dur"]), 0)
    positive = [{path: cost for path, cost in found.items() if cost} for found in (host, device)]
    assert collapsed(trace, tmp_path) == positive[0]
    assert collapsed(trace, tmp_path, weight="device") == positive[1]
    streams = {("GPU 0", "stream 0", path[-1]) for path in positive[1]}
    own = collapsed(trace, tmp_path, weight="self")
    assert sum(own.values()) == sum(positive[0].values()) + sum(positive[1].values())
    assert streams <= set(own)


def check_evented(profile, num_frames):
    """Rules of speedscope's importer: times never decrease, and a close matches the innermost open frame."""
    stack, now = [], profile["startValue"]
    for event in profile["events"]:
        assert now <= event["at"] <= profile["endValue"]
        now = event["at"]
        assert 0 <= event["frame"] < num_frames
        if event["type"] == "O":
            stack.append(event["frame"])
        else:
            assert event["type"] == "C"
            assert stack.pop() == event["frame"]
    assert not stack


def speedscope(trace, folder):
    value = json.loads(trace.to_speedscope(folder / "x.speedscope.json").read_bytes())
    assert value["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert set(value) == {"$schema", "shared", "profiles", "name", "activeProfileIndex", "exporter"}
    for profile in value["profiles"]:
        assert set(profile) == {"type", "name", "unit", "startValue", "endValue", "events"}
        assert (profile["type"], profile["unit"]) == ("evented", "nanoseconds")
        check_evented(profile, len(value["shared"]["frames"]))
    return value


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(programs())
def test_speedscope_profiles_nest_and_hold_every_row(tmp_path, trace):
    value = speedscope(trace, tmp_path)
    opened = sum(event["type"] == "O" for profile in value["profiles"] for event in profile["events"])
    assert opened == len(trace)
    names = Counter(
        value["shared"]["frames"][event["frame"]]["name"]
        for profile in value["profiles"]
        for event in profile["events"]
        if event["type"] == "O"
    )
    assert names == Counter(trace.events["name"].astype(str))


def is_root(events, ends, row):
    """Whether no row encloses a row: by the tree on the host, by times on the device."""
    if pd.isna(events.at[row, "device"]):
        return pd.isna(events.at[row, "parent"])
    others = events["device"].notna() & (events.index != row)
    return not (others & (events["ts"] <= events.at[row, "ts"]) & (ends >= ends[row])).any()


@settings(max_examples=examples(60), deadline=None)
@given(programs())
def test_rows_that_nest_keep_their_times(trace):
    """Only rows that overlap a sibling without nesting are cut."""
    events = trace.events
    ends = (events["ts"] + events["dur"]).to_numpy()
    by_row = defaultdict(list)
    for track in tracks(trace):
        assert (track.start <= track.end).all()
        for row, start, end in zip(track.rows.tolist(), track.start.tolist(), track.end.tolist(), strict=True):
            by_row[row].append((start, end))
    for row, ((start, end),) in by_row.items():
        if is_root(events, ends, row):  # it goes to a track of its own rather than being cut
            assert (start, end) == (events.at[row, "ts"], ends[row])
        assert end <= ends[row]


def test_gpu_time_by_stack_module_and_tree(tmp_path):
    stacks = StackTable()
    inner = stacks.add(["model.py(12): forward", "train.py(3): step"])
    columns = {
        "ts": np.array([0, 10, 20, 30]),
        "dur": np.array([100, 50, 10, 40]),
        "name": pd.Categorical(["range", "aten::mm", "cudaLaunchKernel", "gemm"]),
        "cat": pd.Categorical(["user_annotation", "cpu_op", "cuda_runtime", "kernel"]),
        "pid": pd.array([1, 1, 1, None], "Int64"),
        "tid": pd.array([1, 1, 1, None], "Int64"),
        "device": pd.array([None, None, None, 0], "Int32"),
        "correlation_id": pd.array([None, None, 5, 5], "Int64"),
        "stack": pd.array([None, inner, None, None], "Int64"),
        "module": pd.Categorical([None, "Net.Linear_0", None, None]),
    }
    trace = Trace(RunInfo(name="r", source="cuda"), events=build_events(columns), stacks=stacks.to_frame())
    launch_ = ("aten::mm", "cudaLaunchKernel", "gemm")
    assert collapsed(trace, tmp_path, weight="device") == {("range", *launch_): 40}
    of_stack = ("step (train.py:3)", "forward (model.py:12)", *launch_)
    assert collapsed(trace, tmp_path, weight="device", by="stack") == {of_stack: 40}
    assert collapsed(trace, tmp_path, weight="device", by="module") == {("Net", "Linear_0", *launch_): 40}
    assert ("(no stack)", "range") in collapsed(trace, tmp_path, by="stack")
    frames = speedscope(trace, tmp_path)["shared"]["frames"]
    assert {"name": "aten::mm", "file": "model.py", "line": 12} in frames


def test_labels_cannot_break_a_line(tmp_path):
    trace = load_events(tmp_path, [op(0, 9, "a;b\nc 12\r"), op(20, 5, " \n "), op(30, 5, "")])
    assert set(collapsed(trace, tmp_path)) == {("a:b c 12",), ("(no name)",)}
    speedscope(trace, tmp_path)


def test_times_from_the_epoch_stay_exact(tmp_path):
    start = 1_716_423_322_388_068
    trace = load_events(tmp_path, [op(start, 2), op(start + 3, 1)])
    (profile,) = speedscope(trace, tmp_path)["profiles"]
    assert [event["at"] for event in profile["events"]] == [0, 2000, 3000, 4000]


def test_steps_are_one(tmp_path):
    steps = [op(20 * k, 10, f"ProfilerStep#{k}", cat="user_annotation") for k in range(3)]
    trace = load_events(tmp_path, [*steps, op(2, 3, "a"), op(22, 4, "a")])
    assert collapsed(trace, tmp_path) == {("ProfilerStep*",): 23_000, ("ProfilerStep*", "a"): 7_000}


def test_an_empty_trace(tmp_path):
    trace = Trace(RunInfo(name="none", source="cpu"))
    assert collapsed(trace, tmp_path) == {}
    assert len(speedscope(trace, tmp_path)["profiles"]) == 1


def test_simulated_times_report_it(tmp_path):
    events = load_events(tmp_path, [launch(0, 5, 1), kernel(7, 9, correlation=1)]).events
    trace = Trace(RunInfo(name="r", source="virtual:h100"), events=events)
    assert speedscope(trace, tmp_path)["name"] == "r (simulated: h100)"


@pytest.mark.parametrize("options", [{"weight": "gpu"}, {"by": "line"}])
def test_unknown_options_are_refused(tmp_path, options):
    with pytest.raises(ValueError, match="expected one of"):
        Trace(RunInfo(name="r", source="cpu")).to_collapsed(tmp_path / "x", **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("method", ["to_collapsed", "to_speedscope"])
def test_a_refused_target_leaves_nothing_behind(tmp_path, method):
    trace = Trace(RunInfo(name="r", source="cpu"))
    for target in (tmp_path, tmp_path / "missing" / "x"):
        with pytest.raises(OutputError):
            getattr(trace, method)(target)
    assert list(tmp_path.iterdir()) == []


@needs_recorded
@pytest.mark.parametrize(
    "file",
    [
        "hta/critical_path__simple_add.json.gz",
        "hta/cpu_only_rank-34.json.gz",
        "tracelens/h100__gaunernst_bert-small-uncased__1016001.json.gz",
    ],
)
def test_recorded_traces(tmp_path, file):
    trace = cudalens.load(RECORDED / file)
    work = trace.events[trace.events["cat"].isin(GPU)]
    for by in ("tree", "stack", "module"):
        assert sum(collapsed(trace, tmp_path, weight="device", by=by).values()) == work["dur"].sum()
    speedscope(trace, tmp_path)


@needs_recorded
def test_speedscope_of_a_memory_snapshot_without_lines(tmp_path):
    trace = cudalens.load(RECORDED / "snapshots" / "silmont_mem_snapshot.pickle")
    assert json.loads(trace.to_speedscope(tmp_path / "t.json").read_text())["profiles"]
