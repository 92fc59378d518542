"""The view of `cudalens.compile_report`: what torch.compile changes, where it breaks, and what it fuses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pandas as pd

from cudalens.analysis import units
from cudalens.views.sections.clean_text import clean
from cudalens.views.sections.model import Block, Column, Note, Row, Section, Table, Text, marked_code

_CSS: Final = "cx"
_NAME: Final = "compiled"
_MAX_ROWS: Final = 200
_MAX_SOURCE: Final = 60
#: Operators, lines and modules of a kernel.
_MAX_ORIGINS: Final = 4
_KINDS: Final = {"fused": "fused", "library": "library", "eager": "outside"}


def section(
    summary: pd.Series,
    breaks: pd.DataFrame,
    recompilations: pd.DataFrame,
    kernels: pd.DataFrame,
    refused_fusions: pd.DataFrame,
    timelines: Sequence[Block],
) -> Section:
    """Return the answer, graph breaks, both timelines, kernels, and fusions that were refused.

    Args:
        summary: The numbers of the first line, as `cudalens.compile_report` has them.
        breaks: Its frame of graph breaks.
        recompilations: Its frame of recompilations.
        kernels: Its frame of kernels.
        refused_fusions: Its frame of refused fusions.
        timelines: The picture of both runs.
    """
    blocks: list[Block] = []
    if len(breaks):
        blocks.append(_breaks(breaks))
    if len(recompilations):
        blocks.append(_recompilations(recompilations))
    blocks += timelines
    blocks.append(_kernels(kernels))
    if len(refused_fusions):
        blocks.append(_refused(refused_fusions))
    compiled = f"The first compiled call took {summary['compile_s']:.1f} s on this host, compilation included."
    graphs = f"Inductor compiled {units.plural(int(summary['num_graphs']), 'graph')}."
    simulated = " Simulated: no GPU was used, and times are modelled." if summary["is_modelled"] else ""
    blocks.append(Note(f"{graphs} {compiled}{simulated}"))
    badge = "simulated" if summary["is_modelled"] else ""
    return Section(_NAME, _CSS, verdict=verdict(summary, breaks), badge=badge, blocks=tuple(blocks))


def verdict(summary: pd.Series, breaks: pd.DataFrame) -> str:
    """Return the answer in one line: graph breaks, kernels, step, memory, and the first break."""
    how = "modelled" if summary["is_modelled"] else "measured"
    num_breaks = int(summary["num_breaks"])
    eager_kernels, compiled_kernels = int(summary["eager_kernels"]), int(summary["compiled_kernels"])
    step = _change(units.duration(summary["eager_ns"]), units.duration(summary["compiled_ns"]))
    memory = _change(units.size(summary["eager_peak_bytes"]), units.size(summary["compiled_peak_bytes"]))
    parts = [
        units.plural(num_breaks, "graph break") if num_breaks else "no graph break",
        f"{units.plural(eager_kernels, 'kernel')} become {units.count(compiled_kernels)}",
        f"step {step} ({how})",
        f"peak memory {memory}",
    ]
    text = ", ".join(parts)
    if not num_breaks:
        return text
    first = breaks.iloc[0]
    source = units.shorten(clean(str(first["source"])), _MAX_SOURCE)
    place = units.short_place(clean(str(first["place"])))
    named = f"{place} `{source}`" if source else place
    return f"{text}; first break: {named}: {clean(str(first['change']))}"


def _change(before: str, after: str) -> str:
    """``4.70 -> 2.90 ms``: the unit once where both have it."""
    digits, _, unit = before.rpartition(" ")
    return f"{digits if unit == after.rpartition(' ')[2] else before} -> {after}"


def _breaks(breaks: pd.DataFrame) -> Section:
    columns = (
        Column("line", text_width=90, html_width=120),
        Column("why", key="wrapped", text_width=300, html_width=600, is_below=True),
        Column("change", key="wrapped", text_width=300, html_width=400, is_below=True),
    )
    rows = []
    for row in _records(breaks):
        why, change = marked_code(clean(row["reason"])), marked_code(clean(row["change"]))
        place = units.short_place(clean(row["place"]))
        rows.append(Row((((place, " ", Text(clean(row["source"]), "code"))), why, change)))
    table = Table(columns, rows, len(breaks), more=("graph break", ".breaks"), is_stacked=True)
    return Section("", _CSS, title="Graph breaks, in order", blocks=(table,))


def _recompilations(recompilations: pd.DataFrame) -> Section:
    columns = (Column("function", text_width=50, html_width=80), Column("guard that failed", text_width=110))
    rows = []
    for row in _records(recompilations):
        name = f"{clean(row['function'])}, {units.short_place(clean(row['place']))}"
        rows.append(Row((name, Text(clean(str(row["guards"][0])), "code"))))
    table = Table(columns, rows, len(recompilations), more=("recompilation", ".recompilations"), is_stacked=True)
    return Section("", _CSS, title="Compiled again", blocks=(table,))


def _kernels(kernels: pd.DataFrame) -> Section:
    columns = (
        Column("kernel", text_width=48, html_width=60),
        Column("is"),
        Column("launches", key="number", align="right"),
        Column("time", key="number", align="right"),
        Column("share", key="number", align="right"),
        Column("reads", key="number", align="right"),
        Column("writes", key="number", align="right"),
        Column("operators", key="wrapped", text_width=150, html_width=300, is_below=True),
        Column("from", key="wrapped", text_width=200, html_width=300, is_below=True),
    )
    rows = [Row(_kernel(row)) for row in _records(kernels)]
    counts = kernels.groupby("kind")["launches"].sum()
    facts = ", ".join(
        f"{units.count(int(counts[kind]))} {word}" for kind, word in _KINDS.items() if kind in counts.index
    )
    more = ("kernel", ".kernels")
    table = Table(columns, rows, len(kernels), more=more, max_text=8, num_open=8, is_stacked=True)
    return Section("", _CSS, title=f"Kernels of the compiled run: {facts}", blocks=(table,))


def _kernel(row: dict[str, Any]) -> tuple[Any, ...]:
    is_fused = row["kind"] == "fused"
    return (
        Text(clean(row["name"]), "code"),
        _KINDS[row["kind"]],
        units.count(row["launches"]),
        units.duration(row["total_ns"]),
        units.percent(row["share_pct"]),
        units.size(row["read_bytes"]) if is_fused else "",
        units.size(row["written_bytes"]) if is_fused else "",
        _first([clean(name).removeprefix("aten.") for name in row["operators"]], ", "),
        _origin(row),
    )


def _origin(row: dict[str, Any]) -> str:
    """The program's lines of a kernel, the first with its source, and the modules that called them."""
    places = [clean(line).partition(" ")[0] for line in row["lines"]]
    if places:
        places[0] = units.shorten(clean(row["lines"][0]), _MAX_SOURCE)
    lines, modules = _first(places, "; "), _first([clean(name) for name in row["modules"]], ", ")
    return f"{lines} in {modules}" if lines and modules else lines or modules


def _first(texts: list[str], separator: str) -> str:
    more = len(texts) - _MAX_ORIGINS
    return separator.join(texts[:_MAX_ORIGINS]) + (f" and {more} more" if more > 0 else "")


def _refused(refused: pd.DataFrame) -> Section:
    columns = (
        Column("first", text_width=40, html_width=60),
        Column("second", text_width=40, html_width=60),
        Column("why they are two kernels", key="wrapped", text_width=140, html_width=200, is_below=True),
    )
    rows = [
        Row((Text(clean(row["first"]), "code"), Text(clean(row["second"]), "code"), clean(row["reason"])))
        for row in _records(refused)
    ]
    more = ("pair", ".refused_fusions")
    table = Table(columns, rows, len(refused), more=more, max_text=6, num_open=6, is_stacked=True)
    return Section("", _CSS, title="Not fused", blocks=(table,))


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return frame.head(_MAX_ROWS).to_dict("records")
