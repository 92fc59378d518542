"""`load` and `load_ranks`: read traces from files, check them and repair them if possible."""

from __future__ import annotations

import os

from cudalens import traces
from cudalens.analysis import repaired
from cudalens.frames import Ranks, Trace


def load(path: str | os.PathLike[str], *, repair: bool = True) -> Trace:
    """Read a trace from `path`, and check how far it can be trusted.

    Reads every kind of file that `cudalens.traces.load` reads, and detects the kind from the content.
    ``trace.info.trust`` holds the verdict (clean, repaired, partial) and the problems found (None for a file without
    events and without a problem, such as a memory snapshot). `cudalens.analysis.repaired` describes the repairs.

    Args:
        path: The file.
        repair: False to keep all rows as they are in the file, and only check them.

    Raises:
        TraceFormatError: The file cannot be read, is not a trace, or holds nothing usable. The message says where, and
            what was found.
        UnsafeSnapshotError: It is a pickle with contents that a memory snapshot does not have; nothing of it was run.
    """
    return repaired(traces.load(path), repair=repair)


def load_ranks(folder: str | os.PathLike[str], *, repair: bool = True) -> Ranks:
    """Read the traces of all ranks of one job from `folder`, each as `load` reads it.

    Finds the files that may be traces, and the rank of each from its content or its name. ``problems`` of the result
    lists what is wrong with the set: a missing rank, two files of one rank, a file of another job (with another number
    of ranks, other process groups or another time), a file that cannot be read. Such files are left out.

    Args:
        folder: The folder with the files, directly or in subfolders.
        repair: False to keep all rows as they are in the files, and only check them.

    Raises:
        TraceFormatError: There is no such folder, or nothing in it can be used. The message says what was found.
    """
    return traces.load_ranks(folder, load=lambda path: load(path, repair=repair))
