"""The segments and blocks of a snapshot as the frame ``blocks``."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.frames.catalog_frames import frame_of
from cudalens.frames.column_arrays import Ints, categorical, map_texts, masked, nullable, text_column
from cudalens.frames.column_catalog import BLOCK_STATES
from cudalens.frames.snapshots.history import AtEnd, at_end
from cudalens.frames.snapshots.stacks import SnapshotStacks
from cudalens.frames.snapshots.values import Rows, Validator, flattened

_SEGMENT: Final = frozenset(
    {
        "address",
        "total_size",
        "allocated_size",
        "active_size",
        "requested_size",
        "stream",
        "segment_type",
        "segment_pool_id",
        "is_expandable",
        "device",
        "frames",
        "blocks",
    }
)
_BLOCK: Final = frozenset({"address", "size", "requested_size", "state", "frames", "history"})
_OTHER_NAMES: Final = {"active_awaiting_free": "active_pending_free"}
_ALLOCATED, _PENDING, _INACTIVE = range(3)


class SnapshotBlocks:
    """The blocks of a snapshot, in its order.

    Attributes:
        device: Device of each block, -1 if not recorded; shape (n,).
        addr: Its address, shape (n,).
        num_bytes: Its size, shape (n,).
        requested_bytes: Size that the program requested, 0 if not recorded; shape (n,).
        state: Index of its state in `BLOCK_STATES`, -1 for another; shape (n,).
    """

    def __init__(self, segments: list[dict[str, Any]], check: Validator, stacks: SnapshotStacks) -> None:
        flat, counts = flattened(segments, "blocks", "segments", check)
        if not counts.all():
            flat, counts = _with_whole_segments(segments, check)
        self._segments, self._blocks = Rows(segments, "segments", check), Rows(flat, "blocks", check)
        self._check, self._counts = check, counts
        self._segment = np.repeat(np.arange(len(counts)), counts)
        self._seg_bytes, _ = self._segments.sizes("total_size")
        self._seg_addr, self._no_seg_addr = self._segments.addresses("address")
        device, no_device = self._segments.ints("device")
        self.device: Ints = np.where(no_device | (device < 0) | (device >= 1 << 31), -1, device)[self._segment]
        self.num_bytes, _ = self._blocks.sizes("size")
        self.addr, self._no_addr = self._addresses()
        self.requested_bytes, self._no_request = self._blocks.sizes("requested_size")
        self.state, self._states = self._read_states()
        self._segment_stack = stacks.numbers(self._segments.values("frames"), "segments")
        self._stack = stacks.numbers(self._frame_lists(), "blocks")
        self._check_sums()

    def __len__(self) -> int:
        return len(self._blocks)

    @property
    def segment_ranges(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64], Any, Any]:
        """Begin and end of each segment, and the two numbers of its pool's id; shapes (s,)."""
        return (
            self._seg_addr,
            self._seg_addr + self._seg_bytes.astype(np.uint64),
            *self._segments.pairs("segment_pool_id"),
        )

    def at_end(self, device: int) -> tuple[AtEnd, Ints]:
        """Return what `device` held when the snapshot was taken, and the rows of its active blocks, both by address."""
        mine = self.device == device
        return at_end(
            self.addr,
            ~self._no_addr,
            self.num_bytes,
            self.requested_bytes,
            mine & (self.state == _ALLOCATED),
            mine & (self.state == _PENDING),
            int(self._seg_bytes[np.unique(self._segment[mine])].sum()),
        )

    def to_frame(self, alloc: Ints, allocated_ns: Any, user_metadata: Any, device_type: str) -> pd.DataFrame:
        """Return the frame.

        Args:
            alloc: Row of the memory frame that allocated each block, -1 for none; shape (n,).
            allocated_ns: Time of that, a nullable column of length n.
            user_metadata: The text that the program had set at that time, a categorical of length n.
            device_type: Type of the devices.
        """
        n, which = len(self), self._segment
        first, second = self._segments.pairs("segment_pool_id")
        is_inactive = self.state == _INACTIVE
        columns: dict[str, Any] = {
            "device_type": categorical(np.zeros(n, np.int64), [device_type]),
            "device": masked(self.device.astype(np.int32)),
            "segment_addr": nullable(self._seg_addr[which], self._no_seg_addr[which]),
            "segment_bytes": self._seg_bytes[which],
            "segment_type": self._segments.texts("segment_type")[which],
            "pool_id_first": first[which],
            "pool_id_second": second[which],
            "is_expandable": np.array([v is True for v in self._segments.values("is_expandable")], bool)[which],
            "segment_stack": self._segment_stack[which],
            "stream": nullable(*self._segments.ints("stream"))[which],
            "addr": nullable(self.addr, self._no_addr),
            "num_bytes": self.num_bytes,
            "requested_bytes": nullable(self.requested_bytes, self._no_request | is_inactive),
            "state": self._states,
            "allocated_ns": allocated_ns,
            "alloc": masked(alloc),
            "stack": self._stack,
            "user_metadata": user_metadata,
            "extra": self._extra(),
        }
        return frame_of("blocks", columns)

    def _addresses(self) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Address of each block; in old layouts it is computed from the segment's."""
        addr, missing = self._blocks.addresses("address")
        ends = np.cumsum(self.num_bytes)
        begins = ends - self.num_bytes
        first = np.cumsum(self._counts) - self._counts
        offset = begins - (begins[first][self._segment] if len(begins) else begins)
        counted = self._seg_addr[self._segment] + offset.astype(np.uint64)
        unknown = missing & self._no_seg_addr[self._segment]
        return np.where(missing, np.where(unknown, 0, counted), addr).astype(np.uint64), unknown

    def _read_states(self) -> tuple[Ints, pd.Categorical]:
        texts = self._blocks.texts("state")
        place = {name: i for i, name in enumerate(BLOCK_STATES)}
        codes = map_texts(texts, lambda name: place.setdefault(_OTHER_NAMES.get(name, name), len(place)), -1)
        return np.where(codes < len(BLOCK_STATES), codes, -1), categorical(codes, list(place))

    def _frame_lists(self) -> list[Any]:
        """Return the call stack of each block: its own, or in torch 2.0's layout that of its last allocation."""
        lists = self._blocks.values("frames")
        if not self._blocks.has("history"):
            return lists
        histories = self._blocks.values("history")
        latest = [h[0] if isinstance(h, list) and h and isinstance(h[0], dict) else {} for h in histories]
        return [own or last.get("frames") for own, last in zip(lists, latest, strict=True)]

    def _extra(self) -> pd.Categorical:
        own, shared = self._blocks.others(_BLOCK), self._segments.others(_SEGMENT)
        if not len(shared.categories):
            return own
        both = zip(shared[self._segment].astype(object), own.astype(object), strict=True)
        return text_column(_extra_text(segment, block) for segment, block in both)

    def _check_sums(self) -> None:
        """Count the segments whose sizes differ from the sums of their blocks."""
        n = len(self._counts)
        for key, states in (("total_size", None), ("allocated_size", (0,)), ("active_size", (0, 1))):
            recorded, missing = self._segments.sizes(key)
            part = np.ones(len(self), bool) if states is None else np.isin(self.state, states)
            found = np.zeros(n, np.int64)
            np.add.at(found, self._segment[part], self.num_bytes[part])
            if (bad := np.flatnonzero(~missing & (recorded != found))).size:
                where = f"segments[{bad[0]}].{key}"
                self._check.problems.add(f"segment whose blocks do not add up to its {key}", where, len(bad))


def _extra_text(segment: Any, block: Any) -> Any:
    if isinstance(segment, str):
        return f'{{"segment": {segment}, "block": {block}}}' if isinstance(block, str) else f'{{"segment": {segment}}}'
    return block


def _with_whole_segments(segments: list[dict[str, Any]], check: Validator) -> tuple[list[Any], Ints]:
    """Return the blocks, and one inactive block for each segment without blocks, so that no segment is lost."""
    flat: list[Any] = []
    counts = np.ones(len(segments), np.int64)
    for i, segment in enumerate(segments):
        blocks = segment.get("blocks")
        if blocks:
            counts[i] = len(blocks)
            flat += blocks
        else:
            check.problems.add("segment without blocks", f"segments[{i}]")
            flat.append({"address": segment.get("address"), "size": segment.get("total_size"), "state": "inactive"})
    return flat, counts
