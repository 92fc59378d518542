"""Find which ranks of a job do the same, from the process groups and collectives of the ranks that ran. No torch."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from cudalens.virtual.jobs.communicator import Collective
from cudalens.virtual.jobs.operators import PAIRS, ROOTED

#: The ranks of a process group.
Members = tuple[int, ...]


class Layout:
    """The process groups of a job.

    A rank's groups are numbered in the order in which it made them: its *roles*. In a mesh of 2 x 4 GPUs role 0 may be
    the group of all, role 1 that of the first dimension and role 2 that of the second.

    Args:
        num_ranks: The number of ranks.
        every_group: The groups that the program made, with those of other ranks.

    Attributes:
        groups: The groups of each rank, by its roles.
        names: A number for each group.
    """

    def __init__(self, num_ranks: int, every_group: Iterable[Members]) -> None:
        self.num_ranks = num_ranks
        self.groups: dict[int, list[Members]] = {rank: [] for rank in range(num_ranks)}
        self.names: dict[Members, int] = {}
        for members in every_group:
            self.names.setdefault(members, len(self.names))
            for rank in members:
                self.groups[rank].append(members)

    def group(self, rank: int, role: int) -> Members:
        """Return the ranks of a group of `rank`."""
        return self.groups[rank][role]

    def role_of(self, rank: int, members: Members, role: int) -> int:
        """Return the number that a group has for `rank`, one of its members; `role` is that of another member."""
        own = self.groups[rank]
        return role if role < len(own) and own[role] == members else own.index(members)

    def classes(self, unlike_roles: Iterable[int]) -> dict[int, Hashable]:
        """Return a key for each rank: ranks with equal keys do the same.

        Args:
            unlike_roles: The roles in whose groups each position does something else, such as stages of a pipeline.
        """
        roles = sorted(unlike_roles)
        return {
            rank: (
                len(self.groups[rank]),
                tuple(self.group(rank, role).index(rank) for role in roles if role < len(self.groups[rank])),
            )
            for rank in range(self.num_ranks)
        }

    def counterpart(self, of: Collective, rank: int, copy: int) -> tuple[Members, int | None]:
        """Return the group and the peer of a collective of `rank` on another rank that does the same."""
        if len(self.groups[copy]) <= of.role:
            return of.ranks, of.peer
        members = self.group(copy, of.role)
        if of.peer is None or of.peer not in of.ranks:
            return members, None
        return members, members[of.ranks.index(of.peer)]


def unlike_roles(collectives: Iterable[Collective]) -> set[int]:
    """Return the roles in whose groups the members do different things.

    These are groups with sends and receives, with uneven all_to_alls, and with several roots.
    """
    found, roots = set[int](), dict[tuple[int, str], set[int | None]]()
    for one in collectives:
        if one.kind in PAIRS or len(set(one.in_splits)) > 1 or len(set(one.out_splits)) > 1:
            found.add(one.role)
        elif one.kind in ROOTED:
            roots.setdefault((one.role, one.kind), set()).add(one.peer)
    return found | {role for (role, _), peers in roots.items() if len(peers) > 1}


def refine(layout: Layout, first: Mapping[int, Hashable]) -> dict[int, int]:
    """Divide ranks into classes whose times are equal: no group distinguishes two ranks of a class.

    Args:
        layout: The process groups.
        first: What distinguishes ranks by themselves: the program that they run, the speed of their GPU.

    Returns:
        The number of the class of each rank, counted from 0 in the order of the lowest ranks.
    """
    colours = _numbered(first)
    while True:
        contents: dict[Members, tuple[tuple[int, int], ...]] = {}
        keys = {rank: (colours[rank], _surroundings(layout, rank, colours, contents)) for rank in colours}
        finer = _numbered(keys)
        if len(set(finer.values())) == len(set(colours.values())):
            return finer
        colours = finer


def _surroundings(
    layout: Layout, rank: int, colours: Mapping[int, int], contents: dict[Members, Any]
) -> tuple[Any, ...]:
    found = []
    for members in layout.groups[rank]:
        if members not in contents:
            contents[members] = tuple(sorted(colours[member] for member in members))
        found.append(contents[members])
    return tuple(found)


def _numbered(keys: Mapping[int, Hashable]) -> dict[int, int]:
    numbers: dict[Hashable, int] = {}
    return {rank: numbers.setdefault(keys[rank], len(numbers)) for rank in sorted(keys)}
