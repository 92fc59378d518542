"""torch's raw Kineto results to columns, without its Python event lists.

Every getter is read once over all events with ``map``, in C; whatever a run cannot have recorded is not read at all.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.frames import GPU_CATEGORIES, RUNTIME_CATEGORIES, categorical, is_category, nullable
from cudalens.profiler import kineto
from cudalens.profiler.options import ProfilerOptions

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: What torch.profiler leaves out of its own events.
MEMORY_NAME: Final = "[memory]"
OOM_NAME: Final = "[OutOfMemory]"
HIDDEN_NAMES: Final = frozenset(
    {
        "profiler::_record_function_enter",
        "profiler::_record_function_enter_new",
        "profiler::_record_function_exit",
        "aten::is_leaf",
        "aten::output_nr",
        "aten::_version",
    }
)


#: Events whose getters are all read before the next are touched, so that they stay in the processor's cache.
_CHUNK: Final = 1024

#: 64 bits without a sign: torch gives all ones to the Python frames of threads that it did not record.
_INTS: Final = ("start_ns", "duration_ns", "device_resource_id", "correlation_id", "sequence_nr")
_THREADS: Final = ("start_thread_id", "end_thread_id")
_FLAGS: Final = ("is_async", "is_hidden_event")
_UNSIGNED: Final = frozenset({*_THREADS, "fwd_thread_id"})

_OTHER_THREADS: Final = "other Python threads"


@dataclass
class Read:
    """What was read of one run.

    Attributes:
        columns: Raw columns of the events, for `frames.build_events`; each of shape (n,).
        is_async: True for rows that began and ended on different threads, shape (n,); None where there are none.
        thread_numbers: torch's own number of each host thread, by tid; ``fwd_tid`` is such a number.
        memory: The raw events of the allocator, one per action.
    """

    columns: dict[str, Any]
    is_async: Bools | None
    thread_numbers: dict[int, int]
    memory: list[Any] = field(default_factory=list)


class Codes(dict[Any, int]):
    """Numbers values in order of appearance; ``codes[value]`` is the number, given on first sight."""

    def __missing__(self, value: Any) -> int:
        self[value] = number = len(self)
        return number


class EventReader:
    """Reads the getters of many raw events at once.

    Args:
        events: torch's raw events, all of one class.
    """

    def __init__(self, events: Sequence[Any]) -> None:
        self.events = events
        self._kind: Any = type(events[0]) if events else None

    def has(self, getter: str) -> bool:
        """Whether this build of torch has the getter."""
        return hasattr(self._kind, getter)

    def values(self, getter: str) -> Iterable[Any]:
        """The getter of each event, lazily."""
        return map(getattr(self._kind, getter), self.events) if self._kind else ()

    def ints(self, getter: str) -> Ints:
        """The getter of each event as int64."""
        return _numbers_of(getter, self.values(getter), np.int64, len(self.events))

    def scan(
        self, numbers: Iterable[str], texts: Mapping[str, Callable[[Any], Hashable] | None], dtype: type = np.int64
    ) -> tuple[dict[str, NDArray[Any]], dict[str, tuple[NDArray[np.int32], list[Any]]]]:
        """Many getters of all events, read a chunk of events at a time.

        Args:
            numbers: Getters of integers; those that this build lacks are left out.
            texts: Getters whose values repeat, each with what makes them hashable (None: they are).
            dtype: Of the integers.

        Returns:
            Each number getter's values, shape (n,); each text getter's codes, shape (n,), and distinct values.
        """
        n = len(self.events)
        ints: dict[str, NDArray[Any]] = {name: np.empty(n, dtype) for name in numbers if self.has(name)}
        codes = {name: (np.empty(n, np.int32), Codes()) for name in texts if self.has(name)}
        for begin in range(0, n, _CHUNK):
            chunk = self.events[begin : begin + _CHUNK]
            here = slice(begin, begin + len(chunk))
            for name, out in ints.items():
                out[here] = _numbers_of(name, map(getattr(self._kind, name), chunk), dtype, len(chunk))
            for name, (out, known) in codes.items():
                out[here] = _codes_of(known, getattr(self._kind, name), texts[name], chunk)
        return ints, {name: (out, list(known)) for name, (out, known) in codes.items()}


def _codes_of(
    known: Codes, getter: Callable[[Any], Any], hashable: Callable[[Any], Hashable] | None, events: Sequence[Any]
) -> NDArray[np.int32]:
    """The code of each event's text; `known` numbers the texts."""

    def codes(values: Iterable[Any]) -> NDArray[np.int32]:
        keys = values if hashable is None else map(hashable, values)
        return np.fromiter(map(known.__getitem__, keys), np.int32, len(events))

    try:
        return codes(map(getter, events))
    except UnicodeDecodeError:
        return codes(_decoded(getter, event) for event in events)


