from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from test_averages import GPU_ROWS, make_events, make_trace

from cudalens.analysis import key_averages, summarize
from cudalens.analysis.summary import measured_window
from cudalens.frames import Problem, RunInfo, Trace, build_events, build_memory, categorical, nullable

RECORDED = Path(__file__).parents[4] / "shared" / "recorded"


def test_verdict_of_a_gpu_run():
    summary = summarize(make_trace(GPU_ROWS))
    assert summary.wall_ns == 411
    assert summary.device_busy_ns == 241
    assert summary.device_busy_by_device == {0: 241}
    assert summary.host_busy_ns == 50
    assert (summary.num_events, summary.num_ops, summary.num_kernels, summary.num_launches) == (7, 1, 2, 2)
    assert [cost.name for cost in summary.top] == ["gemm", "Memcpy"]
    assert summary.top[0].self_ns == 211
    assert summary.top[0].share_pct == pytest.approx(100 * 211 / 241)
    assert summary.top[0].is_device
    assert summary.peak_memory_bytes is None
    assert summary.num_steps is None


def test_wall_is_the_window_where_one_is_known():
    trace = make_trace(GPU_ROWS)
    trace = trace.replace(info=trace.info.replace(started_ns=1000, ended_ns=1700))
    assert summarize(trace).wall_ns == 700


SESSION = [
    {"ts": 0, "dur": 500, "name": "import torch", "cat": "user_annotation"},
    {"ts": 600, "dur": 10, "name": "k", "cat": "kernel", "device": 0, "stream": 1},
    {"ts": 690, "dur": 10, "name": "k", "cat": "kernel", "device": 0, "stream": 1},
    {"ts": 800, "dur": 200, "name": "exit", "cat": "user_annotation"},
]


def of_source(rows, source, **info):
    trace = make_trace(rows)
    return trace.replace(info=trace.info.replace(source=source, **info))


@pytest.mark.parametrize("source", ["file:nsys", "file:kineto", "file:rocpd"])
def test_the_window_of_a_file_is_from_its_first_to_its_last_device_work(source):
    trace = of_source(SESSION, source, started_ns=0, ended_ns=1000)
    assert measured_window(trace) == (600, 700, 0, 1000)
    summary = summarize(trace)
    assert (summary.wall_ns, summary.recorded_ns, summary.device_busy_ns) == (100, 1000, 20)


def test_the_steps_of_a_file_belong_to_its_window():
    step = {"ts": 550, "dur": 100, "name": "ProfilerStep#3", "cat": "user_annotation"}
    assert measured_window(of_source([*SESSION, step], "file:kineto")) == (550, 700, 0, 1000)


def test_the_window_of_a_profiled_block_is_the_block():
    trace = of_source(SESSION, "cuda", started_ns=0, ended_ns=1000)
    assert measured_window(trace) == (0, 1000, 0, 1000)


def test_a_file_without_device_work_is_measured_as_a_whole():
    trace = of_source([row for row in SESSION if row["cat"] != "kernel"], "file:kineto")
    assert measured_window(trace) == (0, 1000, 0, 1000)


def test_devices_that_work_at_once_count_once():
    rows = [
        {"ts": 0, "dur": 10, "name": "k", "cat": "kernel", "device": 0, "stream": 1},
        {"ts": 5, "dur": 10, "name": "k", "cat": "kernel", "device": 0, "stream": 2},
        {"ts": 8, "dur": 20, "name": "k", "cat": "kernel", "device": 1, "stream": 1},
        {"ts": 0, "dur": 99, "name": "range", "cat": "gpu_user_annotation", "device": 0, "stream": 1},
    ]
    summary = summarize(make_trace(rows))
    assert summary.device_busy_by_device == {0: 15, 1: 20}
    assert summary.device_busy_ns == 28
    assert summary.num_kernels == 3


def test_operators_on_two_threads_count_once():
    rows = [
        {"ts": 0, "dur": 10, "name": "a", "tid": 1},
        {"ts": 2, "dur": 3, "name": "b", "tid": 1},
        {"ts": 5, "dur": 10, "name": "a", "tid": 2},
        {"ts": 0, "dur": 500, "name": "range", "cat": "user_annotation", "tid": 1},
    ]
    summary = summarize(make_trace(rows))
    assert summary.host_busy_ns == 15
    assert summary.device_busy_ns is None
    assert summary.device_busy_by_device == {}
    assert summary.top[0].name == "range"


def test_launches_are_known_by_name_where_no_link_was_recorded():
    rows = [
        {"ts": i, "dur": 1, "name": name, "cat": cat}
        for i, (name, cat) in enumerate(
            [
                ("cudaLaunchKernel", "cuda_runtime"),
                ("cudaLaunchKernelExC", "cuda_runtime"),
                ("cuLaunchKernelEx", "cuda_driver"),
                ("cudaGraphLaunch", "cuda_runtime"),
                ("hipModuleLaunchKernel", "cuda_runtime"),
                ("cudaStreamSynchronize", "cuda_runtime"),
                ("cudaLaunchKernel", "user_annotation"),
            ]
        )
    ]
    assert summarize(make_trace(rows)).num_launches == 5


