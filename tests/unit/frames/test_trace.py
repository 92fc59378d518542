"""A Trace does not change, and says what it is."""

import numpy as np
import pandas as pd

from cudalens.frames import RunInfo, StackTable, Trace


def test_a_frame_handed_out_is_the_users_to_change(gpu_trace):
    frame = gpu_trace.events
    frame["dur"] = 0
    frame["mine"] = 1
    assert gpu_trace.events["dur"].sum() > 0
    assert "mine" not in gpu_trace.events


def test_repr_is_one_line(gpu_trace):
    assert repr(gpu_trace) == "<cudalens.Trace 'cell-3': 6 events, cuda>"


def test_an_empty_trace_is_still_true():
    trace = Trace(RunInfo(name="none", source="cpu"))
    assert trace
    assert len(trace) == 0
    assert list(trace.events.columns) == list(Trace(trace.info).events.columns)


def test_replace_keeps_the_rest(gpu_trace):
    other = gpu_trace.replace(info=gpu_trace.info.replace(name="other"))
    assert other.info.name == "other"
    pd.testing.assert_frame_equal(other.events, gpu_trace.events)


def test_simulated_time_reports_it():
    assert RunInfo(name="x", source="virtual:h100").is_simulated
    assert not RunInfo(name="x", source="cuda").is_simulated


def test_the_stack_table_keeps_each_stack_once():
    table = StackTable()
    first = table.add(["a.py(3): f", "b.py(10): g"])
    second = table.add(["<built-in method mm>"])
    assert table.add(["a.py(3): f", "b.py(10): g"]) == first
    frame = table.to_frame()
    assert frame["stack"].tolist() == [first, first, second]
    assert frame["position"].tolist() == [0, 1, 0]
    assert frame["file"].tolist()[:2] == ["a.py", "b.py"]
    assert frame["line"].tolist() == [3, 10, pd.NA]
    assert frame["function"].tolist() == ["f", "g", "<built-in method mm>"]
    assert np.array_equal(Trace(RunInfo(name="x", source="cpu"), stacks=frame).stacks["line"].isna(), [0, 0, 1])
