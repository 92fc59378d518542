"""The section on a device's memory, and two snapshots side by side: curves, maps, fragmentation, holders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis import memory_diff as found_diff
from cudalens.analysis import units
from cudalens.analysis.facts import memory_at_end, memory_high, memory_pools
from cudalens.analysis.memory.holders import active_blocks, lifetime_categories, memory_holders
from cudalens.analysis.memory.replay import DeviceReplay, blocks_at, replays
from cudalens.analysis.memory.totals import fragmentation
from cudalens.frames import Trace
from cudalens.frames.snapshots.build import HAS_TIMES, SNAPSHOT_KEYS
from cudalens.views.compare.changes import signed_size
from cudalens.views.memory.map_payload import CURVE_HEIGHT, FONT, WIDTH, bar_svg, curve_line, curve_svg, legend, map_svg
from cudalens.views.memory.words import NATIVE, frames_of, holder_words, label_of_text
from cudalens.views.sections import verdict
from cudalens.views.sections.markup import Node, element, signed_bar, svg
from cudalens.views.sections.model import Block, Cell, Column, Note, Picture, Row, Section, Table, Text
from cudalens.views.sections.shown import Shown

#: The parts of reserved memory, with their colours.
PARTS: Final = (
    ("requested_bytes", "asked for", "#2f7fd6"),
    ("internal_bytes", "rounding", "#e0733f"),
    ("external_bytes", "gaps", "#8b96a1"),
    ("empty_bytes", "cached", "#c9d0d7"),
)
_MAX_HOLDERS: Final = 8
_MAX_POOLS: Final = 12
_MAX_DEVICES: Final = 8
_POOL_SIZES: Final = {
    "reserved_bytes": "reserved",
    "allocated_bytes": "allocated",
    "pending_bytes": "waiting",
    "internal_bytes": "rounding",
    "free_bytes": "free",
    "largest_free_bytes": "largest free",
}
_IN_TEXT: Final = ("reserved_bytes", "allocated_bytes", "free_bytes", "largest_free_bytes")


def has_memory_map(trace: Trace) -> bool:
    """Return whether `trace` has blocks of the allocator, or the history of a snapshot."""
    return len(trace.blocks) > 0 or (len(trace.memory) > 0 and SNAPSHOT_KEYS in trace.info.options)


def is_first(trace: Trace) -> bool:
    """Return whether memory is the subject of `trace`: it is from a snapshot, or has no timeline."""
    return has_memory_map(trace) and (SNAPSHOT_KEYS in trace.info.options or not _has_timeline(trace))


def is_alone(trace: Trace) -> bool:
    """Return whether `trace` has memory, and neither a timeline nor readings."""
    return has_memory_map(trace) and not _has_timeline(trace) and not len(trace.metrics)


def _has_timeline(trace: Trace) -> bool:
    return len(trace.events) > 0 and verdict.has_profile(trace)


def section(trace: Trace) -> Section | None:
    """Return the memory of `trace` without `pictures`, at most about 60 KB of HTML; None if there is none."""
    if not has_memory_map(trace):
        return None
    tables = [*_variables(trace), *_moments(trace), *_pools(trace)]
    titled = (Section("", "cm", blocks=(table,)) for table in tables)
    return Section("memory", "cm", blocks=(*_fragmentation(trace), *titled))


def pictures(trace: Trace) -> tuple[Picture, ...]:
    """Return the curve of memory over time, and the map of segments and blocks."""
    return tuple(Picture(svg) for svg in (curve_svg(trace), map_svg(trace)) if svg is not None)


def pools(trace: Trace) -> Section | None:
    """Return the pools at the end; None if there are none."""
    return Section("memory", "cm", blocks=tuple(_pools(trace))) if has_memory_map(trace) else None


def holders(trace: Trace) -> Shown:
    """Return the variables that hold memory at the end, as text."""
    return Shown(Section("memory", "cm", blocks=tuple(_variables(trace))))


def _fragmentation(trace: Trace) -> Iterator[Block]:
    """Yield a bar for each device, with its numbers."""
    for row in memory_at_end(trace).head(_MAX_DEVICES).to_dict("records"):
        if reserved := int(row["reserved_bytes"]):
            line = f"cuda:{row['device']}: {units.size(reserved)} reserved: {part_words(row)}"
            yield Picture(bar_svg([(int(row[key]), color) for key, _, color in PARTS], line))
            yield Note(f"{line}; largest free block {units.size(int(row['largest_free_bytes']))}", "line")


def part_words(row: Any) -> str:
    """``requested 5.00 MiB (62 %), rounding …`` of a row of `fragmentation`."""
    whole = max(int(row.get("reserved_bytes", 0)), 1)
    sizes = ((label, int(row.get(key, 0))) for key, label, _ in PARTS)
    return ", ".join(f"{label} {units.size(size)} ({units.percent(100 * size / whole)})" for label, size in sizes)


def _variables(trace: Trace) -> Iterator[Table]:
    """Yield the memory that the program's variables hold at the end."""
    if not trace.blocks["names"].isna().all():
        rows = memory_holders(trace).itertuples(index=False)
        yield _held("held by", [(holder_words(name), size, number) for name, size, number in rows])


