"""Small Chrome traces for tests, and where the recorded ones are."""

import gzip
import json
from pathlib import Path

import pytest

import cudalens

RECORDED = Path(__file__).parents[4] / "shared" / "recorded"
needs_recorded = pytest.mark.skipif(not RECORDED.is_dir(), reason=f"no recorded traces at {RECORDED}")


def op(ts, dur, name="aten::add", *, cat="cpu_op", pid=10, tid=11, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def kernel(ts, dur, name="add_kernel", *, cat="kernel", device=0, stream=7, **args):
    where = {"device": device, "stream": stream}
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": device,
        "tid": stream,
        "ts": ts,
        "dur": dur,
        "args": where | args,
    }


def launch(ts, dur, correlation, name="cudaLaunchKernel", **kwargs):
    return op(ts, dur, name, cat="cuda_runtime", correlation=correlation, **kwargs)


def write(path, events, **around):
    """Write `events` as a Chrome trace; a name that ends in .gz is compressed."""
    text = json.dumps({"schemaVersion": 1, **around, "traceEvents": events})
    path.write_bytes(gzip.compress(text.encode(), 1) if path.suffix == ".gz" else text.encode())
    return path


def load_events(tmp_path, events, **around):
    return cudalens.load(write(tmp_path / "trace.json", events, **around))


def load_bytes(tmp_path, data, name="trace.json"):
    path = tmp_path / name
    path.write_bytes(data)
    return cudalens.load(path)


def problems(trace):
    return {problem.kind: problem.count for problem in trace.info.problems}


def column(trace, name):
    """A column of the events as a plain list, None for missing values."""
    series = trace.events[name]
    missing = series.isna().tolist()
    return [None if gone else value for value, gone in zip(series.tolist(), missing, strict=True)]
