"""`load`: a trace from a file, checked and put right where that is possible."""

from __future__ import annotations

import os

from cudalens import traces
from cudalens.analysis import repaired
from cudalens.frames import Trace


def load(path: str | os.PathLike[str], *, repair: bool = True) -> Trace:
    """Read a trace from `path`, and check how far it can be trusted.

    Every kind of file that `cudalens.traces.load` reads, told from its content. ``trace.info.trust`` holds the verdict
    (clean, repaired, partial) and what was found; `cudalens.analysis.repaired` says what a repair does.

    Args:
        path: The file.
        repair: False to leave all rows as the file has them, and to check only.

    Raises:
        TraceFormatError: The file cannot be read, is no trace, or holds nothing usable; says where and what was found.
        UnsafeSnapshotError: It is a pickle that holds more than a memory snapshot does; nothing of it was run.
    """
    return repaired(traces.load(path), repair=repair)
