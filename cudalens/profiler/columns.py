"""torch's raw Kineto results to columns, without its Python event lists.

Every getter is read once over all events with ``map``, in C; whatever a run cannot have recorded is not read at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
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
"""What torch.profiler leaves out of its own events."""


@dataclass
class Read:
    """What was read of one run.

    Attributes:
        columns: Raw columns of the events, for `frames.build_events`; each of shape (n,).
        is_async: True for rows that began and ended on different threads, shape (n,); None where there are none.
        is_backward: True for rows that are a backward function of autograd, shape (n,); None where there are none.
        thread_key: torch's own number of the thread that a row began on, shape (n,).
        memory: The raw events of the allocator, one per action.
    """

    columns: dict[str, Any]
    is_async: Bools | None
    is_backward: Bools | None
    thread_key: Ints
    memory: list[Any] = field(default_factory=list)


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

    def values(self, getter: str, of: Sequence[Any] | None = None) -> Iterable[Any]:
        """The getter of each event, lazily."""
        return map(getattr(self._kind, getter), self.events if of is None else of) if self._kind else ()

    def ints(self, getter: str, of: Sequence[Any] | None = None) -> Ints:
        """The getter of each event as int64."""
        chosen = self.events if of is None else of
        return np.fromiter(self.values(getter, chosen), np.int64, len(chosen))

    def bools(self, getter: str) -> Bools:
        """The getter of each event as bool."""
        return np.fromiter(self.values(getter), bool, len(self.events))


def read(raw: Any, options: ProfilerOptions, *, uses_cuda: bool) -> Read:
    """The columns of torch's raw results.

    Args:
        raw: torch's `_ProfilerResult`.
        options: What the run recorded.
        uses_cuda: Whether it recorded GPU work.
    """
    name_codes, names, events, memory = _shown(raw.events())
    reader = EventReader(events)
    cat = _categories(reader, name_codes, names)
    on_device = is_category(cat, GPU_CATEGORIES) if uses_cuda else None
    columns = {
        "ts": reader.ints("start_ns"),
        "dur": reader.ints("duration_ns"),
        "name": categorical(name_codes, names),
        "cat": cat,
    }
    columns |= _places(reader, on_device)
    columns |= _ids(reader, cat, uses_cuda=uses_cuda)
    is_backward, autograd = _autograd(reader)
    columns |= autograd
    columns |= _inputs(reader, cat, options)
    first_thread = reader.ints("start_thread_id")
    is_async = first_thread != reader.ints("end_thread_id")
    if reader.has("is_async"):
        is_async |= reader.bools("is_async")
    return Read(columns, is_async if is_async.any() else None, is_backward, first_thread, memory)


def factorized(values: Iterable[Any]) -> tuple[NDArray[np.int32], list[Any]]:
    """Codes into the distinct `values` in order of appearance, and those values."""
    seen: dict[Any, int] = {}
    add = seen.setdefault
    codes = np.array([add(value, len(seen)) for value in values], np.int32)
    return codes, list(seen)


def _shown(events: list[Any]) -> tuple[NDArray[np.int32], list[str], list[Any], list[Any]]:
    """Name codes, names and events that torch shows as well, and apart from them the allocator's events."""
    reader = EventReader(events)
    codes, names = factorized(reader.values("name"))
    of_memory = np.isin(codes, [i for i, name in enumerate(names) if name in (MEMORY_NAME, OOM_NAME)])
    drop = of_memory | np.isin(codes, [i for i, name in enumerate(names) if name in HIDDEN_NAMES])
    if events and reader.has("is_hidden_event"):
        drop |= reader.bools("is_hidden_event")
    memory = [events[i] for i in np.flatnonzero(of_memory)]
    if drop.any():
        events = [events[i] for i in np.flatnonzero(~drop)]
        codes = codes[~drop]
    return *_distinct(codes, list(map(kineto.demangled, names))), events, memory


def _distinct(codes: NDArray[np.int32], names: list[str]) -> tuple[NDArray[np.int32], list[str]]:
    """The same with only the names in use, each once."""
    used = np.flatnonzero(np.bincount(codes, minlength=len(names)))
    of_used, distinct = factorized(names[i] for i in used)
    new = np.full(len(names), -1, np.int32)
    new[used] = of_used
    return new[codes], distinct


