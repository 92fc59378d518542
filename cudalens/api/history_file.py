"""The file of past runs: one small SQLite database, opened for each act and closed again, so that nothing holds it."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any, Final

from cudalens.errors import HistoryError

#: Marks our files among SQLite's, as ``PRAGMA application_id``.
_APPLICATION: Final = 0x43444C48

#: How long to wait for somebody else who writes.
_VERSION: Final = 1
_WAIT_S: Final = 2.0


@dataclass(frozen=True)
class PastRun:
    """What is kept of a run.

    Attributes:
        recorded_ns: When it was kept, ns since the epoch.
        series: What it is compared within: the run's name, or the hash of its cell.
        setting: Device, source and options, which have to be the same to compare.
        name: Name of the run.
        code_hash: Hash of the cell's source; "" where that is not known.
        device: What it ran on.
        value_ns: What is compared: mean length of a step, or the measured window without steps.
        num_steps: Number of steps; 0 without any.
        wall_ns: Length of the measured window.
        busy_ns: Time in which a device was at work; None without one.
        peak_memory_bytes: Largest peak of memory; None where it was not recorded.
    """

    recorded_ns: int
    series: str
    setting: str
    name: str
    code_hash: str
    device: str
    value_ns: int
    num_steps: int
    wall_ns: int
    busy_ns: int | None
    peak_memory_bytes: int | None


_COLUMNS: Final = tuple(field.name for field in fields(PastRun))
_TEXTS: Final = frozenset({"series", "setting", "name", "code_hash", "device"})
_OPTIONAL: Final = frozenset({"busy_ns", "peak_memory_bytes"})
_TABLE: Final = "CREATE TABLE IF NOT EXISTS runs ({})".format(
    ", ".join(
        f"{name} {'TEXT' if name in _TEXTS else 'INTEGER'}{'' if name in _OPTIONAL else ' NOT NULL'}"
        for name in _COLUMNS
    )
)


class HistoryFile:
    """A file of past runs.

    Args:
        path: Where it is; made when the first run is kept, its folder has to be there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, run: PastRun) -> None:
        """Keep `run`.

        Raises:
            HistoryError: The file cannot be written, or is none of ours; it is unchanged.
        """
        marks = ", ".join("?" * len(_COLUMNS))
        with self._open() as database:
            database.execute("BEGIN IMMEDIATE")
            database.execute(f"PRAGMA application_id = {_APPLICATION}")
            database.execute(f"PRAGMA user_version = {_VERSION}")
            database.execute(_TABLE)
            database.execute("CREATE INDEX IF NOT EXISTS runs_by_series ON runs (series, setting, recorded_ns)")
            database.execute(f"INSERT INTO runs ({', '.join(_COLUMNS)}) VALUES ({marks})", astuple(run))  # noqa: S608
            database.execute("COMMIT")

    def last(self, number: int, series: str | None = None, setting: str | None = None) -> list[PastRun]:
        """The last runs, oldest first; of a series and setting where they are given.

        Raises:
            HistoryError: The file cannot be read, or is none of ours.
        """
        if not self.path.exists():
            return []
        wanted = {"series": series, "setting": setting}
        known = {name: value for name, value in wanted.items() if value is not None}
        where = f"WHERE {' AND '.join(f'{name} = ?' for name in known)}" if known else ""
        query = f"SELECT {', '.join(_COLUMNS)} FROM runs {where} ORDER BY recorded_ns DESC LIMIT ?"  # noqa: S608
        with self._open() as database:
            if self._is_new(database):
                return []
            rows = database.execute(query, (*known.values(), number)).fetchall()
        return [self._run(row) for row in reversed(rows)]

    def check(self) -> None:
        """See that it can be used.

        Raises:
            HistoryError: Its folder is missing or cannot be written, it is locked, broken, or something else's.
        """
        folder = self.path.parent
        if not folder.is_dir():
            raise HistoryError(f"{self.path}: there is no folder {str(folder)!r}; make it first.")
        if self.path.is_dir():
            raise HistoryError(f"{self.path}: a folder; give the name of a file in it.")
        self.last(1)
        if self.path.exists() and not os.access(self.path, os.W_OK):
            raise HistoryError(f"{self.path}: it may be read only; runs could not be kept. Give another name.")
        try:
            with tempfile.TemporaryFile(dir=folder):  # SQLite keeps a journal beside the file while it writes
                pass
        except OSError as error:
            reason = error.strerror or error
            raise HistoryError(f"{self.path}: nothing can be written to its folder ({reason}).") from None

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        database = None
        try:
            database = sqlite3.connect(self.path, timeout=_WAIT_S, isolation_level=None)
            database.execute("PRAGMA trusted_schema = OFF")
            self._refuse_others(database)
            yield database
        except (sqlite3.Error, ValueError, OverflowError) as error:
            raise HistoryError(f"{self.path}: {_reason(error)}") from None
        finally:
            if database is not None:
                database.close()

    def _refuse_others(self, database: sqlite3.Connection) -> None:
        if self._is_new(database):
            return
        owner = database.execute("PRAGMA application_id").fetchone()[0]
        if owner != _APPLICATION:
            raise HistoryError(
                f"{self.path}: an SQLite file of another program; expected one that %cudaprofile history made. "
                "Nothing was written; give another name."
            )
        version = database.execute("PRAGMA user_version").fetchone()[0]
        if version > _VERSION:
            raise HistoryError(f"{self.path}: layout {version}; this cudalens knows {_VERSION}. A newer one made it.")

    def _is_new(self, database: sqlite3.Connection) -> bool:
        return database.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None

    def _run(self, row: tuple[Any, ...]) -> PastRun:
        for name, value in zip(_COLUMNS, row, strict=True):
            kind = str if name in _TEXTS else int
            if not (isinstance(value, kind) or (value is None and name in _OPTIONAL)):
                raise HistoryError(f"{self.path}: a run has {name} = {str(value)[:40]!r}; expected {kind.__name__}.")
        return PastRun(*row)


def _reason(error: Exception) -> str:
    text = str(error)
    if "locked" in text:
        return "another process is writing to it; the run was not added. Try again, or use another file."
    if "not a database" in text or "malformed" in text:
        return f"no history, or a damaged one ({text}); move it away, and a new one will be made."
    return f"it cannot be used ({text})."
