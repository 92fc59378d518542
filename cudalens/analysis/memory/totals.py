"""Totals, pools, segments and fragmentation of a device's memory, and its state when an allocation failed."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.analysis.cached import once_per_trace
from cudalens.analysis.memory.replay import POOL_KEYS, DeviceReplay, block_amounts, blocks_at, replays
from cudalens.analysis.time.groups import subtract, union
from cudalens.frames import BLOCK_STATES, Trace
from cudalens.frames.column_arrays import addresses, integers
from cudalens.frames.snapshots.build import HAS_TIMES, SNAPSHOT_KEYS
from cudalens.frames.snapshots.history import ALLOC, FREE_COMPLETED, SEGMENT_ADDED, SEGMENT_REMOVED

#: Sizes of the pages of expandable segments of small and of large blocks.
_SMALL_PAGE: Final = 2 << 20
_LARGE_PAGE: Final = 20 << 20

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
    # Bytes of the whole pages in each free block of an expandable segment, which the allocator can release.
    is_small = (blocks["segment_type"] == "small").to_numpy()
    page = np.where(is_small, _SMALL_PAGE, _LARGE_PAGE)
    begin = (addresses(blocks["addr"]) - addresses(blocks["segment_addr"])).astype(np.int64)
    end = begin + facts["free_bytes"].to_numpy(np.int64)
    pages = np.maximum(end // page - -(-begin // page), 0)
    facts["empty_bytes"] = np.where(
        active == 0, facts["free_bytes"], np.where(blocks["is_expandable"].to_numpy(bool), pages * page, 0)
    )
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
        usable for allocations that fit); ``empty_bytes``: segments without active blocks, and whole pages of free
        blocks of expandable segments, which can be released; ``largest_free_bytes``: the
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


# The allocator's segments over time, and the state of a device's memory when an allocation failed.

_COLUMNS: Final = {
    "device": "Int32",
    "addr": "UInt64",
    "num_bytes": "int64",
    "added": "Int64",
    "removed": "Int64",
    **dict.fromkeys(POOL_KEYS, "Int64"),
}


@dataclass
class _Piece:
    begin: int
    end: int
    removed: int | None
    pool: tuple[object, ...]


def segment_lifetimes(trace: Trace) -> pd.DataFrame:
    """Return a row per range of device memory that the allocator reserved.

    Returns:
        Columns ``device``, ``addr``, ``num_bytes``; ``added`` and ``removed``, rows of ``trace.memory``, missing if it
        was reserved before the history, or is still reserved at its end; ``stream``, ``pool_id_first``,
        ``pool_id_second``. Expandable segments are mapped and unmapped in parts: a part that was mapped and unmapped at
        once is one row. At any moment the allocator has the rows with ``added`` at or before it and ``removed`` after.
    """
    rows = [row for one in replays(trace) for row in _pieces(trace, one)]
    columns = zip(*rows, strict=True) if rows else [()] * len(_COLUMNS)
    dtypes = zip(_COLUMNS.items(), columns, strict=True)
    return pd.DataFrame({name: pd.array(list(values), dtype=dtype) for (name, dtype), values in dtypes})


def _pieces(trace: Trace, one: DeviceReplay) -> list[tuple[object, ...]]:
    """Goes backward from the segments at the end: removes what was added, and adds what was removed."""
    memory = trace.memory
    pieces = _at_end(trace, one.device)
    begins = [piece.begin for piece in pieces]
    is_segment = np.isin(one.kind, (SEGMENT_ADDED, SEGMENT_REMOVED))
    acts = memory.iloc[one.rows[is_segment]]
    pools = list(zip(*(acts[name].astype(object) for name in POOL_KEYS), strict=True))
    addr, size, kind = addresses(acts["addr"]), acts["num_bytes"].to_numpy(), one.kind[is_segment]
    found: list[tuple[object, ...]] = []
    for i in range(len(acts) - 1, -1, -1):
        begin, row = int(addr[i]), int(one.rows[is_segment][i])
        end = begin + int(size[i])
        if kind[i] == SEGMENT_REMOVED:
            place = bisect_left(begins, begin)
            pieces.insert(place, _Piece(begin, end, row, pools[i]))
            begins.insert(place, begin)
            continue
        first = max(bisect_left(begins, begin) - 1, 0)
        last = bisect_left(begins, end)
        kept: list[_Piece] = []
        for piece in pieces[first:last]:
            low, high = max(piece.begin, begin), min(piece.end, end)
            if low >= high:
                kept.append(piece)
                continue
            found.append(_row(one.device, replace(piece, begin=low, end=high), row))
            if piece.begin < low:
                kept.append(replace(piece, end=low))
            if high < piece.end:
                kept.append(replace(piece, begin=high))
        pieces[first:last] = kept
        begins[first:last] = [piece.begin for piece in kept]
    return [_row(one.device, piece, None) for piece in pieces] + found[::-1]


def _at_end(trace: Trace, device: int) -> list[_Piece]:
    blocks = trace.blocks
    part = blocks[blocks["device"].eq(device).fillna(False).to_numpy(bool) & blocks["segment_addr"].notna().to_numpy()]
    part = part.drop_duplicates("segment_addr").sort_values("segment_addr")
    pools = zip(*(part[name].astype(object) for name in POOL_KEYS), strict=True)
    return [
        _Piece(int(addr), int(addr) + int(size), None, pool)
        for addr, size, pool in zip(part["segment_addr"], part["segment_bytes"], pools, strict=True)
    ]


def _row(device: int, piece: _Piece, added: int | None) -> tuple[object, ...]:
    return (device, piece.begin, piece.end - piece.begin, added, piece.removed, *piece.pool)


@dataclass(frozen=True)
class Refusal:
    """The last allocation that failed, and the memory at that moment; None for what is not recorded.

    Attributes:
        row: Its row of ``trace.memory``.
        asked_bytes: The size that was requested.
        free_bytes: What the device had free.
        reserved_bytes: What torch had reserved.
        unused_bytes: The part of it without a block.
        largest_unused_bytes: Its largest piece, of what the segments are known.
        main_stack: The call stack whose blocks held most of the memory, of blocks with a known one.
        main_bytes: What they held.
    """

    row: int
    asked_bytes: int | None
    free_bytes: int | None
    reserved_bytes: int | None
    unused_bytes: int | None
    largest_unused_bytes: int | None = None
    main_stack: int | None = None
    main_bytes: int = 0

    @property
    def is_fragmented(self) -> bool:
        """Whether the unused pieces and the free memory suffice together, so that expandable segments would help."""
        known = [self.unused_bytes, self.asked_bytes]
        return None not in known and (self.unused_bytes or 0) + (self.free_bytes or 0) >= (self.asked_bytes or 0)


@once_per_trace
def last_refusal(trace: Trace) -> Refusal | None:
    """Return the last allocation of a device that failed in `trace`; None if all succeeded."""
    memory = trace.memory
    rows = np.flatnonzero((memory["action"] == "oom").to_numpy())
    if not len(rows):
        return None
    row = int(rows[-1])
    asked, free, reserved, allocated = (
        _number(memory[name].iloc[row])
        for name in ("num_bytes", "device_free_bytes", "reserved_bytes", "allocated_bytes")
    )
    unused = None if reserved is None or allocated is None else max(reserved - allocated, 0)
    found = Refusal(row, asked, free, reserved, unused)
    device = memory["device"].iloc[row]
    segments = _alive(segment_lifetimes(trace), row, device)
    if segments.empty:
        return found
    return _with_segments(trace, found, segments, device)


def _with_segments(trace: Trace, found: Refusal, segments: pd.DataFrame, device: int) -> Refusal:
    """`found` with what the history of the allocator has."""
    blocks = blocks_at(trace, row=found.row)
    blocks = blocks[blocks["device"].eq(device).fillna(False).to_numpy(bool)]
    first = addresses(segments["addr"]).min()  # differences fit into int64
    begin, block = ((addresses(frame["addr"]) - first).astype(np.int64) for frame in (segments, blocks))
    reserved = union(begin, begin + segments["num_bytes"].to_numpy())
    unused = subtract(reserved, union(block, block + blocks["num_bytes"].to_numpy()))
    pieces = unused.end - unused.start
    by_stack = blocks.groupby("stack")["num_bytes"].sum()
    return Refusal(
        row=found.row,
        asked_bytes=found.asked_bytes,
        free_bytes=found.free_bytes,
        reserved_bytes=int(segments["num_bytes"].sum()),
        unused_bytes=int(pieces.sum()),
        largest_unused_bytes=int(pieces.max(initial=0)),
        main_stack=int(by_stack.idxmax()) if len(by_stack) else None,
        main_bytes=int(by_stack.max()) if len(by_stack) else 0,
    )


def _alive(segments: pd.DataFrame, row: int, device: int) -> pd.DataFrame:
    added, removed = integers(segments["added"]), integers(segments["removed"], np.iinfo(np.int64).max)
    mine = segments["device"].eq(device).fillna(False).to_numpy(bool)
    return segments[mine & (added <= row) & (removed > row)]


def _number(value: object) -> int | None:
    return None if pd.isna(value) else int(value)  # type: ignore[call-overload]
