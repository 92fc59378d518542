"""Who holds a device's memory: totals, pools, fragmentation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.analysis.memory.replay import DeviceReplay, plain, replays
from cudalens.frames import Trace
from cudalens.frames.snapshots.build import HAS_TIMES, SNAPSHOT_KEYS

#: What tells the segments of ``trace.blocks`` apart.
_STATES: Final = ("active_allocated", "active_pending_free", "inactive")
SEGMENT_KEYS: Final = ("device", "segment_addr")


def is_memory_snapshot(trace: Trace) -> bool:
    """Whether `trace` is a memory snapshot or a memory history: data of the allocator, without a profile."""
    return SNAPSHOT_KEYS in trace.info.options or (not len(trace) and len(trace.blocks) > 0)


def segments_of(blocks: pd.DataFrame) -> pd.DataFrame:
    """A row per segment of a ``blocks`` frame, in its order.

    Returns:
        The columns of ``blocks`` that belong to segments, ``num_blocks``, and the segment's ``allocated_bytes``,
        ``active_bytes``, ``requested_bytes``, ``free_bytes`` and ``largest_free_bytes``.
    """
    keys = blocks.groupby(list(SEGMENT_KEYS), dropna=False, sort=False).ngroup().to_numpy()
    first = blocks[~pd.Series(keys).duplicated().to_numpy()]
    facts = _amounts(blocks).groupby(keys)
    own = ["device_type", "device", "segment_addr", "segment_bytes", "segment_type", "pool_id_first", "pool_id_second"]
    segments = first[[*own, "is_expandable", "segment_stack", "stream", "graph"]].reset_index(drop=True)
    sums = facts[["num_blocks", "allocated_bytes", "active_bytes", "requested_bytes", "free_bytes"]].sum()
    return segments.assign(**sums, largest_free_bytes=facts["free_bytes"].max())


def _amounts(blocks: pd.DataFrame) -> pd.DataFrame:
    """What each block adds to the totals of whatever holds it."""
    state, size = blocks["state"].astype(object).to_numpy(), blocks["num_bytes"].to_numpy()
    is_allocated, is_pending, is_free = (state == name for name in _STATES)
    is_active = is_allocated | is_pending
    requested = np.where(is_active, plain(blocks["requested_bytes"]), 0)
    unknown = is_active & blocks["requested_bytes"].isna().to_numpy()
    return pd.DataFrame(
        {
            "num_blocks": np.ones(len(blocks), np.int64),
            "num_active": is_active.astype(np.int64),
            "allocated_bytes": np.where(is_allocated, size, 0),
            "active_bytes": np.where(is_active, size, 0),
            "pending_bytes": np.where(is_pending, size, 0),
            "requested_bytes": requested,
            "internal_bytes": np.where(is_active & ~unknown, size - requested, 0),
            "free_bytes": np.where(is_free, size, 0),
        }
    )


def pool_totals(
    trace: Trace, by: Sequence[str] = ("device", "pool_id_first", "pool_id_second", "segment_type", "stream")
) -> pd.DataFrame:
    """What each pool holds: small and large blocks, private pools, streams.

    Args:
        trace: With blocks.
        by: Columns of ``trace.blocks`` that tell pools apart.

    Returns:
        A row per pool, by reserved bytes, most first: the columns `by`, ``num_segments``, ``num_blocks``,
        ``num_active``, ``reserved_bytes``, ``allocated_bytes``, ``active_bytes``, ``pending_bytes``,
        ``requested_bytes``, ``internal_bytes``, ``free_bytes``, ``empty_bytes`` (of segments in which nothing is
        active, which ``torch.cuda.empty_cache()`` returns) and ``largest_free_bytes``.
    """
    blocks, by = trace.blocks, list(by)
    facts = _amounts(blocks)
    segment = blocks.groupby(list(SEGMENT_KEYS), dropna=False, sort=False).ngroup()
    is_first = ~segment.duplicated().to_numpy()
    active = facts["active_bytes"].groupby(segment.to_numpy()).transform("sum").to_numpy()
    facts["num_segments"] = is_first.astype(np.int64)
    facts["reserved_bytes"] = np.where(is_first, blocks["segment_bytes"].to_numpy(), 0)
    facts["empty_bytes"] = np.where(active == 0, facts["free_bytes"], 0)
    facts["largest_free_bytes"] = facts["free_bytes"]
    how = dict.fromkeys([*_POOL_COLUMNS], "sum") | {"largest_free_bytes": "max"}
    keys = [blocks[name].reset_index(drop=True) for name in by]
    found = facts.groupby(keys, dropna=False, sort=False, observed=True).agg(how).reset_index()
    order = found["reserved_bytes"].sort_values(ascending=False, kind="stable").index
    return found.loc[order].reset_index(drop=True)


_POOL_COLUMNS: Final = (
    "num_segments",
    "num_blocks",
    "num_active",
    "reserved_bytes",
    "allocated_bytes",
    "active_bytes",
    "pending_bytes",
    "requested_bytes",
    "internal_bytes",
    "free_bytes",
    "empty_bytes",
)


def fragmentation(trace: Trace) -> pd.DataFrame:
    """How much of what each device has reserved nobody can use.

    Returns:
        A row per device: ``device``, ``reserved_bytes``, ``requested_bytes``;
        ``internal_bytes``: what active blocks are larger than what was asked for (rounding, remainders not split off);
        ``external_bytes``: inactive blocks in segments that hold something active (gaps: no release can return them,
        and only what fits between may use them); ``empty_bytes``: segments in which nothing is active;
        ``largest_free_bytes``: the largest inactive block, so the largest allocation that needs no new memory from the
        driver; ``fragmentation_pct``: internal and external bytes, of what is reserved.
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
    """The numbers of a memory snapshot: its segments, blocks and history.

    Sizes are in bytes. ``allocated`` counts what tensors hold, ``active`` also what waits for a stream, ``requested``
    what was asked for of the active, ``reserved`` whole segments. ``hist_start_*`` is what the first device held before
    the history began, ``hist_peak_*`` the most it held then and after any action, by replaying the history backward
    from the blocks. ``peak_requested`` is the most that all devices together held. A free of an unseen allocation is a
    completed release of what was allocated before the history began.

    Returns:
        A Series of plain numbers, text, dicts and lists, by name.
    """
    blocks, memory = trace.blocks, trace.memory
    segments, devices = segments_of(blocks), list(replays(trace))
    return pd.Series(
        _state(trace, blocks, segments) | _history(trace, memory, devices) | _parts(blocks, segments, memory, devices),
        dtype=object,
    )


