"""Edit recorded traces: lengthen a stretch of the run, and name what the host did in it."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
from recorded_traces import RECORDED, opened

from cudalens.analysis.event_arrays import EventArrays
from cudalens.analysis.time.groups import union
from cudalens.frames import Trace, build_events
from cudalens.frames.syncs import LiveProgram, build_syncs

_DERIVED = ("parent", "depth", "self_dur", "launch", "forward", "step")


def is_there() -> bool:
    """Whether there are recorded traces."""
    return RECORDED.is_dir()


@cache
def quiet_moments(file: str) -> np.ndarray:
    """Times, ns, at which no device works, all is launched that was called for, and no operator runs."""
    arrays = EventArrays(opened(file))
    work = arrays.work
    known = work.launch >= 0
    pending = (np.append(arrays.ts[work.launch[known]], work.start), np.append(work.end[known], work.end))
    is_call = arrays.is_in("cpu_op", "cuda_runtime", "cuda_driver", "hip_runtime", "user_annotation")
    is_call &= ~arrays.is_named("^ProfilerStep")
    spans = union(np.append(pending[0], arrays.ts[is_call]), np.append(pending[1], arrays.end[is_call]))
    middle = (spans.end[:-1] + spans.start[1:]) // 2
    return middle[(middle > work.start[0]) & (middle < work.end.max())]


def lengthened(file: str, number: int, ns: int, name: str | None, cat: str = "user_annotation") -> Trace:
    """The recording with `ns` of nothing at `number` quiet moments, in a host row `name` if there is one."""
    trace = opened(file)
    moments = quiet_moments(file)
    chosen = moments[np.linspace(0, len(moments) - 1, number + 2).astype(int)[1:-1]]
    events = trace.events.drop(columns=[name for name in _DERIVED if name in trace.events])
    ts, end = events["ts"].to_numpy(), events["ts"].to_numpy() + events["dur"].to_numpy()
    begin, stop = (at + ns * np.searchsorted(chosen, at, side) for at, side in ((ts, "left"), (end, "left")))
    events = events.assign(ts=begin, dur=stop - begin)
    if name is not None:
        events = _with_rows(events, chosen + ns * np.arange(number), ns, name, cat, _launching(trace, chosen))
    columns = {column: events[column].array for column in events.columns}
    columns |= {column: events[column].to_numpy(np.int64) for column in ("ts", "dur")}
    built = build_events(columns)
    info = trace.info.replace(ended_ns=trace.info.ended_ns + number * ns)
    frames = {"events": built, "stacks": trace.stacks}
    return Trace(info, **(frames | build_syncs(frames, LiveProgram())))


def _launching(trace: Trace, at: np.ndarray) -> pd.DataFrame:
    """Process and thread of the first launch after each time."""
    calls = trace.events.loc[np.unique(trace.events["launch"].dropna().astype(int))]
    return calls.iloc[np.searchsorted(calls["ts"].to_numpy(), at)][["pid", "tid"]].reset_index(drop=True)


def _with_rows(
    events: pd.DataFrame, at: np.ndarray, ns: int, name: str, cat: str, threads: pd.DataFrame
) -> pd.DataFrame:
    more = pd.DataFrame({"ts": at, "dur": ns, "name": name, "cat": cat, **threads})
    more["is_instant"] = False
    both = pd.concat([events.astype({"name": object, "cat": object}), more], ignore_index=True)
    order = np.lexsort((-both["dur"].to_numpy(), both["ts"].to_numpy()))
    both = both.iloc[order].reset_index(drop=True)
    for column in events.columns:
        kind = events[column].dtype
        both[column] = both[column].astype("category" if isinstance(kind, pd.CategoricalDtype) else kind)
    return both
