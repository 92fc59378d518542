"""The rows of an nsys export of any version become events."""

import pytest
from chrome import column, problems
from sqlite_files import (
    EPOCH,
    GLOBAL_PID,
    GLOBAL_TID,
    PID,
    TID,
    nsys_call,
    nsys_file,
    nsys_kernel,
    nsys_range,
    strings,
)

import cudalens
from cudalens.analysis import findings
from cudalens.errors import TraceFormatError
from cudalens.traces import load
from cudalens.views.sections import verdict


def rows(trace, cat):
    return trace.events[trace.events["cat"] == cat]


def test_an_operator_its_launch_and_its_kernel(tmp_path):
    trace = load(nsys_file(tmp_path))
    assert trace.info.problems == ()
    assert column(trace, "cat") == ["cpu_op", "cuda_runtime", "kernel"]
    assert column(trace, "name") == ["aten::add", "cudaLaunchKernel", "void add<float>(float*)"]
    assert column(trace, "ts") == [EPOCH + 90, EPOCH + 100, EPOCH + 200]
    assert column(trace, "dur") == [70, 50, 100]
    assert column(trace, "parent") == [None, 0, None]
    assert column(trace, "launch") == [None, None, 1]
    op, _, kernel = trace.events.to_dict("records")
    assert (op["sequence_nr"], op["external_id"], op["shapes"]) == (3, 9, "[[2,3],[]]")
    assert (op["pid"], op["tid"]) == (PID, TID)
    assert (kernel["device"], kernel["stream"], kernel["registers"]) == (0, 7, 32)
    assert (kernel["grid"], kernel["block_dim"], kernel["shared_memory_bytes"]) == ("[4,2,1]", "[128,1,1]", 1040)


def test_the_oldest_columns_are_enough(tmp_path):
    kernel = {"start": 200, "end": 300, "deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": 5, "name": 1}
    call = {"start": 100, "end": 150, "globalTid": GLOBAL_TID, "correlationId": 5, "nameId": 0}
    ranges = [{"start": 90, "end": 160, "eventType": 59, "text": "outer", "globalTid": GLOBAL_TID}]
    path = nsys_file(
        tmp_path,
        TARGET_INFO_SESSION_START_TIME=None,
        CUPTI_ACTIVITY_KIND_KERNEL=[kernel],
        CUPTI_ACTIVITY_KIND_RUNTIME=[call],
        NVTX_EVENTS=ranges,
    )
    trace = load(path)
    assert trace.info.problems == ()
    assert column(trace, "ts") == [90, 100, 200]
    assert column(trace, "name") == ["outer", "cudaLaunchKernel", "void add<float>(float*)"]
    assert column(trace, "grid") == [None, None, None]
    assert column(trace, "launch") == [None, None, 1]


def test_driver_calls_in_either_table(tmp_path):
    names = strings("cuLaunchKernel", "k", "cudaMemcpyAsync_ptsz_v7000")
    driver = [nsys_call(100, 150, 5, 0, event_class=1)]
    path = nsys_file(
        tmp_path,
        StringIds=names,
        CUPTI_ACTIVITY_KIND_RUNTIME=[nsys_call(10, 20, 4, 2)],
        CUPTI_ACTIVITY_KIND_DRIVER=driver,
        NVTX_EVENTS=None,
    )
    trace = load(path)
    assert column(trace, "name") == ["cudaMemcpyAsync_ptsz", "cuLaunchKernel", "k"]
    assert column(trace, "cat") == ["cuda_runtime", "cuda_driver", "kernel"]


@pytest.mark.parametrize(("cause", "name"), [(1, ", prefetched"), (2, ""), (3, ""), (None, "")])
def test_pages_that_a_program_prefetches_are_named(tmp_path, cause, name):
    copy = {"start": 1, "end": 2, "deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": 0, "bytes": 64}
    copy |= {"globalPid": GLOBAL_PID, "copyKind": 11, "srcKind": 7, "dstKind": 7, "migrationCause": cause}
    trace = load(nsys_file(tmp_path, CUPTI_ACTIVITY_KIND_MEMCPY=[copy]))
    copies = trace.events["name"][trace.events["cat"] == "gpu_memcpy"]
    (found,) = copies.tolist()
    assert found.startswith("Memcpy HtoD (Unified) (")
    assert found.endswith(f"){name}")


