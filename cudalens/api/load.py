"""`load` and `load_ranks`: traces from files, checked and put right where that is possible."""

from __future__ import annotations

import os

from cudalens import traces
from cudalens.analysis import repaired
from cudalens.frames import Ranks, Trace


def load(path: str | os.PathLike[str], *, repair: bool = True) -> Trace:
    """Read a trace from `path`, and check how far it can be trusted.

    Every kind of file that `cudalens.traces.load` reads, told from its content. ``trace.info.trust`` holds the verdict
    (clean, repaired, partial) and what was found (None for what holds no events and has no fault, a memory snapshot
    say); `cudalens.analysis.repaired` says what a repair does.

    Args:
        path: The file.
        repair: False to leave all rows as the file has them, and to check only.

    Raises:
        TraceFormatError: The file cannot be read, is no trace, or holds nothing usable; says where and what was found.
        UnsafeSnapshotError: It is a pickle that holds more than a memory snapshot does; nothing of it was run.
    """
    return repaired(traces.load(path), repair=repair)


def load_ranks(folder: str | os.PathLike[str], *, repair: bool = True) -> Ranks:
    """Read the traces of all ranks of one job from `folder`, each as `load` reads it.

    Finds the files that may be traces, and the rank of each by its content or its name. What is wrong with the set is
    in ``problems`` of what comes back: a rank that is missing, two files of one rank, a file of another job (its number
    of ranks, its process groups or its time do not fit), one that cannot be read. Such files are left out.

    Args:
        folder: The folder; the files stand in it, or in folders of their own in it.
        repair: False to leave all rows as the files have them, and to check only.

    Raises:
        TraceFormatError: There is no such folder, or nothing in it can be used; says what was found instead.
    """
    return traces.load_ranks(folder, load=lambda path: load(path, repair=repair))
