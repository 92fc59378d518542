"""Errors of collectives that ranks make in different ways, or at which a rank waits forever."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from cudalens.errors import VirtualDeviceError
from cudalens.virtual.jobs.communicator import Collective
from cudalens.virtual.jobs.operators import PAIRS, ROOTED

#: So many ranks are listed in an error.
_SHOWN: Final = 6


class CollectiveMismatchError(VirtualDeviceError):
    """Ranks of a job make different collectives, so that it would hang or compute garbage."""


def check_match(first_rank: int, first: Collective, rank: int, second: Collective) -> None:
    """Check that two ranks make the same collective.

    Raises:
        CollectiveMismatchError: They do not; with the lines of both.
    """
    difference = _difference(first_rank, first, rank, second)
    if difference:
        calls = (first_rank, _text(first), first.line), (rank, _text(second), second.line)
        raise describe_difference(f"collective {second.seq}", second.ranks, difference, *calls)


def describe_difference(
    what: str, members: tuple[int, ...], difference: str, first: tuple[int, str, str], second: tuple[int, str, str]
) -> CollectiveMismatchError:
    """Return the error for a collective of two ranks that differs.

    Args:
        what: The collective, with its number in the group.
        members: The ranks of the group.
        difference: In what it differs.
        first: A rank, what it calls and where.
        second: Those of another rank.
    """
    (rank, call, line), (other, other_call, other_line) = first, second
    return CollectiveMismatchError(
        f"{what} of the process group of ranks {_ranks(members)} differs in its {difference}: rank {rank} at {line} "
        f"calls {call}; rank {other} at {other_line} calls {other_call}. On GPUs the job would hang or compute "
        "garbage. Make every rank of the group call the same collectives in the same order."
    )


@dataclass(frozen=True)
class GroupCall:
    """A call that makes a process group, in which all ranks of the job wait for each other.

    Attributes:
        members: The ranks of the group.
        call: The function with its line, as ``new_group at file.py:12``.
        name: With ``use_local_synchronization=True``, in which only the members wait for each other: the name by which
            they find each other. Otherwise "".
    """

    members: tuple[int, ...]
    call: str
    name: str = ""


def check_joined(first_rank: int, first: Sequence[GroupCall], rank: int, second: Sequence[GroupCall]) -> None:
    """Check that two ranks make the same process groups in the same order, of those that all ranks make.

    Args:
        first_rank: A rank.
        first: The process groups that it makes.
        rank: Another rank.
        second: Those of the other rank.

    Raises:
        CollectiveMismatchError: They do not; with the lines of both.
    """
    for number, (ours, theirs) in enumerate(zip_longest(first, second)):
        if ours is None or theirs is None or ours.members != theirs.members:
            raise CollectiveMismatchError(
                f"process group {number} of the job differs: {_group_text(first_rank, ours)}; "
                f"{_group_text(rank, theirs)}. On GPUs the job would hang. Make every rank of the job call new_group "
                "with the same ranks in the same order, also for groups without it, or pass "
                "use_local_synchronization=True."
            )


def check_local_names(
    first_rank: int, first: Sequence[GroupCall], rank: int, second: Sequence[GroupCall], *, have_ended: bool
) -> None:
    """Check that two ranks make the groups that only their members make, and give them the same names.

    Args:
        first_rank: A rank.
        first: The process groups that it makes.
        rank: Another rank.
        second: Those of the other rank.
        have_ended: Whether both have made all of their groups.

    Raises:
        CollectiveMismatchError: They do not; with the lines of both.
    """
    shared = {first_rank, rank}
    of_both = [[one for one in calls if one.name and shared <= {*one.members}] for calls in (first, second)]
    for members in dict.fromkeys(one.members for calls in of_both for one in calls):
        ours, theirs = ([one for one in calls if one.members == members] for calls in of_both)
        for one, other in zip_longest(ours, theirs) if have_ended else zip(ours, theirs, strict=False):
            if one is None or other is None or one.name != other.name:
                raise CollectiveMismatchError(
                    f"the process group of ranks {_ranks(members)} is not the same on each rank: "
                    f"{_group_text(first_rank, one)}; {_group_text(rank, other)}. With use_local_synchronization=True, "
                    "torch gives it a name made of its ranks and of the number of groups that the rank has, and ranks "
                    "with other names wait for each other forever. Make every rank of the job call new_group for all "
                    "groups in the same order, without that option."
                )


def _group_text(rank: int, made: GroupCall | None) -> str:
    if made is None:
        return f"rank {rank} does not make it"
    return f"rank {rank} calls {made.call} for ranks {_ranks(made.members)}"


def _difference(first_rank: int, first: Collective, rank: int, second: Collective) -> str:
    if first.kind in PAIRS:
        if first.dtype != second.dtype:
            return "dtype"
        return "size" if first.num_bytes != second.num_bytes else ""
    if _name(first) != _name(second):
        return "kind"
    if first.dtype != second.dtype:
        return "dtype"
    if first.reduction != second.reduction:
        return "reduction"
    if first.kind in ROOTED and _root(first) != _root(second):
        return "root"
    if first.kind == "all_to_all":
        return _split_difference(first_rank, first, rank, second)
    return "size" if first.num_bytes != second.num_bytes else ""


def _root(collective: Collective) -> int | None:
    """The position of the root in the group."""
    return None if collective.peer is None else collective.ranks.index(collective.peer)


def _split_difference(first_rank: int, first: Collective, rank: int, second: Collective) -> str:
    """What one rank sends to another must be what the other expects."""
    if not first.in_splits and not second.in_splits:
        return "size" if first.num_bytes != second.num_bytes else ""
    for ours, theirs, sender, receiver in ((first, second, first_rank, rank), (second, first, rank, first_rank)):
        if receiver not in ours.ranks or sender not in theirs.ranks:
            continue
        to, of = ours.ranks.index(receiver), theirs.ranks.index(sender)
        if _part(ours.in_splits, ours.in_elements, to, len(ours.ranks)) != _part(
            theirs.out_splits, theirs.out_elements, of, len(theirs.ranks)
        ):
            return "splits"
    return ""


def _part(splits: tuple[int, ...], elements: int, at: int, size: int) -> int:
    return splits[at] * (elements // max(sum(splits), 1)) if splits else elements // size


def describe_deadlock(
    blocked: Mapping[int, Collective | None], last: Mapping[int, str], joining: Mapping[int, str] | None = None
) -> CollectiveMismatchError:
    """Return the error for ranks that wait for each other.

    Args:
        blocked: By rank, the collective at which it waits; None for a rank whose program has ended.
        last: By rank, the last collective of its program with its line, as text.
        joining: By rank, the call that creates a process group in which it waits, with its line, as text.
    """
    joining = joining or {}
    blocked = {**blocked, **dict.fromkeys(joining)}
    lines = []
    for rank, collective in sorted(blocked.items())[:_SHOWN]:
        if rank in joining:
            lines.append(f"rank {rank} waits for all ranks in {joining[rank]}")
        elif collective is None:
            lines.append(f"rank {rank} has ended, or waits for its own work, after {last[rank]}")
        else:
            peer = f" with rank {collective.peer}" if collective.kind in PAIRS else ""
            lines.append(
                f"rank {rank} at {collective.line} waits in {_text(collective)}{peer} (number {collective.seq} of the "
                f"group of ranks {_ranks(collective.ranks)})"
            )
    more = f"; and {len(blocked) - _SHOWN} more" if len(blocked) > _SHOWN else ""
    return CollectiveMismatchError(
        f"the job hangs: no rank can go on. {'; '.join(lines)}{more}. Make every rank of a group call the same "
        "collectives in the same order, and pair each send with a receive."
    )


def describe_last(collectives: Iterable[Collective], started_at: str) -> str:
    """Return the last collective of a rank with its line.

    Args:
        collectives: Those of the rank, in order.
        started_at: The line at which the program made its process groups; "" if it made none.
    """
    made = list(collectives)
    if not made and not started_at:
        return "its start, without init_process_group"
    if not made:
        return f"init_process_group at {started_at}, without a collective"
    return f"its last collective {_text(made[-1])} at {made[-1].line}"


def _name(collective: Collective) -> str:
    """Return the name of a collective; NCCL makes a barrier of an all_reduce."""
    return "barrier" if collective.torch_name == "barrier" else collective.kind


def _text(collective: Collective) -> str:
    elements = max(collective.in_elements, collective.out_elements)
    reduction = f", {collective.reduction}" if collective.reduction else ""
    root = f", root {collective.peer}" if collective.kind in ROOTED else ""
    return f"{_name(collective)}({elements:,} x {collective.dtype}{reduction}{root}{_splits_text(collective)})"


def _splits_text(collective: Collective) -> str:
    """The parts that a rank sends and gets, of few ranks: of rows of a tensor, or of lists of tensors."""
    if not 0 < len(collective.in_splits or collective.out_splits) <= _SHOWN:
        return ""
    sent, got = (
        ", ".join(map(str, splits)) or "equal parts" for splits in (collective.in_splits, collective.out_splits)
    )
    return f", sends {sent}, gets {got}"


def _ranks(ranks: tuple[int, ...]) -> str:
    if len(ranks) <= _SHOWN:
        return ", ".join(map(str, ranks))
    return f"{', '.join(map(str, ranks[: _SHOWN - 2]))} ... {ranks[-1]} ({len(ranks)} ranks)"
