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


def test_threads_and_processes_have_trees_of_their_own():
    events = build_events(
        {
            "ts": [0, 1, 2],
            "dur": [100, 10, 10],
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
    with pytest.raises(TypeError, match="no frame"):
        Trace(gpu_trace.info, sounds=frame)


def test_empty_frames_have_the_catalogs_columns():
    for name in ("events", "memory", "stacks"):
        assert len(check_frame(name, empty_frame(name))) == 0
