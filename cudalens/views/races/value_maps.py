"""Pictures of a tensor that differs: as it should be, as it is, and where; each a grid of at most 64 x 64 cells."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from cudalens.views.races.value_model import DifferenceView
from cudalens.views.sections.markup import Node, element, svg

RED: Final = "#e5484d"
BLUE: Final = "#3b8eea"
YELLOW: Final = "#d9a400"

MAX_CELLS: Final = 64

#: Shades of a picture: few, so that neighbours are alike and drawn as one.
_SIZE: Final = 168.0
_LEAST: Final = 14.0
_LEVELS: Final = 8

_NOT_FINITE: Final = _LEVELS + 1

Grid = tuple[tuple[float, ...], ...]


def maps(difference: DifferenceView, *, cells: int = MAX_CELLS) -> list[Node]:
    """The pictures that there are: both results on one scale, then the difference; each with what it says.

    Args:
        difference: What differs.
        cells: Rows and columns, at most.
    """
    chosen = _chosen(difference.heat, cells)
    found = []
    values = [_taken(grid, chosen) for grid in (difference.expected_map, difference.found_map) if grid]
    if len(values) == 2:
        low, high = _range(values)
        titles = ("in the program's order", "in the order that shows it")
        for title, grid in zip(titles, values, strict=True):
            picture = _svg([[_level(v, low, high) for v in row] for row in grid], BLUE, f"{difference.name} {title}")
            found.append(_figure(picture, f"{title[0].upper()}{title[1:]}"))
    found.append(_figure(heat_map(difference, cells=cells), "Where they differ"))
    return found


def scale(difference: DifferenceView) -> str:
    """What the colours mean, in words."""
    largest = f", the stronger the more: {difference.max_abs} at most" if difference.max_abs else ""
    differs = f"red where bits differ{largest}"
    values = [grid for grid in (difference.expected_map, difference.found_map) if grid]
    if len(values) < 2:
        return differs
    low, high = _range(values)
    kind = "magnitude" if difference.dtype.startswith("complex") else "value"
    blue = f"{kind} {low:.4g} everywhere" if low == high else f"{kind} {low:.4g} (pale) to {high:.4g} (strong)"
    has_others = any(not math.isfinite(v) for grid in values for row in grid for v in row)
    return f"{blue}{', yellow: NaN or infinite' if has_others else ''}; {differs}"


def cells_words(difference: DifferenceView) -> str:
    """What a cell shows where it covers several elements."""
    if not difference.heat or difference.num_elements <= len(difference.heat) * len(difference.heat[0]):
        return ""
    return "each cell shows the one of its elements that differs most"


def heat_map(difference: DifferenceView, *, cells: int = MAX_CELLS) -> Node:
    """The tensor as a grid of cells, redder where a cell's elements differ more."""
    shares = _taken(difference.heat, _chosen(difference.heat, cells))
    levels = [[0 if not share else _level(share, 0.0, 1.0) for share in row] for row in shares]
    return _svg(levels, RED, f"where {difference.name} differs")


def _figure(picture: Node, caption: str) -> Node:
    return element("div", element("span", caption), picture, class_="cl-value-figure")


def _level(value: float, low: float, high: float) -> int:
    """1 to `_LEVELS`; the lowest value is still seen."""
    if not math.isfinite(value):
        return _NOT_FINITE
    share = (value - low) / (high - low) if high > low else 0.0
    return 1 + round(min(max(share, 0.0), 1.0) * (_LEVELS - 1))


def _range(grids: Sequence[Grid]) -> tuple[float, float]:
    known = [v for grid in grids for row in grid for v in row if math.isfinite(v)]
    return min(known, default=0.0), max(known, default=0.0)


def _chosen(heat: Grid, cells: int) -> list[list[tuple[int, int]]]:
    """Row and column of the cells that are drawn: of several that become one, the one that differs most."""
    if not heat:
        return []
    rows, columns = (_stretches(length, cells) for length in (len(heat), len(heat[0])))
    return [
        [max(((r, c) for r in down for c in across), key=lambda at: heat[at[0]][at[1]]) for across in columns]
        for down in rows
    ]


def _stretches(length: int, most: int) -> list[range]:
    size = -(-length // most)
    return [range(low, min(low + size, length)) for low in range(0, length, size)]


def _taken(grid: Grid, chosen: list[list[tuple[int, int]]]) -> Grid:
    return tuple(tuple(grid[row][column] for row, column in line) for line in chosen)


def _svg(levels: Sequence[Sequence[int]], colour: str, label: str) -> Node:
    """A picture of cells; level 0 is the ground."""
    rows, columns = len(levels), len(levels[0])
    width = _SIZE if columns > 1 else 24.0
    height = min(_SIZE, max(_LEAST, width * min(rows / columns, 1.0))) if rows > 1 else _LEAST
    shapes = [element("rect", x=0, y=0, width=columns, height=rows, fill="currentColor", fill_opacity=0.07)]
    for level in sorted({level for row in levels for level in row} - {0}):
        path = "".join(_runs(levels, level))
        ink, share = (YELLOW, 1.0) if level == _NOT_FINITE else (colour, 0.12 + 0.88 * (level - 1) / (_LEVELS - 1))
        share = max(share, 0.25) if colour == RED else share
        shapes.append(element("path", d=path, fill=ink, fill_opacity=f"{share:.2f}"))
    frame = {"viewBox": f"0 0 {columns} {rows}", "preserveAspectRatio": "none"}
    return svg(width, height, label, *shapes, **frame)


def _runs(levels: Sequence[Sequence[int]], level: int) -> Iterator[str]:
    """Stretches of one level, each a rectangle of a path; rows that are alike become one."""
    y = 0
    while y < len(levels):
        end = y + 1
        while end < len(levels) and list(levels[end]) == list(levels[y]):
            end += 1
        row, x = levels[y], 0
        while x < len(row):
            stop = x
            while stop < len(row) and row[stop] == level:
                stop += 1
            if stop > x:
                yield f"M{x} {y}h{stop - x}v{end - y}h{x - stop}z"
            x = max(stop, x + 1)
        y = end
