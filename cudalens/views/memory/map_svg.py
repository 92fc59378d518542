"""Pictures of a device's memory as inline SVG: the curve over time, and the map of its pools at the end.

They are for saved notebooks, reports before their scripts run, and print. Their size is bounded for any snapshot. Lines
and text have the colour of the surrounding text (``currentColor``).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis import units
from cudalens.analysis.memory.replay import DeviceReplay, replays
from cudalens.frames import Trace
from cudalens.frames.catalog_frames import BLOCK_CATEGORIES
from cudalens.frames.column_arrays import addresses
from cudalens.frames.snapshots.build import HAS_TIMES
from cudalens.views.sections.markup import Node, element, svg

Ints = NDArray[np.int64]

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
