"""From raw columns in any order to linked frames."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudalens.errors import SchemaError
from cudalens.frames import Trace, build_events, build_memory, check_frame, empty_frame, is_category
from cudalens.frames.build import innermost_event


def row_of(events, name):
    return int(np.flatnonzero(events["name"] == name)[0])


def test_rows_are_sorted_and_obey_the_catalog(gpu_columns):
    events = build_events(gpu_columns)
    assert events["ts"].tolist() == [100, 120, 130, 300, 400, 900]
    assert check_frame("events", events) is events


def test_a_kernel_finds_its_launch_and_an_orphan_has_none(gpu_columns):
    events = build_events(gpu_columns)
    assert events["launch"][row_of(events, "gemm")] == row_of(events, "cudaLaunchKernel")
    assert events["launch"][row_of(events, "Memcpy DtoH")] is pd.NA
    assert events["launch"][row_of(events, "aten::mm")] is pd.NA


def test_device_work_is_no_part_of_a_call_tree(gpu_columns):
    events = build_events(gpu_columns)
    kernel = events.loc[row_of(events, "gemm")]
    assert kernel["parent"] is pd.NA
    assert (kernel["depth"], kernel["self_dur"]) == (0, 50)
    launch = events.loc[row_of(events, "cudaLaunchKernel")]
    assert launch["parent"] == row_of(events, "aten::mm")
    assert launch["depth"] == 2


def test_a_kernel_belongs_to_the_step_that_launched_it(gpu_columns):
    gpu_columns["ts"][0] = 5000  # the kernel runs after its step has ended
    events = build_events(gpu_columns)
    assert events["step"][row_of(events, "gemm")] == 3
    assert events["step"][row_of(events, "cudaMemcpy")] == 3


def test_what_is_not_given_is_missing(gpu_columns):
    events = build_events(gpu_columns)
    assert events["shapes"].isna().all()
    assert events["flops"].isna().all()
    assert not events["is_instant"].any()


def test_asynchronous_ranges_take_no_part_in_the_tree(gpu_columns):
    is_async = np.array([False, False, True, False, False, False])
    events = build_events(gpu_columns, async_mask=is_async)
    assert events["parent"][row_of(events, "aten::mm")] is pd.NA
    assert events["parent"][row_of(events, "cudaLaunchKernel")] == row_of(events, "ProfilerStep#3")


def host_rows(*rows, **columns):
    """Raw columns of rows (ts, dur, name) of one host thread."""
    return {
        "ts": [row[0] for row in rows],
        "dur": [row[1] for row in rows],
        "name": pd.Categorical([row[2] for row in rows]),
        "cat": pd.Categorical(["cpu_op"] * len(rows)),
        "pid": pd.array([1] * len(rows), dtype="Int64"),
        "tid": pd.array([1] * len(rows), dtype="Int64"),
        **columns,
    }


def parents_of(events):
    """The name of each event's parent by the event's name; None for a root."""
    names = events["name"].astype(str)
    return {name: None if pd.isna(up) else names[up] for name, up in zip(names, events["parent"], strict=True)}


def test_an_asynchronous_range_has_no_time_of_its_own():
    columns = host_rows((0, 100, "range"), (10, 20, "op"))
    events = build_events(columns, async_mask=np.array([True, False]))
    assert events["self_dur"].tolist() == [0, 20]


def test_parents_that_are_given_are_rows_in_the_order_given():
    columns = host_rows((50, 10, "late"), (10, 20, "child"), (0, 100, "all"), (12, 5, "grandchild"))
    events = build_events(columns, parent=np.array([2, 2, -1, 1]))
    assert parents_of(events) == {"all": None, "child": "all", "grandchild": "child", "late": "all"}


def test_an_instant_has_no_place_in_a_call_tree():
    events = build_events(host_rows((0, 100, "op"), (10, 0, "mark"), is_instant=np.array([False, True])))
    assert parents_of(events) == {"op": None, "mark": None}


@pytest.mark.parametrize("category", ["Trace", "overhead"])
def test_rows_of_the_profiler_itself_have_no_place_in_a_call_tree(category):
    cat = pd.Categorical(["cpu_op", category, "cpu_op"])
    events = build_events(host_rows((0, 100, "op"), (10, 50, "profiler"), (20, 10, "inner"), cat=cat))
    assert parents_of(events) == {"op": None, "profiler": None, "inner": "op"}


def test_device_rows_that_bear_a_threads_ids_have_no_place_in_its_call_tree():
    device = pd.array([None, 0, None], dtype="Int64")
    cat = pd.Categorical(["cpu_op", "kernel", "cpu_op"])
    events = build_events(host_rows((0, 100, "op"), (10, 50, "kernel"), (20, 10, "inner"), cat=cat, device=device))
    assert parents_of(events) == {"op": None, "kernel": None, "inner": "op"}


def test_threads_that_only_a_label_names_have_trees_of_their_own():
    unknown = pd.array([None, None, None], dtype="Int64")
    thread = pd.Categorical(["main", "loader", "main"])
    events = build_events(host_rows((0, 100, "a"), (10, 50, "b"), (20, 10, "c"), tid=unknown, thread=thread))
    assert parents_of(events) == {"a": None, "b": None, "c": "a"}


@pytest.mark.parametrize(("call_ids", "launch"), [([0], 0), ([0, 0], None), ([0, 5], 0), ([5, 5], None)])
def test_a_correlation_id_of_zero_links_where_a_single_call_has_it(call_ids, launch):
    rows = [(10 * k, 5, f"cudaLaunchKernel{k}") for k in range(len(call_ids))]
    cat = pd.Categorical(["cuda_runtime"] * len(call_ids) + ["kernel"])
    device = pd.array([None] * len(call_ids) + [0], dtype="Int64")
    ids = pd.array([*call_ids, 0], dtype="Int64")
    events = build_events(host_rows(*rows, (100, 5, "gemm"), cat=cat, device=device, correlation_id=ids))
    found = events["launch"].iloc[-1]
    assert (None if pd.isna(found) else found) == launch


def test_work_of_an_id_that_no_call_has_has_no_launch():
    cat = pd.Categorical(["cuda_runtime", "kernel"])
    device = pd.array([None, 0], dtype="Int64")
    columns = host_rows((0, 5, "cudaLaunchKernel"), (10, 5, "gemm"), cat=cat, device=device)
    events = build_events(columns | {"correlation_id": pd.array([9, 5], dtype="Int64")})
    assert events["launch"].isna().all()


def test_a_step_holds_what_starts_from_its_start_up_to_its_end():
    rows = [(ts, 1, f"op{ts}") for ts in (9, 10, 19, 20, 29, 30)]
    steps = [(10, 10, "ProfilerStep#0"), (20, 10, "ProfilerStep#1")]
    events = build_events(host_rows(*rows, *steps))
    found = {name: step for name, step in zip(events["name"], events["step"], strict=True) if name.startswith("op")}
    assert {name: None if pd.isna(step) else step for name, step in found.items()} == {
        "op9": None,
        "op10": 0,
        "op19": 0,
        "op20": 1,
        "op29": 1,
        "op30": None,
    }


def test_a_step_range_on_a_device_is_no_step_of_the_host():
    device = pd.array([0, None], dtype="Int64")
    cat = pd.Categorical(["gpu_user_annotation", "cpu_op"])
    events = build_events(host_rows((0, 100, "ProfilerStep#7"), (10, 5, "op"), cat=cat, device=device))
    assert events["step"].isna().all()


def test_the_first_of_several_calls_of_one_correlation_id_is_the_launch():
    cat = pd.Categorical(["cuda_driver", "cuda_runtime", "kernel"])
    device = pd.array([None, None, 0], dtype="Int64")
    ids = pd.array([7, 7, 7], dtype="Int64")
    rows = (12, 2, "cuLaunchKernel"), (10, 9, "cudaLaunchKernel"), (100, 5, "gemm")
    events = build_events(host_rows(*rows, cat=cat, device=device, correlation_id=ids))
    assert events["name"][events["launch"].iloc[-1]] == "cudaLaunchKernel"


def test_threads_and_processes_have_trees_of_their_own():
    events = build_events(
        {
            "ts": [0, 1, 2],
            "dur": [100, 50, 10],
            "name": pd.Categorical(["a", "b", "c"]),
            "cat": pd.Categorical(["cpu_op"] * 3),
            "pid": pd.array([1, 1, 2], dtype="Int64"),
            "tid": pd.array([1, 2, 1], dtype="Int64"),
        }
    )
    assert events["parent"].isna().all()


def test_an_allocation_names_the_innermost_running_event(gpu_trace):
    names = gpu_trace.events["name"]
    assert [names[row] for row in gpu_trace.memory["event"]] == ["aten::mm", "ProfilerStep#3"]


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 12), st.integers(1, 2)), max_size=20),
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 2)), max_size=20),
)
def test_the_innermost_event_is_the_last_begun_of_those_that_enclose(intervals, points):
    events = build_events(
        {
            "ts": [i[0] for i in intervals],
            "dur": [i[1] for i in intervals],
            "name": pd.Categorical(["op"] * len(intervals)),
            "cat": pd.Categorical(["cpu_op"] * len(intervals)),
            "pid": pd.array([1] * len(intervals), dtype="Int64"),
            "tid": pd.array([i[2] for i in intervals], dtype="Int64"),
        }
    )
    ts = np.array([p[0] for p in points], np.int64)
    tids = pd.array([p[1] for p in points], dtype="Int64")
    found = innermost_event(events, ts, pd.array([1] * len(points), dtype="Int64"), tids)
    for (at, tid), row in zip(points, found, strict=True):
        ends = events["ts"] + events["dur"]
        running = events.index[(events["ts"] <= at) & (at < ends) & (events["tid"] == tid)]
        assert (row in running) if len(running) else row == -1


def test_an_empty_run_has_empty_frames():
    events = build_events({"ts": [], "dur": [], "name": pd.Categorical([]), "cat": pd.Categorical([])})
    assert len(check_frame("events", events)) == 0
    memory = build_memory({"ts": [], "action": [], "num_bytes": []}, events)
    assert len(check_frame("memory", memory)) == 0


def test_category_lookup_treats_missing_as_no_match():
    cat = pd.Categorical(["kernel", None, "cpu_op"])
    assert is_category(cat, ["kernel"]).tolist() == [True, False, False]


def test_a_frame_that_differs_from_the_catalog_is_refused_by_name(gpu_trace):
    frame = gpu_trace.events.drop(columns="dur").assign(ts=1.5, extra=0)
    with pytest.raises(SchemaError, match=r"'dur' is missing.*'ts' is float64, expected int64.*'extra' is unknown"):
        Trace(gpu_trace.info, events=frame)
    with pytest.raises(TypeError, match="unexpected keyword argument 'sounds'"):
        Trace(gpu_trace.info, sounds=frame)


def test_empty_frames_have_the_catalogs_columns():
    for name in ("events", "memory", "stacks"):
        assert len(check_frame(name, empty_frame(name))) == 0
