"""Chrome traces of XPU, HPU, MTIA and PrivateUse1 devices, in the form that torch writes, and counters of CUPTI."""

import pytest
from chrome import column, load_events, op

from cudalens.analysis import device_time, findings, idle_causes, key_averages
from cudalens.analysis.time.roofline import roofline
from cudalens.traces.chrome.scanned import SWITCH

STEPS, US = 40, 1_000
FACTS = {"Input Dims": [[512, 512], [512, 512]], "Input type": ["float", "float"]}


def row(cat, name, ts, dur, pid, tid, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def xpu(at, k):
    queue = {"External id": k, "l0 queue": "0x55", "sycl queue": 64, "context": "0x55", "device": 0}
    return [
        row("xpu_runtime", "urEnqueueKernelLaunch", at + 10, 20, 10, 11, **{"External id": k, "correlation": 4000 + k}),
        row("kernel", "gemm_kernel", at + 100, 200, 0, 3, **queue, kernel_id=k, correlation=4000 + k),
    ]


def mtia(at, k):
    ids = {"External id": k, "correlation": 4000 + k}
    return [
        row("mtia_runtime", "runFunction", at + 10, 20, 10, 11, **ids),
        row("mtia_ccp_events", "fc_kernel", at + 100, 200, 0, 3, **ids),
        row("mtia_insight", "insight", at + 100, 200, 0, 9),
        {"ph": "C", "cat": "mtia_counters", "name": "HBM", "pid": 0, "tid": 3, "ts": at, "args": {"read": 1.5}},
    ]


def privateuse1(at, k):
    return [
        row("privateuse1_runtime", "aclnnMatmul", at + 10, 20, 10, 11, correlation=4000 + k),
        row("kernel", "MatMul", at + 100, 200, 0, 2, device=0, stream=2, correlation=4000 + k),
    ]


def hpu(at, k):
    """HPU's kernels have no correlation with their launches."""
    return [
        row("hpu_op", "launch", at + 10, 20, 10, 11),
        row("kernel", "gemm", at + 100, 200, 0, 3, device=0),
        row("hpu_op", "dma", at + 100, 50, 0, 4),
    ]


def run_of(tmp_path, device):
    """Forty times in 1,000 µs: an operator of 300 µs that launches 200 µs of work."""
    made = ([op(1000 * k, 300, "aten::mm", **FACTS), *device(1000 * k, k)] for k in range(1, STEPS + 1))
    return load_events(tmp_path, [entry for entries in made for entry in entries])


@pytest.mark.parametrize("device", [xpu, mtia, privateuse1, hpu])
def test_its_work_counts_as_busy_time(tmp_path, device):
    trace = run_of(tmp_path, device)
    assert trace.info.problems == ()
    times = device_time(trace)
    assert times["busy_ns"] == times["comp_ns"] == STEPS * 200 * US
    assert times["idle_ns"] == (STEPS - 1) * 800 * US
    assert "GPU busy 20 %" in trace.summary().verdict


@pytest.mark.parametrize("device", [xpu, mtia, privateuse1])
def test_its_work_belongs_to_the_operator_that_launched_it(tmp_path, device):
    trace = run_of(tmp_path, device)
    averages = key_averages(trace).set_index("name")
    assert averages.loc["aten::mm", "device_total_ns"] == STEPS * 200 * US
    assert roofline(trace)["name"].tolist() == ["aten::mm"]
    assert roofline(trace)["flops"].tolist() == [STEPS * 2 * 512**3]


@pytest.mark.parametrize("device", [xpu, mtia, privateuse1])
def test_its_idle_time_has_causes_and_findings(tmp_path, device):
    trace = run_of(tmp_path, device)
    causes = idle_causes(trace).set_index("cause")["part_ns"]
    # From the end of the work to the next launch is the host's, then 90 µs pass from the launch to the work.
    assert causes["host"] == (STEPS - 1) * 710 * US
    assert causes["launch"] == (STEPS - 1) * 90 * US
    found = {one.rule: one for one in findings(trace, most=None)}
    assert found["host_work"].gain_ns == pytest.approx((STEPS - 1) * 710 * US, rel=0.02)


@pytest.mark.parametrize("device", [xpu, mtia, privateuse1])
def test_advice_for_it_has_no_cuda_graphs(tmp_path, device):
    found = [one for one in findings(run_of(tmp_path, device), most=None) if one.rule in ("graphable", "launch_bound")]
    assert found
    assert not any("cudagraph" in one.advice for one in found)


def test_idle_time_without_launches_has_no_known_cause(tmp_path):
    causes = idle_causes(run_of(tmp_path, hpu)).set_index("cause")["part_ns"]
    assert causes.to_dict() == {"unknown": (STEPS - 1) * 800 * US}


def test_counters_of_mtia_are_read(tmp_path):
    assert run_of(tmp_path, mtia).counters["value"].tolist() == [1.5] * STEPS


@pytest.mark.parametrize("scanner", ["0", "1"])
def test_counters_of_cupti_are_read(tmp_path, monkeypatch, scanner):
    monkeypatch.setenv(SWITCH, scanner)
    counted = {"smsp__inst_executed.sum": 19.0, "dram__bytes_read.sum": 4096, "External id": 7}
    events = [op(1, 5), row("cuda_profiler_range", "void gemm<float>(int)", 2, 4, 0, 0, **counted)]
    trace = load_events(tmp_path, events)
    assert trace.counters[["ts", "name", "series", "process", "value"]].astype(object).to_numpy().tolist() == [
        [2 * US, "smsp__inst_executed.sum", "void gemm<float>(int)", "0", 19.0],
        [2 * US, "dram__bytes_read.sum", "void gemm<float>(int)", "0", 4096.0],
    ]
    # Kineto spreads the ranges over the recording: they are no work, and not the host's.
    assert column(trace, "device") == [None, 0]
    assert device_time(trace).isna().all()


def test_streams_of_an_ascend_npu_are_a_device(tmp_path):
    """As torch_npu writes trace_view.json: entries without a category, in lanes named after streams."""
    labels = [
        {"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "Ascend Hardware"}},
        {"ph": "M", "name": "thread_name", "pid": 7, "tid": 2, "args": {"name": "Stream 2"}},
        {"ph": "M", "name": "process_name", "pid": 8, "args": {"name": "Overlap Analysis"}},
        {"ph": "M", "name": "thread_name", "pid": 8, "tid": 0, "args": {"name": "Computing"}},
    ]
    entry = {"ph": "X", "pid": 7, "tid": 2, "args": {"Task Type": "AI_CORE", "Stream Id": 2}}
    rows = []
    for k in range(STEPS):
        rows.append(entry | {"name": "MatMulV2", "ts": 1000 * k, "dur": 200})
        rows.append(entry | {"name": "EVENT_WAIT", "ts": 1000 * k + 200, "dur": 700})
        rows.append(entry | {"name": "Computing", "pid": 8, "tid": 0, "ts": 1000 * k, "dur": 200})
    trace = load_events(tmp_path, [*labels, *rows])
    assert device_time(trace)["busy_ns"] == STEPS * 200 * US
    assert set(trace.events.loc[trace.events["cat"] == "kernel", "stream"]) == {2}


def test_waits_of_a_stream_for_an_event_are_no_work(tmp_path):
    """MTIA lists them among its kernels."""
    waits = [
        row("mtia_ccp_events", name, 1000 * k + 300, 600, 0, 3, correlation=4000 + k)
        for k in range(1, STEPS + 1)
        for name in ("event_wait", "event_record")
    ]
    trace = load_events(tmp_path, [*(entry for k in range(1, STEPS + 1) for entry in mtia(1000 * k, k)), *waits])
    assert device_time(trace)["busy_ns"] == STEPS * 200 * US
    assert int((trace.events["cat"] == "kernel").sum()) == STEPS
