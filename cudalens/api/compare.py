"""`compare`: compare two runs, each given by its name in `cudalens.runs`, as a file, a Trace, or the ranks of a job."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cudalens.errors import TraceError
from cudalens.frames import Ranks, Trace

if TYPE_CHECKING:
    from cudalens.views.compare.comparison import Comparison

#: A run: its name in `cudalens.runs`, a file, or its Trace or Ranks.
Run = str | os.PathLike[str] | Trace | Ranks


def compare(a: Run | Sequence[Run], b: Run | Sequence[Run]) -> Comparison:
    """Compare run `b` with run `a`: the verdict, and what became faster or slower, was added or removed.

    Args:
        a: The run before: its name in `cudalens.runs`, a Trace, a file that `cudalens.load` reads, Ranks or a folder of
            ranks; or a list of these, which are repeats of the same run.
        b: The run after, in the same forms.

    Returns:
        An object that prints and displays the result. It has ``verdict``, the frames ``ops``, ``kernels``, ``modules``
        and ``memory``, ``figure()`` and ``to_html(path)``. Profiler steps (such as ``%%cudaprofile --repeat 20``) and
        several runs are repeats, from which the noise is estimated.

    Raises:
        TraceError: There is no run of that name, or nothing was recorded in a run.
        TraceFormatError: A file cannot be read.
    """
    from cudalens.views.compare.comparison import compare as side_by_side

    return side_by_side(_found(a), _found(b))


def _found(run: Any) -> Any:
    if isinstance(run, str | os.PathLike):
        return _by_name(run)
    if isinstance(run, Sequence):
        return [one for part in run for one in _each(_found(part))]
    return run


def _each(found: Any) -> list[Any]:
    return list(found.values()) if isinstance(found, Ranks) else [found]


def _by_name(run: str | os.PathLike[str]) -> Trace | Ranks:
    runs = _runs()
    if isinstance(run, str) and run in runs:
        return runs[run]
    path = Path(run).expanduser()
    if not path.exists():
        known = ", ".join(map(repr, runs)) or "none"
        raise TraceError(f"{os.fspath(run)!r} is neither a run nor a file; runs of this session: {known}.")
    from cudalens.api.load import load_trace
    from cudalens.api.load_ranks import load_ranks

    return load_ranks(path) if path.is_dir() else load_trace(path)


def _runs() -> Any:
    """Return the runs of this process; empty if no module that records runs has been imported."""
    import sys

    session = sys.modules.get("cudalens.api.profile")
    return {} if session is None else session.runs
