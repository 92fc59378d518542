"""Follow the collectives that the ranks of a running job report, and find those that never end."""

from __future__ import annotations

from collections.abc import Collection, Hashable

from cudalens.virtual.jobs.communicator import Collective
from cudalens.virtual.jobs.mismatch import (
    GroupCall,
    check_joined,
    check_local_names,
    check_match,
    describe_deadlock,
    describe_last,
)
from cudalens.virtual.jobs.operators import PAIRS
from cudalens.virtual.jobs.schedule import RankProgram


class JobProgress:
    """What each rank of a job with values has started, waits for, or has ended.

    Args:
        num_ranks: The number of ranks.
    """

    def __init__(self, num_ranks: int) -> None:
        self._started: dict[Hashable, tuple[set[int], dict[int, Collective]]] = {}
        self._waiting: set[int] = set()
        self._joined: dict[int, list[GroupCall]] = {rank: [] for rank in range(num_ranks)}
        self._joined_locally: dict[int, list[GroupCall]] = {rank: [] for rank in range(num_ranks)}
        self._joining: dict[int, str] = {}
        self._joining_locally: dict[int, str] = {}
        self._ended: dict[int, str] = {}
        self._running = set(range(num_ranks))

    def note(self, rank: int, kind: str, collective: Collective | GroupCall | None) -> None:
        """Note a report: "starts" with a collective, "waits" or "resumes"; "joins" with a group, or "joined".

        Raises:
            CollectiveMismatchError: Another rank started a different collective, or makes a different group.
        """
        if isinstance(collective, GroupCall):
            self._join(rank, collective)
            return
        if kind == "joined":
            self._joining.pop(rank, None)
            self._joining_locally.pop(rank, None)
            return
        if collective is None:
            (self._waiting.add if kind == "waits" else self._waiting.discard)(rank)
            return
        key, expected = _meeting_of(rank, collective)
        _, arrived = self._started.setdefault(key, (expected, {}))
        for other, theirs in arrived.items():
            check_match(other, theirs, rank, collective)
        arrived[rank] = collective
        if len(arrived) == len(expected):
            del self._started[key]

    def _join(self, rank: int, call: GroupCall) -> None:
        """Note that a rank makes a process group."""
        joined, joining = (self._joined_locally, self._joining_locally) if call.name else (self._joined, self._joining)
        joined[rank].append(call)
        joining[rank] = call.call
        for other, calls in joined.items():
            if call.name:
                check_local_names(other, calls, rank, joined[rank], have_ended=False)
            else:
                shared = min(len(calls), len(joined[rank]))
                check_joined(other, calls[:shared], rank, joined[rank][:shared])

    def end(self, rank: int, program: RankProgram) -> None:
        """The program of a rank has ended."""
        self._ended[rank] = describe_last(program.collectives.values(), program.started_at)
        self._running.discard(rank)
        self._waiting.discard(rank)
        self._joining.pop(rank, None)
        self._joining_locally.pop(rank, None)

    def check_failure(self, rank: int) -> None:
        """Check that a rank that failed was not in a collective without one that has ended, which closes connections.

        Raises:
            CollectiveMismatchError: It was.
        """
        for expected, arrived in self._started.values():
            if rank in arrived and (expected - arrived.keys()) & self._ended.keys():
                self.check_hang(is_quiet=False)

    def check_hang(self, *, is_quiet: bool) -> None:
        """Check that some rank can go on.

        Args:
            is_quiet: Whether no rank has reported anything for some seconds.

        Raises:
            CollectiveMismatchError: A rank started a collective without one that has ended, or all ranks wait for each
                other.
        """
        pending: dict[int, Collective] = {}
        has_missed = False
        for expected, arrived in self._started.values():
            has_missed = has_missed or bool((expected - arrived.keys()) & self._ended.keys())
            for rank, collective in arrived.items():
                pending.setdefault(rank, collective)
        all_wait = is_quiet and self._running <= self._waiting and self._running <= pending.keys()
        joining = self._joining | self._joining_locally
        waits_locally = is_quiet and self._joining_locally and self._running <= {*joining, *self._waiting}
        if (pending and (has_missed or all_wait)) or waits_locally or self._misses_a_group(pending.keys(), is_quiet):
            others = dict.fromkeys(self._ended.keys() - pending.keys())
            raise describe_deadlock(pending | others, self._ended, joining)

    def _misses_a_group(self, pending: Collection[int], is_quiet: bool) -> bool:
        """Whether a rank creates a process group with one that has ended, or all others wait for something else."""
        if not self._joining:
            return False
        num_groups = {rank: len(joined) for rank, joined in self._joined.items()}
        last = max(num_groups[rank] for rank in self._joining)
        if any(num_groups[rank] < last for rank in self._ended):
            return True
        blocked = self._joining.keys() | (self._waiting & set(pending))
        is_together = all(num_groups[rank] == last and rank in self._joining for rank in self._running)
        return is_quiet and self._running <= blocked and not is_together


def _meeting_of(rank: int, collective: Collective) -> tuple[Hashable, set[int]]:
    """Return a key that all ranks of a collective share, and these ranks."""
    if collective.kind not in PAIRS:
        return (collective.ranks, collective.twin, collective.seq), set(collective.ranks)
    assert collective.peer is not None
    pair = (rank, collective.peer) if collective.kind == "send" else (collective.peer, rank)
    return (collective.ranks, collective.twin, pair, collective.seq), set(pair)
