"""The segments, blocks, history and call stacks of a snapshot as frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.frames.catalog_frames import BLOCK_STATES, empty_frame, frame_of, missing_array
from cudalens.frames.column_arrays import Ints, categorical, is_category, map_texts, masked, nullable, text_column
from cudalens.frames.snapshots.history import (
    ALLOC,
    TOTALS,
    AtEnd,
    Rows,
    Validator,
    at_end,
    flattened,
    kinds_of,
    replay,
    text,
)

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
            # A segment without blocks gets an inactive one, so that no segment is lost.
            flat = []
            counts = np.ones(len(segments), np.int64)
            for i, segment in enumerate(segments):
                blocks = segment.get("blocks")
                if blocks:
                    counts[i] = len(blocks)
                    flat += blocks
                else:
                    check.problems.add("segment without blocks", f"segments[{i}]")
                    flat.append(
                        {"address": segment.get("address"), "size": segment.get("total_size"), "state": "inactive"}
                    )
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
        texts = []
        for segment, block in both:
            if not isinstance(segment, str):
                texts.append(block)
            elif isinstance(block, str):
                texts.append(f'{{"segment": {segment}, "block": {block}}}')
            else:
                texts.append(f'{{"segment": {segment}}}')
        return text_column(texts)

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


_KNOWN_STACK_FRAMES: Final = frozenset({"filename", "name", "line"})
_NO_FILE: Final = frozenset({"", "??"})
_MAX_LINE: Final = (1 << 31) - 1
_LISTS_AT_ONCE: Final = 1 << 16


class SnapshotStacks:
    """Collects the lists of stack frames that a snapshot's rows carry, innermost first.

    torch shares the dicts of stack frames between lists, and lists between rows. A hash of the identities of their
    dicts, with random multipliers, distinguishes the lists (the probability of a collision is about 2**-58). One list
    of each hash is read, and lists of equal content get one number. The snapshot must stay alive while lists are added.
    """

    def __init__(self, check: Validator) -> None:
        self._check = check
        self._multipliers = np.empty(0, np.uint64)
        self._number_of_hash: dict[int, int] = {}
        self._by_content: dict[tuple[int, ...], int] = {}
        self._frame_by_object: dict[int, int] = {}
        self._frames: dict[tuple[Any, Any, Any, str | None], int] = {}

    def numbers(self, lists: Sequence[Any], position: str) -> pd.arrays.IntegerArray:
        """Return the stack's number for each of `lists`; missing for None and for an empty list.

        Raises:
            TraceFormatError: One is not a list of dicts.
        """
        if not lists:
            return masked(np.empty(0, np.int64))
        which, identities = pd.factorize(np.fromiter(map(id, lists), np.int64, len(lists)))
        first = np.empty(len(identities), np.int64)
        first[which[::-1]] = np.arange(len(lists))[::-1]
        distinct = [lists[i] for i in first.tolist()]
        numbers = np.full(len(distinct), -1, np.int64)
        require = self._check.require
        filled = [i for i, entry in enumerate(distinct) if entry is not None and require(entry, list, position)]
        for begin in range(0, len(filled), _LISTS_AT_ONCE):
            part = filled[begin : begin + _LISTS_AT_ONCE]
            numbers[part] = self._numbers([distinct[i] for i in part], position)
        return masked(numbers[which])

    def to_frame(self) -> pd.DataFrame:
        """Return the table as the Trace's ``stacks`` frame."""
        if not self._by_content:
            return empty_frame("stacks")
        depths: Ints = np.fromiter(map(len, self._by_content), np.int64, len(self._by_content))
        which = np.fromiter((n for stack in self._by_content for n in stack), np.int64, int(depths.sum()))
        files, functions, extras = (text_column(frame[i] for frame in self._frames) for i in (0, 1, 3))
        lines = np.array([-1 if frame[2] is None else frame[2] for frame in self._frames], np.int32)[which]
        ends = np.cumsum(depths)
        return frame_of(
            "stacks",
            {
                "stack": np.repeat(np.arange(len(depths)), depths),
                "position": (np.arange(len(which)) - np.repeat(ends - depths, depths)).astype(np.int32),
                "file": files[which],
                "line": masked(lines),
                "function": functions[which],
                "extra": extras[which],
            },
        )

    def _numbers(self, lists: list[list[Any]], position: str) -> list[int]:
        """Return the number of each of `lists`, all of which are non-empty."""
        hashes, known = self._hashes(lists), self._number_of_hash
        for i, key in enumerate(hashes):
            if key not in known:
                known[key] = self._content(lists[i], position)
        return [known[key] for key in hashes]

    def _hashes(self, lists: list[list[Any]]) -> list[int]:
        lengths = np.fromiter(map(len, lists), np.int64, len(lists))
        ends = np.cumsum(lengths)
        identities = np.fromiter(map(id, chain.from_iterable(lists)), np.uint64, int(ends[-1]))
        position = np.arange(len(identities)) - np.repeat(ends - lengths, lengths)
        if (longest := int(lengths.max())) > len(self._multipliers):
            more = np.random.default_rng().integers(0, 1 << 64, longest - len(self._multipliers), np.uint64)
            self._multipliers = np.append(self._multipliers, more | np.uint64(1))
        return np.add.reduceat(identities * self._multipliers[position], ends - lengths).tolist()

    def _content(self, entry: list[Any], position: str) -> int:
        known = self._frame_by_object
        content = tuple(
            known[id(frame)] if id(frame) in known else self._frame(frame, f"{position}: frames") for frame in entry
        )
        return self._by_content.setdefault(content, len(self._by_content))

    def _frame(self, frame: Any, position: str) -> int:
        self._check.require(frame, dict, position)
        file, name, line = frame.get("filename"), frame.get("name"), frame.get("line")
        key = (
            text(file) if type(file) is str and file not in _NO_FILE else None,
            text(name) if type(name) is str and name else None,
            line if type(line) is int and 0 < line <= _MAX_LINE else None,
            self._check.fields_to_json(frame, frame.keys() - _KNOWN_STACK_FRAMES, position),
        )
        number = self._frames.setdefault(key, len(self._frames))
        self._frame_by_object[id(frame)] = number
        return number