def _moments(trace: Trace) -> Iterator[Table]:
    """Yield the live memory at the end, and at the peak of a history, by category and by line of the program."""
    blocks = active_blocks(trace)
    yield from _groups("at the end", trace, blocks, blocks["category"])
    peak = memory_high(trace)
    if not pd.isna(peak["row"]) and len(trace.memory):
        alive = blocks_at(trace, row=int(peak["row"]))
        alive = alive[(alive["device"] == peak["device"]).to_numpy(bool)].reset_index(drop=True)
        when = f"at the peak of {units.size(int(peak['num_bytes']))}"
        yield from _groups(when, trace, alive, lifetime_categories(trace, alive))


def _groups(when: str, trace: Trace, alive: pd.DataFrame, categories: pd.Series) -> Iterator[Table]:
    if categories.notna().any():
        kinds = categories.astype(object).where(categories.notna().to_numpy(), "not known")
        yield _held(f"{when}, by category", _sums(alive, kinds))
    stacks = alive["stack"].dropna().astype("int64")
    if len(stacks):
        frames = {number: str(frame or NATIVE) for number, frame in frames_of(trace, stacks.unique().tolist()).items()}
        lines = alive["stack"].map(frames, na_action="ignore").astype(object)
        yield _held(f"{when}, by line", _sums(alive, lines.where(lines.notna(), "stack not recorded")))


def _sums(alive: pd.DataFrame, keys: pd.Series) -> list[tuple[str, int, int]]:
    """Label, bytes and blocks of each group of the rows `alive`, most bytes first."""
    sums = alive["num_bytes"].groupby(keys.to_numpy(), sort=False).agg(["sum", "size"])
    sums = sums.sort_values("sum", ascending=False, kind="stable")
    return [(str(key), int(total), int(number)) for key, total, number in sums.itertuples()]


def _held(title: str, rows: list[tuple[str, int, int]]) -> Table:
    whole = max(sum(size for _, size, _ in rows), 1)
    cells = [
        Row((label, units.size(size), units.percent(100 * size / whole), units.count(number)))
        for label, size, number in rows[:_MAX_HOLDERS]
    ]
    return Table(_columns(title, "bytes", "share", "blocks"), cells, len(rows))


def _columns(title: str, *numbers: str) -> tuple[Column, ...]:
    return Column(title, text_width=56, html_width=90), *(Column(number, align="right") for number in numbers)


def _pools(trace: Trace) -> Iterator[Table]:
    found = memory_pools(trace)
    if found.empty:
        return
    has_devices = found["device"].nunique(dropna=False) > 1
    columns = (
        Column("pool at the end", text_width=44),
        *(Column(title, align="right", text_width=9 * (key in _IN_TEXT)) for key, title in _POOL_SIZES.items()),
        *(Column(title, align="right", text_width=0) for title in ("segments", "blocks")),
    )
    rows = [_pool(row, has_devices) for row in found.head(_MAX_POOLS).to_dict("records")]
    yield Table(columns, rows, len(found), more=("pool", ""), is_stacked=True)


