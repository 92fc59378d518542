"""Turn the GPU packets of Perfetto traces into records and values of counters: render stages and hardware counters.

PyTorch's profiler (``.pftrace``) and Perfetto's CUDA and HIP producers write device work as ``GpuRenderStageEvent``
packets: a stage is the kind of the work, a hardware queue is its stream, and a kernel has its launch parameters. A
host call names the stages that it launched; a stage of a CUDA graph names the stages that it waited for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from cudalens.frames.counters import CounterValues
from cudalens.traces.chrome.assemble import RecordTrace, args_of
from cudalens.traces.chrome.records import Record
from cudalens.traces.protobuf.schema import Schema, text

#: The messages of GPU packets, as `cudalens.traces.protobuf.perfetto` combines them with its own.
GPU_SCHEMA: Final[Schema] = {
    "GpuRenderStageEvent": {
        "event_id": (1, "uint64"),
        "duration": (2, "uint64"),
        "hw_queue_id": (3, "int32"),
        "stage_id": (4, "int32"),
        "extra_data": (6, "*ExtraData"),
        "specifications": (7, "Specifications"),
        "gpu_id": (11, "int32"),
        "hw_queue_iid": (13, "uint64"),
        "stage_iid": (14, "uint64"),
        "name": (17, "bytes"),
        "event_wait_ids": (18, "*uint64"),
        "kernel_iid": (19, "uint64"),
        "name_iid": (20, "uint64"),
        "launch": (21, "KernelLaunch"),
    },
    "ExtraData": {"name": (1, "bytes"), "value": (2, "bytes")},
    "Specifications": {"hw_queue": (2, "*Description"), "stage": (3, "*Description")},
    "Description": {"name": (1, "bytes")},
    "KernelLaunch": {"grid_size": (1, "Dim3"), "workgroup_size": (2, "Dim3"), "args": (3, "*ComputeArg")},
    "Dim3": {"x": (1, "uint32"), "y": (2, "uint32"), "z": (3, "uint32")},
    "ComputeArg": {
        "name_iid": (1, "uint64"),
        "name": (2, "bytes"),
        "int_value": (3, "int64"),
        "uint_value": (4, "uint64"),
    },
    "StageSpecification": {"iid": (1, "uint64"), "text": (2, "bytes")},
    "ComputeKernel": {"iid": (1, "uint64"), "name": (2, "bytes"), "text": (3, "bytes")},
    "GpuCounterEvent": {
        "counter_descriptor": (1, "CounterDescriptors"),
        "counters": (2, "*GpuCounter"),
        "gpu_id": (3, "int32"),
        "counter_descriptor_iid": (4, "uint64"),
    },
    "GpuCounter": {"counter_id": (1, "uint32"), "int_value": (2, "int64"), "double_value": (3, "double")},
    "CounterDescriptors": {"specs": (1, "*CounterSpec")},
    "CounterSpec": {"counter_id": (1, "uint32"), "name": (2, "bytes")},
    "InternedCounters": {
        "iid": (1, "uint64"),
        "counter_descriptor": (2, "CounterDescriptors"),
        "gpu_id": (3, "int32"),
    },
    "GpuCorrelation": {"render_stage_submission_event_ids": (1, "*uint64")},
}
#: Fields of InternedData with the names of stages, kernels and arguments.
GPU_TABLES: Final = ("gpu_specifications", "compute_kernels", "compute_arg_names")

_NUMBER: Final = re.compile(r"(?:stream|queue|channel)\W*(\d{1,18})|\[(\d{1,18})\]|(\d{1,18})", re.IGNORECASE)
#: Categories by what the name of a stage contains; other stages are kernels.
_CATEGORIES: Final = (
    (re.compile(r"(?i)memset"), "gpu_memset"),
    (re.compile(r"(?i)memcpy|\bcopy|transfer"), "gpu_memcpy"),
    (re.compile(r"(?i)host ?(?:node|fn|func)|annotation|event ?record|marker"), "gpu_user_annotation"),
)
#: Kineto's names of arguments, by the names in the launch and the extra data of a stage.
_ARGS: Final = {
    "registers_per_thread": "registers per thread",
    "bytes": "bytes",
    "graph id": "graph id",
    "graph node id": "graph node id",
}
_SHARED: Final = ("shared_mem_static", "shared_mem_dynamic")
_MAX_CHAIN: Final = 10_000
_MAX_NS: Final = (1 << 62) - 1


@dataclass
class _Stage:
    ts: int
    dur: int
    event_id: int
    gpu: int
    queue: str
    number: int
    name: str
    cat: str
    args: dict[str, Any]
    waits: tuple[int, ...]


@dataclass
class CounterNames:
    """Names of hardware counters by number, of one GPU or of all.

    Attributes:
        gpu: The GPU; None if events name it.
        names: Name of each counter by its number.
    """

    gpu: int | None = None
    names: dict[int, str] = field(default_factory=dict)

    def add(self, descriptor: Any) -> None:
        """Keep the names in a GpuCounterDescriptor message."""
        self.names.update((spec.counter_id, text(spec.name)) for spec in descriptor.specs)


class GpuStages:
    """Collects render stages and the values of hardware counters."""

    def __init__(self) -> None:
        self._stages: list[_Stage] = []
        self._launched_by: dict[int, int] = {}
        self._queues: list[str] = []
        self._kinds: list[str] = []
        self._counters = CounterNames()
        self._values: list[tuple[int, str, int | None, float]] = []

    def __len__(self) -> int:
        """Number of render stages."""
        return len(self._stages)

    def link(self, event_ids: list[int], correlation: int) -> None:
        """Note which call launched stages, by a number of that call."""
        self._launched_by.update(dict.fromkeys(event_ids, correlation))

    def take_stage(self, ts: int, event: Any, texts: dict[str, dict[int, str]]) -> None:
        """Keep a GpuRenderStageEvent message; `texts` are the interned ones of its sequence."""
        if event.HasField("specifications"):
            self._queues = [text(one.name) for one in event.specifications.hw_queue]
            self._kinds = [text(one.name) for one in event.specifications.stage]
        specs = texts["gpu_specifications"]
        queue = specs.get(event.hw_queue_iid) or _item(self._queues, event.hw_queue_id, event.HasField("hw_queue_id"))
        kind = specs.get(event.stage_iid) or _item(self._kinds, event.stage_id, event.HasField("stage_id"))
        if not event.event_id and not event.duration and not kind:
            return  # only specifications
        extra = {text(one.name): text(one.value) for one in event.extra_data}
        cat = "kernel" if event.kernel_iid else _category(kind)
        label = text(event.name) or texts["compute_kernels"].get(event.kernel_iid, "")
        label = label or texts["event_names"].get(event.name_iid, "") or kind or "render stage"
        if extra.get("host fn"):
            label = f"host function {extra['host fn']}"
        number = _queue_number(queue, event.hw_queue_iid or event.hw_queue_id)
        args = _args_of_stage(event, extra, texts["compute_arg_names"])
        waits = tuple(event.event_wait_ids)
        dur = min(event.duration, _MAX_NS)
        self._stages.append(_Stage(ts, dur, event.event_id, event.gpu_id, queue, number, label, cat, args, waits))

    def take_counters(self, ts: int, event: Any, interned: dict[int, CounterNames]) -> None:
        """Keep a GpuCounterEvent message."""
        if event.HasField("counter_descriptor"):
            self._counters.add(event.counter_descriptor)
        known = interned.get(event.counter_descriptor_iid, self._counters)
        gpu = known.gpu
        if gpu is None and event.HasField("gpu_id"):
            gpu = event.gpu_id
        for one in event.counters:
            value = one.double_value if one.HasField("double_value") else one.int_value
            name = known.names.get(one.counter_id) or f"GPU counter {one.counter_id}"
            self._values.append((ts, name, gpu, value))

    def add_to(self, trace: RecordTrace, counters: CounterValues) -> None:
        """Give the stages to `trace`, and the values to `counters`."""
        by_id = {stage.event_id: stage for stage in self._stages}
        records = [self._record(stage, by_id) for stage in self._stages]
        ts = np.array([min(max(stage.ts, -_MAX_NS), _MAX_NS) for stage in self._stages], np.int64)
        dur = np.array([stage.dur for stage in self._stages], np.int64)
        trace.add(records, ts, dur, "render stages")
        for at, name, gpu, value in sorted(self._values, key=lambda one: one[0]):
            counters.add(at, name, value, process=None if gpu is None else f"GPU {gpu}")

    def _record(self, stage: _Stage, by_id: dict[int, _Stage]) -> Record:
        args = {"device": stage.gpu, "stream": stage.number, **stage.args}
        args.setdefault("correlation", self._launch_of(stage, by_id))
        known = {key: value for key, value in args.items() if value is not None}
        return Record(
            ph="X", cat=stage.cat, name=stage.name, pid=stage.gpu, tid=stage.number, args=args_of(known)
        )  # fmt: skip

    def _launch_of(self, stage: _Stage, by_id: dict[int, _Stage]) -> int | None:
        """The number of the call that launched a stage, or that launched the first stage that it waits for."""
        seen = 0
        while stage.event_id not in self._launched_by and stage.waits and seen < _MAX_CHAIN:
            before = by_id.get(stage.waits[0])
            if before is None:
                break
            stage, seen = before, seen + 1
        return self._launched_by.get(stage.event_id)


def _item(names: list[str], number: int, is_given: bool) -> str:
    return names[number] if is_given and 0 <= number < len(names) else ""


def _category(kind: str) -> str:
    return next((cat for pattern, cat in _CATEGORIES if pattern.search(kind)), "kernel")


def _queue_number(queue: str, iid: int) -> int:
    """The number of a stream from the name of its queue, else the number of the queue."""
    found = _NUMBER.search(queue)
    number = next((int(group) for group in found.groups() if group), iid) if found else iid
    return number if number < 1 << 62 else 0


def _args_of_stage(event: Any, extra: dict[str, str], names: dict[int, str]) -> dict[str, Any]:
    """The arguments of a stage, by Kineto's names."""
    found: dict[str, Any] = {}
    given: dict[str, Any] = dict(extra)
    if event.HasField("launch"):
        launch = event.launch
        for key, size in (("grid", launch.grid_size), ("block", launch.workgroup_size)):
            found[key] = [size.x or 1, size.y or 1, size.z or 1]
        for one in launch.args:
            value = one.uint_value if one.HasField("uint_value") else one.int_value
            given[text(one.name) or names.get(one.name_iid, "")] = value
    for key, name in _ARGS.items():
        if (value := _integer(given.get(key))) is not None:
            found[name] = value
    shared = [value for key in _SHARED if (value := _integer(given.get(key))) is not None]
    if shared:
        found["shared memory"] = sum(shared)
    if correlation := _integer(given.get("correlation")):
        found["correlation"] = correlation
    return found


def _integer(value: Any) -> int | None:
    """`value` as a number that fits into 64 bits; None if it is not one."""
    try:
        number = int(value)
    except (TypeError, ValueError):
        return None
    return number if 0 <= number < 1 << 63 else None
