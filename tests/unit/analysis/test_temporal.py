"""temporal_breakdown against single nanoseconds, and against device_time on recorded traces."""

import csv

import pandas as pd
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from made_traces import ALONE, KINDS, host, launch, trace_of, work
from recorded_traces import RECORDED, TRACES, needs_recorded, opened

from cudalens.analysis import device_time, temporal_breakdown
from cudalens.frames import Ranks

KEYS = {None: (), "device": ("device",), "stream": ("device", "stream")}


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(ALONE, max_size=14), st.sampled_from(list(KEYS)))
def test_against_single_nanoseconds(rows, by):
    frame = temporal_breakdown(trace_of(rows), by)
    groups = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in KEYS[by]), []).append(row)
    assert len(frame) == len(groups)
    for found, key in zip(frame.to_dict("records"), sorted(groups), strict=True):
        points = {"compute": set(), "communication": set(), "memory": set()}
        for row in groups[key]:
            points[KINDS[row["name"]][1]].update(range(row["ts"], row["ts"] + row["dur"]))
        comp, comm, mem = points.values()
        span = max(r["ts"] + r["dur"] for r in groups[key]) - min(r["ts"] for r in groups[key])
        assert tuple(found[name] for name in KEYS[by]) == key
        assert found["span_ns"] == span
        assert found["idle_ns"] == span - len(comp | comm | mem)
        assert (found["comp_ns"], found["comm_ns"], found["mem_ns"]) == (len(comp), len(comm), len(mem))
        assert (found["exposed_comm_ns"], found["overlap_ns"]) == (len(comm - comp), len(comm & comp))
        assert found["exposed_mem_ns"] == len(mem - comp - comm)
        assert found["sum_ns"] == sum(row["dur"] for row in groups[key])
        assert found["num_work"] == len(groups[key])
        shares = [found[f"{part}_pct"] for part in ("comp", "exposed_comm", "exposed_mem", "idle")]
        assert all(map(pd.isna, shares)) if not span else sum(shares) == pytest.approx(100)


def test_the_last_step_counts_and_work_belongs_to_the_step_that_launched_it():
    rows = []
    for step in range(3):
        rows += [host(100 * step, 90, f"ProfilerStep#{step}", "user_annotation"), launch(100 * step + 5, 2, step + 1)]
        rows.append(work(100 * step + 150, 10 + step, call=step + 1))
    frame = temporal_breakdown(trace_of(rows), "step")
    assert frame["step"].tolist() == [0, 1, 2]
    assert frame["busy_ns"].tolist() == [10, 11, 12]
    assert temporal_breakdown(trace_of(rows), step=2)["busy_ns"].tolist() == [12]
    assert not len(temporal_breakdown(trace_of(rows), step=9))


def test_host_rows_with_a_stream_are_not_device_work():
    rows = [work(0, 10), work(50, 10), {**host(10, 40, "aten::add"), "stream": 7}]
    rows.append({"ts": 20, "dur": 20, "name": "Stream Sync", "cat": "cuda_sync", "device": 0, "stream": 7})
    assert temporal_breakdown(trace_of(rows), "stream")["idle_ns"].tolist() == [40]


def test_times_beyond_any_sum_of_spans():
    rows = [work(0, 5, device=d) for d in range(4)] + [work(2**62, 5, device=d) for d in range(4)]
    frame = temporal_breakdown(trace_of(rows, at=0), "device")
    assert frame["busy_ns"].tolist() == [10] * 4
    assert frame["span_ns"].tolist() == [2**62 + 5] * 4


def test_ranks_and_unknown_groups():
    ranks = Ranks({1: trace_of([work(0, 5)]), 0: trace_of([])}, name="job")
    assert temporal_breakdown(ranks)["rank"].tolist() == [1]
    with pytest.raises(ValueError, match="by: 'rank'; expected one of None, 'device', 'stream', 'step'"):
        temporal_breakdown(trace_of([]), "rank")


@needs_recorded
@pytest.mark.parametrize("file", TRACES)
def test_recorded_traces(file):
    trace = opened(file)
    whole, frame = device_time(trace), temporal_breakdown(trace)
    if not len(frame):
        assert whole.isna().all()
    else:
        assert frame.iloc[0][list(whole.index)].tolist() == whole.tolist()
    reference = {row["file"]: row for row in csv.DictReader((RECORDED / "reference.csv").open())}
    if wanted := reference[file]["span_us"]:
        assert abs(frame["span_ns"][0] - float(wanted) * 1000) <= 1
        assert abs(frame["idle_ns"][0] - float(reference[file]["idle_us"]) * 1000) <= 1
    for by in ("device", "stream", "step"):
        parts = temporal_breakdown(trace, by)
        assert (parts["busy_ns"] + parts["idle_ns"] == parts["span_ns"]).all()
        exposed = parts["comp_ns"] + parts["exposed_comm_ns"] + parts["exposed_mem_ns"]
        assert (exposed == parts["busy_ns"]).all()
        assert parts["sum_ns"].sum() == (whole["sum_ns"] if len(frame) else 0)
