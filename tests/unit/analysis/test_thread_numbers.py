"""Numbers of threads below zero, as the profiler of JAX writes them, are numbers like all others."""

import json
from itertools import chain

import pytest

import cudalens
from cudalens import analysis

SHIFT = 1 << 62


def program(tid, other):
    """A thread that calls operators with pauses between them, and one that launches and waits for a kernel."""
    here, there = {"pid": 1, "tid": tid}, {"pid": 1, "tid": other}
    events = [{**here, "cat": "cpu_op", "name": "aten::mm", "ts": i * 3000.0, "dur": 5.0} for i in range(30)]
    events += [{**there, "cat": "cpu_op", "name": "aten::add", "ts": i * 7000.0, "dur": 3.0} for i in range(4)]
    call = {**there, "cat": "cuda_runtime", "ts": 50.0, "dur": 9.0, "args": {"correlation": 4}}
    wait = {**call, "name": "cudaStreamSynchronize", "ts": 70.0, "dur": 40.0, "args": {"correlation": 5}}
    kernel = {"cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 60.0, "dur": 20.0}
    kernel["args"] = {"device": 0, "stream": 7, "correlation": 4}
    return events, [{**call, "name": "cudaLaunchKernel"}, wait, kernel]


def loaded(tmp_path, events):
    path = tmp_path / "t.json"
    path.write_text(json.dumps([{"ph": "X", **event} for event in events]))
    return cudalens.load(path)


@pytest.mark.parametrize(("tid", "other"), [(-7, 8), (-1, -2), (-SHIFT - 5, SHIFT + 3)])
class TestNegativeNumbers:
    def test_findings_are_those_of_positive_numbers(self, tmp_path, tid, other):
        found, expected = ([*analysis.findings(loaded(tmp_path, program(*pair)[0]))] for pair in ((tid, other), (7, 8)))
        assert [one.rule for one in expected] == ["python_work"]
        assert [(one.rule, one.gain_ns, one.rows) for one in found] == [
            (one.rule, one.gain_ns, one.rows) for one in expected
        ]

    def test_tables_keep_them(self, tmp_path, tid, other):
        trace = loaded(tmp_path, [*chain(*program(tid, other))])
        paths = analysis.call_tree(trace, per_thread=True)
        assert set(paths["tid"].dropna()) == {tid, other}
        assert analysis.launch_statistics(trace)["tid"].tolist() == [other]
        assert trace.syncs["tid"].tolist() == [other]


def test_thread_numbers_of_two_processes_stay_apart(tmp_path):
    events = program(-(1 << 61), 5)[0]
    both = loaded(tmp_path, events + [{**event, "pid": 2, "ts": event["ts"] + 0.5} for event in events])
    alone = loaded(tmp_path, events)
    assert [one.gain_ns for one in analysis.findings(both)] == [one.gain_ns for one in analysis.findings(alone)]
