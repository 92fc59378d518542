"""Who waited: host calls for the device, streams for CUDA events, a thread for autograd's.

Synchronising calls are told apart by name. Which stream or CUDA event a call waited for is known from Kineto's
``cuda_sync`` rows; without them the device work that ended last within the call is taken to be what it waited for.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis.critical_path.dependencies import Arrivals, Causes, EventEdges, Window, Works
from cudalens.analysis.critical_path.host import HostLines, Moments
from cudalens.analysis.critical_path.threads import handovers
from cudalens.frames import RUNTIME_CATEGORIES, is_category
from cudalens.frames.syncs.kinds import is_release, plain_call

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: By how much the clocks of host and device may differ in a recording.
SKEW_NS: Final = 10_000

#: What a synchronising call takes at most that finds nothing to wait for; less where a shorter one was recorded.
CALL_NS: Final = 10_000

_NONE, _DEVICE, _STREAM, _EVENT, _RELEASE, _COPY, _ASYNC_COPY, _STREAM_WAIT = range(8)
_CALL: Final = re.compile(r"^(?:cuda|cu|hip)(Device|Ctx|Thread|Stream|Event)Synchronize$")
_COPY_CALL: Final = re.compile(r"^(?:cuda|cu|hip)Memcpy(?!.*(?:Peer|DtoD|AtoD|DtoA|AtoA))\w*$")
_STREAM_WAIT_CALL: Final = re.compile(r"^(?:cuda|cu|hip)StreamWaitEvent$")
_BY_WORD: Final = {"Stream": _STREAM, "Event": _EVENT}

Found = tuple[Arrivals, Causes, EventEdges, tuple[str, ...]]


def find_waits(events: pd.DataFrame, window: Window, host: HostLines, works: Works) -> Found:
    """All waits within `window`. Ends of `works` that host calls saw by a clock ahead of the device's are moved back.

    Returns:
        Arrivals of host threads, their causes, waits of streams, and what is not known.
    """
    kind = _call_kinds(events)
    queues = _Queues(works)
    calls = _calls(events, window, host, kind)
    told = _Told(events, calls)
    pairs = _pairs(events, works, queues, calls, kind[calls], told)
    arrivals, causes = _arrivals(events, window, host, works, calls, pairs)
    edges, unknown_waits = _event_edges(events, works, queues, kind)
    notes = _notes(kind[calls], told, unknown_waits)
    return *_with_threads(events, host, arrivals, causes), edges, notes


def _call_kinds(events: pd.DataFrame) -> NDArray[np.int8]:
    names = events["name"].array
    kinds = np.array([*map(_kind_of, names.categories.tolist()), _NONE], np.int8)
    is_call = is_category(events["cat"].array, RUNTIME_CATEGORIES)
    found: NDArray[np.int8] = np.where(is_call, kinds[names.codes], _NONE).astype(np.int8)
    return found


def _kind_of(name: str) -> int:
    call = plain_call(name)
    if match := _CALL.match(call):
        return _BY_WORD.get(match[1], _DEVICE)
    if _STREAM_WAIT_CALL.match(call):
        return _STREAM_WAIT
    if _COPY_CALL.match(call):
        return _ASYNC_COPY if call.endswith("Async") else _COPY
    return _RELEASE if is_release(call) else _NONE


def _calls(events: pd.DataFrame, window: Window, host: HostLines, kind: NDArray[np.int8]) -> Ints:
    """Rows of calls that may wait, those within another one left out, by thread and time."""
    rows = np.flatnonzero((kind != _NONE) & (kind != _STREAM_WAIT) & (host.of_row >= 0))
    start = events["ts"].to_numpy()[rows]
    end = start + events["dur"].to_numpy()[rows]
    inside = (start >= window.begin) & (end <= window.host_end) & (end > start)
    rows, start, end = rows[inside], start[inside], end[inside]
    thread = host.of_row[rows]
    order = np.lexsort((-end, start, thread))
    rows, start, end, thread = rows[order], start[order], end[order], thread[order]
    outermost: Ints = rows[_outermost(thread, start, end)]
    return outermost


def _outermost(thread: Ints, start: Ints, end: Ints) -> Bools:
    """Intervals, by thread and start, that do not begin within an earlier one of their thread."""
    moments = Moments(start, end)
    reach = np.maximum.accumulate(moments.key(thread, end)) if len(end) else end
    outer = np.ones(len(end), bool)
    outer[1:] = moments.key(thread, start)[1:] >= reach[:-1]
    return outer


class _Queues:
    """The work of each stream in order, with what a call at some time could wait for."""

    def __init__(self, works: Works) -> None:
        self.works = works
        self.issued: list[Ints] = []
        self.ended: list[Ints] = []
        self._latest: list[Ints] = []
        for first, stop in zip(works.first.tolist(), works.stop.tolist(), strict=True):
            # Work without a recorded launch was issued no earlier than the one before it; more is not known.
            known = np.where(works.launch[first:stop] >= 0, works.issued[first:stop], np.iinfo(np.int64).min)
            self.issued.append(np.maximum.accumulate(known))
            ended = np.maximum.accumulate(works.end[first:stop])
            self.ended.append(ended)
            at = np.where(works.end[first:stop] == ended, np.arange(stop - first), 0)
            self._latest.append(first + np.maximum.accumulate(at))

    def last_before(self, chain: int, bound: Ints, until: Ints) -> tuple[Ints, Bools]:
        """The work on a stream that ended last, of what was issued before `bound` and had ended by `until`.

        Returns:
            Its position, -1 where there is none; and whether all that was issued had ended.
        """
        num_issued = np.searchsorted(self.issued[chain], bound, side="left")
        num_ended = np.searchsorted(self.ended[chain], until, side="right")
        count = np.minimum(num_issued, num_ended)
        found = np.where(count > 0, self._latest[chain][np.maximum(count - 1, 0)], -1)
        return found, num_ended >= num_issued

    def first_after(self, chain: int, time: Ints) -> Ints:
        """Position of the first work on a stream that was issued after `time`, -1 where there is none."""
        at = np.searchsorted(self.issued[chain], time, side="right")
        return np.where(at < len(self.issued[chain]), at + self.works.first[chain], -1)


class _Told:
    """What ``cuda_sync`` rows tell of each call; -1 where they tell nothing.

    Attributes:
        stream: The stream that was waited for.
        device: Its device.
        bound: Work issued before this time was waited for, ns; the call's start where nothing is told.
        is_known: There is such a row.
    """

    def __init__(self, events: pd.DataFrame, calls: Ints) -> None:
        self.stream = np.full(len(calls), -1, np.int64)
        self.device = np.full(len(calls), -1, np.int64)
        self.bound = events["ts"].to_numpy()[calls].copy()
        self.is_known = np.zeros(len(calls), bool)
        rows, launch = sync_rows(events)
        order = np.argsort(calls, kind="stable")
        at = np.searchsorted(calls[order], launch)
        hit = at < len(calls)
        hit[hit] = calls[order][at[hit]] == launch[hit]
        rows, at = rows[hit], order[at[hit]]
        awaited, own = _plain(events, "wait_stream", rows), _plain(events, "stream", rows)
        self.is_known[at] = True
        self.device[at] = _plain(events, "device", rows)
        self.stream[at] = np.where(awaited >= 0, awaited, np.where(own < 0xFFFFFFFF, own, -1))
        recorded = record_times(events, rows)
        self.bound[at] = np.where(recorded >= 0, recorded, self.bound[at])


def sync_rows(events: pd.DataFrame) -> tuple[Ints, Ints]:
    """Rows of category ``cuda_sync`` whose call was recorded, and the row of that call."""
    rows = np.flatnonzero(is_category(events["cat"].array, ("cuda_sync",)))
    launch = _plain(events, "launch", rows)
    return rows[launch >= 0], launch[launch >= 0]


def record_times(events: pd.DataFrame, rows: Ints) -> Ints:
    """When the CUDA event that each ``cuda_sync`` row waits for was recorded, -1 where that is unknown, ns."""
    wanted = _plain(events, "wait_record_id", rows)
    names = events["name"].array
    ends = ("EventRecord", "EventRecordWithFlags")
    is_record = np.array([*(plain_call(name).endswith(ends) for name in names.categories.tolist()), False])
    calls = np.flatnonzero(is_category(events["cat"].array, RUNTIME_CATEGORIES) & is_record[names.codes])
    ids = _plain(events, "correlation_id", calls)
    order = np.argsort(ids, kind="stable")
    at = np.searchsorted(ids[order], wanted)
    hit = (wanted >= 0) & (at < len(ids))
    hit[hit] = ids[order][at[hit]] == wanted[hit]
    times = np.full(len(rows), -1, np.int64)
    times[hit] = events["ts"].to_numpy()[calls[order][at[hit]]]
    return times


def _plain(events: pd.DataFrame, column: str, rows: Ints) -> Ints:
    plain: Ints = events[column].array[rows].to_numpy(dtype=np.int64, na_value=-1)
    return plain


def _pairs(
    events: pd.DataFrame, works: Works, queues: _Queues, calls: Ints, kind: NDArray[np.int8], told: _Told
) -> tuple[Ints, Ints]:
    """Which call (position in `calls`) waited for which work."""
    start = events["ts"].to_numpy()[calls]
    until = start + events["dur"].to_numpy()[calls] + SKEW_NS
    parts = [_copy_pairs(events, works, calls, kind)]
    may_wait = np.isin(kind, (_DEVICE, _STREAM, _EVENT, _RELEASE))
    for chain in range(len(works.first)):
        stream, device = works.stream[works.first[chain]], works.device[works.first[chain]]
        asked = may_wait & ((told.stream < 0) | (told.stream == stream)) & ((told.device < 0) | (told.device == device))
        at = np.flatnonzero(asked)
        work, is_drained = queues.last_before(chain, told.bound[at], until[at])
        # Who waits for a whole stream goes on when it has drained; if it had not, the wait was for another one.
        sure = (told.stream[at] >= 0) | (kind[at] == _DEVICE)
        possible = (work >= 0) & (is_drained | ((kind[at] == _EVENT) & ~sure))
        waited = works.end[np.maximum(work, 0)] > start[at] if len(works) else possible
        chosen = possible & (waited | (sure & (kind[at] != _RELEASE)))
        parts.append((at[chosen], work[chosen]))
    call, work = (np.concatenate(part) for part in zip(*parts, strict=True))
    return _best_guesses(works, call, work, kind, told)


def _copy_pairs(events: pd.DataFrame, works: Works, calls: Ints, kind: NDArray[np.int8]) -> tuple[Ints, Ints]:
    """Copies that their call waited for: of blocking calls, and of asynchronous ones with pageable memory."""
    order = np.argsort(works.launch, kind="stable")
    at = np.searchsorted(works.launch[order], calls)
    hit = ((kind == _COPY) | (kind == _ASYNC_COPY)) & (at < len(order))
    hit[hit] = works.launch[order][at[hit]] == calls[hit]
    call, work = np.flatnonzero(hit), order[at[hit]]
    names = events["name"].array
    pageable = np.array([*("Pageable" in name for name in names.categories.tolist()), False])
    start = events["ts"].to_numpy()[calls[call]]
    until = start + events["dur"].to_numpy()[calls[call]] + SKEW_NS
    waits = (kind[call] == _COPY) | pageable[names.codes[works.row[work]]]
    waits &= (works.end[work] > start) & (works.end[work] <= until)
    return call[waits], work[waits]


def _best_guesses(works: Works, call: Ints, work: Ints, kind: NDArray[np.int8], told: _Told) -> tuple[Ints, Ints]:
    """Of a call whose stream is unknown, only the work that ended last; of the others all."""
    guessed = (told.stream[call] < 0) & np.isin(kind[call], (_STREAM, _EVENT))
    at = np.flatnonzero(guessed)
    at = at[np.lexsort((works.end[work[at]], call[at]))]
    is_last = np.append(call[at][1:] != call[at][:-1], True)[: len(at)]
    keep = ~guessed
    keep[at[is_last]] = True
    return call[keep], work[keep]


def _arrivals(
    events: pd.DataFrame, window: Window, host: HostLines, works: Works, calls: Ints, pairs: tuple[Ints, Ints]
) -> tuple[Arrivals, Causes]:
    start = events["ts"].to_numpy()[calls]
    end = start + events["dur"].to_numpy()[calls]
    call, work = pairs
    usable = works.start[work] < end[call]
    call, work = call[usable], work[usable]
    np.minimum.at(works.end, work, end[call])
    kept, arrival = np.unique(call, return_inverse=True)
    arrival = arrival.reshape(-1)
    start, end, rows = start[kept], end[kept], calls[kept]
    latest = np.full(len(kept), np.iinfo(np.int64).min)
    np.maximum.at(latest, arrival, works.end[work])
    waited = latest > start
    shortest = int((end - start).min(initial=CALL_NS))
    own = np.where(waited, np.minimum(shortest, end - start), end - start)
    source, lag = bind_last(arrival, works.end[work], waited, end)
    causes = Causes(arrival, work, np.full(len(work), -1, np.int64), works.end[work].copy(), lag)
    return Arrivals(host.of_row[rows], start, end, own, rows, np.ones(len(rows), bool), source), causes


def bind_last(arrival: Ints, time: Ints, waited: Bools, end: Ints) -> tuple[Ints, Ints]:
    """Of each arrival that waited, the cause that was fulfilled last, and the lags: its is all the time that remains.

    Args:
        arrival: Arrival of each cause, shape (c,).
        time: When each cause was fulfilled, ns, shape (c,).
        waited: Whether each arrival waited, shape (a,).
        end: When it went on, ns, shape (a,).
    """
    source = np.full(len(waited), -1, np.int64)
    order = np.argsort(time, kind="stable")
    source[arrival[order]] = order
    source[~waited] = -1
    lag = np.zeros(len(arrival), np.int64)
    at = np.flatnonzero(source >= 0)
    lag[source[at]] = end[at] - time[source[at]]
    return source, lag


def _event_edges(events: pd.DataFrame, works: Works, queues: _Queues, kind: NDArray[np.int8]) -> tuple[EventEdges, int]:
    """Waits of streams for CUDA events, and how many calls there are of which nothing is told."""
    rows, launch = sync_rows(events)
    is_wait = (_plain(events, "wait_stream", rows) >= 0) & (kind[launch] == _STREAM_WAIT)
    num_unknown = int((kind == _STREAM_WAIT).sum()) - len(np.unique(launch[is_wait]))
    rows, launch = rows[is_wait], launch[is_wait]
    called = events["ts"].to_numpy()[launch]
    recorded = record_times(events, rows)
    bound = np.where(recorded >= 0, recorded, called)
    device, awaited, waiting = (_plain(events, name, rows) for name in ("device", "wait_stream", "stream"))
    source, target = np.full(len(rows), -1, np.int64), np.full(len(rows), -1, np.int64)
    for chain, first in enumerate(works.first.tolist()):
        here = device == works.device[first]
        of_source = np.flatnonzero(here & (awaited == works.stream[first]))
        never = np.full(len(of_source), np.iinfo(np.int64).max)
        source[of_source], _ = queues.last_before(chain, bound[of_source], never)
        of_target = np.flatnonzero(here & (waiting == works.stream[first]))
        target[of_target] = queues.first_after(chain, called[of_target])
    both = (source >= 0) & (target >= 0)
    source, target = source[both], target[both]
    held = (works.end[source] <= works.start[target]) & (works.start[source] < works.start[target])
    pairs = np.unique(np.stack([source[held], target[held]]), axis=1)
    return EventEdges(pairs[0], pairs[1], np.zeros(pairs.shape[1], np.int64)), num_unknown


def _notes(kind: NDArray[np.int8], told: _Told, unknown_waits: int) -> tuple[str, ...]:
    notes = []
    if unknown_waits:
        notes.append(f"{unknown_waits} waits of streams for CUDA events are not known in detail and are left out")
    guessed = int((~told.is_known & np.isin(kind, (_STREAM, _EVENT))).sum())
    if guessed:
        notes.append(f"{guessed} waits of the host name no stream: each is taken to wait for what ended last within it")
    return tuple(notes)


def _with_threads(events: pd.DataFrame, host: HostLines, arrivals: Arrivals, causes: Causes) -> tuple[Arrivals, Causes]:
    """Arrivals and causes with those of threads that wait for autograd's, by thread and time."""
    found = handovers(events, host)
    busy = Arrivals(
        np.concatenate([arrivals.thread, found.thread]),
        np.concatenate([arrivals.since, found.since]),
        np.concatenate([arrivals.time, found.time]),
        np.concatenate([arrivals.own, np.zeros(len(found.time), np.int64)]),
        np.concatenate([arrivals.row, np.full(len(found.time), -1, np.int64)]),
        np.concatenate([arrivals.is_sync, np.zeros(len(found.time), bool)]),
        np.concatenate([arrivals.source, np.arange(len(found.time)) + len(causes.arrival)]),
    )
    lag = found.time - found.source_time
    both = Causes(
        np.concatenate([causes.arrival, np.arange(len(found.time)) + len(arrivals.time)]),
        np.concatenate([causes.work, np.full(len(found.time), -1, np.int64)]),
        np.concatenate([causes.thread, found.source_thread]),
        np.concatenate([causes.time, found.source_time]),
        np.concatenate([causes.lag, lag]),
    )
    return _sorted(busy, both)


def _sorted(arrivals: Arrivals, causes: Causes) -> tuple[Arrivals, Causes]:
    order = np.lexsort((arrivals.time, arrivals.thread))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    fields = (getattr(arrivals, name)[order] for name in Arrivals.__dataclass_fields__)
    causes.arrival = place[causes.arrival] if len(order) else causes.arrival
    return Arrivals(*fields), causes
