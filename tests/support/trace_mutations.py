"""Seeded damage to small files of every format that `cudalens.load` reads, and how reading them went."""

from __future__ import annotations

import copy
import gzip
import io
import json
import pickle
import random
import resource
import sqlite3
import tarfile
import time
import traceback
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cudalens
from cudalens import analysis, traces
from cudalens.analysis.cached import failures

DATA = Path(__file__).parents[1] / "data"
TOKENS = [
    b"}",
    b"{",
    b"]",
    b"[",
    b'"',
    b"\\",
    b",",
    b":",
    b"NaN",
    b"null",
    b"-",
    b"1e999",
    b'"ts":',
    b"\xff",
    b"9" * 30,
]
NUMBERS = [0, 1, 127, 128, 255]
VALUES = [None, True, 0, -1, 7, 1 << 31, (1 << 63) - 1, 1 << 70, 0.5, -1e300, "", "x", "7", "\x00", "é" * 400]
CELLS = [value for value in VALUES if value != 1 << 70]
VALUES += [[], {}, [[]], [None] * 3, {"a": {}}, list(range(30))]


@dataclass
class Outcome:
    """How one input was read.

    Attributes:
        kind: ``read``, ``refused``, or the name of an exception that is not cudalens's own.
        cpu_s: CPU time.
        detail: The exception in words.
    """

    kind: str
    cpu_s: float
    detail: str = ""


def _events(n=40):
    common = {"pid": 10, "tid": 11}
    for i in range(n):
        at = 10.0 * i
        yield {
            "ph": "X",
            "cat": "cpu_op",
            "name": f"aten::op{i % 7}",
            "ts": at,
            "dur": 9,
            **common,
            "args": {"External id": i},
        }
        launch = {"correlation": i}
        yield {
            "ph": "X",
            "cat": "cuda_runtime",
            "name": "cudaLaunchKernel",
            "ts": at + 1,
            "dur": 2,
            **common,
            "args": launch,
        }
        facts = {"device": 0, "stream": 7, "correlation": i, "grid": [1, 2, 3], "block": [32, 1, 1]}
        yield {
            "ph": "X",
            "cat": "kernel",
            "name": f"k{i % 5}",
            "ts": at + 4,
            "dur": 5,
            "pid": 0,
            "tid": 7,
            "args": facts,
        }
        yield {"ph": "C", "name": "memory", "ts": at, "pid": 10, "args": {"used": i}}
        yield {
            "ph": "i",
            "name": "[memory]",
            "ts": at,
            **common,
            "args": {"Bytes": i, "Device Type": 1, "Device Id": 0},
        }


def sqlite_file(
    folder: Path, tables: dict[str, list[dict[str, object]]], columns_of: dict[str, Sequence[str]] | None = None
) -> bytes:
    """The database with `tables`, rows by name; `columns_of` names the columns of tables that may have no row."""
    path = folder / "seed.sqlite"
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA page_size = 1024")
        for name, rows in tables.items():
            columns = list((columns_of or {}).get(name) or rows[0])
            connection.execute(f'CREATE TABLE "{name}" ({", ".join(columns)})')
            values = [tuple(row[column] for column in columns) for row in rows]
            connection.executemany(f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(columns))})', values)
    return path.read_bytes()


def _nsys():
    call = {"eventClass": 0, "globalTid": (1000 << 24) | 7, "nameId": 1, "returnValue": 0}
    work = {"deviceId": 0, "contextId": 1, "streamId": 7, "globalPid": 1000 << 24, "demangledName": 2, "shortName": 2}
    numbers = range(1, 40)
    return {
        "StringIds": [{"id": 1, "value": "cudaLaunchKernel_v7000"}, {"id": 2, "value": "add(float*)"}],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [
            {"start": i * 10, "end": i * 10 + 5, "correlationId": i, **call} for i in numbers
        ],
        "CUPTI_ACTIVITY_KIND_KERNEL": [
            {"start": i * 10 + 6, "end": i * 10 + 9, "correlationId": i, **work} for i in numbers
        ],
    }


def _nvprof():
    place = {"deviceId": 0, "contextId": 1, "streamId": 7, "name": 2}
    call = {"cbid": 211, "processId": 5, "threadId": 6}
    numbers = range(1, 40)
    return {
        "StringTable": [{"_id_": 2, "value": "_Z3addPf"}],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [
            {"_id_": i, "start": i * 10, "end": i * 10 + 5, "correlationId": i, **call} for i in numbers
        ],
        "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL": [
            {"_id_": i, "start": i * 10 + 6, "end": i * 10 + 9, "correlationId": i, **place} for i in numbers
        ],
    }


