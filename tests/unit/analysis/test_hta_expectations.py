"""What HolisticTraceAnalysis' own tests expect of the recorded traces that are here, in terms of cudalens.

HTA leaves out the last profiler step of a trace. The expectations that depend on it are checked in both ways: they hold
without that step, and differ with it.
"""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from made_traces import host, launch, trace_of
from made_traces import work as made_work
from recorded_traces import needs_recorded, opened

from cudalens.analysis import critical_path, launch_statistics, memcpy_bandwidth, queue_lengths
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
    begin, end, stream = (spans[name].to_numpy() for name in ("ts", "dur", "stream"))
    end = begin + end
    found = {}
    for row in work(events).itertuples():
        around = (begin <= row.ts) & (end >= row.ts + row.dur) & (stream == row.stream)
        found[row.Index] = str(spans["name"].array[np.flatnonzero(around)[-1]]) if around.any() else None
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


@cache
def annotations_of_work():
    """The ranges around the GPU's work of all steps but the last, a text each; "" outside of ranges."""
    return [name or "" for name in ranges_of_work(without_last_step(ns_resolution())).values()]


def optimizer_ranges():
    names = without_last_step(ns_resolution())[lambda rows: rows["cat"] == "user_annotation"]["name"].astype(str)
    return sum("Optimizer" in name for name in names.unique())


def backward_calls():
    """Names from the kernel of the backward thread outwards, on its own thread."""
    events = opened("hta/call_stack__backward_thread.json").events
    (kernel,) = np.flatnonzero(events["cat"] == "kernel")
    row, names = int(events["launch"][kernel]), []
    while row >= 0:
        names.append(str(events["name"][row]))
        row = -1 if events["parent"].isna()[row] else int(events["parent"][row])
    return names


def sampled_forward(with_kernels):
    """Events below the first range called "forward" of the first step, itself included, and what they launched."""
    events = opened("hta/timeline_analysis__sampled_rank-0.json.gz").events
    first = int(np.flatnonzero((events["step"] == events["step"].min()) & (events["name"] == "forward"))[0])
    parent, below = events["parent"].to_numpy(np.float64, na_value=-1), {first}
    for row in range(first + 1, len(events)):
        if parent[row] in below:
            below.add(row)
    launched = events["launch"].isin(below) & events["cat"].isin(GPU_ACTIVITIES)
    return len(below) + int(launched.sum()) * with_kernels


# HTA's own made call stack: starts and lengths of nested events of one thread. (Its last event is a kernel.)
NESTED = tuple(zip((0, 1, 3, 3, 7, 8, 10, 12), (10, 5, 2, 1, 3, 1, 11, 6), strict=True))
#: The same with events of no length.
INSTANT = ((55, 0), (61, 15), (62, 0), (85, 1), (86, 0), (86, 0), (90, 225181), (91, 0))


def tree(spans):
    events = trace_of([host(ts, dur, f"op {k}") for k, (ts, dur) in enumerate(spans)], at=0).events
    return events["depth"].tolist(), [None if value is pd.NA else int(value) for value in events["parent"]]


def path_to_root(row):
    parents = tree(NESTED)[1]
    path = [row]
    while parents[path[-1]] is not None:
        path.append(parents[path[-1]])
    return path


def leaves_of(row):
    parents = tree(NESTED)[1]
    return [k for k in range(len(parents)) if k not in parents and row in path_to_root(k)]


def hip_launch(call_ts, call_dur, ts, dur, name="hipLaunchKernel"):
    """Length of the call, of the work, and the launch delay with negative values as 0."""
    trace = trace_of([launch(call_ts, call_dur, 1, name), made_work(ts, dur, call=1)], at=0)
    (row,) = launch_statistics(trace).to_dict("records")
    return row["call_ns"], row["work_ns"], max(row["delay_ns"], 0)


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
    "kernels of the optimizer": (lambda: annotations_of_work().count(SGD), 27),
    "kinds of ranges around work, with none": (lambda: len(set(annotations_of_work())), 4),
    "ranges of the optimizer": (optimizer_ranges, 2),
    "rows of the backward thread's file": (lambda: len(opened("hta/call_stack__backward_thread.json")), 7),
    "calls around a backward kernel": (
        backward_calls,
        ["cudaLaunchKernel", "aten::mm", "AddmmBackward0", "autograd::engine::evaluate_function: AddmmBackward0"]),
    "events in forward, with kernels": (lambda: sampled_forward(with_kernels=True), 146),
    "no queue without a GPU": (lambda: len(queue_lengths(opened("hta/cpu_only_rank-34.json.gz"))), 0),
    "no rate of copies without a GPU": (lambda: len(memcpy_bandwidth(opened("hta/cpu_only_rank-34.json.gz"))), 0),
    "depths of nested calls": (lambda: tree(NESTED)[0], [0, 1, 2, 3, 1, 2, 0, 1]),
    "parents of nested calls": (lambda: tree(NESTED)[1], [None, 0, 1, 2, 0, 4, None, 6]),
    "from call 3 to the root": (lambda: path_to_root(3), [3, 2, 1, 0]),
    "innermost calls of call 0": (lambda: leaves_of(0), [3, 5]),
    "launch by HIP": (lambda: hip_launch(100, 10, 120, 50), (10, 50, 10)),
    "launch by HIP's extended call": (lambda: hip_launch(200, 15, 230, 80, "hipLaunchKernelExC"), (15, 80, 15)),
    "copy by HIP": (lambda: hip_launch(300, 5, 310, 20, "hipMemcpyAsync"), (5, 20, 5)),
    "set by HIP": (lambda: hip_launch(400, 8, 415, 30, "hipMemsetAsync"), (8, 30, 7)),
    "work that starts during the call": (lambda: hip_launch(100, 20, 105, 50)[2], 0),
}  # fmt: skip

LAST_STEP = {
    "ranges of the host": (lambda: ranges(ns_resolution(), "user_annotation"), 12),
    "GPU work": (lambda: len(work(ns_resolution())), 4876),
}


@pytest.mark.parametrize("what", EXPECTED)
def test_expectations_that_hold(what):
    measure, expected = EXPECTED[what]
    assert measure() == expected


def test_instants_at_the_end_of_a_call_are_beside_it_here():
    """HTA nests those at 86 in the call that ends at 86, and in each other."""
    assert tree(INSTANT)[1] == [None, None, 1, None, None, None, None, 6]


@pytest.mark.parametrize("what", LAST_STEP)
def test_the_last_step_is_part_of_a_trace_here(what):
    measure, expected = LAST_STEP[what]
    assert measure() > expected
