"""Run info from the top-level keys of a Chrome trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from cudalens.frames import DeviceInfo, RunInfo
from cudalens.frames.info import MAX_RANK
from cudalens.frames.lenient_json import text_of
from cudalens.frames.limits import Problems

if TYPE_CHECKING:
    from cudalens.traces.chrome.stream import EventStream

_FLAGS: Final = ("record_shapes", "with_stack", "profile_memory", "with_flops", "with_modules")
#: Kineto's keys for versions, and our names.
_VERSIONS: Final = {
    "cuda_runtime_version": "cuda_runtime",
    "cuda_driver_version": "cuda_driver",
    "cupti_version": "cupti",
    "hip_runtime_version": "hip_runtime",
    "hip_driver_version": "hip_driver",
    "roctracer_version": "roctracer",
    "rocprofiler_version": "rocprofiler",
    "torch_version": "torch",
    "pytorch_version": "torch",
}
VERSION_KEYS: Final = {name: key for key, name in reversed(_VERSIONS.items())}
#: Our key for the spec of the virtual device whose times these are.
SIMULATED_KEY: Final = "simulated"
#: Our key that marks a modelled device.
MODELLED_KEY: Final = "isModelled"
_KINETO_KEYS: Final = frozenset({"schemaVersion", "deviceProperties", "computeProperties", "baseTimeNanoseconds"})
_KINETO_CATEGORIES: Final = frozenset({"cpu_op", "cuda_runtime", "cuda_driver", "python_function"})
_MAX_JOB: Final = 1 << 18
_SUFFIXES: Final = (".gz", ".json", ".trace", ".pt")


def run_info(path: Path, stream: EventStream, events: pd.DataFrame, problems: Problems) -> RunInfo:
    """The run info in the file. ``options`` also holds ``file_events``, the number of entries of ``traceEvents``."""
    meta = stream.metadata
    is_kineto = bool(_KINETO_KEYS & meta.keys()) or bool(_KINETO_CATEGORIES & set(events["cat"].cat.categories))
    job = meta.get("distributedInfo")
    job = job if isinstance(job, dict) else {}
    timed = ~events["is_instant"].to_numpy()
    start = events["ts"].to_numpy()[timed]
    end = start + events["dur"].to_numpy()[timed]
    return RunInfo(
        name=_stem(path),
        source=_source(meta, is_kineto=is_kineto),
        started_ns=int(start.min()) if len(start) else None,
        ended_ns=int(end.max()) if len(end) else None,
        options={"file_events": stream.num_entries, **{flag: bool(meta[flag]) for flag in _FLAGS if flag in meta}},
        versions={name: text_of(meta[key]) for key, name in _VERSIONS.items() if _is_plain(meta.get(key))},
        devices=_devices(meta),
        host=next((text_of(meta[key]) for key in ("host_name", "hostname") if _is_plain(meta.get(key))), None),
        rank=_within(job.get("rank"), 0, MAX_RANK),
        world_size=_within(job.get("world_size"), 1, MAX_RANK + 1),
        problems=problems.to_tuple(),
        extra=_extra(job),
    )


def _extra(job: dict[str, Any]) -> dict[str, str]:
    """Other facts about the distributed job, as JSON text: backend, process groups, versions."""
    text = json.dumps(job, ensure_ascii=False)
    if len(text) > _MAX_JOB:
        text = json.dumps({key: value for key, value in job.items() if _is_plain(value)}, ensure_ascii=False)
    return {"distributedInfo": text_of(text)} if job and len(text) <= _MAX_JOB else {}


def _source(meta: dict[str, Any], *, is_kineto: bool) -> str:
    if isinstance(spec := meta.get(SIMULATED_KEY), str) and _is_plain(spec):
        return f"virtual:{text_of(spec)}"
    return "file:kineto" if is_kineto else "file:chrome"


def _stem(path: Path) -> str:
    name = path.name
    while (suffix := next((s for s in _SUFFIXES if name.lower().endswith(s)), None)) and len(name) > len(suffix):
        name = name[: -len(suffix)]
    return text_of(name.encode("utf-8", "replace").decode())


def _devices(meta: dict[str, Any]) -> tuple[DeviceInfo, ...]:
    listed = meta.get("deviceProperties", meta.get("computeProperties"))
    if not isinstance(listed, list):
        return ()
    return tuple(_device(i, facts) for i, facts in enumerate(listed) if isinstance(facts, dict))


def _device(position: int, facts: dict[str, Any]) -> DeviceInfo:
    index = _whole(facts.get("id"))
    major = _whole(facts.get("computeMajor", facts.get("major")))
    minor = _whole(facts.get("computeMinor", facts.get("minor")))
    return DeviceInfo(
        index=position if index is None else index,
        name=text_of(facts.get("name")),
        capability=None if major is None or minor is None else f"{major}.{minor}",
        total_memory_bytes=_whole(facts.get("totalGlobalMem")),
        num_sms=_whole(facts.get("numSms", facts.get("multiProcessorCount"))),
        is_modelled=facts.get(MODELLED_KEY) is True,
    )


def _whole(value: Any) -> int | None:
    """`value` if it is a 64-bit integer, else None."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
        value = int(value)
    fits = isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) < value < 1 << 63
    return value if fits else None


def _within(value: Any, least: int, most: int) -> int | None:
    number = _whole(value)
    return number if number is not None and least <= number <= most else None


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float) and len(str(value)) < 200 and value != ""
