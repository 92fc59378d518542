"""What graph managers did, as a Trace: the same that every view, report and file takes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd
import torch

from cudalens.device import facts
from cudalens.frames import RunInfo, Trace
from cudalens.frames.catalog import columns_of, empty_frame, missing_array
from cudalens.profiler import about
from cudalens.virtual import active

if TYPE_CHECKING:
    from cudalens.graphs import GraphManager


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainRun:
    """A function that nobody gave to a manager, and why: a cell that prints, say.

    Attributes:
        function: Its name.
        reason: In one word or two.
        detail: In a sentence, of the function.
        advice: What to do.
        place: The line of that.
        source: That line of source.
        count: How often it ran.
    """

    function: str
    reason: str
    detail: str
    advice: str | None = None
    place: str | None = None
    source: str | None = None
    count: int = 1


def graphs_trace(
    manager: GraphManager | Iterable[tuple[GraphManager, int | None]],
    name: str,
    *,
    since: int | None = None,
    code: str | None = None,
    status: Literal["ok", "raised", "interrupted"] = "ok",
    error: str | None = None,
    plain: Sequence[PlainRun] = (),
) -> Trace:
    """What a manager did, or several, as a Trace without events.

    Args:
        manager: A manager; or several, each with its own mark.
        name: Name of the run.
        since: From the manager's ``mark()``: what was done before is left out. None for all.
        code: Source of what ran.
        status: How that ended.
        error: Its exception in one line, or None.
        plain: What ran beside the managers.
    """
    begin = time.perf_counter()
    pairs = list(manager) if isinstance(manager, Iterable) else [(manager, since)]
    frame = joined([*(_with_own_paths(one.frame(mark)) for one, mark in pairs), plain_frame(plain)])
    rank, world_size = about.rank()
    info = RunInfo(
        name=name,
        source=_source(),
        status=status,
        error=error,
        build_s=time.perf_counter() - begin,
        versions=about.versions(),
        devices=facts.devices(torch),
        host=about.host(),
        rank=rank,
        world_size=world_size,
        code=code,
    )
    return Trace(info, graphs=frame)


def _with_own_paths(frame: pd.DataFrame) -> pd.DataFrame:
    """`frame` without the paths of recordings that it does not hold: they were taken before its mark."""
    known = set(frame["node"].dropna())
    kept = [pd.isna(text) or set(json.loads(text)) <= known for text in frame["path"]]
    return frame[kept].reset_index(drop=True)


def plain_frame(runs: Sequence[PlainRun]) -> pd.DataFrame:
    """The ``graphs`` frame of functions that ran without a manager."""
    rows: list[dict[str, Any]] = []
    for number, run in enumerate(runs):
        row = asdict(run) | {"function_id": number}
        rows.append(row | {"kind": "function", "state": "eager", "num_eager": run.count})
        rows[-1] |= dict.fromkeys(("num_warmups", "num_recordings", "num_replays"), 0)
        rows.append(row | {"kind": "skip"})
    if not rows:
        return empty_frame("graphs")
    return pd.DataFrame(
        {column.name: _column(column.dtype, [row.get(column.name) for row in rows]) for column in columns_of("graphs")}
    )


def _column(dtype: str, values: list[Any]) -> Any:
    if all(value is None for value in values):
        return missing_array(dtype, len(values))
    if dtype == "category":
        return pd.Categorical(pd.array(values, dtype="str"))
    return pd.array([pd.NA if value is None else value for value in values], dtype=dtype)


def joined(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Frames of several managers as one: functions and recordings are numbered anew, so that no two are the same."""
    known = [frame for frame in frames if len(frame)]
    if len(known) < 2:
        return known[0] if known else empty_frame("graphs")
    shifted, functions, nodes = [], 0, 0
    for frame in known:
        shifted.append(_shifted(frame, functions, nodes))
        functions = int(shifted[-1]["function_id"].max()) + 1
        numbers = shifted[-1]["node"].dropna()
        nodes = int(numbers.max()) + 1 if len(numbers) else nodes
    columns = {
        column.name: _column(column.dtype, [_plain(value) for frame in shifted for value in frame[column.name]])
        for column in columns_of("graphs")
    }
    return pd.DataFrame(columns)


def _plain(value: Any) -> Any:
    return None if pd.isna(value) else value


def _shifted(frame: pd.DataFrame, functions: int, nodes: int) -> pd.DataFrame:
    path = [None if pd.isna(text) else json.dumps([n + nodes for n in json.loads(text)]) for text in frame["path"]]
    return frame.assign(
        function_id=frame["function_id"] + functions,
        node=frame["node"] + nodes,
        parent=frame["parent"] + nodes,
        path=_column("category", path),
    )


def _source() -> str:
    on = active()
    if on is not None:
        return f"virtual:{on.spec.key}"
    return "cuda" if torch.cuda.is_available() else "cpu"
