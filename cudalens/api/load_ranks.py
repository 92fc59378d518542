"""`load_ranks`: read the traces of all ranks of one job, on this machine or on a Dask cluster."""

from __future__ import annotations

import os
import pickle
import posixpath
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np
import pandas as pd

from cudalens.analysis.ranks.job import Reduction, join, reduce_rank
from cudalens.analysis.time.groups import measured
from cudalens.analysis.time.overlap import bus_factors
from cudalens.api.load import load_trace
from cudalens.errors import CudalensError, TraceFormatError, VirtualDeviceError
from cudalens.frames import Ranks
from cudalens.frames.column_arrays import integers
from cudalens.frames.files import filesystem_of
from cudalens.frames.limits import Problems
from cudalens.frames.rank_store import clear_store, remove_part, write_part, write_store
from cudalens.frames.ranks import events_of
from cudalens.traces.ranks import EXPECTED, RankFile, choose, find_files, name_of, ranks_in_names

if TYPE_CHECKING:
    from typing import IO

    from cudalens.frames import RunInfo, Trace


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
    num_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    num_processes = min(len(tasks), num_cores)
    if num_processes < 2 or any(task.path.startswith("memory://") for task in tasks) or _num_bytes(tasks) < _FEW_BYTES:
        return in_this_process(
            [
                RankTask(task.path, task.number, task.rank, task.store, task.repair, keeps=task.store is None)
                for task in tasks
            ]
        )
    return in_processes(tasks, num_processes)


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


# Read, check and reduce one file of a job: what every worker of `load_ranks` does, in any process.


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


# Where the tasks of `load_ranks` run: in this process, in processes on this machine, on a Dask cluster.

_SERVE: Final = "from cudalens.api.load_ranks import serve; serve({})"
_TRIES: Final = 2
#: A process without a task ends in less; one that still reads is killed after it.
_END_S: Final = 0.5
#: macOS has fork, but its system libraries do not support it.
_CAN_FORK: Final = sys.platform == "linux"


@dataclass(frozen=True)
class _Ended:
    """What a program writes for a process that ended while it ran a task."""

    code: int


def in_this_process(tasks: Sequence[RankTask]) -> Iterator[RankResult]:
    """Yield the results of `tasks`, one after the other."""
    yield from map(read_rank, tasks)


def in_processes(tasks: Sequence[RankTask], num_processes: int) -> Iterator[RankResult]:
    """Yield the results of `tasks` as they are ready. A task whose process ends is run once more in a new one.

    Processes are started as a program of their own that talks over pipes: it needs no ``if __name__ == "__main__"`` in
    the user's script and shares no locks with the threads of a notebook. On Linux the program imports what it needs
    once, and forks before it reads anything: importing takes as much CPU time as reading 250,000 entries.
    """
    idle: queue.SimpleQueue[_Process | None] = queue.SimpleQueue()
    processes = _start(num_processes)
    for process in processes:
        idle.put(process)
    pool = ThreadPoolExecutor(num_processes, thread_name_prefix="cudalens-ranks")
    try:
        for future in as_completed([pool.submit(_run, task, idle, processes) for task in tasks]):
            yield future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.close()
        for process in processes:
            process.end()


def _run(task: RankTask, idle: queue.SimpleQueue[_Process | None], processes: list[_Process]) -> RankResult:
    error: Exception | None = None
    for _ in range(_TRIES):
        process = idle.get()
        try:
            if process is None:
                (process,) = _start(1)
                processes.append(process)
            result = process.run(task)
        except (OSError, EOFError, pickle.UnpicklingError) as caught:
            error = caught if process is None else process.ended(caught)
            idle.put(None)
        else:
            idle.put(process)
            return result
    return failed(task, error)


def _start(number: int) -> list[_Process]:
    """This number of processes: forks of one program, or programs of their own."""
    if not _CAN_FORK:
        return [_alone() for _ in range(number)]
    pipes = [(os.pipe(), os.pipe()) for _ in range(number)]
    theirs = [(request[0], result[1]) for request, result in pipes]
    passed = [one for pair in theirs for one in pair]
    try:
        program = subprocess.Popen(  # noqa: S603 - no foreign input
            _serve_command(theirs),
            env=_environment(),
            stdin=subprocess.DEVNULL,
            pass_fds=passed,
            start_new_session=True,
        )
    finally:
        for one in passed:
            os.close(one)
    return [_Process(program, os.fdopen(request[1], "wb"), os.fdopen(result[0], "rb")) for request, result in pipes]


