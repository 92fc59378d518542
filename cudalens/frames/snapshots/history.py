"""The allocator's history in a snapshot: lifetimes of allocations, and totals after every action.

A history has the actions while it was recorded, and the snapshot the blocks at its end. Totals are therefore counted
backward from the end, so that they include blocks from before the history.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NoReturn

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.errors import TraceFormatError, UnsafeSnapshotError
from cudalens.frames.column_arrays import (
    Bools,
    Ints,
    categorical,
    map_texts,
    nullable,
    run_ends,
    run_starts,
    text_column,
)
from cudalens.frames.limits import Problems

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


# Values of a snapshot's dicts as columns. Types and ranges are checked: snapshots are untrusted.

NOT_BY_TORCH: Final = "It is not a snapshot written by torch, or it was made to exhaust the reader's memory."

_MAX_DEPTH: Final = 32
_MAX_VALUES: Final = 5_000_000
_MAX_IN_VALUE: Final = 50_000
_MAX_CHARS: Final = 1 << 28
_MAX_LAYOUTS: Final = 8
_INT64: Final = (-(1 << 63), (1 << 63) - 1)
_UINT64: Final = (0, (1 << 64) - 1)


class Validator:
    """Checks the types of a snapshot's values, counts damage, and limits the size of unknown fields.

    Attributes:
        name: The file or other source, for messages.
        problems: The damage so far.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.problems = Problems()
        self._num_values = self._num_in_value = self._num_chars = 0
        self._known: dict[int, str] = {}

    def require(self, value: Any, kind: type, position: str) -> Any:
        """Return `value` if it is a `kind`.

        Raises:
            TraceFormatError: It is not.
        """
        if not isinstance(value, kind):
            found = f"{type(value).__name__} in place of a {kind.__name__}"
            raise TraceFormatError(self.name, position=position, found=found, expected="torch's memory snapshot")
        return value

    def require_all(self, values: Sequence[Any], kind: type, position: str) -> None:
        """Check that all `values` are of type `kind`.

        Raises:
            TraceFormatError: One is not; says which.
        """
        if set(map(type, values)) <= {kind}:
            return
        for i, value in enumerate(values):
            self.require(value, kind, f"{position}[{i}]")

    def to_json(self, value: Any, position: str) -> str:
        """Any value as JSON text.

        Raises:
            UnsafeSnapshotError: It is nested too deeply, or expands to too many values.
        """
        if id(value) not in self._known:  # shared values are converted once; the snapshot keeps them alive
            self._num_in_value = 0
            self._known[id(value)] = json.dumps(self._plain(value, position, 0), ensure_ascii=False)
        return self._known[id(value)]

    def fields_to_json(self, row: Mapping[Any, Any], keys: Collection[Any], position: str) -> str | None:
        """Return the fields `keys` of `row` as the JSON text of an object; None if there are no keys.

        Raises:
            UnsafeSnapshotError: As `to_json`, or the texts of all rows together are too long.
        """
        if not keys:
            return None
        fields = ((text(str(key)), row[key]) for key in sorted(keys, key=str))
        texts = [f"{json.dumps(k)}: {self.to_json(v, f'{position}.{k[:80]}')}" for k, v in fields]
        self._num_chars += sum(map(len, texts))
        if self._num_chars > _MAX_CHARS:
            self._refuse(position, f"unknown fields that expand to more than {_MAX_CHARS:,} characters")
        return "{" + ", ".join(texts) + "}"

    def _plain(self, value: Any, position: str, depth: int) -> Any:
        self._num_values += 1
        self._num_in_value += 1
        if depth > _MAX_DEPTH:
            self._refuse(position, f"values nested more than {_MAX_DEPTH} deep")
        if self._num_values > _MAX_VALUES or self._num_in_value > _MAX_IN_VALUE:
            self._refuse(position, f"references that expand to more than {_MAX_IN_VALUE:,} values")
        if isinstance(value, dict):
            return {text(str(key)): self._plain(v, position, depth + 1) for key, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._plain(v, position, depth + 1) for v in value]
        if isinstance(value, str):
            return text(value)
        if isinstance(value, int) or value is None:
            return value
        if isinstance(value, float):
            return value if np.isfinite(value) else str(value)
        return type(value).__name__

    def _refuse(self, position: str, what: str) -> NoReturn:
        raise UnsafeSnapshotError(self.name, found=f"in {position} {what}", expected="plain fields", hint=NOT_BY_TORCH)


def text(value: str) -> str:
    """`value` as valid Unicode: lone surrogates become question marks."""
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


class _Group:
    """Dicts with the same keys in the same order, and all their values."""

    def __init__(self, keys: tuple[Any, ...], which: Ints, rows: Sequence[dict[str, Any]]) -> None:
        self.keys, self.rows = keys, which
        same = rows if len(which) == len(rows) else [rows[i] for i in which.tolist()]
        self._flat = list(chain.from_iterable(map(dict.values, same)))

    def values(self, key: str) -> list[Any]:
        return self._flat[self.keys.index(key) :: len(self.keys)]


