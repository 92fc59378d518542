"""Finds work whose stream waits for an event, by the calls before its launch."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from cudalens.analysis.time.idle_host import Host
from cudalens.analysis.time.work import Work
from cudalens.frames import Trace, is_category
from cudalens.frames.column_arrays import Bools, Ints, combined, integers, map_texts

_WAIT: Final = re.compile(r"^(?:cuda|cu|hip)StreamWaitEvent(?:_\w+)?$")


def is_made_to_wait(trace: Trace, work: Work, host: Host, pieces: Ints) -> Bools:
    """Whether the stream of each piece has to wait for an event since the previous launch on it.

    That is: whether its launching thread called ``…StreamWaitEvent`` between that thread's previous launch on the same
    stream and this one. The stream is that of the call's ``Stream Wait Event`` row; without such a row, any stream.

    Args:
        trace: The Trace.
        work: All its device work.
        host: Its host.
        pieces: Positions in `work`, shape (m,).
    """
    is_wait = map_texts(host.name, lambda text: _WAIT.match(text) is not None, False)
    calls = np.flatnonzero(is_wait & host.is_call)
    call = work.launch[pieces]
    if not len(calls) or not len(pieces):
        return np.zeros(len(pieces), bool)
    device, stream = _waiting_streams(trace, host, calls)
    launched = np.flatnonzero(work.launch >= 0)
    keys = combined(
        np.concatenate([host.thread[work.launch[launched]], host.thread[calls], host.thread[call]]),
        np.concatenate([work.device[launched], device, work.device[pieces]]),
        np.concatenate([work.stream[launched], stream, work.stream[pieces]]),
    )
    of_work, of_calls, of_pieces = np.split(keys, [len(launched), len(launched) + len(calls)])
    on_stream = _last_before(of_calls, calls, of_pieces, call)
    unknown = calls[stream < 0]
    on_any = _last_before(host.thread[unknown], unknown, host.thread[call], call)
    before = _last_before(of_work, work.launch[launched], of_pieces, call)
    return (call >= 0) & (np.maximum(on_stream, on_any) > before)


def _waiting_streams(trace: Trace, host: Host, calls: Ints) -> tuple[Ints, Ints]:
    """Device and stream that each call made to wait, by the sync rows; -1 if unknown."""
    events = trace.events
    device, stream = (np.full(len(host.ts) + 1, -1, np.int64) for _ in range(2))
    launch = integers(events["launch"])
    marks = np.flatnonzero(is_category(events["cat"].array, ("cuda_sync",)) & (launch >= 0))
    device[launch[marks]], stream[launch[marks]] = integers(events["device"])[marks], integers(events["stream"])[marks]
    return device[calls], stream[calls]


def _last_before(lane: Ints, row: Ints, asked_lane: Ints, asked_row: Ints) -> Ints:
    """The last row of each asked lane before the asked row, -1 for none."""
    stride = max(int(row.max(initial=0)), int(asked_row.max(initial=0))) + 1
    keys = np.sort(lane * stride + row)
    place = np.searchsorted(keys, asked_lane * stride + np.maximum(asked_row, 0), side="left") - 1
    found = keys[np.maximum(place, 0)] if len(keys) else np.full(len(asked_lane), -1)
    return np.where((place >= 0) & (found // stride == asked_lane), found % stride, -1)
