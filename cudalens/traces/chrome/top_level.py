"""What a Chrome trace holds beside ``traceEvents``: the run info, and frames that its events cannot represent.

The key ``cudalens`` holds the output of `Trace.save` without the events, as base64. Viewers ignore it. Our reader
restores races, graphs, blocks, syncs and metrics exactly from it, and the allocator's history if the ``[memory]``
instants do not hold all of it. The value is untrusted and gets the same checks as a file.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pandas as pd

from cudalens.errors import TraceFormatError
from cudalens.frames import DeviceInfo, RunInfo, Trace, columns_of, empty_frame
from cudalens.frames.build import merge_stacks
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


KEY: Final = "cudalens"
_CHROME_ACTIONS: Final = ("alloc", "free_completed", "oom")
_CHROME_COLUMNS: Final = frozenset(
    {"ts", "action", "device_type", "device", "addr", "num_bytes", "allocated_bytes", "reserved_bytes", "pid", "tid"}
    | {"event"}
)


class _Extra(msgspec.Struct, forbid_unknown_fields=True):
    """The value of `KEY`."""

    num_events: int
    frames: str


def extra_frames(trace: Trace) -> dict[str, Any] | None:
    """Return the value of `KEY` for `trace`; None if its events and allocations hold everything."""
    frames = trace.frames
    kept = {name: frame for name, frame in frames.items() if name not in ("events", "stacks", "memory") and len(frame)}
    # Blocks refer to rows of the allocator's history, so the two are stored together.
    kept |= {} if _is_in_instants(frames["memory"]) and "blocks" not in kept else {"memory": frames["memory"]}
    if not kept and trace.info.judged is None:
        return None
    named = [frame[c.name].dropna() for name, frame in kept.items() for c in columns_of(name) if c.names == "stacks"]
    used = np.unique(np.concatenate([ids.to_numpy(np.int64) for ids in named])).tolist() if named else []
    if used:
        kept["stacks"] = frames["stacks"][frames["stacks"]["stack"].isin(used)]
    every = {name: kept.get(name, empty_frame(name)) for name in frames}
    from cudalens.frames import store  # imports pyarrow: on first use

    sink = io.BytesIO()
    store.write(RunInfo(name="", source="file:kineto", judged=trace.info.judged), every, sink)
    return {"num_events": len(trace), "frames": base64.b64encode(sink.getvalue()).decode()}


def _is_in_instants(memory: pd.DataFrame) -> bool:
    """Return whether ``[memory]`` instants hold all of `memory`."""
    if not memory["action"].isin(_CHROME_ACTIONS).all():
        return False
    return bool(memory[[name for name in memory.columns if name not in _CHROME_COLUMNS]].isna().all(axis=None))


def with_extra_frames(
    path: str | os.PathLike[str], frames: dict[str, pd.DataFrame], value: Any, problems: Problems
) -> tuple[dict[str, pd.DataFrame], RunInfo | None]:
    """Add the frames under `KEY` to `frames` of a Chrome trace; also returns the run info stored there, or None.

    Args:
        path: The file, for messages.
        frames: ``events``, ``memory``, ``stacks`` and frames derived from them.
        value: The value of `KEY`.
        problems: Counts what is wrong with the value; `frames` are unchanged then.
    """
    from cudalens.frames import store  # imports pyarrow: on first use

    try:
        extra = msgspec.convert(value, _Extra)
        data = io.BytesIO(base64.b64decode(extra.frames, validate=True))
        if extra.num_events != len(frames["events"]):
            raise ValueError(f"it is about {extra.num_events} events, the file has {len(frames['events'])}")
        info, found = store.load(path, file=data, num_events=extra.num_events)
    except (msgspec.ValidationError, binascii.Error, ValueError, TraceFormatError) as error:
        problems.add("frames of cudalens that cannot be read", f"key '{KEY}': {error}"[:300])
        return frames, None
    kept = {name: frame for name, frame in found.items() if len(frame) and name not in ("events", "stacks")}
    return frames | _with_stacks(frames["stacks"], kept, found["stacks"]), info


Frames = dict[str, pd.DataFrame]


def _with_stacks(stacks: pd.DataFrame, frames: Frames, theirs: pd.DataFrame) -> Frames:
    """`frames`, whose stack ids refer to `theirs`, renumbered for `stacks`; new stacks are added to `stacks`."""
    known = {entries: number for number, entries in _entries(stacks).items()}
    first_free = int(stacks["stack"].max()) + 1 if len(stacks) else 0
    of_theirs = _entries(theirs)
    numbers = {number: known.setdefault(entries, first_free + number) for number, entries in of_theirs.items()}
    fresh = [number for number, moved in numbers.items() if moved == first_free + number]
    moved = {name: _renumbered(frame, name, numbers) for name, frame in frames.items()}
    if not fresh:
        return moved | {"stacks": stacks}
    part = theirs[theirs["stack"].isin(fresh)]
    return moved | {"stacks": merge_stacks(stacks, part.assign(stack=part["stack"].map(numbers).astype("int64")))}


def _entries(stacks: pd.DataFrame) -> dict[int, tuple[Any, ...]]:
    """Return the entries of each stack, by its number."""
    found: dict[int, list[Any]] = {}
    columns = [stacks[name].astype(object) for name in ("file", "line", "first_line", "function", "extra")]
    plain = [column.where(column.notna(), None).tolist() for column in columns]
    for number, *entry in zip(stacks["stack"].tolist(), *plain, strict=True):
        found.setdefault(number, []).append(tuple(entry))
    return {number: tuple(entries) for number, entries in found.items()}


def _renumbered(frame: pd.DataFrame, name: str, numbers: dict[int, int]) -> pd.DataFrame:
    links = [c.name for c in columns_of(name) if c.names == "stacks"]
    return frame.assign(**{link: frame[link].map(numbers, na_action="ignore").astype("Int64") for link in links})
