"""The allocator's segments over time, and the state of a device's memory when an allocation failed."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis.cached import once_per_trace
from cudalens.analysis.memory.replay import POOL_KEYS, DeviceReplay, blocks_at, replays
from cudalens.analysis.time.groups import subtract, union
from cudalens.frames import Trace
from cudalens.frames.column_arrays import addresses, integers
from cudalens.frames.snapshots.history import SEGMENT_ADDED, SEGMENT_REMOVED

_COLUMNS: Final = {
    "device": "Int32",
    "addr": "UInt64",
    "num_bytes": "int64",
    "added": "Int64",
    "removed": "Int64",
    **dict.fromkeys(POOL_KEYS, "Int64"),
}


@dataclass
class _Piece:
    begin: int
    end: int
    removed: int | None
    pool: tuple[object, ...]


def segment_lifetimes(trace: Trace) -> pd.DataFrame:
    """Return a row per range of device memory that the allocator reserved.

    Returns:
        Columns ``device``, ``addr``, ``num_bytes``; ``added`` and ``removed``, rows of ``trace.memory``, missing if it
        was reserved before the history, or is still reserved at its end; ``stream``, ``pool_id_first``,
        ``pool_id_second``. Expandable segments are mapped and unmapped in parts: a part that was mapped and unmapped at
        once is one row. At any moment the allocator has the rows with ``added`` at or before it and ``removed`` after.
    """
    rows = [row for one in replays(trace) for row in _pieces(trace, one)]
    columns = zip(*rows, strict=True) if rows else [()] * len(_COLUMNS)
    dtypes = zip(_COLUMNS.items(), columns, strict=True)
    return pd.DataFrame({name: pd.array(list(values), dtype=dtype) for (name, dtype), values in dtypes})


def _pieces(trace: Trace, one: DeviceReplay) -> list[tuple[object, ...]]:
    """Goes backward from the segments at the end: removes what was added, and adds what was removed."""
    memory = trace.memory
    pieces = _at_end(trace, one.device)
    begins = [piece.begin for piece in pieces]
    is_segment = np.isin(one.kind, (SEGMENT_ADDED, SEGMENT_REMOVED))
    acts = memory.iloc[one.rows[is_segment]]
    pools = list(zip(*(acts[name].astype(object) for name in POOL_KEYS), strict=True))
    addr, size, kind = addresses(acts["addr"]), acts["num_bytes"].to_numpy(), one.kind[is_segment]
    found: list[tuple[object, ...]] = []
    for i in range(len(acts) - 1, -1, -1):
        begin, row = int(addr[i]), int(one.rows[is_segment][i])
        end = begin + int(size[i])
        if kind[i] == SEGMENT_REMOVED:
            place = bisect_left(begins, begin)
            pieces.insert(place, _Piece(begin, end, row, pools[i]))
            begins.insert(place, begin)
            continue
        first = max(bisect_left(begins, begin) - 1, 0)
        last = bisect_left(begins, end)
        kept: list[_Piece] = []
        for piece in pieces[first:last]:
            low, high = max(piece.begin, begin), min(piece.end, end)
            if low >= high:
                kept.append(piece)
                continue
            found.append(_row(one.device, replace(piece, begin=low, end=high), row))
            if piece.begin < low:
                kept.append(replace(piece, end=low))
            if high < piece.end:
                kept.append(replace(piece, begin=high))
        pieces[first:last] = kept
        begins[first:last] = [piece.begin for piece in kept]
    return [_row(one.device, piece, None) for piece in pieces] + found[::-1]


def _at_end(trace: Trace, device: int) -> list[_Piece]:
    blocks = trace.blocks
    part = blocks[blocks["device"].eq(device).fillna(False).to_numpy(bool) & blocks["segment_addr"].notna().to_numpy()]
    part = part.drop_duplicates("segment_addr").sort_values("segment_addr")
    pools = zip(*(part[name].astype(object) for name in POOL_KEYS), strict=True)
    return [
        _Piece(int(addr), int(addr) + int(size), None, pool)
        for addr, size, pool in zip(part["segment_addr"], part["segment_bytes"], pools, strict=True)
    ]


def _row(device: int, piece: _Piece, added: int | None) -> tuple[object, ...]:
    return (device, piece.begin, piece.end - piece.begin, added, piece.removed, *piece.pool)


@dataclass(frozen=True)
class Refusal:
    """The last allocation that failed, and the memory at that moment; None for what is not recorded.

    Attributes:
        row: Its row of ``trace.memory``.
        asked_bytes: The size that was requested.
        free_bytes: What the device had free.
        reserved_bytes: What torch had reserved.
        unused_bytes: The part of it without a block.
        largest_unused_bytes: Its largest piece, of what the segments are known.
        main_stack: The call stack whose blocks held most of the memory, of blocks with a known one.
        main_bytes: What they held.
    """

    row: int
    asked_bytes: int | None
    free_bytes: int | None
    reserved_bytes: int | None
    unused_bytes: int | None
    largest_unused_bytes: int | None = None
    main_stack: int | None = None
    main_bytes: int = 0

    @property
    def is_fragmented(self) -> bool:
        """Whether the unused pieces and the free memory suffice together, so that expandable segments would help."""
        known = [self.unused_bytes, self.asked_bytes]
        return None not in known and (self.unused_bytes or 0) + (self.free_bytes or 0) >= (self.asked_bytes or 0)


@once_per_trace
def last_refusal(trace: Trace) -> Refusal | None:
    """Return the last allocation of a device that failed in `trace`; None if all succeeded."""
    memory = trace.memory
    rows = np.flatnonzero((memory["action"] == "oom").to_numpy())
    if not len(rows):
        return None
    row = int(rows[-1])
    asked, free, reserved, allocated = (
        _number(memory[name].iloc[row])
        for name in ("num_bytes", "device_free_bytes", "reserved_bytes", "allocated_bytes")
    )
    unused = None if reserved is None or allocated is None else max(reserved - allocated, 0)
    found = Refusal(row, asked, free, reserved, unused)
    device = memory["device"].iloc[row]
    segments = _alive(segment_lifetimes(trace), row, device)
    if segments.empty:
        return found
    return _with_segments(trace, found, segments, device)


def _with_segments(trace: Trace, found: Refusal, segments: pd.DataFrame, device: int) -> Refusal:
    """`found` with what the history of the allocator has."""
    blocks = blocks_at(trace, row=found.row)
    blocks = blocks[blocks["device"].eq(device).fillna(False).to_numpy(bool)]
    first = addresses(segments["addr"]).min()  # differences fit into int64
    begin, block = ((addresses(frame["addr"]) - first).astype(np.int64) for frame in (segments, blocks))
    reserved = union(begin, begin + segments["num_bytes"].to_numpy())
    unused = subtract(reserved, union(block, block + blocks["num_bytes"].to_numpy()))
    pieces = unused.end - unused.start
    by_stack = blocks.groupby("stack")["num_bytes"].sum()
    return Refusal(
        row=found.row,
        asked_bytes=found.asked_bytes,
        free_bytes=found.free_bytes,
        reserved_bytes=int(segments["num_bytes"].sum()),
        unused_bytes=int(pieces.sum()),
        largest_unused_bytes=int(pieces.max(initial=0)),
        main_stack=int(by_stack.idxmax()) if len(by_stack) else None,
        main_bytes=int(by_stack.max()) if len(by_stack) else 0,
    )


def _alive(segments: pd.DataFrame, row: int, device: int) -> pd.DataFrame:
    added, removed = integers(segments["added"]), integers(segments["removed"], np.iinfo(np.int64).max)
    mine = segments["device"].eq(device).fillna(False).to_numpy(bool)
    return segments[mine & (added <= row) & (removed > row)]


def _number(value: object) -> int | None:
    return None if pd.isna(value) else int(value)  # type: ignore[call-overload]