class Rows:
    """Dicts of one kind, as columns; absent values, and those of another type or out of range, are missing.

    Attributes:
        rows: The dicts.
    """

    def __init__(self, rows: Sequence[dict[str, Any]], position: str, check: Validator) -> None:
        check.require_all(rows, dict, position)
        self.rows, self._position, self._check = rows, position, check
        layouts: dict[tuple[Any, ...], int] = {}
        which = np.fromiter((layouts.setdefault(keys, len(layouts)) for keys in map(tuple, rows)), np.int64, len(rows))
        self._layouts = list(layouts)
        # One pass over the dicts, which are far apart in memory, reads the values of all keys.
        few = layouts if len(layouts) <= _MAX_LAYOUTS else {}
        self._groups = [_Group(keys, np.flatnonzero(which == i), rows) for keys, i in few.items()]

    def __len__(self) -> int:
        return len(self.rows)

    def has(self, key: str) -> bool:
        """Return whether any row has `key`."""
        return any(key in layout for layout in self._layouts)

    def values(self, key: str) -> list[Any]:
        """Return the values as they are; None if absent."""
        if not self.has(key):
            return [None] * len(self.rows)
        if len(self._layouts) > _MAX_LAYOUTS:
            return [row.get(key) for row in self.rows]
        if len(self._layouts) == 1:
            return self._groups[0].values(key)
        found = np.full(len(self.rows), None, object)
        for group in self._groups:
            if key in group.keys:
                found[group.rows] = np.fromiter(group.values(key), object, len(group.rows))
        return found.tolist()

    def ints(self, key: str) -> tuple[Ints, Bools]:
        """Values as int64 (0 where missing) and where they are missing; shapes (n,)."""
        return self._integers(self.values(key), key, np.int64, _INT64)

    def addresses(self, key: str) -> tuple[NDArray[np.uint64], Bools]:
        """Values as uint64 (0 where missing) and where they are missing; shapes (n,)."""
        return self._integers(self.values(key), key, np.uint64, _UINT64)

    def sizes(self, key: str) -> tuple[Ints, Bools]:
        """Sizes as int64 (0 where missing) and where they are missing; negative ones are missing. Shapes (n,)."""
        return self._integers(self.values(key), key, np.int64, (0, 1 << 53))

    def pairs(self, key: str) -> tuple[Any, Any]:
        """Pairs of integers as two columns."""
        values = self.values(key)
        if not set(map(type, values)) <= {tuple, type(None)}:
            values = [tuple(v) if type(v) is list and len(v) == 2 and {*map(type, v)} == {int} else v for v in values]
            self._count_odd(key, sum(type(v) not in (tuple, type(None)) for v in values))
            values = [v if type(v) is tuple else None for v in values]
        places = dict.fromkeys(values)  # few: pools
        distinct = [v if v is not None and len(v) == 2 else (None, None) for v in places]
        self._count_odd(key, sum(v is not None and len(v) != 2 for v in places))
        which = np.array([*map({v: i for i, v in enumerate(places)}.__getitem__, values)], np.int64)
        sides = (self._integers([pair[i] for pair in distinct], key, np.int64, _INT64) for i in (0, 1))
        first, second = (nullable(side[which], missing[which]) for side, missing in sides)
        return first, second

    def texts(self, key: str, meaningless: Collection[str] = ("",)) -> pd.Categorical:
        """Texts as a categorical; `meaningless` ones and other types are missing."""
        values = self.values(key)
        if not set(map(type, values)) <= {str, type(None)}:
            self._count_odd(key, sum(type(v) not in (str, type(None)) for v in values))
            values = [v if type(v) is str else None for v in values]
        codes, found = pd.factorize(np.array([*values, None], object)[:-1])
        names = text_column(None if (name := text(raw)) in meaningless else name for raw in found)
        return names.take(codes, allow_fill=True)

    def others(self, known: Iterable[str]) -> pd.Categorical:
        """Return the fields of each row other than `known`, as JSON text."""
        unknown = {layout: keys for layout in self._layouts if (keys := [k for k in layout if k not in known])}
        if not unknown:
            return categorical(np.full(len(self.rows), -1), [])
        position, to_json = self._position, self._check.fields_to_json
        return text_column(to_json(row, unknown.get(tuple(row), ()), position) for row in self.rows)

    def _integers(self, values: list[Any], key: str, dtype: Any, bounds: tuple[int, int]) -> tuple[Any, Bools]:
        low, high = bounds
        if not self.has(key):
            return np.zeros(len(values), dtype), np.ones(len(values), bool)
        if set(map(type, values)) == {int}:
            with suppress(OverflowError):
                array = np.array(values, dtype)
                if low <= int(array.min()) and int(array.max()) <= high:
                    return array, np.zeros(len(values), bool)
        is_fit = [type(v) is int and low <= v <= high for v in values]
        missing = ~np.array(is_fit, bool)
        self._count_odd(key, sum(v is not None and not fit for v, fit in zip(values, is_fit, strict=True)))
        return np.array([v if fit else 0 for v, fit in zip(values, is_fit, strict=True)], dtype), missing

    def _count_odd(self, key: str, count: int) -> None:
        if count:
            self._check.problems.add(f"'{key}' of another type or out of range", self._position, count)


def flattened(rows: Sequence[dict[str, Any]], key: str, position: str, check: Validator) -> tuple[list[Any], Ints]:
    """Return the lists at `key` of all rows, concatenated, and the length of each; 0 if a row has none."""
    lists = [row.get(key) or [] for row in rows]
    check.require_all(lists, list, f"{position}.{key}")
    return list(chain.from_iterable(lists)), np.fromiter(map(len, lists), np.int64, len(lists))
