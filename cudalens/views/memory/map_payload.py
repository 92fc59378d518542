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

from cudalens.analysis import units
from cudalens.analysis.memory.holders import lifetime_categories
from cudalens.analysis.memory.replay import DeviceReplay, block_lifetimes, replays
from cudalens.analysis.memory.totals import fragmentation, segment_lifetimes
from cudalens.frames import Trace
from cudalens.frames.catalog_frames import BLOCK_CATEGORIES
from cudalens.frames.column_arrays import Ints, addresses, integers
from cudalens.frames.snapshots.build import HAS_TIMES
from cudalens.views.sections.markup import Node, element, svg
from cudalens.views.timeline.payload import VERSION
from cudalens.views.timeline.payload_codec import PayloadWriter

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


# Pictures of a device's memory as inline SVG: the curve over time, and the map of its pools at the end.
#
# They are for saved notebooks, reports before their scripts run, and print. Their size is bounded for any snapshot.
# Lines and text have the colour of the surrounding text (``currentColor``).

WIDTH: Final = 720
CURVE_HEIGHT: Final = 130
CURVE_TOP: Final = 16
_COLUMNS: Final = 320
_LINES: Final = (("reserved_bytes", "#7a8591"), ("active_bytes", "#c07020"), ("allocated_bytes", "#2f7fd6"))
HUES: Final = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a400", "#7a5cc4", "#8c6d46")
UNKNOWN: Final = "#8b96a1"
_FREE: Final = "#8b96a1"
_PALE: Final = "#c9d0d7"
_BAR: Final = 11
_ROW: Final = 13
_MAP_ROWS: Final = 22


def curve_svg(trace: Trace) -> Node | None:
    """Allocated, active and reserved memory over time of the device with most memory; None without a history."""
    devices = list(replays(trace))
    if not len(trace.memory) or not devices:
        return None
    one = max(devices, key=lambda each: each.peak("reserved_bytes"))
    if not len(one.rows):
        return None
    has_times = bool(trace.info.options.get(HAS_TIMES, True))
    ts = trace.memory["ts"].to_numpy()
    at = ts[one.rows] - ts[0] if has_times else one.rows + 1
    end = max(int(ts[-1] - ts[0]) if has_times else len(ts), 1)
    most = max(one.peak(name) for name, _ in _LINES) or 1
    bottom = CURVE_HEIGHT - 18
    lines = [curve_line(one, name, color, at / end, most, bottom) for name, color in _LINES]
    marks = _marks(trace, one, at / end, most, bottom)
    axis = element("path", d=f"M0 {bottom}H{WIDTH}", stroke="currentColor", stroke_opacity=".3")
    last = units.duration(end) if has_times else units.plural(end, "action")
    texts = [
        element("text", "0", x=0, y=CURVE_HEIGHT - 4, opacity=".7"),
        element("text", last, x=WIDTH, y=CURVE_HEIGHT - 4, text_anchor="end", opacity=".7"),
        *legend([(color, name.removesuffix("_bytes")) for name, color in reversed(_LINES)], 0, 10),
    ]
    label = f"Memory of cuda:{one.device} over time, peak {units.size(one.peak('allocated_bytes'))}"
    return svg(WIDTH, CURVE_HEIGHT, label, axis, *lines, *marks, *texts, **FONT)


FONT: Final = {"font_family": "system-ui,sans-serif", "font_size": 11, "fill": "currentColor", "class_": "cm-picture"}


def curve_line(
    one: DeviceReplay, name: str, color: str, at: NDArray[np.float64], most: int, bottom: int, end: float = 1.0
) -> Node:
    """One total of a device over time: the least and the most of each column, joined.

    Args:
        one: The device.
        name: The total, as ``allocated_bytes``.
        color: Colour of the line.
        at: Horizontal position of each of its actions, 0 to 1 of the width; shape (n,).
        most: Bytes at the top.
        bottom: Vertical position of 0 bytes, px.
        end: Where the line ends, 0 to 1 of the width.
    """
    values = one.replay.totals[name]
    column = np.minimum((at * _COLUMNS).astype(np.int64), _COLUMNS - 1)
    first = np.flatnonzero(np.diff(column, prepend=-1))
    low, high = np.minimum.reduceat(values, first), np.maximum.reduceat(values, first)
    last = values[np.append(first[1:], len(values)) - 1]

    def y(value: int) -> float:
        return float(bottom - (bottom - CURVE_TOP - 8) * max(int(value), 0) / most)

    path = f"M0 {y(one.start(name)):.1f}"
    for c, least, greatest, final in zip(column[first].tolist(), low, high, last, strict=True):
        path += f"H{(c + 0.5) * WIDTH / _COLUMNS:.1f}V{y(greatest):.1f}"
        path += f"V{y(least):.1f}V{y(final):.1f}" if least != greatest else ""
    return element("path", d=f"{path}H{max(WIDTH * end, 1):.1f}", fill="none", stroke=color, stroke_width="1.4")


