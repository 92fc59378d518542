"""Run info from the small tables of an nsys export: clock, host, devices, versions, threads."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

import msgspec
import pandas as pd

from cudalens.frames import DeviceInfo, RunInfo
from cudalens.frames.lenient_json import text_of
from cudalens.frames.limits import Problems
from cudalens.traces.chrome.values import MAX_NS, MISSING, Ints
from cudalens.traces.nsys.ids import Identities
from cudalens.traces.sqlite.activities import Texts
from cudalens.traces.sqlite.file import Database, Rows

#: The year 2001 in ns since the epoch: larger times count from the epoch already.
_EPOCH_SINCE: Final = 1_000_000_000_000_000_000
#: ENUM_DIAGNOSTIC_SEVERITY_LEVEL: warnings and errors.
_WARNINGS: Final = (2, 3)
#: Messages about the recording of GPU work are kept whatever their level.
_ABOUT_CUDA: Final = re.compile(r"(?i)\bcupti|\bno cuda events|cuda profiling|driver version")
_MAX_DIAGNOSTICS: Final = 100
#: The current table of GPUs, and the table before nsys 2021.5.
_GPU_TABLES: Final = ("TARGET_INFO_GPU", "TARGET_INFO_CUDA_GPU")
_VERSIONS: Final = {"CudaDriverVersion": "cuda_driver", "NvDriverVersion": "nvidia_driver"}


class Session:
    """Facts about the recording as a whole."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.meta = _pairs(database, "META_DATA_EXPORT")
        self.system = _pairs(database, "TARGET_INFO_SYSTEM_ENV")
        rows = database.read("ThreadNames", ["nameId", "globalTid"])
        self._thread_names = dict(zip(rows["globalTid"].tolist(), rows["nameId"].tolist(), strict=True))

    def base_ns(self, ts: Ints) -> int:
        """The offset from the file's times to the epoch, ns; 0 if unknown."""
        start = self._database.read("TARGET_INFO_SESSION_START_TIME", ["utcEpochNs"])["utcEpochNs"]
        if self.meta.get("EXPORT_PARAM_TIME_NORMALIZE", "").lower() == "true" or not len(start):
            return 0
        base, latest = int(start[0]), int(ts.max(initial=0))
        is_relative = latest < _EPOCH_SINCE and 0 < base < MAX_NS - latest
        return base if is_relative else 0

    def threads(self, thread: Ints, strings: Mapping[int, str]) -> Texts:
        """Names of threads by their global ids."""
        return Texts.joined(
            [thread], lambda t: strings.get(self._thread_names.get(t, MISSING), "") if t != MISSING else ""
        ).mapped(lambda name: name or None)


def run_info(
    database: Database,
    session: Session,
    ids: Identities,
    strings: Mapping[int, str],
    events: pd.DataFrame,
    problems: Problems,
) -> RunInfo:
    """The run info in the export. Environment variables in it are not read."""
    timed = events[~events["is_instant"]]
    versions = {name: session.system[key] for key, name in _VERSIONS.items() if session.system.get(key)}
    if version := session.meta.get("EXPORT_PRODUCT_VERSION"):
        versions["nsys"] = version
    if schema := session.meta.get("EXPORT_SCHEMA_VERSION"):
        versions["nsys_schema"] = schema
    extra = {"nsys_diagnostics": messages} if (messages := _diagnostics(database)) else {}
    if ids.renamed_streams:
        extra["renamed_streams"] = json.dumps(ids.renamed_streams)
    return RunInfo(
        name=text_of(database.path.stem),
        source="file:nsys",
        started_ns=int(timed["ts"].min()) if len(timed) else None,
        ended_ns=int((timed["ts"] + timed["dur"]).max()) if len(timed) else None,
        versions=versions,
        devices=_devices(database, ids),
        host=session.system.get("Hostname"),
        problems=problems.to_tuple(),
        extra=extra,
    )


def _pairs(database: Database, table: str) -> dict[str, str]:
    """A table of names and values, without values that are too long."""
    rows = database.read(table, [], ["name", "value"])
    found = zip(rows.objects("name"), rows.objects("value"), strict=True)
    return {text_of(name): text_of(value) for name, value in found if value is not None and len(str(value)) < 200}


def _diagnostics(database: Database) -> str:
    """Warnings and errors of nsys, and its messages about recording CUDA, as a JSON list; "" for none."""
    rows = database.read("DIAGNOSTIC_EVENT", ["severity"], ["text"])
    texts = zip(rows["severity"].tolist(), rows.objects("text"), strict=True)
    known = [(severity, text_of(text)[:500]) for severity, text in texts if text]
    kept = (text for severity, text in known if severity in _WARNINGS or _ABOUT_CUDA.search(text))
    found = list(dict.fromkeys(kept))
    return json.dumps(found[:_MAX_DIAGNOSTICS], ensure_ascii=False) if found else ""


def _devices(database: Database, ids: Identities) -> tuple[DeviceInfo, ...]:
    """The GPUs, with the device numbers of the events."""
    table = next((table for table in _GPU_TABLES if table in database.tables), _GPU_TABLES[0])
    numbers = ("id", "gpuId", "deviceId", "totalMemory", "smCount", "numMultiprocessors", "computeMajor")
    more = ("computeMinor", "computeCapabilityMajor", "computeCapabilityMinor")
    rows = database.read(table, (*numbers, *more), ["name"])
    found = {}
    for at, name in enumerate(rows.objects("name")):
        device = _device(rows, at, text_of(name))
        found[device.index] = device
    cuda = database.read("TARGET_INFO_CUDA_DEVICE", ["gpuId", "cudaId"])
    pairs = dict(zip(cuda["cudaId"].tolist(), cuda["gpuId"].tolist(), strict=True))
    if not pairs or ids.is_by_gpu:
        return tuple(device for _, device in sorted(found.items()))
    seen = {index: found[gpu] for index, gpu in pairs.items() if gpu in found}
    return tuple(msgspec.structs.replace(device, index=index) for index, device in sorted(seen.items()))


def _device(rows: Rows, at: int, name: str) -> DeviceInfo:
    def fact(*columns: str) -> int | None:
        known = (int(rows[column][at]) for column in columns if column in rows)
        return next((value for value in known if value >= 0), None)

    major, minor = fact("computeMajor", "computeCapabilityMajor"), fact("computeMinor", "computeCapabilityMinor")
    index = fact("id", "gpuId", "deviceId")
    return DeviceInfo(
        index=at if index is None else index,
        name=name,
        capability=None if major is None or minor is None else f"{major}.{minor}",
        total_memory_bytes=fact("totalMemory"),
        num_sms=fact("smCount", "numMultiprocessors"),
    )