def _decoded(getter: Callable[[Any], Any], event: Any) -> Any:
    """The text of one event. torch hands over bytes that are not UTF-8 for some builtin functions: as escapes then."""
    try:
        return getter(event)
    except UnicodeDecodeError as error:
        return bytes(error.object).decode("utf-8", "backslashreplace")


def _numbers_of(getter: str, values: Iterable[Any], dtype: type, count: int) -> NDArray[Any]:
    """The values of one getter; all ones, the number of a thread that torch does not know, become -1."""
    if getter in _UNSIGNED:
        return np.fromiter(values, np.uint64, count).view(np.int64)
    return np.fromiter(values, dtype, count)


def read(raw: Any, options: ProfilerOptions, *, uses_cuda: bool) -> Read:
    """The columns of torch's raw results.

    Args:
        raw: torch's `_ProfilerResult`.
        options: What the run recorded.
        uses_cuda: Whether it recorded GPU work.
    """
    events = raw.events()
    reader = EventReader(events)
    ints, texts = reader.scan(_numbers(options, uses_cuda), _texts(reader, options))
    name_codes, names = texts.pop("name", (np.empty(0, np.int32), []))
    shown, of_memory = _shown(ints, name_codes, names)
    memory = [events[i] for i in np.flatnonzero(of_memory)]
    if not shown.all():
        ints = {name: values[shown] for name, values in ints.items()}
        texts = {name: (codes[shown], values) for name, (codes, values) in texts.items()}
        name_codes, events = name_codes[shown], list(compress(events, shown))
    name_codes, names = _distinct(name_codes, list(map(kineto.demangled, names)))
    columns = _columns(ints, texts, name_codes, names, options, uses_cuda=uses_cuda)
    columns |= _autograd(ints, events)
    threads = _thread_numbers(ints) if options.traces_python or "fwd_tid" in columns else {}
    return Read(columns, _async(ints), threads, memory)


def _numbers(options: ProfilerOptions, uses_cuda: bool) -> list[str]:
    return [
        *(_INTS + _THREADS + _FLAGS),
        *(("device_index", "linked_correlation_id") if uses_cuda else ()),
        *(("flops",) if options.flops else ()),
    ]


def _texts(reader: EventReader, options: ProfilerOptions) -> dict[str, Callable[[Any], Hashable] | None]:
    """Getters of text: the category's sources where the build does not tell it itself, JSON for what are lists."""
    texts: dict[str, Callable[[Any], Hashable] | None] = {"name": None}
    if reader.has("activity_type"):
        texts["activity_type"] = None
    else:
        texts |= {"device_type": str, "is_user_annotation": None, "is_python_function": None}
    if options.shapes or options.flops:
        to_json = msgspec.json.Encoder().encode
        texts[_shapes_getter(reader)] = to_json
        texts["dtypes"] = to_json
    return texts


def _shapes_getter(reader: EventReader) -> str:
    return "structured_input_shapes" if reader.has("structured_input_shapes") else "shapes"


