"""Replays the allocator's history backward from the blocks at its end: lifetimes of allocations and totals.

A history has the actions while it was recorded. The blocks of the snapshot, or of the live device, are those at its
end. Sizes of freed blocks are not recorded: their requested size, rounded as the allocator rounds, is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.analysis.cached import once_per_trace
from cudalens.analysis.time.groups import sums
from cudalens.frames import BLOCK_STATES, Trace
from cudalens.frames.column_arrays import Bools, Ints, addresses, integers, masked, nullable, run_ends
from cudalens.frames.snapshots.build import settings_of
from cudalens.frames.snapshots.history import (
    ALLOC,
    FREE_COMPLETED,
    FREE_REQUESTED,
    TOTALS,
    AtEnd,
    Replay,
    at_end,
    kinds_of,
    replay,
)

POOL_KEYS: Final = ("stream", "pool_id_first", "pool_id_second")

_COLUMNS: Final = {
    "device": "Int32",
    "addr": "UInt64",
    "num_bytes": "int64",
    "requested_bytes": "Int64",
    "alloc": "Int64",
    "free_requested": "Int64",
    "free_completed": "Int64",
    "block": "Int64",
    "allocated_ns": "Int64",
    "freed_ns": "Int64",
    **dict.fromkeys(POOL_KEYS, "Int64"),
    "stack": "Int64",
}


@dataclass(frozen=True)
class DeviceReplay:
    """One device's history and blocks.

    Attributes:
        device: Its index.
        rows: Its rows of ``trace.memory``, in order; shape (n,).
        kind: Kind of each action, as of `cudalens.frames.snapshots.history`; shape (n,).
        end_rows: Its active rows of ``trace.blocks``, by address; shape (b,).
        end: Its blocks at the end.
        replay: Its history.
    """

    device: int
    rows: Ints
    kind: Ints
    end_rows: Ints
    end: AtEnd
    replay: Replay

    def start(self, total: str) -> int:
        """Return the total `total` (such as ``requested_bytes``) before the first action."""
        return int(getattr(self.end, total) - self.replay.changes[total].sum())

    def peak(self, total: str) -> int:
        """Return the largest value of the total `total`, before, between and after the actions."""
        return max(self.start(total), int(self.replay.totals[total].max(initial=0)))


def devices_of(trace: Trace) -> list[int]:
    """Devices that have blocks or a history, ascending."""
    found = pd.concat([trace.blocks["device"], trace.memory["device"]]).dropna()
    return sorted(int(device) for device in found.unique())


@once_per_trace
def replays(trace: Trace) -> tuple[DeviceReplay, ...]:
    """Return the replay of each device of `trace`, by its index."""
    return tuple(_replays(trace))


def _replays(trace: Trace) -> Iterator[DeviceReplay]:
    memory, blocks = trace.memory, trace.blocks
    kind = kinds_of(memory["action"].array, memory["addr"].notna().to_numpy())
    addr = addresses(memory["addr"])
    size, settings = memory["num_bytes"].to_numpy(), settings_of(trace.info.extra)
    of_row, of_block = integers(memory["device"]), integers(blocks["device"])
    for device in devices_of(trace):
        rows = np.flatnonzero(of_row == device)
        end, end_rows = _at_end(blocks, of_block == device)
        found = replay(kind[rows], addr[rows], size[rows], end, settings)
        yield DeviceReplay(device, rows, kind[rows], end_rows, end, found)


def _at_end(blocks: pd.DataFrame, mine: Bools) -> tuple[AtEnd, Ints]:
    return at_end(
        addresses(blocks["addr"]),
        blocks["addr"].notna().to_numpy(),
        blocks["num_bytes"].to_numpy(),
        integers(blocks["requested_bytes"], 0),
        mine & (blocks["state"] == "active_allocated").to_numpy(),
        mine & (blocks["state"] == "active_pending_free").to_numpy(),
        int(blocks[mine].drop_duplicates("segment_addr")["segment_bytes"].sum()),
    )


def block_lifetimes(trace: Trace) -> pd.DataFrame:
    """Return a row per allocation that is in the history or alive at its end.

    Returns:
        Columns ``device``, ``addr``, ``num_bytes`` (size of the block), ``requested_bytes``; ``alloc``,
        ``free_requested`` and ``free_completed``, rows of ``trace.memory``, missing if it was allocated before the
        history, or not released in it; ``block``, the row of ``trace.blocks`` if it is alive at the end;
        ``allocated_ns`` and ``freed_ns`` (of the completed release); ``stream``, ``pool_id_first``,
        ``pool_id_second``, and ``stack`` (of the allocation), if known. By device, then by allocation.
    """
    parts = [_lifetimes(trace, one) for one in replays(trace)]
    if not parts:
        return pd.DataFrame({name: pd.array([], dtype=dtype) for name, dtype in _COLUMNS.items()})
    return pd.concat(parts, ignore_index=True)[list(_COLUMNS)].astype(_COLUMNS)


def _lifetimes(trace: Trace, one: DeviceReplay) -> pd.DataFrame:
    memory, blocks, lifetimes = trace.memory, trace.blocks, one.replay.lifetimes
    begin, last = lifetimes.rows[lifetimes.first], lifetimes.rows[lifetimes.last]
    is_seen = one.kind[begin] == ALLOC
    # The request is the second row if the allocation was recorded, else the first row.
    place = np.minimum(lifetimes.first + is_seen, np.maximum(lifetimes.last, 0))
    is_asked = (lifetimes.first + is_seen <= lifetimes.last) & (one.kind[lifetimes.rows[place]] == FREE_REQUESTED)
    is_done = one.kind[last] == FREE_COMPLETED
    is_ended = ~one.replay.is_alive & (one.kind[last] != ALLOC)
    first_row, alive = one.rows[begin], one.replay.is_alive
    end_block = one.end_rows[one.replay.end_block[alive]]
    block = np.full(len(alive), -1, np.int64)
    block[alive] = end_block
    seen = memory.iloc[first_row]
    frame = pd.DataFrame(
        {
            "addr": seen["addr"].array,
            "num_bytes": one.replay.block_bytes,
            "requested_bytes": pd.array(seen["num_bytes"].to_numpy(), dtype="Int64"),
            "alloc": nullable(first_row, ~is_seen),
            "free_requested": nullable(one.rows[lifetimes.rows[place]], ~is_asked),
            "free_completed": nullable(one.rows[last], ~(is_done | is_ended)),
            "block": masked(block),
            **{key: seen[key].array for key in POOL_KEYS},
            "stack": seen["stack"].array.copy(),
        }
    )
    frame.loc[~is_seen, "stack"] = pd.NA
    frame["allocated_ns"] = _times(memory, frame["alloc"])
    frame["freed_ns"] = _times(memory, frame["free_completed"])
    before = _untouched(blocks, one.end_rows, end_block)
    joined = pd.concat([frame, before], ignore_index=True)
    joined["device"] = one.device
    return joined.sort_values(["alloc", "addr"], na_position="first", kind="stable")


def _times(memory: pd.DataFrame, rows: pd.Series) -> Any:
    return nullable(np.append(memory["ts"].to_numpy(), 0)[integers(rows)], rows.isna().to_numpy())


def _untouched(blocks: pd.DataFrame, end_rows: Ints, seen: Ints) -> pd.DataFrame:
    """Blocks that are active throughout the history."""
    rows = np.setdiff1d(end_rows, seen)
    part = blocks.iloc[rows]
    kept = ("addr", "num_bytes", "requested_bytes", "allocated_ns", *POOL_KEYS, "stack")
    frame = pd.DataFrame({name: part[name].array for name in kept} | {"block": pd.array(rows, dtype="Int64")})
    nothing = pd.array([pd.NA] * len(rows), dtype="Int64")
    return frame.assign(alloc=nothing, free_requested=nothing, free_completed=nothing, freed_ns=nothing)


def blocks_at(trace: Trace, *, row: int | None = None, ts: int | None = None) -> pd.DataFrame:
    """Return the active blocks at a moment of the history.

    Args:
        trace: With a history, or blocks alone.
        row: After that row of ``trace.memory``; -1 is before the first.
        ts: At that time, after all actions up to it, on the clock of ``trace.memory``. Without `row` and `ts`: at the
            end.

    Returns:
        The rows of `block_lifetimes` that are active then, and ``state``: ``active_allocated`` or
        ``active_pending_free``.

    Raises:
        ValueError: Both moments are given.
    """
    moment = _moment(trace.memory, row, ts)
    lifetimes = block_lifetimes(trace)
    never = np.iinfo(np.int64).max
    done, asked = (integers(lifetimes[name], never) for name in ("free_completed", "free_requested"))
    is_active = (integers(lifetimes["alloc"]) <= moment) & (done > moment)
    pending = (asked <= moment) | _waited_before(trace, lifetimes)
    found = lifetimes.assign(state=np.where(pending, "active_pending_free", "active_allocated"))
    return found[is_active].reset_index(drop=True)


def _waited_before(trace: Trace, lifetimes: pd.DataFrame) -> Bools:
    """True for allocations that waited for a stream before the history began; shape (n,).

    Those that wait at its end without a request in it, and those whose first row in it is the completed release, unless
    the history has no requests at all. The allocated bytes of a device are counted in the same way.
    """
    is_unseen = (lifetimes["alloc"].isna() & lifetimes["free_requested"].isna()).to_numpy(bool)
    is_pending = np.append((trace.blocks["state"] == "active_pending_free").to_numpy(), False)
    has_requests = bool((trace.memory["action"] == "free_requested").any())
    is_done = lifetimes["free_completed"].notna().to_numpy(bool)
    return is_unseen & (is_pending[integers(lifetimes["block"])] | (is_done & has_requests))


def _moment(memory: pd.DataFrame, row: int | None, ts: int | None) -> int:
    if row is not None and ts is not None:
        raise ValueError(f"blocks_at(row={row}, ts={ts}): two moments; give one of them.")
    if ts is not None:
        return int(np.searchsorted(memory["ts"].to_numpy(), ts, side="right")) - 1
    return len(memory) if row is None else row


def memory_peak(trace: Trace, device: int | None = None, *, of: str = "allocated_bytes") -> pd.Series:
    """Return the peak of a device's memory in the history.

    Args:
        trace: With a history.
        device: Which device; None for the one with the largest peak.
        of: ``allocated_bytes``, ``active_bytes``, ``requested_bytes`` or ``reserved_bytes``.

    Returns:
        ``device``, ``row`` of ``trace.memory`` after which the peak is first reached (-1: before the first row; for
        `blocks_at`), ``ts`` (missing for -1), and ``num_bytes``. All missing without a history and blocks.
    """
    best: tuple[int, int, int] | None = None
    for one in replays(trace):
        if device is not None and one.device != device:
            continue
        after, start = one.replay.totals[of], one.start(of)
        place = int(after.argmax()) if len(after) else -1
        is_start = place < 0 or start >= after[place]
        found = (start, one.device, -1) if is_start else (int(after[place]), one.device, int(one.rows[place]))
        best = found if best is None or found[0] > best[0] else best
    if best is None:
        return pd.Series({"device": pd.NA, "row": pd.NA, "ts": pd.NA, "num_bytes": pd.NA}, dtype=object)
    ts = pd.NA if best[2] < 0 else int(trace.memory["ts"].iloc[best[2]])
    return pd.Series({"device": best[1], "row": best[2], "ts": ts, "num_bytes": best[0]}, dtype=object)


def running_totals(trace: Trace, by: tuple[str, ...] = ("device", *POOL_KEYS)) -> pd.DataFrame:
    """Return the totals of each pool, stream or device after each action, counted backward from the blocks at the end.

    Args:
        trace: With a history.
        by: Columns of ``memory`` and ``blocks`` that define the groups: some of ``device``, ``stream``,
            ``pool_id_first``, ``pool_id_second``.

    Returns:
        A row per row of ``trace.memory``: the columns `by`, and ``allocated_bytes``, ``active_bytes``,
        ``requested_bytes`` and ``reserved_bytes`` of the action's group after it. Actions of an unknown group are a
        group of their own, which has no bytes at the end.
    """
    memory, blocks = trace.memory, trace.blocks
    changes = {name: np.zeros(len(memory), np.int64) for name in TOTALS}
    for one in replays(trace):
        for name, change in one.replay.changes.items():
            changes[name][one.rows] = change
    keys = pd.concat([memory[list(by)], blocks[list(by)]], ignore_index=True)
    group = keys.groupby(list(by), dropna=False, sort=False).ngroup().to_numpy()
    of_row, of_block = group[: len(memory)], group[len(memory) :]
    amounts = block_amounts(blocks)
    ends = {name: sums(amounts[name].to_numpy(), of_block, int(group.max(initial=-1)) + 1) for name in TOTALS}
    order = np.argsort(of_row, kind="stable")
    found = {name: np.empty(len(memory), np.int64) for name in TOTALS}
    for name, change in changes.items():
        found[name][order] = _counted_back(change[order], of_row[order], ends[name])
    return memory[list(by)].assign(**found)


def block_amounts(blocks: pd.DataFrame) -> pd.DataFrame:
    """Return the amount that each block adds to the totals of its segment, pool or device."""
    size, requested = blocks["num_bytes"].to_numpy(), integers(blocks["requested_bytes"])
    is_allocated, is_pending, is_free = ((blocks["state"] == name).to_numpy() for name in BLOCK_STATES)
    is_active = is_allocated | is_pending
    is_first = ~blocks.duplicated(["device", "segment_addr"]).to_numpy()
    return pd.DataFrame(
        {
            "num_segments": is_first.astype(np.int64),
            "num_blocks": np.ones(len(blocks), np.int64),
            "num_active": is_active.astype(np.int64),
            "reserved_bytes": np.where(is_first, blocks["segment_bytes"].to_numpy(), 0),
            "allocated_bytes": np.where(is_allocated, size, 0),
            "active_bytes": np.where(is_active, size, 0),
            "pending_bytes": np.where(is_pending, size, 0),
            "requested_bytes": np.where(is_active, np.maximum(requested, 0), 0),
            "internal_bytes": np.where(is_active & (requested >= 0), size - requested, 0),
            "free_bytes": np.where(is_free, size, 0),
        }
    )


def _counted_back(change: Ints, group: Ints, ends: Ints) -> Ints:
    """Totals after each of `change`, which are sorted by group, from the total of each group at its end."""
    if not len(change):
        return change
    total = np.cumsum(change)
    last = np.flatnonzero(run_ends(group))
    at_last = np.zeros(len(ends), np.int64)
    at_last[group[last]] = total[last]
    return total - at_last[group] + ends[group]
