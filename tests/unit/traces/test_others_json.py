"""Chrome JSON in the layouts of tools other than torch."""

import json

from chrome import column, problems

from cudalens.traces import load


def label(pid, name, *, tid=None):
    kind = "process_name" if tid is None else "thread_name"
    return {"ph": "M", "pid": pid, "name": kind, "args": {"name": name}} | ({} if tid is None else {"tid": tid})


def row(pid, tid, ts, dur, name, **more):
    return {"ph": "X", "pid": pid, "tid": tid, "ts": ts, "dur": dur, "name": name, **more}


def read(tmp_path, events):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(events))
    return load(path)


def test_streams_of_xla_are_device_work_and_its_other_lanes_are_not(tmp_path):
    events = [
        label(1, "/device:GPU:3"),
        label(1, "Stream #13(Compute)", tid=13),
        label(1, "XLA Ops", tid=14),
        label(701, "/host:CPU"),
        row(701, 5, 1, 3, "PjitFunction(f)"),
        row(1, 13, 20, 5, "fusion_1"),
        row(1, 14, 20, 5, "fusion.1"),
        row(1, 13, 26, 1, "MemcpyD2H"),
        {},
    ]
    trace = read(tmp_path, {"displayTimeUnit": "ns", "traceEvents": events})
    assert column(trace, "cat") == ["unknown", "kernel", "unknown", "gpu_memcpy"]
    assert column(trace, "device") == [None, 3, None, 3]
    assert column(trace, "stream") == [None, 13, None, 13]
    assert trace.info.source == "file:chrome"
    assert problems(trace) == {}


def test_queues_of_rocprof_are_device_work(tmp_path):
    events = [
        label(2, "CPU HIP API"),
        label(6, "GPU0"),
        row(2, 11, 100, 10, "hipLaunchKernel", args={"DurationNs": "10000"}),
        row("6", "1", "120", "30", "Cijk_gemm", args={"queue-id": "0"}),
    ]
    trace = read(tmp_path, {"traceEvents": events})
    assert column(trace, "cat") == ["unknown", "kernel"]
    assert column(trace, "device") == [None, 0]
    assert column(trace, "stream") == [None, 1]
    assert column(trace, "dur") == [10_000, 30_000]


def test_text_labels_in_place_of_numbers(tmp_path):
    events = [
        row("Host", "NVTX Thread 12", 0, 3, "step", cat="nvtx"),
        row("Device 1", "Stream 7", 1, 2, "k", cat="cuda"),
    ]
    trace = read(tmp_path, events)
    assert column(trace, "cat") == ["nvtx", "kernel"]
    assert column(trace, "device") == [None, 1]
    assert column(trace, "stream") == [None, 7]


def test_a_category_that_the_file_names_is_kept(tmp_path):
    trace = read(tmp_path, [label(1, "GPU 0"), row(1, 7, 0, 3, "counter", cat="metrics")])
    assert column(trace, "cat") == ["metrics"]
    assert column(trace, "device") == [None]