def _columns(
    ints: dict[str, Ints],
    texts: dict[str, tuple[NDArray[np.int32], list[Any]]],
    name_codes: NDArray[np.int32],
    names: list[str],
    options: ProfilerOptions,
    *,
    uses_cuda: bool,
) -> dict[str, Any]:
    cat = _categories(texts, name_codes, names)
    on_device = is_category(cat, GPU_CATEGORIES) if uses_cuda else None
    columns = {
        "ts": ints.get("start_ns", np.empty(0, np.int64)),
        "dur": ints.get("duration_ns", np.empty(0, np.int64)),
        "name": categorical(name_codes, names),
        "cat": cat,
    }
    if not len(name_codes):
        return columns
    columns |= _places(ints, on_device) | _ids(ints, cat, uses_cuda=uses_cuda)
    for getter, column in (("structured_input_shapes", "shapes"), ("shapes", "shapes"), ("dtypes", "dtypes")):
        if getter in texts:
            columns[column] = _json_texts(*texts[getter])
    if options.flops:
        columns["flops"] = nullable(ints["flops"], ints["flops"] <= 0)
    return columns


def _shown(ints: dict[str, Ints], codes: NDArray[np.int32], names: list[str]) -> tuple[Bools, Bools]:
    """Which events torch shows as well, and which are the allocator's."""
    of_memory = np.array([name in (MEMORY_NAME, OOM_NAME) for name in names], bool)[codes]
    hidden = np.array([name in HIDDEN_NAMES for name in names], bool)[codes]
    if "is_hidden_event" in ints:
        hidden |= ints["is_hidden_event"] != 0
    return ~(of_memory | hidden), of_memory & ~hidden


def _async(ints: dict[str, Ints]) -> Bools | None:
    if "start_thread_id" not in ints:
        return None
    is_async = ints["start_thread_id"] != ints["end_thread_id"]
    if "is_async" in ints:
        is_async |= ints["is_async"] != 0
    return is_async if is_async.any() else None


def _thread_numbers(ints: dict[str, Ints]) -> dict[int, int]:
    """The number that torch gave each host thread, by tid."""
    pairs = pd.DataFrame({"tid": ints["device_resource_id"], "number": ints["start_thread_id"]}).drop_duplicates("tid")
    return dict(zip(pairs["tid"].tolist(), pairs["number"].tolist(), strict=True))


def factorized(values: Iterable[Any]) -> tuple[NDArray[np.int32], list[Any]]:
    """Codes into the distinct `values` in order of appearance, and those values."""
    known = Codes()
    codes = np.array([known[value] for value in values], np.int32)
    return codes, list(known)


def _distinct(codes: NDArray[np.int32], names: list[str]) -> tuple[NDArray[np.int32], list[str]]:
    """The same with only the names in use, each once."""
    used = np.flatnonzero(np.bincount(codes, minlength=len(names)))
    of_used, distinct = factorized(names[i] for i in used)
    new = np.full(len(names), -1, np.int32)
    new[used] = of_used
    return new[codes], distinct


