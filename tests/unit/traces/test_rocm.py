"""AMD's recordings: databases of rocprofv3 and RPD, and the JSON of rocprofv3, give the same run."""

import json
import sqlite3
from contextlib import closing

import pytest
from chrome import column, load_bytes, problems
from sqlite_files import write_tables

import cudalens
from cudalens.errors import TraceFormatError

GUID = "_00008e1c_5b55_7bb2_8f25_5b81aa9a3c54"
PLACE = {"nid": 1, "pid": 1, "tid": 1}
KERNEL = "_ZN3addEPfi"


def rocpd(suffix=GUID, **changes):
    size = {f"{what}_size_{axis}": n for what, sizes in SIZES.items() for axis, n in zip("xyz", sizes, strict=True)}
    tables = {
        "rocpd_metadata": [{"id": 1, "tag": "schema_version", "value": "3"}],
        "rocpd_string": [
            {"id": i + 1, "string": text}
            for i, text in enumerate(
                (
                    "hipLaunchKernel",
                    "HIP_RUNTIME_API_EXT",
                    "roctxRangePushA",
                    "MARKER_CORE_RANGE_API",
                    "MEMORY_COPY_HOST_TO_DEVICE",
                )
            )
        ],
        "rocpd_info_process": [{"id": 1, "nid": 1, "pid": 500}],
        "rocpd_info_thread": [{"id": 1, "nid": 1, "pid": 1, "tid": 501}],
        "rocpd_info_agent": [
            {"id": 1, "type": "CPU", "type_index": 0, "product_name": "EPYC", "extdata": "{}"},
            {"id": 2, "type": "GPU", "type_index": 0, "product_name": "MI300X", "extdata": '{"cu_count": 304}'},
        ],
        "rocpd_info_kernel_symbol": [{"id": 1, "kernel_name": KERNEL + ".kd", "display_name": "add(float*, int)"}],
        "rocpd_info_pmc": [{"id": 1, "symbol": "SQ_WAVES", "units": "waves"}],
        "rocpd_event": [
            {"id": 1, "stack_id": 8, "category_id": 2, "extdata": "{}"},
            {"id": 2, "stack_id": 9, "category_id": 4, "extdata": '{"message": "step 1"}'},
            {"id": 3, "stack_id": 8, "category_id": None, "extdata": "{}"},
        ],
        "rocpd_region": [
            {**PLACE, "id": 1, "start": 90, "end": 400, "name_id": 3, "event_id": 2},
            {**PLACE, "id": 2, "start": 100, "end": 150, "name_id": 1, "event_id": 1},
        ],
        "rocpd_kernel_dispatch": [
            {
                **PLACE,
                **size,
                "id": 1,
                "agent_id": 2,
                "kernel_id": 1,
                "queue_id": 3,
                "stream_id": 2,
                "start": 200,
                "end": 260,
                "group_segment_size": 64,
                "event_id": 3,
            }
        ],
        "rocpd_memory_copy": [
            {
                **PLACE,
                "id": 1,
                "start": 160,
                "end": 190,
                "name_id": 5,
                "dst_agent_id": 2,
                "src_agent_id": 1,
                "size": 4096,
                "queue_id": 3,
                "stream_id": 2,
                "event_id": None,
            }
        ],
        "rocpd_pmc_event": [{"id": 1, "event_id": 3, "pmc_id": 1, "value": 12.5}],
    }
    return {name + suffix: rows for name, rows in (tables | changes).items() if rows}


SIZES = {"workgroup": (64, 2, 1), "grid": (256, 4, 1)}


def check(trace, *, has_place=True):
    assert trace.info.problems == ()
    assert column(trace, "name") == [
        "step 1",
        "hipLaunchKernel",
        "Memcpy HtoD (Host -> Device)",
        "add(float*, int)",
    ]
    assert column(trace, "cat") == ["user_annotation", "hip_runtime", "gpu_memcpy", "kernel"]
    assert column(trace, "ts") == [90, 100, 160, 200]
    assert column(trace, "dur") == [310, 50, 30, 60]
    assert column(trace, "parent") == [None, 0, None, None]
    assert column(trace, "launch") == [None, None, None, 1]
    assert column(trace, "device") == [None, None, 0, 0]
    assert column(trace, "tid")[:2] == [501, 501]
    assert column(trace, "pid")[:2] == [500, 500]
    if has_place:
        assert column(trace, "stream") == [None, None, 2, 2]
        assert column(trace, "grid")[3] == "[4,2,1]"  # blocks; AMD writes threads
        assert column(trace, "block_dim")[3] == "[64,2,1]"
        assert column(trace, "num_bytes")[2] == 4096
        assert column(trace, "shared_memory_bytes")[3] == 64
        (device,) = trace.info.devices
        assert (device.name, device.num_sms) == ("MI300X", 304)


