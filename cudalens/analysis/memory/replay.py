"""The allocator's history, replayed backward from the blocks that were there at its end: what lived when.

A history tells what happened while it was recorded; the blocks of the snapshot, or of the live device, what was there
when it ended. Sizes of blocks that are gone are not recorded: what was asked for, rounded as the allocator rounds,
stands for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.frames import Trace, nullable
from cudalens.frames.snapshots.build import settings_of
from cudalens.frames.snapshots.history import (
    ALLOC,
    FREE_COMPLETED,
    FREE_REQUESTED,
    OTHER,
    AtEnd,
    Replay,
    kinds_of,
    replay,
)

Ints = NDArray[np.int64]

POOL_KEYS: Final = ("stream", "pool_id_first", "pool_id_second")


@dataclass(frozen=True)
class DeviceReplay:
    """One device's history and blocks.

    Attributes:
        device: Its index.
        rows: Its rows of ``trace.memory``, in order; shape (n,).
        kind: What each does, by the numbers of `cudalens.frames.snapshots.history`; shape (n,).
        end_rows: Its active rows of ``trace.blocks``, by address; shape (b,).
        end: What it held at the end.
        replay: Its history.
    """

    device: int
    rows: Ints
    kind: Ints
    end_rows: Ints
    end: AtEnd
    replay: Replay

    def start(self, total: str) -> int:
        """What the device held before the first action, of ``requested_bytes`` and its like."""
        return int(getattr(self.end, total) - self.replay.changes[total].sum())

    def peak(self, total: str) -> int:
        """The most that the device held, before, between and after its actions."""
        after = self.replay.totals[total]
        return max(self.start(total), int(after.max()) if len(after) else 0)


def devices_of(trace: Trace) -> list[int]:
    """Devices that have blocks or a history, ascending."""
    found = pd.concat([trace.blocks["device"], trace.memory["device"]]).dropna()
    return sorted(int(device) for device in found.unique())


def replays(trace: Trace) -> Iterator[DeviceReplay]:
    """The replay of each device of `trace`, by its index."""
    memory, blocks = trace.memory, trace.blocks
    kind = kinds_of(memory["action"].cat.codes.to_numpy(), memory["action"].cat.categories.tolist())
    kind[memory["addr"].isna().to_numpy() & (kind <= FREE_COMPLETED)] = OTHER
    addr = plain(memory["addr"], np.uint64)
    size, settings = memory["num_bytes"].to_numpy(), settings_of(trace.info.extra)
    of_row, of_block = plain(memory["device"], fill=-1), plain(blocks["device"], fill=-1)
    for device in devices_of(trace):
        rows = np.flatnonzero(of_row == device)
        end_rows, end = _at_end(blocks, of_block == device)
        found = replay(kind[rows], addr[rows], size[rows], end, settings)
        yield DeviceReplay(device, rows, kind[rows], end_rows, end, found)


def plain(column: pd.Series, dtype: Any = np.int64, fill: int = 0) -> NDArray[Any]:
    """A nullable column as a plain array, `fill` where it is missing."""
    values: NDArray[Any] = column.array.to_numpy(dtype=dtype, na_value=fill)
    return values


def _at_end(blocks: pd.DataFrame, mask: NDArray[np.bool_]) -> tuple[Ints, AtEnd]:
    state = blocks["state"].astype(object).to_numpy()
    is_allocated, is_pending = mask & (state == "active_allocated"), mask & (state == "active_pending_free")
    active = is_allocated | is_pending
    size, requested = blocks["num_bytes"].to_numpy(), plain(blocks["requested_bytes"])
    addr, known = plain(blocks["addr"], np.uint64), blocks["addr"].notna().to_numpy()
    rows = np.flatnonzero(active & known)
    rows = rows[np.argsort(addr[rows], kind="stable")]
    segments = blocks[mask].drop_duplicates("segment_addr")
    return rows, AtEnd(
        addr=addr[rows],
        num_bytes=size[rows],
        is_pending=is_pending[rows],
        allocated_bytes=int(size[is_allocated].sum()),
        active_bytes=int(size[active].sum()),
        requested_bytes=int(requested[active].sum()),
        reserved_bytes=int(segments["segment_bytes"].sum()),
    )


def block_lifetimes(trace: Trace) -> pd.DataFrame:
    """A row per allocation that the history tells of or that was alive at its end.

    Returns:
        Columns ``device``, ``addr``, ``num_bytes`` (size of the block), ``requested_bytes``; ``alloc``,
        ``free_requested`` and ``free_completed``, rows of ``trace.memory``, missing where it was allocated before the
        history began, or not released in it; ``block``, the row of ``trace.blocks`` where it was alive at the end;
        ``allocated_ns`` and ``freed_ns`` (of the completed release); ``stream``, ``pool_id_first``,
        ``pool_id_second``, and ``stack`` (of the allocation), as far as known. By device, then by allocation.
    """
    parts = [_lifetimes(trace, one) for one in replays(trace)]
    columns = list(_COLUMNS)
    if not parts:
        return pd.DataFrame({name: pd.array([], dtype=dtype) for name, dtype in _COLUMNS.items()})
    return pd.concat(parts, ignore_index=True)[columns].astype(_COLUMNS)


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
    "stream": "Int64",
    "pool_id_first": "Int64",
    "pool_id_second": "Int64",
    "stack": "Int64",
}


def _lifetimes(trace: Trace, one: DeviceReplay) -> pd.DataFrame:
    memory, blocks, lives = trace.memory, trace.blocks, one.replay.lives
    begin, last = lives.rows[lives.first], lives.rows[lives.last]
    is_seen = one.kind[begin] == ALLOC
    # the request is the second row of a lifetime whose allocation was seen, the first of another
    place = np.minimum(lives.first + is_seen, np.maximum(lives.last, 0))
    is_asked = (lives.first + is_seen <= lives.last) & (one.kind[lives.rows[place]] == FREE_REQUESTED)
    is_done = one.kind[last] == FREE_COMPLETED
    is_ended = ~one.replay.is_alive & (one.kind[last] != ALLOC)
    first_row, alive = one.rows[begin], one.replay.is_alive
    end_block = one.end_rows[one.replay.end_block[alive]]
    seen = memory.iloc[first_row]
    frame = pd.DataFrame(
        {
            "addr": seen["addr"].array,
            "num_bytes": one.replay.block_bytes,
            "requested_bytes": pd.array(seen["num_bytes"].to_numpy(), dtype="Int64"),
            "alloc": nullable(first_row, ~is_seen),
            "free_requested": nullable(one.rows[lives.rows[place]], ~is_asked),
            "free_completed": nullable(one.rows[last], ~(is_done | is_ended)),
            "block": nullable(_scattered(alive, end_block), ~alive),
            **{key: seen[key].array for key in POOL_KEYS},
            "stack": seen["stack"].array.copy(),
        }
    )
    frame.loc[~is_seen, "stack"] = pd.NA
    frame["allocated_ns"] = _times(memory, frame["alloc"])
    frame["freed_ns"] = _times(memory, frame["free_completed"])
    before = _never_touched(blocks, one.end_rows, end_block)
    joined = pd.concat([frame, before], ignore_index=True)
    joined["device"] = one.device
    return joined.sort_values(["alloc", "addr"], na_position="first", kind="stable")


def _scattered(mask: NDArray[np.bool_], values: Ints) -> Ints:
    found = np.zeros(len(mask), np.int64)
    found[mask] = values
    return found


def _times(memory: pd.DataFrame, rows: pd.Series) -> Any:
    missing = rows.isna().to_numpy()
    ts = memory["ts"].to_numpy()
    at = np.where(missing, 0, plain(rows))
    return nullable(ts[at] if len(ts) else at, missing)


def _never_touched(blocks: pd.DataFrame, end_rows: Ints, seen: Ints) -> pd.DataFrame:
    """Blocks that were there throughout the history: active at its end, and allocated before it began."""
    rows = np.setdiff1d(end_rows, seen)
    part = blocks.iloc[rows]
    kept = ("addr", "num_bytes", "requested_bytes", "allocated_ns", *POOL_KEYS, "stack")
    frame = pd.DataFrame({name: part[name].array for name in kept} | {"block": pd.array(rows, dtype="Int64")})
    nothing = pd.array([pd.NA] * len(rows), dtype="Int64")
    return frame.assign(alloc=nothing, free_requested=nothing, free_completed=nothing, freed_ns=nothing)


def blocks_at(trace: Trace, *, row: int | None = None, ts: int | None = None) -> pd.DataFrame:
    """The active blocks at a moment of the history.

    Args:
        trace: With a history, or blocks alone.
        row: After that row of ``trace.memory``; -1 is before the first.
        ts: At that time, after all actions up to it, on the clock of ``trace.memory``. Without `row` and `ts`: at the
            end.

    Returns:
        The rows of `block_lifetimes` that lived then, and ``state``: ``active_allocated`` or ``active_pending_free``.

    Raises:
        ValueError: Both moments are given.
    """
    moment = _moment(trace.memory, row, ts)
    lives = block_lifetimes(trace)
    alloc = plain(lives["alloc"], fill=-1)
    never = np.iinfo(np.int64).max
    done, asked = plain(lives["free_completed"], fill=never), plain(lives["free_requested"], fill=never)
    is_active = (alloc <= moment) & (done > moment)
    pending = (asked <= moment) | _waited_before(trace, lives)
    found = lives.assign(state=np.where(pending, "active_pending_free", "active_allocated"))
    return found[is_active].reset_index(drop=True)


def _waited_before(trace: Trace, lives: pd.DataFrame) -> NDArray[np.bool_]:
    """Which of `lives` waited for a stream before the history began; shape (n,).

    Those that wait at its end without a request in it, and those whose first row in it is the completed release, as
    what a device has allocated is counted: unless the history tells of no requests at all.
    """
    is_unseen = (lives["alloc"].isna() & lives["free_requested"].isna()).to_numpy(bool)
    is_alive = lives["block"].notna().to_numpy()
    waits = np.zeros(len(lives), bool)
    state = trace.blocks["state"].astype(object).to_numpy()
    waits[is_alive] = state[plain(lives["block"])[is_alive]] == "active_pending_free"
    has_requests = bool((trace.memory["action"] == "free_requested").any())
    found: NDArray[np.bool_] = is_unseen & (waits | (lives["free_completed"].notna().to_numpy(bool) & has_requests))
    return found


def _moment(memory: pd.DataFrame, row: int | None, ts: int | None) -> int:
    if row is not None and ts is not None:
        raise ValueError(f"blocks_at(row={row}, ts={ts}): two moments; give one of them.")
    if ts is not None:
        return int(np.searchsorted(memory["ts"].to_numpy(), ts, side="right")) - 1
    return len(memory) if row is None else row


def memory_peak(trace: Trace, device: int | None = None, *, of: str = "allocated_bytes") -> pd.Series:
    """When a device held the most, in the history.

    Args:
        trace: With a history.
        device: Which device; None for the one that held the most.
        of: ``allocated_bytes``, ``active_bytes``, ``requested_bytes`` or ``reserved_bytes``.

    Returns:
        ``device``, ``row`` of ``trace.memory`` after which it first held that much (-1: before the first of them; for
        `blocks_at`), ``ts`` (missing then), and ``num_bytes``. All missing where there is neither history nor block.
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
    """What each pool, stream or device held after each action, counted backward from the blocks at the end.

    Args:
        trace: With a history.
        by: Columns that ``memory`` and ``blocks`` share and that tell groups apart: of ``device``, ``stream``,
            ``pool_id_first``, ``pool_id_second``.

    Returns:
        A row per row of ``trace.memory``: the columns `by`, and ``allocated_bytes``, ``active_bytes``,
        ``requested_bytes`` and ``reserved_bytes`` of the action's own group after it. An action whose group is not
        known counts for a group of its own, which has held nothing at the end.
    """
    memory, blocks = trace.memory, trace.blocks
    changes = {name: np.zeros(len(memory), np.int64) for name in _TOTALS}
    for one in replays(trace):
        for name, change in one.replay.changes.items():
            changes[name][one.rows] = change
    keys = pd.concat([memory[list(by)], blocks[list(by)]], ignore_index=True)
    group = keys.groupby(list(by), dropna=False, sort=False).ngroup().to_numpy()
    of_row, of_block = group[: len(memory)], group[len(memory) :]
    ends = _group_ends(blocks, of_block, int(group.max(initial=-1)) + 1)
    order = np.argsort(of_row, kind="stable")
    found = {name: np.empty(len(memory), np.int64) for name in _TOTALS}
    for name, change in changes.items():
        found[name][order] = _counted_back(change[order], of_row[order], ends[name])
    return memory[list(by)].assign(**found)


