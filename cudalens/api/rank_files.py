"""Read, check and reduce one file of a job: what every worker of `load_ranks` does, in any process."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cudalens.analysis.ranks.reduce import Reduction, reduce_rank
from cudalens.api.load import load_trace
from cudalens.errors import CudalensError, TraceFormatError
from cudalens.frames.files import filesystem_of
from cudalens.frames.rank_store import write_part
from cudalens.frames.ranks import events_of
from cudalens.traces.ranks import name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from cudalens.frames import RunInfo, Trace


@dataclass(frozen=True)
class RankTask:
    """One file to read.

    Attributes:
        path: A path or fsspec URL.
        number: Its number among the files.
        rank: The rank in its name, used if its content has none; None for neither.
        store: Where its frames are written; None for nowhere.
        repair: As of `cudalens.load`.
        keeps: Whether the result carries the Trace; for the process of the caller only.
    """

    path: str
    number: int
    rank: int | None = None
    store: str | None = None
    repair: bool = True
    keeps: bool = False


@dataclass(frozen=True)
class RankResult:
    """What became of one file.

    Attributes:
        task: The task.
        info: Its run info; None if it could not be read.
        rank: Its rank; None if it has none.
        is_snapshot: Whether it is a memory snapshot.
        reduction: What is kept of it; None if it is of no use.
        error: Why it could not be read; None if it was.
        trace: Its Trace, if the task asked for it.
    """

    task: RankTask
    info: RunInfo | None = None
    rank: int | None = None
    is_snapshot: bool = False
    reduction: Reduction | None = None
    error: str | None = None
    trace: Trace | None = None


def read_rank(task: RankTask) -> RankResult:
    """Read, check and reduce one file, and write its frames into the store; an error is part of the result."""
    try:
        trace = read_trace(task.path, task.rank, repair=task.repair)
        rank, info = trace.info.rank, trace.info
        if is_snapshot := not len(trace) and bool(len(trace.blocks)):
            return RankResult(task, info, rank, is_snapshot)
        if rank is None:
            return RankResult(task, info)
        if task.store is not None:
            write_part(task.store, task.number, rank, trace)
        reduction = reduce_rank(trace, rank)
        return RankResult(task, info, rank, reduction=reduction, trace=trace if task.keeps else None)
    except TraceFormatError as error:
        return RankResult(task, error=error.found)
    except (CudalensError, OSError, MemoryError) as error:
        return RankResult(task, error=f"{type(error).__name__}: {error}")


def read_trace(path: str, rank: int | None, *, repair: bool = True) -> Trace:
    """Return the Trace in `path`, a path or fsspec URL; `rank` is set if the file has none."""
    with _local(path) as file:
        trace = load_trace(file, repair=repair)
    return trace if trace.info.rank is not None else trace.replace(info=trace.info.replace(rank=rank))


def _local(path: str) -> AbstractContextManager[Path]:
    return _downloaded(path) if "://" in path else nullcontext(Path(path))


@contextmanager
def _downloaded(url: str) -> Iterator[Path]:
    filesystem, remote = filesystem_of(url)
    with tempfile.TemporaryDirectory(prefix="cudalens-") as folder:
        local = Path(folder, name_of(url))
        filesystem.get_file(remote, str(local))
        yield local


@dataclass(frozen=True)
class TraceFiles:
    """The files of a job as a `cudalens.frames.ranks.RankSource`: each use reads a file again.

    Attributes:
        paths: The file of each rank.
        repair: As of `cudalens.load`.
    """

    paths: Mapping[int, str]
    repair: bool = True

    def read(self, rank: int) -> Trace:
        """Return the Trace of a rank."""
        return read_trace(self.paths[rank], rank, repair=self.repair)

    def read_events(self, rank: int, columns: list[str] | None = None, step: int | None = None) -> pd.DataFrame:
        """Events of a rank; reads the whole file."""
        return events_of(self.read(rank), columns, step)


def failed(task: RankTask, error: Any) -> RankResult:
    """Return the result of a task whose worker failed."""
    return RankResult(task, error=f"{type(error).__name__}: {error}"[:300])