def _state(trace: Trace, blocks: pd.DataFrame, segments: pd.DataFrame) -> dict[str, Any]:
    by_state = {name: blocks["num_bytes"][(blocks["state"] == name).to_numpy()] for name in _STATES}
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
    lives = [(one.kind[one.replay.lives.rows[one.replay.lives.first]], one) for one in devices]
    ended = [one.kind[one.replay.lives.rows[one.replay.lives.last]] == 2 for one in devices]
    depths = trace.stacks.groupby("stack").size()
    used = memory["stack"].dropna().unique()
    return {
        "trace_entries": len(memory),
        "actions": " ".join(f"{name}:{counts[name]}" for name in sorted(counts.index) if counts[name]),
        "hist_start_requested_dev0": first.start("requested_bytes") if first else 0,
        "hist_peak_requested_dev0": first.peak("requested_bytes") if first else 0,
        "hist_start_reserved_dev0": first.start("reserved_bytes") if first else 0,
        "hist_peak_reserved_dev0": first.peak("reserved_bytes") if first else 0,
        "frees_of_unseen_allocs": sum(
            int((end & (kind != 0)).sum()) for (kind, _), end in zip(lives, ended, strict=True)
        ),
        "allocs_live_at_end": sum(int((~end & (kind == 0)).sum()) for (kind, _), end in zip(lives, ended, strict=True)),
        "max_frames": int(depths.reindex(used).max()) if len(used) else 0,
        "has_time_us": bool(trace.info.options.get(HAS_TIMES, len(memory) > 0)),
    }


def _parts(
    blocks: pd.DataFrame, segments: pd.DataFrame, memory: pd.DataFrame, devices: list[DeviceReplay]
) -> dict[str, Any]:
    """The totals by device, pool and stream."""
    pools = [
        f"({first}, {second})"
        for first, second in zip(segments["pool_id_first"], segments["pool_id_second"], strict=True)
    ]
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
    """The most that was asked for and held on all devices together."""
    change = np.zeros(num_rows, np.int64)
    for one in devices:
        change[one.rows] = one.replay.changes["requested_bytes"]
    start = sum(one.start("requested_bytes") for one in devices)
    return int(start + max(np.cumsum(change).max(initial=0), 0))