def test_copies_sets_waits_graphs_and_overhead(tmp_path):
    place = {"deviceId": 1, "contextId": 1, "streamId": 9, "correlationId": 5, "globalPid": GLOBAL_PID}
    path = nsys_file(
        tmp_path,
        CUPTI_ACTIVITY_KIND_KERNEL=None,
        NVTX_EVENTS=None,
        CUPTI_ACTIVITY_KIND_MEMCPY=[
            {"start": 1, "end": 2, **place, "bytes": 64, "copyKind": 1, "srcKind": 0, "dstKind": 2, "graphNodeId": None}
        ],
        CUPTI_ACTIVITY_KIND_MEMSET=[{"start": 3, "end": 4, **place, "bytes": 8, "memKind": 2, "graphNodeId": 7 << 32}],
        CUPTI_ACTIVITY_KIND_GRAPH_TRACE=[{"start": 5, "end": 9, **place, "graphId": 3, "graphExecId": 4}],
        CUPTI_ACTIVITY_KIND_SYNCHRONIZATION=[
            {"start": 10, "end": 11, **place, "syncType": 4, "eventId": 0xFFFFFFFF} | {"streamId": 0xFFFFFFFF},
            {"start": 12, "end": 13, **place, "syncType": 2, "eventId": 0xFFFFFFFF},
            {"start": 14, "end": 15, **place, "syncType": 2, "eventId": 12},
        ],
        CUPTI_ACTIVITY_KIND_OVERHEAD=[{"start": 20, "end": 30, "globalTid": GLOBAL_TID, "nameId": 2}],
        PROFILER_OVERHEAD=[{"start": 40, "end": 41, "globalTid": GLOBAL_TID, "nameId": None}],
        CUBLAS_EVENTS=[{"start": 50, "end": 60, "eventClass": 29, "globalTid": GLOBAL_TID, "nameId": 2}],
    )
    trace = load(path)
    found = list(zip(column(trace, "cat"), column(trace, "name"), column(trace, "stream"), strict=True))
    assert found == [
        ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 9),
        ("gpu_memset", "Memset (Device)", 9),
        ("kernel", "CUDA graph 3", 9),
        ("cuda_sync", "Context Sync", None),
        ("cuda_sync", "Stream Sync", 9),
        ("cuda_sync", "Stream Wait Event", 9),
        ("overhead", "main", None),
        ("overhead", "overhead", None),
        ("cublas", "main", None),
        ("cuda_runtime", "cudaLaunchKernel", None),
    ]
    assert column(trace, "num_bytes")[:3] == [64, 8, None]
    assert column(trace, "graph_id")[:3] == [None, 7, 3]


def test_nvtx_of_every_form(tmp_path):
    ranges = [
        nsys_range(0, None, None, kind=75, textId=3, domainId=2),
        nsys_range(10, 90, None, textId=4),
        nsys_range(20, 30, "ncclAllReduce", domainId=2),
        nsys_range(40, None, "here", kind=34),
        nsys_range(50, 70, "crossing", kind=60, endGlobalTid=GLOBAL_TID + 1),
        nsys_range(60, None, "never ended"),
        nsys_range(5, None, "a thread's name", kind=39),
    ]
    path = nsys_file(tmp_path, NVTX_EVENTS=ranges, CUPTI_ACTIVITY_KIND_RUNTIME=None, CUPTI_ACTIVITY_KIND_KERNEL=None)
    trace = load(path)
    assert column(trace, "name") == ["registered", "NCCL:ncclAllReduce", "here", "crossing", "never ended"]
    assert set(column(trace, "cat")) == {"user_annotation"}
    assert column(trace, "dur") == [80, 10, 0, 20, 30]
    assert column(trace, "is_instant") == [False, False, True, False, False]
    assert column(trace, "parent")[1] == 0
    assert column(trace, "parent")[3] is None  # it may end on another thread: no place in the tree
    assert problems(trace) == {"range without an end, ended with the trace": 1}


def test_processes_keep_their_launches_devices_and_streams_apart(tmp_path):
    other_pid, other_tid = GLOBAL_PID + (1 << 24), GLOBAL_TID + (1 << 24)
    path = nsys_file(
        tmp_path,
        NVTX_EVENTS=None,
        CUPTI_ACTIVITY_KIND_RUNTIME=[nsys_call(100, 150, 5, 0), nsys_call(101, 151, 5, 0, tid=other_tid)],
        CUPTI_ACTIVITY_KIND_KERNEL=[nsys_kernel(200, 300, 5, 1), nsys_kernel(201, 301, 5, 1, pid=other_pid)],
        TARGET_INFO_CUDA_DEVICE=[
            {"gpuId": 2, "cudaId": 0, "pid": PID},
            {"gpuId": 3, "cudaId": 0, "pid": PID + 1},
        ],
        TARGET_INFO_GPU=[{"id": i, "name": f"GPU {i}", "smCount": 100} for i in range(4)],
    )
    trace = load(path)
    kernels = rows(trace, "kernel")
    assert list(kernels["device"]) == [2, 3]
    assert list(kernels["stream"]) == [7, 7]
    assert list(trace.events.loc[kernels["launch"], "pid"]) == [PID, PID + 1]
    assert [device.name for device in trace.info.devices] == ["GPU 0", "GPU 1", "GPU 2", "GPU 3"]


