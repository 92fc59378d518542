"""The collectives of a job: by group and rank, what each rank entered last, and those of all dumps as one frame."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final, TypeAlias

import pandas as pd

from cudalens.frames.flight_records import DEFAULT_GROUP, EXITED, Call, CallFrame, FlightRecords, RankDump
from cudalens.frames.stacks import OWN_FILES

#: A collective of a job: the group, its number in the group, and its part where it is coalesced with others.
Key: TypeAlias = tuple[str, int, int]

_LIBRARY: Final = re.compile(
    rf"(?:^|[/\\])(?:site-packages|dist-packages|lib[/\\]python3[^/\\]*|torch)[/\\]|^<frozen\b|{OWN_FILES}"
)


class Job:
    """The last dump of each rank, by rank and group.

    Attributes:
        last: The last dump of each rank that wrote one.
        first: The first dump of each rank that wrote several.
        num_ranks: Number of ranks of the job, as far as it is known.
    """

    def __init__(self, records: FlightRecords) -> None:
        dumps = {rank: found for rank, found in records.dumps.items() if found}
        self.last: Mapping[int, RankDump] = {rank: found[-1] for rank, found in dumps.items()}
        self.first: Mapping[int, RankDump] = {rank: found[0] for rank, found in dumps.items() if len(found) > 1}
        largest = max((*records.dumps, *(rank for ranks in self._stated.values() for rank in ranks)), default=-1)
        self.num_ranks = max(records.world_size or 0, largest + 1)

    @cached_property
    def _stated(self) -> Mapping[str, frozenset[int]]:
        """Ranks by group, as the dumps state them."""
        found: dict[str, frozenset[int]] = {}
        for dump in self.last.values():
            for name, ranks in dump.groups.items():
                found[name] = found.get(name, frozenset()) | frozenset(ranks)
        return found

    @cached_property
    def calls(self) -> Mapping[str, Mapping[int, Mapping[tuple[int, int], Call]]]:
        """The collectives by group, rank, and number with part."""
        found: dict[str, dict[int, dict[tuple[int, int], Call]]] = defaultdict(lambda: defaultdict(dict))
        for rank, dump in self.last.items():
            for call in dump.calls:
                if call.pair is None:
                    found[call.group][rank][call.seq, call.part] = call
        return found

    @cached_property
    def transfers(self) -> Mapping[str, Mapping[int, list[Call]]]:
        """The sends and receives by lane and rank, in order."""
        found: dict[str, dict[int, list[Call]]] = defaultdict(lambda: defaultdict(list))
        for rank, dump in self.last.items():
            for call in dump.calls:
                if call.pair is not None:
                    found[call.lane][rank].append(call)
        return found

    def members(self, group: str) -> frozenset[int]:
        """Return the ranks of `group`: as stated, else all for the default group, else those with a call in it."""
        seen = frozenset(self.calls.get(group, ()))
        if group == DEFAULT_GROUP:
            return frozenset(range(self.num_ranks))
        return seen | self._stated.get(group, frozenset())

    def is_stated(self, group: str) -> bool:
        """Return whether the dumps state the ranks of `group`, as they do of the default group: all."""
        return group == DEFAULT_GROUP or group in self._stated

    def has_entered(self, rank: int, key: Key) -> bool:
        """Return whether `rank` entered the collective `key`, or a later one of its group."""
        entered = self.calls.get(key[0], {}).get(rank, {})
        return bool(entered) and max(entered) >= key[1:]

    def last_call(self, rank: int) -> Call | None:
        """Return the last collective that `rank` entered."""
        dump = self.last.get(rank)
        return max(dump.calls, key=lambda call: call.created_ns, default=None) if dump else None

    @cached_property
    def last_raised(self) -> Mapping[int, Call]:
        """The last collective of each rank that raised an exception."""
        raised = {rank for rank, text in self.endings.items() if text != EXITED}
        return {rank: call for rank in raised if (call := self.last_call(rank)) is not None}

    @property
    def endings(self) -> Mapping[int, str]:
        """How ranks ended that wrote a dump at their end."""
        return {rank: dump.ending for rank, dump in self.last.items() if dump.ending}


def num_values(sizes: Iterable[tuple[int, ...]]) -> int:
    """Number of values of tensors of the shapes `sizes`."""
    total = 0
    for shape in sizes:
        product = 1
        for size in shape:
            product *= size
        total += product
    return total


def user_frame(stack: Iterable[CallFrame]) -> CallFrame | None:
    """Return the innermost frame of `stack` (innermost first) that is in no library; else the innermost one."""
    frames = list(stack)
    own = (frame for frame in frames if not _LIBRARY.search(frame.filename))
    return next(own, frames[0] if frames else None)


_COLUMNS: Final = {
    "rank": "int64",
    "dump": "int64",
    "group": "category",
    "description": "category",
    "seq": "int64",
    "op": "category",
    "src": "Int64",
    "dst": "Int64",
    "input_sizes": "object",
    "output_sizes": "object",
    "input_dtypes": "object",
    "is_finished": "bool",
    "created_ns": "int64",
    "place": "category",
}


def collectives(records: FlightRecords) -> pd.DataFrame:
    """Return a row for each collective, send and receive of each dump, in order of rank, dump and time.

    Columns: ``rank``; ``dump`` from 0; ``group`` and its ``description``; ``seq``, the collective's number in the
    group; ``op``; ``src``, ``dst``: ranks of a send or receive (Int64); ``input_sizes``, ``output_sizes``: tuples of
    shapes; ``input_dtypes``; ``is_finished``; ``created_ns``: ns since 1970 on the clock of the rank's host; ``place``:
    ``train.py:12``, missing without a stack.
    """
    rows = [
        _row(rank, number, call)
        for rank, dumps in records.dumps.items()
        for number, dump in enumerate(dumps)
        for call in dump.calls
    ]
    return pd.DataFrame(rows, columns=list(_COLUMNS)).astype(_COLUMNS)


def _row(rank: int, number: int, call: Call) -> tuple[object, ...]:
    frame = user_frame(call.stack)
    place = f"{frame.filename}:{frame.line}" if frame else None
    return (
        rank,
        number,
        call.group,
        call.description,
        call.seq,
        call.op,
        *(call.pair or (None, None)),
        call.input_sizes,
        call.output_sizes,
        call.input_dtypes,
        call.is_finished,
        call.created_ns,
        place,
    )
