"""Read SQLite files; the tables decide which tool wrote one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from cudalens.errors import TraceFormatError
from cudalens.frames import Trace
from cudalens.frames.lenient_json import text_of
from cudalens.frames.limits import Problems
from cudalens.traces import nsys as nsys
from cudalens.traces import nvprof as nvprof
from cudalens.traces.rocm_databases import is_rocpd, is_rpd, read_rocpd, read_rpd
from cudalens.traces.sqlite.file import Database, open_sqlite

_CUPTI: Final = "CUPTI_ACTIVITY_KIND_"
_NSYS: Final = ("StringIds", "NVTX_EVENTS", "META_DATA_EXPORT", "TARGET_INFO_SYSTEM_ENV", "ANALYSIS_DETAILS")
_EXPECTED: Final = (
    "the tables of an nsys export (nsys export --type sqlite), of nvprof (nvprof -o FILE), of rocprofv3 "
    "(--output-format rocpd) or of RPD"
)

#: Tables of ``rocprof`` before version 3: one for each kind of trace, of texts that it formats itself.
_ROCPROF_1: Final = frozenset({"HSA", "HIP", "COPY", "OPS", "KFD", "rocTX"})


def read_sqlite(path: Path, watch: Callable[[int], Any]) -> Trace:
    """Return the Trace in an SQLite file of nsys, nvprof, rocprofv3 or RPD.

    Args:
        path: The file.
        watch: Called with the number of rows in the file. Returns a context manager whose value is called with the
            number of rows of each chunk that was read.

    Raises:
        TraceFormatError: The file has other tables, cannot be read, or holds nothing usable.
    """
    problems = Problems()
    with open_sqlite(path, problems) as database:
        reader, tables = _reader(database)
        with watch(database.num_rows(tables)) as on_rows:
            database.on_rows(on_rows)
            trace = reader(database, problems)
    _refuse_useless(path, trace, problems)
    return trace


def _reader(database: Database) -> tuple[Callable[[Database, Problems], Trace], tuple[str, ...]]:
    tables = database.tables
    activities = [columns for name, columns in tables.items() if name.startswith(_CUPTI)]
    if "StringTable" in tables or any("_id_" in columns for columns in activities):
        return nvprof.read_nvprof, nvprof.TABLES
    if activities or any(name in tables for name in _NSYS):
        return nsys.read_nsys, nsys.TABLES
    if is_rpd(tables):
        return read_rpd, tuple(tables)
    if is_rocpd(tables):
        return read_rocpd, tuple(tables)
    if _ROCPROF_1 & set(tables) and all(name in _ROCPROF_1 or name.isupper() for name in tables):
        hint = "Load the results.json beside it, or record again with rocprofv3 --output-format rocpd."
        raise TraceFormatError(
            database.path, found="the database of rocprof (version 1)", expected=_EXPECTED, hint=hint
        )
    raise TraceFormatError(database.path, found=_what(tables), expected=_EXPECTED)


def _what(tables: dict[str, frozenset[str]]) -> str:
    if not tables:
        return "an SQLite file without tables"
    names = ", ".join(text_of(name)[:40] for name in sorted(tables)[:8])
    return f"an SQLite file with other tables ({names}{', …' if len(tables) > 8 else ''})"


def _refuse_useless(path: Path, trace: Trace, problems: Problems) -> None:
    """Raise if a damaged file holds nothing usable; an intact export without events is an empty Trace."""
    if len(trace) or len(trace.memory) or len(trace.counters) or not len(problems):
        return
    raise TraceFormatError(path, found=f"no usable event; first damage: {problems.first()}", expected=_EXPECTED)