def _pool(row: dict[Any, Any], has_devices: bool) -> Row:
    counts = (units.count(int(row[key])) for key in ("num_segments", "num_blocks"))
    return Row((pool_name(row, has_devices), *(units.size(int(row[key])) for key in _POOL_SIZES), *counts))


def pool_name(row: dict[Any, Any], has_device: bool) -> str:
    """Return the label of a pool: ``default pool, stream 0, large blocks``."""
    first, second = row["pool_id_first"], row["pool_id_second"]
    is_default = (pd.isna(first) or first == 0) and (pd.isna(second) or second == 0)
    device = "?" if pd.isna(row["device"]) else row["device"]
    parts = [f"cuda:{device}"] if has_device else []
    parts.append("default pool" if is_default else f"private pool ({_known(first)}, {_known(second)})")
    parts.append(f"stream {_known(row['stream'])}")
    if not pd.isna(row["segment_type"]):
        parts.append(f"{row['segment_type']} blocks")
    return ", ".join(parts)


def _known(value: Any) -> str:
    return "not recorded" if pd.isna(value) else str(value)


# Two snapshots of memory side by side: both curves on one axis, fragmentation, and the holders that changed.

BEFORE, AFTER = "#8b96a1", "#2f7fd6"
GROWN, SHRUNK = "#d1443a", "#1a8f5c"
_HEAD_CHARS: Final = 18
_MAX_ROWS: Final = 25
_MAX_TEXT: Final = 10
_NAME_WIDTH: Final = 48


@dataclass(frozen=True, repr=False)
class MemoryDiff(Shown):
    """The difference between two snapshots, shown as text, or as pictures and a table in a notebook.

    Attributes:
        before: The first snapshot.
        after: The second snapshot.
        by: The key of a row: ``stack``, ``holder``, or a column of ``blocks``.
        frame: A row per stack or value, as `cudalens.analysis.memory_diff` defines it.
    """

    before: Trace
    after: Trace
    by: str
    frame: pd.DataFrame

    @property
    def section(self) -> Section:
        """The change in one line, both curves, how the reserved memory is used, and the largest changes."""
        names = _names(self.before, self.after)
        sizes = [int(active_blocks(trace)["num_bytes"].sum()) for trace in (self.before, self.after)]
        first, second = (f"{name} ({units.size(size)})" for name, size in zip(names, sizes, strict=True))
        verdict = f"{signed_size(sizes[1] - sizes[0])} from {first} to {second}"
        curves = self._curves()
        pictures = (Picture(curves),) if curves is not None else ()
        return Section("memory", "cm", verdict=verdict, blocks=(*pictures, *self._bars(), self._changes()))

    def _sides(self) -> tuple[tuple[str, Trace, str], ...]:
        names = _names(self.before, self.after)
        return (names[0], self.before, BEFORE), (names[1], self.after, AFTER)

    def _curves(self) -> Node | None:
        """Allocated memory over time, of each side's device with most memory, on the same axes."""
        known = [curve for side in self._sides() if (curve := _curve(*side)) is not None]
        if len({curve.is_time for curve in known}) != 1:
            return None  # a history with times and one without have no common axis
        end = max(int(curve.at.max()) for curve in known) or 1
        most = max(curve.peak for curve in known) or 1
        bottom = CURVE_HEIGHT - 18
        lines = [
            curve_line(one.device, "allocated_bytes", one.color, one.at / end, most, bottom, one.at.max() / end)
            for one in known
        ]
        keys = [(one.color, f"{units.shorten(one.name, 40)}, peak {units.size(one.peak)}") for one in known]
        last = units.duration(end) if known[0].is_time else units.plural(end, "action")
        texts = [
            element("path", d=f"M0 {bottom}H{WIDTH}", stroke="currentColor", stroke_opacity=".3"),
            element("text", "0", x=0, y=CURVE_HEIGHT - 4, opacity=".7"),
            element("text", last, x=WIDTH, y=CURVE_HEIGHT - 4, text_anchor="end", opacity=".7"),
        ]
        label = "Allocated memory of both over time"
        return svg(WIDTH, CURVE_HEIGHT, label, *lines, *texts, *legend(keys, 0, 10), **FONT)

    def _bars(self) -> Iterator[Block]:
        """Reserved memory by use, all devices together, both on the same scale."""
        totals = [(name, fragmentation(trace).sum(numeric_only=True)) for name, trace, _ in self._sides()]
        most = max((float(total.get("reserved_bytes", 0)) for _, total in totals), default=0)
        for name, total in totals:
            line = f"{name}: {units.size(int(total.get('reserved_bytes', 0)))} reserved: {part_words(total)}"
            yield Picture(bar_svg([(float(total.get(key, 0)), color) for key, _, color in PARTS], line, most))
            yield Note(line, "line")

    def _changes(self) -> Block:
        found = self.frame[(self.frame["delta_bytes"] != 0).to_numpy() | (self.frame["delta_blocks"] != 0).to_numpy()]
        if found.empty:
            return Note("Nothing differs.")
        # The columns of both have their names, unless these are wide.
        names = _names(self.before, self.after)
        heads = names if max(map(len, names)) <= _HEAD_CHARS else ("before", "after")
        columns = (
            Column(self.by.replace("_", " "), text_width=_NAME_WIDTH, html_width=96),
            Column("", text_width=0),
            *(Column(title, align="right") for title in ("change", "blocks", *heads)),
        )
        most = int(found["delta_bytes"].abs().max()) or 1
        rows = [_row(row, self.by, most) for row in found.head(_MAX_ROWS).to_dict("records")]
        return Section("", "cm", blocks=(Table(columns, rows, len(found), _MAX_TEXT, is_stacked=True),))


