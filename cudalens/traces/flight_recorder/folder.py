"""Find the dumps of a job's ranks in a folder, with the state files that `cudalens.watch_hangs` writes beside them."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, NamedTuple, TypeAlias

import msgspec

from cudalens.errors import TraceFormatError
from cudalens.frames.flight_records import Call, CallFrame, FlightRecords, RankDump, ThreadStack
from cudalens.frames.info import MAX_RANK
from cudalens.frames.limits import Problems
from cudalens.traces.flight_recorder.dump import MAX_BYTES, Frame, read_dump
from cudalens.traces.flight_recorder.transfers import Transfer, is_of_rank

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
