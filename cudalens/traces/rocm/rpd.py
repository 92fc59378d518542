"""Read databases of RPD (rocmProfileData: ``runTracer.sh -o trace.rpd``) into a Trace.

``rocpd_api`` has the host's calls, ``rocpd_op`` the work of the GPUs, and ``rocpd_api_ops`` which call made which work.
Times count from the machine's start.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from cudalens.frames import RunInfo, Trace, build_events
from cudalens.frames.counters import CounterValues
from cudalens.frames.lenient_json import text_of
from cudalens.frames.limits import Problems
from cudalens.frames.syncs.build import build_syncs
from cudalens.traces.chrome.values import MISSING, Ints
from cudalens.traces.rocm.names import copy_name
from cudalens.traces.sqlite.activities import Activities, Texts
from cudalens.traces.sqlite.demangle import demangler
from cudalens.traces.sqlite.file import Database

_MARKER: Final = "UserMarker"


def is_rpd(tables: Mapping[str, Any]) -> bool:
    """Return whether `tables` are those of RPD."""
    return "rocpd_api" in tables or "rocpd_op" in tables


def read_rpd(database: Database, problems: Problems) -> Trace:
    """Return the Trace in a database of RPD."""
    began = time.perf_counter()
    rows = Activities(problems)
    texts = database.read("rocpd_string", ["id"], ["string"])
    strings = dict(zip(texts["id"].tolist(), map(text_of, texts.objects("string")), strict=True))
    _add_calls(database, rows, strings)
    _add_work(database, rows, strings)
    columns, is_async = rows.to_columns()
    events = build_events(columns, async_mask=is_async if is_async.any() else None)
    counters = _counters(database)
    timed = events[~events["is_instant"]]
    info = RunInfo(
        name=text_of(database.path.stem),
        source="file:rpd",
        started_ns=int(timed["ts"].min()) if len(timed) else None,
        ended_ns=int((timed["ts"] + timed["dur"]).max()) if len(timed) else None,
        options={"file_events": rows.num_rows},
        problems=problems.to_tuple(),
        build_s=time.perf_counter() - began,
    )
    frames = {"events": events, "counters": counters.to_frame()}
    return Trace(info, **frames, **build_syncs({"events": events}))


def _add_calls(database: Database, rows: Activities, strings: Mapping[int, str]) -> None:
    found = database.read("rocpd_api", ["id", "pid", "tid", "start", "end", "apiName_id", "args_id"])
    names = Texts.looked_up(found["apiName_id"], strings, "call without a name (string {})")
    is_marker = np.array([name == _MARKER for name in names.values] + [False])[names.codes]
    marks = Texts.looked_up(found["args_id"], strings)
    names = Texts(np.where(is_marker, marks.codes, -1), marks.values).filled(names)
    cats = Texts(np.where(is_marker, 0, 1).astype(np.int64), ["user_annotation", "hip_runtime"])
    ints = {"pid": found["pid"], "tid": found["tid"], "correlation_id": found["id"]}
    is_mark = is_marker & (found["start"] == found["end"]) & (found["start"] != MISSING)
    rows.add("rocpd_api", start=found["start"], end=found["end"], cat=cats, name=names, ints=ints, is_instant=is_mark)


def _add_work(database: Database, rows: Activities, strings: Mapping[int, str]) -> None:
    found = database.read("rocpd_op", ["id", "gpuId", "queueId", "start", "end", "description_id", "opType_id"])
    kinds = Texts.looked_up(found["opType_id"], strings, "unknown")
    names = Texts.looked_up(found["description_id"], strings)
    names = Texts(names.codes, names.values).mapped(lambda text: text or None).filled(kinds)
    names = names.mapped(demangler(names.values)).mapped(copy_name)
    cats = kinds.mapped(_category)
    calls = database.read("rocpd_api_ops", ["api_id", "op_id"])
    call_of = dict(zip(calls["op_id"].tolist(), calls["api_id"].tolist(), strict=True))
    device = found["gpuId"]
    if unknown := int((device < 0).sum()):
        rows.problems.add("device work without a device, taken as device 0", "rocpd_op", unknown)
    ints = {
        "device": np.maximum(device, 0),
        "stream": np.where(found["queueId"] < 0, MISSING, found["queueId"]),
        "correlation_id": _mapped(found["id"], call_of),
    }
    rows.add("rocpd_op", start=found["start"], end=found["end"], cat=cats, name=names, ints=ints)


def _category(kind: str) -> str:
    lower = kind.lower()
    if "copy" in lower:
        return "gpu_memcpy"
    return "gpu_memset" if "fill" in lower or "memset" in lower else "kernel"


def _mapped(keys: Ints, values: Mapping[int, int]) -> Ints:
    return np.array([values.get(key, MISSING) for key in keys.tolist()], np.int64)


def _counters(database: Database) -> CounterValues:
    """Return the readings of the GPUs: clocks, power, use."""
    found = database.read("rocpd_monitor", ["deviceId", "start"], ["monitorType", "deviceType", "value"])
    counters = CounterValues()
    columns = (found.objects(name) for name in ("monitorType", "deviceType", "value"))
    for ts, device, kind, of, value in zip(found["start"].tolist(), found["deviceId"].tolist(), *columns, strict=True):
        counters.add(ts, text_of(kind) or "reading", _number(value), process=f"{text_of(of) or 'device'} {device}")
    return counters


def _number(value: Any) -> Any:
    try:
        return float(value) if isinstance(value, str) and len(value) < 64 else value
    except ValueError:
        return None
