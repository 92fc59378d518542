"""Write a device's memory as one binary payload: allocations with their lifetimes, segments, call stacks, times.

The page computes everything that it shows from these: the live allocations at any time, the curves, the totals. Each
allocation is sent once, independent of the length of the history; ``js/memory/data.js`` reads it. Times are rows of
``trace.memory``: an allocation that begins at row r exists after row r. Text is data and is never put into markup.
"""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis.memory.holders import lifetime_categories
from cudalens.analysis.memory.replay import block_lifetimes, replays
from cudalens.analysis.memory.segments import segment_lifetimes
from cudalens.analysis.memory.totals import fragmentation
from cudalens.frames import Trace
from cudalens.frames.catalog_frames import BLOCK_CATEGORIES
from cudalens.frames.column_arrays import addresses, integers
from cudalens.frames.snapshots.build import HAS_TIMES
from cudalens.views.timeline.payload import VERSION
from cudalens.views.timeline.payload_codec import PayloadWriter

Ints = NDArray[np.int64]

#: Maximum number of failures and snapshots that are marked on the axis.
MAX_MARKS: Final = 2000

_POOL: Final = ("device", "stream", "pool_id_first", "pool_id_second")

#: Longest text of a fact about a block, in characters.
_MAX_FACT: Final = 400

#: Allocations differ in how well they compress; with this factor on the estimate, the second try usually fits.
_SPARE: Final = 0.96


def pack(trace: Trace, *, compress: bool = True, max_bytes: int | None = None) -> bytes:
    """Return the memory of `trace` as one binary payload.

    Args:
        trace: A trace with blocks, or with the history of a snapshot.
        compress: Deflate the columns; not useful if the bytes stay on one machine.
        max_bytes: If the payload is longer, the smallest allocations are left out; ``header.hidden`` counts them, and
            their sizes are sent as a coarse curve, so that the totals are correct. None: everything is sent.
    """
    allocations = block_lifetimes(trace)
    allocations = allocations.assign(category=lifetime_categories(trace, allocations))
    packed = _packed(trace, allocations, len(allocations), compress=compress)
    if max_bytes is None or len(packed) <= max_bytes:
        return packed
    bare = _packed(trace, allocations, 0, compress=compress)
    num_kept, room = len(allocations), max(max_bytes - len(bare), 0)
    while num_kept and len(packed) > max_bytes:
        share = room / max(len(packed) - len(bare), 1)
        num_kept = int(num_kept * min(share, 1.0) * _SPARE)
        packed = _packed(trace, allocations, num_kept, compress=compress) if num_kept else bare
    return packed


