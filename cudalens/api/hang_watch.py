"""`watch_hangs`: write what each rank of a distributed job does when the job makes no progress."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final

import msgspec

from cudalens.device import flight_recorder
from cudalens.errors import OutputError
from cudalens.frames import atomic_write
from cudalens.frames.flight_records import EXITED
from cudalens.traces.flight_recorder import STATE_SUFFIX

_THREAD_NAME: Final = "cudalens watch_hangs"
_REQUEST: Final = "dump_requested"
_NUM_THREADS: Final = 64
_NUM_FRAMES: Final = 100
_MAX_POLL_S: Final = 5.0
_POLLS_PER_TIMEOUT: Final = 8


def watch_hangs(
    folder: str | os.PathLike[str], *, timeout_s: float = 60.0, interval_s: float | None = None
) -> HangWatcher:
    """Write dumps to `folder` whenever this rank enters and leaves no collective for a time.

    Call it in every rank, before ``init_process_group``: it turns on torch's FlightRecorder. The ranks share `folder`.
    When a rank makes no progress for `timeout_s`, all ranks write two dumps: their last collectives with Python stacks,
    and the stacks of their threads. A rank that exits or raises writes one, too. `cudalens.load_flight_recorder` reads
    the folder and names the rank that holds up the others.

    The watcher is a daemon thread. It ends with the process, with ``stop()``, or at the end of a ``with`` block.

    Args:
        folder: Where to write, at most five dumps per rank; created if absent. Older files of the same rank are
            replaced.
        timeout_s: Time without progress in s after which dumps are written.
        interval_s: Time in s between the two dumps; None for a quarter of `timeout_s`.

    Raises:
        ValueError: A time is not positive.
        OutputError: The folder cannot be created.
    """
    if not timeout_s > 0 or not (interval_s is None or interval_s > 0):
        raise ValueError(f"timeout_s and interval_s must be positive; got {timeout_s!r} and {interval_s!r}")
    flight_recorder.request_recording()
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder}: cannot create the folder ({error.strerror})") from error
    return HangWatcher(Path(folder), timeout_s, timeout_s / 4 if interval_s is None else interval_s)


class HangWatcher:
    """Watches the collectives of this process; made by `watch_hangs`."""

    def __init__(self, folder: Path, timeout_s: float, interval_s: float) -> None:
        self._folder = folder
        self._timeout_s, self._interval_s = timeout_s, interval_s
        self._poll_s = min(timeout_s / _POLLS_PER_TIMEOUT, interval_s / 2, _MAX_POLL_S)
        self._ended = threading.Event()
        self._rank: int | None = None
        self._ending = EXITED
        self._excepthook = sys.excepthook
        sys.excepthook = self._note_exception
        atexit.register(self._write_ending)
        self._thread = threading.Thread(target=self._watch, name=_THREAD_NAME, daemon=True)
        self._thread.start()

    def dump(self) -> None:
        """Write a dump of this rank now, as an alarm of your own would; a later one replaces it.

        Raises:
            RuntimeError: There is no process group.
            OutputError: A file cannot be written.
        """
        if not flight_recorder.is_initialized():
            raise RuntimeError("there is no process group; call torch.distributed.init_process_group first")
        if self._rank is None:
            self._begin()
        self._write("dump_8", "")

    def stop(self) -> None:
        """Stop watching; the files stay. It may be called twice."""
        self._ended.set()
        if self._thread is not threading.current_thread():
            self._thread.join()
        atexit.unregister(self._write_ending)
        if sys.excepthook == self._note_exception:
            sys.excepthook = self._excepthook

    def __enter__(self) -> HangWatcher:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def _watch(self) -> None:
        stall = _Stall(self._timeout_s, self._interval_s)
        request = self._folder / _REQUEST
        while not self._ended.wait(self._poll_s):
            with contextlib.suppress(OSError, OutputError):
                if not flight_recorder.is_initialized():
                    continue
                if self._rank is None:
                    self._begin()
                number = stall.next_dump(flight_recorder.progress(), _modified(request))
                if number:
                    self._write(f"dump_{number}", "")
                if number == 1 and stall.is_own:
                    request.touch()

    def _begin(self) -> None:
        """Take the rank, remove its older files, and warm up the dump, whose first call imports modules."""
        self._rank, _ = flight_recorder.rank_and_size()
        for path in self._folder.glob(f"rank_{self._rank}.*"):
            path.unlink(missing_ok=True)
        flight_recorder.dump()
        self._write_state("dump_0", "")

    def _write(self, name: str, ending: str) -> None:
        with atomic_write(self._path(name, ".pickle")) as file:
            file.write(flight_recorder.dump())
        self._write_state(name, ending)

    def _write_state(self, name: str, ending: str) -> None:
        rank, world_size = flight_recorder.rank_and_size() if flight_recorder.is_initialized() else (self._rank, 0)
        # Python stacks of the threads of this process but the watcher's, the main thread first.
        stacks = sys._current_frames()
        threads = [thread for thread in threading.enumerate() if thread.ident in stacks and thread.name != _THREAD_NAME]
        threads.sort(key=lambda thread: thread is not threading.main_thread())
        state = {
            "rank": rank,
            "world_size": world_size,
            "written_ns": time.time_ns(),
            "groups": flight_recorder.groups() if world_size else {},
            "threads": [
                {"name": one.name, "frames": _frames(stacks[one.ident or 0])} for one in threads[:_NUM_THREADS]
            ],
            "ending": ending,
            "transfer": _transfer() if world_size and not ending else None,
        }
        with atomic_write(self._path(name, STATE_SUFFIX)) as file:
            file.write(msgspec.json.encode(state))

    def _path(self, name: str, suffix: str) -> Path:
        return self._folder / f"rank_{self._rank}.{name}{suffix}"

    def _note_exception(self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        message = (str(error).splitlines() or [""])[0]
        self._ending = f"{kind.__name__}: {message}"[:500]
        self._excepthook(kind, error, traceback)

    def _write_ending(self) -> None:
        self._ended.set()
        self._thread.join(2 * self._poll_s)
        if self._rank is None and flight_recorder.is_initialized():
            self._rank, _ = flight_recorder.rank_and_size()
        if self._rank is not None:
            with contextlib.suppress(OSError, OutputError):
                self._write("dump_9", self._ending)


class _Stall:
    """Decides when to write a dump.

    Attributes:
        is_own: Whether this rank stalls itself; else another rank asked for dumps.
    """

    def __init__(self, timeout_s: float, interval_s: float) -> None:
        self.is_own = False
        self._timeout_s, self._interval_s = timeout_s, interval_s
        self._progress, self._changed_at = b"", time.monotonic()
        self._request = time.time()
        self._num_dumps, self._dumped_at = 0, 0.0

    def next_dump(self, progress: bytes, requested: float) -> int:
        """1 or 2 for the dump that has to be written now, else 0.

        Args:
            progress: What `cudalens.device.flight_recorder.progress` returns.
            requested: When a rank last asked for dumps, in s since 1970.
        """
        now = time.monotonic()
        if progress != self._progress:
            self._progress, self._changed_at = progress, now
            if self.is_own:
                self._num_dumps = 0
        self.is_own = now - self._changed_at >= self._timeout_s
        if requested > self._request:
            self._request, self._num_dumps = requested, 0 if not self.is_own else self._num_dumps
            due = self._num_dumps == 0
        else:
            due = self.is_own and self._num_dumps == 0
        due = due or (self._num_dumps == 1 and now - self._dumped_at >= self._interval_s)
        if not due:
            return 0
        self._num_dumps += 1
        self._dumped_at = now
        return self._num_dumps


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _transfer() -> dict[str, Any] | None:
    """Return the send or receive in which the main thread is."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    try:
        return flight_recorder.transfer_in(frame)
    except (AttributeError, KeyError, ValueError):  # private names of another version of torch
        return None


def _frames(frame: FrameType | None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while frame is not None and len(found) < _NUM_FRAMES:
        code = frame.f_code
        found.append({"filename": code.co_filename, "line": frame.f_lineno or 0, "name": code.co_name})
        frame = frame.f_back
    return found
