"""Files: what is read of random ones, against a slow reader; and damaged ones, used in every way.

A program is the contents of a file: rows of host and device work, written as Chrome JSON or as a database of nsys; the
segments and actions of a memory snapshot; or a number of a mutation of a small file.
"""

from __future__ import annotations

import json
import pickle
import tempfile
import warnings
from collections import Counter
from functools import cache
from itertools import islice
from pathlib import Path

import slow_reader
from hunting import Fault, Subject
from hypothesis import strategies as st
from trace_mutations import (
    RANK_SUFFIXES,
    everything,
    mutations,
    outcome,
    seeds,
    sqlite_file,
    use,
    use_as_rank,
    views,
)

import cudalens
from cudalens.analysis import summarize

#: Kind of a row, start and length in ns, name, device, stream, bytes.
Row = tuple[str, int, int, int, int, int, int]
Program = tuple[str, list[Row]] | tuple[str, list[tuple[int, ...]]] | tuple[str, str, int]

#: Of programs of rows, those of a multiple of this length are also shown: that takes ten times as long.
SHOW_EVERY = 5

NAMES = ("gemm", "void add<float>(float*, int)", "reduce", 'quote " and \\ and é', "gemm_2")
NS = st.integers(0, 3_000_000)
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["kernel", "gpu_memcpy", "call"]),
        NS,
        st.one_of(st.just(0), NS),
        st.integers(0, len(NAMES) - 1),
        st.integers(0, 2),
        st.integers(7, 9),
        st.integers(0, 1 << 40),
    ),
    min_size=1,
    max_size=30,
)
#: Segments: number of blocks of 512 bytes that are allocated, and free ones after them.
SEGMENTS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 1)), min_size=1, max_size=6)
FORMATS = (
    "chrome", "cudalens", "nsys", "nvprof", "rocpd", "rpd", "rocprofv3 json", "xplane", "perfetto", "snapshot",
)  # fmt: skip


def write_chrome(rows: list[Row], path: Path) -> None:
    """Write rows as torch.profiler does: work of a device with its launch, in microseconds."""
    events = []
    for number, (kind, start, dur, name, device, stream, num_bytes) in enumerate(rows):
        times = {"ph": "X", "ts": start / 1000, "dur": dur / 1000}
        if kind == "call":
            events.append({**times, "cat": "cpu_op", "name": NAMES[name], "pid": 1, "tid": 1 + stream})
            continue
        args = {"device": device, "stream": stream, "correlation": number}
        args |= {"bytes": num_bytes} if kind == "gpu_memcpy" else {}
        events.append({**times, "cat": kind, "name": NAMES[name], "pid": device, "tid": stream, "args": args})
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))


def write_nsys(rows: list[Row], path: Path) -> None:
    """Write rows as ``nsys export`` does."""
    call = {"eventClass": 0, "globalTid": (1000 << 24) | 7, "nameId": 90, "returnValue": 0}
    work = {"contextId": 1, "globalPid": 1000 << 24}
    tables = {"StringIds": [{"id": 90, "value": "cudaLaunchKernel_v7000"}]}
    tables["StringIds"] += [{"id": number, "value": name} for number, name in enumerate(NAMES)]
    for table in ("RUNTIME", "KERNEL", "MEMCPY"):
        tables[f"CUPTI_ACTIVITY_KIND_{table}"] = []
    for number, (kind, start, dur, name, device, stream, num_bytes) in enumerate(rows):
        times = {"start": start, "end": start + dur, "correlationId": number}
        place = {"deviceId": device, "streamId": stream}
        names = {"demangledName": name, "shortName": name}
        if kind == "call":
            tables["CUPTI_ACTIVITY_KIND_RUNTIME"].append({**times, **call})
        elif kind == "kernel":
            tables["CUPTI_ACTIVITY_KIND_KERNEL"].append({**times, **work, **place, **names})
        else:
            more = {"bytes": num_bytes, "copyKind": 1, "srcKind": 0, "dstKind": 2}
            tables["CUPTI_ACTIVITY_KIND_MEMCPY"].append({**times, **work, **place, **more})
    columns = {
        "CUPTI_ACTIVITY_KIND_RUNTIME": ("start", "end", "correlationId", *call),
        "CUPTI_ACTIVITY_KIND_KERNEL": (
            "start", "end", "correlationId", *work, "deviceId", "streamId", "demangledName", "shortName",
        ),
        "CUPTI_ACTIVITY_KIND_MEMCPY": (
            "start", "end", "correlationId", *work, "deviceId", "streamId", "bytes", "copyKind", "srcKind", "dstKind",
        ),
    }  # fmt: skip
    path.write_bytes(sqlite_file(path.parent, tables, columns))


