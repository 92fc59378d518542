"""The call stacks of a snapshot for display: cells by number, without entries of the shell or of cudalens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from cudalens.device.stacks import file_label, is_own
from cudalens.frames import categorical


def as_shown(stacks: pd.DataFrame, shell: Any = None) -> pd.DataFrame:
    """Return the frame ``stacks`` with files as reports show them, without the entries of the shell and of cudalens.

    Args:
        stacks: The frame of a snapshot.
        shell: IPython's shell, if it is not the one of this process.
    """
    if stacks.empty:
        return stacks
    files = list(stacks["file"].cat.categories)
    labels = [file_label(file, shell) for file in files]
    codes = stacks["file"].cat.codes.to_numpy()
    is_cell = np.array([label != file for label, file in zip(labels, files, strict=True)] + [False])[codes]
    is_ours = np.array([is_own(file) for file in files] + [False])[codes]
    kept = ~is_ours & (stacks["position"].to_numpy() <= _outermost_cell(stacks, is_cell))
    number = {label: i for i, label in enumerate(dict.fromkeys(labels))}
    named = categorical(np.array([*(number[label] for label in labels), -1], np.int64)[codes], list(number))
    found = stacks.assign(file=named)[kept].reset_index(drop=True)
    return found.assign(position=found.groupby("stack").cumcount().astype(np.int32))


def _outermost_cell(stacks: pd.DataFrame, is_cell: np.ndarray) -> np.ndarray:
    """For each row the position of its stack's outermost entry in a cell; the largest int64 if there is none."""
    position = stacks["position"].to_numpy()
    number = stacks["stack"].to_numpy()
    last = np.full(int(number.max()) + 1, -1, np.int64)
    np.maximum.at(last, number[is_cell], position[is_cell])
    return np.where(last < 0, np.iinfo(np.int64).max, last)[number]


def cells_of(stacks: pd.DataFrame) -> dict[int, str]:
    """Return the cell that was running when each stack was taken: its outermost entry, if that is a cell."""
    outermost = stacks.groupby("stack")["file"].last()
    files = {int(number): file for number, file in outermost.items() if isinstance(file, str)}
    return {number: file for number, file in files.items() if file.startswith("In[")}
