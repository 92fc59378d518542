"""`load`: read a trace from a file, check it and repair it if possible."""

from __future__ import annotations

import os
from typing import cast

from cudalens import traces
from cudalens.analysis import repaired
from cudalens.frames import Trace
from cudalens.frames.watched import is_watched, read_watched


def load(path: str | os.PathLike[str], *, repair: bool = True, max_bytes: int | None = None) -> Trace:
    """Read a trace from `path`, and check how far it can be trusted.

    Reads every kind of file that `cudalens.traces.load` reads, and detects the kind from the content.
    A folder that `cudalens.watch` wrote is read as a `WatchRecord`, with ``steps``, ``traces``, ``summary()`` and
    ``to_html()``; one into which several ranks wrote as `WatchedRanks`, with the record of each rank by its number.

    ``trace.info.trust`` holds the verdict (clean, repaired, partial) and the problems found (None for a file without
    events and without a problem, such as a memory snapshot). `cudalens.analysis.repaired` describes the repairs.

    Args:
        path: The file.
        repair: False to keep all rows as they are in the file, and only check them.
        max_bytes: The most bytes that the contents of the file may have, uncompressed. Default: the free memory of the
            machine, and for compressed files also a hundred times their size.

    Raises:
        TraceFormatError: The file cannot be read, is not a trace, or holds nothing usable. The message says where, and
            what was found.
        UnsafeSnapshotError: It is a pickle with contents that a memory snapshot does not have; nothing of it was run.
    """
    is_folder = os.path.isdir(path)  # noqa: PTH112 - Path.is_dir raises where a name is too long
    if is_folder and is_watched(path):
        from cudalens.views.watch.record import WatchRecord

        # The type is that of files, so that callers with a file need no check.
        return cast("Trace", WatchRecord(read_watched(path)))
    if is_folder:
        from cudalens.views.watch.ranks import has_ranks, read_ranks

        if has_ranks(path):
            return cast("Trace", read_ranks(path))
    return repaired(traces.load(path, max_bytes=max_bytes), repair=repair)
