"""The rows of an nvprof file become events."""

import pytest
from chrome import column, problems
from sqlite_files import EPOCH, PID, TID, marker, nvprof_call, nvprof_file, nvprof_kernel, thread_object

from cudalens.errors import TraceFormatError
from cudalens.traces import load
from cudalens.traces.sqlite.activities import call_name


def test_a_range_a_launch_and_a_kernel(tmp_path):
    trace = load(nvprof_file(tmp_path))
    assert trace.info.source == "file:nvprof"
    assert trace.info.problems == ()
    assert column(trace, "name") == ["step", "cudaLaunchKernel", "add(float*, int)"]
    assert column(trace, "cat") == ["user_annotation", "cuda_runtime", "kernel"]
    assert column(trace, "ts") == [EPOCH + 90, EPOCH + 100, EPOCH + 200]
    assert column(trace, "parent") == [None, 0, None]
    assert column(trace, "launch") == [None, None, 1]
    assert column(trace, "tid") == [TID, TID, None]
    kernel = trace.events.iloc[2]
    assert (kernel["grid"], kernel["registers"], kernel["shared_memory_bytes"]) == ("[4,1,1]", 20, 8)


@pytest.mark.parametrize("table", ["MARKER", "RUNTIME", "CONCURRENT_KERNEL", "StringTable"])
def test_a_missing_table_is_no_damage(tmp_path, table):
    kind = "CUPTI_ACTIVITY_KIND_" * (table != "StringTable")
    trace = load(nvprof_file(tmp_path, **{table: None}))
    missing = {"MARKER": "user_annotation", "RUNTIME": "cuda_runtime", "CONCURRENT_KERNEL": "kernel"}
    assert kind or "kernel without a name (string 2)" in column(trace, "name")
    assert missing.get(table) not in column(trace, "cat")


def test_copies_sets_waits_and_overhead(tmp_path):
    place = {"start": EPOCH + 1, "end": EPOCH + 3, "deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": 5}
    copy = {"_id_": 1, **place, "bytes": 64, "copyKind": 2, "srcKind": 3, "dstKind": 2}
    wait = {"_id_": 1, "type": 3, "start": EPOCH + 9, "end": EPOCH + 10, "correlationId": 6, "contextId": 4}
    path = nvprof_file(
        tmp_path,
        MARKER=None,
        CONCURRENT_KERNEL=None,
        MEMCPY=[copy],
        MEMCPY2=[copy | {"copyKind": 10, "dstKind": 3}],
        MEMSET=[{"_id_": 1, **place, "bytes": 32, "memoryKind": 3}],
        SYNCHRONIZATION=[{**wait, "streamId": -1}],
        CONTEXT=[{"_id_": 1, "contextId": 4, "deviceId": 2}],
        OVERHEAD=[
            {
                "_id_": 1,
                "overheadKind": 2 << 16,
                "objectKind": 2,
                "objectId": thread_object(),
                "start": EPOCH + 20,
                "end": EPOCH + 30,
            }
        ],
        DRIVER=[nvprof_call(EPOCH + 50, EPOCH + 60, 7, 307)],
    )
    found = load(path).events
    assert [tuple(row) for row in found[["cat", "name"]].to_numpy().tolist()] == [
        ("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)"),
        ("gpu_memcpy", "Memcpy PtoP (Device -> Device)"),
        ("gpu_memset", "Memset (Device)"),
        ("cuda_sync", "Stream Sync"),
        ("overhead", "Instrumentation"),
        ("cuda_driver", "cuLaunchKernel"),
        ("cuda_runtime", "cudaLaunchKernel"),
    ]
    assert found.loc[3, "device"] == 2
    assert found["stream"].isna().tolist() == [False] * 3 + [True] * 4
    assert list(found["num_bytes"])[:3] == [64, 64, 32]


def test_facts_of_the_device(tmp_path):
    device = {"_id_": 1, "id": 0, "name": 3, "globalMemorySize": 1 << 34, "numMultiprocessors": 80}
    capability = {"computeCapabilityMajor": 7, "computeCapabilityMinor": 0}
    trace = load(nvprof_file(tmp_path, DEVICE=[device | capability]))
    (found,) = trace.info.devices
    assert (found.name, found.capability, found.num_sms) == ("Tesla V100", "7.0", 80)


