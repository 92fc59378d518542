"""Make a Trace of the races that a sanitizer found."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from cudalens.api.outcome import OK, Outcome
from cudalens.api.run_info import run_info
from cudalens.frames import Trace
from cudalens.frames.info import Judged

if TYPE_CHECKING:
    from cudalens.sanitizer import Sanitizer


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