def memory_diff(before: Trace, after: Trace, *, by: str = "stack") -> MemoryDiff:
    """Return the difference of `after` and `before` for display; arguments as of `cudalens.analysis.memory_diff`.

    Where no stack was recorded, the difference by stack would be one row that hides what grew and what shrank: the
    variables that hold the memory are compared instead, if they are known.
    """
    if by == "stack" and not any(active_blocks(trace)["stack"].notna().any() for trace in (before, after)):
        has_names = all(trace.blocks["names"].notna().any() for trace in (before, after))
        by = "holder" if has_names else by
    return MemoryDiff(before, after, by, found_diff(before, after, by=by))


def _names(before: Trace, after: Trace) -> tuple[str, str]:
    """Return the names of both, made distinct."""
    first, second = before.info.name, after.info.name
    return (first, second) if first != second else (f"{first} (before)", f"{second} (after)")


@dataclass(frozen=True)
class _Curve:
    """One side's history, of its device with most memory; `at` in ns or actions from the start, shape (n,)."""

    name: str
    color: str
    device: DeviceReplay
    at: NDArray[np.int64]
    is_time: bool

    @property
    def peak(self) -> int:
        return self.device.peak("allocated_bytes")


def _curve(name: str, trace: Trace, color: str) -> _Curve | None:
    devices = [one for one in replays(trace) if len(one.rows)]
    if not devices:
        return None
    one = max(devices, key=lambda each: each.peak("allocated_bytes"))
    is_time = bool(trace.info.options.get(HAS_TIMES, True))
    ts = trace.memory["ts"].to_numpy()
    at = ts[one.rows] - ts[0] if is_time else one.rows + 1
    return _Curve(name, color, one, at.astype(np.int64), is_time)


def _row(row: dict[Any, Any], by: str, most: int) -> Row:
    delta = int(row["delta_bytes"])
    change = signed_size(delta)
    bar = signed_bar(change, delta / most, GROWN if delta > 0 else SHRUNK)
    sides = (units.size(int(row[f"{side}_bytes"])) for side in ("before", "after"))
    key = row[by]
    cell: Cell = key
    if by == "holder":
        cell = holder_words(key)
    elif not isinstance(key, str):
        cell = "not recorded" if pd.isna(key) else str(key)
    elif by == "stack":  # its line of the program, with the whole stack as a tooltip
        cell = Text(label_of_text(key), full=key)
    return Row((cell, bar, change, f"{int(row['delta_blocks']):+,}", *sides))