@pytest.mark.parametrize(
    ("kind", "number", "name"),
    [
        ("runtime", 3, "cudaGetDeviceCount"),
        ("runtime", 13, "cudaLaunch"),
        ("runtime", 31, "cudaMemcpy"),
        ("runtime", 41, "cudaMemcpyAsync"),
        ("runtime", 165, "cudaDeviceSynchronize"),
        ("runtime", 211, "cudaLaunchKernel"),
        ("runtime", 214, "cudaLaunchKernel_ptsz"),
        ("driver", 1, "cuInit"),
        ("driver", 307, "cuLaunchKernel"),
        ("runtime", 99999, "runtime call 99999"),
        ("runtime", -5, "runtime call -5"),
        ("driver", 0, "driver call 0"),
    ],
)
def test_ids_of_calls_have_the_names_of_cuptis_enumerations(kind, number, name):
    assert call_name(kind, number) == name


def test_ranges_marks_and_domains(tmp_path):
    other = thread_object(tid=TID + 1)
    path = nvprof_file(
        tmp_path,
        MARKER=[
            marker(EPOCH + 90, 1, 2, 1, domain=4),
            marker(EPOCH + 95, 2, 1, 1),
            marker(EPOCH + 96, 3, 2, 2),
            marker(EPOCH + 160, 1, 4, objectId=other),
            marker(EPOCH + 170, 9, 4),
        ],
        RUNTIME=None,
        CONCURRENT_KERNEL=None,
    )
    trace = load(path)
    assert column(trace, "name") == ["NCCL:step", "step", "_Z3addPfi"]
    assert column(trace, "dur") == [70, 0, 74]
    assert column(trace, "is_instant") == [False, True, False]
    assert problems(trace) == {"range without an end, ended with the trace": 1, "end without a begin": 1}
    assert set(trace.events["pid"]) == {PID}


def test_operators_of_emit_nvtx(tmp_path):
    texts = ("-- null --", "mm, seq = 4, sizes = [[2, 3], [3, 4]]", "MmBackward, stashed seq=4, seq=0")
    path = nvprof_file(
        tmp_path,
        StringTable=[{"_id_": i, "value": value} for i, value in enumerate(texts)],
        MARKER=[
            marker(EPOCH + 1, 1, 2, 1),
            marker(EPOCH + 2, 1, 4),
            marker(EPOCH + 3, 2, 2, 2),
            marker(EPOCH + 4, 2, 4),
        ],
        RUNTIME=None,
        CONCURRENT_KERNEL=None,
    )
    trace = load(path)
    assert column(trace, "name") == ["mm", "MmBackward"]
    assert column(trace, "cat") == ["cpu_op", "cpu_op"]
    assert column(trace, "sequence_nr") == [4, 4]
    assert column(trace, "shapes") == ["[[2,3],[3,4]]", None]


@pytest.mark.parametrize(
    ("table", "rows", "what"),
    [
        ("MARKER", [marker(EPOCH + 1, 7, 2, 1), marker(EPOCH + 2, 7, 2, 1)], "id of a range's start 7"),
        ("MARKER", [marker(EPOCH + 1, 7, 2, 1), *[marker(EPOCH + i, 7, 4) for i in (2, 3)]], "id of a range's end 7"),
        ("RUNTIME", [nvprof_call(EPOCH, EPOCH + 1, 8, 211), nvprof_call(EPOCH + 2, EPOCH + 3, 8, 211)], "Id 8"),
    ],
)
def test_a_key_twice_is_refused(tmp_path, table, rows, what):
    with pytest.raises(TraceFormatError, match=f"{what} a second time"):
        load(nvprof_file(tmp_path, **{table: rows}))


def test_kernels_of_one_graph_launch_share_its_id(tmp_path):
    kernels = [nvprof_kernel(EPOCH + 200 + i, EPOCH + 201 + i, 5, 2, graphId=3, graphNodeId=i + 1) for i in range(3)]
    events = load(nvprof_file(tmp_path, CONCURRENT_KERNEL=kernels)).events
    kernels = events[events["cat"] == "kernel"]
    assert kernels["launch"].nunique() == 1
    assert list(kernels["graph_id"]) == [3, 3, 3]


def test_times_that_cupti_could_not_measure(tmp_path):
    kernels = [nvprof_kernel(0, 0, 5, 2), nvprof_kernel(EPOCH + 9, EPOCH + 8, 6, 2)]
    trace = load(nvprof_file(tmp_path, CONCURRENT_KERNEL=kernels))
    assert problems(trace) == {"event without a usable start": 1, "negative dur": 1}