_DERIVED: Final = [
    *("cpu_op", "user_annotation", "python_function", "cuda_runtime", "cuda_driver"),
    *("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "cuda_sync"),
]


def _categories(
    texts: dict[str, tuple[NDArray[np.int32], list[Any]]], name_codes: NDArray[np.int32], names: list[str]
) -> pd.Categorical:
    """Kineto's category of each event: by torch's word, or derived where this build does not tell."""
    if "activity_type" in texts:
        return categorical(*texts["activity_type"])
    if not len(name_codes):
        return categorical(name_codes, [])
    codes, types = texts["device_type"]
    on_host = np.array([t.endswith(".CPU") for t in types], bool)[codes]
    host = np.array([_DERIVED.index(_host_category(name)) for name in names], np.int32)[name_codes]
    device = np.array([_DERIVED.index(_device_category(name)) for name in names], np.int32)[name_codes]
    derived = np.where(on_host, host, device)
    for getter, there, here in (
        ("is_user_annotation", "gpu_user_annotation", "user_annotation"),
        ("is_python_function", "python_function", "python_function"),
    ):
        if getter in texts:
            codes, values = texts[getter]
            marked = np.array(values, bool)[codes]
            derived[marked & on_host] = _DERIVED.index(here)
            derived[marked & ~on_host] = _DERIVED.index(there)
    return categorical(derived, _DERIVED)


def _host_category(name: str) -> str:
    if name.startswith(("cuda", "hip")) and "::" not in name:
        return "cuda_runtime"
    return "cuda_driver" if name.startswith("cu") and name[2:3].isupper() else "cpu_op"


def _device_category(name: str) -> str:
    if name.startswith("Memcpy "):
        return "gpu_memcpy"
    if name.startswith("Memset "):
        return "gpu_memset"
    return "cuda_sync" if name in ("Context Sync", "Stream Sync", "Event Sync", "Stream Wait Event") else "kernel"


def _places(ints: dict[str, Ints], on_device: Bools | None) -> dict[str, Any]:
    """Where each event ran: thread of this process, or device and stream."""
    resource = ints["device_resource_id"]
    unknown = ints.get("start_thread_id", resource) == -1
    pid = np.full(len(resource), os.getpid(), np.int64)
    if on_device is None or not on_device.any():
        nowhere = np.zeros(len(resource), bool)
        labels = _thread_labels(resource, unknown, nowhere)
        return {"pid": nullable(pid, nowhere), "tid": nullable(resource, unknown), "thread": labels}
    index = ints["device_index"].astype(np.int32)
    on_host = ~on_device
    return {
        "device": nullable(np.where(on_host, np.int32(0), index), on_host),
        "stream": nullable(resource, on_host.copy()),
        "pid": nullable(pid, on_device),
        "tid": nullable(resource.copy(), on_device | unknown),
        "thread": _thread_labels(resource, unknown, on_device),
    }


def _thread_labels(tids: Ints, unknown: Bools, on_device: Bools) -> pd.Categorical:
    """The name of each host row's thread, missing for threads that are gone or have none of their own."""
    codes, distinct = pd.factorize(np.where(on_device | unknown, -1, tids))
    labels = {i: label for i, tid in enumerate(distinct) if (label := _thread_name(int(tid)))}
    of_label, texts = factorized([*labels.values(), _OTHER_THREADS])
    spread = np.full(len(distinct), -1, np.int32)
    spread[list(labels)] = of_label[:-1]
    return categorical(np.where(unknown & ~on_device, of_label[-1], spread[codes]), texts)


def _thread_name(tid: int) -> str | None:
    """Python's name of a thread, else the one that it gave the system (autograd's are ``pt_autograd_0`` and so on)."""
    for thread in threading.enumerate():
        if thread.native_id == tid:
            return thread.name
    task = Path("/proc/self/task")
    try:
        name = (task / str(tid) / "comm").read_text().strip()
        return name if name != (task / str(os.getpid()) / "comm").read_text().strip() else None
    except OSError:
        return None


def _ids(ints: dict[str, Ints], cat: pd.Categorical, *, uses_cuda: bool) -> dict[str, Any]:
    """CUPTI's correlation ids of GPU work and its launching calls; external ids, by which both name their op."""
    own = ints["correlation_id"]
    if not uses_cuda:
        return {"external_id": nullable(own, own <= 0)}
    of_cupti = is_category(cat, [*GPU_CATEGORIES, *RUNTIME_CATEGORIES])
    external = np.where(of_cupti, ints["linked_correlation_id"], own)
    return {
        "correlation_id": nullable(own, ~of_cupti | (own <= 0)),
        "external_id": nullable(external, external <= 0),
    }


def _autograd(ints: dict[str, Ints], events: list[Any]) -> dict[str, Any]:
    """Sequence numbers, and for backward functions torch's number of the thread of the forward op."""
    sequence = ints.get("sequence_nr", np.empty(0, np.int64))
    known = sequence >= 0
    if not known.any():
        return {}
    forward = np.zeros(len(sequence), np.int64)
    forward[known] = EventReader(list(compress(events, known))).ints("fwd_thread_id")
    return {
        "sequence_nr": nullable(np.where(known, sequence, 0), ~known),
        "fwd_tid": nullable(forward, forward <= 0),
    }


def _json_texts(codes: NDArray[np.int32], texts: list[bytes]) -> pd.Categorical:
    """JSON text, missing where the list is empty (an op without inputs, or nothing was recorded)."""
    new = np.array([-1 if text == b"[]" else 0 for text in texts], np.int32)
    new[new == 0] = np.arange((new == 0).sum())
    return categorical(new[codes], [text.decode() for text in texts if text != b"[]"])
