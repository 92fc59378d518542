"""The work of one rank that its peers are compared by: that of the device, or of the host where gloo communicates.

A job on CPUs has no kernels. Its compute is the outermost operators of the main thread, its communication the ranges
``gloo:all_reduce`` of gloo's threads, which last from the arrival of the rank to the end, as kernels of NCCL do.
"""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd

from cudalens.analysis.ancestors import nearest_of
from cudalens.analysis.cached import once_per_trace
from cudalens.analysis.summary import step_rows
from cudalens.analysis.time.work import COMMUNICATION, COMPUTE, Work, device_work
from cudalens.frames import Trace, is_category
from cudalens.frames.column_arrays import Bools, Ints, integers, map_texts

_MOST = 1 << 40


def num_elements(shapes: str) -> int:
    """Elements of all inputs in ``[[2, 3], [], [4]]``: 10; 0 for what is not such a list, at most 2^40."""
    try:
        return min(_count(msgspec.json.decode(shapes)), _MOST)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        return 0


def _count(value: Any) -> int:
    if not isinstance(value, list) or not value:
        return 0
    if all(isinstance(size, int) for size in value):
        return max(math.prod(value), 0)
    return sum(map(_count, value))


#: Ranges that a backend on the host records around a collective.
HOST_RANGES: Final = ("gloo:", "mpi:", "ucc:")
#: Operators that enqueue a collective, and wrappers whose time is that of what they call or wait for.
_LAUNCH: Final = "c10d::"
_WRAPPERS: Final = (_LAUNCH, "autograd::", "torch.", "torch::distributed", "record_param_comms")


@once_per_trace
def rank_work(trace: Trace) -> Work:
    """Return the device work of `trace`; without any, the work of the host, with the thread as stream."""
    work = device_work(trace)
    return work if len(work.rows) else _host_work(trace)


def is_on_host(trace: Trace) -> bool:
    """Return whether `rank_work` is work of the host."""
    return not len(device_work(trace).rows)


def _host_work(trace: Trace) -> Work:
    events = trace.events
    comm = np.flatnonzero(_starts(events, HOST_RANGES) & is_category(events["cat"].array, ("user_annotation",)))
    compute = _outermost_operators(trace) if len(comm) else comm
    rows = np.concatenate([comm, compute])
    kind = np.repeat(np.array([COMMUNICATION, COMPUTE], np.int8), [len(comm), len(compute)])
    launch = np.concatenate([_launches(events, comm), compute])
    order = np.argsort(rows, kind="stable")
    rows, kind, launch = rows[order], kind[order], launch[order]
    start = events["ts"].to_numpy()[rows]
    device, stream = np.full(len(rows), -1), integers(events["tid"].array[rows])
    work = Work(rows, start, start + events["dur"].to_numpy()[rows], device, stream, kind, launch)
    for array in work:
        array.flags.writeable = False
    return work


def _starts(events: pd.DataFrame, prefixes: tuple[str, ...]) -> Bools:
    found: Bools = map_texts(events["name"].array, lambda name: name.startswith(prefixes), False)
    found &= ~events["is_instant"].to_numpy(bool)
    return found


def _outermost_operators(trace: Trace) -> Ints:
    """Rows of the operators on the main thread that no other operator called."""
    events = trace.events
    is_op = map_texts(events["name"].array, lambda name: "::" in name and not name.startswith(_WRAPPERS), False)
    is_op = is_op & is_category(events["cat"].array, ("cpu_op",)) & ~events["is_instant"].to_numpy(bool)
    parent, thread = integers(events["parent"]), integers(events["tid"])
    rows = np.flatnonzero(is_op)
    rows = rows[nearest_of(parent[rows], is_op, parent) < 0]
    steps = step_rows(trace)
    threads = thread[steps] if len(steps) else thread[rows]
    numbers, counts = np.unique(threads, return_counts=True)
    main = int(numbers[np.argmax(counts)]) if len(numbers) else -1
    return rows[thread[rows] == main]


def _launches(events: pd.DataFrame, comm: Ints) -> Ints:
    """Return the operators that enqueued these ranges, in order; -1 for all if there are not as many."""
    rows = np.flatnonzero(_starts(events, (_LAUNCH,)) & is_category(events["cat"].array, ("cpu_op",)))
    return rows if len(rows) == len(comm) else np.full(len(comm), -1)


def only_group(trace: Trace) -> tuple[str, str] | None:
    """Name and ranks of the only process group of a job, as text; None if there are several or none is recorded."""
    try:
        around: Any = msgspec.json.decode(trace.info.extra.get("distributedInfo", "null"))
        (group,) = around["pg_config"]
        ranks = msgspec.convert(group["ranks"], list[int])
        return str(group["pg_name"]), str(ranks)
    except (msgspec.MsgspecError, TypeError, KeyError, ValueError, RecursionError):
        return None
