"""The queue of each stream: work that is issued and has not ended."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from cudalens.analysis.ranked import ranked
from cudalens.analysis.time.groups import numbered
from cudalens.analysis.time.work import Work, device_work
from cudalens.frames import Trace
from cudalens.frames.column_arrays import Ints, masked, run_ends, run_starts


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
    """The queues of the streams of `work`, which is all the device work of `trace`.

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
    lengths: Ints = np.searchsorted(issued, at, side="left") - np.searchsorted(ended, at, side="right")
    return lengths


@ranked
def queue_lengths(trace: Trace) -> pd.DataFrame:
    """The number of pieces of work in each stream's queue, at each time at which it changes.

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
