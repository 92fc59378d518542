"""Figures of the critical path, flame graphs and attribution: titles say the answer, foreign text is escaped."""

import numpy as np
import pandas as pd
import pytest

from cudalens.frames import RunInfo, Trace, build_events

NAMES = ("critical_path", "flame_graph", "call_tree", "attribution")


@pytest.fixture
def trace():
    columns = {
        "ts": np.array([0, 2, 10]),
        "dur": np.array([20, 3, 70]),
        "name": pd.Categorical(["aten::<b>", "cudaLaunchKernel", "k"]),
    }
    columns |= {
        "cat": pd.Categorical(["cpu_op", "cuda_runtime", "kernel"]),
        "device": pd.array([None, None, 0], "Int32"),
    }
    integers = {"tid": [1, 1, None], "pid": [1, 1, None], "stream": [None, None, 7], "correlation_id": [None, 4, 4]}
    columns |= {name: pd.array(values, "Int64") for name, values in integers.items()}
    return Trace(RunInfo(name="t", source="cuda"), events=build_events(columns))


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_a_figure_is_of_bars_and_escapes_names(trace, name, mode):
    options = {"by": "op"} if name == "attribution" else {}
    drawn = trace.figure(name, mode=mode, **options)
    assert drawn.data
    assert {series.type for series in drawn.data} == {"bar"}
    assert "aten::<b>" not in drawn.to_json().replace("\\u003c", "<")


def test_titles_state_the_answer(trace):
    assert "The GPU is the bottleneck" in trace.figure("critical_path").layout.title.text
    assert "k itself takes 100" in trace.figure("flame_graph", weight="device").layout.title.text
    assert "aten::&lt;b&gt; takes 100" in trace.figure("attribution", by="op").layout.title.text


@pytest.mark.parametrize("name", NAMES)
def test_nothing_recorded_reports_it(name):
    drawn = Trace(RunInfo(name="t", source="cpu")).figure(name)
    assert "recorded" in drawn.layout.title.text
