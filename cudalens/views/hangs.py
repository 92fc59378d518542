"""`FlightRecord`: the collectives of a job, which rank holds it up, where, and which ranks wait."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

import pandas as pd

from cudalens.analysis import units
from cudalens.analysis.hangs import Culprit, Hang, Job, collectives, diagnose, user_frame
from cudalens.frames.flight_records import Call, CallFrame, FlightRecords
from cudalens.views.sections.model import Cell, Column, Facts, Items, Row, Section, Table, Text
from cudalens.views.sections.shown import Shown, write_page


class FlightRecord(Shown):
    """The collectives that each rank of a job entered; prints which rank holds up the others."""

    def __init__(self, records: FlightRecords) -> None:
        self._records = records

    @cached_property
    def hang(self) -> Hang:
        """What holds up the job: its status, the ranks at fault and why, and the ranks that wait."""
        return diagnose(self._records)

    @property
    def verdict(self) -> str:
        """The answer in one line."""
        return verdict(self.hang)

    @cached_property
    def entries(self) -> pd.DataFrame:
        """A row for each collective of each dump: rank, dump, group, seq, op, sizes, dtypes, finished, time, place."""
        return collectives(self._records)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write one offline page; returns its path.

        Raises:
            OutputError: The file cannot be written; an existing file is unchanged.
        """
        return write_page(path, "Hang", self._repr_html_())

    @property
    def section(self) -> Section:
        """The verdict, the ranks, and what the dumps cannot say."""
        return section(self._records, self.hang)


_HEADS: Final[Mapping[str, str]] = {
    "hang": "Hang: ",
    "failed": "Failed: ",
    "no_progress": "No progress: ",
    "waiting": "Waiting: ",
}
_COLUMNS: Final = (
    Column("rank", "rank", "right"),
    Column("state", "state"),
    Column("last collective", "last", text_width=44),
    Column("at", "at", text_width=40),
)
_NUM_ROWS: Final = 200


def verdict(hang: Hang) -> str:
    """Return the answer in one line: the rank, what it did, who waits."""
    if hang.status == "running":
        return "No rank waits for another one"
    if hang.status == "unknown":
        verb = "is" if len(hang.waiting) == 1 else "are"
        what = "collectives of groups whose ranks the dumps do not state"
        return f"Not known whether a rank is missing: {_ranks(hang.waiting)} {verb} in {what}"
    head = _HEADS[hang.status]
    if hang.wait is None:
        return f"{head}{_ended(hang)}"
    groups: dict[str, list[Culprit]] = {}
    for culprit in hang.culprits:
        groups.setdefault(culprit.reason, []).append(culprit)
    either = " (one of them is at fault)" if hang.is_ambiguous and len(hang.culprits) > 1 else ""
    waiters = ""
    if hang.waiting and hang.status != "failed":
        waits = "wait" if len(hang.waiting) > 1 else "waits"
        if hang.waited_ns:
            waits = f"{'have' if len(hang.waiting) > 1 else 'has'} waited {units.duration(hang.waited_ns)}"
        behind = f", {units.plural(len(hang.waiting_behind), 'rank')} behind them" if hang.waiting_behind else ""
        waiters = f"; {_ranks(hang.waiting)} {waits}{behind}"
    return f"{head}{'; '.join(_sentence(hang, reason, found) for reason, found in groups.items())}{either}{waiters}"


def section(records: FlightRecords, hang: Hang) -> Section:
    """Return the verdict, a row for each rank, and what the dumps cannot say."""
    job = Job(records)
    rows = [_row(job, hang, rank) for rank in _order(job, hang)[:_NUM_ROWS]]
    table = Table(_COLUMNS, rows, num_rows=job.num_ranks, max_text=12, num_open=20, more=("rank", "record.entries"))
    unknown = (Items(hang.unknown, title="What these dumps cannot say"),) if hang.unknown else ()
    problems = tuple(f"{one.kind} ({units.times(one.count)}): {one.where}" for one in records.problems)
    return Section(
        "hang", "cl-hang", verdict=verdict(hang), notes=problems, blocks=(_facts(records, job), table, *unknown)
    )


def _facts(records: FlightRecords, job: Job) -> Facts:
    num_dumps = sum(map(len, records.dumps.values()))
    some = "" if len(job.last) == job.num_ranks else f"{units.count(len(job.last))} of "
    dumps = f"{units.count(num_dumps)}, of {some}{units.plural(job.num_ranks, 'rank')}"
    groups = [f"{_group(job, name)} ({units.plural(len(job.members(name)), 'rank')})" for name in sorted(job.calls)]
    shown = ", ".join(groups[:6]) + (f" and {len(groups) - 6} more" if len(groups) > 6 else "")
    return Facts((("Dumps", dumps), ("Groups", shown)))


