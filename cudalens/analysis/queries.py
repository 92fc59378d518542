"""Query frames: `query`, with a small language that executes nothing, and SQL with DuckDB.

`query` returns rows and columns of a frame of a Trace, sorted and filtered.

An expression has the syntax of Python, and of that only: names of columns, ``row`` (the number of the row), numbers,
texts, ``+ - * /``, comparisons (also chained), ``in`` (a text in a column of texts, or a column in a list),
``and``, ``or``, ``not``, ``isna(column)`` and ``startswith(column, text)``. Its syntax tree is walked; every other node
is an error. Times and sizes are in the unit of their column. A comparison with a missing value is false.
"""

from __future__ import annotations

import ast
import operator
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from cudalens.errors import QueryError, TraceError, invalid_choice
from cudalens.frames import FRAMES, Trace
from cudalens.frames.column_arrays import Bools, map_texts

if TYPE_CHECKING:
    import pyarrow as pa

    from cudalens.frames import Ranks, Trace


def query(
    trace: Trace,
    frame: str = "events",
    *,
    where: str = "",
    columns: Sequence[str] = (),
    sort: str = "",
    limit: int | None = None,
) -> pd.DataFrame:
    """Rows of a frame of `trace`.

    Args:
        trace: Any Trace.
        frame: Name of the frame, such as ``events`` or ``memory``.
        where: Only rows on which this holds, such as ``dur > 1e6 and "gemm" in name``; the module's docstring defines
            the language.
        columns: Only these; all by default.
        sort: A column by which rows are sorted; descending after a minus, as in ``-dur``.
        limit: At most so many rows; None for all.

    Returns:
        The rows; their index is the row in the frame.

    Raises:
        TraceError: There is no such frame or column, or `where` is not an expression of the language.
    """
    found = trace.frames.get(frame)
    if found is None:
        raise invalid_choice("frame", frame, trace.frames, TraceError)
    _check(found, frame, [*columns, *([sort.removeprefix("-")] if sort else [])])
    rows = np.flatnonzero(rows_where(found, where)) if where.strip() else np.arange(len(found))
    if sort:
        column = found[sort.removeprefix("-")].iloc[rows].reset_index(drop=True)
        rows = rows[column.sort_values(ascending=not sort.startswith("-"), kind="stable").index.to_numpy()]
    return found.iloc[rows[:limit]][list(columns) or list(found.columns)]


def _check(frame: pd.DataFrame, name: str, columns: Sequence[str]) -> None:
    for column in columns:
        if column not in frame:
            close = get_close_matches(column, map(str, frame.columns), 1)
            hint = f"did you mean {close[0]}?" if close else f"expected some of {', '.join(map(str, frame.columns))}."
            raise TraceError(f"frame {name} has no column {column!r}; {hint}")


MAX_LENGTH: Final = 1_000
MAX_NODES: Final = 200
#: Larger integers are not exact in a column.
_MOST: Final = 2**62
_LARGEST: Final = 2**63

_COMPARE: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_COMPUTE: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_ALLOWED: Final = (
    'columns, row, numbers, "texts", + - * /, comparisons, in, and, or, not, isna(column), startswith(column, "text")'
)


def rows_where(frame: pd.DataFrame, text: str) -> Bools:
    """True for the rows of `frame` on which the expression `text` holds; shape (n,).

    Raises:
        TraceError: It is not an expression of this language; the message marks the place.
    """
    return _Filter(frame, text).rows()


