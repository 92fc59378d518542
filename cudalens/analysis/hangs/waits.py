"""Collectives that some ranks entered and others did not, or entered differently; the same for sends and receives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from cudalens.analysis.hangs.job import Job, Key, num_values
from cudalens.frames.flight_records import Call

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
        partner = _partner(job, call, rank, other)
        key = (call.lane, call.seq, 0)
        if other != rank and other < job.num_ranks and partner is None:
            yield Wait(key, {rank: call}, frozenset([rank]), frozenset([other]), {})
        elif partner is not None and (difference := _transfer_difference(call, partner)):
            entered = {rank: call, other: partner}
            waiting = frozenset(one for one, its in entered.items() if not its.is_finished)
            yield Wait(key, entered, waiting, frozenset(), dict.fromkeys(entered, difference))


def _partner(job: Job, call: Call, rank: int, other: int) -> Call | None:
    """Return what the other rank entered for `call`; None for nothing.

    Where older calls are missing, numbers are not comparable: then those that have not ended are counted on both ranks.
    """
    mine, theirs = (job.transfers[call.lane].get(one, []) for one in (rank, other))
    if other in job.last and not (job.last[rank].has_all and job.last[other].has_all):
        mine, theirs = ([one for one in calls if not one.is_finished] for calls in (mine, theirs))
    at = mine.index(call)
    return theirs[at] if at < len(theirs) else None


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
        odd = _odd(entered)
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


def _odd(entered: Mapping[int, Call]) -> dict[int, Difference]:
    counts = Counter(signature(call) for call in entered.values())
    if len(counts) < 2:
        return {}
    (usual, most), (_, second) = counts.most_common(2)
    is_tie = most == second
    others = {one: next(b for b in counts if b != one) if is_tie else usual for one in counts}
    found = {rank: (signature(call), others[signature(call)]) for rank, call in entered.items()}
    return {rank: _difference(a, b) for rank, (a, b) in found.items() if a != b}


def _difference(a: tuple[str, tuple[str, ...], int], b: tuple[str, tuple[str, ...], int]) -> Difference:
    if a[0] != b[0]:
        return "operation"
    return "dtype" if a[1] != b[1] else "size"
