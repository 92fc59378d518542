"""Launches: the duration of each call, the delay of its work, and the queue in front of it."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from cudalens.analysis.cached import ranked
from cudalens.analysis.time.groups import measured, numbered, quantiles, share, sums
from cudalens.analysis.time.work import KINDS, Work, device_work
from cudalens.frames import Trace, categorical, nullable
from cudalens.frames.column_arrays import Ints, integers, map_texts, masked, run_ends, run_starts


class Queues(NamedTuple):
    """All pieces of device work as entries of their streams' queues; arrays of shape (n,), in order of `Work`.

    Attributes:
        lane: Number of the stream (of one device), dense.
        issued: The events row at which it enters the queue: its launch; its own if no earlier launch is recorded.
        ended: The first events row that starts no earlier than its end.
        ts: Starts of all events, ns, shape (number of events,).
        keys: A row per lane with its ``device`` and ``stream``, -1 if unknown.
    """

    lane: Ints
    issued: Ints
    ended: Ints
    ts: Ints
    keys: pd.DataFrame


def queues(trace: Trace, work: Work) -> Queues:
    """Return the queues of the streams of `work`, which is all the device work of `trace`.

    Rows of events are in order of start, so their numbers order the events of host and devices.
    """
    ts = trace.events["ts"].to_numpy()
    lane, keys = numbered({"device": work.device, "stream": work.stream})
    issued = np.where(work.launch >= 0, np.minimum(work.launch, work.rows), work.rows)
    # Work of zero duration ends after the row that issued it.
    ended = np.maximum(np.searchsorted(ts, work.end), issued + 1)
    return Queues(lane, issued, ended, ts, keys)


def lengths_at(queue: Queues, lane: Ints, rows: Ints) -> Ints:
    """Work that was issued to a lane before an events row and has not ended when that row starts.

    Args:
        queue: The queues.
        lane: Lanes, shape (m,).
        rows: Rows of events, shape (m,).

    Returns:
        Pieces of work, shape (m,).
    """
    stride = len(queue.ts) + 2
    issued = np.sort(queue.lane * stride + queue.issued)
    ended = np.sort(queue.lane * stride + queue.ended)
    at = lane * stride + rows
    return np.searchsorted(issued, at, side="left") - np.searchsorted(ended, at, side="right")


@ranked
def queue_lengths(trace: Trace) -> pd.DataFrame:
    """Return the number of pieces of work in each stream's queue, at each time at which it changes.

    A piece of work (kernel, copy or set) is in the queue of its stream from the start of the call that launched it
    (if none is recorded: from its own start) to its own end. A graph's launch adds all its work at once.

    Args:
        trace: Any Trace, or Ranks (then with a first column ``rank``).

    Returns:
        A row per stream and time, in order of ``device``, ``stream`` (Int64), ``ts`` (int64 ns): ``queue_length``
        (int64) from then on. Empty without device work.
    """
    work = device_work(trace)
    queue = queues(trace, work)
    lane = np.concatenate([queue.lane, queue.lane])
    ts = np.concatenate([queue.ts[queue.issued], work.end])
    change = np.repeat(np.array([1, -1], np.int64), len(work.rows))
    order = np.lexsort((ts, lane))
    lane, ts, length = lane[order], ts[order], np.cumsum(change[order])  # each lane ends at 0
    is_last = run_ends(lane, ts)
    lane, ts, length = lane[is_last], ts[is_last], length[is_last]
    changed = run_starts(length, lane)
    ids = {name: masked(queue.keys[name].to_numpy()[lane[changed]]) for name in ("device", "stream")}
    return pd.DataFrame({**ids, "ts": ts[changed], "queue_length": length[changed]})


#: A call longer than this is an outlier; HolisticTraceAnalysis' ``runtime_cutoff``, 50 µs.
CALL_CUTOFF_NS: Final = 50_000

#: A delay longer than this is an outlier; HolisticTraceAnalysis' ``launch_delay_cutoff``, 100 µs.
DELAY_CUTOFF_NS: Final = 100_000

#: From this length on a queue counts as full. CUDA holds 1,024 pending launches (not documented in the programming
#: guide); clocks of host and device differ, so a few entries may seem to have ended already.
FULL_QUEUE: Final = 1_000


class _Launches(NamedTuple):
    """One entry per launching call, in order of its row; arrays of shape (m,).

    Attributes:
        calls: Its row of events.
        first: Position in the device work of the first piece.
        group: The launch of each piece of launched work, shape (number of pieces,).
        pieces: Positions of these pieces in the device work, shape (number of pieces,).
    """

    calls: Ints
    first: Ints
    group: Ints
    pieces: Ints


@ranked
def launch_statistics(
    trace: Trace,
    *,
    step: int | None = None,
    call_cutoff_ns: int = CALL_CUTOFF_NS,
    delay_cutoff_ns: int = DELAY_CUTOFF_NS,
    full_queue: int = FULL_QUEUE,
) -> pd.DataFrame:
    """Return every launch of device work: a runtime or driver call to which at least one kernel, copy or set belongs.

    Args:
        trace: Any Trace, or Ranks (then with a first column ``rank``).
        step: Only launches of this profiler step. (Queues are those of the whole trace.)
        call_cutoff_ns: A longer call is an outlier.
        delay_cutoff_ns: Work that starts later than this on a free stream is an outlier.
        full_queue: From this queue length on a queue counts as full.

    Returns:
        A row per launching call, in order of its start; empty if none is recorded. Columns:

        - ``launch``: row of the call in ``trace.events``. ``work``: row of the first work that it started. (Int64)
        - ``call``, ``work_name``: their names. ``kind``: compute, communication or memory. (category)
        - ``device``, ``stream`` of that work; ``pid``, ``tid``, ``step`` of the call. (Int64)
        - ``ts``: start of the call, ns. ``call_ns``: its length. (int64)
        - ``num_work``: pieces of work that it launched; more than 1 for a graph. ``work_ns``: sum of their durations.
        - ``is_graph``: it launched a graph, by its name.
        - ``delay_ns``: start of the first work minus the *end* of the call; negative if the device started before the
          call returned. ``start_ns``: start of the first work minus the *start* of the call; negative only if clocks
          differ. (int64)
        - ``queue_length``: pieces of work issued to the same stream before this call that had not ended when it
          started (including running work, and all the work of a graph). (int64)
        - ``latency_ns``: ``start_ns`` if that queue was empty; else ``<NA>``. (It includes waits for events of other
          streams.)
        - ``is_short``: ``work_ns < call_ns``: launching it took the host longer than the work took the device.
        - ``is_slow_call``: ``call_ns > call_cutoff_ns``. ``is_late``: ``latency_ns > delay_cutoff_ns``.
          ``is_outlier``: either.
        - ``is_blocked``: the host waited for space in the queue: ``queue_length >= full_queue``, and work of that
          stream ended during the call. (A graph takes one entry of the queue: with graphs, launches are counted.)

    HolisticTraceAnalysis' launch delay is ``delay_ns`` with negative values set to 0. Its delay outliers also count
    work that waited for earlier work of its stream, as in every efficient program; these do not.
    """
    work, events = device_work(trace), trace.events
    launches = _found(work)
    queue = queues(trace, work)
    if step is not None:
        keep = integers(events["step"])[launches.calls] == step
        number = np.cumsum(keep) - 1
        mine = keep[launches.group]
        launches = _Launches(
            launches.calls[keep], launches.first[keep], number[launches.group[mine]], launches.pieces[mine]
        )
    return _Measured(trace, work, launches, queue).frame(call_cutoff_ns, delay_cutoff_ns, full_queue)


def _found(work: Work) -> _Launches:
    pieces = np.flatnonzero(work.launch >= 0)
    calls, first, group = np.unique(work.launch[pieces], return_index=True, return_inverse=True)
    return _Launches(calls, pieces[first], group, pieces)


class _Measured:
    def __init__(self, trace: Trace, work: Work, launches: _Launches, queue: Queues) -> None:
        self._events, self._work, self._launches, self._queue = trace.events, work, launches, queue
        self._start = queue.ts[launches.calls]
        self._length = self._events["dur"].to_numpy()[launches.calls]
        self._lane = queue.lane[launches.first]
        self._pending = lengths_at(queue, self._lane, launches.calls)

    def frame(self, call_cutoff_ns: int, delay_cutoff_ns: int, full_queue: int) -> pd.DataFrame:
        work, first = self._work, self._launches.first
        since_start = work.start[first] - self._start
        durations = (work.end - work.start)[self._launches.pieces]
        work_ns = sums(durations, self._launches.group, len(first))
        is_free = self._pending == 0
        is_slow, is_late = self._length > call_cutoff_ns, is_free & (since_start > delay_cutoff_ns)
        # True for launches with a full queue during which work of their stream ended.
        blocked = self._entries() >= full_queue
        for at in np.unique(self._lane[blocked]):
            ends = np.sort(self._work.end[self._queue.lane == at])
            rows = np.flatnonzero(blocked & (self._lane == at))
            until = self._start[rows] + self._length[rows]
            blocked[rows] = np.searchsorted(ends, until, "right") > np.searchsorted(ends, self._start[rows], "right")
        return pd.DataFrame(
            {
                **self._identity(),
                "ts": self._start,
                "call_ns": self._length,
                "num_work": np.bincount(self._launches.group, minlength=len(first)),
                "work_ns": work_ns,
                "is_graph": map_texts(
                    self._events["name"].array[self._launches.calls], lambda name: "GraphLaunch" in name, False
                ),
                "delay_ns": since_start - self._length,
                "start_ns": since_start,
                "queue_length": self._pending,
                "latency_ns": nullable(np.where(is_free, since_start, 0), ~is_free),
                "is_short": work_ns < self._length,
                "is_slow_call": is_slow,
                "is_late": is_late,
                "is_outlier": is_slow | is_late,
                "is_blocked": blocked,
            }
        )

    def _identity(self) -> dict[str, Any]:
        events, work, launches = self._events, self._work, self._launches
        rows, calls = work.rows[launches.first], launches.calls
        names = events["name"].array
        host = {name: events[name].array.take(calls) for name in ("pid", "tid", "step")}
        return {
            "launch": masked(calls),
            "work": masked(rows),
            "call": names.take(calls).remove_unused_categories(),
            "work_name": names.take(rows).remove_unused_categories(),
            "kind": categorical(work.kind[launches.first], list(KINDS)),
            "device": masked(work.device[launches.first]),
            "stream": masked(work.stream[launches.first]),
            **host,
        }

    def _entries(self) -> Ints:
        """Launches in front of each launch; a graph is one launch."""
        if len(self._launches.pieces) == len(self._launches.first):
            return self._pending
        last = self._launches.calls + 1
        np.maximum.at(last, self._launches.group, self._queue.ended[self._launches.pieces])
        entries = self._queue._replace(lane=self._lane, issued=self._launches.calls, ended=last)
        return lengths_at(entries, self._lane, self._launches.calls)


@ranked
def launch_summary(
    trace: Trace,
    *,
    step: int | None = None,
    call_cutoff_ns: int = CALL_CUTOFF_NS,
    delay_cutoff_ns: int = DELAY_CUTOFF_NS,
    full_queue: int = FULL_QUEUE,
) -> pd.DataFrame:
    """`launch_statistics` of each stream in a row.

    Args:
        trace: Any Trace, or Ranks (then with a first column ``rank``).
        step: Only launches of this profiler step.
        call_cutoff_ns: As for `launch_statistics`.
        delay_cutoff_ns: As for `launch_statistics`.
        full_queue: As for `launch_statistics`.

    Returns:
        A row per ``device`` and ``stream`` (Int64), in their order; empty if no launch is recorded. int64:
        ``num_launches``, ``num_work``, ``num_graph_launches``; ``call_ns``, sum of the calls' lengths; ``work_ns``, sum
        of their work's durations; ``num_short``, ``num_outliers``, ``num_blocked``; ``blocked_ns``, sum of the blocked
        calls' lengths; ``max_queue_length``. Float64: ``mean_call_ns``; ``median_delay_ns``, ``p95_delay_ns``; of the
        launches to a free stream ``median_latency_ns``, ``p95_latency_ns`` (``<NA>`` for none);
        ``mean_queue_length`` at launches; ``free_pct``, launches to a free stream; ``short_pct``.
    """
    cutoffs = {"call_cutoff_ns": call_cutoff_ns, "delay_cutoff_ns": delay_cutoff_ns, "full_queue": full_queue}
    found = launch_statistics(trace, step=step, **cutoffs)
    lane, keys = numbered({name: integers(found[name]) for name in ("device", "stream")})
    n = len(keys)
    count = np.bincount(lane, minlength=n)
    total = {name: sums(found[name].to_numpy().astype(np.int64), lane, n) for name in _SUMMED}
    longest = np.zeros(n, np.int64)
    np.maximum.at(longest, lane, found["queue_length"].to_numpy())
    free = np.flatnonzero(found["latency_ns"].notna().to_numpy())
    delay = quantiles(found["delay_ns"].to_numpy(), lane, n, (0.5, 0.95))
    latency = quantiles(found["start_ns"].to_numpy()[free], lane[free], n, (0.5, 0.95))
    return pd.DataFrame(
        {
            **{name: masked(keys[name].to_numpy()) for name in keys},
            "num_launches": count,
            "num_work": total["num_work"],
            "num_graph_launches": total["is_graph"],
            "call_ns": total["call_ns"],
            "work_ns": total["work_ns"],
            "num_short": total["is_short"],
            "num_outliers": total["is_outlier"],
            "num_blocked": total["is_blocked"],
            "blocked_ns": sums(np.where(found["is_blocked"], found["call_ns"], 0), lane, n),
            "max_queue_length": longest,
            "mean_call_ns": measured(total["call_ns"] / count),
            "median_delay_ns": measured(delay[0]),
            "p95_delay_ns": measured(delay[1]),
            "median_latency_ns": measured(latency[0]),
            "p95_latency_ns": measured(latency[1]),
            "mean_queue_length": measured(total["queue_length"] / count),
            "free_pct": share(np.bincount(lane[free], minlength=n), count),
            "short_pct": share(total["is_short"], count),
        }
    )


_SUMMED: Final = ("num_work", "is_graph", "call_ns", "work_ns", "is_short", "is_outlier", "is_blocked", "queue_length")
