"""Traces in the words of the domain: what a run on one GPU leaves behind."""

import numpy as np
import pandas as pd
import pytest

from cudalens.frames import DeviceInfo, Judged, Problem, RunInfo, StackTable, Trace, build_events, build_memory


def ints(*values):
    return pd.array([pd.NA if v is None else v for v in values], dtype="Int64")


@pytest.fixture
def gpu_columns():
    """A step on thread 1 that launches a kernel on stream 7 and waits for a copy; rows out of order."""
    return {
        "ts": np.array([300, 100, 120, 400, 130, 900], np.int64),
        "dur": np.array([50, 1000, 20, 30, 5, 10], np.int64),
        "name": pd.Categorical(["gemm", "ProfilerStep#3", "aten::mm", "Memcpy DtoH", "cudaLaunchKernel", "cudaMemcpy"]),
        "cat": pd.Categorical(["kernel", "user_annotation", "cpu_op", "gpu_memcpy", "cuda_runtime", "cuda_runtime"]),
        "device": pd.array([0, None, None, 0, None, None], dtype="Int32"),
        "stream": ints(7, None, None, 7, None, None),
        "pid": ints(None, 1, 1, None, 1, 1),
        "tid": ints(None, 1, 1, None, 1, 1),
        "correlation_id": ints(41, None, None, 99, 41, 42),
        "external_id": ints(2, None, 2, None, 2, None),
    }


@pytest.fixture
def gpu_trace(gpu_columns):
    events = build_events(gpu_columns)
    memory = build_memory(
        {
            "ts": [125, 500],
            "action": ["alloc", "free_completed"],
            "num_bytes": [512, 512],
            "pid": [1, 1],
            "tid": [1, 1],
        },
        events,
    )
    stacks = StackTable()
    stacks.add(["model.py(12): forward", "train.py(3): <module>"])
    info = RunInfo(
        name="cell-3",
        source="cuda",
        versions={"torch": "2.13.0"},
        options={"memory": True, "warmup": 2},
        devices=(DeviceInfo(0, "H100", "9.0", 80 << 30, 132),),
        problems=(Problem("event without ts", 2, "event 17"),),
        judged=Judged(1204, 3, 1, "ValueError: no"),
    )
    return Trace(info, events=events, memory=memory, stacks=stacks.to_frame())
