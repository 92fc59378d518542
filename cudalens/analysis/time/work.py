"""What the devices did, as arrays: the one selection of device work that every analysis starts from."""

from __future__ import annotations

from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from cudalens.analysis.time.device_time import is_communication
from cudalens.frames import GPU_ACTIVITIES, Trace, is_category

Ints = NDArray[np.int64]

#: Names of the kinds by their number.
COMPUTE: Final = 0
COMMUNICATION: Final = 1
MEMORY: Final = 2
KINDS: Final = ("compute", "communication", "memory")


class Work(NamedTuple):
    """Device work in order of start: kernels, copies and sets; arrays of shape (n,), read-only.

    Attributes:
        rows: Rows of the events frame, ascending.
        start: Start, ns.
        end: End, ns.
        device: Device index; -1 where the trace does not tell.
        stream: Stream; -1 where the trace does not tell.
        kind: COMPUTE, COMMUNICATION or MEMORY, by the definitions of `cudalens.analysis.device_time`; dtype int8.
        launch: Row of the runtime call that launched it, -1 where not recorded.
    """

    rows: Ints
    start: Ints
    end: Ints
    device: Ints
    stream: Ints
    kind: NDArray[np.int8]
    launch: Ints


_known: WeakKeyDictionary[Trace, Work] = WeakKeyDictionary()


def device_work(trace: Trace) -> Work:
    """The device work of `trace`; looked up once for each Trace, which does not change."""
    if (work := _known.get(trace)) is None:
        work = _known[trace] = _look_up(trace)
    return work


def _look_up(trace: Trace) -> Work:
    events = trace.events
    is_work = is_category(events["cat"].array, GPU_ACTIVITIES) & ~events["is_instant"].to_numpy()
    rows = np.flatnonzero(is_work)
    start = events["ts"].to_numpy()[rows]
    is_kernel = is_category(events["cat"].array, ("kernel",))[rows]
    is_comm = is_communication(events["name"].array[rows])
    kind = np.where(is_kernel, np.where(is_comm, COMMUNICATION, COMPUTE), MEMORY).astype(np.int8)
    known = [_filled(events[name].array[rows]) for name in ("device", "stream", "launch")]
    work = Work(rows, start, start + events["dur"].to_numpy()[rows], known[0], known[1], kind, known[2])
    for array in work:
        array.flags.writeable = False
    return work


def _filled(values: object) -> Ints:
    filled: Ints = values.to_numpy(dtype=np.int64, na_value=-1)  # type: ignore[attr-defined]
    return filled