def _group(job: Job, name: str) -> str:
    return next((call.description for calls in job.calls[name].values() for call in calls.values()), "") or name


def _sentence(hang: Hang, reason: str, culprits: Sequence[Culprit]) -> str:
    assert hang.wait is not None
    first, expected = culprits[0], next(iter(_usual(hang)), None)
    who = _ranks([one.rank for one in culprits])
    what = _collective(expected if first.rank in hang.wait.entered or expected is None else expected.other)
    its = f"rank {first.rank} " if len(culprits) > 1 else ""
    where = f"; {its or 'it '}is at {_place(first.place)}" if first.place else ""
    if reason == "not entered":
        return f"{who} {_has(culprits)} not entered {what}{where}"
    if reason in ("exited", "raised"):
        how = "exited" if reason == "exited" else f"raised {units.shorten(first.ending, 80)}"
        return f"{who} {how} and did not enter {what}"
    if reason == "no dump":
        return f"{who} {_has(culprits)} no dump and did not enter {what}, as far as the other ranks show"
    if reason == "deadlock":
        calls = ", ".join(f"rank {one.rank} in {_collective(one.call)}" for one in culprits[:4])
        return f"{who} wait for each other: {calls}"
    mine = f"{_collective(first.call)}{_at(first.place)}"
    order = ", which followed it before" if reason == "other order" else ""
    return f"{who} entered {mine} instead of {what}{order}"


def _usual(hang: Hang) -> Iterator[Call]:
    """Calls of the collective that is held up, of ranks that are not at fault."""
    assert hang.wait is not None
    at_fault = {culprit.rank for culprit in hang.culprits}
    if hang.is_ambiguous:
        at_fault = {hang.culprits[0].rank}
    yield from (call for rank, call in hang.wait.entered.items() if rank not in at_fault)


def _ended(hang: Hang) -> str:
    who = _ranks([one.rank for one in hang.culprits])
    ending = hang.culprits[0].ending
    return f"{who} raised {units.shorten(ending, 120)}" if ending else f"{who} left no dump, the others then raised"


def _has(culprits: Sequence[Culprit]) -> str:
    return "has" if len(culprits) == 1 else "have"


def _ranks(ranks: Sequence[int]) -> str:
    """``rank 3``, ``ranks 0, 1 and 2``, ``ranks 0, 1, 2 and 40 more``."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) <= 4:
        return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"
    return f"ranks {', '.join(map(str, ranks[:3]))} and {len(ranks) - 3} more"


def _collective(call: Call | None) -> str:
    """``all_reduce #5 of default_pg (10 Float)``."""
    if call is None:
        return "a collective"
    if call.pair is not None:
        return f"{_transfer(call)}{_values(call)}"
    return f"{call.op} #{call.seq} of {call.description or call.group}{_values(call)}"


def _transfer(call: Call) -> str:
    """``recv of pp from rank 0``."""
    assert call.pair is not None
    of = f"{call.op} of {call.description or call.group}"
    return f"{of} to rank {call.pair[1]}" if call.op == "send" else f"{of} from rank {call.pair[0]}"


def _values(call: Call) -> str:
    """`` (10 Float)``, or nothing."""
    shapes = ", ".join("x".join(map(str, shape)) or "scalar" for shape in call.input_sizes[:2])
    more = ", …" if len(call.input_sizes) > 2 else ""
    dtype = call.input_dtypes[0] if call.input_dtypes else ""
    return f" ({shapes}{more} {dtype})" if shapes else ""


def _at(place: str) -> str:
    return f" at {_place(place)}" if place else ""


def _place(place: str) -> str:
    path, _, function = place.rpartition(" ")
    return f"{units.short_place(path)} in {function}"


def _order(job: Job, hang: Hang) -> list[int]:
    """Return all ranks: the culprits, those that wait, the others."""
    first = [culprit.rank for culprit in hang.culprits]
    return list(dict.fromkeys([*first, *hang.waiting, *hang.waiting_behind, *range(job.num_ranks)]))


def _row(job: Job, hang: Hang, rank: int) -> Row:
    call, dump = job.last_call(rank), job.last.get(rank)
    stack: Sequence[CallFrame] = dump.threads[0].stack if dump is not None and dump.threads else ()
    frame = user_frame(stack or (call.stack if call else ()))
    at: Cell = Text(units.short_place(f"{frame.filename}:{frame.line}"), "place", full=frame.filename) if frame else "-"
    return Row((str(rank), _state(job, hang, rank), _collective(call) if call else "-", at))


def _state(job: Job, hang: Hang, rank: int) -> Cell:
    culprit = next((one for one in hang.culprits if one.rank == rank), None)
    if culprit is not None:
        return Text(culprit.reason, "strong")
    if rank in hang.waiting:
        return "waits"
    if rank in hang.waiting_behind:
        return "waits behind"
    return "runs" if rank in job.last else "no dump"
