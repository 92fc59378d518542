"""Reduce events to pixels: for each pixel of a row the longest event and its level, neighbours of one colour joined."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.views import theme

#: Width of a row in pixels.
PLOT: Final = 602
MAX_RUNS: Final = 3000
_FEWEST_COLUMNS: Final = 60


def color_codes(events: pd.DataFrame) -> tuple[NDArray[np.int16], list[str]]:
    """Return a colour number for each row, and the colours; the same groups of categories as the live timeline."""
    groups = theme.theme()["groups"]
    number = {group["key"]: k for k, group in enumerate(groups)}
    cats = events["cat"].cat
    by_cat = np.array(
        [number[theme.group_of(str(c))] for c in cats.categories.tolist()] + [number[theme.GROUP_OTHER]], np.int16
    )
    codes = by_cat[cats.codes.to_numpy()]
    names = events["name"].cat
    is_comm = np.array([theme.group_of("kernel", str(n)) == "comm" for n in names.categories.tolist()] + [False])
    codes[(codes == number["kernel"]) & is_comm[names.codes.to_numpy()]] = number["comm"]
    return codes, [group["color"] for group in groups]


def joined_pixels(
    row: NDArray[np.int64],
    start: NDArray[np.float64],
    dur: NDArray[np.float64],
    color: NDArray[np.int16],
    num_rows: int,
    max_runs: int = MAX_RUNS,
) -> list[tuple[int, float, float, int, int]]:
    """Joined pixels as (row, x, width, colour, level); pixels grow until there are few enough of them."""
    order = np.argsort(dur, kind="stable")  # the longest event of a pixel is written last
    row, start, dur, color = row[order], start[order], dur[order], color[order]
    columns = PLOT
    while True:
        code = _pixels(row, start * columns, dur * columns, color, (num_rows, columns))
        if columns < _FEWEST_COLUMNS or int((np.diff(code, axis=1) != 0).sum()) <= max_runs:
            scale = PLOT / columns
            return [(r, x * scale, w * scale, c, level) for r, x, w, c, level in _joined(code)]
        columns //= 2


def _pixels(
    row: NDArray[np.int64],
    x0: NDArray[np.float64],
    width: NDArray[np.float64],
    color: NDArray[np.int16],
    shape: tuple[int, int],
) -> NDArray[np.int64]:
    """3 * colour + level of each pixel, -1 for idle; shape (rows, columns). Events are sorted shortest first."""
    num_rows, columns = shape
    owner = np.full(num_rows * columns, -1, np.int64)
    first = np.minimum(x0.astype(np.int64), columns - 1)
    last = np.minimum((x0 + width).astype(np.int64), columns - 1)
    num_short = int((width <= 1.0).sum())
    short, wide = slice(num_short), slice(num_short, None)
    owner[row[short] * columns + first[short]] = color[short]
    covered = (last - first + 1)[wide]
    spread = np.repeat(np.arange(num_short, len(width)), covered)
    step = np.arange(len(spread)) - np.repeat(np.cumsum(covered) - covered, covered)
    owner[row[spread] * columns + first[spread] + step] = color[spread]
    level = np.digitize(np.minimum(coverage(row, x0, width, shape), 1.0), (0.34, 0.67))
    return np.where(owner < 0, -1, owner * 3 + level).reshape(shape)


def coverage(
    row: NDArray[np.int64], x0: NDArray[np.float64], width: NDArray[np.float64], shape: tuple[int, int]
) -> NDArray[np.float64]:
    """Busy share of each pixel, shape (rows * columns,): the running sum of what each start adds and each end takes."""
    num_rows, columns = shape
    stride = columns + 2
    slope = np.zeros(num_rows * stride)
    for x, sign in ((x0, 1.0), (x0 + width, -1.0)):
        whole = np.minimum(x.astype(np.int64), columns)
        part = np.clip(x - whole, 0.0, 1.0)
        at = row * stride + whole
        slope += np.bincount(at, sign * (1.0 - part), len(slope)) + np.bincount(at + 1, sign * part, len(slope))
    return np.cumsum(slope.reshape(num_rows, stride), axis=1)[:, :columns].ravel()


def _joined(code: NDArray[np.int64]) -> list[tuple[int, int, int, int, int]]:
    """Neighbours of one code in a row as (row, first column, number of columns, colour, level)."""
    runs = []
    for r, line in enumerate(code):
        edges = np.flatnonzero(np.diff(line, prepend=line[0] - 1, append=line[-1] - 1))
        for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            if line[a] >= 0:
                runs.append((r, a, b - a, int(line[a]) // 3, int(line[a]) % 3))
    return runs
