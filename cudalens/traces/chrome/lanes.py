"""Find the thread or device stream of each event from its pid, tid and args, and from metadata entries."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.frames import categorical, nullable
from cudalens.frames.column_arrays import Ints
from cudalens.frames.lenient_json import text_of
from cudalens.frames.limits import Problems
from cudalens.traces.chrome.columns import COPY_KINDS, EventColumns
from cudalens.traces.chrome.records import Record
from cudalens.traces.chrome.values import MISSING, UNKNOWN, Kind, LabelArgs, decode_args, kind_of

_TRAILING_NUMBER: Final = re.compile(r"(?:^|\D)(\d{1,18})\s*$")
_DEVICE_LABEL: Final = re.compile(r"(?:/job:\S*)?(?:/device:GPU:|GPU ?|Device )(\d{1,9})(?: .*)?", re.DOTALL)
#: The process of an NPU in ``trace_view.json`` of torch_npu, with a lane for each stream; a file has one NPU.
_ASCEND: Final = "Ascend Hardware"
_STREAM_LABEL: Final = re.compile(r"\bstream\W{0,2}(\d{1,18})", re.IGNORECASE)
#: Category of TensorFlow's timelines, and its label of a stream; its lanes "memcpy" and "stream:all" repeat that work.
_TENSORFLOW: Final = "Op"
_TENSORFLOW_LABEL: Final = re.compile(r"/device:GPU:(\d{1,9})/stream:(\d{1,18}) Compute")
_STREAM_WAIT: Final = re.compile(r"(?:event|notify)_(?:wait|record)(?:_sqe)?", re.IGNORECASE)
#: Categories that may be device work, depending on the lane.
_AMBIGUOUS: Final = (UNKNOWN, "cuda", _TENSORFLOW)
_MAX_DEVICE: Final = 1 << 31

Key = tuple[int | str | None, int | str | None]


class Labels:
    """Names of processes and threads, as metadata entries give them."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._threads: dict[Key, str] = {}
        self._processes: dict[int | str | None, str] = {}

    def add(self, record: Record, where: str) -> None:
        """Keep the name in one metadata entry."""
        if record.name not in ("thread_name", "process_name"):
            return
        ((args,), _) = decode_args([record.args], LabelArgs, self._problems, where)
        if args.name and record.name == "thread_name":
            self._threads[number(record.pid), number(record.tid)] = args.name.strip()
        elif args.name:
            self._processes[number(record.pid)] = args.name.strip()

    def device_stream(self, pid: Any, tid: Any) -> tuple[int, int] | None:
        """Device and stream of a lane, if its labels have them (XLA, rocprof and nsys2json); else None.

        Other lanes of a device repeat its work under other names (XLA's "XLA Ops").
        """
        label = self._processes.get(number(pid), number(pid))
        return stream_of_labels(label, self._threads.get((number(pid), number(tid)), number(tid)))

    def tensorflow_stream(self, pid: Any) -> tuple[int, int] | None:
        """Device and stream of a process of TensorFlow's timeline; None if it is not a stream."""
        label = self._processes.get(number(pid))
        found = None if label is None else _TENSORFLOW_LABEL.fullmatch(label)
        return None if found is None else (int(found[1]), int(found[2]))

    def thread(self, pid: Any, tid: Any) -> str | None:
        """Label of a host thread or lane; None if it has none."""
        if (name := self._threads.get((number(pid), number(tid)))) is not None:
            return name
        label = next((key for key in (tid, pid) if isinstance(number(key), str) and key), None)
        return None if label is None else text_of(label)


def stream_of_labels(process: int | str | None, lane: int | str | None) -> tuple[int, int] | None:
    """Return device and stream of a lane by its label and that of its process; None if it is not a stream."""
    if process == _ASCEND:
        named = _STREAM_LABEL.search(lane) if isinstance(lane, str) else None
        return None if named is None else (0, int(named[1]))
    found = _DEVICE_LABEL.fullmatch(process) if isinstance(process, str) else None
    if found is None:
        return None
    stream = _STREAM_LABEL.search(lane) if isinstance(lane, str) else None
    if stream is not None:
        return int(found[1]), int(stream[1])
    return (int(found[1]), lane) if isinstance(lane, int) and lane >= 0 else None


def number(key: int | str | None) -> int | str | None:
    """`key` as a number if it is one, also as text ("24572"), and fits into 64 bits; else as text."""
    if isinstance(key, str) and key.removeprefix("-").isdecimal() and key.isascii() and len(key) < 20:
        key = int(key)
    if isinstance(key, int) and not -(1 << 63) < key < 1 << 63:
        return str(key)
    return key


