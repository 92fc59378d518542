"""Small Traces of made-up launches and device work, for the analyses' oracles."""

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from cudalens.frames import RunInfo, Trace, build_events

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
KINDS = {
    "gemm": ("kernel", "compute"),
    "relu": ("kernel", "compute"),
    NCCL: ("kernel", "communication"),
    "Memcpy HtoD (Pinned -> Device)": ("gpu_memcpy", "memory"),
    "Memset (Device)": ("gpu_memset", "memory"),
}
NUMBERS = ("stream", "pid", "tid", "correlation_id", "external_id", "num_bytes", "flops", "group_size")
DTYPES = {"device": "Int32"} | dict.fromkeys((*NUMBERS, "in_elements", "out_elements"), "Int64")
TEXTS = {"name", "cat", "shapes", "dtypes", "concrete_inputs", "collective", "message_dtype", "module"}


def trace_of(rows, at=1_716_423_322_388_068_751, **info):
    """A Trace of rows as mappings of columns; times are after `at`, absent columns missing."""
    columns = {}
    for name in {key for row in rows for key in row} | {"ts", "dur", "name", "cat"}:
        values = [row.get(name) for row in rows]
        if name in ("ts", "dur"):
            columns[name] = np.array(values, np.int64) + (at if name == "ts" else 0)
        elif name == "is_instant":
            columns[name] = np.array([bool(value) for value in values])
        elif name in TEXTS:
            columns[name] = pd.Categorical(values)
        else:
            columns[name] = pd.array(values, dtype=DTYPES[name])
    return Trace(RunInfo(name="t", source="cuda", **info), events=build_events(columns))


def work(ts, dur, name="gemm", *, stream=7, device=0, call=None, **more):
    cat = KINDS.get(name, ("kernel", ""))[0]
    return {
        "ts": ts, "dur": dur, "name": name, "cat": cat, "device": device, "stream": stream, "correlation_id": call
    } | more  # fmt: skip


def host(ts, dur, name, cat="cpu_op", *, tid=1, **more):
    return {"ts": ts, "dur": dur, "name": name, "cat": cat, "pid": 1, "tid": tid} | more


def launch(ts, dur, call, name="cudaLaunchKernel", *, tid=1):
    return host(ts, dur, name, "cuda_runtime", tid=tid, correlation_id=call)


NAMES = st.sampled_from(list(KINDS))
ALONE = st.builds(
    work, st.integers(0, 60), st.integers(0, 15), NAMES, stream=st.sampled_from([7, 20]), device=st.sampled_from([0, 1])
)


@st.composite
def launched(draw):
    """Rows of launches with their work, some of it without a launch, and waits and other calls of the host."""
    rows = []
    for call in range(draw(st.integers(0, 8))):
        begin = draw(st.integers(0, 80))
        length = draw(st.integers(0, 8))
        has_launch = draw(st.integers(0, 5)) > 0
        if has_launch:
            rows.append(launch(begin, length, call + 1, tid=draw(st.sampled_from([1, 2]))))
        for _ in range(draw(st.integers(1, 2))):
            start = begin + draw(st.integers(-1, 40))
            stream = draw(st.sampled_from([7, 20]))
            rows.append(work(start, draw(st.integers(0, 12)), draw(NAMES), stream=stream, call=call + 1))
    for _ in range(draw(st.integers(0, 3))):
        name = draw(st.sampled_from(["cudaDeviceSynchronize", "cudaStreamWaitEvent", "cudaEventRecord"]))
        rows.append(host(draw(st.integers(0, 80)), draw(st.integers(0, 20)), name, "cuda_runtime", tid=1))
    return rows