class _Filter:
    """One expression on one frame."""

    def __init__(self, frame: pd.DataFrame, text: str) -> None:
        self._frame, self._text = frame, text
        if len(text) > MAX_LENGTH:
            raise self._error(None, f"it has {len(text):,} characters; at most {MAX_LENGTH:,}")
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
            raise self._error(None, f"not an expression ({getattr(error, 'msg', error)})") from None
        if sum(1 for _ in ast.walk(self._tree)) > MAX_NODES:
            raise self._error(None, "it has too many parts")

    def rows(self) -> Bools:
        return self._truth(self._tree)

    def _truth(self, node: ast.expr) -> Bools:
        if isinstance(node, ast.BoolOp):
            parts = [self._truth(part) for part in node.values]
            return (np.logical_and if isinstance(node.op, ast.And) else np.logical_or).reduce(parts)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return ~self._truth(node.operand)
        if isinstance(node, ast.Compare):
            return self._chain(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Name) and self._is_bool(node.id):
            return np.asarray(self._frame[node.id].to_numpy(dtype=bool, na_value=False))
        raise self._error(node, "this is neither true nor false; compare it")

    def _is_bool(self, name: str) -> bool:
        return name in self._frame and pd.api.types.is_bool_dtype(self._frame[name].dtype)

    def _chain(self, node: ast.Compare) -> Bools:
        sides = [node.left, *node.comparators]
        pairs = zip(sides, node.ops, sides[1:], strict=False)
        return np.logical_and.reduce([self._pair(node, *pair) for pair in pairs])

    def _pair(self, node: ast.Compare, left: ast.expr, sign: ast.cmpop, right: ast.expr) -> Bools:
        if isinstance(sign, ast.In):
            return self._is_in(left, right)
        if isinstance(sign, ast.NotIn):
            return ~self._is_in(left, right)
        if type(sign) not in _COMPARE:
            raise self._error(node, "`is` is not allowed; use == or isna(column)")
        a, b = self._value(left), self._value(right)
        try:
            return self._bools(_COMPARE[type(sign)](a, b), a, b)
        except TypeError:
            raise self._error(node, "a text and a number cannot be compared") from None

    def _bools(self, found: Any, *values: Any) -> Bools:
        """`found` as an array; false where one of the compared values is missing."""
        if isinstance(found, bool | np.bool_):
            return np.full(len(self._frame), bool(found))
        known = np.ones(len(self._frame), bool)
        for value in values:
            if isinstance(value, pd.Series):
                known &= value.notna().to_numpy()
        return pd.Series(found).to_numpy(dtype=bool, na_value=False) & known

    def _is_in(self, left: ast.expr, right: ast.expr) -> Bools:
        if isinstance(right, ast.List | ast.Tuple | ast.Set):
            column, wanted = self._column(left), [self._constant(one) for one in right.elts]
            if isinstance(column.dtype, pd.CategoricalDtype):  # isin() encodes `wanted`, which may be invalid Unicode
                return map_texts(column.array, lambda text: text in wanted, False).astype(bool)
            return np.asarray(column.isin(wanted).to_numpy(dtype=bool))
        part, column = self._constant(left), self._column(right)
        if not isinstance(part, str):
            raise self._error(left, "expected a text before `in`, or a list after it")
        return self._texts(right, column, lambda text: part in text)

    def _texts(self, node: ast.expr, column: pd.Series, test: Callable[[str], bool]) -> Bools:
        if isinstance(column.dtype, pd.CategoricalDtype):
            return map_texts(column.array, test, False).astype(bool)
        if pd.api.types.is_numeric_dtype(column.dtype):
            raise self._error(node, "this column has numbers, not texts")
        return np.array([isinstance(value, str) and test(value) for value in column.tolist()], dtype=bool)

    def _call(self, node: ast.Call) -> Bools:
        name = node.func.id if isinstance(node.func, ast.Name) else None
        if name == "isna" and len(node.args) == 1 and not node.keywords:
            return np.asarray(self._column(node.args[0]).isna())
        if name == "startswith" and len(node.args) == 2 and not node.keywords:
            prefix = self._constant(node.args[1])
            if isinstance(prefix, str):
                return self._texts(node.args[0], self._column(node.args[0]), lambda text: text.startswith(prefix))
        raise self._error(node, "no such function")

    def _value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Name):
            return self._plain(self._column(node))
        if isinstance(node, ast.BinOp) and type(node.op) in _COMPUTE:
            return self._computed(node)
        return self._constant(node)

    def _plain(self, column: pd.Series) -> pd.Series:
        """Texts as objects: categories compare with the texts among them only."""
        return column.astype(object) if isinstance(column.dtype, pd.CategoricalDtype) else column

    def _computed(self, node: ast.BinOp) -> Any:
        a, b = self._value(node.left), self._value(node.right)
        if not (_is_number(a) and _is_number(b)):
            raise self._error(node, "expected numbers")
        if isinstance(node.op, ast.Mult | ast.Div):  # integers would overflow
            a, b = (value.astype("Float64") if isinstance(value, pd.Series) else float(value) for value in (a, b))
        elif _magnitude(a) + _magnitude(b) >= _LARGEST:  # 64 bits would wrap
            a, b = (value.astype(object) if isinstance(value, pd.Series) else value for value in (a, b))
        else:
            a, b = (_in_64_bits(value) for value in (a, b))
        try:
            return _COMPUTE[type(node.op)](a, b)
        except ArithmeticError:
            raise self._error(node, "this cannot be computed") from None

    def _constant(self, node: ast.expr) -> str | float | bool:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self._constant(node.operand)
            if isinstance(value, int | float):
                return -value
        if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float):
            if not isinstance(node.value, str) and not abs(node.value) < _MOST:
                raise self._error(node, "the number is too large")
            return node.value
        raise self._error(node, "expected a number or a text" if isinstance(node, ast.Name) else "not allowed")

    def _column(self, node: ast.expr) -> pd.Series:
        if not isinstance(node, ast.Name):
            raise self._error(node, "expected a column")
        if node.id == "row":
            return pd.Series(np.arange(len(self._frame)), index=self._frame.index)
        if node.id not in self._frame:
            close = get_close_matches(node.id, map(str, self._frame.columns), 1)
            hint = f"; did you mean {close[0]}?" if close else f"; it has {', '.join(map(str, self._frame.columns))}"
            raise self._error(node, f"there is no column {node.id}{hint}")
        return self._frame[node.id]

    def _error(self, node: ast.expr | None, reason: str) -> TraceError:
        place = ""
        if node is not None:
            part = ast.get_source_segment(self._text.strip(), node) or ""
            place = f" at character {node.col_offset + 1} ({part[:40]!r})"
        return TraceError(f"cannot filter by {self._text[:80]!r}{place}: {reason}. Allowed are {_ALLOWED}.")


