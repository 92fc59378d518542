"""SQL over the frames of a Trace or of the ranks of a job, with DuckDB.

A query sees each frame as a table of its name. A rank store is read as it is, so that it can be larger than memory.
Everything else is closed to a query: other files, the network, extensions and settings of DuckDB.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from cudalens.errors import QueryError
from cudalens.frames import FRAMES
from cudalens.frames.rank_store import Store, to_table, with_rank

if TYPE_CHECKING:
    import pyarrow as pa

    from cudalens.frames import Ranks, Trace


#: The column that numbers the rows of a frame, to which ``parent``, ``launch`` and others refer.
ROW: Final = "row"
_EXTRA: Final = "SQL queries need DuckDB: pip install 'cudalens[sql]'"

Tables = Mapping[str, Callable[[], Any]]


def query_trace(trace: Trace, sql: str) -> pd.DataFrame:
    """Return the result of a query over the frames of `trace`.

    Args:
        trace: Any Trace.
        sql: A ``SELECT`` of DuckDB. Tables are ``events``, ``memory``, ``syncs`` and the other frames, each with a
            first column ``row``.

    Raises:
        QueryError: The query is not valid, or refers to something other than these tables.
        ImportError: DuckDB is not installed.
    """
    return _run(sql, {name: _maker(frame) for name, frame in trace.frames.items()})


def query_ranks(ranks: Ranks, sql: str) -> pd.DataFrame:
    """Return the result of a query over the frames of all ranks; arguments and errors as of `query_trace`.

    Tables are the frames of a Trace with first columns ``rank`` and ``row``, and those of `Ranks.frames`.
    """
    shared = {name: _maker(frame, has_row=False) for name, frame in ranks.frames.items()}
    if isinstance(ranks.source, Store) and "://" not in ranks.source.url:
        folder = Path(ranks.source.url).resolve()
        return _run(sql, shared, {name: folder / name for name in FRAMES if (folder / name).is_dir()}, folder)
    return _run(sql, {name: _joined(ranks, name) for name in FRAMES} | shared)


def _maker(frame: pd.DataFrame, has_row: bool = True) -> Callable[[], pa.Table]:
    return lambda: to_table(_with_row(frame) if has_row else frame)


def _joined(ranks: Ranks, name: str) -> Callable[[], pa.Table]:
    """Return what makes the table of a frame of all ranks; a trace is read only when the query uses the table."""

    def make() -> pa.Table:
        import pyarrow as pa

        parts = [to_table(with_rank(_with_row(trace.frames[name]), rank)) for rank, trace in ranks.items()]
        return pa.concat_tables([part.replace_schema_metadata(None).unify_dictionaries() for part in parts])

    return make


def _with_row(frame: pd.DataFrame) -> pd.DataFrame:
    found = frame.copy(deep=False)
    found.insert(0, ROW, range(len(frame)))
    return found


def _run(
    sql: str, tables: Tables, folders: Mapping[str, Path] | None = None, allowed: Path | None = None
) -> pd.DataFrame:
    """Return the result of `sql` over `tables`, and over the Parquet files of `folders`, which lie in `allowed`."""
    with _connection(allowed) as (duckdb, connection):
        try:
            used = connection.get_table_names(sql)
            for name in used & set(tables):
                connection.register(name, tables[name]())
            for name in used & set(folders or {}):
                files = str((folders or {})[name] / "part-*.parquet").replace("'", "''")
                columns = f"rank, file_row_number AS {ROW}, * EXCLUDE (rank, file_row_number)"
                source = f"read_parquet('{files}', union_by_name = true, file_row_number = true)"
                connection.execute(f"CREATE VIEW {name} AS SELECT {columns} FROM {source}")  # noqa: S608  our names
            statements = connection.extract_statements(sql)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise QueryError("expected one SELECT statement.")
            return connection.execute(statements[0]).df()
        except duckdb.Error as error:
            known = ", ".join(sorted({*tables, *(folders or {})}))
            raise QueryError(f"{' '.join(str(error).split())[:1000]} The tables are: {known}.") from error


@contextmanager
def _connection(allowed: Path | None) -> Iterator[tuple[Any, Any]]:
    """A database in memory that can read files below `allowed`, and nothing else."""
    try:
        import duckdb
    except ImportError as error:
        raise ImportError(_EXTRA) from error
    with tempfile.TemporaryDirectory(prefix="cudalens-sql-") as spilled:
        settings: dict[str, str | bool | int | float | list[str]] = {
            "temp_directory": spilled,  # for what does not fit into memory
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "python_enable_replacements": False,  # variables of the caller are no tables
            "threads": min(os.cpu_count() or 1, 8),
        }
        connection = duckdb.connect(":memory:", config=settings)
        try:
            if allowed is not None:
                connection.execute("SET allowed_directories = [$1]", [f"{allowed}{os.sep}"])
            connection.execute("SET enable_external_access = false")
            connection.execute("SET lock_configuration = true")
            yield duckdb, connection
        finally:
            connection.close()
