"""The threads of a watched run: build recordings, find causes, write the folder; answer viewers over a local socket."""

from __future__ import annotations

import contextlib
import contextvars
import os
import random
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from cudalens.device.own_work import own_thread
from cudalens.errors import OutputError, WatchError
from cudalens.watching import link
from cudalens.watching.burst import Recorded
from cudalens.watching.run import WatchedRun, write_history

#: Time between two histories, s; the file has a row per recent step.
_WRITE_PERIOD_S: Final = 5.0


class WatchFolder:
    """Writes into one folder, created if absent. After a failure, such as a full disk, it writes no more.

    Attributes:
        path: The folder.
        notes: Why it does not write any more.

    Raises:
        OutputError: The folder cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.notes = path, []  # type: tuple[Path, list[str]]
        self._written_s = 0.0
        self._is_dirty = True
        try:
            path.mkdir(parents=True, exist_ok=True)
            for old in path.glob("step-*.cudalens"):
                old.unlink()
        except OSError as error:
            raise OutputError(f"{path}: cannot create the folder ({error.strerror})") from error

    def keep(self, kept: Sequence[Recorded], dropped: Sequence[Recorded]) -> None:
        """Write the recordings that have no file yet, and remove files of those that are no longer kept."""
        self._guarded(lambda: self._keep(kept, dropped))
        self._is_dirty = True

    def write(self, run: Callable[[], WatchedRun], *, is_last: bool) -> None:
        """Write the history, if it is time to, or if it is the last one."""
        now = time.monotonic()
        if is_last or self._is_dirty or now - self._written_s >= _WRITE_PERIOD_S:
            self._written_s, self._is_dirty = now, False
            self._guarded(lambda: write_history(run(), self.path))

    def _keep(self, kept: Sequence[Recorded], dropped: Sequence[Recorded]) -> None:
        for one in dropped:
            self._file(one).unlink(missing_ok=True)
        for one in kept:
            if one.trace is not None:
                one.trace.save(self._file(one))
                one.num_bytes, one.trace = self._file(one).stat().st_size, None

    def _file(self, one: Recorded) -> Path:
        return self.path / f"step-{one.step}.cudalens"

    def _guarded(self, act: Callable[[], object]) -> None:
        if self.notes:
            return
        try:
            act()
        except OSError as error:  # OutputError is one
            self.notes.append(f"nothing more is written: {error}")


_CLIENT_S: Final = 2.0


class WatchServer:
    """Serves the state of a run to viewers of the same user.

    Args:
        answers: What to answer for each thing that a viewer wants.
        on_spent: Called with the CPU time that an answer took, ns.
    """

    def __init__(self, answers: Mapping[str, Callable[[], bytes]], on_spent: Callable[[int], object]) -> None:
        self._answers, self._on_spent = answers, on_spent
        self._server: socket.socket | None = None
        self._token = ""
        self._thread: threading.Thread | None = None
        self._pid = 0

    def start(self) -> str | None:
        """Begin to listen; returns why that is not possible, or None. Not on systems without Unix sockets."""
        if not hasattr(socket, "AF_UNIX"):
            return None
        try:
            self._server, self._token = link.listen(os.getpid())
        except (OSError, WatchError) as error:
            return f"no viewer can attach: {error}"
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, name="cudalens-watch-server", daemon=True)
        self._thread.start()
        return None

    def stop(self) -> None:
        """End listening, and remove the socket."""
        server, self._server = self._server, None
        if server is None:
            return
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)  # ends a waiting accept()
        server.close()
        if self._pid == os.getpid():
            link.remove(self._pid)
            if self._thread is not None and self._thread is not threading.current_thread():
                self._thread.join()

    def forget(self) -> None:
        """Close the copy of the socket in a forked child, which answers no viewer."""
        server, self._server = self._server, None
        if server is not None:
            server.close()

    def _run(self) -> None:
        with own_thread():
            while (server := self._server) is not None:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                began = time.thread_time_ns()
                with client, contextlib.suppress(Exception):  # no request ends the thread that answers the next one
                    client.settimeout(_CLIENT_S)
                    self._answer(client)
                self._on_spent(time.thread_time_ns() - began)

    def _answer(self, client: socket.socket) -> None:
        data = b""
        while not data.endswith(b"\n") and len(data) <= link.MOST_REQUEST:
            part = client.recv(link.MOST_REQUEST)
            if not part:
                break
            data += part
        answer = self._answers.get(link.request_of(data, self._token) or "")
        if answer is not None:
            client.sendall(answer())


_PERIOD_S: Final = 0.5


class WatchWorker:
    """Runs jobs one after the other on a daemon thread, and a function twice a second.

    Args:
        on_tick: Called twice a second, and once at the end.
        on_error: Called with the exception of a job that failed.
        on_job: Called with the CPU time that a job took, ns.
        on_ticked: Called with the CPU time that a tick took, ns.
    """

    def __init__(
        self,
        on_tick: Callable[[], object],
        on_error: Callable[[Exception], object],
        on_job: Callable[[int], object],
        on_ticked: Callable[[int], object],
    ) -> None:
        self._on_tick, self._on_error, self._on_job, self._on_ticked = on_tick, on_error, on_job, on_ticked
        self._jobs: deque[Callable[[], object]] = deque()
        self._wake = threading.Event()
        self._is_ending = False
        self._thread: threading.Thread | None = None

    @property
    def is_running(self) -> bool:
        """Whether the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Start the thread. What it displays belongs to the cell that started it."""
        run = contextvars.copy_context().run
        self._thread = threading.Thread(target=run, args=(self._run,), name="cudalens-watch", daemon=True)
        self._thread.start()

    def add(self, job: Callable[[], object]) -> None:
        """Run `job` soon."""
        self._jobs.append(job)
        self._wake.set()

    def stop(self) -> None:
        """Finish the jobs and end the thread."""
        self._is_ending = True
        self._wake.set()
        thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def forget(self) -> None:
        """Drop the thread in a forked child, which has none."""
        self._thread = None
        self._jobs.clear()

    def _run(self) -> None:
        with own_thread():
            while not self._is_ending or self._jobs:
                self._wake.wait(_PERIOD_S)
                self._wake.clear()
                while self._jobs:
                    self._call(self._jobs.popleft(), self._on_job)
                self._call(self._on_tick, self._on_ticked)

    def _call(self, job: Callable[[], object], on_spent: Callable[[int], object]) -> None:
        began = time.thread_time_ns()
        try:
            job()
        except Exception as error:
            with contextlib.suppress(Exception):
                self._on_error(error)
        on_spent(time.thread_time_ns() - began)


# Choose which recordings of a long run to keep, within a number and a size. No torch.

MOST_RECORDINGS: Final = 12
MOST_BYTES: Final = 16_000_000

#: Reasons to keep a recording, most important first.
REASONS: Final = ("first", "requested", "after a change", "last", "slowest", "sample")
#: Recordings that are kept for one reason.
_NUM_OF: Final = {"first": 1, "last": 1, "requested": 3, "after a change": 4, "slowest": 2, "sample": 3}


class Kept(Protocol):
    """A recording, as the store sees it."""

    step: int
    step_ns: int
    num_bytes: int
    is_requested: bool
    is_after_change: bool


_K = TypeVar("_K", bound=Kept)


class RecordingStore(Generic[_K]):
    """The first, the last, the slowest, those asked for, the first after each change, and a random sample.

    The sample is a reservoir: each recording that has no other reason is in it with the same probability (J. S. Vitter,
    "Random sampling with a reservoir", ACM TOMS 11 (1985), algorithm R).

    Args:
        most: Recordings that are kept, at least 2: the first and the last.
        most_bytes: Their size; the first and the last are always kept.
        seed: Of the random sample.
    """

    def __init__(self, most: int = MOST_RECORDINGS, most_bytes: int = MOST_BYTES, seed: int = 0) -> None:
        self._most, self._most_bytes = max(most, 2), most_bytes
        self._random = random.Random(seed)  # noqa: S311 - a sample, not a secret
        self._sample: list[_K] = []
        self._num_seen = 0
        self._kept: list[_K] = []
        self._first: _K | None = None

    @property
    def kept(self) -> list[_K]:
        """The recordings, in order of time."""
        return list(self._kept)

    def add(self, one: _K) -> list[_K]:
        """Add a recording, the newest; returns those that are no longer kept, which may include it."""
        self._first = self._first or one
        self._draw(one)
        self._kept.append(one)
        reasons = self.reasons()
        ends = (self._first, one)
        order = sorted(
            self._kept,
            key=lambda kept: (not any(kept is end for end in ends), _rank(reasons.get(id(kept))), -kept.step),
        )
        wanted: list[_K] = []
        size = 0
        for kept in order:
            fits = len(wanted) < self._most and size + kept.num_bytes <= self._most_bytes
            is_end = kept is self._first or kept is one
            if is_end or (id(kept) in reasons and fits):
                wanted.append(kept)
                size += kept.num_bytes
        dropped = [kept for kept in self._kept if not any(kept is other for other in wanted)]
        self._kept = [kept for kept in self._kept if any(kept is other for other in wanted)]
        self._sample = [kept for kept in self._sample if not any(kept is other for other in dropped)]
        return dropped

    def reasons(self) -> dict[int, str]:
        """Return the reason of each recording that has one, by its ``id``."""
        found: dict[int, str] = {}
        groups: dict[str, list[_K]] = {
            "first": [kept for kept in self._kept if kept is self._first],
            "last": self._kept[-1:],
            "requested": [kept for kept in self._kept if kept.is_requested],
            "after a change": [kept for kept in self._kept if kept.is_after_change],
            "slowest": sorted(self._kept, key=lambda kept: kept.step_ns),
            "sample": self._sample,
        }
        for reason in REASONS:
            free = [kept for kept in groups[reason] if id(kept) not in found]
            found |= {id(kept): reason for kept in free[-_NUM_OF[reason] :]}
        return found

    def _draw(self, one: _K) -> None:
        self._num_seen += 1
        if len(self._sample) < _NUM_OF["sample"]:
            self._sample.append(one)
        elif (at := self._random.randrange(self._num_seen)) < len(self._sample):
            self._sample[at] = one


def _rank(reason: str | None) -> int:
    return REASONS.index(reason) if reason is not None else len(REASONS)
