"""The allocator's history in a snapshot: lifetimes of allocations, and totals after every action.

A history has the actions while it was recorded, and the snapshot the blocks at its end. Totals are therefore counted
backward from the end, so that they include blocks from before the history.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.frames.column_arrays import Bools, Ints, map_texts, run_ends, run_starts

Addresses = NDArray[np.uint64]

#: Kinds of actions.
ALLOC, FREE_REQUESTED, FREE_COMPLETED = 0, 1, 2
SEGMENT_ADDED, SEGMENT_REMOVED, OTHER = 3, 4, 5
_KINDS: Final = {
    "alloc": ALLOC,
    "free_requested": FREE_REQUESTED,
    "free_completed": FREE_COMPLETED,
    "free": FREE_COMPLETED,
    "segment_alloc": SEGMENT_ADDED,
    "segment_map": SEGMENT_ADDED,
    "segment_free": SEGMENT_REMOVED,
    "segment_unmap": SEGMENT_REMOVED,
}
#: Totals of a device, by the names of the memory frame's columns.
TOTALS: Final = ("allocated_bytes", "active_bytes", "requested_bytes", "reserved_bytes")
_MIN_BLOCK: Final = 512


def kinds_of(action: pd.Categorical, has_address: Bools) -> Ints:
    """Return the kind of each action; OTHER for allocations and releases without an address. Shape (n,)."""
    kinds: Ints = map_texts(action, lambda name: _KINDS.get(name, OTHER), OTHER)
    return np.where(~has_address & (kinds <= FREE_COMPLETED), OTHER, kinds)


@dataclass(frozen=True)
class Lifetimes:
    """The rows of one device's history that belong to the same allocation.

    Attributes:
        rows: Rows of allocations and releases, by (address, time); shape (n,).
        number: Number of the lifetime of each of `rows`, ascending; shape (n,).
        first: Position in `rows` of each lifetime's first row; shape (k,).
        last: Position in `rows` of each lifetime's last row; shape (k,).
    """

    rows: Ints
    number: Ints
    first: Ints
    last: Ints

    @classmethod
    def of(cls, kind: Ints, addr: Addresses) -> Lifetimes:
        """Return the lifetimes of a history: an allocation and the releases at its address up to the next allocation.

        A release without an earlier allocation at its address belongs to an allocation from before the history, and so
        does a release after a completed one (the ring buffer of the history lost the allocation).

        Args:
            kind: Kind of each action, in order of time; shape (n,).
            addr: Its address, shape (n,).
        """
        rows = np.flatnonzero(kind <= FREE_COMPLETED)
        rows = rows[np.argsort(addr[rows], kind="stable")]
        begins = (kind[rows] == ALLOC) | run_starts(addr[rows])
        begins[1:] |= kind[rows[:-1]] == FREE_COMPLETED
        first = np.flatnonzero(begins)
        return cls(rows, np.cumsum(begins) - 1, first, np.append(first[1:], len(rows))[: len(first)] - 1)

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True)
class AtEnd:
    """The blocks of a device at the end of its history.

    Attributes:
        addr: Address of each active block, ascending; shape (b,).
        num_bytes: Its size, shape (b,).
        is_pending: Whether it waits for a stream, shape (b,).
        allocated_bytes: Size of all allocated blocks.
        active_bytes: Size of all active blocks.
        requested_bytes: Requested size of all active blocks.
        reserved_bytes: Size of all segments.
    """

    addr: Addresses
    num_bytes: Ints
    is_pending: Bools
    allocated_bytes: int
    active_bytes: int
    requested_bytes: int
    reserved_bytes: int


def at_end(
    addr: Addresses,
    has_address: Bools,
    size: Ints,
    requested: Ints,
    is_allocated: Bools,
    is_pending: Bools,
    reserved_bytes: int,
) -> tuple[AtEnd, Ints]:
    """The end of one device's history, from columns of all blocks of shape (n,), and the rows of its active blocks.

    `is_allocated` and `is_pending` are the states of the device's own blocks, False for those of other devices.
    """
    active = is_allocated | is_pending
    rows = np.flatnonzero(active & has_address)
    rows = rows[np.argsort(addr[rows], kind="stable")]
    allocated, in_use, wanted = (int(values.sum()) for values in (size[is_allocated], size[active], requested[active]))
    return AtEnd(addr[rows], size[rows], is_pending[rows], allocated, in_use, wanted, reserved_bytes), rows


@dataclass(frozen=True)
class Replay:
    """One device's history, replayed backward from its end.

    Attributes:
        lifetimes: The k allocations.
        is_alive: Whether the block was still active at the end, shape (k,).
        end_block: Position of that block among the active blocks at the end, shape (k,).
        block_bytes: Size of the block: exact if it is alive, else the rounded requested size; shape (k,).
        changes: Change of each total by each action: ``allocated_bytes`` and ``active_bytes`` (sizes of blocks),
            ``requested_bytes`` (requested sizes) and ``reserved_bytes`` (sizes of segments); shapes (n,).
        totals: The totals after each action, by the same names; shapes (n,).
    """

    lifetimes: Lifetimes
    is_alive: Bools
    end_block: Ints
    block_bytes: Ints
    changes: dict[str, Ints]
    totals: dict[str, Ints]


def replay(kind: Ints, addr: Addresses, size: Ints, end: AtEnd, settings: Any = None) -> Replay:
    """Return the totals of one device after each action, and the actions that allocated the blocks at the end.

    Args:
        kind: Kind of each action, in order of time; shape (n,).
        addr: Its address, shape (n,).
        size: Its recorded size, for blocks the requested one; shape (n,).
        end: The blocks at the end.
        settings: The snapshot's ``allocator_settings``, which have the rounding of sizes.
    """
    lifetimes = Lifetimes.of(kind, addr)
    begin, stop = lifetimes.rows[lifetimes.first], lifetimes.rows[lifetimes.last]
    at = np.searchsorted(end.addr, addr[stop])
    alive = run_ends(addr[stop]) & (at < len(end.addr))
    alive[alive] = end.addr[at[alive]] == addr[stop][alive]
    is_pending = (kind[stop][alive] == FREE_REQUESTED) & end.is_pending[at[alive]]
    alive[alive] = (kind[stop][alive] == ALLOC) | is_pending
    block_bytes = rounded(size[begin], settings)
    block_bytes[alive] = end.num_bytes[at[alive]]
    allocated, active, requested = _changes(lifetimes, kind, size, block_bytes, alive)
    reserved = np.where(kind == SEGMENT_ADDED, size, np.where(kind == SEGMENT_REMOVED, -size, 0))
    changes = dict(zip(TOTALS, (allocated, active, requested, reserved), strict=True))
    totals = {name: _counted_back(getattr(end, name), change) for name, change in changes.items()}
    return Replay(lifetimes, alive, at, block_bytes, changes, totals)


def _changes(lifetimes: Lifetimes, kind: Ints, size: Ints, block_bytes: Ints, alive: Bools) -> tuple[Ints, Ints, Ints]:
    """Return the change of the allocated, active and requested bytes by each action.

    A block is allocated until its first release and active until its last. Histories can be recorded without one of
    the two kinds of releases, or begin between them: an allocation whose first row is its completed release was
    waiting for a stream before, unless the history has no requests for release at all.
    """
    rows = lifetimes.rows
    in_bytes, allocated, active, requested = (np.zeros(len(kind), np.int64) for _ in range(4))
    begin, stop = rows[lifetimes.first], rows[lifetimes.last]
    made = begin[kind[begin] == ALLOC]
    in_bytes[rows] = block_bytes[lifetimes.number]
    for change, amount in ((allocated, in_bytes), (active, in_bytes), (requested, size)):
        change[made] = amount[made]
    ended = stop[(kind[stop] != ALLOC) & ~alive]
    active[ended] = -in_bytes[ended]
    requested[ended] = -size[ended]
    # The first release is the second row if the allocation was recorded, else the first row.
    place = lifetimes.first + (kind[begin] == ALLOC)
    released = rows[place[place <= lifetimes.last]]
    if (kind == FREE_REQUESTED).any():
        released = released[(kind[released] == FREE_REQUESTED) | ~np.isin(released, begin)]
    allocated[released] = -in_bytes[released]
    return allocated, active, requested


def _counted_back(end: int, change: Ints) -> Ints:
    """Return the total after each action, from the total `end` after all of them."""
    return end - (change.sum() - np.cumsum(change))


def rounded(size: Ints, settings: Any = None) -> Ints:
    """Sizes of blocks that torch's caching allocator hands out for requests of `size` bytes.

    Multiples of 512 bytes, or of a part of a power of two by ``roundup_power2_divisions``. The allocator does not split
    off small remainders, so a block can be up to 1 MiB larger.
    """
    plain: Ints = np.maximum(-(-size // _MIN_BLOCK), 1) * _MIN_BLOCK
    parts = settings.get("roundup_power2_divisions") if isinstance(settings, dict) else None
    if not isinstance(parts, dict) or not any(type(v) is int and v > 1 for v in parts.values()):
        return plain
    table = np.array([v if type(v := parts.get(str(1 << i))) is int and 0 < v < 1 << 20 else 0 for i in range(16)])
    floor_log = np.frexp(np.maximum(size, 1).astype(np.float64))[1].astype(np.int64) - 1
    divisions = table[np.clip(floor_log - 20, 0, 15)]
    parts_log = np.frexp(np.maximum(divisions, 1).astype(np.float64))[1].astype(np.int64) - 1
    step = np.int64(1) << np.maximum(floor_log - parts_log, 0)
    is_coarse = (divisions > 1) & (size > _MIN_BLOCK * divisions)
    return np.where(is_coarse, -(-size // step) * step, plain)