def _marks(trace: Trace, one: DeviceReplay, at: NDArray[np.float64], most: int, bottom: int) -> list[Node]:
    """Marks for the peak and for failed allocations."""
    action = trace.memory["action"].astype(object).to_numpy()[one.rows]
    found = []
    for k in np.flatnonzero(action == "oom")[:20].tolist():
        x = WIDTH * at[k]
        found.append(element("path", d=f"M{x:.1f} {CURVE_TOP}V{bottom}", stroke="#d1443a", stroke_width="1.5"))
    values = one.replay.totals["allocated_bytes"]
    k = int(values.argmax())
    if one.start("allocated_bytes") >= values[k]:
        return found
    x, y = WIDTH * at[k], bottom - (bottom - CURVE_TOP - 8) * values[k] / most
    anchor, text_x = ("end", x - 7) if x > WIDTH / 2 else ("start", x + 7)
    text = f"peak {units.size(int(values[k]))}"
    found.append(element("path", d=f"M{x - 4:.1f} {y:.1f}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0", fill=_LINES[-1][1]))
    found.append(element("text", text, x=f"{text_x:.1f}", y=CURVE_TOP + 5, text_anchor=anchor, font_weight="600"))
    return found


def map_svg(trace: Trace) -> Node | None:
    """Segments and blocks of the device with most reserved memory at the end, row by row; area is bytes."""
    blocks = trace.blocks.dropna(subset=["addr", "segment_addr", "device"])
    if blocks.empty:
        return None
    segments = blocks.drop_duplicates(["device", "segment_addr"])
    reserved = segments.groupby("device")["segment_bytes"].sum()
    device = reserved.idxmax()
    blocks = blocks[(blocks["device"] == device).to_numpy(bool)]
    segments = segments[(segments["device"] == device).to_numpy(bool)].sort_values(
        ["pool_id_first", "pool_id_second", "stream", "segment_addr"], kind="stable"
    )
    cells, colors = _cells(blocks, segments)
    parts = [
        element("path", d="".join(_boxes(cells, code)), fill=color, fill_opacity=opacity)
        for code, color, opacity in colors
    ]
    height = _MAP_ROWS * _ROW + 20
    states = blocks["category"].astype(object)
    present = [(HUES[k], name) for k, name in enumerate(BLOCK_CATEGORIES) if (states == name).any()]
    unknown = [(UNKNOWN, "in use, category not known")] if (cells == len(HUES)).any() else []
    keys = legend([*present, *unknown, (_PALE, "free")], 0, 11)
    size, count = units.size(int(reserved[device])), units.plural(len(segments), "segment")
    label = f"Pools of cuda:{device} at the end: {size} in {count}"
    return svg(WIDTH, height, label, *keys, *parts, **FONT)


def _cells(blocks: pd.DataFrame, segments: pd.DataFrame) -> tuple[Ints, list[tuple[int, str, str]]]:
    """Return the colour number of each pixel of the map, -1 for none; shape (rows, columns)."""
    columns = WIDTH // 2
    total = max(int(segments["segment_bytes"].sum()), 1)
    start = np.cumsum(segments["segment_bytes"].to_numpy()) - segments["segment_bytes"].to_numpy()
    offset = dict(zip(segments["segment_addr"].tolist(), start.tolist(), strict=True))
    base = np.array([offset[addr] for addr in blocks["segment_addr"].tolist()], np.int64)
    inside = (addresses(blocks["addr"]) - addresses(blocks["segment_addr"])).astype(np.int64)
    begin = (base + inside) / total * columns * _MAP_ROWS
    end = begin + blocks["num_bytes"].to_numpy() / total * columns * _MAP_ROWS
    category = blocks["category"].cat.codes.to_numpy().astype(np.int64)
    code = np.where(category < 0, len(HUES), category)
    code[(blocks["state"] == "inactive").to_numpy()] = len(HUES) + 1
    flat = np.full(columns * _MAP_ROWS, len(HUES) + 1, np.int64)
    order = np.argsort(end - begin, kind="stable")  # the largest block of a pixel is written last
    for k in order.tolist() if len(order) <= 200_000 else order[-200_000:].tolist():
        flat[int(begin[k]) : max(round(float(end[k])), int(begin[k]) + 1)] = code[k]
    colors = [(k, hue, ".9") for k, hue in enumerate(HUES)]
    return flat.reshape(_MAP_ROWS, columns), [*colors, (len(HUES), UNKNOWN, ".9"), (len(HUES) + 1, _FREE, ".25")]


def _boxes(cells: Ints, code: int) -> list[str]:
    boxes = []
    for row, line in enumerate(cells):
        edges = np.flatnonzero(np.diff((line == code).astype(np.int8), prepend=0, append=0))
        y = 20 + row * _ROW
        for a, b in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            boxes.append(f"M{2 * a} {y}h{2 * (b - a)}v{_BAR}h-{2 * (b - a)}z")
    return boxes


def legend(entries: list[tuple[str, str]], x: float, y: float) -> list[Node]:
    """Return a legend from (x, y), px, in one row; each entry is a colour and a text."""
    nodes: list[Node] = []
    for color, text in entries:
        nodes.append(element("rect", x=f"{x:.0f}", y=y - 9, width=10, height=10, rx=2, fill=color))
        nodes.append(element("text", text, x=f"{x + 14:.0f}", y=y))
        x += 14 + 6.3 * len(text) + 18
    return nodes


def bar_svg(parts: list[tuple[float, str]], label: str, whole: float = 0) -> Node:
    """A bar of `parts`, each with bytes and a colour; the full width is `whole` bytes, or the sum of the parts."""
    whole = whole or sum(num for num, _ in parts) or 1
    nodes, x = [], 0.0
    for num, color in parts:
        width = WIDTH * num / whole
        nodes.append(element("rect", x=f"{x:.1f}", y=0, width=f"{max(width - 1, 0):.1f}", height=14, fill=color))
        x += width
    return svg(WIDTH, 14, label, *nodes, class_="cm-picture")
