"""Past runs, and how a new run compares with them: ``18 % slower than the last 3 runs``.

The summary of each profiled cell is kept for the session. `on` also appends it to a file of JSON lines; nothing is
written before. Runs are compared with earlier ones of the same series (the run's name where the user gave it one, else
the same source of the cell) on the same device, from the same source, with the same options. A difference is reported
only where it is outside of the band of the earlier runs, see `Baseline`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
import threading
import time
import warnings
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import Annotated, Final

import msgspec
import numpy as np
import pandas as pd

from cudalens.analysis.summary import summarize
from cudalens.errors import HistoryError
from cudalens.frames import Trace
from cudalens.frames.info import Baseline

__all__ = ["DEFAULT_FILE", "HistoryWarning", "attempts", "clear", "off", "on", "record", "table", "where"]

_VERSION: Final = 1
#: The version of lines with attempts, which earlier versions of cudalens do not read.
_ATTEMPTS: Final = 2
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


@dataclass(frozen=True)
class PastAttempt:
    """A try of the fix of a finding.

    Attributes:
        recorded_ns: When it ended, ns since the epoch.
        name: Name of the run whose finding was tried.
        device: What it ran on.
        rule: The rule of the finding.
        fix: What the fix does; "" where none was written.
        predicted_pct: Gain of the finding as a share of the measured window, in per cent; None without one.
        gain_pct: What the try gave as a share of the time of a run, in per cent; None where it was not tried.
        helps: Whether it is faster, and results are as claimed.
        is_modelled: Whether the times are modelled.
        answer: The answer in one line.
    """

    recorded_ns: _Int
    name: str
    device: str
    rule: str
    fix: str
    predicted_pct: float | None
    gain_pct: float | None
    helps: bool
    is_modelled: bool
    answer: str


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

    def add(self, run: PastRun | PastAttempt) -> None:
        """Append a run or an attempt.

        Raises:
            HistoryError: The file cannot be written, or is not a history; it is unchanged.
        """
        self.last(1)
        try:
            version = _VERSION if isinstance(run, PastRun) else _ATTEMPTS
            line = msgspec.json.encode({"cudalens_history": version, **asdict(run)}) + b"\n"
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
        runs = (line for line in self._lines() if isinstance(line, PastRun))
        wanted = (run for run in runs if series in (None, run.series) and setting in (None, run.setting))
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

    def attempts(self, number: int) -> list[PastAttempt]:
        """Return the last attempts, oldest first.

        Raises:
            HistoryError: The file cannot be read, or is not a history.
        """
        if not self.path.exists():
            return []
        try:
            return list(deque((one for one in self._lines() if isinstance(one, PastAttempt)), maxlen=number))
        except OSError as error:
            raise HistoryError(f"{self.path}: it cannot be read ({_reason(error)}).") from None

    def _lines(self) -> Iterator[PastRun | PastAttempt]:
        with open(self.path, "rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(_MAX_LINE_BYTES), b""), 1):
                yield self._decoded(number, line)

    def _decoded(self, number: int, line: bytes) -> PastRun | PastAttempt:
        if number == 1 and line.startswith(_SQLITE):
            raise HistoryError(f"{self.path}: an SQLite file, as earlier versions of cudalens wrote; {_EXPECTED}")
        where = f"{self.path}, line {number}"
        if not line.endswith(b"\n"):
            raise HistoryError(f"{where}: no end of the line in {len(line):,} bytes; delete the line, or {_EXPECTED}")
        try:
            version = msgspec.json.decode(line, type=_Version).cudalens_history
            if version is None:
                raise HistoryError(f"{where}: a file of another program; {_EXPECTED}")
            if version not in _DECODERS:
                raise HistoryError(f"{where}: version {version} of the format; this cudalens reads up to {_ATTEMPTS}.")
            return _DECODERS[version].decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise HistoryError(f"{where}: damaged, or not a run ({error}); {_EXPECTED}") from None


_DECODERS: Final[dict[int, msgspec.json.Decoder[PastRun] | msgspec.json.Decoder[PastAttempt]]] = {
    _VERSION: msgspec.json.Decoder(PastRun),
    _ATTEMPTS: msgspec.json.Decoder(PastAttempt),
}


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


DEFAULT_FILE: Final = "cudalens-history.jsonl"

MAX_COMPARED: Final = 10

#: Two runs are too few to estimate a spread.
MIN_COMPARED: Final = 3

#: Least half width of the band, as a share of the median: clock rates and other processes cause as much.
LEAST_BAND: Final = 0.05

#: Three standard deviations of a normal distribution, by its median absolute deviation.
_WIDTH: Final = 3 * 1.4826

_MAX_LISTED: Final = 1_000
_AUTOMATIC: Final = re.compile(r"^(?:cell|run)-\d+$")

_lock = threading.Lock()
_session: list[PastRun] = []
_attempts: list[PastAttempt] = []
_file: HistoryFile | None = None


class HistoryWarning(UserWarning):
    """The file of past runs could not be used; the run itself is not affected."""


def on(path: str | PathLike[str] | None = None) -> Path:
    """Keep the summaries of runs in a file from now on; returns its path.

    Args:
        path: The file, made with the first run; None for ``cudalens-history.jsonl`` in the working folder.

    Raises:
        HistoryError: It cannot be used: its folder is missing, or it is damaged, not writable or not a history.
    """
    global _file
    file = HistoryFile(Path(path or DEFAULT_FILE).expanduser())
    file.check()
    _file = file
    return file.path


def off() -> None:
    """Keep summaries only for the session."""
    global _file
    _file = None


def where() -> Path | None:
    """Return the file in which summaries are kept; None where they are kept only for the session."""
    return None if _file is None else _file.path


def clear() -> None:
    """Discard the runs and the attempts of the session; files are not changed."""
    with _lock:
        _session.clear()
        _attempts.clear()


def table(name: str | None = None) -> pd.DataFrame:
    """Past runs, oldest first: those of the session and of the file, where one is on.

    Args:
        name: Only runs with this name; None for all.

    Returns:
        Columns ``when`` (UTC), ``name``, ``device``, ``value_ns`` (mean length of a step, or the measured
        window without steps), ``num_steps``, ``wall_ns``, ``busy_ns``, ``peak_memory_bytes`` (missing where
        unknown), ``code_hash``.

    Raises:
        HistoryError: The file cannot be read.
    """
    runs = _merged(_session, _file.last(_MAX_LISTED) if _file else [])
    runs = [run for run in runs if name is None or run.name == name]
    whole = {name: pd.array([getattr(run, name) for run in runs], dtype="Int64") for name in _NUMBERS}
    texts = {
        name: pd.Series([getattr(run, name) for run in runs], dtype=object) for name in ("name", "device", "code_hash")
    }
    frame = pd.DataFrame({**texts, **whole})
    frame["when"] = pd.to_datetime([run.recorded_ns for run in runs], unit="ns", utc=True)
    return frame[["when", "name", "device", *_NUMBERS, "code_hash"]]


_NUMBERS: Final = ("value_ns", "num_steps", "wall_ns", "busy_ns", "peak_memory_bytes")


def attempts() -> pd.DataFrame:
    """Return the fixes that were tried, oldest first: in the session, and in the file, where one is on.

    Returns:
        Columns ``when`` (UTC), ``run``, ``device``, ``rule``, ``fix``, ``predicted_pct`` (the gain of the finding as a
        share of the measured window, an upper bound), ``gain_pct`` (what the try gave as a share of the time of a run;
        missing where it was not tried), ``helps``, ``is_modelled``, ``answer``.

    Raises:
        HistoryError: The file cannot be read.
    """
    filed = _file.attempts(_MAX_LISTED) if _file else []
    known = sorted({*_attempts, *filed}, key=lambda one: one.recorded_ns)
    names = [*(f.name for f in fields(PastAttempt) if f.name not in ("recorded_ns", "name"))]
    rows = [{"run": one.name, **{name: getattr(one, name) for name in names}} for one in known]
    kinds = {"predicted_pct": "Float64", "gain_pct": "Float64"}
    frame = pd.DataFrame(rows, columns=["run", *names]).astype(kinds)
    frame.insert(0, "when", pd.to_datetime([one.recorded_ns for one in known], unit="ns", utc=True))
    return frame


def add_attempt(attempt: PastAttempt) -> None:
    """Keep an attempt; a file that cannot be used is a `HistoryWarning`."""
    with _lock:
        _attempts.append(attempt)
    if _file is not None:
        try:
            _file.add(attempt)
        except HistoryError as error:
            warnings.warn(str(error), HistoryWarning, stacklevel=3)


def record(trace: Trace, file: str | PathLike[str] | None = None) -> Trace:
    """Keep the summary of `trace` and compare it with earlier runs; returns the Trace with the comparison.

    A run that raised or was interrupted is not kept. A file that cannot be used is a `HistoryWarning`.

    Args:
        trace: A run.
        file: Where to keep it; None for the file that is on, if any.
    """
    known, problem = kept(trace, file)
    if problem is not None:
        warnings.warn(problem, HistoryWarning, stacklevel=2)
    return known


def kept(trace: Trace, file: str | PathLike[str] | None = None) -> tuple[Trace, str | None]:
    """As `record`; returns the problem with the file instead of a warning."""
    if trace.info.status != "ok":
        return trace, None
    run, problem = _past_run(trace), None
    used = HistoryFile(Path(file).expanduser()) if file is not None else _file
    with _lock:
        past = [one for one in _session if (one.series, one.setting) == (run.series, run.setting)]
        _session.append(run)
    try:
        if used is not None:
            past = _merged(past, used.last(MAX_COMPARED, run.series, run.setting))
            used.add(run)
    except HistoryError as error:
        problem = str(error)
    baseline = compared(run, past)
    return (trace if baseline is None else trace.replace(info=trace.info.replace(baseline=baseline))), problem


def compared(run: PastRun, past: list[PastRun]) -> Baseline | None:
    """Compare `run` with the last of `past` (oldest first); None where there are too few."""
    last = past[-MAX_COMPARED:]
    if len(last) < MIN_COMPARED:
        return None
    values = np.array([one.value_ns for one in last], np.float64)
    median = float(np.median(values))
    half = max(_WIDTH * float(np.median(np.abs(values - median))), LEAST_BAND * median)
    low, high = min(median - half, float(values.min())), max(median + half, float(values.max()))
    has_changed = last[-1].code_hash != run.code_hash
    return Baseline(
        value_ns=run.value_ns,
        median_ns=round(median),
        low_ns=max(0, round(low)),
        high_ns=round(high),
        num_runs=len(last),
        is_of_steps=run.num_steps > 0,
        has_other_code=has_changed,
    )


def _merged(session: list[PastRun], filed: list[PastRun]) -> list[PastRun]:
    return sorted({*session, *filed}, key=lambda run: run.recorded_ns)


def _past_run(trace: Trace) -> PastRun:
    info, summary = trace.info, summarize(trace)
    code_hash = sha256(info.code.strip().encode("utf-8", "replace")).hexdigest()[:16] if info.code else ""
    is_named = not _AUTOMATIC.match(info.name)
    device = ", ".join(dict.fromkeys(device.name for device in info.devices)) or info.host or ""
    steps = summary.num_steps or 0
    setting = json.dumps([info.source, device, sorted(info.options.items()), steps > 0], default=str)
    return PastRun(
        recorded_ns=time.time_ns(),
        series=f"name {info.name}" if is_named or not code_hash else f"code {code_hash}",
        setting=setting,
        name=info.name,
        code_hash=code_hash,
        device=device,
        value_ns=round(summary.step_mean_ns) if summary.step_mean_ns else summary.wall_ns,
        num_steps=steps,
        wall_ns=summary.wall_ns,
        busy_ns=summary.device_busy_ns,
        peak_memory_bytes=max(summary.peak_memory_bytes.values()) if summary.peak_memory_bytes else None,
    )
