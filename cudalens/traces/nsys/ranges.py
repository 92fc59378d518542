"""Read NVTX ranges and marks of an nsys export; texts that torch's ``emit_nvtx`` wrote become operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from cudalens.traces.chrome.values import MISSING, Ints
from cudalens.traces.nsys.ids import process_of, split_thread
from cudalens.traces.sqlite import nvtx_text
from cudalens.traces.sqlite.activities import Activities, Texts
from cudalens.traces.sqlite.file import Database, Rows

_MARKS: Final = (34, 65)  # ENUM_NSYS_EVENT_TYPE: NvtxMark, and the mark of the textual protocol
_PUSH_POP: Final = (59, 70)
_START_END: Final = (60, 71)
_DOMAIN: Final = 75  # its text is the domain's name
_COLUMNS: Final = ("start", "end", "eventType", "globalTid", "endGlobalTid", "textId", "domainId")


def add_ranges(database: Database, table: str, rows: Activities, strings: Mapping[int, str]) -> None:
    """Append the ranges and marks in `table`."""
    found = database.read(table, _COLUMNS, ["text"])
    if not found.num_rows:
        return
    texts = Texts.of(found.objects("text")).filled(Texts.looked_up(found["textId"], strings))
    kind, end = found["eventType"], found["end"]
    is_mark = np.isin(kind, _MARKS)
    is_range = np.isin(kind, (*_PUSH_POP, *_START_END)) | ((kind == MISSING) & (end != MISSING))
    names = _with_domains(found, texts, strings)
    end = _closed(found, is_range, rows)
    kept = np.flatnonzero(is_mark | is_range)
    thread = found["globalTid"]
    crosses = (found["endGlobalTid"] != MISSING) & (found["endGlobalTid"] != 0) & (found["endGlobalTid"] != thread)
    add_texts(
        rows,
        table,
        names.take(kept),
        start=found["start"][kept],
        end=np.where(is_mark, found["start"], end)[kept],
        ints={name: column[kept] for name, column in split_thread(thread).items()},
        is_async=(np.isin(kind, _START_END) | (crosses & is_range))[kept],
        is_instant=is_mark[kept],
    )


def add_texts(rows: Activities, where: str, texts: Texts, *, ints: dict[str, Ints], **columns: Any) -> None:
    """Append ranges with their `texts`, each distinct text parsed once (`nvtx_text.parse`)."""
    parsed = [nvtx_text.parse(text) for text in texts.values]
    texts = texts.filled(Texts.same("range without a name", len(texts.codes)))
    parsed.append(nvtx_text.OpText("range without a name"))
    ints = ints | {
        "sequence_nr": _taken([op.sequence_nr for op in parsed], texts),
        "external_id": _taken([op.op_id for op in parsed], texts),
    }
    rows.add(
        where,
        name=Texts(texts.codes, [op.name for op in parsed]),
        cat=Texts(texts.codes, [op.cat for op in parsed]),
        ints=ints,
        texts={"shapes": Texts(texts.codes, [op.shapes or "" for op in parsed]).mapped(lambda text: text or None)},
        **columns,
    )


def _taken(values: list[int | None], texts: Texts) -> Ints:
    return np.array([MISSING if value is None else value for value in values], np.int64)[texts.codes]


def _closed(found: Rows, is_range: Any, rows: Activities) -> Ints:
    """The ends of ranges; a range without a recorded end ends with the trace."""
    start, end = found["start"], found["end"]
    is_open = is_range & (end == MISSING) & (start != MISSING)
    if not is_open.any():
        return end
    rows.problems.add("range without an end, ended with the trace", "NVTX_EVENTS", int(is_open.sum()))
    last = max(int(end.max()), int(start.max()))
    closed: Ints = np.where(is_open, last, end)
    return closed


def _with_domains(found: Rows, texts: Texts, strings: Mapping[int, str]) -> Texts:
    """Texts prefixed with the name of their domain, as in nsys's own tables; no prefix for the default domain."""
    domain, process = found["domainId"], process_of(found["globalTid"])
    at = np.flatnonzero((found["eventType"] == _DOMAIN) & (texts.codes >= 0))
    names = {
        (p, d): texts.values[code]
        for p, d, code in zip(process[at].tolist(), domain[at].tolist(), texts.codes[at].tolist(), strict=True)
        if d != 0
    }
    if not names:
        return texts
    values = texts.values

    def full_name(process: int, domain: int, code: int) -> str:
        if code < 0:
            return ""
        return f"{names[process, domain]}:{values[code]}" if (process, domain) in names else values[code]

    return Texts.joined([process, domain, texts.codes], full_name).mapped(lambda text: text or None)
