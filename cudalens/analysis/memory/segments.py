"""The allocator's segments over time, and the mapped parts of expandable segments."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis.memory.replay import POOL_KEYS, DeviceReplay, replays
from cudalens.frames import Trace
from cudalens.frames.column_arrays import addresses
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
