"""Read tables of an untrusted SQLite file as columns, without writing the file or any file next to it.

It is opened read-only and as immutable, so that SQLite takes no lock and makes no journal. Only plain tables are read:
a view or a virtual table with the name of a table would run code of the file's author. Queries only use the readers'
own names of tables and columns, after looking them up in the file's schema; they never use names from the file.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import numpy as np

from cudalens.errors import TraceFormatError
from cudalens.frames.column_arrays import Ints
from cudalens.frames.lenient_json import text_of
from cudalens.frames.limits import Problems
from cudalens.traces.chrome.values import MISSING

SQLITE_MAGIC: Final = b"SQLite format 3\0"
_WAL: Final = 2  # bytes 18 and 19 of the header, in the mode that keeps a write-ahead log
_JOURNAL_MAGIC: Final = bytes.fromhex("d9d505f920a163d7")
#: Marks a value of the wrong type until it has been counted.
_WRONG: Final = MISSING + 1
_EXACT_FLOAT: Final = float(1 << 53)
_CHUNK: Final = 1 << 15
#: Minimum size of a row: a cell pointer of two bytes, a length, a row id.
_MIN_ROW_BYTES: Final = 4
_MAX_CELL_BYTES: Final = 1 << 28
#: What sqlite3 raises for a damaged file; its messages quote the file, which may be invalid UTF-8.
_ERRORS: Final = (sqlite3.Error, UnicodeDecodeError)
_EXPECTED: Final = "a whole SQLite export that no program is writing"


class Rows:
    """Columns of one table, with rows in file order.

    Attributes:
        num_rows: Number of rows.
    """

    def __init__(self, num_rows: int, ints: dict[str, Ints], objects: dict[str, list[Any]]) -> None:
        self.num_rows = num_rows
        self._ints, self._objects = ints, objects

    def __getitem__(self, name: str) -> Ints:
        """An integer column, with `MISSING` for null; all `MISSING` if the table has no such column."""
        column = self._ints.get(name)
        return np.full(self.num_rows, MISSING) if column is None else column

    def __contains__(self, name: str) -> bool:
        """Whether the table has the integer column `name`."""
        return name in self._ints

    def objects(self, name: str) -> list[Any]:
        """Return a column of text, bytes or numbers as stored in the file, None for null."""
        return self._objects.get(name) or [None] * self.num_rows


class Database:
    """An open SQLite file.

    Attributes:
        path: The path that the user gave.
        tables: The columns of each plain table.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, problems: Problems) -> None:
        self.path = path
        self._connection, self._problems = connection, problems
        self._max_rows = path.stat().st_size // _MIN_ROW_BYTES + 1
        self._on_rows: Callable[[int], object] = lambda _: None
        self.tables = self._schema()

    def on_rows(self, callback: Callable[[int], object] | None) -> None:
        """Call `callback` with the number of rows of each chunk that is read; None has no effect."""
        self._on_rows = callback or self._on_rows

    def num_rows(self, tables: Sequence[str]) -> int:
        """Approximate total number of rows of `tables`, from their largest row ids."""
        total = 0
        for table in tables:
            if table in self.tables:
                try:
                    ((largest,),) = self._connection.execute(f"SELECT max(rowid) FROM {_quoted(table)}")  # noqa: S608 - quoted
                except _ERRORS:
                    continue  # damaged, or without row ids; this is for a progress bar only
                total += min(largest, self._max_rows) if isinstance(largest, int) else 0
        return total

    def read(
        self, table: str, ints: Sequence[str] = (), objects: Sequence[str] = (), *, is_distinct: bool = False
    ) -> Rows:
        """Return the columns `ints` and `objects` of `table`, as far as it has them; no rows if there is no such table.

        With `is_distinct`, duplicate rows are dropped.

        Damage, and values in integer columns that are not integers, are counted; the rows before the damage are kept.
        """
        known = self.tables.get(table, ())
        ints = [name for name in ints if name in known]
        objects = [name for name in objects if name in known]
        if not ints and not objects:
            return Rows(0, {}, {})
        chunks: dict[str, list[Ints]] = {name: [] for name in ints}
        values: dict[str, list[Any]] = {name: [] for name in objects}
        total = 0
        for rows in self._chunks(table, ints, objects, is_distinct):
            columns = list(zip(*rows, strict=True))
            for name, column in zip(ints, columns, strict=False):
                chunks[name].append(_integers(column))
            for name, column in zip(objects, columns[len(ints) :], strict=True):
                values[name].extend(column)
            total += len(rows)
        whole = {name: self._checked(table, name, parts) for name, parts in chunks.items()}
        return Rows(total, whole, values)

    def _chunks(
        self, table: str, ints: Sequence[str], objects: Sequence[str], is_distinct: bool
    ) -> Iterator[list[tuple[Any, ...]]]:
        wanted = "DISTINCT " * is_distinct + ", ".join(map(_quoted, [*ints, *objects]))
        num_read = 0
        try:
            query = f"SELECT {wanted} FROM {_quoted(table)}"  # noqa: S608 - all names are the reader's own, and quoted
            with closing(self._connection.execute(query)) as cursor:
                while rows := cursor.fetchmany(_CHUNK):
                    num_read += len(rows)
                    if num_read > self._max_rows:
                        raise TraceFormatError(
                            self.path,
                            position=f"table '{table}'",
                            found=f"more rows than its {self.path.stat().st_size} bytes can hold",
                            expected=_EXPECTED,
                        )
                    yield rows
                    if not is_distinct:
                        self._on_rows(len(rows))
        except _ERRORS as error:
            self._problems.add(
                f"table '{table}' is damaged ({_words(error)}): the rest of it is lost", f"after row {num_read}"
            )

    def _checked(self, table: str, name: str, parts: list[Ints]) -> Ints:
        column = np.concatenate(parts) if parts else np.empty(0, np.int64)
        if len(column) and int(column.min()) <= _WRONG:
            wrong = column == _WRONG
            if num_wrong := int(wrong.sum()):
                first = f"row {int(np.argmax(wrong)) + 1}"
                self._problems.add(f"'{name}' of {table} that is not an integer", first, num_wrong)
                column[wrong] = MISSING
        return column

    def _schema(self) -> dict[str, frozenset[str]]:
        tables: dict[str, frozenset[str]] = {}
        query = "SELECT type, name, rootpage FROM sqlite_master WHERE type IN ('table', 'view')"
        for kind, name, root in self._connection.execute(query).fetchmany(10_000):
            if not isinstance(name, str) or name.startswith("sqlite_"):
                continue
            if kind == "table" and root:
                tables[name] = self._columns(name)
            elif name.startswith(("CUPTI_", "NVTX_", "StringIds", "StringTable", "TARGET_INFO")):
                self._problems.add("view or virtual table in place of a table, never run", f"'{text_of(name)[:60]}'")
        return tables

    def _columns(self, table: str) -> frozenset[str]:
        """Return the stored columns of `table`, without generated ones, which run expressions of the file's author."""
        columns = self._connection.execute(f"PRAGMA table_xinfo({_quoted(table)})").fetchmany(2_000)
        return frozenset(name for _, name, _, _, _, _, hidden in columns if not hidden)


