"""Rules about work that runs one after another and could overlap: streams, and threads that share a stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis import units
from cudalens.analysis.event_arrays import Ints
from cudalens.analysis.findings.finding import Confidence, Finding
from cudalens.analysis.findings.kernel_rules import blocks_per_sm
from cudalens.analysis.findings.trace_arrays import TraceArrays
from cudalens.analysis.time.intervals import intersect, length
from cudalens.analysis.time.work import COMPUTE

_SHARE: Final = 0.05

#: Of the smaller streams' time: streams that overlap more than this are not serial.
_OVERLAPPED: Final = 0.10

#: A kernel whose blocks fill half of the multiprocessors or more leaves little room for others.
_FULL: Final = 0.50

#: Of all launches: below it threads follow one another, as a backward pass follows its forward.
_MIN_SWITCHES: Final = 20
_MIN_TURNS: Final = 0.10


def serial_streams(arrays: TraceArrays) -> Iterator[Finding]:
    """``streams_in_turns``: compute kernels on several streams of a device that do not overlap.

    Gain: the time of all streams but the busiest, in kernels that leave room for others: fewer blocks than half of the
    multiprocessors (all kernels, if grids are not known); at most the time of the busiest. An upper bound: what one
    stream waits for from the other cannot overlap. Threshold: a twentieth of the window, of which less than a tenth
    overlaps. One finding per device.
    """
    work = arrays.work
    compute = (work.kind == COMPUTE) & (work.stream >= 0)
    if arrays.is_other_device:  # whose streams are engines, and rows of one contain those of others
        return
    if arrays.is_file and not (work.launch >= 0).any():  # what depends on what is not recorded
        return
    for device in np.unique(work.device[compute]).tolist():
        chosen = np.flatnonzero(compute & (work.device == device))
        streams = np.unique(work.stream[chosen])
        if len(streams) > 1:
            yield from _serial(arrays, chosen, streams)


def _serial(arrays: TraceArrays, chosen: Ints, streams: Ints) -> Iterator[Finding]:
    stream = arrays.work.stream[chosen]
    times = [arrays.work_time(chosen[stream == number]) for number in streams]
    busiest = int(np.argmax([length(time) for time in times]))
    most, others = times[busiest], np.delete(streams, busiest)
    smaller = chosen[stream != streams[busiest]]
    smaller_time = arrays.work_time(smaller)
    overlap = length(intersect(most, smaller_time))
    fitting, confidence = _fitting(arrays, smaller)
    gain = min(length(arrays.work_time(fitting)), length(most))
    if arrays.is_minor(gain, _SHARE) or overlap >= _OVERLAPPED * length(smaller_time):
        return
    what = (
        f"kernels on stream {streams[busiest]} ({units.duration(length(most))}) and on "
        f"{f'stream {others[0]}' if len(others) == 1 else units.plural(len(others), 'other stream')} "
        f"({units.duration(length(smaller_time))}) "
        f"{f'overlapped for only {units.duration(overlap)}' if overlap else 'never overlapped'}."
    )
    how = "wait_stream, wait_event" if arrays.has_torch else "cudaStreamWaitEvent"
    stops = "synchronize() and .item()" if arrays.has_torch else "synchronizing calls and copies that wait"
    advice = (
        f"launch the independent part first, wait for the other stream as late as possible ({how}), "
        f"and avoid {stops} between them"
    )
    rows = arrays.work.rows[fitting]
    yield arrays.finding(
        "streams_in_turns", "streams that do not overlap", what, gain, advice, confidence,
        rows=rows, place=arrays.place_of(rows),
    )  # fmt: skip


def _fitting(arrays: TraceArrays, index: Ints) -> tuple[Ints, Confidence]:
    """The kernels of some device work that leave room for others: "medium" if grids show it, else all, and "low"."""
    filled = blocks_per_sm(arrays, arrays.work.rows[index])
    return (index, "low") if np.isnan(filled).all() else (index[~(filled >= _FULL)], "medium")


def shared_stream(arrays: TraceArrays) -> Iterator[Finding]:
    """``threads_on_one_stream``: several host threads launch in turns onto one stream, which runs the work in order.

    Threads that do so at the same time are independent of each other, or wait for each other on the host. A thread
    counts if its launches alternate with those of others: twenty times, and in a tenth of the stream's launches; a
    backward pass follows its forward pass and does not. Gain: the time of all threads' kernels but the busiest
    thread's, in kernels that leave room as for ``streams_in_turns``. Threshold: a twentieth of the window.
    """
    work = arrays.work
    index, thread, at = arrays.by_launch
    compute = np.flatnonzero(work.kind[index] == COMPUTE)
    order = compute[np.argsort(at[compute], kind="stable")]
    by_stream = pd.DataFrame({"device": work.device[index[order]], "stream": work.stream[index[order]]})
    for (_, stream), part in by_stream.groupby(["device", "stream"]):
        launches = order[part.index]
        chosen, by = index[launches], thread[launches]
        if int((by[1:] != by[:-1]).sum()) >= max(_MIN_SWITCHES, _MIN_TURNS * len(chosen)):
            yield from _shared(arrays, int(stream), chosen, by)


def _shared(arrays: TraceArrays, stream: int, chosen: Ints, by: Ints) -> Iterator[Finding]:
    threads, at = np.unique(by, return_inverse=True)
    busy = np.bincount(at, weights=arrays.dur[arrays.work.rows[chosen]])
    fitting, confidence = _fitting(arrays, chosen[at != int(np.argmax(busy))])
    gain = length(arrays.work_time(fitting))
    if arrays.is_minor(gain, _SHARE):
        return
    what = (
        f"{units.plural(len(threads), 'thread')} launched in turns onto stream {stream}, which ran their "
        f"{units.plural(len(chosen), 'kernel')} one after another."
    )
    advice = "use a stream for each thread: with torch.cuda.stream(torch.cuda.Stream()) around its work"
    if not arrays.has_torch:
        advice = "use a stream for each thread (cudaStreamCreate, or nvcc --default-stream per-thread)"
    rows = arrays.work.rows[fitting]
    yield arrays.finding(
        "threads_on_one_stream", "threads that share a stream", what, gain, advice, confidence,
        rows=rows, place=arrays.place_of(rows),
    )  # fmt: skip