def _in_64_bits(value: Any) -> Any:
    is_integer = isinstance(value, pd.Series) and pd.api.types.is_integer_dtype(value.dtype)
    return value.astype("Int64") if is_integer else value


def _magnitude(value: Any) -> int:
    """Return the largest absolute value of whole numbers; 0 for others, which do not wrap."""
    if not isinstance(value, pd.Series):
        return abs(value) if isinstance(value, int) else 0
    is_whole = value.dtype == object or pd.api.types.is_integer_dtype(value.dtype)
    known = value.dropna() if is_whole else value[:0]
    return max(abs(int(known.min())), abs(int(known.max()))) if len(known) else 0


def _is_number(value: Any) -> bool:
    if not isinstance(value, pd.Series):
        return not isinstance(value, str)
    return pd.api.types.is_numeric_dtype(value.dtype) or pd.api.types.infer_dtype(value, skipna=True) == "integer"


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
    from cudalens.frames.rank_store import Store  # pyarrow.parquet: on first use

    shared = {name: _maker(frame, has_row=False) for name, frame in ranks.frames.items()}
    if isinstance(ranks.source, Store) and "://" not in ranks.source.url:
        folder = Path(ranks.source.url).resolve()
        return _run(sql, shared, {name: folder / name for name in FRAMES if (folder / name).is_dir()}, folder)
    return _run(sql, {name: _joined(ranks, name) for name in FRAMES} | shared)


def _maker(frame: pd.DataFrame, has_row: bool = True) -> Callable[[], pa.Table]:
    def make() -> pa.Table:
        from cudalens.frames.rank_store import to_table

        return to_table(_with_row(frame) if has_row else frame)

    return make


def _joined(ranks: Ranks, name: str) -> Callable[[], pa.Table]:
    """Return what makes the table of a frame of all ranks; a trace is read only when the query uses the table."""

    def make() -> pa.Table:
        import pyarrow as pa

        from cudalens.frames.rank_store import to_table, with_rank

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