def _rocpd():
    place = {"nid": 1, "pid": 1, "tid": 1}
    work = {"agent_id": 2, "kernel_id": 1, "queue_id": 3, "stream_id": 2, "event_id": 1}
    return {
        "rocpd_string": [{"id": 1, "string": "hipLaunchKernel"}, {"id": 2, "string": "HIP_RUNTIME_API"}],
        "rocpd_info_process": [{"id": 1, "pid": 5}],
        "rocpd_info_thread": [{"id": 1, "tid": 6}],
        "rocpd_info_agent": [{"id": 2, "type": "GPU", "type_index": 0, "product_name": "MI300X", "extdata": "{}"}],
        "rocpd_info_kernel_symbol": [{"id": 1, "kernel_name": "_Z3addPf", "display_name": "add(float*)"}],
        "rocpd_event": [{"id": 1, "stack_id": 3, "category_id": 2, "extdata": "{}"}],
        "rocpd_region": [
            {**place, "id": i, "start": i * 10, "end": i * 10 + 5, "name_id": 1, "event_id": 1} for i in range(40)
        ],
        "rocpd_kernel_dispatch": [
            {**place, **work, "id": i, "start": i * 10 + 6, "end": i * 10 + 9} for i in range(40)
        ],
    }


def _rpd():
    return {
        "rocpd_string": [{"id": 1, "string": "hipLaunchKernel"}, {"id": 2, "string": "KernelExecution"}],
        "rocpd_api": [
            {"id": i, "pid": 5, "tid": 6, "start": i * 10, "end": i * 10 + 5, "apiName_id": 1, "args_id": 1}
            for i in range(40)
        ],
        "rocpd_op": [
            {
                "id": i,
                "gpuId": 0,
                "queueId": 1,
                "start": i * 10 + 6,
                "end": i * 10 + 9,
                "description_id": 2,
                "opType_id": 2,
            }
            for i in range(40)
        ],
        "rocpd_api_ops": [{"api_id": i, "op_id": i} for i in range(40)],
    }


def _tool_json():
    record = {"kind": 1, "operation": 0, "correlation_id": {"internal": 3}, "thread_id": 6}
    dispatch = {
        "agent_id": {"handle": 2},
        "queue_id": {"handle": 1},
        "kernel_id": 1,
        "grid_size": {"x": 64, "y": 1, "z": 1},
    }
    times = [{"start_timestamp": i * 10, "end_timestamp": i * 10 + 5} for i in range(40)]
    return {
        "rocprofiler-sdk-tool": [
            {
                "metadata": {"pid": 5},
                "agents": [{"id": {"handle": 2}, "type": 2, "product_name": "MI300X"}],
                "kernel_symbols": [{"kernel_id": 1, "kernel_name": "k"}],
                "strings": {"buffer_records": [{"kind": "NONE"}, {"kind": "HIP_API", "operations": ["hipMalloc"]}]},
                "buffer_records": {
                    "hip_api": [record | one for one in times],
                    "kernel_dispatch": [record | one | {"dispatch_info": dispatch} for one in times],
                },
            }
        ]
    }


def _snapshot():
    frames = [{"filename": "a.py", "line": 3, "name": "f"}]
    steps = [
        {"action": action, "addr": 4096 * i, "size": 512, "stream": 0, "time_us": 10 * i, "frames": frames}
        for i in range(20)
        for action in ("alloc", "free_requested", "free_completed")
    ]
    block = {"address": 4096, "size": 512, "requested_size": 512, "state": "active_allocated", "frames": frames}
    segment = {"device": 0, "address": 4096, "total_size": 2 << 20, "allocated_size": 512, "active_size": 512}
    segment |= {"stream": 0, "segment_type": "small", "blocks": [block], "requested_size": 512}
    return pickle.dumps({"segments": [segment], "device_traces": [steps]}, protocol=4)


