"""device_time against a sweep over single nanoseconds. (Recorded traces: tests/unit/traces/test_recorded.py.)"""

import numpy as np
import pandas as pd
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from cudalens.analysis import device_time
from cudalens.frames import RunInfo, Trace, build_events

KINDS = (
    ("kernel", "gemm"),
    ("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
    ("gpu_memcpy", "Memcpy HtoD"),
    ("gpu_memset", "Memset"),
    ("gpu_user_annotation", "step"),
    ("cuda_sync", "Stream Sync"),
    ("overhead", "Buffer"),
    ("cpu_op", "nccl:Kernel"),
)
WORK = {"gemm": "comp", KINDS[1][1]: "comm", "Memcpy HtoD": "mem", "Memset": "mem"}
ROWS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 15), st.sampled_from(KINDS)), max_size=15)


def trace_of(rows, at=1_716_423_322_388_068_751):
    columns = {
        "ts": np.array([at + ts for ts, _, _ in rows], np.int64),
        "dur": np.array([dur for _, dur, _ in rows], np.int64),
        "name": pd.Categorical([name for _, _, (_, name) in rows]),
        "cat": pd.Categorical([cat for _, _, (cat, _) in rows]),
        "device": pd.array([None if cat in ("cpu_op", "overhead") else 0 for _, _, (cat, _) in rows], dtype="Int32"),
    }
    return Trace(RunInfo(name="t", source="cuda"), events=build_events(columns))


@settings(max_examples=examples(60), deadline=None)
@given(ROWS)
def test_against_single_nanoseconds(rows):
    work = [(ts, dur, WORK[name]) for ts, dur, (cat, name) in rows if name in WORK and cat != "cpu_op"]
    result = device_time(trace_of(rows))
    if not work:
        assert result.isna().all()
        return
    comp, comm, mem = (
        {p for ts, dur, k in work if k == kind for p in range(ts, ts + dur)} for kind in ("comp", "comm", "mem")
    )
    busy, span = comp | comm | mem, max(t + d for t, d, _ in work) - min(t for t, _, _ in work)
    assert result.to_dict() == {
        "span_ns": span,
        "busy_ns": len(busy),
        "idle_ns": span - len(busy),
        "comp_ns": len(comp),
        "comm_ns": len(comm),
        "mem_ns": len(mem),
        "exposed_comm_ns": len(comm - comp),
        "exposed_mem_ns": len(mem - comp - comm),
        "overlap_ns": len(comm & comp),
        "sum_ns": sum(dur for _, dur, _ in work),
    }


@pytest.mark.parametrize(
    ("name", "is_comm"),
    [
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)", True),
        ("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", True),
        ("void ncclKernel", False),
        ("nccl_wait", False),
        ("my_ncclKernel", False),
    ],
)
def test_what_counts_as_communication(name, is_comm):
    result = device_time(trace_of([(0, 5, ("kernel", name))]))
    assert (result["comm_ns"], result["comp_ns"]) == ((5, 0) if is_comm else (0, 5))


def test_without_device_work_nothing_is_measured():
    result = device_time(trace_of([]))
    assert result.index[0] == "span_ns"
    assert result.dtype == "Int64"
    assert result.isna().all()
