"""The tools of the server, without the protocol: each reads files of one folder and gives a bounded text."""

from __future__ import annotations

import json
import os
from typing import Any, Final

import pandas as pd

from cudalens.analysis import Finding, critical_path, findings
from cudalens.analysis.queries.query import query
from cudalens.api.load import load_trace
from cudalens.api.mcp_server.folder import Folder, OpenTraces
from cudalens.api.mcp_server.source import lines_around
from cudalens.errors import TraceError
from cudalens.views.compare.comparison import compare
from cudalens.views.foreign import clean, records

MAX_ROWS: Final = 200
MAX_CHARACTERS: Final = 20_000
MAX_TOKENS: Final = 8_000
_MAX_FILES: Final = 200
_MAX_REPEATS: Final = 32
_CELL: Final = 200


class Tools:
    """What a client can ask. Every file name is relative to the folder.

    Args:
        root: The folder with the traces; nothing outside of it is read, and nothing is written.

    Raises:
        TraceError: It is not a folder.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._folder = Folder(root)
        self._traces = OpenTraces(self._folder, load_trace)

    def list_traces(self) -> str:
        """List the files of the folder with their sizes; traces end in .json, .gz, .cudalens, .sqlite or .pickle."""
        found, has_more = self._folder.names(_MAX_FILES)
        return _json({"files": found, "has_more": has_more})

    def open_trace(self, file: str) -> str:
        """Open a trace: the verdict, its frames with their number of rows and columns, and what was not recorded."""
        trace = self._traces.get(file)
        frames = {
            name: {"rows": len(frame), "columns": list(map(str, frame.columns)) if len(frame) else []}
            for name, frame in trace.frames.items()
        }
        brief = trace.brief(tokens=600)
        return _json({key: brief[key] for key in ("run", "verdict", "trust", "not_recorded")} | {"frames": frames})

    def brief(self, file: str, tokens: int = 1500) -> str:
        """Return what matters in a trace, in at most `tokens` tokens (300 to 8000): start here."""
        return str(self._traces.get(file).brief(min(tokens, MAX_TOKENS)))

    def findings(self, file: str, most: int = 5) -> str:
        """What costs time, with an upper bound of what each advice gains, its rows of the events, and its place."""
        found = findings(self._traces.get(file), most=_bounded(most, "most", 50))
        return _json({"findings": [_finding(number, one) for number, one in enumerate(found)]})

    def query(
        self, file: str, frame: str = "events", where: str = "", columns: str = "", sort: str = "", limit: int = 20
    ) -> str:
        """Rows of a frame (events, memory, blocks, ...), as JSON. Times are in ns.

        where: an expression such as `dur > 1e6 and "gemm" in name and cat == "kernel"`, or `row in [12, 15]`; also
        isna(column) and startswith(column, "text"). columns: names separated by commas; all by default. sort: a
        column, descending after a minus, as in -dur. limit: at most 200 rows.
        """
        trace = self._traces.get(file)
        wanted = [name.strip() for name in columns.split(",") if name.strip()]
        most = _bounded(limit, "limit", MAX_ROWS)
        found = query(trace, frame, where=where, columns=wanted, sort=sort)
        return _json(_table(found, most))

    def critical_path(self, file: str, by: str = "name", limit: int = 20) -> str:
        """The chain of host calls and device work that sets the length of the run, by kind, name, device or stream."""
        path = critical_path(self._traces.get(file))
        try:
            rows = path.by(by)
        except ValueError as error:
            raise TraceError(str(error)) from None
        facts = {"verdict": path.verdict, "length_ns": path.length_ns, "notes": [clean(note) for note in path.notes]}
        return _json(facts | _table(rows, _bounded(limit, "limit", MAX_ROWS)))

    def compare(self, before: str, after: str) -> str:
        """What became faster or slower from one run to another. Several repeats of a run: files separated by commas."""
        sides = [[self._traces.get(name) for name in _names(text)] for text in (before, after)]
        return _bounded_text(str(compare(*sides)))

    def source(self, file: str, finding: int = 0) -> str:
        """The source line of a finding (0 is the first), with the lines around it where they are in the trace."""
        trace = self._traces.get(file)
        found = findings(trace, most=None)
        if not 0 <= finding < len(found):
            raise TraceError(f"there is no finding {finding}; the trace has {len(found)}.")
        one = found[finding]
        facts = {"title": clean(one.title), "place": clean(one.place) if one.place else None}
        return _json(facts | lines_around(trace, self._folder, one))


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not 0 < len(names) <= _MAX_REPEATS:
        raise TraceError(f"{len(names)} files; expected 1 to {_MAX_REPEATS}, separated by commas.")
    return names


def _finding(number: int, found: Finding) -> dict[str, Any]:
    return {
        "number": number,
        "rule": found.rule,
        "title": clean(found.title),
        "gain_ns": found.gain_ns,
        "share_pct": None if found.share_pct is None else round(found.share_pct, 2),
        "confidence": found.confidence,
        "is_modelled": found.is_modelled,
        "place": clean(found.place) if found.place else None,
        "what": clean(found.what, 600),
        "try": clean(found.advice, 600),
        "num_rows": len(found.rows),
        "rows": list(found.rows[:10]),
    }


def _table(frame: pd.DataFrame, most: int) -> dict[str, Any]:
    """At most `most` rows that fit into an answer, and how many there are."""
    rows: list[dict[str, Any]] = []
    size = 0
    for number, row in zip(frame.index[:most].tolist(), records(frame.head(most)), strict=True):
        known = {"row": number} | {name: _cell(value) for name, value in row.items() if value is not None}
        size += len(json.dumps(known, default=str))
        if rows and size > MAX_CHARACTERS:
            break
        rows.append(known)
    return {"rows": rows, "shown": len(rows), "total": len(frame)}


def _cell(value: Any) -> Any:
    return clean(value, _CELL) if not isinstance(value, bool | int | float) else value


def _bounded(number: int, name: str, most: int) -> int:
    if not 1 <= number <= most:
        raise TraceError(f"{name} is {number}; expected 1 to {most}.")
    return number


def _bounded_text(text: str) -> str:
    return (
        text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}\n(cut after {MAX_CHARACTERS:,} characters)"
    )


def _json(value: Any) -> str:
    return json.dumps(value, default=str)
