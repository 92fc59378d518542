"""Healthy traces of made-up programs, and the ways to corrupt one."""

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from cudalens.frames import DeviceInfo, RunInfo, Trace, build_events, build_memory
from cudalens.frames.syncs import build_syncs

TEXTS = ("name", "cat")
INTS = ("device", "stream", "pid", "tid", "correlation_id", "external_id")
BASE = 1_700_000_000_000_000_000

times = st.integers(1, 5_000)
operators = st.lists(st.tuples(times, times, st.integers(0, 20_000), times, st.sampled_from([7, 20])), min_size=3)


def row(name, cat, ts, dur, **facts):
    return {"name": name, "cat": cat, "ts": ts, "dur": dur, **dict.fromkeys(INTS), **facts}


def host(name, cat, ts, dur, **facts):
    return row(name, cat, ts, dur, pid=1, tid=1, **facts)


def healthy_rows(ops, *, tight=False):
    """A row per operator, its launch and its kernel, then a wait for the device.

    Args:
        ops: Of each operator: time before it, around its launch, delay of the kernel, its length, its stream.
        tight: The first kernel starts with its launch, and the wait ends with the last kernel: an offset of the clocks
            is known to the nanosecond.
    """
    rows, at, free = [], BASE, {}
    for i, (before, around, delay, half, stream) in enumerate(ops):
        length = 2 * half + 1  # odd: the clock counts in nanoseconds, not in microseconds
        at += before
        launch = at + around
        rows.append(host(f"aten::op{i % 3}", "cpu_op", at, 2 * around + 10, external_id=i + 1))
        rows.append(host("cudaLaunchKernel", "cuda_runtime", launch, 10, correlation_id=100 + i, external_id=i + 1))
        start = launch if tight and i == 0 else max(launch + 1 + delay, free.get(stream, 0))
        free[stream] = start + length
        rows.append(row(f"gemm{i % 2}", "kernel", start, length, device=0, stream=stream, correlation_id=100 + i))
        at = launch + around + 10
    end = max(*free.values(), at + 2)
    if tight:  # the last kernel ends with the wait
        last = max((r for r in rows if r["cat"] == "kernel"), key=lambda r: r["ts"] + r["dur"])
        last["dur"] = end - last["ts"]
    begin = at + 1
    rows.append(host("cudaDeviceSynchronize", "cuda_runtime", begin, end - begin, correlation_id=99_999))
    return rows


def frame_columns(rows):
    columns = {name: np.array([r[name] for r in rows], np.int64) for name in ("ts", "dur")}
    columns |= {name: pd.Categorical([r[name] for r in rows]) for name in TEXTS}
    return columns | {
        name: pd.array(
            [pd.NA if r[name] is None else r[name] for r in rows], dtype="Int32" if name == "device" else "Int64"
        )
        for name in INTS
    }


def trace_of(rows, *, source="file:kineto", **facts):
    events = build_events(frame_columns(rows))
    memory = build_memory(
        {
            "ts": [r["ts"] + 1 for r in rows if r["cat"] == "cpu_op"],
            "action": ["alloc" for r in rows if r["cat"] == "cpu_op"],
            "num_bytes": [512 for r in rows if r["cat"] == "cpu_op"],
            "pid": [1 for r in rows if r["cat"] == "cpu_op"],
            "tid": [1 for r in rows if r["cat"] == "cpu_op"],
        },
        events,
    )
    frames = {"events": events, "memory": memory}
    info = RunInfo(name="made", source=source, devices=(DeviceInfo(0, "H100"),), **facts)
    return Trace(info, **(frames | build_syncs(frames)))


def moved(rows, by, chosen=lambda r: r["device"] is not None):
    """The rows, those `chosen` at another time."""
    return [r | {"ts": r["ts"] + by} if chosen(r) else r for r in rows]


def assert_same_trace(left, right):
    for name, frame in left.frames.items():
        pd.testing.assert_frame_equal(frame, right.frames[name], obj=name)


def found(report, rule):
    """All rows that a rule found, as a set."""
    hits = [rows for f, rows in zip(report.trust.findings, report.rows, strict=True) if f.rule == rule]
    return set(np.concatenate(hits).tolist()) if hits else set()