@pytest.mark.parametrize("suffix", ["", GUID], ids=["plain names", "names with an id"])
def test_a_database_of_rocprofv3(tmp_path, suffix):
    trace = cudalens.load(write_tables(tmp_path / "500_results.db", rocpd(suffix)))
    assert trace.info.source == "file:rocpd"
    check(trace)
    assert trace.counters[["ts", "name", "value", "unit"]].to_numpy().tolist() == [[200, "SQ_WAVES", 12.5, "waves"]]


def test_times_in_a_table_of_their_own(tmp_path):
    tables = rocpd("")
    tracks, times = [], []
    for name in ("rocpd_region", "rocpd_kernel_dispatch", "rocpd_memory_copy"):
        for row in tables[name]:
            for side in ("start", "end"):
                times.append({"id": len(times) + 1, "value": row.pop(side)})
                row[f"{side}_id"] = len(times)
            place = {key: row.pop(key, None) for key in ("nid", "pid", "tid", "agent_id", "queue_id", "stream_id")}
            tracks.append({"id": len(tracks) + 1, **place})
            row["track_id"] = len(tracks)
    tables |= {"rocpd_track": tracks, "rocpd_timestamp": times}
    check(cudalens.load(write_tables(tmp_path / "x.db", tables)))


def test_two_processes_in_one_database(tmp_path):
    other = rocpd("_0000ffff_0000_1111_2222_333344445555")
    other["rocpd_info_process_0000ffff_0000_1111_2222_333344445555"][0]["pid"] = 900
    trace = cudalens.load(write_tables(tmp_path / "x.db", rocpd() | other))
    assert len(trace) == 8
    assert sorted(set(column(trace, "pid")) - {None}) == [500, 900]


def test_a_database_without_agents_counts_what_is_missing(tmp_path):
    trace = cudalens.load(write_tables(tmp_path / "x.db", rocpd(rocpd_info_agent=[])))
    assert problems(trace) == {"device work without a device, taken as device 0": 2}


def tool_json():
    ids = {"external": 0}
    place = {"size": 96, "thread_id": 501}
    agents = [
        {"id": {"handle": 11}, "type": 1, "name": "EPYC", "logical_node_type_id": 0},
        {"id": {"handle": 22}, "type": 2, "product_name": "MI300X", "cu_count": 304, "logical_node_type_id": 0},
    ]
    size = {f"{what}_size": dict(zip("xyz", sizes, strict=True)) for what, sizes in SIZES.items()}
    dispatch = {"agent_id": {"handle": 22}, "queue_id": {"handle": 3}, "kernel_id": 1, "group_segment_size": 64}
    times = {"start_timestamp": 200, "end_timestamp": 260}
    return {
        "rocprofiler-sdk-tool": [
            {
                "metadata": {"pid": 500, "init_time": 1},
                "agents": agents,
                "kernel_symbols": [
                    {"kernel_id": 1, "kernel_name": KERNEL, "formatted_kernel_name": "add(float*, int)"}
                ],
                "strings": {
                    "buffer_records": [
                        {"kind": "NONE", "operations": []},
                        {"kind": "HIP_RUNTIME_API", "operations": ["hipMalloc", "hipLaunchKernel"]},
                        {"kind": "MARKER_CORE_API", "operations": ["roctxRangePushA"]},
                        {"kind": "MEMORY_COPY", "operations": ["NONE", "MEMORY_COPY_HOST_TO_DEVICE"]},
                        {"kind": "KERNEL_DISPATCH", "operations": ["NONE"]},
                    ],
                    "marker_api": [{"key": 9, "value": "step 1"}],
                },
                "buffer_records": {
                    "kernel_dispatch": [
                        {
                            **place,
                            **times,
                            "kind": 4,
                            "operation": 0,
                            "correlation_id": {"internal": 8, **ids},
                            "dispatch_info": {**dispatch, **size},
                            "stream_id": {"handle": 2},
                        }
                    ],
                    "hip_api": [
                        {
                            **place,
                            "kind": 1,
                            "operation": 1,
                            "correlation_id": {"internal": 8, **ids},
                            "start_timestamp": 100,
                            "end_timestamp": 150,
                        }
                    ],
                    "marker_api": [
                        {
                            **place,
                            "kind": 2,
                            "operation": 0,
                            "correlation_id": {"internal": 9, **ids},
                            "start_timestamp": 90,
                            "end_timestamp": 400,
                        }
                    ],
                    "memory_copy": [
                        {
                            **place,
                            "kind": 3,
                            "operation": 1,
                            "correlation_id": {"internal": 0, **ids},
                            "bytes": 4096,
                            "start_timestamp": 160,
                            "end_timestamp": 190,
                            "stream_id": {"handle": 2},
                            "dst_agent_id": {"handle": 22},
                            "src_agent_id": {"handle": 11},
                        }
                    ],
                    "memory_allocation": [{"size": 1}],
                },
            }
        ]
    }