def test_a_call_that_waits_is_not_a_launch():
    rows = [
        {"ts": 0, "dur": 2, "name": "cudaLaunchKernel", "cat": "cuda_runtime", "correlation_id": 1},
        {"ts": 2, "dur": 2, "name": "cudaMemcpyAsync", "cat": "cuda_runtime", "correlation_id": 2},
        {"ts": 4, "dur": 30, "name": "cudaStreamSynchronize", "cat": "cuda_runtime", "correlation_id": 3},
        {"ts": 5, "dur": 10, "name": "gemm", "cat": "kernel", "device": 0, "stream": 7, "correlation_id": 1},
        {"ts": 15, "dur": 5, "name": "Memcpy DtoH", "cat": "gpu_memcpy", "device": 0, "stream": 7, "correlation_id": 2},
        {"ts": 4, "dur": 16, "name": "Stream Sync", "cat": "cuda_sync", "device": 0, "stream": 7, "correlation_id": 3},
    ]
    trace = make_trace(rows)
    waits = trace.events[trace.events["cat"] == "cuda_sync"]
    assert waits["launch"].notna().all()
    assert summarize(trace).num_launches == 2


def test_steps_and_problems():
    rows = [
        {"ts": 100 * i, "dur": d, "name": f"ProfilerStep#{i}", "cat": "user_annotation"} for i, d in enumerate((10, 30))
    ]
    trace = make_trace(rows)
    trace = trace.replace(
        info=trace.info.replace(problems=(Problem("x", 3, "there"), Problem("y", 1, "here")), build_s=0.5)
    )
    summary = summarize(trace)
    assert (summary.num_steps, summary.step_mean_ns) == (2, 20.0)
    assert summary.step_std_ns == pytest.approx(np.std([10, 30], ddof=1))
    assert summary.num_problems == 4
    assert summary.build_s == 0.5
    assert not summary.is_simulated


def test_a_step_is_no_cost():
    rows = [
        {"ts": 0, "dur": 1000, "name": "ProfilerStep#0", "cat": "user_annotation"},
        {"ts": 10, "dur": 30, "name": "aten::mm"},
        {"ts": 50, "dur": 60, "name": "forward", "cat": "user_annotation"},
    ]
    summary = summarize(make_trace(rows))
    assert [cost.name for cost in summary.top] == ["forward", "aten::mm"]
    assert summary.top[1].share_pct == pytest.approx(3.0)


def test_peak_memory_by_device_type():
    events = make_events([])
    known = np.zeros(4, bool)
    memory = build_memory(
        {
            "ts": np.arange(4),
            "action": categorical(np.zeros(4, int), ["alloc"]),
            "device_type": categorical(np.array([0, 1, 1, 0]), ["cpu", "cuda"]),
            "num_bytes": np.ones(4, np.int64),
            "allocated_bytes": nullable(np.array([5, 100, 90, 3]), known),
        },
        events,
    )
    summary = summarize(Trace(RunInfo(name="t", source="cuda"), events=events, memory=memory))
    assert summary.peak_memory_bytes == {"cpu": 5, "cuda": 100}


def test_empty_trace():
    summary = summarize(Trace(RunInfo(name="t", source="virtual:h100")))
    assert (summary.wall_ns, summary.host_busy_ns, summary.top, summary.num_events) == (0, None, (), 0)
    assert summary.is_simulated


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10)), max_size=12))
def test_host_busy_counts_each_nanosecond_once(pairs):
    events = build_events(
        {
            "ts": [ts for ts, _ in pairs],
            "dur": [dur for _, dur in pairs],
            "name": pd.Categorical(["op"] * len(pairs)),
            "cat": pd.Categorical(["cpu_op"] * len(pairs)),
        }
    )
    busy = summarize(Trace(RunInfo(name="t", source="cpu"), events=events)).host_busy_ns
    assert busy == (len({t for ts, dur in pairs for t in range(ts, ts + dur)}) if pairs else None)


def recorded_files():
    if not (RECORDED / "reference.csv").exists():
        return []
    with (RECORDED / "reference.csv").open() as file:
        return [row for row in csv.DictReader(file) if (RECORDED / next(iter(row.values()))).exists()]


@pytest.mark.skipif(not recorded_files(), reason="no recorded traces beside this checkout (../shared/recorded)")
@pytest.mark.parametrize("reference", recorded_files(), ids=lambda row: next(iter(row.values())).partition(".")[0])
def test_summaries_of_recorded_runs_agree_with_their_reference(reference):
    import cudalens

    trace = cudalens.load(RECORDED / next(iter(reference.values())))
    summary = summarize(trace)
    averages = key_averages(trace)
    assert summary.wall_ns > 0
    assert (averages["count"] > 0).all()
    assert (averages["min_ns"] <= averages["mean_ns"]).all()
    assert (averages["mean_ns"] <= averages["max_ns"]).all()
    for is_device, side in averages.groupby("is_device"):
        assert side["share_pct"].sum() == pytest.approx(100.0), is_device
    work = averages[averages["is_device"] & averages["cat"].isin(["kernel", "gpu_memcpy", "gpu_memset"])]
    assert work["total_ns"].sum() == pytest.approx(1000 * float(reference["sum_us"] or 0), abs=1)
    assert (summary.device_busy_ns or 0) == pytest.approx(1000 * float(reference["busy_us"] or 0), abs=1)
