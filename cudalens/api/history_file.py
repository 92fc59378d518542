"""The file of past runs: JSON lines, one object for each run, which are only ever appended."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final

import msgspec

from cudalens.errors import HistoryError

_VERSION: Final = 1
_MAX_LINE_BYTES: Final = 1 << 16
_SQLITE: Final = b"SQLite format 3\0"
_EXPECTED: Final = "expected a file that %cudaprofile history wrote. Nothing was written; give another name."

_Int = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


@dataclass(frozen=True)
class PastRun:
    """The summary of a run.

    Attributes:
        recorded_ns: When it was recorded, ns since the epoch.
        series: The runs that it is compared with: the run's name, or the hash of its cell.
        setting: Device, source and options, which have to be the same to compare.
        name: Name of the run.
        code_hash: Hash of the cell's source; "" where that is unknown.
        device: What it ran on.
        value_ns: The compared value: mean length of a step, or the measured window without steps.
        num_steps: Number of steps; 0 without any.
        wall_ns: Length of the measured window.
        busy_ns: Time in which a device was busy; None without one.
        peak_memory_bytes: Largest peak of memory; None where it was not recorded.
    """

    recorded_ns: _Int
    series: str
    setting: str
    name: str
    code_hash: str
    device: str
    value_ns: _Int
    num_steps: _Int
    wall_ns: _Int
    busy_ns: _Int | None
    peak_memory_bytes: _Int | None


class _Version(msgspec.Struct):
    """The version of the format, which each line has."""

    cudalens_history: int | None = None


class HistoryFile:
    """A file of past runs.

    Args:
        path: Its path. The file is created with the first run; its folder has to exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, run: PastRun) -> None:
        """Append `run`.

        Raises:
            HistoryError: The file cannot be written, or is not a history; it is unchanged.
        """
        self.last(1)
        try:
            line = msgspec.json.encode({"cudalens_history": _VERSION, **asdict(run)}) + b"\n"
            if len(line) > _MAX_LINE_BYTES:
                known = f"its line has {len(line):,} bytes, at most {_MAX_LINE_BYTES:,} are read; give a shorter name"
                raise HistoryError(f"{self.path}: the run was not added ({known}).")
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            try:
                with _locked(descriptor):
                    _append(descriptor, line)
            finally:
                os.close(descriptor)
        except (OSError, ValueError) as error:
            raise HistoryError(f"{self.path}: the run was not added ({_reason(error)}).") from None

    def last(self, number: int, series: str | None = None, setting: str | None = None) -> list[PastRun]:
        """Return the last runs, oldest first; of a series and setting where they are given.

        Raises:
            HistoryError: The file cannot be read, or is not a history.
        """
        if not self.path.exists():
            return []
        wanted = (run for run in self._runs() if series in (None, run.series) and setting in (None, run.setting))
        try:
            found = deque(wanted, maxlen=number)
        except OSError as error:
            raise HistoryError(f"{self.path}: it cannot be read ({_reason(error)}).") from None
        return sorted(found, key=lambda run: run.recorded_ns)

    def check(self) -> None:
        """Check that it can be used.

        Raises:
            HistoryError: Its folder is missing, or it cannot be read or written, or is not a history.
        """
        folder = self.path.parent
        if not folder.is_dir():
            raise HistoryError(f"{self.path}: there is no folder {str(folder)!r}; make it first.")
        if self.path.is_dir():
            raise HistoryError(f"{self.path}: a folder; give the name of a file in it.")
        self.last(1)
        if self.path.exists():
            if not os.access(self.path, os.W_OK):
                raise HistoryError(f"{self.path}: it may be read only; runs could not be kept. Give another name.")
            return
        try:
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise HistoryError(f"{self.path}: nothing can be written to its folder ({_reason(error)}).") from None

    def _runs(self) -> Iterator[PastRun]:
        decoder = msgspec.json.Decoder(PastRun)
        with open(self.path, "rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(_MAX_LINE_BYTES), b""), 1):
                yield self._run(decoder, number, line)

    def _run(self, decoder: msgspec.json.Decoder[PastRun], number: int, line: bytes) -> PastRun:
        if number == 1 and line.startswith(_SQLITE):
            raise HistoryError(f"{self.path}: an SQLite file, as earlier versions of cudalens wrote; {_EXPECTED}")
        where = f"{self.path}, line {number}"
        if not line.endswith(b"\n"):
            raise HistoryError(f"{where}: no end of the line in {len(line):,} bytes; delete the line, or {_EXPECTED}")
        try:
            version = msgspec.json.decode(line, type=_Version).cudalens_history
            if version is None:
                raise HistoryError(f"{where}: a file of another program; {_EXPECTED}")
            if version != _VERSION:
                raise HistoryError(f"{where}: version {version} of the format; this cudalens reads {_VERSION}.")
            return decoder.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise HistoryError(f"{where}: damaged, or not a run ({error}); {_EXPECTED}") from None


@contextlib.contextmanager
def _locked(descriptor: int) -> Iterator[None]:
    """Keep other processes from appending, where the platform and the file system have such locks."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # ends when the descriptor is closed
    yield


def _append(descriptor: int, line: bytes) -> None:
    """Append `line` as a whole or not at all: a part of a line would make the file unreadable.

    Raises:
        OSError: The device is full.
    """
    begin = os.lseek(descriptor, 0, os.SEEK_END)
    num_written = 0
    try:
        num_written = os.write(descriptor, line)  # one call: lines of processes without locks do not mix
        while num_written < len(line):
            num_written += os.write(descriptor, line[num_written:])
    except BaseException:
        if num_written and os.fstat(descriptor).st_size == begin + num_written:
            os.ftruncate(descriptor, begin)
        raise


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)