def resolve_lanes(events: EventColumns, labels: Labels, problems: Problems) -> dict[str, Any]:
    """The columns of `events`, with lanes replaced by ``pid``, ``tid``, ``thread``, ``device`` and ``stream``."""
    keys: list[Key] = list(events.lanes)
    columns = events.to_columns()
    lane = columns.pop("lane")
    columns["name"] = _with_copy_kinds(columns["name"], [columns.pop(kind, None) for kind in COPY_KINDS])
    columns["cat"], old_gpu = _with_old_cuda(columns, keys, lane)
    device, stream = columns.pop("device"), columns.pop("stream")
    columns["cat"], device, stream = _with_device_lanes(columns, keys, lane, labels, device, stream)
    columns["cat"] = _with_stream_waits(columns["cat"], columns["name"])
    cat = columns["cat"]
    kinds = [kind_of(name) for name in cat.categories.tolist()]
    by_category = np.array([kind is Kind.DEVICE for kind in kinds] + [False]).take(cat.codes)
    undecided = np.array([kind is Kind.OTHER for kind in kinds] + [False]).take(cat.codes)
    on_device = by_category | (undecided & (device != MISSING) & (stream != MISSING))
    device_no, stream_no = _device_numbers(keys, lane, device, stream, old_gpu)
    homeless = on_device & (device_no < 0)
    if homeless.any():
        problems.add("device work without a device, taken as device 0", "all events", int(homeless.sum()))
        device_no[homeless] = 0
    columns["device"] = nullable(np.where(on_device, device_no, 0).astype(np.int32), ~on_device)
    columns["stream"] = _nullable_where(stream_no, on_device & (stream_no >= 0))
    columns |= _threads(keys, lane, labels, ~on_device)
    return columns


def _with_old_cuda(columns: dict[str, Any], keys: list[Key], lane: NDArray[np.int32]) -> tuple[pd.Categorical, Any]:
    """Set categories for the autograd profiler before Kineto, which puts device work into a process "CUDA functions".

    Its rows there are operators, timed by CUDA events: some are the work, and the others are ranges.
    """
    cat = columns["cat"]
    old_cpu, old_gpu = (
        np.array([pid == label for pid, _ in keys] + [False]).take(lane)
        for label in ("CPU functions", "CUDA functions")
    )
    if not (old_cpu.any() or old_gpu.any()):
        return cat, old_gpu
    names = [*cat.categories]
    names += [name for name in ("cpu_op", "kernel", "gpu_user_annotation") if name not in names]
    unnamed = cat.codes == (names.index(UNKNOWN) if UNKNOWN in names else -2)
    codes = np.where(unnamed & old_cpu, names.index("cpu_op"), cat.codes)
    on_gpu = np.flatnonzero(unnamed & old_gpu)
    codes[on_gpu] = names.index("kernel")
    around = on_gpu[_is_around_work(columns["ts"][on_gpu], columns["dur"][on_gpu], lane[on_gpu])]
    codes[around] = names.index("gpu_user_annotation")
    return categorical(codes.astype(np.int32), names), old_gpu