def write_snapshot(given: list[tuple[int, int, int]], path: Path) -> None:
    """Write segments as torch does, with an allocation and a free in the history for each block."""
    segments, entries = [], [[], []]
    for number, (num_used, num_free, device) in enumerate(given):
        base, total = (number + 1) << 32, 512 * max(num_used + num_free, 1)
        states = ["active_allocated"] * num_used + ["inactive"] * (max(num_used + num_free, 1) - num_used)
        blocks = [
            {"address": base + 512 * k, "size": 512, "requested_size": 500, "state": state, "frames": []}
            for k, state in enumerate(states)
        ]
        segments.append(
            {
                "device": device, "address": base, "total_size": total, "allocated_size": 512 * num_used,
                "active_size": 512 * num_used, "requested_size": 500 * num_used, "stream": 0,
                "segment_type": "small", "blocks": blocks,
            }
        )  # fmt: skip
        for block in blocks[:num_used]:
            at = {"addr": block["address"], "size": 512, "stream": 0, "frames": []}
            entries[device].append({"action": "alloc", "time_us": 10 * len(entries[device]), **at})
    path.write_bytes(pickle.dumps({"segments": segments, "device_traces": entries}, protocol=4))


READERS = {"chrome": (write_chrome, slow_reader.read_chrome), "nsys": (write_nsys, slow_reader.read_nsys)}


@cache
def small_files() -> dict[str, bytes]:
    """An intact file of each format."""
    with tempfile.TemporaryDirectory() as folder:
        return seeds(Path(folder))


def check(program: Program) -> Fault | None:
    """Read a file and compare, or use a damaged one."""
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(name)
        SUBJECT.counts[program[0]] += 1
        if program[0] == "damaged":
            return check_damaged(program[1], program[2], folder)
        if program[0] == "snapshot":
            return check_snapshot(program[1], folder / "snapshot.pickle")
        return check_rows(*program, folder)


def check_rows(kind: str, rows: list[Row], folder: Path) -> Fault | None:
    """Compare the figures of a file of rows with the slow reader's."""
    write, read = READERS[kind]
    path = folder / ("trace.json" if kind == "chrome" else "trace.sqlite")
    write(rows, path)
    expected = read(path)
    trace = cudalens.load(path, repair=False)
    events, summary = trace.events, summarize(trace)
    work = events[events["cat"].isin(slow_reader.WORK)]
    end = work["ts"] + work["dur"]
    copied = work.loc[work["cat"] == "gpu_memcpy", "num_bytes"]
    names = work.groupby("name", observed=True)["dur"].sum().to_dict()
    found = {
        "count": {cat: int((events["cat"] == cat).sum()) for cat in expected.count},
        "span": int(end.max() - work["ts"].min()) if len(work) else 0,
        "busy": dict(summary.device_busy_by_device),
        "bytes": int(copied.fillna(0).sum()),
    }
    known = {
        "count": dict(expected.count),
        "span": expected.span_ns,
        "busy": expected.busy_ns,
        "bytes": expected.num_bytes,
    }
    if kind == "chrome":
        found["names"], known["names"] = names, dict(expected.work_ns)
    differing = next((key for key in known if known[key] != found[key]), None)
    if differing is not None:
        return Fault(f"{kind}: {differing}", f"slow reader {known[differing]}, cudalens {found[differing]}")
    return check_shown(trace, folder) if len(rows) % SHOW_EVERY == 0 else None


def check_shown(trace: cudalens.Trace, folder: Path) -> Fault | None:
    """Show a Trace that was read without damage: nothing of it may fail, and a saved copy is the same."""
    what, detail = use(views(trace, trace, folder), trace)
    if what:
        return Fault(what, detail)
    again = cudalens.load(trace.save(folder / "saved.cudalens"))
    same = str(again.summary()) == str(trace.summary()) and again.events.equals(trace.events)
    return None if same else Fault("a saved copy is another Trace", str(again.summary()))


def check_snapshot(given: list[tuple[int, int, int]], path: Path) -> Fault | None:
    """Compare the sums of a snapshot with the slow reader's."""
    write_snapshot(given, path)
    trace = cudalens.load(path)
    blocks = trace.blocks
    found = {
        "reserved": int(blocks["num_bytes"].sum()),
        "allocated": int(blocks.loc[blocks["state"] == "active_allocated", "num_bytes"].sum()),
        "blocks": len(blocks),
        "actions": len(trace.memory),
    }
    known = slow_reader.read_snapshot(path)
    if found != known:
        return Fault("snapshot", f"slow reader {known}, cudalens {found}")
    return check_shown(trace, path.parent)


def check_damaged(kind: str, number: int, folder: Path) -> Fault | None:
    """Use a damaged file in every way, and as a rank of a job."""
    data = small_files()[kind]
    (damaged,) = islice(mutations(data, f"{kind} {number}"), number % 2, number % 2 + 1)
    (folder / "intact").write_bytes(data)
    found = outcome(damaged, folder / "input", cudalens.load(folder / "intact"), everything)
    if found.kind not in ("read", "refused"):
        return Fault(f"{found.kind} at {found.detail.partition(' ')[0]}", found.detail)
    SUBJECT.counts[found.kind] += 1
    if kind in RANK_SUFFIXES and number % 8 == 0:
        what, detail = use_as_rank(damaged, data, RANK_SUFFIXES[kind], folder / "job")
        return Fault(what, detail) if what else None
    return None


PROGRAMS = st.one_of(
    st.tuples(st.sampled_from(sorted(READERS)), ROWS),
    st.tuples(st.just("snapshot"), SEGMENTS),
    st.tuples(st.just("damaged"), st.sampled_from(FORMATS), st.integers(0, 1 << 40)),
)
SUBJECT = Subject("trace_files", PROGRAMS, check, num_quick=3, num_round=40, counts=Counter())
