"""Rules about waits of the host for the devices, and about work that could overlap on streams and threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis import units
from cudalens.analysis.findings.finding import Confidence, Finding, with_work, without_host, without_waits
from cudalens.analysis.findings.kernel_rules import blocks_per_sm
from cudalens.analysis.findings.trace_arrays import TraceArrays
from cudalens.analysis.time.groups import intersect, length
from cudalens.analysis.time.sync_advice import wait_groups, waited_ns
from cudalens.analysis.time.work import COMPUTE
from cudalens.frames.column_arrays import Ints
from cudalens.frames.sync_kinds import EXPLICIT, SyncKind

_MAX_PLACES: Final = 3

#: Fewer waits of a line are the end of a program, which reads its results, and no loop; unless they cost this share.
_MIN_WAITS: Final = 3
_FEW_SHARE: Final = 0.05
_WAIT_KEYS: Final = ["place", "kind", "op"]

#: Copies below this size cost only their call and their start.
_SMALL_BYTES: Final = 64 << 10

#: If removing all waits gains more than this times the largest gain of one line, the lines are one finding.
_JOINT: Final = 1.5

#: Idle time that a replay without waits saves beyond the gaps after them: those of a host that is not ahead.
_AHEAD: Final = 1.5

#: Kinds of waits whose advice is to read the values later, all at once.
_READS: Final = (
    SyncKind.ITEM,
    SyncKind.CPU,
    SyncKind.TOLIST,
    SyncKind.NUMPY,
    SyncKind.PRINT,
    SyncKind.TRUTH,
    SyncKind.EQUAL,
    SyncKind.CHECK,
    SyncKind.PAGEABLE_TO_HOST,
)
#: Kinds of waits whose operator copies the size of its result; with a known size it need not.
_SIZES: Final = (SyncKind.NONZERO, SyncKind.BOOLEAN_INDEX, SyncKind.UNIQUE, SyncKind.DATA_SIZE)


def waiting(arrays: TraceArrays) -> Iterator[Finding]:
    """``host_sync``: the devices run out of work because the host waited for them.

    Gain: what a replay saves in which the calls do not wait, also in later gaps, since the host is ahead then; where
    they are not recorded, the gaps that begin while the host waits. Waits after which no device was idle gain nothing.
    A single explicit synchronisation, as a clock needs it, is not reported, nor are, without torch, one or two waits
    with idle time of less than a 20th of the window. One finding per line; one for several lines if removing the waits
    of one of them alone gains little, because the host then waits at the next.
    """
    gaps = arrays.idle.sync
    if not gaps.total_ns:
        return
    waits = arrays.trace.syncs
    group = waits.groupby(_WAIT_KEYS, observed=True, dropna=False, sort=False).ngroup().to_numpy()
    idle = np.bincount(group[gaps.wait], weights=gaps.length, minlength=int(group.max()) + 1).astype(np.int64)
    chosen = np.argsort(-idle, kind="stable")[:_MAX_PLACES]
    # A recording of torch may be of one step of a loop; one of another program is of all of it.
    is_few = (np.bincount(group) < _MIN_WAITS) & (idle < _FEW_SHARE * arrays.wall_ns) & (not arrays.has_torch)
    # Which groups are one explicit synchronisation, as a clock needs.
    explicit = np.bincount(group, weights=waits["kind"].isin(EXPLICIT).to_numpy())
    chosen = chosen[(idle[chosen] > 0) & ~((np.bincount(group) == 1) & (explicit == 1))[chosen] & ~is_few[chosen]]
    if not len(chosen):
        return
    each = [_gain_of_waits(arrays, np.flatnonzero(group == number), int(idle[number])) for number in chosen]
    together = np.flatnonzero(np.isin(group, chosen))
    whole = _gain_of_waits(arrays, together, int(idle[chosen].sum()))
    if len(chosen) > 1 and whole > _JOINT * max(each):
        # The longest waits are for work that the device has; those with the most idle time are named.
        yield _waiting(arrays, together, np.flatnonzero(group == chosen[0]), whole, len(chosen))
        return
    for number, gain in zip(chosen, each, strict=True):
        rows = np.flatnonzero(group == number)
        yield _waiting(arrays, rows, rows, gain, 1)


def _gain_of_waits(arrays: TraceArrays, numbers: Ints, idle_ns: int) -> int:
    """What a replay saves without some waits; and without the copies, where the advice is to read values later."""
    waits = arrays.trace.syncs.iloc[numbers]
    if waits["event"].isna().any():
        return idle_ns
    calls = waits["event"].to_numpy(dtype=np.int64)
    reads, sized = (arrays.outermost_ops(calls[waits["kind"].isin(kinds).to_numpy()]) for kinds in (_READS, _SIZES))
    copies = _copies_of(arrays, np.append(reads, sized))
    copies = _small(arrays, copies)
    copy_calls = arrays.ints("launch", copies)
    gone = np.append(reads, copy_calls[copy_calls >= 0])
    calls = np.union1d(calls, arrays.beneath(reads))
    return arrays.steady.gain(without_waits(calls), without_host(gone), with_work(copies, 0.0))


def _copies_of(arrays: TraceArrays, ops: Ints) -> Ints:
    """Rows of the copies that some operators launched."""
    rows = arrays.work.rows[arrays.launched(ops)] if len(ops) else ops
    return rows[arrays.is_in("gpu_memcpy")[rows]]


def _small(arrays: TraceArrays, copies: Ints) -> Ints:
    """Those of `copies` that cost only their call; a larger one takes its time later as well."""
    return copies[arrays.ints("num_bytes", copies) < _SMALL_BYTES]


def _waiting(arrays: TraceArrays, numbers: Ints, of_first: Ints, gain: int, num_places: int) -> Finding:
    waits, first = arrays.trace.syncs.iloc[numbers], arrays.trace.syncs.iloc[of_first[0]]
    gaps = arrays.idle.sync.select(np.isin(arrays.idle.sync.wait, numbers))
    place, kind, op = (None if pd.isna(first[name]) else str(first[name]) for name in _WAIT_KEYS)
    groups = wait_groups(arrays.trace)
    advices = groups["advice"][groups["place"].isin([place]) & (groups["kind"] == kind) & groups["op"].isin([op])]
    advice = str(advices.iloc[0]) if len(advices) else "keep results on the device, and read them all at once"
    expression = next((e for e in (first["expression"], first["source"]) if not pd.isna(e)), None)
    code = f" in {op}" if op else ""
    if expression:
        code = f" ({units.shorten(str(expression), 60)})"
    where = f" in {num_places} places, mostly" if num_places > 1 else ","
    what = (
        f"{units.plural(len(waits), 'wait')} of the host{where} {kind}{code}, emptied the queue: the GPU was then idle "
        f"for {units.duration(gaps.total_ns)} in {units.plural(gaps.num_gaps, 'gap')} (the host waited "
        f"{units.duration(waited_ns(waits))})"
        f"{'; a host that does not wait also launches ahead of the GPU' if gain > _AHEAD * gaps.total_ns else ''}."
    )
    rows = waits["event"].dropna().to_numpy(dtype=np.int64)
    return arrays.finding(
        "host_sync", f"waiting for the GPU: {kind}", what, gain, advice, "high",
        rows=rows, place=place, is_idle=True, changed=_small(arrays, _copies_of(arrays, rows)),
    )  # fmt: skip


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