def _tar(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        info = tarfile.TarInfo("trace.json")
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def _zip(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("trace.json", data)
    return buffer.getvalue()


def seeds(folder: Path) -> dict[str, bytes]:
    """A small intact file of each format; `folder` is for temporary files."""
    chrome = json.dumps({"schemaVersion": 1, "traceEvents": list(_events())}).encode()
    (folder / "seed.json").write_bytes(chrome)
    saved = traces.load(folder / "seed.json").save(folder / "seed.cudalens").read_bytes()
    timeline = [[i * 10 for i in range(200)], [[0, i, 2 * i, 0, 0, 5, 0, 0, 1] for i in range(200)]]
    return {
        "chrome": chrome,
        "chrome.gz": gzip.compress(chrome, mtime=0),
        "cudalens": saved,
        "nsys": sqlite_file(folder, _nsys()),
        "nvprof": sqlite_file(folder, _nvprof()),
        "rocpd": sqlite_file(folder, _rocpd()),
        "rpd": sqlite_file(folder, _rpd()),
        "rocprofv3 json": json.dumps(_tool_json()).encode(),
        "xplane": (DATA / "jax_cpu.xplane.pb").read_bytes(),
        "perfetto": (DATA / "track_events.pftrace").read_bytes() * 8,
        "snapshot": _snapshot(),
        "memory timeline": json.dumps(timeline).encode(),
        "tar": _tar(chrome),
        "zip": _zip(chrome),
    }


def mutations(data: bytes, seed: str) -> Iterator[bytes]:
    """Endless damaged copies of `data`; the same ones for the same seed.

    Every second copy is a file that its format's library opens, with other values in it: a member of an archive is
    damaged, a value of JSON, of a pickle or of a table is replaced.
    """
    rng = random.Random(seed)
    while True:
        buffer = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 3, 8))):
            _damage(buffer, rng)
        yield bytes(buffer)
        yield _replaced(data, rng)


def _replaced(data: bytes, rng: random.Random) -> bytes:
    """A well-formed copy of `data` with some values replaced; `data` itself if its format has no values to replace."""
    if data.startswith(b"\x1f\x8b"):
        return gzip.compress(_replaced(gzip.decompress(data), rng), 1)
    if data.startswith(b"PK"):
        return _with_damaged_member(data, rng)
    if data.startswith(b"SQLite"):
        return _with_other_cells(data, rng)
    if data.startswith(b"\x80"):
        return pickle.dumps(_with_other_values(pickle.loads(data), rng), protocol=4)
    if data.startswith((b"{", b"[")):
        return json.dumps(_with_other_values(json.loads(data), rng)).encode()
    return data


def _with_damaged_member(data: bytes, rng: random.Random) -> bytes:
    """The archive with a member, damaged or with other values, whose checksum is right."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    name = rng.choice(list(members))
    members[name] = (
        next(mutations(members[name], str(rng.random()))) if rng.random() < 0.5 else _replaced(members[name], rng)
    )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    return buffer.getvalue()


def _with_other_cells(data: bytes, rng: random.Random) -> bytes:
    """The database with some cells replaced."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(data)
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for _ in range(rng.choice((1, 2, 5))):
            table = rng.choice(tables)
            columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
            rows = [row for (row,) in connection.execute(f'SELECT rowid FROM "{table}"')]
            update = f'UPDATE "{table}" SET "{rng.choice(columns)}" = ? WHERE rowid = ?'
            connection.execute(update, (rng.choice(CELLS), rng.choice(rows)))
        connection.commit()
        return connection.serialize()


def _with_other_values(value: object, rng: random.Random) -> object:
    """The value with some parts of it replaced, removed or repeated."""
    for _ in range(rng.choice((1, 1, 2, 5))):
        parent, at = None, None
        part = value
        while isinstance(part, (dict, list)) and part and (parent is None or rng.random() < 0.9):
            parent, at = part, rng.choice(list(part) if isinstance(part, dict) else range(len(part)))
            part = parent[at]
        if parent is None or at is None:
            return copy.deepcopy(rng.choice(VALUES))
        kind = rng.randrange(4)
        if kind == 0:
            del parent[at]
        elif kind == 1 and isinstance(parent, list):
            parent.insert(at, part)
        else:
            parent[at] = copy.deepcopy(rng.choice(VALUES))
    return value


def _damage(buffer: bytearray, rng: random.Random) -> None:
    at = rng.randrange(max(len(buffer), 1))
    kind = rng.randrange(7)
    if kind == 0:
        buffer[at : at + 1] = bytes([rng.randrange(256)])
    elif kind == 1:
        buffer[at : at + 1] = bytes([rng.choice(NUMBERS)])
    elif kind == 2:
        buffer[at:at] = rng.choice(TOKENS)
    elif kind == 3:
        del buffer[at : at + rng.randrange(1, 40)]
    elif kind == 4:
        del buffer[at:]
    elif kind == 5:
        buffer[at:at] = buffer[at : at + rng.randrange(1, 400)]
    else:
        buffer[at : at + 8] = rng.randbytes(8)