def _packed(trace: Trace, allocations: pd.DataFrame, num_kept: int, *, compress: bool) -> bytes:
    writer = PayloadWriter(compress=compress)
    pieces = segment_lifetimes(trace)
    known = _Known(trace, allocations, pieces)
    shown, hidden = kept_allocations(allocations, num_kept)
    header: dict[str, Any] = {"version": VERSION, "name": trace.info.name[:300], "num_rows": len(trace.memory)}
    header |= {"devices": known.devices, "pools": known.pools, "base": str(known.base)}
    header |= {"categories": list(BLOCK_CATEGORIES)}
    header["unit"] = _unit(allocations["num_bytes"].to_numpy())
    header["piece_unit"] = _unit(pieces["num_bytes"].to_numpy())
    header |= _add_allocations(writer, trace, shown, known, header["unit"])
    _add_pieces(writer, trace, pieces, known, header["piece_unit"])
    add_stacks(writer, trace.stacks, known.stacks)
    # Add the time of each action, and the marks on the axis: failed allocations and snapshots.
    memory = trace.memory
    has_times = bool(len(memory)) and bool(trace.info.options.get(HAS_TIMES, True))
    ts = memory["ts"].to_numpy() if has_times else np.empty(0, np.int64)
    steps = np.diff(ts)
    unit = max(int(np.gcd.reduce(steps)), 1) if len(steps) else 1
    writer.add_ints("clock.steps", steps // unit)
    action = memory["action"].astype(object)
    marked = np.flatnonzero(action.isin(["oom", "snapshot"]).to_numpy())[:MAX_MARKS]
    rows = memory.iloc[marked]
    marks = [
        {"row": int(row), "kind": str(kind), "bytes": int(size), "free": None if pd.isna(free) else int(free)}
        | {"device": None if pd.isna(device) else int(device)}
        for row, kind, size, free, device in zip(
            marked, action.iloc[marked], rows["num_bytes"], rows["device_free_bytes"], rows["device"], strict=True
        )
    ]
    header |= {"has_times": has_times, "t0": str(ts[0]) if has_times else "0", "time_unit": unit, "marks": marks}
    header["hidden"] = add_rest(writer, trace, hidden, known.device_code(hidden), len(known.devices))
    return writer.to_bytes(header)


class _Known:
    """Tables that several columns refer to: devices, pools, stacks, addresses."""

    def __init__(self, trace: Trace, allocations: pd.DataFrame, pieces: pd.DataFrame) -> None:
        types = trace.blocks["device_type"].dropna().astype(str)
        kind = types.iloc[0] if len(types) else "cuda"
        self.indices = [one.device for one in replays(trace)]
        # Free memory at the end as `fragmentation` computes it, which includes blocks without an address.
        names = {"internal": "internal_bytes", "external": "external_bytes", "empty": "empty_bytes"}
        names["largest"] = "largest_free_bytes"
        ends = {
            int(row["device"]): {name: int(row[column]) for name, column in names.items()}
            for row in fragmentation(trace).to_dict("records")
            if not pd.isna(row["device"])
        }
        self.devices = [
            {"index": one.device, "label": f"{kind}:{one.device}"[:40], **_totals(one), "end": ends.get(one.device)}
            for one in replays(trace)
        ]
        found = [addresses(frame["addr"])[frame["addr"].notna().to_numpy()] for frame in (allocations, pieces)]
        joined = np.concatenate(found)
        self.base = int(joined.min()) if len(joined) else 0
        keys = pd.concat([allocations[list(_POOL)], pieces[list(_POOL)]], ignore_index=True)
        code = keys.groupby(list(_POOL), dropna=False, sort=True).ngroup().to_numpy().astype(np.int64)
        self.allocation_pool, self.piece_pool = code[: len(allocations)], code[len(allocations) :]
        first = keys[~pd.Series(code).duplicated().to_numpy()]
        order = np.argsort(code[first.index.to_numpy()], kind="stable")
        self.pools = _pool_facts(trace, first.iloc[order])
        self.stacks = np.unique(integers(allocations["stack"].dropna(), 0))

    def device_code(self, frame: pd.DataFrame) -> Ints:
        """Index in `devices` of the device of each row of `frame`."""
        return np.searchsorted(np.array(self.indices, np.int64), integers(frame["device"], 0)).astype(np.int64)

    def offset(self, frame: pd.DataFrame) -> Ints:
        """Address of each row of `frame` minus `base`."""
        return (addresses(frame["addr"], self.base) - np.uint64(self.base)).astype(np.int64)


def _totals(one: Any) -> dict[str, int]:
    names = ("allocated_bytes", "active_bytes", "requested_bytes", "reserved_bytes")
    return {name: int(getattr(one.end, name)) for name in names}


def _pool_facts(trace: Trace, keys: pd.DataFrame) -> list[dict[str, Any]]:
    """Return each pool for the page: device, stream, private pool, and the graphs that use it."""
    graphs = trace.blocks.dropna(subset=["graph"])
    named = {
        pair: sorted({str(graph)[:100] for graph in rows["graph"]})[:20]
        for pair, rows in graphs.groupby(["pool_id_first", "pool_id_second"], dropna=False)
    }
    facts = []
    for row in keys.itertuples(index=False):
        device, stream, first, second = (None if pd.isna(value) else int(value) for value in row)
        facts.append(
            {"device": device, "stream": stream, "pool": [first, second], "graphs": named.get((first, second), [])}
        )
    return facts


def _unit(sizes: Ints) -> int:
    """Return the greatest common divisor of the sizes; 1 for none."""
    return max(int(np.gcd.reduce(sizes)), 1) if len(sizes) else 1


def _add_allocations(
    writer: PayloadWriter, trace: Trace, allocations: pd.DataFrame, known: _Known, unit: int
) -> dict[str, Any]:
    """Add a row per allocation, in order of time."""
    begin = integers(allocations["alloc"])
    order = np.lexsort((addresses(allocations["addr"]), begin))
    allocations, begin, pool = (
        allocations.iloc[order],
        begin[order],
        known.allocation_pool[allocations.index.to_numpy()][order],
    )
    released, done = _ends(trace, allocations)
    offsets, place = np.unique(known.offset(allocations), return_inverse=True)
    size, asked = allocations["num_bytes"].to_numpy(), allocations["requested_bytes"]
    writer.add_ints("addr.steps", np.diff(offsets, prepend=0))
    writer.add_ints("allocation.addr", place)
    writer.add_ints("allocation.device", known.device_code(allocations))
    writer.add_ints("allocation.pool", pool)
    writer.add_ints("allocation.units", size // unit)
    writer.add_ints("allocation.is_asked", asked.notna().to_numpy().astype(np.int64))
    writer.add_ints("allocation.spare", np.where(asked.notna(), size - integers(asked, 0), 0))
    writer.add_ints("allocation.alloc", np.diff(begin + 1, prepend=0))
    writer.add_ints("allocation.released", np.where(released < -1, 0, released - begin + 1))
    writer.add_ints("allocation.done", np.where(done < -1, 0, done - np.maximum(released, begin) + 1))
    stack = np.searchsorted(known.stacks, integers(allocations["stack"])) + 1
    writer.add_ints("allocation.stack", np.where(allocations["stack"].isna().to_numpy(), 0, stack))
    writer.add_ints("allocation.category", allocations["category"].cat.codes.to_numpy().astype(np.int64) + 1)
    writer.add_ints("allocation.block", np.diff(integers(allocations["block"]), prepend=-1))
    # Add facts about blocks that were alive at the end: names, tensors, cell, graphs, user metadata.
    is_alive = allocations["block"].notna().to_numpy()
    part = trace.blocks.iloc[integers(allocations["block"], 0)[is_alive]]
    columns = ("names", "num_tensors", "cell", "graph", "user_metadata")
    rows = zip(*(part[name].astype(object) for name in columns), strict=True)
    texts: dict[str, int] = {}
    code = np.zeros(len(allocations), np.int64)
    code[is_alive] = [texts.setdefault(_facts_text(columns, row), len(texts)) for row in rows]
    writer.add_ints("allocation.facts", code + is_alive)
    writer.add_texts("facts", list(texts))
    return {"num_lives": len(allocations)}


def _ends(trace: Trace, allocations: pd.DataFrame) -> tuple[Ints, Ints]:
    """Return the rows at which each stops being allocated, and being active; -2 for never. Shapes (n,).

    As in the replay of the history: a block that is freed without an allocation and a request in the history was
    already waiting when the history began; unless the history has no requests at all.
    """
    begin, asked = integers(allocations["alloc"]), integers(allocations["free_requested"], -2)
    done = integers(allocations["free_completed"], -2)
    has_requests = bool((trace.memory["action"] == "free_requested").any())
    waited = (begin < 0) & (asked < -1) & (done > -2) & has_requests
    state = trace.blocks["state"].astype(object).to_numpy()
    is_alive = allocations["block"].notna().to_numpy()
    pending = np.zeros(len(allocations), bool)
    pending[is_alive] = state[integers(allocations["block"], 0)[is_alive]] == "active_pending_free"
    released = np.where(asked > -2, asked, np.where(waited | pending, begin, done))
    return np.where(released > -2, np.maximum(released, begin), -2), done


def _facts_text(columns: tuple[str, ...], row: tuple[Any, ...]) -> str:
    facts = {
        name: int(value) if name == "num_tensors" else str(value)[:_MAX_FACT]
        for name, value in zip(columns, row, strict=True)
        if not pd.isna(value)
    }
    return json.dumps(facts) if facts else ""


def _add_pieces(writer: PayloadWriter, trace: Trace, pieces: pd.DataFrame, known: _Known, unit: int) -> None:
    """Add a row per range of reserved memory, by address."""
    offset = known.offset(pieces)
    order = np.lexsort((integers(pieces["added"]), offset))
    pieces, offset = pieces.iloc[order], offset[order]
    added, removed = integers(pieces["added"]), integers(pieces["removed"], -2)
    writer.add_ints("piece.addr", np.diff(offset, prepend=0))
    writer.add_ints("piece.device", known.device_code(pieces))
    writer.add_ints("piece.pool", known.piece_pool[order])
    writer.add_ints("piece.units", pieces["num_bytes"].to_numpy() // unit)
    writer.add_ints("piece.added", added + 1)
    writer.add_ints("piece.removed", removed + 2)
    kind, grows = _segment_facts(trace, pieces, added, removed)
    writer.add_ints("piece.kind", kind)
    writer.add_ints("piece.grows", grows)


def _segment_facts(trace: Trace, pieces: pd.DataFrame, added: Ints, removed: Ints) -> tuple[Ints, Ints]:
    """Type (0 unknown, 1 small, 2 large) and whether the segment is expandable, of each range; shapes (n,)."""
    segments = trace.blocks.dropna(subset=["segment_addr"]).drop_duplicates("segment_addr").sort_values("segment_addr")
    begin = addresses(segments["segment_addr"])
    at = np.searchsorted(begin, addresses(pieces["addr"]), side="right") - 1
    inside = (at >= 0) & (removed < -1)
    types = segments["segment_type"].astype(object).map({"small": 1, "large": 2}).fillna(0).to_numpy(np.int64)
    expandable = segments["is_expandable"].to_numpy(bool)
    kind, grows = np.zeros(len(pieces), np.int64), np.zeros(len(pieces), np.int64)
    kind[inside], grows[inside] = types[at[inside]], expandable[at[inside]]
    action = trace.memory["action"].astype(object).to_numpy()
    for rows, name in ((added, "segment_map"), (removed, "segment_unmap")):
        seen = rows >= 0
        grows[seen] |= action[rows[seen]] == name
    return kind, grows


#: Maximum number of points of the curve of left-out allocations.
MAX_STEPS: Final = 4000


def kept_allocations(allocations: pd.DataFrame, num_kept: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The `num_kept` rows to send (first those alive at the end, then the largest) and the rows that are left out."""
    if num_kept >= len(allocations):
        return allocations, allocations.iloc[:0]
    order = np.lexsort((-allocations["num_bytes"].to_numpy(), allocations["block"].isna().to_numpy()))
    is_kept = np.zeros(len(allocations), bool)
    is_kept[order[:num_kept]] = True
    return allocations[is_kept], allocations[~is_kept]


def add_rest(
    writer: PayloadWriter, trace: Trace, hidden: pd.DataFrame, device: Ints, num_devices: int
) -> dict[str, Any]:
    """Add the columns ``rest.*``: how the rows `hidden` change each device's totals, interval by interval.

    Args:
        writer: The payload.
        trace: The trace of the rows.
        hidden: Rows of `block_lifetimes` that are not sent.
        device: Position of the device of each row, shape (n,).
        num_devices: Number of devices.

    Returns:
        For the header: ``num`` and ``bytes`` of the hidden rows, and ``stretch``, the number of rows of the history in
        each interval.
    """
    num_rows = len(trace.memory)
    stretch = max(1, -(-num_rows // MAX_STEPS))
    num_steps = -(-num_rows // stretch) if len(hidden) else 0
    size = hidden["num_bytes"].to_numpy()
    done = integers(hidden["free_completed"])
    asked = integers(hidden["free_requested"])
    for name, end in (("allocated", np.where(asked >= 0, asked, done)), ("active", done)):
        changes = np.zeros((num_devices, num_steps), np.int64)
        for row, sign in ((integers(hidden["alloc"]), 1), (end, -1)):
            seen = row >= 0
            np.add.at(changes, (device[seen], row[seen] // stretch), sign * size[seen])
        writer.add_ints(f"rest.{name}", changes.ravel())
    return {"num": len(hidden), "bytes": int(size.sum()), "stretch": stretch}


#: Longest name of a file or function that is sent, in characters.
MAX_TEXT: Final = 400


def add_stacks(writer: PayloadWriter, stacks: pd.DataFrame, wanted: Ints) -> None:
    """Add the columns ``frame.*`` and ``stack.*``.

    Args:
        writer: The payload.
        stacks: The frame ``stacks``.
        wanted: Ids of the stacks to add, ascending; shape (k,).
    """
    entries = stacks[np.isin(stacks["stack"].to_numpy(), wanted)]
    owner = np.searchsorted(wanted, entries["stack"].to_numpy())
    order = np.lexsort((entries["position"].to_numpy(), owner))
    entries, owner = entries.iloc[order], owner[order]
    keys = pd.DataFrame(
        {
            "file": _add_names(writer, "files", entries["file"]),
            "line": integers(entries["line"]) + 1,
            "function": _add_names(writer, "functions", entries["function"]),
        }
    )
    code = keys.groupby(list(keys), sort=False).ngroup().to_numpy().astype(np.int64)
    first = keys[~pd.Series(code).duplicated().to_numpy()]
    for name in keys:
        writer.add_ints(f"frame.{name}", first[name].to_numpy())
    writer.add_ints("stack.sizes", np.bincount(owner, minlength=len(wanted)))
    writer.add_ints("stack.frames", code)


def _add_names(writer: PayloadWriter, name: str, column: pd.Series) -> Ints:
    """Add the texts of `column`; returns the index of each row's text, 0 for a missing one."""
    codes, uniques = pd.factorize(column.astype(object))
    writer.add_texts(name, ["", *(_cut(str(text)) for text in uniques)])
    return codes.astype(np.int64) + 1


def _cut(text: str) -> str:
    """`text`, or its end if it is too long: the end of a path is the most specific part."""
    return text if len(text) <= MAX_TEXT else f"…{text[-MAX_TEXT:]}"
