"""`load_ranks`: read the traces of all ranks of one job, on this machine or on a Dask cluster."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NoReturn

from cudalens.analysis.ranks.reduce import join
from cudalens.api.rank_files import RankResult, RankTask, TraceFiles
from cudalens.api.rank_workers import in_processes, in_this_process, on_cluster
from cudalens.errors import TraceFormatError
from cudalens.frames import Ranks
from cudalens.frames.limits import Problems
from cudalens.frames.rank_store import clear_store, remove_part, write_store
from cudalens.traces.ranks import EXPECTED, RankFile, choose, find_files, name_of, ranks_in_names

#: Files of less than this in all are read in this process: starting others takes longer.
_FEW_BYTES: Final = 24 << 20

#: A folder, a pattern with ``*``, or an fsspec URL of one; or a list of files.
Source = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def load_ranks(
    source: Source,
    *,
    client: Any = None,
    store: str | os.PathLike[str] | None = None,
    select: Iterable[int] | None = None,
    repair: bool = True,
) -> Ranks:
    """Read the traces of all ranks of one job, each as `load` reads it, and keep what they have in common.

    Each file is read, checked and reduced in one task: in processes on this machine's cores, or with a `client` on a
    Dask cluster. Only the reductions (`Ranks.frames`) come back; ``ranks[17]`` and ``ranks.events`` are read when they
    are used, from `store` if there is one, else from the files. ``problems`` of the result lists what is wrong with the
    set: a missing rank, two files of one rank, a file of another job (with another number of ranks, other process
    groups or another time), a file that cannot be read. Such files are left out.

    Args:
        source: The folder with the files, directly or in subfolders; a pattern such as ``"run/*.json.gz"``; an fsspec
            URL of one of these (``s3://…``); or a list of files. The rank of a file is in its content or its name.
        client: A ``dask.distributed.Client``; its workers need cudalens and must reach `source` and `store`. None for
            this machine; no cluster is ever started.
        store: A folder or fsspec URL to write the frames of every rank to, as Parquet; ``Ranks.open(store)`` opens it
            again without the traces. None to write nothing.
        select: The ranks to read; None for all.
        repair: False to keep all rows as they are in the files, and only check them.

    Raises:
        TraceFormatError: There is no such file, or nothing in them can be used. The message says what was found.
        OutputError: `store` cannot be written.
    """
    source = source if isinstance(source, str | os.PathLike) else list(source)
    paths = find_files(source)
    url = None if store is None else os.fspath(store)
    if url is not None:
        clear_store(url)
    wanted = None if select is None else frozenset(select)
    tasks = _tasks(paths, url, repair=repair)
    problems = Problems()
    results = _read(tasks, client, wanted)
    if not results:
        _refuse_select(source, tasks, wanted or frozenset())
    ranks = _ranks(source, results, wanted, problems, repair=repair)
    if url is None:
        return ranks
    kept = {rank: one.task.number for one in results for rank in ranks if _is_kept(one, rank, ranks)}
    for one in results:
        if one.task.number not in kept.values():
            remove_part(url, one.task.number)
    return write_store(url, ranks, kept)


def _read(tasks: Sequence[RankTask], client: Any, wanted: frozenset[int] | None) -> list[RankResult]:
    """The results of the files whose names have no rank or a wanted one; of all if a name contradicts its file."""
    is_first = [wanted is None or task.rank is None or task.rank in wanted for task in tasks]
    order = sorted(zip(is_first, tasks, strict=True), key=lambda pair: not pair[0])
    numbered = [replace(task, number=number) for number, (_, task) in enumerate(order)]
    first, rest = numbered[: sum(is_first)], numbered[sum(is_first) :]
    results = list(_with_progress(_results(first, client), len(first)))
    if any(one.rank != one.task.rank for one in results if None not in (one.rank, one.task.rank)):
        results += _with_progress(_results(rest, client), len(rest))
    return sorted(results, key=lambda one: one.task.number)


def _is_kept(one: RankResult, rank: int, ranks: Ranks) -> bool:
    return isinstance(ranks.source, TraceFiles) and ranks.source.paths[rank] == one.task.path


def _tasks(paths: Sequence[str], store: str | None, *, repair: bool) -> list[RankTask]:
    """Return a task per file, with the rank in its name."""
    return [RankTask(path, 0, rank, store, repair) for path, rank in ranks_in_names(paths).items()]


def _results(tasks: Sequence[RankTask], client: Any) -> Iterator[RankResult]:
    if client is not None:
        return on_cluster(tasks, client)
    num_processes = min(len(tasks), _num_cores())
    if num_processes < 2 or any(task.path.startswith("memory://") for task in tasks) or _num_bytes(tasks) < _FEW_BYTES:
        return in_this_process([_keeping(task) for task in tasks])
    return in_processes(tasks, num_processes)


def _keeping(task: RankTask) -> RankTask:
    return RankTask(task.path, task.number, task.rank, task.store, task.repair, keeps=task.store is None)


def _num_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _num_bytes(tasks: Sequence[RankTask]) -> int:
    """Size of the files; a lot for those that are not on this machine."""
    return sum(path.stat().st_size if (path := Path(task.path)).exists() else _FEW_BYTES for task in tasks)


def _with_progress(results: Iterator[RankResult], total: int) -> Iterator[RankResult]:
    from tqdm.auto import tqdm  # slow to import

    with tqdm(results, total=total, unit=" rank", desc="reading ranks", delay=0.5, leave=False, disable=None) as bar:
        yield from bar


def _ranks(
    source: Source, results: Sequence[RankResult], wanted: frozenset[int] | None, problems: Problems, *, repair: bool
) -> Ranks:
    found = []
    for one in results:
        if one.info is None:
            problems.add("file that cannot be read", f"'{name_of(one.task.path)}': {one.error}"[:300])
        elif wanted is None or one.rank is None or one.rank in wanted:
            found.append(RankFile(one.task.path, one.info, one.rank, one.is_snapshot, one.task.number))
    kept = choose(found, problems, wanted)
    if not kept:
        _refuse(source, len(results), problems)
    by_number = {one.task.number: one for one in results}
    chosen = {rank: by_number[file.number] for rank, file in kept.items()}
    return Ranks.of_source(
        TraceFiles({rank: file.path for rank, file in kept.items()}, repair),
        {rank: file.info for rank, file in kept.items()},
        name=_name(source),
        frames=join({rank: one.reduction for rank, one in chosen.items() if one.reduction is not None}),
        problems=problems.to_tuple(),
        kept={rank: one.trace for rank, one in chosen.items() if one.trace is not None},
    )


def _refuse(source: Source, num_files: int, problems: Problems) -> NoReturn:
    first = problems.first()
    found = f"no usable trace of a rank among {num_files} file{'s' * (num_files != 1)}"
    raise TraceFormatError(_text(source), found=found + (f"; first: {first}" if first else ""), expected=EXPECTED)


def _refuse_select(source: Source, tasks: Sequence[RankTask], wanted: frozenset[int]) -> NoReturn:
    ranks = sorted(task.rank for task in tasks if task.rank is not None)
    which = f"no file of rank {', '.join(sorted(map(str, wanted))[:8])}" if wanted else "no rank in `select`"
    raise TraceFormatError(
        _text(source), found=f"{which} among {len(tasks)} files of ranks {ranks[0]} to {ranks[-1]}", expected=EXPECTED
    )


def _text(source: Source) -> str:
    return os.fspath(source) if isinstance(source, str | os.PathLike) else "the list of files"


def _name(source: Source) -> str:
    """Return the name of the job: that of the folder."""
    if not isinstance(source, str | os.PathLike):
        texts = [os.fspath(one) for one in source]
        if all("://" in text for text in texts):
            return name_of(posixpath.commonpath([text.partition("://")[2].rpartition("/")[0] for text in texts]))
        source = os.path.commonpath([Path(text).absolute().parent for text in texts])
    text = os.fspath(source)
    if "://" in text:
        folder = text.partition("*")[0] if "*" in text else text + "/"
        return name_of(folder.rpartition("/")[0])
    path = Path(text).resolve()
    return path.name if path.is_dir() else path.parent.name
