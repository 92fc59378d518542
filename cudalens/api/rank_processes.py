"""Run the ranks of a job with values: each in a process of its own, whose collectives are those of gloo.

The processes are forks, so that a program may be any function, also one of a notebook. A process runs the program,
sends what it did, and later makes the Trace of its rank with the times of the job. It reports each collective before it
waits for it: ranks that would wait for each other for ever, or that make different collectives, are found at once.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NoReturn

import torch
from torch.utils._pytree import tree_map

from cudalens.api.rank_record import RankRecord
from cudalens.errors import VirtualDeviceError
from cudalens.frames import Trace
from cudalens.virtual.jobs.progress import JobProgress
from cudalens.virtual.jobs.rank_device import Meeting
from cudalens.virtual.jobs.rank_run import RankRun
from cudalens.virtual.jobs.schedule import RankTimes
from cudalens.virtual.jobs.topology import Cluster

#: Most ranks of a job with values: each is a process that computes on the CPU.
MAX_RANKS: Final = 8

#: How long the other ranks may go on after one has failed: what they do shows whether the collectives differ.
_AFTER_FAILURE_S: Final = 3.0
#: Ranks that all wait, without a report in this time, wait for ever.
_QUIET_S: Final = 2.0


class RankProcesses:
    """The processes of a job with values.

    Args:
        cluster: The GPUs of the job.
        function: The program of a rank.

    Attributes:
        results: By rank, what the program returned; after `run`.

    Raises:
        VirtualDeviceError: The job has more than 8 ranks, or this system cannot fork.
    """

    def __init__(self, cluster: Cluster, function: Callable[[], object]) -> None:
        if cluster.num_gpus > MAX_RANKS:
            raise VirtualDeviceError(
                f"a job with values has at most {MAX_RANKS} ranks, each a process that computes on the CPU; this one "
                f"has {cluster.num_gpus}. Leave values=True out, or ask for fewer GPUs."
            )
        if not hasattr(os, "fork") or sys.platform == "darwin":
            raise VirtualDeviceError(
                "a job with values runs each rank in a fork of this process, which needs Linux. Leave values=True out."
            )
        self._cluster, self._function = cluster, function
        self._folder = tempfile.TemporaryDirectory(prefix="cudalens-job-")
        self._pids: dict[int, int] = {}
        self._pipes: dict[int, Connection[Any, Any]] = {}
        self._runs: dict[int, RankRun] = {}
        self.results: dict[int, Any] = {}

    def __enter__(self) -> RankProcesses:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None
    ) -> None:
        """End the processes."""
        for pipe in self._pipes.values():
            pipe.close()
        for pid in self._pids.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
        self._folder.cleanup()

    def run(self) -> dict[int, RankRun]:
        """Run the program on all ranks.

        Returns:
            The runs by rank.

        Raises:
            CollectiveMismatchError: Ranks make different collectives, or wait for each other.
            VirtualDeviceError: The process of a rank ended.
        """
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for rank in range(self._cluster.num_gpus):
            self._fork(rank)
        progress = JobProgress(self._cluster.num_gpus)
        failures: dict[int, BaseException] = {}  # in order of time: the end of one rank makes others fail
        deadline = float("inf")
        while len(self._runs) + len(failures) < self._cluster.num_gpus and time.monotonic() < deadline:
            reports = self._reports(self._pipes.keys() - self._runs.keys() - failures.keys())
            for rank, kind, payload in reports:
                if kind == "failed":
                    failures[rank] = payload
                    deadline = min(deadline, time.monotonic() + _AFTER_FAILURE_S)
                elif kind == "ran":
                    self._runs[rank], returned = payload
                    self.results[rank] = pickle.loads(returned)  # noqa: S301 - from a fork of this process
                    progress.end(rank, self._runs[rank].program)
                else:
                    progress.note(rank, kind, payload)
            if not failures:
                progress.check_hang(is_quiet=not reports)
        if failures:
            first, error = next(iter(failures.items()))
            progress.check_failure(first)
            raise next((one for one in failures.values() if not _is_of_connection(one)), error)
        return dict(sorted(self._runs.items()))

    def _reports(self, ranks: Iterable[int]) -> list[tuple[int, str, Any]]:
        """Wait a limited time for reports of these ranks."""
        running = {self._pipes[rank]: rank for rank in ranks}
        found = []
        for pipe in wait(list(running), _QUIET_S):
            assert isinstance(pipe, Connection)
            try:
                kind, payload = pickle.loads(pipe.recv_bytes())  # noqa: S301 - from a fork of this process
            except (EOFError, OSError):
                kind, payload = "failed", VirtualDeviceError(f"the process of rank {running[pipe]} ended")
            found.append((running[pipe], kind, payload))
        return found

    def build(self, rank: int, name: str, run: RankRun, times: RankTimes, facts: Mapping[int, Any]) -> Trace:
        """Return the Trace of a rank with its times and the facts of its collectives; `run` is that of `run`."""
        self._pipes[rank].send_bytes(pickle.dumps((name, times, facts)))
        kind, payload = pickle.loads(self._pipes[rank].recv_bytes())  # noqa: S301 - from a fork of this process
        if kind == "failed":
            raise payload
        assert isinstance(payload, Trace)
        return payload

    def _fork(self, rank: int) -> None:
        ours, theirs = Pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python's warning of forks of processes with threads
            pid = os.fork()
        if not pid:
            self._serve(rank, theirs)
        theirs.close()
        self._pids[rank], self._pipes[rank] = pid, ours

    def _serve(self, rank: int, pipe: Connection[Any, Any]) -> NoReturn:
        """Run the rank in this process, answer questions, and end without what the parent does at its end."""

        def send(kind: str, payload: Any) -> None:
            pipe.send_bytes(pickle.dumps((kind, payload), pickle.HIGHEST_PROTOCOL))

        try:
            faulthandler.disable()  # gloo aborts the process when the messages of two ranks differ
            torch.set_num_threads(1)  # as under torchrun; the threads of OpenMP do not exist in a fork
            record = RankRecord(self._cluster, rank, meeting=Meeting(Path(self._folder.name) / "store", send))
            run, returned = _run(record, self._function)
            send("ran", (run, returned))
            for name, times, facts in _requests(pipe):
                send("trace", record.build(name, run, times, facts))
        except BaseException as error:
            with suppress(OSError):  # the parent has ended the job
                send("failed", _portable(error, rank))
        finally:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(0)


def _requests(pipe: Connection[Any, Any]) -> Iterator[Any]:
    """Yield what the parent sends, until it closes the pipe."""
    while True:
        try:
            request = pipe.recv_bytes()
        except (EOFError, OSError):
            return
        yield pickle.loads(request)  # noqa: S301 - from the parent


def _run(record: RankRecord, function: Callable[[], object]) -> tuple[RankRun, bytes]:
    """Run the program; returns its run, and what it returned as bytes."""
    returned: list[object] = []
    run = record.run(lambda: returned.append(function()))
    try:
        return run, pickle.dumps(tree_map(_plain, returned[0] if returned else None))
    except Exception as error:
        raise VirtualDeviceError(
            f"what the program of a rank returned cannot be sent to this process: {error}. Return tensors, numbers, "
            "texts, and lists or dictionaries of them."
        ) from error


def _plain(value: Any) -> Any:
    """A tensor without history; of a DTensor the part of the rank."""
    if not isinstance(value, torch.Tensor):
        return value
    return (value.to_local() if hasattr(value, "to_local") else value).detach().clone()


def _is_of_connection(error: BaseException) -> bool:
    """Whether gloo reports that the process of another rank has ended."""
    return isinstance(error, RuntimeError) and "gloo" in str(error) and "peer" in str(error)


def _portable(error: BaseException, rank: int) -> BaseException:
    """Return an error that can be sent, with its traceback as a note."""
    text = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    except Exception:
        error = VirtualDeviceError(f"{type(error).__name__}: {error}")
    error.add_note(f"In rank {rank} of the job:\n{text}")
    return error
