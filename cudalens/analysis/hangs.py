"""Find which rank of a job holds up the others, and why, from the collectives that each rank entered."""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, TypeAlias

import pandas as pd

from cudalens.frames.flight_records import DEFAULT_GROUP, EXITED, Call, CallFrame, FlightRecords, RankDump
from cudalens.frames.stacks import OWN_FILES

Status = Literal["hang", "failed", "no_progress", "waiting", "running", "unknown"]
Reason = Literal[
    "not entered",
    "other operation",
    "other size",
    "other dtype",
    "other order",
    "other group",
    "deadlock",
    "exited",
    "raised",
    "no dump",
]

#: What gloo and NCCL say if the process of another rank ended.
_PEER_ENDED: Final = ("connection closed", "connection reset", "broken pipe", "remote process", "gloo/transport")
_TIMED_OUT: Final = ("timed out", "timeout")


@dataclass(frozen=True, slots=True)
class Culprit:
    """A rank that holds up others.

    Attributes:
        rank: The rank.
        reason: What it did instead of what the others wait for.
        call: The last collective that it entered; None for none or without a dump.
        place: ``train.py:12 step``, where its main thread is, or the place of its last collective; "" where unknown.
        ending: How its process ended; "" where it runs, or where it is unknown.
    """

    rank: int
    reason: Reason
    call: Call | None
    place: str = ""
    ending: str = ""


@dataclass(frozen=True, slots=True)
class Hang:
    """What holds up a job.

    Attributes:
        status: ``hang``: it cannot go on. ``failed``: ranks ended. ``no_progress``: some ranks wait, and no rank
            entered a collective between two dumps. ``waiting``: some ranks wait in the only dump, or others went on.
            ``running``: no rank waits for another one. ``unknown``: ranks are in collectives of groups whose ranks the
            dumps do not state, so that a missing rank would not be found.
        wait: The collective that the culprits hold up; None where none is.
        culprits: The ranks that hold it up; several where the dumps do not distinguish them.
        is_ambiguous: Whether only one of `culprits` is at fault, and the dumps do not say which.
        waiting: Ranks that wait for the culprits.
        waiting_behind: Ranks that wait for a rank in `waiting`, in other collectives.
        waited_ns: How long the first of `waiting` had waited when the last dump was written; None where unknown.
        unknown: What the dumps cannot say, a sentence each.
    """

    status: Status
    wait: Wait | None = None
    culprits: tuple[Culprit, ...] = ()
    is_ambiguous: bool = False
    waiting: tuple[int, ...] = ()
    waiting_behind: tuple[int, ...] = ()
    waited_ns: int | None = None
    unknown: tuple[str, ...] = ()


def diagnose(records: FlightRecords) -> Hang:
    """Find the rank that holds up the others.

    The collectives of a process group have numbers that are equal on all ranks. A rank waits if it has entered a number
    that another member has not entered, or entered differently. The ranks that others wait for and that wait for no
    one are the culprits. If there is none, ranks wait for each other in a circle.
    """
    job = Job(records)
    found = waits(job)
    if not found:
        return _without_waits(job)
    differing = next((wait for wait in found if wait.odd), None)
    if differing is not None:
        return _differing(job, differing, found)
    roots = _roots(job, found)
    if roots:
        return _missing(job, roots, found)
    return _circle(job, found)


def _without_waits(job: Job) -> Hang:
    absent = _absent(job)
    endings = {rank: text for rank, text in job.endings.items() if text != EXITED}
    if not endings:
        # No rank is missing among those known of each group; of some groups, the dumps do not state the ranks.
        last = {rank: call for rank in job.last if (call := job.last_call(rank)) is not None}
        inside = {rank: call for rank, call in last.items() if not call.is_finished and not job.is_stated(call.group)}
        if not inside:
            return Hang("running")
        reason = (
            "The dumps do not state which ranks belong to these groups (gloo records none): a rank that never entered "
            "one of them is not found. `cudalens.watch_hangs` writes the ranks of each group."
        )
        return Hang("unknown", waiting=tuple(sorted(inside)), unknown=(reason,))
    ranks = {rank for rank, text in endings.items() if not _is_consequence(text)} or absent or set(endings)
    culprits = tuple(_culprit(job, rank, _reason(job, rank)) for rank in sorted(ranks))
    return Hang("failed", culprits=culprits, waiting=tuple(sorted(set(endings) - ranks)))


