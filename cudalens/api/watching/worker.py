"""The thread of a watched run: builds frames of recordings, finds causes of changes, publishes and writes the state."""

from __future__ import annotations

import contextlib
import contextvars
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from cudalens.device.own_work import own_thread

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