def _categories(reader: EventReader, name_codes: NDArray[np.int32], names: list[str]) -> pd.Categorical:
    """Kineto's category of each event: by torch's word, or derived where this build does not tell."""
    if reader.has("activity_type"):
        return categorical(*factorized(reader.values("activity_type")))
    on_host = np.fromiter((str(t).endswith(".CPU") for t in reader.values("device_type")), bool, len(reader.events))
    user = reader.bools("is_user_annotation") if reader.has("is_user_annotation") else np.zeros(len(on_host), bool)
    python = reader.bools("is_python_function") if reader.has("is_python_function") else np.zeros(len(on_host), bool)
    known = ["cpu_op", "user_annotation", "python_function", "cuda_runtime", "cuda_driver", "kernel", "gpu_memcpy"]
    known += ["gpu_memset", "gpu_user_annotation", "cuda_sync"]
    host = np.array([known.index(_host_category(name)) for name in names], np.int32)[name_codes]
    device = np.array([known.index(_device_category(name)) for name in names], np.int32)[name_codes]
    codes = np.where(on_host, host, device)
    codes[on_host & user] = known.index("user_annotation")
    codes[~on_host & user] = known.index("gpu_user_annotation")
    codes[on_host & python] = known.index("python_function")
    return categorical(codes, known)


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


def _places(reader: EventReader, on_device: Bools | None) -> dict[str, Any]:
    """Where each event ran: thread of this process, or device and stream."""
    resource = reader.ints("device_resource_id")
    nowhere = np.zeros(len(resource), bool)
    pid = np.full(len(resource), os.getpid(), np.int64)
    if on_device is None or not on_device.any():
        return {"pid": nullable(pid, nowhere), "tid": nullable(resource, nowhere.copy())}
    index = reader.ints("device_index").astype(np.int32)
    on_host = ~on_device
    return {
        "device": nullable(np.where(on_host, np.int32(0), index), on_host),
        "stream": nullable(resource, on_host.copy()),
        "pid": nullable(pid, on_device),
        "tid": nullable(resource.copy(), on_device.copy()),
    }


def _ids(reader: EventReader, cat: pd.Categorical, *, uses_cuda: bool) -> dict[str, Any]:
    """CUPTI's correlation ids of GPU work and its launching calls; external ids, by which both name their op."""
    own = reader.ints("correlation_id")
    if not uses_cuda:
        return {"external_id": nullable(own, own <= 0)}
    of_cupti = is_category(cat, [*GPU_CATEGORIES, *RUNTIME_CATEGORIES])
    external = np.where(of_cupti, reader.ints("linked_correlation_id"), own)
    return {
        "correlation_id": nullable(own, ~of_cupti | (own <= 0)),
        "external_id": nullable(external, external <= 0),
    }


def _autograd(reader: EventReader) -> tuple[Bools | None, dict[str, Any]]:
    """Sequence numbers, and for backward functions the thread of the forward op."""
    sequence = reader.ints("sequence_nr")
    rows = np.flatnonzero(sequence >= 0)
    if not len(rows):
        return None, {}
    chosen = [reader.events[i] for i in rows]
    forward = np.zeros(len(sequence), np.int64)
    forward[rows] = reader.ints("fwd_thread_id", chosen)
    is_backward = np.zeros(len(sequence), bool)
    is_backward[rows] = reader.ints("scope", chosen) == 1
    return is_backward if is_backward.any() else None, {
        "sequence_nr": nullable(np.maximum(sequence, 0), sequence < 0),
        "fwd_tid": nullable(forward, forward <= 0),
    }


def _inputs(reader: EventReader, cat: pd.Categorical, options: ProfilerOptions) -> dict[str, Any]:
    """Shapes, dtypes and flops of the operators, where the run recorded them."""
    columns: dict[str, Any] = {}
    if options.shapes or options.flops:
        rows = np.flatnonzero(is_category(cat, ["cpu_op"]))
        chosen = [reader.events[i] for i in rows]
        getter = "structured_input_shapes" if reader.has("structured_input_shapes") else "shapes"
        columns["shapes"] = _json_texts(reader.values(getter, chosen), rows, len(cat))
        columns["dtypes"] = _json_texts(reader.values("dtypes", chosen), rows, len(cat))
    if options.flops:
        flops = reader.ints("flops")
        columns["flops"] = nullable(flops, flops <= 0)
    return columns


def _json_texts(values: Iterable[Any], rows: Ints, n: int) -> pd.Categorical:
    """Lists as JSON text, missing where the list is empty (an op without inputs, or nothing was recorded)."""
    encode: Callable[[Any], bytes] = msgspec.json.Encoder().encode
    codes, texts = factorized(map(encode, values))
    spread = np.full(n, -1, np.int32)
    spread[rows] = codes
    if b"[]" in texts:
        empty = texts.index(b"[]")
        spread[spread == empty] = -1
        spread[spread > empty] -= 1
        texts.remove(b"[]")
    return categorical(spread, [text.decode() for text in texts])
