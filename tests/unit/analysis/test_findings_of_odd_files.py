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


def test_migrations_of_unified_memory_need_no_call(tmp_path):
    """As nsys records ``cudaMallocManaged``: the kernel has its launch, the copies of its pages have none."""
    place = {"pid": 0, "tid": 7, "args": {"device": 0, "stream": 7, "correlation": 1}}
    launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 0, "dur": 5, **THREAD}
    events = [
        launch | {"args": {"correlation": 1}},
        {"ph": "X", "cat": "kernel", "name": "add", "ts": 10, "dur": 900} | place,
    ]
    copy = {
        "ph": "X",
        "cat": "gpu_memcpy",
        "name": "Memcpy HtoD (Unified) (Unknown -> Unknown)",
        "dur": 2,
        "pid": 0,
        "tid": 8,
    }
    events += [copy | {"ts": 20 + 10 * k, "args": {"device": 0, "stream": 8}} for k in range(50)]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    assert "unlinked work" not in str(cudalens.load(path).trust())
    assert "partial" not in cudalens.load(path).summary().verdict


def test_idle_time_of_a_program_without_torch_gets_no_advice_about_torch(tmp_path):
    """As nsys records a program in C++: calls of the runtime, and what they launched."""
    events = []
    for k in range(4):
        at, ids = 1000 * k, {"correlation": k}
        events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at, "dur": 5, **THREAD})
        kernel = {"ph": "X", "cat": "kernel", "name": "add", "ts": at + 10, "dur": 20, "pid": 0, "tid": 7}
        events[-1]["args"] = ids
        events.append({**kernel, "args": {"device": 0, "stream": 7, **ids}})
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    advice = " ".join(one.advice for one in findings(cudalens.load(path), most=None))
    assert "with_stack" not in advice
    assert "--stacks" not in advice


def test_kernels_without_a_length_take_no_share_and_make_no_rank_slow(tmp_path):
    op = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "ts": 1, "dur": 10, **THREAD}
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "ts": 5, "dur": 0, "pid": 0, "tid": 7}
    kernel["args"] = {"device": 0, "stream": 7}
    for rank in range(2):
        (tmp_path / f"rank-{rank}.json").write_text(
            json.dumps({"distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": [op, kernel]})
        )
    assert (
        cudalens.load(tmp_path / "rank-0.json").summary().verdict.endswith("most in aten::add (100 % of CPU self time)")
    )
    assert cudalens.load_ranks(tmp_path).analysis.stragglers.found == ()
