"""`load`: read a trace from a file, check it and repair it if possible."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from cudalens import traces
from cudalens.analysis import repaired
from cudalens.errors import TraceFormatError
from cudalens.frames import Trace
from cudalens.traces.flight_recorder import read_flight_records
from cudalens.views.hangs import FlightRecord
from cudalens.watching.run import is_watched, read_watched

if TYPE_CHECKING:
    from cudalens.watching.ranks import WatchedRanks
    from cudalens.watching.record import WatchRecord


def load_flight_recorder(folder: str | os.PathLike[str]) -> FlightRecord:
    """Read the dumps of torch's FlightRecorder in `folder`, and find the rank that holds up the others.

    Reads JSON and pickle dumps of any backend, one or several per rank, and what `cudalens.watch_hangs` writes beside
    them. No class of a pickle is looked up and nothing of it is run. ``hang`` of the result is the diagnosis,
    ``entries`` a frame of all collectives; it prints as text and shows as a table in a notebook.

    Args:
        folder: The folder with the files. The rank of a file is the number after ``rank`` in its name, else its last
            number.

    Raises:
        TraceFormatError: There is no such folder, or no dump in it. The message says what was found.
    """
    return FlightRecord(read_flight_records(folder))


def load(
    path: str | os.PathLike[str], *, repair: bool = True, max_bytes: int | None = None
) -> Trace | WatchRecord | WatchedRanks:
    """Read a trace from `path`, and check how far it can be trusted; or read the folder of a watched run.

    Reads every kind of file that `cudalens.traces.load` reads, and detects the kind from the content.
    A folder that `cudalens.watch` wrote is read as a `WatchRecord`, with ``steps``, ``traces``, ``summary()`` and
    ``to_html()``; one into which several ranks wrote as `WatchedRanks`, with the record of each rank by its number.

    ``trace.info.trust`` holds the verdict (clean, repaired, partial) and the problems found (None for a file without
    events and without a problem, such as a memory snapshot). `cudalens.analysis.repaired` describes the repairs.

    Args:
        path: The file.
        repair: False to keep all rows as they are in the file, and only check them.
        max_bytes: The most bytes that the contents of the file may have, uncompressed. For XPlane, Perfetto, memory
            timelines and rocprofv3's JSON: the most bytes of memory, estimated as about ten times the contents.
            Default: the free memory of the machine, and for compressed files also a hundred times their size.

    Raises:
        TraceFormatError: The file cannot be read, is not a trace, or holds nothing usable. The message says where, and
            what was found.
        UnsafeSnapshotError: It is a pickle with contents that a memory snapshot does not have; nothing of it was run.
    """
    record = _read_watch_folder(path)
    if record is not None:
        return record
    return repaired(traces.load(path, max_bytes=max_bytes), repair=repair)


def load_trace(path: str | os.PathLike[str], *, repair: bool = True, max_bytes: int | None = None) -> Trace:
    """Read a trace, as `load` does; a folder of a watched run is an error.

    Raises:
        TraceFormatError: As `load`; and `path` is the folder of a watched run.
    """
    if _read_watch_folder(path) is not None:
        expected = "a trace, such as one of the files step-*.cudalens in it"
        raise TraceFormatError(path, found="the folder of a watched run", expected=expected)
    return repaired(traces.load(path, max_bytes=max_bytes), repair=repair)


def _read_watch_folder(path: str | os.PathLike[str]) -> WatchRecord | WatchedRanks | None:
    """Read the folder of a watched run, or of several ranks; return None for anything else."""
    if not os.path.isdir(path):  # noqa: PTH112 - Path.is_dir raises where a name is too long
        return None
    if is_watched(path):
        from cudalens.watching.record import WatchRecord

        return WatchRecord(read_watched(path))
    from cudalens.watching.ranks import has_ranks, read_ranks

    return read_ranks(path) if has_ranks(path) else None
