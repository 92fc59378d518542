"""What graph managers did, as a Trace: the same that every view, report and file takes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd
import torch

from cudalens.device import facts
from cudalens.frames import RunInfo, Trace
from cudalens.graphs.frames import frame_of
from cudalens.graphs.merge import joined
from cudalens.profiler import metadata
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
    frame = joined([*(one.frame(mark) for one, mark in pairs), plain_frame(plain)])
    rank, world_size = metadata.rank()
    info = RunInfo(
        name=name,
        source=_source(),
        status=status,
        error=error,
        build_s=time.perf_counter() - begin,
        versions=metadata.versions(),
        devices=facts.devices(torch),
        host=metadata.host(),
        rank=rank,
        world_size=world_size,
        code=code,
    )
    return Trace(info, graphs=frame)


def plain_frame(runs: Sequence[PlainRun]) -> pd.DataFrame:
    """The ``graphs`` frame of functions that ran without a manager."""
    rows: list[dict[str, Any]] = []
    for number, run in enumerate(runs):
        row = asdict(run) | {"function_id": number}
        rows.append(row | {"kind": "function", "state": "eager", "num_eager": run.count})
        rows[-1] |= dict.fromkeys(("num_warmups", "num_recordings", "num_replays"), 0)
        rows.append(row | {"kind": "skip"})
    return frame_of(rows)


def _source() -> str:
    on = active()
    if on is not None:
        return f"virtual:{on.spec.key}"
    return "cuda" if torch.cuda.is_available() else "cpu"