_TOTALS: Final = ("allocated_bytes", "active_bytes", "requested_bytes", "reserved_bytes")


def _group_ends(blocks: pd.DataFrame, group: Ints, num_groups: int) -> dict[str, Ints]:
    state, size = blocks["state"].astype(object).to_numpy(), blocks["num_bytes"].to_numpy()
    is_allocated = state == "active_allocated"
    is_active = is_allocated | (state == "active_pending_free")
    is_first = ~blocks.duplicated(["device", "segment_addr"]).to_numpy()
    amounts = {
        "allocated_bytes": np.where(is_allocated, size, 0),
        "active_bytes": np.where(is_active, size, 0),
        "requested_bytes": np.where(is_active, plain(blocks["requested_bytes"]), 0),
        "reserved_bytes": np.where(is_first, blocks["segment_bytes"].to_numpy(), 0),
    }
    ends = {name: np.zeros(num_groups, np.int64) for name in amounts}
    for name, amount in amounts.items():
        np.add.at(ends[name], group, amount)
    return ends


def _counted_back(change: Ints, group: Ints, ends: Ints) -> Ints:
    """Totals after each of `change`, which stand group by group, from what each group holds at its end."""
    if not len(change):
        return change
    total = np.cumsum(change)
    last = np.flatnonzero(np.append(group[1:] != group[:-1], True))
    at_last = np.zeros(len(ends), np.int64)
    at_last[group[last]] = total[last]
    counted: Ints = total - at_last[group] + ends[group]
    return counted
