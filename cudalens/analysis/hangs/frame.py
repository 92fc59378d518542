"""The collectives of all dumps as one frame."""

from __future__ import annotations

from typing import Final

import pandas as pd

from cudalens.analysis.hangs.job import user_frame
from cudalens.frames.flight_records import Call, FlightRecords

_COLUMNS: Final = {
    "rank": "int64",
    "dump": "int64",
    "group": "category",
    "description": "category",
    "seq": "int64",
    "op": "category",
    "src": "Int64",
    "dst": "Int64",
    "input_sizes": "object",
    "output_sizes": "object",
    "input_dtypes": "object",
    "is_finished": "bool",
    "created_ns": "int64",
    "place": "category",
}


def collectives(records: FlightRecords) -> pd.DataFrame:
    """Return a row for each collective, send and receive of each dump, in order of rank, dump and time.

    Columns: ``rank``; ``dump`` from 0; ``group`` and its ``description``; ``seq``, the collective's number in the
    group; ``op``; ``src``, ``dst``: ranks of a send or receive (Int64); ``input_sizes``, ``output_sizes``: tuples of
    shapes; ``input_dtypes``; ``is_finished``; ``created_ns``: ns since 1970 on the clock of the rank's host; ``place``:
    ``train.py:12``, missing without a stack.
    """
    rows = [
        _row(rank, number, call)
        for rank, dumps in records.dumps.items()
        for number, dump in enumerate(dumps)
        for call in dump.calls
    ]
    return pd.DataFrame(rows, columns=list(_COLUMNS)).astype(_COLUMNS)


def _row(rank: int, number: int, call: Call) -> tuple[object, ...]:
    frame = user_frame(call.stack)
    place = f"{frame.filename}:{frame.line}" if frame else None
    return (
        rank,
        number,
        call.group,
        call.description,
        call.seq,
        call.op,
        *(call.pair or (None, None)),
        call.input_sizes,
        call.output_sizes,
        call.input_dtypes,
        call.is_finished,
        call.created_ns,
        place,
    )
