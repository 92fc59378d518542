"""Rules about communication that is not overlapped, waiting for other ranks, and which rank has more work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Final, NamedTuple

import msgspec
import numpy as np

from cudalens.analysis import units
from cudalens.analysis.findings.finding import Confidence, Edit, Finding, with_work
from cudalens.analysis.findings.trace_arrays import TraceArrays
from cudalens.analysis.ranks.stragglers import reason
from cudalens.analysis.time.groups import Intervals, length, subtract
from cudalens.analysis.time.operator_shapes import input_shapes
from cudalens.analysis.time.overlap import message_bytes
from cudalens.analysis.time.work import COMMUNICATION, COMPUTE
from cudalens.frames import Ranks
from cudalens.frames.column_arrays import Floats, Ints

_SHARE: Final = 0.05

#: A slow network moves this many bytes per ns of a message, and a collective of a few bytes takes less than this.
_LEAST_RATE: Final = 5.0
_LATENCY_NS: Final = 100_000

#: A kernel that takes longer than this times what its message needs waited for other ranks.
_WAITED: Final = 2.0

#: torch's ranges around a collective of its NCCL and gloo backends, whose first input is the message.
_COLLECTIVE: Final = r"^(?:nccl|gloo|rccl|hccl|xccl):"

#: Size of an element whose type is not recorded, at most.
_LARGEST_ITEM: Final = 8

_GRADIENTS: Final = "DDP buckets (bucket_cap_mb, gradient_as_bucket_view=True), no_sync() during gradient accumulation"
_PREFETCH: Final = "FSDP prefetch (forward_prefetch, backward_prefetch, reshard_after_forward)"
_TENSOR_PARALLEL: Final = (
    "gather the next layer's inputs beside this layer's products (in tensor parallelism: asynchronous tensor "
    "parallelism with torch.distributed._symmetric_memory, or fewer GPUs for each layer)"
)
_INFERENCE: Final = (
    "in tensor parallelism each layer waits for it: fuse it with the norm that follows, use a one-shot all-reduce for "
    "small messages (custom all-reduce, torch.distributed._symmetric_memory), or fewer GPUs for each layer"
)
_BROADCAST: Final = (
    "parameters are broadcast once, at the start: measure after that; if it repeats, DDP(broadcast_buffers=False)"
)
_FSDP: Final = r"(?i)fsdp|fully_?sharded"

#: How each kind of collective is overlapped.
_OVERLAPS: Final = (
    (r"(?i)all_?reduce", _GRADIENTS),
    (r"(?i)all_?gather|reduce_?scatter", _PREFETCH),
    (r"(?i)broadcast", _BROADCAST),
    (
        r"(?i)send_?recv|all_?to_?all|dispatch|combine",
        "all_to_all with async_op=True, wait() as late as possible, and independent layers or a second half of the "
        "batch in between",
    ),
)


def communication(arrays: TraceArrays) -> Iterator[Finding]:
    """``exposed_communication`` and ``waiting_for_ranks``: collectives run while no kernel computes.

    A collective's kernel also runs while it waits for other ranks, which one rank's trace cannot show. Where the size
    of its message is recorded, it is divided: what the message needs at most on a slow network (`_LATENCY_NS` and
    `_LEAST_RATE`) is transfer; if it took longer than `_WAITED` times that, the rest is waiting.

    Gain of ``exposed_communication``: what a replay saves in which the part of the transfers beside which nothing
    computes takes no time, at most the compute time without communication and the idle time, beside which it can run.
    Gain of ``waiting_for_ranks``: what a replay saves without the waiting. Threshold of both: a 20th of the window. In
    a trace of several devices both are about the one on which it is the most.
    """
    is_comm = arrays.work.kind == COMMUNICATION
    if not is_comm.any():
        return
    rows = arrays.work.rows[is_comm]
    waited = _waited(arrays, rows)
    yield from _exposed(arrays, is_comm, rows, waited)
    yield from _waiting(arrays, rows, waited)


def _exposed(arrays: TraceArrays, is_comm: Ints, rows: Ints, waited: Floats) -> Iterator[Finding]:
    device = arrays.work.device[is_comm]
    devices = np.unique(device)
    exposed, best = np.zeros(len(rows)), _Exposed(0, 0, 0, 0, -1)
    for number in devices.tolist():
        of_rows, of_work = device == number, arrays.work.device == number
        times = arrays.work_time(is_comm & of_work)
        compute = arrays.work_time((arrays.work.kind == COMPUTE) & of_work)
        alone = length(subtract(times, compute))
        exposed[of_rows] = _exposed_ns(arrays, rows[of_rows], compute)
        transfer = min(alone, int(np.dot(exposed[of_rows], 1 - waited[of_rows])))
        idle_ns = arrays.idle_ns if len(devices) == 1 else arrays.span_ns - length(arrays.work_time(of_work))
        beside = length(subtract(compute, times)) + idle_ns
        best = max(best, _Exposed(min(transfer, beside), transfer, alone, length(times), number))
    edit = with_work(rows, 1 - exposed / np.maximum(arrays.dur[rows], 1) * (1 - waited))
    gain = _bound(arrays, best.at_most, edit)
    if arrays.is_minor(gain, _SHARE):
        return
    some = f"; at most {units.duration(best.transfer)} of it is transfer" if waited.any() else ""
    on = _on_gpu(best.device, len(devices))
    what = (
        f"{units.duration(best.alone)} of {units.duration(best.total)} of communication{on} ran while nothing "
        f"computed{' there' if on else ''}, most of it in {arrays.main_name(rows)}{some}."
    )
    yield arrays.finding(
        "exposed_communication", "exposed communication", what, gain, _overlap_advice(arrays, rows), "medium", rows=rows
    )


class _Exposed(NamedTuple):
    """Communication of one device beside which it does not compute, ns.

    Attributes:
        at_most: What overlapping can gain.
        transfer: The part of `alone` that is not waiting for other ranks.
        alone: The time in which the device does not compute.
        total: The time of all communication.
        device: Number of the device.
    """

    at_most: int
    transfer: int
    alone: int
    total: int
    device: int


def _on_gpu(device: int, num_devices: int) -> str:
    """`` of GPU 3, the most of 4,`` where a trace has several devices; else ""."""
    return f" of GPU {device}, the most of {num_devices}," if num_devices > 1 else ""


def _bound(arrays: TraceArrays, size_ns: int, edit: Edit) -> int:
    """`size_ns`, or what a replay saves if that is less and the trace has the waits of streams for each other."""
    return arrays.steady.bound(size_ns, edit) if arrays.steady.has_event_waits else size_ns


def _exposed_ns(arrays: TraceArrays, rows: Ints, compute: Intervals) -> Floats:
    """Time of each of `rows` outside of `compute`."""
    covered = np.concatenate([[0], np.cumsum(compute.end - compute.start)])

    def until(ts: Ints) -> Floats:
        k = np.searchsorted(compute.start, ts, side="right")
        inside = np.maximum(np.append(0, compute.end)[k] - ts, 0) * (k > 0)
        return np.asarray(covered[k] - inside, np.float64)

    return arrays.dur[rows] - (until(arrays.end[rows]) - until(arrays.ts[rows]))


def _waiting(arrays: TraceArrays, rows: Ints, waited: Floats) -> Iterator[Finding]:
    rows, waited = rows[waited > 0], waited[waited > 0]
    if not len(rows):
        return
    devices, of_row = np.unique(arrays.ints("device", rows), return_inverse=True)
    lost_by = np.bincount(of_row, arrays.dur[rows] * waited)
    most = int(np.argmax(lost_by))
    lost, taken = int(lost_by[most]), int(arrays.dur[rows[of_row == most]].sum())
    gain = _bound(arrays, lost, with_work(rows, 1 - waited))
    if arrays.is_minor(gain, _SHARE):
        return
    on = _on_gpu(int(devices[most]), len(devices))
    what = (
        f"{units.plural(int((of_row == most).sum()), 'communication kernel')}{on} took {units.duration(taken)}, and "
        f"their messages need at most {units.duration(taken - lost)} at {_LEAST_RATE:g} GB/s: the rest is waiting for "
        "other ranks, or a slower network."
    )
    advice = "give ranks equal work: compare when each rank of this file launches the same collective"
    if len(devices) == 1:
        advice = (
            "cudalens.load_ranks on the traces of all ranks names the rank that starts late and its operator; give "
            "ranks equal work"
        )
    yield arrays.finding("waiting_for_ranks", "waiting for other ranks", what, gain, advice, "medium", rows=rows)


def _waited(arrays: TraceArrays, rows: Ints) -> Floats:
    """The share of each communication kernel in which it waited for other ranks; 0 where that is not known."""
    size = message_bytes(arrays.events.iloc[rows])
    # The size of each kernel's message by the inputs of the collective's range around its launch; -1 if unknown.
    named, shapes = arrays.is_named(_COLLECTIVE), arrays.events["shapes"].array
    found = np.full(len(rows), -1, np.int64)
    for k, launch in enumerate(arrays.ints("launch", rows).tolist()):
        row = launch
        while row >= 0 and not named[row]:
            row = int(arrays.parent[row])
        inputs = input_shapes(shapes[row]) if row >= 0 else None
        if inputs:
            found[k] = _LARGEST_ITEM * sum(map(prod, inputs))
    size = np.where(size >= 0, size, found)
    most, taken = _LATENCY_NS + size / _LEAST_RATE, arrays.dur[rows]
    is_long = (size >= 0) & (taken > _WAITED * most)
    return np.where(is_long, 1 - most / np.maximum(taken, 1), 0.0)


def _overlap_advice(arrays: TraceArrays, rows: Ints) -> str:
    """How to overlap the communication that takes the longest, by the names of its kernels."""
    taken = {how: int(arrays.dur[rows[arrays.is_named(pattern)[rows]]].sum()) for pattern, how in _OVERLAPS}
    how = max(taken, key=lambda one: taken[one])
    if how == _BROADCAST and taken[how]:
        return f"{_BROADCAST}; cudalens.load_ranks names the rank that the others wait for"
    if arrays.is_inference and (not taken[how] or how == _GRADIENTS):
        return _INFERENCE
    if not taken[how]:
        how = "start it earlier, on a stream of its own, and wait for it as late as possible"
    elif how == _PREFETCH and not arrays.is_named(_FSDP).any():
        how = _TENSOR_PARALLEL
    return f"overlap it: {how}; cudalens.load_ranks separates waiting for slow ranks from transfers"


_UNEVEN: Final = 0.10
_ADVICE: Final = {
    "data": "give ranks equal work: batches with equal numbers of tokens, embedding tables sharded by load",
    "clock": "check the power and temperature limits of the GPU of rank {rank}",
    "host": "check what rank {rank} does on its host: data loading, logging, checkpoints, other processes",
    "all operators": "check the hardware of rank {rank}: clocks, power limits, other processes on the same device",
    "operator": "check what rank {rank} does in {op}: its inputs, its code, other processes on the same device",
}


def uneven(ranks: Ranks) -> Iterator[Finding]:
    """``load_imbalance``: one rank computes longer than the others.

    Cost: the longest compute time of a rank (union of its compute kernels) minus the mean of all, at most what the
    other ranks waited for in collectives (their mean), where these are recorded. Threshold: a tenth of the mean.
    """
    known = ranks.frames["summary"].dropna(subset="comp_ns")
    compute = dict(zip(known["rank"].tolist(), known["comp_ns"].tolist(), strict=True))
    mean = sum(compute.values()) / max(len(compute), 1)
    if len(compute) < 2 or not mean:
        return
    most, least = max(compute, key=compute.__getitem__), min(compute, key=compute.__getitem__)
    # How long the other ranks waited in collectives on average, ns; infinity where no collective has a counterpart.
    collectives = ranks.analysis.collectives
    others = collectives[(collectives["rank"] != most) & collectives["wait_ns"].notna()]
    rank_waited = float(others["wait_ns"].sum()) / (len(ranks) - 1) if len(others) else float("inf")
    cost = int(min(compute[most] - mean, rank_waited))
    if cost < _UNEVEN * mean:
        return
    what = (
        f"Rank {most} computed for {units.duration(compute[most])}, rank {least} for {units.duration(compute[least])}; "
        f"the mean of the {len(compute)} ranks is {units.duration(mean)}."
    )
    advice = "give ranks equal work: batches with equal numbers of tokens, embedding tables sharded by load"
    yield _finding(ranks, most, "load_imbalance", "uneven load", what, cost, advice, "high")


def straggling(ranks: Ranks) -> Iterator[Finding]:
    """``straggler``: a rank that makes the job slow, as `cudalens.analysis.ranks.stragglers` finds them.

    Cost: the job's time less its time, replayed, if the rank took as long as the ranks of the same program.
    """
    found = ranks.analysis.stragglers
    for one in found.found:
        what = f"{reason(one)[:1].upper()}{reason(one)[1:]}: {found.loss(one.loss_ns)}."
        cost = int(one.loss_ns * one.num_steps)
        advice = _ADVICE[one.cause].format(rank=one.rank, op=one.op)
        yield _finding(ranks, one.rank, "straggler", f"waiting for rank {one.rank}", what, cost, advice, "medium")


def _finding(
    ranks: Ranks, rank: int, rule: str, title: str, what: str, cost_ns: int, advice: str, confidence: Confidence
) -> Finding:
    summary = ranks.frames["summary"]
    wall = int(summary.loc[summary["rank"] == rank, "wall_ns"].iloc[0])
    share = 100 * cost_ns / wall if wall else None
    is_modelled = ranks.infos[rank].is_simulated
    return Finding(rule, title, what, cost_ns, share, (), None, advice, confidence, is_modelled, alone_pct=share)


def each(ranks: Ranks) -> Iterator[Finding]:
    """The findings of every rank, in order of rank."""
    frame = ranks.frames["findings"]
    for rank, text in zip(frame["rank"].tolist(), frame["json"].tolist(), strict=True):
        yield replace(msgspec.json.decode(text, type=Finding), rank=rank)