def _words(error: Exception) -> str:
    return "it names things in no known text" if isinstance(error, UnicodeDecodeError) else text_of(str(error))[:200]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _integers(column: tuple[Any, ...]) -> Ints:
    """Return a column as integers: `MISSING` for NULL, and `_WRONG` for a value that is not a whole number."""
    try:
        return np.frombuffer(array("q", column), np.int64)  # fast, and fails for anything but integers
    except TypeError:
        return np.array([value if type(value) is int else _integer(value) for value in column], np.int64)


def _integer(value: Any) -> int:
    """Return the integer for a value of another type: tools that copy files write whole numbers as floats."""
    if value is None:
        return MISSING
    is_whole = isinstance(value, float) and abs(value) < _EXACT_FLOAT and value.is_integer()
    return int(value) if is_whole else _WRONG


@contextmanager
def open_sqlite(path: Path, problems: Problems) -> Iterator[Database]:
    """Open the SQLite file at `path` read-only.

    Raises:
        TraceFormatError: It is cut short, damaged, half-written, being written, or not a database.
    """
    _refuse_unfinished(path)
    try:
        with closing(_connect(path, "mode=ro&immutable=1")) as connection:
            _tame(connection, path.stat().st_size)
            yield Database(path, connection, problems)
    except _ERRORS as error:
        raise TraceFormatError(
            path,
            found=f"an SQLite file that cannot be read ({_words(error)})",
            expected=_EXPECTED,
            hint="It may be cut short or damaged: copy or export it again (nsys export --type sqlite).",
        ) from error


