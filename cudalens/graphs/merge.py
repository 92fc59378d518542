"""Frames of several managers as one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pandas as pd

from cudalens.frames.schema import empty_frame, frame_of_rows


def joined(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Frames of several managers as one: functions and recordings are numbered anew, so that no two are the same."""
    known = [frame for frame in frames if len(frame)]
    if len(known) < 2:
        return known[0] if known else empty_frame("graphs")
    rows: list[dict[str, Any]] = []
    functions = nodes = 0
    for frame in known:
        found = [_shifted(row, functions, nodes) for row in frame.to_dict("records")]
        functions = 1 + max(row["function_id"] for row in found)
        nodes = 1 + max((row["node"] for row in found if row["node"] is not None), default=nodes - 1)
        rows += found
    return frame_of_rows("graphs", rows)


def _shifted(row: dict[Any, Any], functions: int, nodes: int) -> dict[str, Any]:
    plain = {str(name): None if pd.isna(value) else value for name, value in row.items()}
    for name, shift in (("function_id", functions), ("node", nodes), ("parent", nodes)):
        number = plain[name]
        plain[name] = None if number is None else number + shift
    if plain["path"] is not None:
        plain["path"] = json.dumps([number + nodes for number in json.loads(plain["path"])])
    return plain
