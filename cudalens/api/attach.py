"""Attach to a watched process of the same user: its state, its last recording, Record now and Stop."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from cudalens.errors import WatchError
from cudalens.frames import Trace
from cudalens.watching import link
from cudalens.watching.run import WatchedRun, decode_history

_PERIOD_S: Final = 1.0


class AttachedRun:
    """A run that another process watches. That process goes on whatever becomes of this one.

    Args:
        pid: The process; None for the only one of this user that is watched.

    Attributes:
        pid: The process.

    Raises:
        WatchError: There is no such process, or there are several.
    """

    def __init__(self, pid: int | None = None) -> None:
        self.pid = link.chosen_process(pid)
        self._last: tuple[int, Trace] | None = None

    def read(self) -> WatchedRun:
        """Return the state now, with the Trace of the last recording alone.

        Raises:
            WatchError: The process is not watched any more, or does not answer.
            TraceFormatError: It answers something else.
        """
        data = link.ask(self.pid, "state")
        if not data:
            raise WatchError(f"process {self.pid} does not accept this viewer.")
        run = decode_history(data, None, f"process {self.pid}")
        if not run.recordings:
            return run
        last = run.recordings[-1]
        if self._last is None or self._last[0] != last.step:
            self._last = self._recording(last.step)
        if self._last is None:
            return run
        kept = tuple(one for one in run.recordings if one.step <= self._last[0])
        return WatchedRun(run.facts, run.columns, run.changes, kept, {self._last[0]: self._last[1]})

    def record(self) -> None:
        """Record the next steps."""
        link.ask(self.pid, "record")

    def stop(self) -> None:
        """Stop watching, not the process."""
        link.ask(self.pid, "stop")

    def follow(self, show: Callable[[WatchedRun], object], *, seconds: float | None = None) -> None:
        """Call `show` with the state once a second, until the run ends, or for `seconds`.

        Raises:
            WatchError: The process did not answer the first time.
        """
        show(self.read())
        end_s = None if seconds is None else time.monotonic() + seconds
        while end_s is None or time.monotonic() < end_s:
            time.sleep(_PERIOD_S)
            try:
                show(self.read())
            except WatchError:
                return

    def _recording(self, step: int) -> tuple[int, Trace] | None:
        data = link.ask(self.pid, "trace")
        if not data:
            return None
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"step-{step}.cudalens"
            path.write_bytes(data)
            return step, Trace.load(path)


def attach(pid: int | None = None) -> AttachedRun:
    """Attach to a process of this user that is watched, by `cudalens.watch` or ``%cudawatch on``.

    Args:
        pid: The process; None for the only one.

    Raises:
        WatchError: There is no such process, or there are several; the message lists them.
    """
    return AttachedRun(pid)
