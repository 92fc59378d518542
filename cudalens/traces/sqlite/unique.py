"""Check that keys are unique: rows joined by a duplicate key would be wrong."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cudalens.errors import TraceFormatError
from cudalens.traces.chrome.values import MISSING, Ints


def refuse_repeats(path: Path, table: str, column: str, ids: Ints, within: Sequence[Ints] = ()) -> None:
    """Raise if an id occurs twice; 0 and missing ids are ignored.

    torch's reader of nvprof files also refuses them (``EnforceUnique``).

    Args:
        path: The file.
        table: The table of the ids.
        column: Description of the ids.
        ids: Shape (n,).
        within: Columns within whose equal values an id is unique (a process, say), each of shape (n,).

    Raises:
        TraceFormatError: An id occurs twice.
    """
    known = (ids != MISSING) & (ids != 0)
    keys = np.stack([ids[known], *(column_[known] for column_ in within)], axis=1)
    if len(keys) < 2:
        return
    order = np.lexsort(keys.T)
    same = (keys[order[1:]] == keys[order[:-1]]).all(axis=1)
    if same.any():
        again = order[1:][same]
        row = int(np.flatnonzero(known)[again.min()])
        raise TraceFormatError(
            path,
            position=f"table '{table}', row {row + 1}",
            found=f"{column} {int(ids[row])} a second time ({int(same.sum())} such rows)",
            expected=f"each {column} once: it says which rows belong together",
            hint="The file is damaged, or was put together from several recordings; export each on its own.",
        )
