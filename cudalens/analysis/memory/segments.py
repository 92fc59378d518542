"""Which memory the device had given to the allocator when: segments, and the mapped parts of expandable ones."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis.memory.replay import DeviceReplay, plain, replays
from cudalens.frames import Trace
from cudalens.frames.snapshots.history import SEGMENT_ADDED, SEGMENT_REMOVED

_COLUMNS: Final = {
    "device": "Int32",
    "addr": "UInt64",
    "num_bytes": "int64",
    "added": "Int64",
    "removed": "Int64",
    "stream": "Int64",
    "pool_id_first": "Int64",
    "pool_id_second": "Int64",
}
_TOLD: Final = ("stream", "pool_id_first", "pool_id_second")


@dataclass
class _Piece:
    begin: int
    end: int
    removed: int | None
    told: tuple[object, ...]


def segment_lifetimes(trace: Trace) -> pd.DataFrame:
    """A row per stretch of device memory, from when the allocator got it until it gave it back.

    Returns:
        Columns ``device``, ``addr``, ``num_bytes``; ``added`` and ``removed``, rows of ``trace.memory``, missing where
        it was there before the history began, or still at its end; ``stream``, ``pool_id_first``, ``pool_id_second``.
        Expandable segments are mapped and unmapped in parts; what was mapped at once and stayed together is one row.
        What the allocator had at a moment are the rows with ``added`` at or before it and ``removed`` after it.
    """
    rows = [row for one in replays(trace) for row in _pieces(trace, one)]
    frame = pd.DataFrame(rows, columns=list(_COLUMNS))
    return pd.DataFrame({name: pd.array(frame[name].to_list(), dtype=dtype) for name, dtype in _COLUMNS.items()})


def _pieces(trace: Trace, one: DeviceReplay) -> list[tuple[object, ...]]:
    """Walks back from the segments at the end, cutting out what was added and putting back what was removed."""
    memory = trace.memory
    pieces = _at_end(trace, one.device)
    begins = [piece.begin for piece in pieces]
    is_segment = np.isin(one.kind, (SEGMENT_ADDED, SEGMENT_REMOVED))
    acts = memory.iloc[one.rows[is_segment]]
    told = list(zip(*(acts[name].astype(object) for name in _TOLD), strict=True))
    addr, size, kind = plain(acts["addr"], np.uint64), acts["num_bytes"].to_numpy(), one.kind[is_segment]
    found: list[tuple[object, ...]] = []
    for i in range(len(acts) - 1, -1, -1):
        begin, row = int(addr[i]), int(one.rows[is_segment][i])
        end = begin + int(size[i])
        if kind[i] == SEGMENT_REMOVED:
            piece = _Piece(begin, end, row, told[i])
            place = bisect_left(begins, begin)
            pieces.insert(place, piece)
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
            found.append(_row(one.device, _Piece(low, high, piece.removed, piece.told), row))
            if piece.begin < low:
                kept.append(_Piece(piece.begin, low, piece.removed, piece.told))
            if high < piece.end:
                kept.append(_Piece(high, piece.end, piece.removed, piece.told))
        pieces[first:last] = kept
        begins[first:last] = [piece.begin for piece in kept]
    return [_row(one.device, piece, None) for piece in pieces] + found[::-1]


def _at_end(trace: Trace, device: int) -> list[_Piece]:
    blocks = trace.blocks
    part = blocks[blocks["device"].eq(device).fillna(False).to_numpy(bool) & blocks["segment_addr"].notna().to_numpy()]
    part = part.drop_duplicates("segment_addr").sort_values("segment_addr")
    told = zip(*(part[name].astype(object) for name in _TOLD), strict=True)
    return [
        _Piece(int(addr), int(addr) + int(size), None, facts)
        for addr, size, facts in zip(part["segment_addr"], part["segment_bytes"], told, strict=True)
    ]


def _row(device: int, piece: _Piece, added: int | None) -> tuple[object, ...]:
    return (device, piece.begin, piece.end - piece.begin, _known(added), _known(piece.removed), *piece.told)


def _known(row: int | None) -> object:
    return pd.NA if row is None else row
