"""Where in the host's call tree each runtime call, and each action of the allocator, was made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cudalens.virtual.profile.host_tree import HostTree
from cudalens.virtual.profile.pruning import Pruned
from cudalens.virtual.profile.recorder import Call, MemoryAct, Recorder

Ints = NDArray[np.int64]
Act = Call | MemoryAct

_MEMORY_CALLS: Final = frozenset({"cudaMalloc", "cudaFree", "cuMemCreate", "cuMemMap", "cuMemUnmap", "cuMemRelease"})
#: How the names of operators begin that do nothing but take memory.
_FACTORY: Final = "aten::empty"


@dataclass
class Segment:
    """A stretch of the run on one machine, and where its clock's zero lies on the run's."""

    recorder: Recorder
    offset_ns: int


@dataclass
class ActPlaces:
    """Where each act was made; each of shape (num acts,).

    Attributes:
        lane: Its thread, by number; threads that torch's profiler did not watch have numbers after those of the tree.
        key: Where in the thread's order: twice the number of a beginning or an end in the tree, or just before one.
        up: Place of the row that encloses it, or -1.
        tid: The system's number of its thread.
    """

    lane: Ints
    key: Ints
    up: Ints
    tid: Ints


def locate_acts(tree: HostTree, pruned: Pruned, names: Sequence[str], acts: Sequence[tuple[Segment, Act]]) -> ActPlaces:
    """Find the place of each act by its mark.

    What a handler's mark holds was done by its operator, or by one of the operators beneath: a copy by the
    ``aten::copy_`` of an ``aten::_to_copy``, memory by its ``aten::empty_strided``.

    Args:
        tree: The host's rows.
        pruned: Which of them are shown.
        names: Name of the row at each place.
        acts: What the host did, in order.
    """
    tids = np.array([act.tid for _, act in acts], np.int64)
    at = np.array([tree.place_of.get(act.mark, -1) for _, act in acts], np.int64)
    unwatched = at < 0
    lane = np.where(unwatched, 0, tree.lane[at]).astype(np.int64) if len(tree) else np.zeros(len(acts), np.int64)
    lane[unwatched] = len(tree.tid) + np.unique(tids[unwatched], return_inverse=True)[1].reshape(-1)
    ends = tree.end
    key, up = np.arange(len(acts)), np.full(len(acts), -1, np.int64)
    key[~unwatched], up[~unwatched] = 2 * ends[at[~unwatched]] - 1, pruned.up[at[~unwatched]]
    kept = np.append(0, np.cumsum(pruned.is_kept))
    encloses = ~unwatched & (kept[np.minimum(at + tree.size[at], len(tree))] > kept[at + 1]) if len(tree) else unwatched
    for place, members in _groups(at, np.flatnonzero(encloses)).items():
        found = _within(tree, pruned, names, place, [acts[k] for k in members])
        key[members], up[members] = _in_order(ends, pruned, place, found)
    return ActPlaces(lane, key, up, tids)


def _groups(keys: Ints, members: Ints) -> dict[int, list[int]]:
    """The members of each key, in order."""
    groups: dict[int, list[int]] = {}
    for key, member in zip(keys[members].tolist(), members.tolist(), strict=True):
        groups.setdefault(key, []).append(member)
    return groups


def _within(
    tree: HostTree, pruned: Pruned, names: Sequence[str], at: int, acts: Sequence[tuple[Segment, Act]]
) -> list[int | None]:
    """The operator beneath a handler that made each act; the mark for its own; None for what goes with other acts."""
    inner = (at + 1 + np.flatnonzero(pruned.is_kept[at + 1 : at + tree.size[at]])).tolist()
    named = {names[place]: place for place in inner}  # of several the last
    direct = [place for place in inner if pruned.up[place] == pruned.up[at]]
    factory = direct[0] if direct and names[direct[0]].startswith(_FACTORY) else None
    # What fills the memory that aten::empty took (aten::zero_, aten::normal_) is the last that a factory calls.
    own = direct[-1] if factory is not None and names[direct[-1]].endswith("_") else at
    found: list[int | None] = []
    for segment, act in acts:
        if isinstance(act, MemoryAct) or act.name in _MEMORY_CALLS:
            found.append(factory)
        else:
            op = segment.recorder.op_of(act.correlation_id)
            found.append(None if op is None else named.get(op, own))
    return found


def _in_order(ends: Ints, pruned: Pruned, at: int, found: list[int | None]) -> tuple[list[int], list[int]]:
    """Keys and enclosing rows: what goes with others goes with the next, and nothing stands before an earlier act."""
    filled, where = list[int](), next((place for place in reversed(found) if place is not None), at)
    for place in reversed(found):
        where = where if place is None else place
        filled.append(where)
    keys, up, latest, above = list[int](), list[int](), -1, -1
    for where in reversed(filled):
        key = 2 * int(ends[where]) - 1
        if key >= latest:
            latest, above = key, int(pruned.up[at]) if where == at else where
        keys.append(latest)
        up.append(above)
    return keys, up
