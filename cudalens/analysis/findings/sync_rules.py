"""The rule about waits of the host for the devices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis import units
from cudalens.analysis.event_arrays import Bools, Ints
from cudalens.analysis.findings.finding import Finding
from cudalens.analysis.findings.replays import with_work, without_host, without_waits
from cudalens.analysis.findings.trace_arrays import TraceArrays
from cudalens.analysis.time.sync_groups import wait_groups, waited_ns
from cudalens.frames.syncs.kinds import EXPLICIT, SyncKind

_MAX_PLACES: Final = 3

#: Fewer waits of a line are the end of a program, which reads its results, and no loop; unless they cost this share.
_MIN_WAITS: Final = 3
_FEW_SHARE: Final = 0.05
_WAIT_KEYS: Final = ["place", "kind", "op"]

#: Copies below this size cost only their call and their start.
_SMALL_BYTES: Final = 64 << 10

#: If removing all waits gains more than this times the largest gain of one line, the lines are one finding.
_JOINT: Final = 1.5

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
#: What to try in a program without torch: C++, OpenMP, OpenACC.
_NATIVE_COPIES: Final = (
    "pinned memory and cudaMemcpyAsync: a copy from pageable memory waits; small values as kernel arguments"
)
_NATIVE_READS: Final = "keep results on the GPU and copy them once after the loop, or with cudaMemcpyAsync and an event"
_NATIVE_ORDER: Final = (
    "work on one stream runs in order without a wait: synchronize once after the loop (nowait in OpenMP, async in "
    "OpenACC), and use cudaStreamWaitEvent between streams"
)

#: Kinds of waits whose operator copies the size of its result; with a known size it need not.
_SIZES: Final = (SyncKind.NONZERO, SyncKind.BOOLEAN_INDEX, SyncKind.UNIQUE, SyncKind.DATA_SIZE)


def waiting(arrays: TraceArrays) -> Iterator[Finding]:
    """``host_sync``: the devices run out of work because the host waited for them.

    Gain: what a replay saves in which the calls do not wait; where they are not recorded, the gaps that begin while the
    host waits. Waits after which no device was idle gain nothing. A single explicit synchronisation, as a clock needs
    it, is not reported, nor are, without torch, one or two waits with idle time of less than a 20th of the window.
    One finding per line; one for several lines if removing the waits of one of them alone gains little, because the
    host then waits at the next.
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
    chosen = chosen[(idle[chosen] > 0) & ~_is_one_explicit(waits, group)[chosen] & ~is_few[chosen]]
    if not len(chosen):
        return
    each = [_gain_of_waits(arrays, np.flatnonzero(group == number), int(idle[number])) for number in chosen]
    together = np.flatnonzero(np.isin(group, chosen))
    whole = _gain_of_waits(arrays, together, int(idle[chosen].sum()))
    if len(chosen) > 1 and whole > _JOINT * max(each):
        waited = np.bincount(group, weights=waits["dur"].fillna(0).to_numpy(np.float64))
        longest = chosen[np.argmax(waited[chosen])]
        yield _waiting(arrays, together, np.flatnonzero(group == longest), whole, len(chosen))
        return
    for number, gain in zip(chosen, each, strict=True):
        rows = np.flatnonzero(group == number)
        yield _waiting(arrays, rows, rows, gain, 1)


def _native_advice(kind: str | None) -> str:
    """What to try against waits of this kind in a program without torch."""
    if kind in _READS:
        return _NATIVE_READS
    return _NATIVE_COPIES if kind in (SyncKind.PAGEABLE_TO_DEVICE, SyncKind.BLOCKING_TO_DEVICE) else _NATIVE_ORDER


def _is_one_explicit(waits: pd.DataFrame, group: Ints) -> Bools:
    """Which groups are one explicit synchronisation, as a clock needs."""
    explicit = np.bincount(group, weights=waits["kind"].isin(EXPLICIT).to_numpy())
    alone: Bools = (np.bincount(group) == 1) & (explicit == 1)
    return alone


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
    if not arrays.has_torch:
        advice = _native_advice(kind)
    expression = next((e for e in (first["expression"], first["source"]) if not pd.isna(e)), None)
    code = f" in {op}" if op else ""
    if expression:
        code = f" ({units.shorten(str(expression), 60)})"
    where = f" in {num_places} places, mostly" if num_places > 1 else ","
    what = (
        f"{units.plural(len(waits), 'wait')} of the host{where} {kind}{code}, emptied the queue: the GPU was then idle "
        f"for {units.duration(gaps.total_ns)} in {units.plural(gaps.num_gaps, 'gap')} (the host waited "
        f"{units.duration(waited_ns(waits))})."
    )
    rows = waits["event"].dropna().to_numpy(dtype=np.int64)
    return arrays.finding(
        "host_sync", f"waiting for the GPU: {kind}", what, gain, advice, "high",
        rows=rows, place=place, is_idle=True, changed=_small(arrays, _copies_of(arrays, rows)),
    )  # fmt: skip
