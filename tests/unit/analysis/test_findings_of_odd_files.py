"""Findings of files in which threads are missing, or in which no kernel has a length."""

import json

import pytest

import cudalens
from cudalens.analysis import findings

THREAD = {"pid": 1, "tid": 2}


def ops(gap_us, dur_us, **where):
    return [
        {"ph": "X", "cat": "cpu_op", "name": "aten::add", "ts": gap_us * k, "dur": dur_us, **where} for k in range(600)
    ]


def found_in(tmp_path, events):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    trace = cudalens.load(path)
    assert "could not be computed" not in trace.summary().verdict
    return [one.rule for one in findings(trace, most=None)]


@pytest.mark.parametrize(("gap_us", "rule"), [(100, "python_between"), (20_000, "python_work")])
def test_gaps_are_of_one_known_thread(tmp_path, gap_us, rule):
    one = {"ph": "X", "cat": "cpu_op", "name": "aten::mul", "ts": 5, "dur": 1}
    assert rule in found_in(tmp_path, ops(gap_us, 10, **THREAD))
    assert rule in found_in(tmp_path, [*ops(gap_us, 10, **THREAD), one])
    assert rule not in found_in(tmp_path, ops(gap_us, 10))


def test_kernels_without_a_length_have_no_idle_time_between_them(tmp_path):
    kernels = [
        {
            "ph": "X",
            "cat": "kernel",
            "name": "k",
            "ts": 100 * k,
            "dur": 0,
            "pid": 0,
            "tid": 7,
            "args": {"device": 0, "stream": 7},
        }
        for k in range(50)
    ]
    mallocs = [
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaMalloc", "ts": 1000 * k, "dur": 500, **THREAD} for k in range(5)
    ]
    assert "driver_memory" not in found_in(tmp_path, kernels + mallocs)