@pytest.mark.parametrize("is_list", [True, False], ids=["a list of processes", "one process"])
def test_the_json_of_rocprofv3(tmp_path, is_list):
    found = tool_json()
    if not is_list:
        (found["rocprofiler-sdk-tool"],) = found["rocprofiler-sdk-tool"]
    trace = load_bytes(tmp_path, json.dumps(found).encode(), "500_results.json")
    assert trace.info.source == "file:rocprofv3"
    check(trace)


def test_records_of_other_types_are_counted(tmp_path):
    found = tool_json()
    found["rocprofiler-sdk-tool"][0]["buffer_records"]["hsa_api"] = [{"start_timestamp": "soon"}]
    trace = load_bytes(tmp_path, json.dumps(found).encode())
    assert problems(trace) == {"records that cannot be read": 1}
    assert len(trace) == 4


def test_a_database_of_rpd(tmp_path):
    texts = ("hipLaunchKernel", "", "UserMarker", "step 1", "KernelExecution", "add(float*, int)", "CopyHostToDevice")
    path = write_tables(
        tmp_path / "trace.rpd",
        {
            "rocpd_string": [{"id": i + 1, "string": text} for i, text in enumerate(texts)],
            "rocpd_api": [
                {"id": 1, "pid": 500, "tid": 501, "start": 90, "end": 400, "apiName_id": 3, "args_id": 4},
                {"id": 2, "pid": 500, "tid": 501, "start": 100, "end": 150, "apiName_id": 1, "args_id": 2},
            ],
            "rocpd_op": [
                {"id": 1, "gpuId": 0, "queueId": 1, "start": 200, "end": 260, "description_id": 6, "opType_id": 5},
                {"id": 2, "gpuId": 0, "queueId": 1, "start": 160, "end": 190, "description_id": 2, "opType_id": 7},
            ],
            "rocpd_api_ops": [{"id": 1, "api_id": 2, "op_id": 1}],
            "rocpd_monitor": [
                {
                    "id": 1,
                    "deviceType": "gpu",
                    "deviceId": 0,
                    "monitorType": "sclk",
                    "start": 95,
                    "end": 99,
                    "value": "1700",
                }
            ],
        },
    )
    trace = cudalens.load(path)
    assert trace.info.source == "file:rpd"
    check(trace, has_place=False)
    assert trace.counters[["ts", "name", "process", "value"]].to_numpy().tolist() == [[95, "sclk", "gpu 0", 1700.0]]


def test_a_database_of_the_first_rocprof_is_named(tmp_path):
    path = tmp_path / "results.db"
    with closing(sqlite3.connect(path)) as database:
        for name in ("A", "COPY", "HSA"):
            database.execute(f"CREATE TABLE {name} (BeginNs, EndNs)")
        database.commit()
    with pytest.raises(TraceFormatError, match=r"rocprof \(version 1\).*results.json"):
        cudalens.load(path)
