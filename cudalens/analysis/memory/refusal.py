"""The state of a device's memory when an allocation failed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from cudalens.analysis.cached import once_per_trace
from cudalens.analysis.memory.replay import blocks_at
from cudalens.analysis.memory.segments import segment_lifetimes
from cudalens.analysis.time.intervals import subtract, union
from cudalens.frames import Trace
from cudalens.frames.column_arrays import addresses, integers


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
