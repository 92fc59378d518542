"""What a sanitizer found, as a Trace: the same that every view, report and file takes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

import torch

from cudalens.frames import RunInfo, Trace
from cudalens.frames.info import Judged
from cudalens.profiler import metadata
from cudalens.virtual import active

if TYPE_CHECKING:
    from cudalens.sanitizer import Sanitizer


def races_trace(
    sanitizer: Sanitizer,
    name: str,
    *,
    since: int = 0,
    code: str | None = None,
    status: Literal["ok", "raised", "interrupted"] = "ok",
    error: str | None = None,
) -> Trace:
    """The races that a sanitizer found, with fixes, as a Trace without events.

    Args:
        sanitizer: On or off.
        name: Name of the run.
        since: How many of its findings to leave out, from the first.
        code: Source of what ran.
        status: How that ended.
        error: Its exception in one line, or None.
    """
    begin = time.perf_counter()
    frames = sanitizer.frames_of(sanitizer.findings(since))
    state = sanitizer.status()
    rank, world_size = metadata.rank()
    info = RunInfo(
        name=name,
        source=_source(),
        status=status,
        error=error,
        build_s=time.perf_counter() - begin,
        versions=metadata.versions(),
        host=metadata.host(),
        rank=rank,
        world_size=world_size,
        code=code,
        judged=Judged(state.num_launches, state.num_streams, state.num_hidden, state.error),
    )
    return Trace(info, **frames)


def _source() -> str:
    on = active()
    if on is not None:
        return f"virtual:{on.spec.key}"
    return "cuda" if torch.cuda.is_available() else "cpu"