def _alone() -> _Process:
    program = subprocess.Popen(  # noqa: S603 - no foreign input
        _serve_command([]), env=_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert program.stdin is not None
    assert program.stdout is not None
    return _Process(program, program.stdin, program.stdout)


def _serve_command(pipes: list[tuple[int, int]]) -> list[str]:
    """Return the command of a Python process that runs tasks from each of `pipes`; without pipes, from its input."""
    return [sys.executable, "-c", _SERVE.format(", ".join(map(str, pipes)))]


def _environment() -> dict[str, str]:
    """Return the environment of such a process: the same modules, and no progress bars."""
    paths = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
    return {**os.environ, "PYTHONPATH": paths, "TQDM_DISABLE": "1"}  # the caller shows one bar for all


class _Process:
    """A Python process that runs tasks, one at a time; `program` is the process that started it, or itself."""

    def __init__(self, program: subprocess.Popen[bytes], requests: IO[bytes], results: IO[bytes]) -> None:
        self._program, self._requests, self._results = program, requests, results

    def run(self, task: RankTask) -> RankResult:
        pickle.dump(task, self._requests)
        self._requests.flush()
        result: RankResult | _Ended = pickle.load(self._results)  # noqa: S301 - from our own process
        if isinstance(result, _Ended):
            raise ChildProcessError(f"code {result.code}")
        return result

    def ended(self, error: Exception) -> Exception:
        """Why the process is gone. The end of its pipes can be seen before that of the process."""
        self.close()
        code = self._program.poll()
        if code is None and not isinstance(error, ChildProcessError):
            with suppress(subprocess.TimeoutExpired):
                code = self._program.wait(_END_S)
        return OSError(f"the process that read it ended with {error if code is None else f'code {code} ({error})'}")

    def close(self) -> None:
        """Let the process end when it has nothing to do."""
        for pipe in (self._requests, self._results):
            with suppress(OSError):
                pipe.close()

    def end(self) -> None:
        """Stop the process, and those of the same program; all must be closed."""
        try:
            self._program.wait(_END_S)
        except subprocess.TimeoutExpired:
            if _CAN_FORK:
                os.killpg(self._program.pid, signal.SIGKILL)
            else:
                self._program.kill()
            self._program.wait()


def serve(*pipes: tuple[int, int]) -> None:
    """Run the tasks that come over standard input; with `pipes` (of requests, of results), fork a process for each.

    Results go to a pipe that prints cannot reach.
    """
    if pipes:
        _fork(pipes)
        return
    results = os.dup(1)
    os.dup2(2, 1)
    _work(sys.stdin.buffer, os.fdopen(results, "wb"))


def _fork(pipes: Sequence[tuple[int, int]]) -> None:
    """A process for each of `pipes`; waits for their ends and writes how those ended that fail."""
    os.dup2(2, 1)
    pids = {}
    for requests, results in pipes:
        pid = os.fork()
        if not pid:
            _forked(requests, results, pipes)
        pids[pid] = results
        os.close(requests)
    while pids:
        pid, status = os.wait()
        results = pids.pop(pid)
        if code := os.waitstatus_to_exitcode(status):
            with suppress(BrokenPipeError):
                os.write(results, pickle.dumps(_Ended(code)))
        os.close(results)


def _forked(requests: int, results: int, pipes: Sequence[tuple[int, int]]) -> NoReturn:
    """Work, and end without what the program does at its end."""
    code = 1
    try:
        for other in {one for pair in pipes for one in pair} - {requests, results}:
            with suppress(OSError):  # those of requests that the program has closed
                os.close(other)
        _work(os.fdopen(requests, "rb"), os.fdopen(results, "wb"))
        code = 0
    finally:
        os._exit(code)


def _work(requests: IO[bytes], results: IO[bytes]) -> None:
    threading.current_thread().name = "cudalens-ranks"
    while (task := _next(requests)) is not None:
        try:
            result = read_rank(task)
        except Exception as error:  # a file must not end the process that reads the others
            result = failed(task, error)
        pickle.dump(result, results, protocol=pickle.HIGHEST_PROTOCOL)
        results.flush()


def _next(requests: IO[bytes]) -> RankTask | None:
    try:
        task: RankTask = pickle.load(requests)  # noqa: S301 - from the process that started this one
    except EOFError:
        return None
    return task


def on_cluster(tasks: Sequence[RankTask], client: Any) -> Iterator[RankResult]:
    """The results of `tasks` as they are ready, each a task on the cluster of `client`. Dask retries lost workers."""
    completed: Any = import_module("distributed").as_completed
    futures = {client.submit(read_rank, task, pure=False, retries=_TRIES - 1): task for task in tasks}
    try:
        for future in completed(list(futures), raise_errors=False):
            error = future.exception()
            yield failed(futures[future], error) if error is not None else future.result()
            future.release()
    finally:
        client.cancel([future for future in futures if not future.done()])


# Modelled bandwidth of the collectives of a job, where its GPU is one of the calibrated ones.

#: Kinds of collectives by their names in `cudalens.virtual.collective_time`.
_NAMES: Final = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
}
#: GPUs of one node; times of more were not measured.
_MOST_RANKS: Final = 8
_NUM_SIZES: Final = 24


