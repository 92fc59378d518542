"""Run the tasks of `load_ranks` in this process, in processes on this machine, or on a Dask cluster.

Processes are started as programs of their own that talk over pipes: they need no ``if __name__ == "__main__"`` in the
user's script and share no locks with the threads of a notebook.
"""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cudalens.api.rank_files import RankResult, RankTask, failed, read_rank

if TYPE_CHECKING:
    from typing import IO

_SERVE: Final = "from cudalens.api.rank_workers import serve; serve()"
_TRIES: Final = 2


def in_this_process(tasks: Sequence[RankTask]) -> Iterator[RankResult]:
    """The results of `tasks`, one after the other."""
    yield from map(read_rank, tasks)


def in_processes(tasks: Sequence[RankTask], num_processes: int) -> Iterator[RankResult]:
    """The results of `tasks` as they are ready. A task whose process ends is run once more in a new one."""
    idle: queue.SimpleQueue[_Process | None] = queue.SimpleQueue()
    for _ in range(num_processes):
        idle.put(None)
    processes: list[_Process] = []
    pool = ThreadPoolExecutor(num_processes, thread_name_prefix="cudalens-ranks")
    try:
        for future in as_completed([pool.submit(_run, task, idle, processes) for task in tasks]):
            yield future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.end()


def _run(task: RankTask, idle: queue.SimpleQueue[_Process | None], processes: list[_Process]) -> RankResult:
    error: Exception | None = None
    for _ in range(_TRIES):
        process = idle.get()
        try:
            if process is None:
                process = _Process()
                processes.append(process)
            result = process.run(task)
        except (OSError, EOFError, pickle.UnpicklingError) as caught:
            error = caught if process is None else process.ended(caught)
            idle.put(None)
        else:
            idle.put(process)
            return result
    return failed(task, error)


class _Process:
    """A Python process that runs tasks, one at a time."""

    def __init__(self) -> None:
        paths = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
        self._process = subprocess.Popen(  # noqa: S603 - no foreign input
            [sys.executable, "-c", _SERVE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": paths, "TQDM_DISABLE": "1"},  # the caller shows one bar for all
        )

    def run(self, task: RankTask) -> RankResult:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pickle.dump(task, self._process.stdin)
        self._process.stdin.flush()
        result: RankResult = pickle.load(self._process.stdout)  # noqa: S301 - from our own process
        return result

    def ended(self, error: Exception) -> Exception:
        """Why the process is gone."""
        self.end()
        return OSError(f"the process that read it ended with code {self._process.returncode} ({error})")

    def end(self) -> None:
        """Stop the process."""
        self._process.kill()
        self._process.communicate()


def serve() -> None:
    """Run the tasks that come over standard input; results go to standard output, which prints cannot reach."""
    requests = sys.stdin.buffer
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    threading.current_thread().name = "cudalens-ranks"
    while (task := _next(requests)) is not None:
        pickle.dump(_safely(task), results, protocol=pickle.HIGHEST_PROTOCOL)
        results.flush()


def _next(requests: IO[bytes]) -> RankTask | None:
    try:
        task: RankTask = pickle.load(requests)  # noqa: S301 - from the process that started this one
    except EOFError:
        return None
    return task


def _safely(task: RankTask) -> RankResult:
    try:
        return read_rank(task)
    except Exception as error:  # a file must not end the process that reads the others
        return failed(task, error)


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
