"""Launches and queues against loops, and by example."""

import numpy as np
import pandas as pd
import pytest
from budget import examples
from hypothesis import given, settings
from made_traces import launch, launched, trace_of, work
from recorded_traces import TRACES, needs_recorded, opened

from cudalens.analysis import launch_statistics, launch_summary, queue_lengths


@settings(max_examples=examples(30), deadline=None)
@given(launched())
def test_against_a_loop(rows):
    trace = trace_of(rows, at=1000)
    events = trace.events
    device = events[events["cat"].isin(["kernel", "gpu_memcpy", "gpu_memset"])]
    frame = launch_statistics(trace, full_queue=2)
    calls = sorted(device["launch"].dropna().unique())
    assert frame["launch"].tolist() == calls
    for found, call in zip(frame.to_dict("records"), calls, strict=True):
        mine = device[device["launch"] == call]
        first = mine.iloc[0]
        begun, length = events["ts"][call], events["dur"][call]
        lane = device[device["stream"] == first["stream"]]
        issued = [min(row.launch, row.Index) if row.launch is not pd.NA else row.Index for row in lane.itertuples()]
        ends = (lane["ts"] + lane["dur"]).tolist()
        queue = sum(one < call and end > begun for one, end in zip(issued, ends, strict=True))
        instant = sum(one < call and end == begun and dur == 0 and row > call for one, end, dur, row in zip(
            issued, ends, lane["dur"], lane.index, strict=True))  # fmt: skip
        assert queue <= found["queue_length"] <= queue + instant
        assert (found["work"], found["num_work"]) == (mine.index[0], len(mine))
        assert found["delay_ns"] == first["ts"] - begun - length
        assert found["work_ns"] == mine["dur"].sum()
        assert found["is_short"] == (found["work_ns"] < length)
        assert pd.isna(found["latency_ns"]) == (found["queue_length"] > 0)
        if len(mine) == 1 and device["launch"].dropna().is_unique and found["queue_length"] == queue:
            ended = any(begun < end <= begun + length for end in ends)
            assert found["is_blocked"] == (queue >= 2 and ended)


@settings(max_examples=examples(30), deadline=None)
@given(launched())
def test_queues_rise_and_fall_as_work_comes_and_goes(rows):
    trace = trace_of(rows, at=1000)
    frame, events = queue_lengths(trace), trace.events
    assert (frame["queue_length"] >= 0).all()
    device = events[events["cat"].isin(["kernel", "gpu_memcpy", "gpu_memset"])]
    for key, lane in device.groupby(["device", "stream"]):
        mine = frame[(frame["device"] == key[0]) & (frame["stream"] == key[1])]
        assert mine["ts"].is_monotonic_increasing
        assert mine["ts"].is_unique
        begun = [
            min(events["ts"][c], ts) if c is not pd.NA else ts for c, ts in zip(lane["launch"], lane["ts"], strict=True)
        ]
        for at in range(990, 1150):
            now = mine.loc[mine["ts"] <= at, "queue_length"]
            wanted = sum(b <= at < e for b, e in zip(begun, lane["ts"] + lane["dur"], strict=True))
            assert (now.iloc[-1] if len(now) else 0) == wanted


def test_delays_outliers_and_streams():
    rows = [launch(0, 60_000, 1), work(70_000, 5, call=1), launch(100_000, 5, 2), work(300_000, 500_000, call=2)]
    rows += [launch(400_000, 5, 3), work(800_000, 10, call=3)]
    frame = launch_statistics(trace_of(rows))
    assert frame["delay_ns"].tolist() == [10_000, 199_995, 399_995]
    assert frame["latency_ns"].tolist() == [70_000, 200_000, pd.NA]
    assert frame["is_slow_call"].tolist() == [True, False, False]
    assert frame["is_late"].tolist() == [False, True, False]  # the third waited its turn
    assert frame["is_outlier"].tolist() == [True, True, False]
    summary = launch_summary(trace_of(rows)).iloc[0]
    assert (summary["num_launches"], summary["num_outliers"], summary["max_queue_length"]) == (3, 2, 1)
    assert summary["median_latency_ns"] == 135_000


def test_a_graph_is_one_launch_of_much_work_and_one_place_in_the_queue():
    rows = [launch(0, 9, 1, "cudaGraphLaunch")] + [work(10 + 10 * i, 10, call=1) for i in range(30)]
    rows += [launch(20, 25, 2), work(400, 5, call=2)]
    frame = launch_statistics(trace_of(rows), full_queue=20)
    assert frame["num_work"].tolist() == [30, 1]
    assert frame["is_graph"].tolist() == [True, False]
    assert frame["queue_length"].tolist() == [0, 29]
    assert not frame["is_blocked"].any()


def test_a_call_that_waits_for_room_is_blocked():
    rows = []
    for i in range(6):
        rows += [launch(10 * i, 2 if i < 5 else 120, i + 1), work(100 + 50 * i, 50, call=i + 1)]
    frame = launch_statistics(trace_of(rows), full_queue=4)
    assert frame["is_blocked"].tolist() == [False] * 5 + [True]  # the fifth came back before any work had ended
    assert launch_summary(trace_of(rows), full_queue=4)["blocked_ns"].tolist() == [120]


@pytest.mark.parametrize(("full_queue", "is_blocked"), [(5, True), (6, False)])
def test_a_queue_is_full_with_as_many_launches_as_it_holds(full_queue, is_blocked):
    rows = []
    for i in range(6):
        rows += [launch(10 * i, 2 if i < 5 else 120, i + 1), work(100 + 50 * i, 50, call=i + 1)]
    frame = launch_statistics(trace_of(rows), full_queue=full_queue)
    assert frame["queue_length"].tolist() == [0, 1, 2, 3, 4, 5]
    assert frame["is_blocked"].tolist() == [False] * 5 + [is_blocked]


@needs_recorded
@pytest.mark.parametrize("file", TRACES)
def test_recorded_traces(file):
    trace = opened(file)
    frame, summary = launch_statistics(trace), launch_summary(trace)
    launched = trace.events["launch"][trace.events["cat"].isin(["kernel", "gpu_memcpy", "gpu_memset"])].dropna()
    assert frame["num_work"].sum() == len(launched) == summary["num_work"].sum()
    assert len(frame) == launched.nunique() == summary["num_launches"].sum()
    assert (queue_lengths(trace)["queue_length"] >= 0).all()
    steps = [step for step in trace.events["step"].dropna().unique() if (frame["step"] == step).any()]
    for step in steps:
        pd.testing.assert_frame_equal(
            launch_statistics(trace, step=int(step))[["launch", "work_ns", "queue_length"]],
            frame.loc[np.asarray(frame["step"] == step, bool), ["launch", "work_ns", "queue_length"]].reset_index(
                drop=True
            ),
        )
