"""torch's raw Kineto results to columns, without its Python event lists.

Every getter is read once over all events with ``map``, in C; whatever a run cannot have recorded is not read at all.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.frames import GPU_CATEGORIES, RUNTIME_CATEGORIES, categorical, is_category, nullable
from cudalens.frames.column_arrays import Bools, Ints
from cudalens.frames.limits import Problems
from cudalens.profiler import kineto
from cudalens.profiler.getters import (
    CATEGORY_SOURCES,
    MISSING,
    Coded,
    EventReader,
    categories,
    factorized,
    with_damage_marked,
)
from cudalens.profiler.kineto import ProfilerOptions

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

_INTS: Final = ("start_ns", "duration_ns", "device_resource_id", "correlation_id", "sequence_nr")
_THREADS: Final = ("start_thread_id", "end_thread_id")
_FLAGS: Final = ("is_async", "is_hidden_event")

#: No event begins or ends later than this after its results are read: the clock may have been set back in between.
_SLACK_NS: Final = 24 * 3600 * 10**9

MAX_INT32: Final = (1 << 31) - 1
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


def read(raw: Any, options: ProfilerOptions, problems: Problems, *, uses_cuda: bool) -> Read:
    """Return the columns of torch's raw results.

    A value that cannot be read or cannot be right is missing, and counted; only an event without a start is left out.

    Args:
        raw: torch's `_ProfilerResult`.
        options: What the run recorded.
        problems: Where damage is counted.
        uses_cuda: Whether it recorded GPU work.
    """
    events = raw.events()
    reader = EventReader(events, problems)
    ints, texts = reader.scan(_numbers(options, uses_cuda), _texts(reader, options))
    name_codes, names = texts.pop("name")
    shown, of_memory = _shown(ints, name_codes, names)
    memory = [events[i] for i in np.flatnonzero(of_memory)]
    shown &= has_start(ints["start_ns"], shown, problems)
    if not shown.all():
        ints = {name: values[shown] for name, values in ints.items()}
        texts = {name: (codes[shown], values) for name, (codes, values) in texts.items()}
        name_codes, events = name_codes[shown], list(compress(events, shown))
    cat = categories(texts, name_codes, names)
    named = with_damage_marked(
        name_codes, list(map(kineto.demangled, names)), is_category(cat, ("python_function",)), problems
    )
    columns = {"ts": ints["start_ns"], "dur": _durations(ints, problems), "name": categorical(*named), "cat": cat}
    if len(cat):
        columns |= _facts(ints, texts, cat, problems, uses_cuda=uses_cuda) | _autograd(ints, events, problems)
    if options.stacks and hasattr(raw, "experimental_event_tree"):
        is_python = is_category(cat, ("python_function",))
        columns["call_line"] = call_lines(raw, ints["start_ns"], ints["start_thread_id"], is_python)
    threads = _thread_numbers(ints) if options.traces_python or "fwd_tid" in columns else {}
    return Read(columns, _async(ints), threads, memory)


def _numbers(options: ProfilerOptions, uses_cuda: bool) -> list[str]:
    return [
        *(_INTS + _THREADS + _FLAGS),
        *(("device_index", "linked_correlation_id") if uses_cuda else ()),
        *(("flops",) if options.flops else ()),
    ]


def _texts(reader: EventReader, options: ProfilerOptions) -> list[str]:
    """The getters of repeated values; the category's sources where the build does not have the category itself."""
    has_category = reader.has("activity_type") or not reader.events
    texts = ["name", *(("activity_type",) if has_category else CATEGORY_SOURCES)]
    if options.shapes or options.flops:
        texts += ["structured_input_shapes" if reader.has("structured_input_shapes") else "shapes", "dtypes"]
    return texts


def has_start(start: Ints, wanted: Bools, problems: Problems) -> Bools:
    """Whether each event has a start that can be right; those of the `wanted` ones that have none are counted."""
    usable: Bools = (start > 0) & (start < time.time_ns() + _SLACK_NS)
    if num_lost := int((wanted & ~usable).sum()):
        problems.add("event without a usable start", f"event {int(np.argmax(wanted & ~usable)) + 1}", num_lost)
    return usable


def _durations(ints: dict[str, Ints], problems: Problems) -> Ints:
    """Return the durations; 0 in place of those that cannot be right, which are counted."""
    dur = ints["duration_ns"]
    wrong = (dur < 0) | (dur > time.time_ns() + _SLACK_NS - ints["start_ns"])
    if num_wrong := int((wrong & (dur != MISSING)).sum()):
        at = f"{int(dur[wrong & (dur != MISSING)][0])} ns"
        problems.add("impossible duration, taken as length 0", at, num_wrong)
    return np.where(wrong, 0, dur)


def _facts(
    ints: dict[str, Ints], texts: dict[str, Coded], cat: pd.Categorical, problems: Problems, *, uses_cuda: bool
) -> dict[str, Any]:
    """Return where each event ran, its ids, and what was recorded of its inputs."""
    on_device = is_category(cat, GPU_CATEGORIES) if uses_cuda else np.zeros(len(cat), bool)
    columns = _places(ints, on_device, problems) | _ids(ints, cat, uses_cuda=uses_cuda)
    for getter, column in (("structured_input_shapes", "shapes"), ("shapes", "shapes"), ("dtypes", "dtypes")):
        if getter in texts:
            columns[column] = _json_texts(*texts[getter])
    if "flops" in ints:
        columns["flops"] = nullable(ints["flops"], ints["flops"] <= 0)
    return columns


