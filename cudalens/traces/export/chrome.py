"""Write a Trace as Chrome trace JSON in Kineto's layout, for Perfetto, chrome://tracing and similar viewers.

Times are microseconds with three decimals after a base of whole seconds, so that a double holds each nanosecond
exactly. Rows are converted to typed records column by column and encoded in slices, so that memory stays bounded.

Gzip uses level 1: on trace text it is about three times faster than the default level 6 (and nine times faster than
level 9), for files about a third larger. Compression runs on its own thread, since zlib releases the GIL.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, repeat
from pathlib import Path
from typing import IO, Any, Final

import msgspec
import numpy as np
import pandas as pd

from cudalens.frames import RunInfo, Trace, atomic_write
from cudalens.frames.catalog_frames import KINETO_ARGS
from cudalens.frames.column_arrays import Ints
from cudalens.frames.stacks import ENTRY_COLUMNS, entry_text
from cudalens.traces.chrome.counters import DEVICE_TYPES
from cudalens.traces.chrome.top_level import KEY, MODELLED_KEY, SIMULATED_KEY, VERSION_KEYS, extra_frames
from cudalens.traces.chrome.tracks import track_records

GZIP_LEVEL: Final = 1
_ROWS: Final = 20_000
_SECOND: Final = 1_000_000_000
_EXACT_US: Final = 1 << 43
_SPLITS: Final = ("in_split_sizes", "out_split_sizes")
_JSON: Final = frozenset({"shapes", "dtypes", "grid", "block_dim", "group_ranks", "concrete_inputs", *_SPLITS})
_ENCODER: Final = msgspec.json.Encoder()


class _Complete(msgspec.Struct, omit_defaults=True, gc=False):
    ph: str
    name: str
    ts: float | msgspec.Raw
    cat: str | None = None
    dur: float | msgspec.Raw | None = None
    pid: int | str | None = None
    tid: int | str | None = None
    s: str | None = None
    args: Any = None


class _Flow(msgspec.Struct, gc=False):
    ph: str
    id: int
    ts: float | msgspec.Raw
    pid: int | str | None
    tid: int | str | None
    bp: str = "e"
    cat: str = "ac2g"
    name: str = "ac2g"


def to_chrome(trace: Trace, path: str | os.PathLike[str], *, tracks: bool = True) -> Path:
    """Write `trace` to `path` as Chrome trace JSON, gzip-compressed where `path` ends in ``.gz``.

    The file has every event with its facts, the allocator's actions (``alloc``, ``free_completed`` and ``oom``), labels
    of threads and devices, and an arrow from each launch to its device work. `cudalens.load` restores the same frames
    from it, with times exact to the nanosecond.

    Args:
        trace: The Trace.
        path: The file.
        tracks: Also draw counters (allocated memory of each device, GPU metrics, launched work that had not begun) and
            marks (both accesses of each race, waits for the GPU).

    Returns:
        `path`.

    Raises:
        OutputError: The file cannot be written; an existing file is unchanged.
    """
    target = Path(path)
    with atomic_write(target) as file:
        if target.suffix.lower() == ".gz":
            _write_gzip(file, _pieces(trace, tracks=tracks))
        else:
            for piece in _pieces(trace, tracks=tracks):
                file.write(piece)
    return target


def _write_gzip(file: IO[bytes], pieces: Iterator[bytes]) -> None:
    """Compress one piece while the next is encoded."""
    deflater = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, 31)
    pending: Future[bytes] | None = None
    with ThreadPoolExecutor(1, thread_name_prefix="cudalens-gzip") as pool:
        for piece in pieces:
            if pending is not None:
                file.write(pending.result())
            pending = pool.submit(deflater.compress, piece)
        if pending is not None:
            file.write(pending.result())
    file.write(deflater.flush())


def _pieces(trace: Trace, *, tracks: bool) -> Iterator[bytes]:
    writer = _Writer(trace)
    extra = extra_frames(trace)
    yield _ENCODER.encode(_head(trace.info, writer.base))[:-1] + b',"traceEvents":[\n'
    is_first = True
    drawn = track_records(trace, writer.base, microseconds) if tracks else iter(())
    for records in chain(writer.records(), drawn):
        text = _ENCODER.encode_lines(records).rstrip(b"\n").replace(b"\n", b",\n")
        if text:
            yield text if is_first else b",\n" + text
            is_first = False
    yield b"\n]" if extra is None else b'\n],"%s":%s' % (KEY.encode(), _ENCODER.encode(extra))
    yield b"}\n"


def _head(info: RunInfo, base: int) -> dict[str, Any]:
    head = _user_metadata(info)
    head |= {"schemaVersion": 1, "deviceProperties": [_device(device) for device in info.devices]}
    head |= {VERSION_KEYS[name]: version for name, version in info.versions.items() if name in VERSION_KEYS}
    if info.rank is not None or info.world_size is not None:
        job = {"rank": info.rank, "world_size": info.world_size}
        # With a space after each colon: HolisticTraceAnalysis looks for ``"rank": 3`` in the file's text.
        text = json.dumps({key: value for key, value in job.items() if value is not None})
        head["distributedInfo"] = msgspec.Raw(text.encode())
    if info.host:
        head["host_name"] = info.host
    if info.is_simulated:
        head[SIMULATED_KEY] = info.source.removeprefix("virtual:")
    return head | {"traceName": info.name, "displayTimeUnit": "ms", "baseTimeNanoseconds": base}


def _user_metadata(info: RunInfo) -> dict[str, Any]:
    """Metadata that the program added to its profile, by key; torch.profiler writes it in the same place."""
    try:
        added = json.loads(info.extra.get("metadata", "{}"))
    except (ValueError, RecursionError):
        return {}
    return {key: added[key] for key in added if key not in ("traceEvents", KEY)} if isinstance(added, dict) else {}


def _device(device: Any) -> dict[str, Any]:
    facts = {"id": device.index, "name": device.name}
    if device.capability and device.capability.replace(".", "", 1).isdigit():
        major, _, minor = device.capability.partition(".")
        facts |= {"computeMajor": int(major), "computeMinor": int(minor or 0)}
    optional = {
        "totalGlobalMem": device.total_memory_bytes,
        "numSms": device.num_sms,
        MODELLED_KEY: device.is_modelled or None,
    }
    return facts | {key: value for key, value in optional.items() if value is not None}


class _Writer:
    def __init__(self, trace: Trace) -> None:
        self._events, self._memory = trace.events, trace.memory
        # Viewers show it next to each process.
        self._mark = f" (simulated: {trace.info.source.removeprefix('virtual:')})" if trace.info.is_simulated else ""
        self._stacks = _stack_texts(trace.stacks)
        times = [int(frame["ts"].min()) for frame in (self._events, self._memory) if len(frame)]
        earliest = min(times, default=0)
        self.base = max(earliest // _SECOND * _SECOND, 0)
        self._texts = {name: _text_of(self._events[name].array, name in _JSON) for name in _category_columns()}

    def records(self) -> Iterator[list[Any]]:
        yield list(self._labels())
        for start in range(0, len(self._events), _ROWS):
            rows = np.arange(start, min(start + _ROWS, len(self._events)))
            yield from self._slice(rows)
        for start in range(0, len(self._memory), _ROWS):
            yield self._allocations(self._memory.iloc[start : start + _ROWS])

    def _labels(self) -> Iterator[dict[str, Any]]:
        events = self._events
        named = events.loc[events["thread"].notna() & events["tid"].notna(), ["pid", "tid", "thread"]].drop_duplicates()
        for pid, tid, label in named.itertuples(index=False):
            where = {"tid": int(tid)} | ({} if pid is pd.NA else {"pid": int(pid)})
            yield {"ph": "M", "name": "thread_name"} | where | {"args": {"name": label}}
        for pid in events["pid"].dropna().unique():
            yield {"ph": "M", "name": "process_labels", "pid": int(pid), "args": {"labels": f"CPU{self._mark}"}}
        # Files use device numbers as process ids: a lane that is also a host thread keeps the label of the thread.
        threads = set(events[["pid", "tid"]].dropna().itertuples(index=False, name=None))
        streams = events[["device", "stream"]].dropna().drop_duplicates().itertuples(index=False, name=None)
        for device, stream in (lane for lane in streams if lane not in threads):
            where = {"pid": int(device), "tid": int(stream)}
            yield {"ph": "M", "name": "thread_name"} | where | {"args": {"name": f"stream {stream}"}}
        for device in events["device"].dropna().unique():
            label = f"GPU {device}{self._mark}"
            yield {"ph": "M", "name": "process_labels", "pid": int(device), "args": {"labels": label}}

    def _slice(self, rows: Ints) -> Iterator[list[Any]]:
        """Records of one slice; args are built separately for host and device rows, which have different ones."""
        part = self._events.iloc[rows[0] : rows[-1] + 1]
        pid, tid = self._lanes(part)
        args = np.full(len(part), None, object)
        on_device = part["device"].notna().to_numpy()
        for group in (np.flatnonzero(on_device), np.flatnonzero(~on_device)):
            if len(group):
                args[group] = self._args(part.iloc[group])
        instant = part["is_instant"].to_numpy()
        ts = microseconds(part["ts"].to_numpy() - self.base)
        dur = microseconds(part["dur"].to_numpy())
        for i in np.flatnonzero(instant).tolist():
            dur[i] = None
        names, cats = (self._texts[column](part[column].array) for column in ("name", "cat"))
        phases = ["i" if is_point else "X" for is_point in instant.tolist()]
        scope = ["t" if is_point else None for is_point in instant.tolist()]
        yield list(map(_Complete, phases, names, ts, cats, dur, pid, tid, scope, args.tolist()))
        yield self._flows(part, ts, pid, tid)

    def _lanes(self, part: pd.DataFrame) -> tuple[list[Any], list[Any]]:
        on_device = part["device"].notna().to_numpy()
        pid, tid = _objects(part["pid"].array), _objects(part["tid"].array)
        unnumbered = np.flatnonzero(~on_device & part["tid"].isna().to_numpy() & part["thread"].notna().to_numpy())
        if len(unnumbered):
            tid[unnumbered] = np.asarray(part["thread"].array.take(unnumbered), object)
            nowhere = unnumbered[part["pid"].isna().to_numpy()[unnumbered]]
            pid[nowhere] = "Spans"
        if on_device.any():
            pid[on_device] = _objects(part["device"].array)[on_device]
            tid[on_device] = _objects(part["stream"].array)[on_device]
        return pid.tolist(), tid.tolist()

    def _args(self, part: pd.DataFrame) -> Any:
        columns = {}
        for name in KINETO_ARGS:
            array = part[name].array
            missing = array.codes < 0 if isinstance(array, pd.Categorical) else np.asarray(array.isna())
            if not missing.all():
                columns[name] = self._values(name, array)
        if not columns:
            return None
        kind = _args_struct(tuple(columns))
        found = np.empty(len(part), object)
        found[:] = list(map(kind, *columns.values()))
        return found

    def _values(self, name: str, array: Any) -> list[Any]:
        if name in self._texts:
            return self._texts[name](array)
        values = list(_objects(array))
        if name != "stack":
            return values
        return [None if key is None else self._stacks.get(key) for key in values]

    def _flows(self, part: pd.DataFrame, ts: list[Any], pid: list[Any], tid: list[Any]) -> list[Any]:
        """Both ends of the arrow from each launch to its device work in `part`."""
        at = np.flatnonzero(part["launch"].notna().to_numpy())
        if not len(at):
            return []
        launches = part["launch"].array[at].to_numpy(dtype=np.int64)
        calls = self._events.iloc[launches]
        ids = (part.index.to_numpy()[at] + 1).tolist()
        call_ts = microseconds(calls["ts"].to_numpy() - self.base)
        call_pid, call_tid = self._lanes(calls)
        ends = ([values[i] for i in at.tolist()] for values in (ts, pid, tid))
        starts = map(_Flow, repeat("s"), ids, call_ts, call_pid, call_tid)
        return [*starts, *map(_Flow, repeat("f"), ids, *ends)]

    def _allocations(self, part: pd.DataFrame) -> list[Any]:
        part = part[part["action"].isin(["alloc", "free_completed", "oom"])]
        columns = [_objects(part[name].array).tolist() for name in _MEMORY_KEYS]
        actions, types = part["action"].tolist(), part["device_type"].astype(object).tolist()
        ts = microseconds(part["ts"].to_numpy() - self.base)
        records = []
        for i, (num_bytes, device, *facts) in enumerate(zip(*columns[2:], strict=True)):
            found = dict(zip(("Addr", "Total Allocated", "Total Reserved"), facts, strict=True))
            args = {"Bytes": -num_bytes if actions[i] == "free_completed" else num_bytes}
            args["Device Id"] = -1 if device is None else device
            if types[i] in DEVICE_TYPES:
                args["Device Type"] = DEVICE_TYPES.index(types[i])
            args |= {key: value for key, value in found.items() if value is not None}
            name = "[OutOfMemory]" if actions[i] == "oom" else "[memory]"
            lane = (columns[0][i], columns[1][i])
            records.append(_Complete("i", name, ts[i], "cpu_instant_event", None, *lane, "t", args))
        return records


def microseconds(ns: Ints) -> list[Any]:
    """Microseconds that a reader converts back to the same nanoseconds; as text if doubles are too coarse."""
    if not len(ns) or int(np.abs(ns).max()) < _EXACT_US * 1000:
        return (ns / 1000).tolist()
    return [msgspec.Raw(b"%s%d.%03d" % (b"-" * (n < 0), abs(n) // 1000, abs(n) % 1000)) for n in ns.tolist()]


_MEMORY_KEYS: Final = ("pid", "tid", "num_bytes", "device", "addr", "allocated_bytes", "reserved_bytes")


def _category_columns() -> list[str]:
    texts = ["name", "cat", "shapes", "dtypes", "module", "grid", "block_dim"]
    texts += ["collective", "process_group", "process_group_description", "message_dtype", "group_ranks", *_SPLITS]
    return [*texts, "concrete_inputs", "kernel_backend", "kernel_hash"]


def _text_of(array: pd.Categorical, is_json: bool) -> Callable[[pd.Categorical], list[Any]]:
    """Return a function that converts a categorical to texts, made once per category; JSON text is not quoted again."""
    texts = np.empty(len(array.categories) + 1, object)
    texts[:-1] = [_raw_json(text) if is_json else text for text in array.categories.tolist()]
    texts[-1] = None
    return lambda rows: list(texts[rows.codes])


def _raw_json(text: str) -> Any:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
    return msgspec.Raw(text.replace("\n", " ").encode())


def _objects(array: Any) -> Any:
    """Return a column as Python numbers, None for missing values."""
    if not hasattr(array, "isna") or not (missing := np.asarray(array.isna())).any():
        return np.asarray(array.to_numpy() if hasattr(array, "to_numpy") else array).astype(object)
    if missing.all():
        return np.full(len(array), None, object)
    values = array.to_numpy(dtype=array.dtype.numpy_dtype, na_value=0).astype(object)
    values[missing] = None
    return values


_STRUCTS: dict[tuple[str, ...], type[Any]] = {}


def _args_struct(columns: tuple[str, ...]) -> type[Any]:
    """Return a record with only these columns, since the time to encode one grows with the number of fields."""
    if columns not in _STRUCTS:
        rename = {name: KINETO_ARGS[name] for name in columns}
        fields: list[Any] = [(name, Any, None) for name in columns]
        _STRUCTS[columns] = msgspec.defstruct("_Args", fields, rename=rename, omit_defaults=True, gc=False)
    return _STRUCTS[columns]


def _stack_texts(stacks: pd.DataFrame) -> dict[int, str]:
    """Return each stack as torch writes it: its frames from the innermost to the outermost, separated by semicolons."""
    texts: dict[int, list[str]] = {}
    rows = zip(stacks["stack"], *(stacks[name].astype(object) for name in ENTRY_COLUMNS), strict=True)
    for stack, *entry in rows:
        texts.setdefault(stack, []).append(entry_text(*entry))
    return {stack: ";".join(entries) for stack, entries in texts.items()}
