"""Locate runtime calls and allocator actions in the host's call tree."""

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
#: Name prefix of operators that only allocate memory.
_FACTORY: Final = "aten::empty"


@dataclass
class Segment:
    """A recorded part of the run on one virtual machine, and the offset of its clock to the run's clock."""

    recorder: Recorder
    offset_ns: int


@dataclass
class ActPlaces:
    """The position of each act; each of shape (num acts,).

    Attributes:
        lane: Its thread number; threads without a profiled row have numbers after those of the tree.
        key: Its position in the thread: twice the index of a start or an end in the tree, or just before one.
        up: Place of the enclosing row, or -1.
        tid: Its thread id.
    """

    lane: Ints
    key: Ints
    up: Ints
    tid: Ints


def locate_acts(tree: HostTree, pruned: Pruned, names: Sequence[str], acts: Sequence[tuple[Segment, Act]]) -> ActPlaces:
    """Find the position of each act by its mark.

    The acts in a handler's mark belong to its operator, or to one of the operators inside it: a copy to the
    ``aten::copy_`` of an ``aten::_to_copy``, memory to its ``aten::empty_strided``.

    Args:
        tree: The host's rows.
        pruned: Which rows are shown.
        names: The name of the row at each place.
        acts: The acts in order.
    """
    tids = np.array([act.tid for _, act in acts], np.int64)
    at = np.array([tree.place_of.get(act.mark, -1) for _, act in acts], np.int64)
    unprofiled = at < 0
    lane = np.where(unprofiled, 0, tree.lane[at]).astype(np.int64) if len(tree) else np.zeros(len(acts), np.int64)
    lane[unprofiled] = len(tree.tid) + np.unique(tids[unprofiled], return_inverse=True)[1].reshape(-1)
    ends = tree.end
    key, up = np.arange(len(acts)), np.full(len(acts), -1, np.int64)
    key[~unprofiled], up[~unprofiled] = 2 * ends[at[~unprofiled]] - 1, pruned.up[at[~unprofiled]]
    kept = np.append(0, np.cumsum(pruned.is_kept))
    encloses = (
        ~unprofiled & (kept[np.minimum(at + tree.size[at], len(tree))] > kept[at + 1]) if len(tree) else unprofiled
    )
    for place, members in _groups(at, np.flatnonzero(encloses)).items():
        found = _within(tree, pruned, names, place, [acts[k] for k in members])
        key[members], up[members] = _in_order(ends, pruned, place, found)
    return ActPlaces(lane, key, up, tids)


def _groups(keys: Ints, members: Ints) -> dict[int, list[int]]:
    """Return the members grouped by key, in order."""
    groups: dict[int, list[int]] = {}
    for key, member in zip(keys[members].tolist(), members.tolist(), strict=True):
        groups.setdefault(key, []).append(member)
    return groups


def _within(
    tree: HostTree, pruned: Pruned, names: Sequence[str], at: int, acts: Sequence[tuple[Segment, Act]]
) -> list[int | None]:
    """The operator inside a handler for each act; the mark for its own acts; None for acts grouped with others."""
    inner = (at + 1 + np.flatnonzero(pruned.is_kept[at + 1 : at + tree.size[at]])).tolist()
    named = {names[place]: place for place in inner}  # the last of several
    direct = [place for place in inner if pruned.up[place] == pruned.up[at]]
    factory = direct[0] if direct and names[direct[0]].startswith(_FACTORY) else None
    # The last operator of a factory (aten::zero_, aten::normal_) fills the memory that aten::empty allocated.
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
    """Keys and enclosing rows, in ascending order; a grouped act gets the position of the next act."""
    filled, where = list[int](), next((place for place in reversed(found) if place is not None), at)
    for place in reversed(found):
        where = where if place is None else place
        filled.append(where)
    keys, up, latest, enclosing = list[int](), list[int](), -1, -1
    for where in reversed(filled):
        key = 2 * int(ends[where]) - 1
        if key >= latest:
            latest, enclosing = key, int(pruned.up[at]) if where == at else where
        keys.append(latest)
        up.append(enclosing)
    return keys, up
