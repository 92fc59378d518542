"""Totals, pools and fragmentation of a device's memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.analysis.memory.replay import DeviceReplay, block_amounts, replays
from cudalens.frames import BLOCK_STATES, Trace
from cudalens.frames.snapshots.build import HAS_TIMES, SNAPSHOT_KEYS
from cudalens.frames.snapshots.history import ALLOC, FREE_COMPLETED

#: Columns of ``trace.blocks`` that identify a segment.
SEGMENT_KEYS: Final = ("device", "segment_addr")


def is_memory_snapshot(trace: Trace) -> bool:
    """Return whether `trace` is a memory snapshot or a memory history: data of the allocator, without a profile."""
    return SNAPSHOT_KEYS in trace.info.options or (not len(trace) and len(trace.blocks) > 0)


def segments_of(blocks: pd.DataFrame) -> pd.DataFrame:
    """Return a row per segment of a ``blocks`` frame, in its order.

    Returns:
        The columns of ``blocks`` that belong to segments, ``num_blocks``, and the segment's ``allocated_bytes``,
        ``active_bytes``, ``requested_bytes``, ``free_bytes`` and ``largest_free_bytes``.
    """
    keys = blocks.groupby(list(SEGMENT_KEYS), dropna=False, sort=False).ngroup().to_numpy()
    first = blocks[~pd.Series(keys).duplicated().to_numpy()]
    facts = block_amounts(blocks).groupby(keys)
    own = ["device_type", "device", "segment_addr", "segment_bytes", "segment_type", "pool_id_first", "pool_id_second"]
    segments = first[[*own, "is_expandable", "segment_stack", "stream", "graph"]].reset_index(drop=True)
    sums = facts[["num_blocks", "allocated_bytes", "active_bytes", "requested_bytes", "free_bytes"]].sum()
    return segments.assign(**sums, largest_free_bytes=facts["free_bytes"].max())


def pool_totals(
    trace: Trace, by: Sequence[str] = ("device", "pool_id_first", "pool_id_second", "segment_type", "stream")
) -> pd.DataFrame:
    """Totals of each pool: small and large blocks, private pools, streams.

    Args:
        trace: With blocks.
        by: Columns of ``trace.blocks`` that define a pool.

    Returns:
        A row per pool, by reserved bytes, most first: the columns `by`, ``num_segments``, ``num_blocks``,
        ``num_active``, ``reserved_bytes``, ``allocated_bytes``, ``active_bytes``, ``pending_bytes``,
        ``requested_bytes``, ``internal_bytes``, ``free_bytes``, ``empty_bytes`` (of segments without active blocks,
        which ``torch.cuda.empty_cache()`` releases) and ``largest_free_bytes``.
    """
    blocks, by = trace.blocks, list(by)
    facts = block_amounts(blocks)
    segment = blocks.groupby(list(SEGMENT_KEYS), dropna=False, sort=False).ngroup()
    active = facts["active_bytes"].groupby(segment.to_numpy()).transform("sum").to_numpy()
    facts["empty_bytes"] = np.where(active == 0, facts["free_bytes"], 0)
    facts["largest_free_bytes"] = facts["free_bytes"]
    how = dict.fromkeys(facts, "sum") | {"largest_free_bytes": "max"}
    keys = [blocks[name].reset_index(drop=True) for name in by]
    found = facts.groupby(keys, dropna=False, sort=False, observed=True).agg(how).reset_index()
    order = found["reserved_bytes"].sort_values(ascending=False, kind="stable").index
    return found.loc[order].reset_index(drop=True)


def fragmentation(trace: Trace) -> pd.DataFrame:
    """Return the reserved memory of each device that fragmentation wastes.

    Returns:
        A row per device: ``device``, ``reserved_bytes``, ``requested_bytes``;
        ``internal_bytes``: sizes of active blocks beyond their requested size (rounding, remainders not split off);
        ``external_bytes``: inactive blocks in segments with active blocks (gaps: they cannot be released, and are only
        usable for allocations that fit); ``empty_bytes``: segments without active blocks; ``largest_free_bytes``: the
        largest inactive block, so the largest allocation that needs no new memory from the driver;
        ``fragmentation_pct``: internal and external bytes, of the reserved bytes.
    """
    found = pool_totals(trace, by=["device"]).sort_values("device", kind="stable").reset_index(drop=True)
    external = found["free_bytes"] - found["empty_bytes"]
    wasted = found["internal_bytes"] + external
    share = 100 * wasted / found["reserved_bytes"].where(found["reserved_bytes"] > 0, np.nan)
    kept = ["device", "reserved_bytes", "requested_bytes", "internal_bytes"]
    return found[kept].assign(
        external_bytes=external,
        empty_bytes=found["empty_bytes"],
        largest_free_bytes=found["largest_free_bytes"],
        fragmentation_pct=pd.array(share, dtype="Float64"),
    )


def memory_totals(trace: Trace) -> pd.Series:
    """Return the numbers of a memory snapshot: its segments, blocks and history.

    Sizes are in bytes. ``allocated`` counts allocated blocks, ``active`` also those that wait for a stream,
    ``requested`` the requested sizes of active blocks, ``reserved`` segments. ``hist_start_*`` is the total of the
    first device before the history, ``hist_peak_*`` its largest total then and after any action, by replaying the
    history backward from the blocks. ``peak_requested`` is the largest total of all devices together. A free of an
    unseen allocation is a completed release of an allocation from before the history.

    Returns:
        A Series of plain numbers, text, dicts and lists, by name.
    """
    blocks, memory = trace.blocks, trace.memory
    segments, devices = segments_of(blocks), list(replays(trace))
    state, history = _state(trace, blocks, segments), _history(trace, memory, devices)
    return pd.Series(state | history | _parts(blocks, segments, memory, devices), dtype=object)


def _state(trace: Trace, blocks: pd.DataFrame, segments: pd.DataFrame) -> dict[str, Any]:
    by_state = {name: blocks["num_bytes"][(blocks["state"] == name).to_numpy()] for name in BLOCK_STATES}
    is_empty = (segments["active_bytes"] == 0).to_numpy()
    return {
        "file": trace.info.name,
        "keys": trace.info.options.get(SNAPSHOT_KEYS) or "",
        "segments": len(segments),
        "seg_large": int((segments["segment_type"] == "large").sum()),
        "reserved": int(segments["segment_bytes"].sum()),
        "allocated": int(segments["allocated_bytes"].sum()),
        "active": int(segments["active_bytes"].sum()),
        "requested": int(segments["requested_bytes"].sum()),
        "blocks": len(blocks),
        **{
            key: value
            for name, sizes in by_state.items()
            for key, value in ((f"n_{name}", len(sizes)), (f"bytes_{name}", int(sizes.sum())))
        },
        "largest_free_block": int(by_state["inactive"].max()) if len(by_state["inactive"]) else 0,
        "empty_segments": int(is_empty.sum()),
        "bytes_empty_segments": int(segments["segment_bytes"][is_empty].sum()),
    }


def _history(trace: Trace, memory: pd.DataFrame, devices: list[DeviceReplay]) -> dict[str, Any]:
    counts = memory["action"].value_counts()
    first = next((one for one in devices if one.device == 0), None)
    lifetimes = [(one.kind, one.replay.lifetimes) for one in devices]
    seen = [kind[each.rows[each.first]] == ALLOC for kind, each in lifetimes]
    ended = [kind[each.rows[each.last]] == FREE_COMPLETED for kind, each in lifetimes]
    depths = trace.stacks.groupby("stack").size()
    used = memory["stack"].dropna().unique()
    return {
        "trace_entries": len(memory),
        "actions": " ".join(f"{name}:{counts[name]}" for name in sorted(counts.index) if counts[name]),
        "hist_start_requested_dev0": first.start("requested_bytes") if first else 0,
        "hist_peak_requested_dev0": first.peak("requested_bytes") if first else 0,
        "hist_start_reserved_dev0": first.start("reserved_bytes") if first else 0,
        "hist_peak_reserved_dev0": first.peak("reserved_bytes") if first else 0,
        "frees_of_unseen_allocs": sum(int((e & ~s).sum()) for s, e in zip(seen, ended, strict=True)),
        "allocs_live_at_end": sum(int((~e & s).sum()) for s, e in zip(seen, ended, strict=True)),
        "max_frames": int(depths.reindex(used).max()) if len(used) else 0,
        "has_time_us": bool(trace.info.options.get(HAS_TIMES, len(memory) > 0)),
    }


def _parts(
    blocks: pd.DataFrame, segments: pd.DataFrame, memory: pd.DataFrame, devices: list[DeviceReplay]
) -> dict[str, Any]:
    """Return the totals by device, pool and stream."""
    pools = [f"({a}, {b})" for a, b in zip(segments["pool_id_first"], segments["pool_id_second"], strict=True)]
    refused = memory[(memory["action"] == "oom").to_numpy()]
    first = next((one for one in devices if one.device == 0), None)
    active = blocks["state"].isin(["active_allocated", "active_pending_free"]).to_numpy()
    return {
        "pending_free": int(blocks["num_bytes"][(blocks["state"] == "active_pending_free").to_numpy()].sum()),
        "by_pool_reserved": _sums(segments["segment_bytes"], pools),
        "by_pool_allocated": _sums(segments["allocated_bytes"], pools),
        "by_stream_active": _sums(blocks["num_bytes"][active], blocks["stream"][active].astype(str)),
        "reserved_by_device": _sums(segments["segment_bytes"], segments["device"].astype(str)),
        "allocated_by_device": _sums(segments["allocated_bytes"], segments["device"].astype(str)),
        "expandable": int(segments["is_expandable"].sum()),
        "reserved_peak_dev0": first.peak("reserved_bytes") if first else 0,
        "peak_requested": _peak_of_all(devices, len(memory)),
        "oom": [
            {"size": int(size), "device_free": None if pd.isna(free) else int(free)}
            for size, free in zip(refused["num_bytes"], refused["device_free_bytes"], strict=True)
        ],
    }


def _sums(amounts: pd.Series, keys: Any) -> dict[str, int]:
    sums = amounts.groupby(np.asarray(keys, object)).sum()
    return {str(key): int(value) for key, value in sums.items()}


def _peak_of_all(devices: list[DeviceReplay], num_rows: int) -> int:
    """Return the largest requested bytes of all devices together."""
    change = np.zeros(num_rows, np.int64)
    for one in devices:
        change[one.rows] = one.replay.changes["requested_bytes"]
    start = sum(one.start("requested_bytes") for one in devices)
    return int(start + max(np.cumsum(change).max(initial=0), 0))