def test_work_is_not_linked_to_another_processs_call_of_its_id(tmp_path):
    other_pid, other_tid = GLOBAL_PID + (1 << 24), GLOBAL_TID + (1 << 24)
    path = nsys_file(
        tmp_path,
        NVTX_EVENTS=None,
        CUPTI_ACTIVITY_KIND_RUNTIME=[nsys_call(100, 150, 5, 0), nsys_call(101, 151, 6, 0, tid=other_tid)],
        CUPTI_ACTIVITY_KIND_KERNEL=[nsys_kernel(200, 300, 5, 1), nsys_kernel(50, 60, 5, 1, pid=other_pid)],
    )
    trace = load(path)
    assert sorted(rows(trace, "kernel")["launch"].isna()) == [False, True]


def test_two_processes_on_one_device_do_not_share_a_stream(tmp_path):
    other_pid = GLOBAL_PID + (1 << 24)
    kernels = [nsys_kernel(200, 300, 5, 1), nsys_kernel(201, 301, 6, 1, pid=other_pid)]
    trace = load(nsys_file(tmp_path, CUPTI_ACTIVITY_KIND_KERNEL=kernels))
    first, second = rows(trace, "kernel")["stream"]
    assert first == 7
    assert second != 7
    assert str(second) in trace.info.extra["renamed_streams"]


def test_devices_by_the_numbers_of_one_process(tmp_path):
    path = nsys_file(
        tmp_path,
        TARGET_INFO_CUDA_DEVICE=[{"gpuId": 3, "cudaId": 0, "pid": PID}],
        TARGET_INFO_CUDA_GPU=[{"gpuId": i, "name": f"GPU {i}", "numMultiprocessors": 10 + i} for i in range(4)],
    )
    (device,) = load(path).info.devices
    assert (device.index, device.name, device.num_sms) == (0, "GPU 3", 13)


def test_times_that_are_shifted_to_the_epoch_already_stay(tmp_path):
    kernel = nsys_kernel(EPOCH + 200, EPOCH + 300, 5, 1)
    more = {"CUPTI_ACTIVITY_KIND_RUNTIME": None, "NVTX_EVENTS": None, "CUPTI_ACTIVITY_KIND_KERNEL": [kernel]}
    assert column(load(nsys_file(tmp_path, **more)), "ts") == [EPOCH + 200]


def test_memory_taken_from_the_driver(tmp_path):
    usage = {"start": 10, "globalPid": GLOBAL_PID, "deviceId": 0, "contextId": 1, "address": 4096, "bytes": 512}
    path = nsys_file(
        tmp_path,
        CUDA_GPU_MEMORY_USAGE_EVENTS=[
            {**usage, "memKind": 2, "memoryOperationType": 0},
            {**usage, "start": 20, "memKind": 1, "memoryOperationType": 0},
            {**usage, "start": 30, "memKind": 2, "memoryOperationType": 1},
        ],
    )
    memory = load(path).memory
    assert list(memory["action"]) == ["segment_alloc", "segment_free"]
    assert list(memory["ts"]) == [EPOCH + 10, EPOCH + 30]
    assert list(memory["addr"]) == [4096, 4096]
    assert list(memory["num_bytes"]) == [512, 512]


def test_warnings_of_nsys_are_kept(tmp_path):
    messages = [{"severity": 3, "text": "buffers were dropped"}, {"severity": 1, "text": "started"}]
    trace = load(nsys_file(tmp_path, DIAGNOSTIC_EVENT=messages))
    assert trace.info.extra["nsys_diagnostics"] == '["buffers were dropped"]'


def messages(*texts, severity=2):
    return [{"severity": severity, "text": text} for text in texts]


