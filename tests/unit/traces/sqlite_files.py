"""Small handmade SQLite files in the layouts of nsys and nvprof, for tests."""

import sqlite3
import struct
from contextlib import closing

PID, TID = 1000, 1001
GLOBAL_PID = (1 << 48) | (PID << 24)
GLOBAL_TID = GLOBAL_PID | TID
EPOCH = 1_700_000_000_000_000_000


def write_tables(path, tables):
    """Write an SQLite file with `tables`: for each name a list of rows as dicts; the first row sets the columns."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for name, rows in tables.items():
            columns = list(rows[0])
            connection.execute(f'CREATE TABLE "{name}" ({", ".join(columns)})')
            values = [tuple(row.get(column) for column in columns) for row in rows]
            connection.executemany(f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(columns))})', values)
    return path


def execute(path, *statements):
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def strings(*values):
    return [{"id": i, "value": value} for i, value in enumerate(values)]


def nsys_call(start, end, correlation, name, *, tid=GLOBAL_TID, event_class=0):
    return {
        "start": start,
        "end": end,
        "eventClass": event_class,
        "globalTid": tid,
        "correlationId": correlation,
        "nameId": name,
        "returnValue": 0,
    }


def nsys_kernel(start, end, correlation, name, *, device=0, stream=7, context=1, pid=GLOBAL_PID, **more):
    return {
        "start": start,
        "end": end,
        "deviceId": device,
        "contextId": context,
        "streamId": stream,
        "correlationId": correlation,
        "globalPid": pid,
        "demangledName": name,
        "shortName": name,
        "registersPerThread": 32,
        "gridX": 4,
        "gridY": 2,
        "gridZ": 1,
        "blockX": 128,
        "blockY": 1,
        "blockZ": 1,
        "staticSharedMemory": 16,
        "dynamicSharedMemory": 1024,
        **more,
    }


def nsys_range(start, end, text, *, kind=59, tid=GLOBAL_TID, **more):
    row = {"start": start, "end": end, "eventType": kind, "text": text, "globalTid": tid}
    return {**row, "endGlobalTid": None, "textId": None, "domainId": 0, **more}


def nsys_tables(**more):
    """One operator that launches one kernel."""
    return {
        "StringIds": strings("cudaLaunchKernel_v7000", "void add<float>(float*)", "main", "NCCL", "registered"),
        "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": EPOCH, "utcTime": "", "localTime": ""}],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [nsys_call(100, 150, 5, 0)],
        "CUPTI_ACTIVITY_KIND_KERNEL": [nsys_kernel(200, 300, 5, 1)],
        "NVTX_EVENTS": [nsys_range(90, 160, "aten::add, seq = 3, op_id = 9, sizes = [[2, 3], []]")],
        **more,
    }


def nsys_file(tmp_path, **more):
    tables = {name: rows for name, rows in nsys_tables(**more).items() if rows is not None}
    return write_tables(tmp_path / "report.sqlite", tables)


def thread_object(pid=PID, tid=TID):
    return struct.pack("<III", pid, tid, 0)


def nvprof_kernel(start, end, correlation, name, *, device=0, stream=7, **more):
    row = {"_id_": correlation, "start": start, "end": end, "deviceId": device, "contextId": 1, "streamId": stream}
    shape = {"gridX": 4, "gridY": 1, "gridZ": 1, "blockX": 64, "blockY": 1, "blockZ": 1, "registersPerThread": 20}
    return {**row, **shape, "staticSharedMemory": 0, "dynamicSharedMemory": 8, "correlationId": correlation} | {
        "name": name,
        **more,
    }


def nvprof_call(start, end, correlation, cbid, **more):
    row = {"_id_": correlation, "cbid": cbid, "start": start, "end": end, "processId": PID, "threadId": TID}
    return {**row, "correlationId": correlation, "returnValue": 0, **more}


def marker(time, number, flags, name=0, **more):
    row = {"flags": flags, "timestamp": time, "id": number, "objectKind": 2, "objectId": thread_object()}
    return {**row, "name": name, "domain": 0, **more}


def nvprof_tables(**more):
    """One range that launches one kernel."""
    kind = "CUPTI_ACTIVITY_KIND_"
    texts = ("-- null --", "step", "_Z3addPfi", "Tesla V100", "NCCL")
    tables = {
        "StringTable": [{"_id_": i, "value": value} for i, value in enumerate(texts)],
        f"{kind}RUNTIME": [nvprof_call(EPOCH + 100, EPOCH + 150, 5, 211)],
        f"{kind}CONCURRENT_KERNEL": [nvprof_kernel(EPOCH + 200, EPOCH + 300, 5, 2)],
        f"{kind}MARKER": [marker(EPOCH + 90, 1, 2, 1), marker(EPOCH + 160, 1, 4)],
    }
    return {**tables, **{(name if name == "StringTable" else kind + name): rows for name, rows in more.items()}}


def nvprof_file(tmp_path, **more):
    tables = {name: rows for name, rows in nvprof_tables(**more).items() if rows is not None}
    return write_tables(tmp_path / "profile.nvvp", tables)
