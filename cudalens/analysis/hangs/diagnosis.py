"""`diagnose`: which rank holds up a job, why, and which ranks wait for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from cudalens.analysis.hangs.habits import comes_later, habit
from cudalens.analysis.hangs.job import Job, user_frame
from cudalens.analysis.hangs.waits import Wait, waits
from cudalens.frames.flight_records import EXITED, Call, FlightRecords

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
        return _in_unstated_groups(job)
    ranks = {rank for rank, text in endings.items() if not _is_consequence(text)} or absent or set(endings)
    culprits = tuple(_culprit(job, rank, _reason(job, rank)) for rank in sorted(ranks))
    return Hang("failed", culprits=culprits, waiting=tuple(sorted(set(endings) - ranks)))


def _in_unstated_groups(job: Job) -> Hang:
    """No rank is missing among those known of each group; of some groups, the dumps do not state the ranks."""
    last = {rank: call for rank in job.last if (call := job.last_call(rank)) is not None}
    inside = {rank: call for rank, call in last.items() if not call.is_finished and not job.is_stated(call.group)}
    if not inside:
        return Hang("running")
    reason = (
        "The dumps do not state which ranks belong to these groups (gloo records none): a rank that never entered one "
        "of them is not found. `cudalens.watch_hangs` writes the ranks of each group."
    )
    return Hang("unknown", waiting=tuple(sorted(inside)), unknown=(reason,))


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
    circle = _find_circle(found)
    involved = [wait for wait in found if wait.waiting & set(circle)]
    chosen, reason = _at_fault(job, circle, involved)
    wait = next(wait for wait in involved if wait.blockers & chosen)
    return _hang(job, "hang", wait, [_culprit(job, rank, reason) for rank in sorted(chosen)], found)


def _find_circle(found: list[Wait]) -> list[int]:
    wait_of = {rank: wait for wait in found for rank in wait.waiting}
    path: list[int] = []
    rank = min(found[0].blockers)
    while rank not in path:
        path.append(rank)
        rank = min(wait_of[rank].blockers)
    return path[path.index(rank) :]


def _at_fault(job: Job, circle: list[int], involved: list[Wait]) -> tuple[set[int], Reason]:
    """The ranks of a circle that left their usual order, or that are alone against all others; else all of it."""
    ranks = {rank for wait in involved for rank in wait.waiting}
    unusual = {rank for rank in ranks if habit(job, rank) == "unusual"}
    if unusual and unusual != ranks:
        is_transfer = any((call := job.last_call(rank)) is not None and call.pair for rank in unusual)
        return unusual, "other operation" if is_transfer else "other group"
    few, many = (chosen(involved, key=lambda wait: len(wait.waiting)) for chosen in (min, max))
    if len(few.waiting) < len(many.waiting) and few.blockers >= many.waiting:
        return set(few.waiting), "other group"
    return set(circle), "deadlock"


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