def _differing(job: Job, wait: Wait, found: list[Wait]) -> Hang:
    """Ranks entered one collective differently."""
    odd = set(wait.odd)
    unusual = {rank for rank in odd if habit(job, rank) == "unusual"}
    usual = {rank for rank in odd if habit(job, rank) == "usual"}
    chosen = unusual or (odd - usual) or odd
    is_ambiguous = chosen == set(wait.entered)
    culprits = []
    for rank in sorted(chosen):
        reason: Reason = f"other {wait.odd[rank]}"  # type: ignore[assignment]  # operation, dtype or size
        if reason == "other operation" and comes_later(job, rank, frozenset(wait.entered) - chosen):
            reason = "other order"
        culprits.append(_culprit(job, rank, reason))
    status: Status = "failed" if _all_ended(job, wait) else "hang"
    return _hang(job, status, wait, culprits, found, is_ambiguous=is_ambiguous)


def _roots(job: Job, found: list[Wait]) -> list[int]:
    """Return the ranks that others wait for and that wait for none, most direct waiters first."""
    waiting = {rank for wait in found for rank in wait.waiting}
    counts: dict[int, int] = {}
    for wait in found:
        for rank in wait.blockers - waiting:
            counts[rank] = counts.get(rank, 0) + len(wait.waiting)
    return sorted(counts, key=lambda rank: (-counts[rank], rank))


def _missing(job: Job, roots: list[int], found: list[Wait]) -> Hang:
    """Ranks did not enter a collective, and wait in no other."""
    ended = [rank for rank in roots if rank in job.endings and not _is_consequence(job.endings[rank])]
    chosen = ended or roots
    wait = next(wait for wait in found if set(chosen) & wait.blockers)
    culprits = [_culprit(job, rank, _reason(job, rank)) for rank in sorted(set(chosen) & wait.blockers)]
    all_end = all(one.reason in ("exited", "raised", "no dump") for one in culprits)
    status: Status = "hang" if all_end else _progress(job)
    if all_end and _all_ended(job, wait):
        status = "failed"
    return _hang(job, status, wait, culprits, found)


def _circle(job: Job, found: list[Wait]) -> Hang:
    """Return whether each rank that is waited for waits itself, in another collective."""
    wait_of = {rank: wait for wait in found for rank in wait.waiting}
    path: list[int] = []
    rank = min(found[0].blockers)
    while rank not in path:
        path.append(rank)
        rank = min(wait_of[rank].blockers)
    circle = path[path.index(rank) :]
    involved = [wait for wait in found if wait.waiting & set(circle)]
    # At fault are the ranks that left their usual order, or that are alone against all others; else all of the circle.
    reason: Reason
    ranks = {rank for wait in involved for rank in wait.waiting}
    unusual = {rank for rank in ranks if habit(job, rank) == "unusual"}
    if unusual and unusual != ranks:
        is_transfer = any((call := job.last_call(rank)) is not None and call.pair for rank in unusual)
        chosen = unusual
        reason = "other operation" if is_transfer else "other group"
    else:
        few, many = (extreme(involved, key=lambda wait: len(wait.waiting)) for extreme in (min, max))
        if len(few.waiting) < len(many.waiting) and few.blockers >= many.waiting:
            chosen, reason = set(few.waiting), "other group"
        else:
            chosen, reason = set(circle), "deadlock"
    wait = next(wait for wait in involved if wait.blockers & chosen)
    return _hang(job, "hang", wait, [_culprit(job, rank, reason) for rank in sorted(chosen)], found)


def _hang(
    job: Job, status: Status, wait: Wait, named: list[Culprit], found: list[Wait], *, is_ambiguous: bool = False
) -> Hang:
    culprits = tuple(named)
    at_fault = {culprit.rank for culprit in culprits}
    direct = {rank for one in found if one.blockers & at_fault or one is wait for rank in one.entered} - at_fault
    behind = {rank for one in found for rank in one.waiting} - direct - at_fault
    written = [dump.written_ns for rank in direct if (dump := job.last.get(rank)) and dump.written_ns]
    waited = max(max(written) - wait.began_ns, 0) if written else None
    unknown = _unknown(job, status, culprits)
    return Hang(
        status, wait, culprits, is_ambiguous, tuple(sorted(direct)), tuple(sorted(behind)), waited, tuple(unknown)
    )


