"""Set the window of recorded steps to the time that the device worked for them."""

from __future__ import annotations

from cudalens.analysis.summary import step_rows
from cudalens.analysis.time.work import device_work
from cudalens.frames import Trace


def of_steps(trace: Trace, clock_ns: int | None) -> Trace:
    """`trace` with the window in which the device worked for its steps, of which the host may have been ahead.

    A host that runs ahead of the device launches a step while the device works for an earlier one. The first recorded
    work then begins late, and the time before it belongs to earlier steps. The window ends with the last recorded work,
    or with the last step on the host where that is later, and is as long as the steps took.

    Args:
        trace: Recorded steps.
        clock_ns: Time of these steps, from the end of the work before them to the end of their own; None if unknown.

    Returns:
        `trace` itself without device work, without steps, and if `clock_ns` or the start of the recording is unknown.
    """
    work, steps = device_work(trace), step_rows(trace)
    began = trace.info.started_ns
    if clock_ns is None or began is None or not len(work.rows) or not len(steps):
        return trace
    ts, dur = trace.events["ts"].to_numpy()[steps], trace.events["dur"].to_numpy()[steps]
    end = max(int((ts + dur).max()), int(work.end.max()))
    start = min(max(end - clock_ns, began), int(work.start.min()))
    return trace.replace(info=trace.info.replace(started_ns=start, ended_ns=end))