def _shown(ints: dict[str, Ints], codes: NDArray[np.int32], names: list[str]) -> tuple[Bools, Bools]:
    """Return which events torch shows as well, and which are the allocator's."""
    of_memory = np.array([name in (MEMORY_NAME, OOM_NAME) for name in names], bool)[codes]
    hidden = np.array([name in HIDDEN_NAMES for name in names], bool)[codes] | (ints["is_hidden_event"] != 0)
    return ~(of_memory | hidden), of_memory & ~hidden


def _async(ints: dict[str, Ints]) -> Bools | None:
    start, end = ints["start_thread_id"], ints["end_thread_id"]
    is_async = (start != end) & (start != MISSING) & (end != MISSING)
    is_async |= ints["is_async"] != 0
    return is_async if is_async.any() else None


def _thread_numbers(ints: dict[str, Ints]) -> dict[int, int]:
    """Return the number that torch gave each host thread, by tid."""
    pairs = pd.DataFrame({"tid": ints["device_resource_id"], "number": ints["start_thread_id"]})
    pairs = pairs[(pairs != MISSING).all(axis=1)].drop_duplicates("tid")
    return dict(zip(pairs["tid"].tolist(), pairs["number"].tolist(), strict=True))


def _places(ints: dict[str, Ints], on_device: Bools, problems: Problems) -> dict[str, Any]:
    """Return where each event ran: thread of this process, or device and stream."""
    resource = ints["device_resource_id"]
    has_none = resource == MISSING
    unknown = (ints["start_thread_id"] == -1) | has_none
    places = {
        "pid": nullable(np.full(len(resource), os.getpid(), np.int64), on_device),
        "tid": nullable(resource, on_device | unknown),
        "thread": _thread_labels(resource, unknown, on_device),
    }
    if on_device.any():
        index = ints["device_index"]
        wrong = (index < 0) | (index > MAX_INT32)
        if (num_wrong := int((wrong & on_device).sum())) > 0:
            problems.add("device work without a device, taken as device 0", "device_index", num_wrong)
        device = np.where(wrong, 0, index).astype(np.int32)
        places |= {"device": nullable(device, ~on_device), "stream": nullable(resource.copy(), ~on_device | has_none)}
    return places


def _thread_labels(tids: Ints, unknown: Bools, on_device: Bools) -> pd.Categorical:
    """Return the name of each host row's thread, missing for threads that are gone or have none of their own."""
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
    try:
        name = _system_name(tid)
        return name if name != _system_name(os.getpid()) else None
    except OSError:
        return None


def _system_name(tid: int) -> str:
    """Return the system's name of a thread, which it cuts after 15 bytes, also within a character."""
    return Path("/proc/self/task", str(tid), "comm").read_text("utf-8", "ignore").strip()


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


def _autograd(ints: dict[str, Ints], events: list[Any], problems: Problems) -> dict[str, Any]:
    """Sequence numbers, and for backward functions torch's number of the thread of the forward op."""
    sequence = ints["sequence_nr"]
    known = sequence >= 0
    if not known.any():
        return {}
    forward = np.zeros(len(sequence), np.int64)
    forward[known] = EventReader(list(compress(events, known)), problems).ints("fwd_thread_id")
    return {
        "sequence_nr": nullable(np.where(known, sequence, 0), ~known),
        "fwd_tid": nullable(forward, forward <= 0),
    }


def _json_texts(codes: NDArray[np.int32], texts: list[bytes]) -> pd.Categorical:
    """JSON text, missing where the list is empty (an op without inputs, or nothing was recorded)."""
    new = np.array([-1 if text == b"[]" else 0 for text in texts], np.int32)
    new[new == 0] = np.arange((new == 0).sum())
    return categorical(new[codes], [text.decode() for text in texts if text != b"[]"])


# The line at which each call was made.


def call_lines(raw: Any, start: Ints, thread: Ints, is_python: Bools) -> Any:
    """Return the column ``call_line`` of events.

    torch names a Python function by its first line. The line at which it made a call is with the call: torch's tracer
    reads it from the calling frame. Operators that Python's syntax calls (``x * 2``) are not calls for the tracer: they
    have a line only if a Python function ran inside them.

    Args:
        raw: torch's `_ProfilerResult`.
        start: Start of each event, ns; shape (n,).
        thread: torch's number of its thread; shape (n,).
        is_python: Whether it is the call of a Python function; shape (n,).
    """
    keys = ["start", "thread", "is_python"]
    found = pd.DataFrame(_lines_of_tree(raw), columns=[*keys, "line"]).drop_duplicates(keys)
    events = pd.DataFrame({"start": start, "thread": thread, "is_python": is_python})
    line = events.merge(found, on=keys, how="left")["line"].fillna(-1).to_numpy(np.int64)
    return nullable(line.astype(np.int32), line <= 0)


def _lines_of_tree(raw: Any) -> dict[str, Any]:
    """Return start, thread and line of each call within a Python function; -1 for a line that is not known."""
    rows: list[list[Any]] = []
    pending: list[tuple[Any, Any, bool]] = [(event, None, False) for event in raw.experimental_event_tree()]
    while pending:
        event, operators, is_within_python = pending.pop()
        caller = getattr(event.extra_fields, "caller", None)
        row = [event.start_time_ns, event.start_tid, caller is not None, -1 if caller is None else caller.line_number]
        if is_within_python:
            rows.append(row)
        if caller is None:
            inside = (row, operators) if is_within_python else None
        else:
            inside, is_within_python = None, True
            while operators is not None:  # they were called by the same line
                operator, operators = operators
                operator[3] = caller.line_number
        pending += [(child, inside, is_within_python) for child in event.children]
    columns = zip(*rows, strict=True) if rows else ((), (), (), ())
    start, thread, is_python, line = columns
    return {
        "start": np.array(start, np.int64),
        "thread": np.array(thread, np.uint64).view(np.int64),
        "is_python": np.array(is_python, bool),
        "line": np.array(line, np.int64),
    }