def _unknown(job: Job, status: Status, culprits: tuple[Culprit, ...]) -> list[str]:
    found = []
    if status == "waiting" and not job.first:
        found.append("One dump cannot distinguish a slow rank from one that never comes: write a second one.")
    if status == "no_progress":
        found.append("The dumps cannot distinguish a long computation from an endless one.")
    if any(culprit.reason == "no dump" for culprit in culprits):
        found.append("A rank without a dump ended, could not write, or its file is not in the folder.")
    if any(not culprit.place and culprit.reason != "no dump" for culprit in culprits):
        found.append(
            "The dumps do not say where that rank is: `cudalens.watch_hangs` writes the stacks of all threads."
        )
    return found


def _culprit(job: Job, rank: int, reason: Reason) -> Culprit:
    dump, call = job.last.get(rank), job.last_call(rank)
    stack = call.stack if call is not None else ()
    if reason in ("not entered", "exited", "raised") and dump is not None:
        stack = dump.threads[0].stack if dump.threads else ()
    frame = user_frame(stack)
    place = f"{frame.filename}:{frame.line} {frame.name}" if frame else ""
    return Culprit(rank, reason, call, place, job.endings.get(rank, ""))


def _reason(job: Job, rank: int) -> Reason:
    if rank in _absent(job):
        return "no dump"
    ending = job.endings.get(rank)
    if not ending:
        return "not entered"
    return "exited" if ending == EXITED else "raised"


def _progress(job: Job) -> Status:
    """Return whether any rank entered a collective between its two dumps."""
    both = [(job.first[rank], job.last[rank]) for rank in job.first]
    if not both or len(both) < len(job.last):
        return "waiting"
    return "waiting" if any(_newest(a.calls) != _newest(b.calls) for a, b in both) else "no_progress"


def _newest(calls: Iterable[Call]) -> int:
    return max((call.created_ns for call in calls), default=0)


def _absent(job: Job) -> set[int]:
    return set(range(job.num_ranks)) - set(job.last)


def _all_ended(job: Job, wait: Wait) -> bool:
    return all(rank in job.endings for rank in wait.entered)


def _is_consequence(ending: str) -> bool:
    """Return whether a rank raised because of another one: it ended, or did not come in time."""
    text = ending.lower()
    return any(part in text for part in (*_PEER_ENDED, *_TIMED_OUT))


#: A collective without its number: group (and direction), operation, types, number of values.
Kind: TypeAlias = tuple[str, str, tuple[str, ...], int]


def habit(job: Job, rank: int) -> Literal["usual", "unusual", "unknown"]:
    """``unusual`` if the rank entered another collective than each time before after the two that precede it.

    ``unknown`` if those two did not occur in this order before.
    """
    kinds = _kinds(job, rank)
    if len(kinds) < 3:
        return "unknown"
    *_, first, second, last = kinds
    followers = {kinds[at + 2] for at in range(len(kinds) - 3) if (kinds[at], kinds[at + 1]) == (first, second)}
    if not followers:
        return "unknown"
    return "usual" if last in followers else "unusual"


def comes_later(job: Job, rank: int, others: frozenset[int]) -> bool:
    """Return whether the rank's last collective followed, before, the one that `others` entered instead."""
    kinds = _kinds(job, rank)
    expected = {found[-1] for other in others if (found := _kinds(job, other))}
    pairs = itertools.pairwise(kinds[:-1])
    return bool(kinds) and any(first in expected and second == kinds[-1] for first, second in pairs)


def _kinds(job: Job, rank: int) -> list[Kind]:
    dump = job.last.get(rank)
    calls = sorted(dump.calls, key=lambda call: call.created_ns) if dump else []
    return [(call.lane, *signature(call)) for call in calls]


Difference = Literal["operation", "dtype", "size"]

#: Tensors that must have as many values on all ranks, by operation. torch/distributed/distributed_c10d.py.
_EQUAL_INPUTS: Final = ("all_reduce", "allreduce", "broadcast", "reduce", "all_gather", "gather", "reduce_scatter")
_EQUAL_OUTPUTS: Final = ("scatter",)
#: Collectives at the end of each group that are compared. One that all ranks have left is not compared.
_NUM_COMPARED: Final = 8


@dataclass(frozen=True, slots=True)
class Wait:
    """A collective that cannot end.

    Attributes:
        key: The collective.
        entered: The calls of the ranks that entered it.
        waiting: Those that have not left it. A rank that raised an exception has left it.
        missing: Members of the group that have not entered it.
        odd: Ranks that entered it differently from most, with the difference. All ranks where no majority exists.
    """

    key: Key
    entered: Mapping[int, Call]
    waiting: frozenset[int]
    missing: frozenset[int]
    odd: Mapping[int, Difference]

    @property
    def blockers(self) -> frozenset[int]:
        """The ranks that hold it up."""
        return self.missing | frozenset(self.odd)

    @property
    def began_ns(self) -> int:
        """When its first rank entered it."""
        return min(call.created_ns for call in self.entered.values())


