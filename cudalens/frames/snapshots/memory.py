"""The allocator's history in a snapshot as the frame ``memory``."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.frames.catalog_frames import frame_of, missing_array
from cudalens.frames.column_arrays import Ints, categorical, is_category, nullable
from cudalens.frames.snapshots.blocks import SnapshotBlocks
from cudalens.frames.snapshots.history import ALLOC, TOTALS, kinds_of, replay
from cudalens.frames.snapshots.stacks import SnapshotStacks
from cudalens.frames.snapshots.values import Rows, Validator

_KNOWN: Final = frozenset(
    {
        "action",
        "addr",
        "size",
        "stream",
        "time_us",
        "frames",
        "device_free",
        "pool_id",
        "segment_pool_id",
        "user_metadata",
        "compile_context",
    }
)
_NO_CONTEXT: Final = ("", "N/A")
_MAX_US: Final = 1 << 53


@dataclass(frozen=True)
class Links:
    """Links between the history and the blocks.

    Attributes:
        totals: The totals after each action, by the names of the memory frame's columns, shapes (n,).
        alloc: Row of the memory frame that allocated each block, -1 for none; shape (number of blocks,).
    """

    totals: dict[str, Ints]
    alloc: Ints


class SnapshotMemory:
    """The actions of all devices, by time, those of one device in their order.

    Attributes:
        has_times: Whether every action has a time.
        end_ns: Time of the last action, or None.
    """

    def __init__(self, traces: list[list[Any]], check: Validator, stacks: SnapshotStacks) -> None:
        lengths = np.fromiter(map(len, traces), np.int64, len(traces))
        rows = list(chain.from_iterable(traces)) if len(traces) != 1 else traces[0]
        self._rows = Rows(rows, "device_traces", check)
        self._device = np.repeat(np.arange(len(traces)), lengths)
        self._bounds = np.concatenate([[0], np.cumsum(lengths)])
        self.ts, self.has_times = self._times(check)
        self.order = np.argsort(self.ts, kind="stable") if (lengths > 0).sum() > 1 else np.arange(len(rows))
        self.action = self._rows.texts("action")
        self.addr, self._no_addr = self._rows.addresses("addr")
        self.size, _ = self._rows.sizes("size")
        self._no_addr = self._no_addr | is_category(self.action, ("oom", "snapshot"))
        self._stack = stacks.numbers(self._rows.values("frames"), "device_traces")
        self._user_metadata = self._rows.texts("user_metadata")
        self.end_ns = int(self.ts.max()) if len(rows) and self.has_times else None

    def __len__(self) -> int:
        return len(self._rows)

    def link(self, blocks: SnapshotBlocks, settings: Any) -> Links:
        """Totals after each action, and which action allocated each block."""
        kind = kinds_of(self.action, ~self._no_addr)
        totals = {name: np.zeros(len(self), np.int64) for name in TOTALS}
        alloc = np.full(len(blocks), -1, np.int64)
        row_of = np.empty(len(self), np.int64)
        row_of[self.order] = np.arange(len(self))
        for device, (begin, end) in enumerate(zip(self._bounds[:-1].tolist(), self._bounds[1:].tolist(), strict=True)):
            if begin == end:
                continue
            part = slice(begin, end)
            at_end, active = blocks.at_end(device)
            found = replay(kind[part], self.addr[part], self.size[part], at_end, settings)
            for name in TOTALS:
                totals[name][part] = found.totals[name]
            first = found.lifetimes.rows[found.lifetimes.first]
            seen = found.is_alive & (kind[part][first] == ALLOC)
            alloc[active[found.end_block[seen]]] = row_of[begin + first[seen]]
        return Links({name: values[self.order] for name, values in totals.items()}, alloc)

    def block_allocations(self, links: Links) -> tuple[Any, pd.Categorical]:
        """Return the time of each block's allocation, and the text that the program had set at that time."""
        row = np.append(self.order, -1)[links.alloc]
        is_missing = (row < 0) | (not self.has_times)
        return nullable(np.append(self.ts, 0)[row], is_missing), self._user_metadata.take(row, allow_fill=True)

    def to_frame(self, links: Links, blocks: SnapshotBlocks, device_type: str) -> pd.DataFrame:
        """Return the frame."""
        rows, n, order = self._rows, len(self), self.order
        nothing = np.zeros(n, bool)
        first, second = self._pools(blocks)
        columns: dict[str, Any] = {
            "ts": self.ts,
            "action": self.action,
            "device_type": categorical(np.zeros(n, np.int64), [device_type]),
            "device": nullable(self._device.astype(np.int32), nothing),
            "addr": nullable(self.addr, self._no_addr),
            "num_bytes": self.size,
            "stream": nullable(*rows.ints("stream")),
            "pool_id_first": first,
            "pool_id_second": second,
            "device_free_bytes": nullable(*rows.sizes("device_free")),
            "user_metadata": self._user_metadata,
            "compile_context": rows.texts("compile_context", _NO_CONTEXT),
            "stack": self._stack,
            "extra": rows.others(_KNOWN),
        }
        is_sorted = bool((order[1:] > order[:-1]).all())
        columns = columns if is_sorted else {name: values.take(order) for name, values in columns.items()}
        columns |= {name: nullable(values, nothing.copy()) for name, values in links.totals.items()}
        return frame_of("memory", columns)

    def _times(self, check: Validator) -> tuple[Ints, bool]:
        """Return the time of each action, ns, ascending on each device; its position if times are missing."""
        time_us, missing = self._rows.ints("time_us")
        missing = missing | (time_us < 0) | (time_us >= _MAX_US)
        if missing.any() or not len(time_us):
            if not missing.all():
                where = f"device_traces, action {missing.argmax()}"
                check.problems.add("action without a usable time", where, int(missing.sum()))
            return np.concatenate([np.arange(k) for k in np.diff(self._bounds)] or [time_us]).astype(np.int64), False
        ts = time_us * 1000
        for begin, end in zip(self._bounds[:-1], self._bounds[1:], strict=True):
            np.maximum.accumulate(ts[begin:end], out=ts[begin:end])
        return ts, True

    def _pools(self, blocks: SnapshotBlocks) -> tuple[Any, Any]:
        """Return the pool of each action: as recorded, or that of the snapshot's segment around its address."""
        for key in ("pool_id", "segment_pool_id"):
            if self._rows.has(key):
                return self._rows.pairs(key)
        begins, ends, first, second = blocks.segment_ranges
        n = len(self)
        if not len(begins):
            return missing_array("Int64", n), missing_array("Int64", n)
        order = np.argsort(begins, kind="stable")
        at = np.searchsorted(begins[order], self.addr, side="right") - 1
        segment = order[np.maximum(at, 0)]
        inside = (at >= 0) & (self.addr < ends[segment]) & ~self._no_addr
        place = np.where(inside, segment, -1)
        return tuple(side.take(place, allow_fill=True) for side in (first, second))
