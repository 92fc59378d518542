"""Make a Trace of what graph managers did, or of the races that a sanitizer found."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch

from cudalens.api.run_info import run_info
from cudalens.api.session import OK, Outcome
from cudalens.device import facts
from cudalens.frames import Trace
from cudalens.frames.catalog_frames import frame_of_rows
from cudalens.frames.info import Judged
from cudalens.graphs.frames import joined

if TYPE_CHECKING:
    from cudalens.graphs import GraphManager
    from cudalens.sanitizer import Sanitizer


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainRun:
    """A function that ran without a manager, and the reason (such as a cell that prints).

    Attributes:
        function: Name of the function.
        reason: The reason, in one or two words.
        detail: A sentence about the function.
        advice: What to do.
        place: Location of the cause.
        source: Source line of the cause.
        count: Number of runs.
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
    outcome: Outcome = OK,
    plain: Sequence[PlainRun] = (),
) -> Trace:
    """Return a Trace without events, with the frames of one or more graph managers.

    Args:
        manager: A manager, or pairs of a manager and its mark.
        name: Name of the run.
        since: A result of the manager's ``mark()``; earlier records are left out. None for all.
        code: Source of the code that ran.
        outcome: How the code ended.
        plain: Functions that ran without a manager.
    """
    begin = time.perf_counter()
    pairs = list(manager) if isinstance(manager, Iterable) else [(manager, since)]
    frame = joined([*(one.frame(mark) for one, mark in pairs), plain_frame(plain)])
    info = run_info(name, outcome, build_s=time.perf_counter() - begin, devices=facts.devices(torch), code=code)
    return Trace(info, graphs=frame)


def plain_frame(runs: Sequence[PlainRun]) -> pd.DataFrame:
    """Return the ``graphs`` frame of functions that ran without a manager."""
    rows: list[dict[str, Any]] = []
    for number, run in enumerate(runs):
        row = asdict(run) | {"function_id": number}
        rows.append(row | {"kind": "function", "state": "eager", "num_eager": run.count})
        rows[-1] |= dict.fromkeys(("num_warmups", "num_recordings", "num_replays"), 0)
        rows.append(row | {"kind": "skip"})
    return frame_of_rows("graphs", rows)


def races_trace(
    sanitizer: Sanitizer,
    name: str,
    *,
    since: int = 0,
    code: str | None = None,
    outcome: Outcome = OK,
) -> Trace:
    """Return the races that a sanitizer found, with fixes, as a Trace without events.

    Args:
        sanitizer: The sanitizer, running or stopped.
        name: Name of the run.
        since: Number of first findings to leave out.
        code: Source of the code that ran.
        outcome: How the code ended.
    """
    begin = time.perf_counter()
    frames = sanitizer.frames_of(sanitizer.findings(since))
    state = sanitizer.status()
    judged = Judged(state.num_launches, state.num_streams, state.num_hidden, state.error)
    info = run_info(name, outcome, build_s=time.perf_counter() - begin, code=code, judged=judged)
    return Trace(info, **frames)