def waits(job: Job) -> list[Wait]:
    """The collectives that cannot end: entered by some ranks alone, or differently. In order of their beginning."""
    found = {wait.key: wait for rank in job.last for wait in _of_transfers(job, rank)}
    return sorted(
        [*(wait for group in job.calls for wait in _of_group(job, group)), *found.values()],
        key=lambda wait: wait.began_ns,
    )


def _of_transfers(job: Job, rank: int) -> Iterator[Wait]:
    """Yield the sends and receives of `rank` that the other rank has not entered, or entered differently.

    Only of the oldest call that has not ended: later ones can be held up by that one alone.
    """
    pending = [call for call in job.last[rank].calls if not call.is_finished]
    first = min(pending, key=lambda call: call.created_ns, default=None)
    if first is None or first.pair is None:
        return
    for call in pending:
        if call.pair is None or (call.group, call.batch) != (first.group, first.batch):
            continue
        other = call.pair[call.op == "send"]
        # Find what the other rank entered for this call. Where older calls are missing, numbers are not comparable:
        # then those that have not ended are counted on both ranks.
        mine, theirs = (job.transfers[call.lane].get(one, []) for one in (rank, other))
        if other in job.last and not (job.last[rank].has_all and job.last[other].has_all):
            mine, theirs = ([one for one in calls if not one.is_finished] for calls in (mine, theirs))
        at = mine.index(call)
        partner = theirs[at] if at < len(theirs) else None
        key = (call.lane, call.seq, 0)
        if other != rank and other < job.num_ranks and partner is None:
            yield Wait(key, {rank: call}, frozenset([rank]), frozenset([other]), {})
        elif partner is not None and (difference := _transfer_difference(call, partner)):
            entered = {rank: call, other: partner}
            waiting = frozenset(one for one, its in entered.items() if not its.is_finished)
            yield Wait(key, entered, waiting, frozenset(), dict.fromkeys(entered, difference))


def _transfer_difference(call: Call, partner: Call) -> Difference | None:
    if not call.input_sizes or not partner.input_sizes:
        return None
    if call.input_dtypes != partner.input_dtypes:
        return "dtype"
    return "size" if num_values(call.input_sizes) != num_values(partner.input_sizes) else None


def _of_group(job: Job, group: str) -> Iterator[Wait]:
    of_rank = job.calls[group]
    members = job.members(group)
    for numbers in sorted({number for calls in of_rank.values() for number in calls})[-_NUM_COMPARED:]:
        key = (group, *numbers)
        entered = {rank: calls[numbers] for rank, calls in of_rank.items() if numbers in calls}
        waiting = frozenset(rank for rank, call in entered.items() if not call.is_finished)
        missing = frozenset(rank for rank in members if not job.has_entered(rank, key))
        counts = Counter(signature(call) for call in entered.values())
        odd: dict[int, Difference] = {}
        if len(counts) > 1:
            (usual, most), (_, second) = counts.most_common(2)
            is_tie = most == second
            others = {one: next(b for b in counts if b != one) if is_tie else usual for one in counts}
            found = {rank: (signature(call), others[signature(call)]) for rank, call in entered.items()}
            odd = {rank: _difference(a, b) for rank, (a, b) in found.items() if a != b}
        has_raised = any(call is job.last_raised.get(rank) for rank, call in entered.items())
        if (waiting or has_raised) and (missing or odd):
            yield Wait(key, entered, waiting, missing, odd)


def signature(call: Call) -> tuple[str, tuple[str, ...], int]:
    """Return what must be equal on all ranks: operation, types, number of values."""
    # A variant (`allgather_base`, `reduce_scatter_tensor_coalesced`) begins with the name of its operation.
    name = call.op.replace("allgather", "all_gather")
    if name.endswith("_v"):
        return name, call.input_dtypes, 0
    if name.startswith(_EQUAL_OUTPUTS):  # only the source has inputs
        return name, (), num_values(call.output_sizes)
    return name, call.input_dtypes, num_values(call.input_sizes) if name.startswith(_EQUAL_INPUTS) else 0


def _difference(a: tuple[str, tuple[str, ...], int], b: tuple[str, tuple[str, ...], int]) -> Difference:
    if a[0] != b[0]:
        return "operation"
    return "dtype" if a[1] != b[1] else "size"


# The collectives of a job: by group and rank, what each rank entered last, and those of all dumps as one frame.

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
