"""Run the tasks of `load_ranks` in this process, in processes on this machine, or on a Dask cluster.

Processes are started as a program of their own that talks over pipes: it needs no ``if __name__ == "__main__"`` in the
user's script and shares no locks with the threads of a notebook. On Linux the program imports what it needs once, and
forks before it reads anything: importing takes as much CPU time as reading 250,000 entries.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from cudalens.api.rank_files import RankResult, RankTask, failed, read_rank

if TYPE_CHECKING:
    from typing import IO

_SERVE: Final = "from cudalens.api.rank_workers import serve; serve({})"
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
    """Yield the results of `tasks` as they are ready. A task whose process ends is run once more in a new one."""
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
        program = _program(theirs, stdin=subprocess.DEVNULL, pass_fds=passed, start_new_session=True)
    finally:
        for one in passed:
            os.close(one)
    return [_Process(program, os.fdopen(request[1], "wb"), os.fdopen(result[0], "rb")) for request, result in pipes]


def _alone() -> _Process:
    program = _program([], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert program.stdin is not None
    assert program.stdout is not None
    return _Process(program, program.stdin, program.stdout)


def _program(pipes: list[tuple[int, int]], **options: Any) -> subprocess.Popen[bytes]:
    paths = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
    environment = {**os.environ, "PYTHONPATH": paths, "TQDM_DISABLE": "1"}  # the caller shows one bar for all
    code = _SERVE.format(", ".join(map(str, pipes)))
    return subprocess.Popen([sys.executable, "-c", code], env=environment, **options)  # noqa: S603 - no foreign input


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