def transfer_curves(ranks: Ranks) -> pd.DataFrame:
    """Return what the collectives of `ranks` would reach on an idle node of the same GPUs, from calibrated times.

    Returns:
        For each kind and group size of 2 to 8 ranks that the job has, sizes over the range of all its messages:
        ``kind`` (category), ``group_size``, ``num_bytes`` (Int64), ``bus_bytes_per_s`` (Float64). Empty where the GPU
        is not a calibrated one, the ranks are on several hosts, or torch is not installed.
    """
    rows = [row for kind, size, low, high in _ranges(ranks) for row in _curve(ranks, kind, size, low, high)]
    frame = pd.DataFrame(rows, columns=["kind", "group_size", "num_bytes", "seconds"])
    frame = frame.astype({"kind": "category", "group_size": "Int64", "num_bytes": "Int64"})
    size = integers(frame["num_bytes"]).astype(np.float64)
    factors = bus_factors(frame["kind"].array, integers(frame["group_size"]))
    speed = size / frame["seconds"].to_numpy(np.float64) * factors if len(frame) else size
    return frame.drop(columns="seconds").assign(bus_bytes_per_s=measured(speed))


def _ranges(ranks: Ranks) -> list[tuple[str, int, int, int]]:
    """Kind and group size, with the smallest and the largest message of the job."""
    summary = ranks.frames["summary"]
    if summary["host"].nunique() > 1 or summary["gpu"].nunique() != 1:
        return []
    found = ranks.analysis.collectives
    found = found.assign(kind=found["kind"].astype(str))
    known = found[found["kind"].isin(_NAMES) & (found["group_size"] >= 2) & (found["group_size"] <= _MOST_RANKS)]
    sizes = found["num_bytes"][found["num_bytes"] > 0]
    if not len(known) or not len(sizes):
        return []
    low, high = int(sizes.min()), int(sizes.max())
    pairs = known[["kind", "group_size"]].drop_duplicates().sort_values(["kind", "group_size"])
    return [(str(kind), int(n), low, high) for kind, n in pairs.itertuples(index=False)]


def _curve(ranks: Ranks, kind: str, group_size: int, low: int, high: int) -> list[tuple[str, int, int, float]]:
    try:
        from cudalens.virtual import SPECS, collective_time  # imports torch
    except ImportError:
        return []
    gpu = ranks.frames["summary"]["gpu"].iloc[0]
    spec = next((spec for spec in SPECS.values() if spec.name == gpu), None)
    if spec is None:
        return []
    sizes = np.unique(np.geomspace(low, max(high, low + 1), _NUM_SIZES).round().astype(np.int64)).tolist()
    try:
        return [(kind, group_size, n, collective_time(spec, _NAMES[kind], group_size, n) / 1e9) for n in sizes]
    except VirtualDeviceError:  # a GPU without measured collectives
        return []