def _is_around_work(start: Ints, dur: Ints, lane: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which of nested operators are not the work themselves: others within them take half of their time or more.

    An operator within one that is the work is part of it. conv2d [convolution [cudnn_convolution [contiguous]]]: the
    work is cudnn_convolution.
    """
    order = np.lexsort((-dur, start, lane)).tolist()
    end = start + dur
    parent, inner_ns = np.full(len(order), MISSING), np.zeros(len(order), np.int64)
    open_rows: list[int] = []
    for k in order:
        while open_rows and (lane[open_rows[-1]] != lane[k] or start[k] >= end[open_rows[-1]]):
            open_rows.pop()
        if open_rows:
            parent[k] = open_rows[-1]
            inner_ns[open_rows[-1]] += dur[k]
        open_rows.append(k)
    is_around, is_part = 2 * inner_ns >= np.maximum(dur, 1), np.zeros(len(order), bool)
    for k in order:
        is_part[k] = parent[k] != MISSING and bool(is_part[parent[k]] or not is_around[parent[k]])
    return np.asarray(is_around | is_part)


def _with_copy_kinds(name: pd.Categorical, kinds: list[pd.Categorical | None]) -> pd.Categorical:
    """Names in which copies and memsets have their kinds, as Kineto writes them: ``Memcpy HtoD (Pageable -> Device)``.

    `kinds` has the columns of `COPY_KINDS`, None for one that no event has.
    """
    names = name.categories.tolist()
    plain = [names.index(text) for text in ("Memcpy", "Memset") if text in names]
    rows = np.flatnonzero(np.isin(name.codes, plain))
    if not len(rows) or all(kind is None for kind in kinds):
        return name
    texts = [np.full(len(rows), None) if kind is None else np.asarray(kind[rows].astype(object)) for kind in kinds]
    codes, codes_of = name.codes.astype(np.int32), {text: code for code, text in enumerate(names)}
    for row, *of_row in zip(rows.tolist(), *texts, strict=True):
        label = _name_with_kinds(names[codes[row]], *(text if isinstance(text, str) else "" for text in of_row))
        codes[row] = codes_of.setdefault(label, len(codes_of))
    return categorical(codes, list(codes_of))


def _name_with_kinds(name: str, copy: str, source: str, target: str, memory: str) -> str:
    source, target, memory = ((kind or "unknown").capitalize() for kind in (source, target, memory))
    if name == "Memset":
        return name if memory == "Unknown" else f"{name} ({memory})"
    return f"{name} {copy} ({source} -> {target})" if copy else name


def _with_device_lanes(
    columns: dict[str, Any], keys: list[Key], lane: NDArray[np.int32], labels: Labels, device: Ints, stream: Ints
) -> tuple[pd.Categorical, Ints, Ints]:
    """Categories, devices and streams, including those of work that is on a device by the labels of its lane."""
    cat = columns["cat"]
    ambiguous = [name for name in _AMBIGUOUS if name in cat.categories]
    of_tensorflow = _TENSORFLOW in ambiguous
    found = [labels.device_stream(*key) for key in keys] if ambiguous else []
    if of_tensorflow:  # its lanes of a device without a stream are of the host
        found = [labels.tensorflow_stream(pid) for pid, _ in keys]
    if not any(found):
        return cat, device, stream
    names = [*cat.categories]
    names += [name for name in ("kernel", "gpu_memcpy", "gpu_memset") if name not in names]
    is_work = np.isin(cat.codes, [names.index(name) for name in ambiguous])
    is_work &= np.array([*(one is not None for one in found), False])[lane] & ~columns["is_instant"]
    kind = np.array([names.index(work_kind(name)) for name in columns["name"].categories.tolist()] or [0])
    codes = np.where(is_work, kind[columns["name"].codes], cat.codes).astype(np.int32)
    place = np.array([one or (MISSING, MISSING) for one in [*found, None]], np.int64)[lane]
    return (
        categorical(codes, names),
        np.where(is_work & (device == MISSING), place[:, 0], device),
        np.where(is_work & (stream == MISSING), place[:, 1], stream),
    )


def _with_stream_waits(cat: pd.Categorical, name: pd.Categorical) -> pd.Categorical:
    """Categories in which waits of a stream for an event, which MTIA and Ascend list among the kernels, are none."""
    if "kernel" not in cat.categories:
        return cat
    is_wait = np.array([bool(_STREAM_WAIT.fullmatch(text)) for text in name.categories.tolist()] + [False])
    chosen = is_wait.take(name.codes) & (cat.codes == list(cat.categories).index("kernel"))
    if not chosen.any():
        return cat
    names = [*cat.categories]
    names += [text for text in ("cuda_sync",) if text not in names]
    return categorical(np.where(chosen, names.index("cuda_sync"), cat.codes).astype(np.int32), names)


def work_kind(name: str) -> str:
    """Return the category of work on a device, by its name."""
    start = name[:6].lower()
    return {"memcpy": "gpu_memcpy", "memset": "gpu_memset"}.get(start, "kernel")


def _device_numbers(
    keys: list[Key], lane: NDArray[np.int32], device: Ints, stream: Ints, old_gpu: NDArray[np.bool_]
) -> tuple[Ints, Ints]:
    """Device and stream of each row from its args, else from its pid and tid; negative where unknown."""
    pids = _take([_whole(number(pid)) for pid, _ in keys], lane)
    tids = _take([_stream_of(tid) for _, tid in keys], lane)
    device_no = np.where(device == MISSING, np.where(old_gpu, tids, pids), device)
    device_no[device_no >= _MAX_DEVICE] = -1
    stream_no = np.where(stream == MISSING, np.where(old_gpu, -1, tids), stream)
    return device_no, stream_no


def _whole(key: int | str | None) -> int:
    return key if isinstance(key, int) else -1


def _stream_of(tid: int | str | None) -> int:
    """Stream of a lane: its number, or the number at the end of its label ("stream 7")."""
    tid = number(tid)
    if isinstance(tid, str) and (found := _TRAILING_NUMBER.search(tid)):
        return int(found[1])
    return _whole(tid)


def _threads(keys: list[Key], lane: NDArray[np.int32], labels: Labels, on_host: NDArray[np.bool_]) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for i, column in enumerate(("pid", "tid")):
        values = [number(key[i]) for key in keys]
        known = _take([isinstance(value, int) for value in values], lane).astype(bool)
        columns[column] = _nullable_where(
            _take([v if isinstance(v, int) else 0 for v in values], lane), known & on_host
        )
    texts = [labels.thread(pid, tid) for pid, tid in keys]
    unique = list(dict.fromkeys(text for text in texts if text is not None))
    code_of = {text: code for code, text in enumerate(unique)}
    codes = _take([code_of[text] if text is not None else -1 for text in texts], lane)
    columns["thread"] = categorical(np.where(on_host, codes, -1).astype(np.int32), unique)
    return columns


def _take(values: list[Any], lane: NDArray[np.int32]) -> Ints:
    return np.array([*values, 0], np.int64).take(lane)


def _nullable_where(values: Ints, known: NDArray[np.bool_]) -> Any:
    return nullable(np.where(known, values, 0), ~known)
