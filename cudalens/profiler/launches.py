"""How kernels were launched and what copies moved: facts that CUPTI's rows carry as JSON beside their times."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from cudalens.frames import GPU_CATEGORIES, categorical, is_category, nullable
from cudalens.frames.catalog import KINETO_ARGS
from cudalens.profiler.columns import factorized

Ints = NDArray[np.int64]


class Facts(msgspec.Struct, rename=KINETO_ARGS):
    """What Kineto tells of one row of device work; None where it does not."""

    correlation: int | None = None
    graph_id: int | None = None
    graph_node_id: int | None = None
    wait_stream: int | None = None
    wait_record_id: int | None = None
    num_bytes: int | None = None
    grid: list[int] | None = None
    block_dim: list[int] | None = None
    registers: int | None = None
    shared_memory_bytes: int | None = None
    blocks_per_sm: float | None = None
    warps_per_sm: float | None = None
    occupancy_pct: float | None = None
    collective: str | None = None
    process_group: str | None = None
    in_elements: int | None = None
    out_elements: int | None = None
    message_dtype: str | None = None
    group_size: int | None = None


class _SavedEvent(msgspec.Struct):
    cat: str | None = None
    ts: float = 0.0
    args: Facts | None = None


class _SavedTrace(msgspec.Struct):
    traceEvents: list[_SavedEvent] = []  # noqa: N815 - Chrome's word


#: Kineto writes 0 for work outside of any graph.
_INTS: Final = {
    "graph_id": "int64",
    "graph_node_id": "int64",
    "wait_stream": "int64",
    "wait_record_id": "int64",
    "num_bytes": "int64",
    "registers": "int32",
    "shared_memory_bytes": "int64",
    "in_elements": "int64",
    "out_elements": "int64",
    "group_size": "int64",
}
_ZERO_IS_NONE: Final = ("graph_id", "graph_node_id")
#: It writes -1 for what it does not know.
_NEGATIVE_IS_NONE: Final = ("wait_stream", "wait_record_id")
_FLOATS: Final = ("blocks_per_sm", "warps_per_sm", "occupancy_pct")
_TEXTS: Final = ("grid", "block_dim", "collective", "process_group", "message_dtype")


def launch_columns(raw: Any, columns: dict[str, Any]) -> dict[str, Any]:
    """Launch facts for the device rows of `columns`; nothing where torch tells none, or not of the same rows.

    Args:
        raw: torch's `_ProfilerResult`.
        columns: Raw columns of the run, in torch's order.
    """
    rows = np.flatnonzero(is_category(columns["cat"], GPU_CATEGORIES))
    if not len(rows):
        return {}
    try:
        facts = _from_activities(raw) if hasattr(raw, "trace_activities") else _from_saved(raw)
    except (msgspec.MsgspecError, OSError):
        return {}  # a build that writes other types, or no room for its file: the run itself is not lost for that
    correlation = columns["correlation_id"].to_numpy(dtype=np.int64, na_value=0)[rows]
    order = np.lexsort((columns["ts"][rows], correlation))
    if len(facts) != len(rows) or [key for key, _ in facts] != correlation[order].tolist():
        return {}
    return fact_columns([fact for _, fact in facts], rows[order], len(columns["cat"]))


def _from_activities(raw: Any) -> list[tuple[int, Facts]]:
    """Correlation id and facts of the device rows, in order of (correlation id, start)."""
    decode = msgspec.json.Decoder(Facts).decode
    found = []
    for activity in raw.trace_activities():
        if activity.type() in GPU_CATEGORIES:
            facts = decode(f"{{{activity.metadata_json()}}}")
            found.append((int(activity.correlation_id()), int(activity.timestamp()), facts))
    found.sort(key=lambda item: item[:2])
    return [(correlation, facts) for correlation, _, facts in found]


def _from_saved(raw: Any) -> list[tuple[int, Facts]]:
    """The same through the JSON file that torch writes, for builds without another way."""
    with tempfile.TemporaryDirectory(prefix="cudalens-") as folder:
        path = Path(folder, "trace.json")
        raw.save(str(path))
        saved = msgspec.json.decode(path.read_bytes(), type=_SavedTrace).traceEvents
    found = [
        (event.args.correlation or 0, event.ts, event.args)
        for event in saved
        if event.cat in GPU_CATEGORIES and event.args is not None
    ]
    found.sort(key=lambda item: item[:2])
    return [(correlation, facts) for correlation, _, facts in found]


def fact_columns(facts: Sequence[Facts], rows: Ints, n: int) -> dict[str, Any]:
    """Columns of length `n` with the facts of `rows`, missing elsewhere.

    Args:
        facts: One per row.
        rows: Row numbers, shape (len(facts),).
        n: Number of events.
    """
    columns: dict[str, Any] = {}
    for name, dtype in _INTS.items():
        values = [getattr(fact, name) for fact in facts]
        if name in _ZERO_IS_NONE:
            values = [value or None for value in values]
        if name in _NEGATIVE_IS_NONE:
            values = [None if value is None or value < 0 else value for value in values]
        columns[name] = _numbers(values, rows, n, dtype)
    for name in _FLOATS:
        columns[name] = _numbers([getattr(fact, name) for fact in facts], rows, n, "float32")
    for name in _TEXTS:
        columns[name] = _texts([getattr(fact, name) for fact in facts], rows, n)
    return columns


def _numbers(values: list[Any], rows: Ints, n: int, dtype: str) -> Any:
    data, mask = np.zeros(n, dtype), np.ones(n, bool)
    data[rows] = [0 if value is None else value for value in values]
    mask[rows] = [value is None for value in values]
    return nullable(data, mask)


def _texts(values: list[Any], rows: Ints, n: int) -> Any:
    texts = [value if value is None or isinstance(value, str) else _json(value) for value in values]
    codes, distinct = factorized(text for text in texts if text is not None)
    spread = np.full(n, -1, np.int32)
    spread[rows[[text is not None for text in texts]]] = codes
    return categorical(spread, distinct)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
