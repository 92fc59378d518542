"""Builds the ``marks`` frame: times of a run that a reader marked, with notes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from cudalens.frames.catalog_frames import check_frame

#: Longest note that is kept, in characters.
MAX_NOTE = 500


def marks_frame(rows: Iterable[tuple[int, int, str]]) -> pd.DataFrame:
    """Return the marks `rows`, each a start in ns, a length in ns and a note, by time."""
    ordered = sorted(rows, key=lambda row: row[:2])
    ts, dur = (np.array([row[k] for row in ordered], np.int64) for k in (0, 1))
    notes = pd.Categorical([row[2][:MAX_NOTE].encode("utf-8", "replace").decode() for row in ordered])
    return check_frame("marks", pd.DataFrame({"ts": ts, "dur": dur, "note": notes}))
