"""Faults of other tools, held against every analysis: rows that are no work, no work at all, lost steps, rounding."""

from functools import cache

import pandas as pd
import pytest
from made_traces import NCCL, host, launch, trace_of, work

from cudalens import analysis

OF_DEVICES = (
    "temporal_breakdown",
    "idle_time",
    "idle_causes",
    "launch_statistics",
    "launch_summary",
    "queue_lengths",
    "kernel_breakdown",
    "communication_overlap",
    "collectives",
    "memcpy_bandwidth",
    "copy_rates",
    "kernel_sequences",
)
OF_ALL = (*OF_DEVICES, "op_breakdown", "roofline", "key_averages", "call_tree", "flame_graph", "attribution")
BY_STEP = tuple(name for name in OF_DEVICES if name not in ("queue_lengths", "copy_rates"))


def run(name, trace, **options):
    return getattr(analysis, name)(trace, **options)


def steps():
    """Three steps of a launch, two kernels, a collective and a copy each, beneath operators; odd nanoseconds."""
    rows = []
    for step in range(3):
        at, call = 10_007 * step, 4 * step
        rows.append(host(at, 9_001, f"ProfilerStep#{step}", "user_annotation"))
        rows.append(host(at + 101, 3_003, "aten::mm", flops=1_001))
        rows += [launch(at + 203 + 307 * i, 101, call + i + 1) for i in range(4)]
        rows += [work(at + 1_009, 503, "gemm", call=call + 1), work(at + 1_601, 211, "relu", call=call + 2)]
        rows.append(work(at + 1_703, 997, NCCL, stream=20, call=call + 3))
        rows.append(work(at + 3_001, 1, "Memcpy HtoD (Pinned -> Device)", call=call + 4, num_bytes=13))
    return rows


@cache
def traced(kind="all", at=1_716_423_322_388_068_751):
    """The Trace of the steps: ``all``, ``none``, those of the ``host``, or ``disturbed`` by what is no work."""
    rows = [row for row in steps() if kind in ("all", "disturbed") or (kind == "host" and "tid" in row)]
    return trace_of([*rows, *(NO_WORK if kind == "disturbed" else ())], at=at)


NO_WORK = [
    host(1_553, 3, "aten::record_stream") | {"stream": 7},
    host(3_607, 90, "cudaStreamQuery", "cuda_runtime") | {"stream": 7},
    work(1_513, 700, "Stream Sync", cat="cuda_sync"),
    work(6_007, 0, "gemm", is_instant=True),
    work(2_801, 4_000, "step", cat="gpu_user_annotation"),
    host(2_903, 5_000, "Buffer Flush", "overhead") | {"device": 0, "stream": 7},
]


def without_rows(frame):
    """A frame without its columns of row numbers, which other rows move, and of the host around it."""
    rows = {
        "event",
        "first",
        "previous",
        "next",
        "launch",
        "sync",
        "host",
        "waited_for",
        "example",
        "longest",
        "slowest",
        "work",
    }
    names = {"host_op", "host_module", "host_line"}
    return frame.drop(columns=[name for name in frame if name in rows | names])


@pytest.mark.parametrize("name", OF_DEVICES)
def test_rows_on_a_stream_that_are_no_work_are_not_counted(name):
    plain, disturbed = run(name, traced()), run(name, traced("disturbed"))
    assert len(plain)
    pd.testing.assert_frame_equal(without_rows(plain), without_rows(disturbed), check_categorical=False)


def test_the_time_of_devices_does_not_count_them_either():
    assert analysis.device_time(traced("disturbed")).to_dict() == analysis.device_time(traced()).to_dict()
    instants = trace_of([work(5, 0, "gemm", is_instant=True), work(9, 0, "gemm", is_instant=True)])
    assert analysis.device_time(instants).isna().all()


def test_a_copy_is_no_communication_whatever_its_name():
    trace = trace_of([work(0, 5, NCCL, cat="gpu_memcpy"), work(10, 5, NCCL)])
    for found in (analysis.device_time(trace), analysis.temporal_breakdown(trace).iloc[0]):
        assert (found["mem_ns"], found["comm_ns"]) == (5, 5)


def test_what_starts_with_a_step_belongs_to_it():
    rows = [host(10 * i, 10, f"ProfilerStep#{i}", "user_annotation") for i in range(3)]
    trace = trace_of([*rows, launch(10, 2, 1), work(25, 3, call=1), launch(29, 5, 2), work(40, 3, call=2)])
    assert analysis.temporal_breakdown(trace, "step")[["step", "busy_ns"]].to_numpy().tolist() == [[1, 3], [2, 3]]


@pytest.mark.parametrize("name", OF_ALL)
@pytest.mark.parametrize("kept", ["none", "host"])
def test_traces_without_kernels_give_frames_of_the_same_columns(name, kept):
    found, full = run(name, traced(kept)), run(name, traced())
    assert found.dtypes.astype(str).to_dict() == full.dtypes.astype(str).to_dict()
    assert len(full)
    if name in OF_DEVICES or kept == "none":
        assert not len(found)


@pytest.mark.parametrize("name", BY_STEP)
def test_the_last_step_is_as_good_as_any(name):
    first, last = (run(name, traced(), step=step) for step in (1, 2))
    assert len(first) == len(last) > 0 or name == "kernel_sequences"
    for column in ("busy_ns", "gap_ns", "delay_ns", "total_ns", "comm_ns", "dur", "num_bytes", "count", "part_ns"):
        if column in first:
            assert last[column].tolist() == first[column].tolist()
    assert not len(run(name, traced(), step=3))


@pytest.mark.parametrize("name", [*OF_ALL, "device_time"])
@pytest.mark.parametrize("at", [0, 2**53 + 1, 4_102_444_800_123_456_789])
def test_no_nanosecond_is_rounded_whatever_the_epoch(name, at):
    usual, moved = (run(name, traced(at=zero)) for zero in (1_716_423_322_388_068_751, at))
    if name == "device_time":
        assert moved.to_dict() == usual.to_dict()
        return
    times = [column for column in usual if column in ("ts", "start", "start_ns", "end", "first_ns")]
    for column in times:
        shift = set((usual[column] - moved[column]).dropna().tolist())
        assert shift <= {0, 1_716_423_322_388_068_751 - at}
    pd.testing.assert_frame_equal(usual.drop(columns=times), moved.drop(columns=times))


def test_a_critical_path_is_the_same_whatever_the_epoch():
    paths = [analysis.critical_path(traced(at=at)) for at in (0, 2**53 + 1, 1_716_423_322_388_068_751)]
    assert len({path.length_ns for path in paths}) == 1
    assert paths[0].frame["dur_ns"].tolist() == paths[1].frame["dur_ns"].tolist() == paths[2].frame["dur_ns"].tolist()
    empty = analysis.critical_path(traced("host"))
    assert list(empty.frame) == list(paths[0].frame)
