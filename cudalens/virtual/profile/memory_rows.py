"""Build rows of the memory frame: modelled actions of the devices, recorded actions of the host."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cudalens.frames import RawRows
from cudalens.virtual.profile import event_rows
from cudalens.virtual.profile.host_positions import Segment
from cudalens.virtual.profile.host_tree import HostTree
from cudalens.virtual.profile.pruning import Pruned, hidden_marks
from cudalens.virtual.profile.recorder import MemoryAct
from cudalens.virtual.profile.timeline import Placed

Bools = NDArray[np.bool_]

_RENAMED: Final = {"segment_map": "segment_alloc", "segment_unmap": "segment_free"}
#: The sign of each action in the allocated and reserved bytes, as in torch's statistics.
_ALLOCATED: Final = {"alloc": 1, "free_requested": -1}
_RESERVED: Final = {"segment_alloc": 1, "segment_free": -1}


def backing(tree: HostTree, host: RawRows, pruned: Pruned, segments: Sequence[Segment]) -> Bools:
    """Host allocations that only the virtual device causes, by place; shape (n,).

    The values of device tensors are in host memory. It is allocated inside the handlers of operators on a device, and
    freed directly after the device's allocator freed its block. Host memory for copies to the host is real.
    """
    found = np.zeros(len(tree), bool)
    if not tree.is_memory.any():
        return found
    marks = _device_marks(segments) | hidden_marks([segment.recorder for segment in segments])
    handler = pruned.handler
    in_handler = tree.is_memory & (handler >= 0)
    found[in_handler] = np.isin(tree.mark[handler[in_handler]], list(marks))
    return found | _freed_backing(tree, host, pruned, segments)


def _device_marks(segments: Sequence[Segment]) -> set[int]:
    """Marks of the handlers in which a device did work other than copies to the host."""
    marks = set()
    for segment in segments:
        recorder = segment.recorder
        to_host = {placed.correlation_id for _, work, placed in recorder.works if work.direction == "DtoH"}
        took_memory, copied = set(), set()
        for act in recorder.acts:
            marks.add(act.mark)
            if isinstance(act, MemoryAct):
                took_memory.add(act.mark)
            elif act.correlation_id in to_host:
                copied.add(act.mark)
        marks -= copied - took_memory
    return marks


def _freed_backing(tree: HostTree, host: RawRows, pruned: Pruned, segments: Sequence[Segment]) -> Bools:
    """Host frees directly after a mark for the free of a device block of the same size.

    No shown row starts or ends in between.
    """
    assert host.memory is not None
    sizes = {
        act.mark: act.num_bytes
        for segment in segments
        for act in segment.recorder.acts
        if isinstance(act, MemoryAct) and act.kind == "free_requested"
    }
    found = np.zeros(len(tree), bool)
    num_bytes, action = host.memory["num_bytes"], np.asarray(host.memory["action"], object)
    stops = pruned.is_kept | tree.is_memory | (tree.mark > 0)
    last_stop = np.maximum.accumulate(np.where(stops, np.arange(len(tree)), -1))
    for at in np.flatnonzero(tree.is_memory[1:]) + 1:
        row, before = int(tree.row[at]), int(last_stop[at - 1])
        follows = before >= 0 and tree.lane[before] == tree.lane[at] and pruned.up[before] == pruned.up[at]
        if follows and action[row] != "alloc" and sizes.get(int(tree.mark[before])) == num_bytes[row]:
            found[at] = True
    return found


def memory_columns(
    tree: HostTree, host: RawRows, placed: Placed, segments: Sequence[Segment], shown: Bools
) -> dict[str, Any] | None:
    """Raw columns of the memory frame; None if nothing was recorded.

    Args:
        tree: The host's rows.
        host: The columns of the host's rows.
        placed: The virtual times.
        segments: The recorded segments.
        shown: Which host actions to show, by place; shape (n,).
    """
    rows = _device_rows(placed, segments)
    first: dict[str, Any] = {"ts": np.empty(0, np.int64)}
    if host.memory is not None:
        at = np.flatnonzero(tree.is_memory & shown)
        first = {name: values[tree.row[at]] for name, values in host.memory.items()}
        first["ts"] = placed.begin_ns[at]
    if not rows and not len(first["ts"]):
        return None
    return _recounted(event_rows.stacked("memory", first, event_rows.to_columns("memory", rows)), len(first["ts"]))


def _device_rows(placed: Placed, segments: Sequence[Segment]) -> list[event_rows.Row]:
    totals: dict[tuple[int, int], list[int]] = {
        (id(segment), index): list(initial)
        for segment in segments
        for index, initial in enumerate(segment.recorder.initial_bytes)
    }
    rows = []
    for i, (segment, act) in enumerate(placed.acts):
        if not isinstance(act, MemoryAct):
            continue
        kind, total = _RENAMED.get(act.kind, act.kind), totals[id(segment), act.device]
        total[0] += _ALLOCATED.get(kind, 0) * act.block_bytes
        total[1] += _RESERVED.get(kind, 0) * act.num_bytes
        rows.append(
            {
                "ts": int(placed.act_ns[i]),
                "action": kind,
                "device_type": "cuda",
                "device": act.device,
                "addr": None if kind in ("oom", "snapshot") else act.address,
                "num_bytes": act.block_bytes,
                "allocated_bytes": total[0],
                "reserved_bytes": total[1],
                "pid": os.getpid(),
                "tid": act.tid,
            }
        )
    return rows


def _recounted(columns: dict[str, Any], num_host: int) -> dict[str, Any]:
    """Recompute the host's running total without the removed actions."""
    if not num_host:
        return columns
    kinds = np.asarray(columns["action"], object)[:num_host]
    signs = np.array([{"alloc": 1, "free_completed": -1}.get(kind, 0) for kind in kinds], np.int64)
    totals = columns["allocated_bytes"].copy()
    order = np.argsort(columns["ts"][:num_host], kind="stable")
    totals[np.arange(num_host)[order]] = np.cumsum((signs * columns["num_bytes"][:num_host])[order])
    return columns | {"allocated_bytes": totals}
