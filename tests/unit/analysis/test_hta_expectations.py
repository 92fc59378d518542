"""What HolisticTraceAnalysis' own tests expect of the recorded traces that are here, in terms of cudalens.

HTA leaves out the last profiler step of a trace. The expectations that depend on it are checked in both ways: they hold
without that step, and differ with it.
"""

from functools import cache

import numpy as np
import pytest
from recorded_traces import needs_recorded, opened

from cudalens.analysis import critical_path
from cudalens.frames import GPU_ACTIVITIES

pytestmark = needs_recorded

MEASURED = "[param|pytorch.model.alex_net|0|0|0|measure|forward]"
US = 1_000


@cache
def ns_resolution():
    return opened("hta/ns_resolution_rank-0.json.gz").events


@cache
def simple_add():
    """The second measured call of the network, and its rows."""
    trace = opened("hta/critical_path__simple_add.json.gz")
    row = int(np.flatnonzero((trace.events["name"] == MEASURED) & trace.events["device"].isna())[1])
    return critical_path(trace, start=row), row


@cache
def two_streams():
    return critical_path(opened("hta/critical_path__cuda_event_sync_multi_stream.json.gz"))


def without_last_step(events):
    return events[events["step"].isna() | (events["step"] < events["step"].max())]


def ranges(events, category):
    return events[events["cat"] == category]["name"].astype(str).nunique()


def work(events):
    return events[events["cat"].isin(GPU_ACTIVITIES)]


def ranges_of_work(events):
    """The innermost range of the GPU around each piece of work; None for none."""
    spans = events[events["cat"] == "gpu_user_annotation"]
    found = {}
    for row in work(events).itertuples():
        around = spans[(spans["ts"] <= row.ts) & (spans["ts"] + spans["dur"] >= row.ts + row.dur)]
        around = around[around["stream"] == row.stream]
        found[row.Index] = None if not len(around) else str(around["name"].iloc[-1])
    return found


def named_by_correlation(correlation):
    events = ns_resolution()
    row = work(events[events["correlation_id"] == correlation])
    return str(row["name"].iloc[0]), ranges_of_work(row_and_ranges(events, row))[row.index[0]]


def row_and_ranges(events, row):
    return events[(events["cat"] == "gpu_user_annotation") | events.index.isin(row.index)]


def relu():
    """The first relu_ with the durations that HTA's test has, its clamp_min_, and the launch in it; with gaps, µs."""
    events = simple_add()[0].trace.events
    for row in np.flatnonzero((events["name"] == "aten::relu_") & (events["dur"] == 93 * US)):
        (clamp,) = np.flatnonzero(events["parent"].to_numpy(float) == row)
        (launch,) = np.flatnonzero(events["parent"].to_numpy(float) == clamp)
        starts, ends = (
            events["ts"].to_numpy()[[row, clamp, launch]],
            (events["ts"] + events["dur"]).to_numpy()[[row, clamp, launch]],
        )
        inwards, outwards = np.diff(starts) // US, -np.diff(ends)[::-1] // US
        return [str(events["name"].iloc[n]) for n in (row, clamp, launch)], [
            *inwards,
            (ends - starts)[-1] // US,
            *outwards,
        ]
    return [], []


def delay(kind):
    graph = simple_add()[0].graph
    ids = graph.works.row
    ids = simple_add()[0].trace.events["correlation_id"].array[ids].to_numpy(dtype=np.int64)
    fft, gemm = (int(np.flatnonzero(ids == number)[0]) for number in (5597, 5604))
    values = {
        "launch": graph.launch_lag[fft],
        "kernels": graph.works.start[gemm] - graph.works.end[fft],
        "name": simple_add()[0].trace.events["name"].iloc[graph.works.row[fft]],
    }
    return values[kind] if kind == "name" else int(values[kind]) // US


def waits_for_last_kernel():
    """Whether the device synchronisation of the measured part waits for a kernel, and ends with or after it."""
    events = simple_add()[0].trace.events
    calls = events[events["name"] == "cudaDeviceSynchronize"]
    last = calls.iloc[-1]
    before = work(events)[lambda rows: rows["ts"] < last["ts"] + last["dur"]]
    return bool((before["ts"] + before["dur"]).max() <= last["ts"] + last["dur"])


def stream_edge(part):
    path = two_streams()
    graph, names = path.graph, path.trace.events["name"]
    ((source, target),) = zip(graph.edges.source, graph.edges.target, strict=True)
    row = {"from": graph.works.row[source], "to": graph.works.row[target]}[part]
    return str(names[row]), int(path.trace.events["correlation_id"][row])


def records():
    events = two_streams().trace.events
    return events[events["name"] == "cudaEventRecord"]["correlation_id"].tolist()


FFT = (
    "void fft2d_r2c_32x32<float, false, 0u, false>(float2*, float const*, int, int, int, int, int, int, int, int, int,"
    " cudnn::reduced_divisor, bool, int2, int, int)"
)
SGD, DDP = "Optimizer.step#SGD.step", "DistributedDataParallel.forward"

EXPECTED = {
    "ranges on the GPU": (lambda: ranges(ns_resolution(), "gpu_user_annotation"), 3),
    "ranges of the host, without the last step": (
        lambda: ranges(without_last_step(ns_resolution()), "user_annotation"), 12),
    "GPU work, without the last step": (lambda: len(work(without_last_step(ns_resolution()))), 4876),
    "name of 135139": (lambda: named_by_correlation(135139)[0], "Memcpy DtoD (Device -> Device)"),
    "range of 135139": (lambda: named_by_correlation(135139)[1], DDP),
    "kernel of 164926": (lambda: "multi_tensor_apply_kernel" in named_by_correlation(164926)[0], True),
    "range of 164926": (lambda: named_by_correlation(164926)[1], SGD),
    "a step has a path": (
        lambda: len(critical_path(opened("hta/ns_resolution_rank-0.json.gz")).frame) > 0, True),
    "outer operator": (lambda: relu()[0][0], "aten::relu_"),
    "operator in it": (lambda: relu()[0][1], "aten::clamp_min_"),
    "call in that": (lambda: relu()[0][2], "cudaLaunchKernel"),
    "edge 1": (lambda: relu()[1][0], 15),
    "edge 2": (lambda: relu()[1][1], 14),
    "edge 3": (lambda: relu()[1][2], 17),
    "edge 4": (lambda: relu()[1][3], 15),
    "edge 5": (lambda: relu()[1][4], 32),
    "name of the FFT": (lambda: delay("name"), FFT),
    "launch delay of the FFT": (lambda: delay("launch"), 27),
    "delay from the FFT to the next kernel": (lambda: delay("kernels"), 7),
    "synchronisation after the last kernel": (waits_for_last_kernel, True),
    "what stream 24 waits for": (lambda: stream_edge("from"), ("ampere_sgemm_128x64_nn", 27)),
    "what waits on stream 24": (lambda: stream_edge("to"), ("Memset (Device)", 1411)),
    "the third record": (lambda: records()[2], 1385),
}  # fmt: skip

LAST_STEP = {
    "ranges of the host": (lambda: ranges(ns_resolution(), "user_annotation"), 12),
    "GPU work": (lambda: len(work(ns_resolution())), 4876),
}


@pytest.mark.parametrize("what", EXPECTED)
def test_expectations_that_hold(what):
    measure, expected = EXPECTED[what]
    assert measure() == expected


@pytest.mark.parametrize("what", LAST_STEP)
def test_the_last_step_is_part_of_a_trace_here(what):
    measure, expected = LAST_STEP[what]
    assert measure() > expected