def _connect(path: Path, options: str) -> sqlite3.Connection:
    name = quote(os.fsencode(path.absolute()))
    connection = sqlite3.connect(f"file:{name}?{options}", uri=True, timeout=0, isolation_level=None)
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    return connection


def _tame(connection: sqlite3.Connection, num_bytes: int) -> None:
    """Prevent side effects of the schema, and limit the size of a cell to the size of the file."""
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(max(num_bytes, 1 << 16), _MAX_CELL_BYTES))
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    for pragma in (
        "trusted_schema = OFF",
        "query_only = ON",
        "cell_size_check = ON",
        "mmap_size = 0",
        "temp_store = MEMORY",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _refuse_unfinished(path: Path) -> None:
    """Refuse an unfinished file: one that SQLite would have to recover, or that another process has locked."""
    with open(path, "rb") as file:
        header = file.read(100)
        size = os.fstat(file.fileno()).st_size
    if len(header) < 100:
        raise TraceFormatError(
            path, position=f"byte {len(header)}", found="an SQLite file that ends there", expected=_EXPECTED
        )
    _refuse_journal(path)
    if header[18] == _WAL or header[19] == _WAL:
        _refuse_log(path)
    else:
        _refuse_locked(path)
    _refuse_cut(path, header, size)


def _refuse_cut(path: Path, header: bytes, size: int) -> None:
    page = int.from_bytes(header[16:18], "big")
    page = 1 << 16 if page == 1 else page
    num_pages = int.from_bytes(header[28:32], "big")
    is_size = page >= 512 and page & (page - 1) == 0
    is_kept = header[24:28] == header[92:96]  # else an old writer did not keep the number of pages
    if is_size and is_kept and num_pages * page > size:
        raise TraceFormatError(
            path,
            position=f"byte {size}",
            found="the end of the file",
            expected=f"{num_pages * page} bytes, as its header says",
            hint="The file is cut short: copy or export it again.",
        )


def _refuse_journal(path: Path) -> None:
    journal = path.with_name(path.name + "-journal")
    try:
        with open(journal, "rb") as file:
            is_hot = file.read(8) == _JOURNAL_MAGIC
    except OSError:
        return
    if is_hot:
        raise TraceFormatError(
            path,
            found=f"an incomplete file: '{journal.name}' next to it would undo its last change",
            expected=_EXPECTED,
            hint="Wait for its writer to finish, or export it again (nsys export --type sqlite).",
        )


def _refuse_log(path: Path) -> None:
    log = path.with_name(path.name + "-wal")
    try:
        is_used = log.stat().st_size > 0
    except OSError:
        return
    if is_used:
        raise TraceFormatError(
            path,
            found=f"an incomplete file: changes are still in '{log.name}' next to it",
            expected=_EXPECTED,
            hint="Close the program that has it open, or run: sqlite3 FILE 'PRAGMA wal_checkpoint(TRUNCATE)'.",
        )


def _refuse_locked(path: Path) -> None:
    """Refuse a file that another process is writing. The check takes a lock and releases it at once."""
    if sys.platform == "win32":
        return  # locks are mandatory there, so reading fails by itself
    try:
        with closing(_connect(path, "mode=ro")) as connection:
            connection.execute("PRAGMA schema_version").fetchone()
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise TraceFormatError(
                path,
                found="a file that another process is writing (SQLite says that it is locked)",
                expected=_EXPECTED,
                hint="Wait for it to finish, and load the file then.",
            ) from error
    except _ERRORS:
        return  # damaged: reported when it is read
