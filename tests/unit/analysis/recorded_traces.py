"""Some recorded traces, of every kind; opened once for all tests of the process."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import cudalens
from cudalens.frames import Trace, build_events
from cudalens.frames.syncs import LiveProgram, build_syncs

RECORDED = Path(__file__).parents[4] / "shared" / "recorded"
needs_recorded = pytest.mark.skipif(not RECORDED.is_dir(), reason=f"no recorded traces at {RECORDED}")

#: Columns that `build_events` computes.
DERIVED = ("parent", "depth", "self_dur", "launch", "forward", "step")

TRACES = (
    "hta/critical_path__simple_add.json.gz",
    "hta/critical_path__cuda_event_sync_multi_stream.json.gz",
    "hta/cpu_only_rank-34.json.gz",
    "hta/nccl_parser_config__nccl_data.json.gz",
    "hta/amd_trace__mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    "param_dlrm8/dlrm_worker1_step_12.1694128201556.pt.trace.json",
    "tracelens/h100__gaunernst_bert-small-uncased__1016001.json.gz",
    "tracelens/inference__sglang_decode.json.gz",
    "tracelens/mi210__gpu_only_trace.json.gz",
)


@cache
def opened(file):
    return cudalens.load(RECORDED / file)


def dilated(trace, rows, factor=2):
    """The recording with `factor` times the time in each of `rows`, of which no two overlap."""
    events = trace.events.drop(columns=[name for name in DERIVED if name in trace.events])
    ts, end = events["ts"].to_numpy(), events["ts"].to_numpy() + events["dur"].to_numpy()
    start, stop = ts[rows], end[rows]
    longer = np.concatenate([[0], np.cumsum(stop - start)]) * (factor - 1)

    def later(at):
        k = np.searchsorted(start, at, "right") - 1
        inside = np.where(k >= 0, np.minimum(at, stop[k]) - start[k], 0)
        return at + (longer[np.maximum(k, 0)] + inside * (factor - 1)).astype(np.int64)

    columns = {column: events[column].array for column in events.columns}
    columns |= {"ts": later(ts), "dur": later(end) - later(ts)}
    frames = {"events": build_events(columns), "stacks": trace.stacks}
    info = trace.info.replace(ended_ns=trace.info.ended_ns + int(longer[-1]))
    return Trace(info, **(frames | build_syncs(frames, LiveProgram())))


def kernels_of(trace, name, shapes):
    """Rows of the kernels that calls of an operator with these shapes launched."""
    events = trace.events
    named = np.flatnonzero((events["name"] == name) & (events["shapes"] == shapes))
    parents = events["parent"].to_numpy(np.int64, na_value=-1)
    launch = events["launch"].to_numpy(np.int64, na_value=-1)
    is_kernel = (events["cat"] == "kernel").to_numpy() & (launch >= 0)
    return np.flatnonzero(is_kernel & np.isin(np.where(launch >= 0, parents[launch], -1), named))
