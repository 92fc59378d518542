"""The allocator's history in a snapshot: lifetimes of blocks, and what was held after every action.

A history tells what happened while it was recorded, and the snapshot what was there at its end. Totals are therefore
counted backward from the end, so that blocks that existed before the history began are in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Addresses = NDArray[np.uint64]

#: What a device holds, by the names of the memory frame's columns.
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
TOTALS: Final = ("allocated_bytes", "active_bytes", "requested_bytes", "reserved_bytes")
_MIN_BLOCK: Final = 512


def kinds_of(codes: NDArray[np.integer], names: list[str]) -> Ints:
    """What each action does, as one of this module's numbers; `codes` are places in `names`, -1 for none."""
    table = np.array([*(_KINDS.get(name, OTHER) for name in names), OTHER], np.int64)
    kinds: Ints = table[codes]
    return kinds


@dataclass(frozen=True)
class Lifetimes:
    """Which rows of one device's history speak of one and the same allocation of a block.

    Attributes:
        rows: Rows of allocations and releases, by (address, time); shape (n,).
        life: Number of the lifetime of each of `rows`, ascending; shape (n,).
        first: Place in `rows` of each lifetime's first; shape (k,).
        last: Place in `rows` of each lifetime's last; shape (k,).
    """

    rows: Ints
    life: Ints
    first: Ints
    last: Ints

    @classmethod
    def of(cls, kind: Ints, addr: Addresses) -> Lifetimes:
        """The lifetimes of a history: an allocation and the releases at its address up to the next allocation.

        What is released without an allocation before it at its address was allocated before the history began. A
        release after a completed one, without an allocation between, is one of those too (of a block that was there
        before, where the ring buffer of the history lost the allocation).

        Args:
            kind: What each action does, by this module's numbers, in the order in which it happened; shape (n,).
            addr: Its address, shape (n,).
        """
        rows = np.flatnonzero(kind <= FREE_COMPLETED)
        rows = rows[np.argsort(addr[rows], kind="stable")]
        begins = kind[rows] == ALLOC
        begins[1:] |= addr[rows[1:]] != addr[rows[:-1]]
        begins[1:] |= kind[rows[:-1]] == FREE_COMPLETED
        begins[:1] = True
        life = np.cumsum(begins) - 1
        first = np.flatnonzero(begins)
        return cls(rows, life, first, np.append(first[1:], len(rows))[: len(first)] - 1)

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True)
class AtEnd:
    """What a device held at the end of its history.

    Attributes:
        addr: Address of each active block, ascending; shape (b,).
        num_bytes: Its size, shape (b,).
        is_pending: It waits for a stream, shape (b,).
        allocated_bytes: All that is allocated.
        active_bytes: All that is active.
        requested_bytes: What the program asked for of it.
        reserved_bytes: All segments.
    """

    addr: Addresses
    num_bytes: Ints
    is_pending: Bools
    allocated_bytes: int
    active_bytes: int
    requested_bytes: int
    reserved_bytes: int


@dataclass(frozen=True)
class Replay:
    """One device's history, replayed backward from its end.

    Attributes:
        lives: Which rows speak of the same allocation; k of them.
        is_alive: The block was still active at the end, shape (k,).
        end_block: Which of the active blocks at the end it is then, shape (k,).
        block_bytes: Size of the block: exact where it is alive, else what was asked for, rounded; shape (k,).
        changes: What each action adds, by ``allocated_bytes``, ``active_bytes`` (in sizes of blocks),
            ``requested_bytes`` (in what was asked for) and ``reserved_bytes`` (in sizes of segments); shapes (n,).
        totals: What is held after each action, by the same names; shapes (n,).
    """

    lives: Lifetimes
    is_alive: Bools
    end_block: Ints
    block_bytes: Ints
    changes: dict[str, Ints]
    totals: dict[str, Ints]


def replay(kind: Ints, addr: Addresses, size: Ints, end: AtEnd, settings: Any = None) -> Replay:
    """What one device held after each action, and which of them made the blocks that were there at the end.

    Args:
        kind: What each action does, by this module's numbers, in the order in which it happened; shape (n,).
        addr: Its address, shape (n,).
        size: Its size as recorded: of blocks size that the program requested, shape (n,).
        end: What the device held at the end.
        settings: The snapshot's ``allocator_settings``, which say how sizes are rounded.
    """
    lives = Lifetimes.of(kind, addr)
    begin, stop = lives.rows[lives.first], lives.rows[lives.last]
    at = np.minimum(np.searchsorted(end.addr, addr[stop]), max(len(end.addr) - 1, 0))
    is_last = np.append(addr[stop][1:] != addr[stop][:-1], True)[: len(stop)]
    stands = is_last & (end.addr[at] == addr[stop]) if len(end.addr) else np.zeros(len(stop), bool)
    alive = stands.copy()
    alive[stands] = (kind[stop] == ALLOC)[stands] | (
        (kind[stop] == FREE_REQUESTED)[stands] & end.is_pending[at[stands]]
    )
    block_bytes = rounded(size[begin], settings)
    block_bytes[alive] = end.num_bytes[at[alive]]
    allocated, active, requested = _changes(lives, kind, size, block_bytes, alive)
    reserved = np.where(kind == SEGMENT_ADDED, size, np.where(kind == SEGMENT_REMOVED, -size, 0))
    changes = dict(zip(TOTALS, (allocated, active, requested, reserved), strict=True))
    totals = {name: _counted_back(getattr(end, name), change) for name, change in changes.items()}
    return Replay(lives, alive, at, block_bytes, changes, totals)


def _changes(lives: Lifetimes, kind: Ints, size: Ints, block_bytes: Ints, alive: Bools) -> tuple[Ints, Ints, Ints]:
    """What each action adds to what is allocated, active, and requested.

    A block is allocated up to its first release and active up to its last. Histories can be recorded without one of
    the two kinds of releases, or begin between them: a lifetime whose first row in the history is its completed release
    was waiting for a stream before, unless the history has no requests for release at all.
    """
    n, rows = len(kind), lives.rows
    allocated, active, requested = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    begin, stop = rows[lives.first], rows[lives.last]
    made = begin[kind[begin] == ALLOC]
    in_bytes = np.zeros(n, np.int64)
    in_bytes[rows] = block_bytes[lives.life]
    for change, amount in ((allocated, in_bytes), (active, in_bytes), (requested, size)):
        change[made] = amount[made]
    ended = stop[(kind[stop] != ALLOC) & ~alive]
    active[ended] = -in_bytes[ended]
    requested[ended] = -size[ended]
    # the first release: the second row of lifetimes whose allocation was seen, the first row of the others
    place = lives.first + (kind[begin] == ALLOC)
    released = rows[place[place <= lives.last]]
    if (kind == FREE_REQUESTED).any():
        released = released[(kind[released] == FREE_REQUESTED) | ~np.isin(released, begin)]
    allocated[released] = -in_bytes[released]
    return allocated, active, requested


def _counted_back(end: int, change: Ints) -> Ints:
    """What is held after each action, when `end` is held after all of them."""
    after: Ints = end - (change.sum() - np.cumsum(change))
    return after


def rounded(size: Ints, settings: Any = None) -> Ints:
    """Sizes of blocks that torch's caching allocator hands out for requests of `size` bytes.

    Multiples of 512 bytes, or of a part of a power of two where ``roundup_power2_divisions`` says so. The allocator
    does not split what is left of a block when it is small, so that a block can be up to 1 MiB larger.
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