#: What a file of a rank is called, for the formats of which jobs have files.
RANK_SUFFIXES = {"chrome": ".json", "chrome.gz": ".json.gz", "cudalens": ".cudalens", "nsys": ".sqlite"}


def views(trace: cudalens.Trace, other: cudalens.Trace, folder: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """What is shown of a Trace that was read, by name: texts, pages, and a comparison with `other`."""
    yield "summary", lambda: str(trace.summary())
    yield "brief", lambda: trace.brief().to_json()
    yield "to_html", lambda: trace.to_html(folder / "report.html")
    yield "timeline", trace.timeline
    yield "compare", lambda: _shown(cudalens.compare(other, trace))


def everything(
    trace: cudalens.Trace, other: cudalens.Trace, folder: Path
) -> Iterator[tuple[str, Callable[[], object]]]:
    """The `views` of a Trace, and what else can be done with it: tables, files, its critical path."""
    yield from views(trace, other, folder)
    yield "mimebundle", trace._repr_mimebundle_
    yield "compare with itself", lambda: _shown(cudalens.compare([trace, trace], [other, trace]))
    yield "table", trace.table
    yield "trust", lambda: str(trace.trust())
    yield "save", lambda: cudalens.load(trace.save(folder / "saved.cudalens"))
    yield "to_chrome", lambda: trace.to_chrome(folder / "chrome.json")
    yield "to_csv", lambda: trace.to_csv(folder / "csv")
    yield "to_collapsed", lambda: trace.to_collapsed(folder / "collapsed.txt")
    yield "to_speedscope", lambda: trace.to_speedscope(folder / "speedscope.json")
    yield "critical_path", lambda: analysis.critical_path(trace)


def _shown(found: Any) -> str:
    return str(found) + found._repr_html_()


def use(acts: Iterator[tuple[str, Callable[[], object]]], trace: cudalens.Trace) -> tuple[str, str]:
    """Do all of `acts` with `trace`; returns what raised and its place, errors of cudalens left out; "" for nothing."""
    for what, act in acts:
        try:
            act()
        except cudalens.CudalensError:
            continue
        except Exception as error:
            return _raised(what, error)
    if found := failures(trace):
        return found[0].kind, found[0].where
    return "", ""


def use_as_rank(data: bytes, whole: bytes, suffix: str, folder: Path) -> tuple[str, str]:
    """Show a job of two ranks, one of which is damaged; returns what raised, or ""."""
    folder.mkdir(exist_ok=True)
    for rank, content in enumerate((whole, data)):
        (folder / f"rank{rank}{suffix}").write_bytes(content)
    try:
        ranks = cudalens.load_ranks(folder)
        _shown(ranks.summary())
        ranks.to_html(folder.parent / "ranks.html")
    except cudalens.CudalensError:
        return "", ""
    except Exception as error:
        return _raised("ranks", error)
    return "", ""


def _raised(what: str, error: Exception) -> tuple[str, str]:
    """``compare: ValueError`` and ``rows.py:71: ...``, the last line of cudalens in the traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    at = [frame for frame in frames if "/cudalens/" in frame.filename][-1]
    return f"{what}: {type(error).__name__}", f"{Path(at.filename).name}:{at.lineno}: {error}"


def outcome(
    data: bytes, path: Path, whole: cudalens.Trace | None = None, acts: Callable[..., Any] = everything
) -> Outcome:
    """Read `data` from a file at `path`, and take the summary of what was read.

    With `whole`, the intact Trace, do `acts` with what was read; their time does not count.
    """
    path.write_bytes(data)
    began = time.process_time()
    try:
        trace = cudalens.load(path)
        str(trace)
        kind, detail = "read", f"{len(trace)} events"
        seconds = time.process_time() - began
        if whole is not None and (raised := use(acts(trace, whole, path.parent), trace))[0]:
            kind, detail = raised
        return Outcome(kind, seconds, detail)
    except cudalens.CudalensError as error:
        kind, detail = "refused", str(error)
    except Exception as error:
        kind, detail = type(error).__name__, str(error)
    return Outcome(kind, time.process_time() - began, detail)


def peak_bytes() -> int:
    """The largest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
