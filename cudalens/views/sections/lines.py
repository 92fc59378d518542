"""Lines of the user's code with what they launched, hottest first."""

from __future__ import annotations

from typing import Any, Final

from cudalens.analysis import units
from cudalens.analysis.facts import line_costs
from cudalens.frames import Trace
from cudalens.views.sections.model import Cell, Column, Note, Row, Section, Table, Text
from cudalens.views.sections.pictures import bar

MAX_ROWS: Final = 20
_MAX_TEXT: Final = 6
_MAX_SOURCE: Final = 120
_COLUMNS: Final = (
    Column("GPU", "time", "right"),
    Column("launched", "count", "right"),
    Column("CPU", "host", "right"),
)
_LEGEND: Final = (
    "GPU: durations of the work that the line launched, backward work with the line of its forward operator. CPU: self "
    "time. cudalens.analysis.attribution(trace, by='line') has all lines."
)


def section(trace: Trace) -> Section | None:
    """The lines that launched work, by GPU time, or the lines with most CPU time; functions where no line is known."""
    costs = line_costs(trace)
    if costs.empty:
        return None
    largest = int(max(costs["device_ns"].max(), 1)) if costs["num_works"].any() else int(max(costs["host_ns"].max(), 1))
    rows = [_row(row, largest) for row in costs[:MAX_ROWS].to_dict("records")]
    # Files of torch's profiler name functions alone.
    has_lines = bool(costs["place"].str.contains(r":\d+$").any())
    word = "line" if has_lines else "function"
    table = Table(
        (Column(word, "line", text_width=60), *_COLUMNS),
        rows,
        len(costs),
        _MAX_TEXT,
        more=(word, ""),
        num_open=_MAX_TEXT,
        is_stacked=True,
    )
    return Section(
        "lines",
        "cl-line",
        title="Lines of code" if has_lines else "Functions",
        facts=_answer(costs.iloc[0]),
        blocks=(table, Note(_LEGEND, is_in_text=False)),
        is_open=True,
    )


def _answer(first: Any) -> str:
    """``In[3]:5 launched 340 kernels, 12.1 ms GPU (58 %)``."""
    place = units.short_place(first["place"])
    if not first["num_works"]:
        return f"{place} took {units.duration(int(first['host_ns']))} of CPU time itself"
    work = units.plural(int(first["num_works"]), "GPU operation")
    return (
        f"{place} launched {work}, {units.duration(int(first['device_ns']))} GPU ({units.percent(first['device_pct'])})"
    )


def _row(row: dict[Any, Any], largest: int) -> Row:
    device, host, num = (int(row[name]) for name in ("device_ns", "host_ns", "num_works"))
    share = (device if num or not host else host) / largest
    time = f" {units.duration(device)} ({units.percent(row['device_pct'])})" if num else " -"
    count = units.count(num) if num else "-"
    return Row((_place(row), (bar("", min(share, 1.0)), time), count, units.duration(host)))


def _place(row: dict[Any, Any]) -> Cell:
    place = Text(units.short_place(row["place"]), "place", full=row["place"])
    source = row["source"]
    return (place, "  ", Text(units.shorten(source, _MAX_SOURCE), "code")) if isinstance(source, str) else place
