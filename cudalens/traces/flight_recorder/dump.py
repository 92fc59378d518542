"""Read one dump of torch's FlightRecorder, JSON or pickle."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from cudalens.errors import TraceFormatError
from cudalens.frames.flight_records import DEFAULT_GROUP, Call, CallFrame, RankDump
from cudalens.frames.info import MAX_RANK
from cudalens.frames.limits import Problems
from cudalens.traces.flight_recorder.transfers import COALESCED, pair_of
from cudalens.traces.safe_pickle import load_plain

#: Larger files are refused. A dump of 2,000 collectives with stacks has about 3 MB.
MAX_BYTES: Final = 1 << 30
_PICKLE_MAGIC: Final = b"\x80"
_EXPECTED: Final = "a dump of torch's FlightRecorder, JSON or pickle"


class Frame(msgspec.Struct):
    """A frame of a Python stack, as dumps and state files hold it."""

    filename: str
    line: int
    name: str


class _Entry(msgspec.Struct):
    profiling_name: str
    collective_seq_id: int
    process_group: tuple[str, str]
    time_created_ns: int
    retired: bool = False
    state: str = ""
    is_p2p: bool = False
    p2p_seq_id: int = 0
    record_id: int = 0
    input_sizes: list[tuple[int, ...]] = []
    output_sizes: list[tuple[int, ...]] = []
    input_dtypes: list[str] = []
    frames: list[Frame] = []


class _Group(msgspec.Struct):
    name: str = ""
    desc: str = ""
    ranks: str = ""


class _Dump(msgspec.Struct):
    entries: list[Any]
    pg_config: dict[str, Any] = {}


def read_dump(path: Path, problems: Problems) -> RankDump:
    """Return the dump in the file `path`.

    An entry that cannot be read is left out and counted in `problems`, and so is a send or receive without its ranks.

    Raises:
        TraceFormatError: It is not such a dump, is cut off, or is larger than 1 GiB.
        UnsafeSnapshotError: It is a pickle with other contents; nothing of it was run.
    """
    entries = []
    found = _decoded(path)
    for number, entry in enumerate(found.entries):
        try:
            entries.append(msgspec.convert(entry, _Entry, strict=False))
        except msgspec.ValidationError as error:
            problems.add("a collective cannot be read", f"{path.name}, entry {number}: {error}")
    groups = _groups(found.pg_config)
    calls = _calls(entries, groups)
    if missing := sum(entry.is_p2p and not _is_coalesced(entry) for entry in entries) - sum(map(_is_transfer, calls)):
        problems.add("a send or receive without its ranks", path.name, missing)
    return RankDump(calls, groups, has_all=any(map(_is_transfer, calls)) and not entries[0].record_id)


def _decoded(path: Path) -> _Dump:
    try:
        num_bytes = path.stat().st_size
        if num_bytes > MAX_BYTES:
            raise TraceFormatError(path, found=f"{num_bytes:,} bytes", expected=f"at most {MAX_BYTES:,}")
        data = path.read_bytes()
    except OSError as error:
        raise TraceFormatError(path, found=error.strerror or "an unreadable file", expected=_EXPECTED) from error
    try:
        if data.startswith(_PICKLE_MAGIC):
            return msgspec.convert(load_plain(str(path), data), _Dump)
        return msgspec.json.decode(data, type=_Dump)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TraceFormatError(path, found=f"other contents ({error})"[:200], expected=_EXPECTED) from error


def _is_coalesced(entry: _Entry) -> bool:
    return entry.profiling_name.endswith(f":{COALESCED}")


def _is_transfer(call: Call) -> bool:
    return call.pair is not None


def _batch(entry: _Entry) -> tuple[str, bool, int]:
    """Return what was started together has one of these."""
    return entry.process_group[0], entry.is_p2p, entry.p2p_seq_id if entry.is_p2p else entry.collective_seq_id


def _calls(entries: list[_Entry], groups: dict[str, tuple[int, ...]]) -> tuple[Call, ...]:
    finished = {_batch(entry) for entry in entries if _is_coalesced(entry) and _is_finished(entry)}
    parts: Counter[tuple[str, int]] = Counter()
    numbers: Counter[str] = Counter()
    found = []
    for entry in entries:
        is_finished = _is_finished(entry) or _batch(entry) in finished
        if not entry.is_p2p:
            key = entry.process_group[0], entry.collective_seq_id
            found.append(_call(entry, is_finished=is_finished, seq=entry.collective_seq_id, part=parts[key]))
            parts[key] += 1
        elif (call := _transfer(entry, groups, is_finished=is_finished)) is not None:
            numbers[call.lane] += 1
            found.append(replace(call, seq=numbers[call.lane]))
    return tuple(found)


def _is_finished(entry: _Entry) -> bool:
    return entry.retired or entry.state == "completed"


def _transfer(entry: _Entry, groups: dict[str, tuple[int, ...]], *, is_finished: bool) -> Call | None:
    name = entry.process_group[0]
    op = entry.profiling_name.rpartition(":")[2]
    found = pair_of(op, groups.get(name), is_default=name == DEFAULT_GROUP)
    if found is None:
        return None
    return replace(_call(entry, is_finished=is_finished), op=found[0], pair=found[1], batch=entry.p2p_seq_id)


def _call(entry: _Entry, *, is_finished: bool, seq: int = 0, part: int = 0) -> Call:
    backend, _, op = entry.profiling_name.rpartition(":")
    name, description = entry.process_group
    return Call(
        group=name,
        description=description,
        seq=seq,
        part=part,
        op=op.lstrip("_"),
        backend=backend,
        input_sizes=tuple(entry.input_sizes),
        output_sizes=tuple(entry.output_sizes),
        input_dtypes=tuple(entry.input_dtypes),
        is_finished=is_finished,
        created_ns=entry.time_created_ns,
        stack=tuple(CallFrame(frame.filename, frame.line, frame.name) for frame in entry.frames),
    )


def _groups(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Ranks by group; NCCL states them as the text ``[0, 1]``, gloo does not state them."""
    found = {}
    for name, value in config.items():
        try:
            group = msgspec.convert(value, _Group)
            ranks = msgspec.json.decode(group.ranks, type=tuple[Annotated[int, msgspec.Meta(ge=0, le=MAX_RANK)], ...])
        except msgspec.MsgspecError:
            continue
        if ranks:
            found[name] = ranks
    return found
