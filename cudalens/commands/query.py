"""``cudalens query``: the result of an SQL query over a trace, a folder of rank traces, or a store of them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import cudalens
from cudalens.commands import arguments
from cudalens.errors import QueryError

if TYPE_CHECKING:
    from cudalens.frames import Ranks, Trace

_MAX_ROWS = 100
_MAX_WIDTH = 60


def add(verbs: arguments.Verbs) -> None:
    """Add the verb's parser."""
    parser = arguments.trace_verb(verbs, "query", run, "show the result of an SQL query over a trace (DuckDB)")
    parser.add_argument("sql", metavar="SQL", help="a SELECT; each frame is a table: events, memory, syncs and others")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="print all rows as CSV")
    form.add_argument("--json", action="store_true", help="print all rows as JSON, an object for each")


def run(options: argparse.Namespace) -> int | None:
    """Print the result of the query."""
    try:
        found = _load(options.trace).sql(options.sql)
    except ImportError as error:
        raise QueryError(str(error)) from error
    if options.csv:
        arguments.show(found.to_csv(index=False).rstrip("\n"))
    elif options.json:
        arguments.show(found.to_json(orient="records"))
    else:
        arguments.show(found.head(_MAX_ROWS).to_string(index=False, max_colwidth=_MAX_WIDTH))
        if len(found) > _MAX_ROWS:
            arguments.show(f"... {len(found) - _MAX_ROWS:,} more rows; --csv prints all.")
    return None


def _load(path: Path) -> Trace | Ranks:
    """Return the trace of a file, or the ranks of a store or of a folder of traces."""
    from cudalens.frames import Ranks

    if not path.is_dir():
        return arguments.load(path)
    return Ranks.open(path) if (path / "job.json").exists() else cudalens.load_ranks(path)
