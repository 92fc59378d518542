"""Write a Trace as Chrome trace JSON in Kineto's layout, for Perfetto, chrome://tracing and similar viewers.

Times are microseconds with three decimals after a base of whole seconds, so that a double holds each nanosecond
exactly. Rows are converted to typed records column by column and encoded in slices, so that memory stays bounded.

Gzip uses level 1: on trace text it is about three times faster than the default level 6 (and nine times faster than
level 9), for files about a third larger. Compression runs on its own thread, since zlib releases the GIL.

Extra tracks repeat the contents of the frames for viewers: counters of memory, GPU metrics and launch queues (phase C)
on the track of their device, races and waits as instants of the category `MARK`; a race has an arrow from its first
access to its second. Our reader skips the marks and reads the frames from the key ``cudalens``.
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

from cudalens.frames import GPU_ACTIVITIES, RunInfo, Trace, atomic_write, is_category
from cudalens.frames.catalog_frames import KINETO_ARGS
from cudalens.frames.column_arrays import Ints
from cudalens.frames.stacks import ENTRY_COLUMNS, entry_text
from cudalens.traces.chrome.counters import DEVICE_TYPES
from cudalens.traces.chrome.top_level import KEY, MODELLED_KEY, SIMULATED_KEY, VERSION_KEYS, extra_frames
from cudalens.traces.chrome.values import MARK

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
        texts = ["name", "cat", "shapes", "dtypes", "module", "grid", "block_dim"]
        texts += ["collective", "process_group", "process_group_description", "message_dtype", "group_ranks", *_SPLITS]
        columns = [*texts, "concrete_inputs", "kernel_backend", "kernel_hash"]
        self._texts = {name: _text_of(self._events[name].array, name in _JSON) for name in columns}

    def records(self) -> Iterator[list[Any]]:
        yield list(self._labels())
        for start in range(0, len(self._events), _ROWS):
            rows = np.arange(start, min(start + _ROWS, len(self._events)))
            # Records of one slice; args are built separately for host and device rows, which have different ones.
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
        # A record with only these columns, since the time to encode one grows with the number of fields.
        names = tuple(columns)
        if names not in _STRUCTS:
            rename = {name: KINETO_ARGS[name] for name in names}
            fields: list[Any] = [(name, Any, None) for name in names]
            _STRUCTS[names] = msgspec.defstruct("_Args", fields, rename=rename, omit_defaults=True, gc=False)
        kind = _STRUCTS[names]
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


def _stack_texts(stacks: pd.DataFrame) -> dict[int, str]:
    """Return each stack as torch writes it: its frames from the innermost to the outermost, separated by semicolons."""
    texts: dict[int, list[str]] = {}
    rows = zip(stacks["stack"], *(stacks[name].astype(object) for name in ENTRY_COLUMNS), strict=True)
    for stack, *entry in rows:
        texts.setdefault(stack, []).append(entry_text(*entry))
    return {stack: ";".join(entries) for stack, entries in texts.items()}


Micros = Callable[[Ints], list[Any]]

RACES: Final = "races"
_GAUGES: Final = {
    "gpu_busy_pct": "GPU busy (%)",
    "memory_busy_pct": "memory busy (%)",
    "memory_used_bytes": "memory used (bytes)",
    "temperature_celsius": "temperature (°C)",
    "power_watts": "power (W)",
    "clock_mhz": "clock (MHz)",
    "memory_clock_mhz": "memory clock (MHz)",
}
_MEMORY: Final = {
    "allocated_bytes": "allocated (bytes)",
    "reserved_bytes": "reserved (bytes)",
    "active_bytes": "active (bytes)",
}
_RACE_FACTS: Final = (
    "kind",
    "count",
    "first_op",
    "first_tensor",
    "first_place",
    "first_source",
    "second_op",
    "second_tensor",
    "second_place",
    "second_source",
    "fix",
)
_WAIT_FACTS: Final = ("kind", "op", "call", "place", "source", "expression", "num_bytes", "gpu_dur")


def track_records(trace: Trace, base: int, micros: Micros) -> Iterator[list[dict[str, Any]]]:
    """Yield the extra tracks of `trace`, in slices of records.

    Args:
        trace: The Trace.
        base: Time 0 of the file, ns.
        micros: Converts ns after `base` to the file's microseconds.
    """
    for found in (_memory(trace), _gauges(trace), _queues(trace)):
        for pid, name, ts, values in found:
            for start in range(0, len(ts), _ROWS):
                part = slice(start, start + _ROWS)
                yield _counter(pid, name, micros(ts[part] - base), values[part])
    yield list(_race_marks(trace, base, micros))
    yield list(_wait_marks(trace, base, micros))


Series = tuple[int | str, str, Ints, list[Any]]


def _counter(pid: int | str, name: str, ts: list[Any], values: list[Any]) -> list[dict[str, Any]]:
    where = {"ph": "C", "cat": MARK, "name": name, "pid": pid}
    return [where | {"ts": when, "args": {"value": value}} for when, value in zip(ts, values, strict=True)]


def _memory(trace: Trace) -> Iterator[Series]:
    """Yield the memory of each device's allocator after each of its actions that changed it."""
    memory = trace.memory
    for (kind, device), part in memory.groupby(["device_type", "device"], dropna=False, observed=True, sort=True):
        for column, label in _MEMORY.items():
            pid = "Host" if pd.isna(device) else int(device)
            of = f"{kind} " if isinstance(kind, str) else "host "
            if kind in ("cuda", "hip"):
                of = ""
            yield from _series(pid, f"{of}memory {label}", part["ts"], part[column])


