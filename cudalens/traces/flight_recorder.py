"""Read a folder of dumps of torch's FlightRecorder, JSON or pickle, and state files of `cudalens.watch_hangs`.

NCCL names them ``nccl:send 1->2`` and ``nccl:recv 2<-1``, with ranks of the group. Those that were started together
(``batch_isend_irecv``) have one ``p2p_seq_id``, counted by each rank alone, and only the entry ``nccl:coalesced`` after
them has a state. gloo records none; `cudalens.watch_hangs` writes the one in which the main thread is.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import msgspec

from cudalens.errors import TraceFormatError
from cudalens.frames.flight_records import DEFAULT_GROUP, Call, CallFrame, FlightRecords, RankDump, ThreadStack
from cudalens.frames.info import MAX_RANK
from cudalens.frames.limits import Problems
from cudalens.traces.safe_pickle import load_plain

#: Suffix of the files in which `cudalens.watch_hangs` states what a dump does not have.
STATE_SUFFIX: Final = ".state.json"

#: Files that people and tools leave beside dumps: stacks of py-spy, output of ranks. They are not dumps.
_NOTES: Final = frozenset({".txt", ".log", ".out", ".err"})

_RANK: Final = re.compile(r"rank[\W_]{0,3}(\d{1,7})", re.IGNORECASE)
_DUMP: Final = re.compile(r"dump[\W_]{0,3}(\d{1,7})", re.IGNORECASE)
_NUMBER: Final = re.compile(r"\d{1,7}")
_EXPECTED: Final = "a folder with a FlightRecorder dump of each rank (`cudalens.watch_hangs` writes them)"


class _Thread(msgspec.Struct):
    name: str
    frames: list[Frame]


#: Ranks and sizes are bounded: memory is allocated for as many.
Rank: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MAX_RANK)]


class State(msgspec.Struct):
    """What `cudalens.watch_hangs` writes about a rank beside its collectives.

    Attributes:
        rank: The rank.
        world_size: Number of ranks.
        written_ns: When it was written, in ns since 1970.
        groups: Ranks of each process group, by name.
        threads: Python stacks of the threads, the main thread first.
        ending: How the process ended; "" where it runs.
        transfer: The send or receive in which the main thread is; None for none.
    """

    rank: Rank
    world_size: Rank
    written_ns: int
    groups: dict[str, list[Rank]] = {}
    threads: list[_Thread] = []
    ending: str = ""
    transfer: Transfer | None = None


class _Name(NamedTuple):
    number: int  # 0 where the name has no number
    folder: str
    stem: str


def read_flight_records(folder: str | os.PathLike[str]) -> FlightRecords:
    """Read the dumps of all ranks in `folder`.

    The rank of a file is the number after ``rank`` in its name, else the last number in its name. Where a rank has
    several dumps, the number after ``dump`` orders them, else the name. Of a JSON file and a pickle with the same name,
    the pickle is read, because it has the stacks. Files that are not dumps are counted in ``problems``.

    Raises:
        TraceFormatError: There is no such folder, or no dump in it. The message says what was found.
    """
    folder = Path(folder)
    problems = Problems()
    dumps: dict[int, dict[_Name, RankDump]] = defaultdict(dict)
    states: dict[int, dict[_Name, State]] = defaultdict(dict)
    for path, rank, name in _files(folder):
        try:
            if path.name.endswith(STATE_SUFFIX):
                states[rank][name] = _read_state(path)
            elif name not in dumps[rank]:
                dumps[rank][name] = read_dump(path, problems)
        except TraceFormatError as error:
            problems.add("a file is not a dump", str(error)[:300])
    if not any(dumps.values()):
        first = problems.first()
        raise TraceFormatError(folder, found="no dump" + (f"; first: {first}" if first else ""), expected=_EXPECTED)
    world_size = max((state.world_size for named in states.values() for state in named.values()), default=None)
    ranks = sorted({*states, *(rank for rank, named in dumps.items() if named)})
    return FlightRecords(
        {rank: tuple(_merged(dumps[rank], states[rank])) for rank in ranks}, world_size, problems.to_tuple()
    )


def _files(folder: Path) -> Iterator[tuple[Path, int, _Name]]:
    """Yield the files of `folder` and its subfolders with a rank in their name; pickles before JSON."""
    if not folder.is_dir():
        raise TraceFormatError(folder, found="a file" if folder.exists() else "nothing", expected=_EXPECTED)
    paths = [
        path
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".") and path.suffix not in _NOTES
    ]
    for path in sorted(paths, key=lambda path: (path.suffix == ".json", path)):
        rank = _rank(path.name)
        if rank is not None and rank <= MAX_RANK:
            number = _DUMP.search(path.name)
            stem = path.name.removesuffix(STATE_SUFFIX).removesuffix(".json").removesuffix(".pickle")
            yield path, rank, _Name(int(number[1]) if number else 0, str(path.parent), stem)


def _rank(name: str) -> int | None:
    match = _RANK.search(name)
    if match:
        return int(match[1])
    numbers = _NUMBER.findall(_DUMP.sub("", name))
    return int(numbers[-1]) if numbers else None


def _read_state(path: Path) -> State:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise TraceFormatError(path, found="more than 1 GiB", expected="a state file of `watch_hangs`")
        return msgspec.json.decode(path.read_bytes(), type=State)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise TraceFormatError(path, found=str(error)[:200], expected="a state file of `watch_hangs`") from error


def _merged(dumps: dict[_Name, RankDump], states: dict[_Name, State]) -> Iterator[RankDump]:
    """Yield the dumps in order, each with what its state file adds."""
    began: Call | None = None
    for name in sorted({*dumps, *states}):
        dump, state = dumps.get(name), states.get(name)
        if state is None:
            if dump is not None:
                yield dump
        elif dump is not None:
            groups = {**dump.groups, **{group: tuple(ranks) for group, ranks in state.groups.items()}}
            threads = tuple(
                ThreadStack(thread.name, tuple(CallFrame(f.filename, f.line, f.name) for f in thread.frames))
                for thread in state.threads
            )
            began = _entered(dump, state, threads, began)
            yield replace(
                dump,
                calls=dump.calls if began is None else (*dump.calls, began),
                groups=groups,
                written_ns=state.written_ns,
                threads=threads,
                ending=state.ending,
            )


def _entered(dump: RankDump, state: State, threads: tuple[ThreadStack, ...], before: Call | None) -> Call | None:
    """The send or receive in which the main thread is, if the dump has none; since when, as far as dumps show."""
    transfer = state.transfer
    is_recorded = any(call.pair is not None for call in dump.calls)
    if transfer is None or is_recorded or not is_of_rank(transfer, state.rank, state.groups):
        return None
    found = Call(
        group=transfer.group,
        description=next((call.description for call in dump.calls if call.group == transfer.group), ""),
        seq=1,
        part=0,
        op=transfer.op,
        backend="",
        input_sizes=(),
        output_sizes=(),
        input_dtypes=(),
        is_finished=False,
        created_ns=state.written_ns,
        stack=threads[0].stack if threads else (),
        pair=(transfer.src, transfer.dst),
    )
    is_same = before is not None and (before.lane, before.stack) == (found.lane, found.stack)
    return before if is_same else found


#: Larger files are refused. A dump of 2,000 collectives with stacks has about 3 MB.
MAX_BYTES: Final = 1 << 30
_PICKLE_MAGIC: Final = b"\x80"
_EXPECTED_DUMP: Final = "a dump of torch's FlightRecorder, JSON or pickle"


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
        raise TraceFormatError(path, found=error.strerror or "an unreadable file", expected=_EXPECTED_DUMP) from error
    try:
        if data.startswith(_PICKLE_MAGIC):
            return msgspec.convert(load_plain(str(path), data), _Dump)
        return msgspec.json.decode(data, type=_Dump)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TraceFormatError(path, found=f"other contents ({error})"[:200], expected=_EXPECTED_DUMP) from error


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


_NAME: Final = re.compile(r"(send|recv) (\d{1,7})(->|<-)(\d{1,7})")
#: Name of the entry that has the state of what was started together.
COALESCED: Final = "coalesced"


class Transfer(msgspec.Struct):
    """The send or receive in which the main thread of a rank is, as state files hold it.

    Attributes:
        op: ``send`` or ``recv``.
        group: Name of the process group.
        src: The rank that sends.
        dst: The rank that receives.
    """

    op: str
    group: str
    src: int
    dst: int


def pair_of(op: str, members: tuple[int, ...] | None, *, is_default: bool) -> tuple[str, tuple[int, int]] | None:
    """``send`` or ``recv`` with the ranks of the job that send and receive; None where `op` does not state them.

    Args:
        op: ``send 1->2`` or ``recv 2<-1``, ranks of the group.
        members: The ranks of the group; None where they are unknown.
        is_default: Whether it is the group of all ranks.
    """
    match = _NAME.fullmatch(op)
    if match is None:
        return None
    here, there = int(match[2]), int(match[4])
    if members is not None and max(here, there) < len(members):
        here, there = members[here], members[there]
    elif not is_default:
        return None
    return match[1], ((here, there) if match[1] == "send" else (there, here))


def is_of_rank(transfer: Transfer, rank: int, groups: Mapping[str, object]) -> bool:
    """Return whether a rank can be in `transfer`."""
    mine = {"send": transfer.src, "recv": transfer.dst}.get(transfer.op)
    return mine == rank and transfer.group in groups
