"""Which work was told to wait for an event: by the calls before its launch."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis.time.groups import Bools, Ints, integers
from cudalens.analysis.time.idle_host import Host
from cudalens.analysis.time.work import Work
from cudalens.frames import Trace, is_category

_WAIT: Final = re.compile(r"^(?:cuda|cu|hip)StreamWaitEvent(?:_\w+)?$")


def is_made_to_wait(trace: Trace, work: Work, host: Host, pieces: Ints) -> Bools:
    """Whether the stream of each piece was told to wait for an event since the launch before it.

    That is: whether its launching thread called ``…StreamWaitEvent`` between that thread's last launch on the same
    stream and this one. Where the trace has a ``Stream Wait Event`` row for the call, it tells which stream waited;
    else any may have.

    Args:
        trace: The Trace.
        work: All its device work.
        host: Its host.
        pieces: Positions in `work`, shape (m,).
    """
    by_name = np.array([_WAIT.match(text) is not None for text in host.name.categories.tolist()] + [False])
    calls = np.flatnonzero(by_name[host.name.codes] & host.is_call)
    call = work.launch[pieces]
    if not len(calls) or not len(pieces):
        return np.zeros(len(pieces), bool)
    device, stream = _waiting_streams(trace, host, calls)
    launched = np.flatnonzero(work.launch >= 0)
    keys = _lanes_of(
        np.concatenate([host.thread[work.launch[launched]], host.thread[calls], host.thread[call]]),
        np.concatenate([work.device[launched], device, work.device[pieces]]),
        np.concatenate([work.stream[launched], stream, work.stream[pieces]]),
    )
    of_work, of_calls, asked = np.split(keys, [len(launched), len(launched) + len(calls)])
    told = _last_before(of_calls, calls, asked, call)
    somewhere = stream < 0
    anonymous = _last_before(host.thread[calls[somewhere]], calls[somewhere], host.thread[call], call)
    before = _last_before(of_work, work.launch[launched], asked, call)
    return (call >= 0) & (np.maximum(told, anonymous) > before)


def _waiting_streams(trace: Trace, host: Host, calls: Ints) -> tuple[Ints, Ints]:
    """Device and stream that each call made to wait, by the sync rows; -1 where none tells."""
    events = trace.events
    device, stream = (np.full(len(host.ts) + 1, -1, np.int64) for _ in range(2))
    launch = integers(events["launch"])
    marks = np.flatnonzero(is_category(events["cat"].array, ("cuda_sync",)) & (launch >= 0))
    device[launch[marks]], stream[launch[marks]] = integers(events["device"])[marks], integers(events["stream"])[marks]
    return device[calls], stream[calls]


def _lanes_of(thread: Ints, device: Ints, stream: Ints) -> Ints:
    frame = pd.DataFrame({"thread": thread, "device": device, "stream": stream})
    numbers: Ints = frame.groupby(["thread", "device", "stream"], sort=False).ngroup().to_numpy(np.int64)
    return numbers


def _last_before(lane: Ints, row: Ints, asked_lane: Ints, asked_row: Ints) -> Ints:
    """The last of the rows of each asked lane that stands before the asked row, -1 for none."""
    stride = max(int(row.max(initial=0)), int(asked_row.max(initial=0))) + 1
    keys = np.sort(lane * stride + row)
    place = np.searchsorted(keys, asked_lane * stride + np.maximum(asked_row, 0), side="left") - 1
    found = keys[np.maximum(place, 0)] if len(keys) else np.full(len(asked_lane), -1)
    return np.where((place >= 0) & (found // stride == asked_lane), found % stride, -1)