NO_GPU = {
    "CUPTI_ACTIVITY_KIND_KERNEL": None,
    "CUPTI_ACTIVITY_KIND_RUNTIME": None,
    "NVTX_EVENTS": [nsys_range(90, 10**9, "step")],
}


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (messages("CUDA profiling might have not been started correctly."), "might have not been started correctly"),
        (messages("Unable to start: CUPTI_ERROR_INVALID_DEVICE", "CUDA profiling"), "CUPTI_ERROR_INVALID_DEVICE"),
        (messages("No CUDA events collected. Does the process use CUDA?", severity=1), "No CUDA events collected"),
        (messages("Number of incomplete CUPTI events dropped: 2.", severity=1), "incomplete CUPTI events dropped: 2"),
    ],
)
def test_an_export_without_gpu_work_names_the_reason_that_nsys_gives(tmp_path, found, reason):
    trace = cudalens.load(nsys_file(tmp_path, DIAGNOSTIC_EVENT=found, **NO_GPU))
    line = verdict.verdict(trace)
    assert line.startswith("[partial trace] 1.00 s recorded: nsys recorded no GPU work: ")
    assert reason in line
    assert ".;" not in line
    assert findings(trace) == []


def test_incomplete_events_are_completed_by_a_wait_before_the_recording_ends(tmp_path):
    found = messages("Number of incomplete CUPTI events dropped: 2.", severity=1)
    line = verdict.verdict(cudalens.load(nsys_file(tmp_path, DIAGNOSTIC_EVENT=found, **NO_GPU)))
    assert "cudaDeviceSynchronize" in line


def test_incomplete_events_are_why_the_work_of_some_launches_is_missing(tmp_path):
    tables = {
        "StringIds": strings("cudaLaunchKernel", "k"),
        "CUPTI_ACTIVITY_KIND_RUNTIME": [nsys_call(start, start + 5, start, 0) for start in range(100, 200, 10)],
        "CUPTI_ACTIVITY_KIND_KERNEL": [nsys_kernel(start + 6, start + 9, start, 1) for start in (100, 190)],
    }
    (lost,) = cudalens.load(nsys_file(tmp_path, **tables)).info.trust.findings
    assert (lost.rule, lost.done) == ("lost work", "Records were dropped; record less, or for a shorter time.")
    found = messages("Number of incomplete CUPTI events dropped: 8.", severity=1)
    (tmp_path / "with").mkdir()
    (lost,) = cudalens.load(nsys_file(tmp_path / "with", DIAGNOSTIC_EVENT=found, **tables)).info.trust.findings
    assert "cudaDeviceSynchronize" in lost.done


def test_an_export_without_gpu_work_is_not_clean_without_a_reason_either(tmp_path):
    trace = cudalens.load(nsys_file(tmp_path, **NO_GPU))
    assert trace.info.trust.verdict == "partial"
    assert "nsys recorded no GPU work; advice: start the profiler before" in verdict.verdict(trace)


def test_waits_of_the_host_are_found(tmp_path):
    names = strings("cudaLaunchKernel_v7000", "k", "cudaStreamSynchronize_v3020")
    calls = [nsys_call(100, 150, 5, 0), nsys_call(160, 320, 6, 2)]
    trace = load(
        nsys_file(
            tmp_path, StringIds=names, CUPTI_ACTIVITY_KIND_RUNTIME=calls, NVTX_EVENTS=[nsys_range(90, 400, "step")]
        )
    )
    (wait,) = trace.syncs.to_dict("records")
    assert (wait["call"], wait["dur"]) == ("cudaStreamSynchronize", 160)


def test_a_correlation_id_twice_is_refused(tmp_path):
    calls = [nsys_call(100, 150, 5, 0), nsys_call(160, 320, 5, 0)]
    with pytest.raises(TraceFormatError, match="correlationId 5 a second time") as raised:
        load(nsys_file(tmp_path, CUPTI_ACTIVITY_KIND_RUNTIME=calls))
    assert "CUPTI_ACTIVITY_KIND_RUNTIME', row 2" in str(raised.value)


def test_id_zero_is_no_id(tmp_path):
    calls = [nsys_call(100, 150, 0, 0), nsys_call(160, 320, 0, 0)]
    assert len(load(nsys_file(tmp_path, CUPTI_ACTIVITY_KIND_RUNTIME=calls))) == 4


def test_an_export_of_nothing_is_an_empty_trace(tmp_path):
    path = nsys_file(tmp_path, NVTX_EVENTS=None, CUPTI_ACTIVITY_KIND_RUNTIME=None, CUPTI_ACTIVITY_KIND_KERNEL=None)
    trace = load(path)
    assert len(trace) == 0
    assert trace.info.problems == ()