def _gauges(trace: Trace) -> Iterator[Series]:
    """Yield the readings of each GPU."""
    metrics = trace.metrics
    for physical, part in metrics.groupby("physical_index", sort=True):
        device = part["device"].dropna()
        pid = int(device.iloc[0]) if len(device) else f"GPU {physical} (not visible)"
        for column, label in _GAUGES.items():
            yield from _series(pid, label, part["ts"], part[column])


def _series(pid: int | str, name: str, ts: pd.Series, values: pd.Series) -> Iterator[Series]:
    known = values.notna().to_numpy()
    if not known.any():
        return
    value = values.array[known].to_numpy(dtype=values.dtype.numpy_dtype)
    kept = np.append(True, value[1:] != value[:-1])
    kept[-1] = True  # so that the track ends with the last value
    yield pid, name, ts.to_numpy()[known][kept], value[kept].tolist()


def _queues(trace: Trace) -> Iterator[Series]:
    """Number of launched kernels and copies that had not begun, by device, at each change."""
    events = trace.events
    is_work = is_category(events["cat"].array, GPU_ACTIVITIES)
    rows = np.flatnonzero(is_work & events["launch"].notna().to_numpy() & events["device"].notna().to_numpy())
    device = events["device"].array[rows].to_numpy(dtype=np.int64)
    ts = events["ts"].to_numpy()
    launched = ts[events["launch"].array[rows].to_numpy(dtype=np.int64)]
    began = np.maximum(ts[rows], launched)
    for pid in np.unique(device).tolist():
        of = device == pid
        when = np.concatenate([launched[of], began[of]])
        change = np.repeat([1, -1], int(of.sum()))
        order = np.argsort(when, kind="stable")
        length, when = np.cumsum(change[order]), when[order]
        last = np.append(when[1:] != when[:-1], True)
        yield int(pid), "launch queue (launched, not begun)", when[last], length[last].tolist()


def _race_marks(trace: Trace, base: int, micros: Micros) -> Iterator[dict[str, Any]]:
    """Both accesses of each race that is not suppressed, on the race lane of its device, and an arrow between them.

    The second access is at the time at which the race was found. The frame has no time for the first access, so it is
    drawn next to the second.
    """
    races = trace.races
    races = races[~races["is_suppressed"] & races["ts"].notna()]
    if not len(races):
        return
    when = micros(races["ts"].to_numpy(dtype=np.int64) - base)
    columns = zip(*(_plain(races[name]) for name in ("first_device", "second_device", *_SIDE)), strict=True)
    for number, (ts, facts, row) in enumerate(zip(when, _facts(races, _RACE_FACTS), columns, strict=True)):
        devices, streams = row[:2], row[2:4]
        for side, device, stream in zip(("first", "second"), devices, streams, strict=True):
            where = {"pid": "Host" if device is None else device, "tid": _lane(stream)}
            name = f"race, {side} access: {facts.get(f'{side}_op', 'unknown op')}"
            mark = {"cat": MARK, "ts": ts} | where
            yield {"ph": "i", "name": name, "s": "t", "args": facts} | mark
            arrow = {"ph": "s"} if side == "first" else {"ph": "f", "bp": "e"}
            yield arrow | {"name": "race", "id": number + 1} | mark


_SIDE: Final = ("first_stream_name", "second_stream_name")


def _lane(stream: Any) -> str:
    return f"{RACES}: {stream}" if isinstance(stream, str) and stream else RACES


def _wait_marks(trace: Trace, base: int, micros: Micros) -> Iterator[dict[str, Any]]:
    """Yield an instant on the waiting thread where each wait for the GPU began."""
    syncs = trace.syncs
    if not len(syncs):
        return
    when = micros(syncs["ts"].to_numpy() - base)
    lanes = zip(_plain(syncs["pid"]), _plain(syncs["tid"]), strict=True)
    for ts, facts, (pid, tid) in zip(when, _facts(syncs, _WAIT_FACTS), lanes, strict=True):
        name = f"wait for the GPU: {facts.get('expression') or facts.get('op') or facts.get('kind')}"
        where = {} if tid is None else {"tid": tid}
        yield {"ph": "i", "cat": MARK, "name": name, "pid": "Host" if pid is None else pid, "ts": ts, "s": "t"} | (
            where | {"args": facts}
        )


def _facts(frame: pd.DataFrame, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the known values of the columns `names`, for each row."""
    columns = [_plain(frame[name]) for name in names]
    return [
        {name: value for name, value in zip(names, row, strict=True) if value is not None}
        for row in zip(*columns, strict=True)
    ]


def _plain(column: pd.Series) -> list[Any]:
    """Return a column as plain Python values, None where missing."""
    values = column.astype(object)
    return [None if gone else value for value, gone in zip(values.tolist(), column.isna().tolist(), strict=True)]
