"""The costs of a run as tables: by name, by line of code, by nn.Module, by step."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd

from cudalens.analysis import units
from cudalens.analysis.facts import averages, line_costs, module_tree, names_in_short, step_costs
from cudalens.analysis.time.averages import UNCOUNTED
from cudalens.frames import Trace
from cudalens.views.sections.clean_text import clean
from cudalens.views.sections.markup import bar
from cudalens.views.sections.model import Cell, Column, Note, Row, Section, Table, Text

_NUM_ROWS: Final = 10
_COLUMNS: Final = (
    Column("name", text_width=34, html_width=130),
    Column("kind"),
    *(Column(title, align="right") for title in ("count", "total", "self", "mean ± sd", "share")),
)
_KINDS: Final = {
    "cpu_op": "CPU op",
    "user_annotation": "range",
    "gpu_user_annotation": "GPU range",
    "cuda_runtime": "runtime",
    "cuda_driver": "driver",
    "kernel": "kernel",
    "gpu_memcpy": "copy",
    "gpu_memset": "set",
    "python_function": "Python",
    "cuda_sync": "sync",
}


def costs_section(trace: Trace) -> Section | None:
    """The largest self times: of the device, where there is any, then of the host; None where nothing was recorded."""
    short = names_in_short(trace)
    rows = [Row((Text(short.get(name, name), full=name), *texts)) for name, *texts in cost_rows(trace)]
    return Section("costs", "cl-costs", blocks=(Table(_COLUMNS, rows, is_stacked=True),)) if rows else None


def cost_rows(trace: Trace) -> tuple[tuple[str, ...], ...]:
    """Return the rows as texts: name, kind, count, total, self, mean ± sd, share."""
    costs = averages(trace)
    costs = costs[~costs["cat"].isin(UNCOUNTED)].sort_values("share_pct", ascending=False, kind="stable")
    device, host = costs[costs["is_device"]], costs[~costs["is_device"]]
    half = _NUM_ROWS // 2
    shown = host.head(_NUM_ROWS) if device.empty else pd.concat([device.head(half), host.head(half)])
    return tuple(_texts(row) for row in shown.to_dict("records"))


def _texts(row: dict[Any, Any]) -> tuple[str, ...]:
    spread = f" ± {units.duration(row['std_ns'])}" if row["count"] > 1 else ""
    return (
        str(row["name"]),
        _KINDS.get(str(row["cat"]), str(row["cat"])),
        units.count(int(row["count"])),
        units.duration(row["total_ns"]),
        units.duration(row["self_ns"]),
        units.duration(row["mean_ns"]) + spread,
        f"{units.percent(row['share_pct'])} {'GPU' if row['is_device'] else 'CPU'}",
    )


_MAX_LINES: Final = 20
_LINES_AS_TEXT: Final = 6
_MAX_SOURCE: Final = 120
_LINE_COLUMNS: Final = (
    Column("GPU", "time", "right"),
    Column("launched", "count", "right"),
    Column("CPU", "host", "right"),
)
_LEGEND: Final = (
    "GPU: durations of the work that the line launched, backward work with the line of its forward operator. CPU: self "
    "time. cudalens.analysis.attribution(trace, by='line') has all lines."
)


def lines_section(trace: Trace) -> Section | None:
    """The lines that launched work, by GPU time, or the lines with most CPU time; functions where no line is known."""
    costs = line_costs(trace)
    if costs.empty:
        return None
    largest = int(max(costs["device_ns"].max(), 1)) if costs["num_works"].any() else int(max(costs["host_ns"].max(), 1))
    rows = []
    for row in costs[:_MAX_LINES].to_dict("records"):
        device, host, num = (int(row[name]) for name in ("device_ns", "host_ns", "num_works"))
        share = (device if num or not host else host) / largest
        time = f" {units.duration(device)} ({units.percent(row['device_pct'])})" if num else " -"
        count = units.count(num) if num else "-"
        rows.append(Row((_place(row), (bar("", min(share, 1.0)), time), count, units.duration(host))))
    # Files of torch's profiler name functions alone.
    has_lines = bool(costs["place"].str.contains(r":\d+$").any())
    word = "line" if has_lines else "function"
    columns = (Column(word, "line", text_width=60), *_LINE_COLUMNS)
    table = Table(columns, rows, len(costs), _LINES_AS_TEXT, more=(word, ""), num_open=_LINES_AS_TEXT, is_stacked=True)
    first = costs.iloc[0]  # In[3]:5 launched 340 kernels, 12.1 ms GPU (58 %)
    place = units.short_place(first["place"])
    if not first["num_works"]:
        answer = f"{place} took {units.duration(int(first['host_ns']))} of CPU time itself"
    else:
        work = units.plural(int(first["num_works"]), "GPU operation")
        gpu_time = units.duration(int(first["device_ns"]))
        answer = f"{place} launched {work}, {gpu_time} GPU ({units.percent(first['device_pct'])})"
    return Section(
        "lines",
        "cl-line",
        title="Lines of code" if has_lines else "Functions",
        facts=answer,
        blocks=(table, Note(_LEGEND, is_in_text=False)),
        is_open=True,
    )


def _place(row: dict[Any, Any]) -> Cell:
    place = Text(units.short_place(row["place"]), "place", full=row["place"])
    source = row["source"]
    return (place, "  ", Text(units.shorten(source, _MAX_SOURCE), "code")) if isinstance(source, str) else place


#: More modules than this are not listed: those with the least GPU time are left out first.
_MAX_MODULES: Final = 200
_MODULES_AS_TEXT: Final = 8
_OPEN_MODULES: Final = 12
_INDENT: Final = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} "


def modules_section(trace: Trace) -> Section | None:
    """Return the modules with the modules within them indented; None where none is known."""
    tree = module_tree(trace)
    if tree.empty:
        return None
    tree = tree.assign(device_ns=tree["forward_ns"] + tree["backward_ns"])
    # Return the depth down to which all modules fit.
    counts = tree["depth"].value_counts().sort_index().cumsum()
    fitting = counts[counts <= _MAX_MODULES]
    shown = tree[tree["depth"] <= (int(fitting.index.max()) if len(fitting) else 0)][:_MAX_MODULES]
    largest = int(max(shown["device_ns"].max(), shown["host_ns"].max() if not shown["device_ns"].any() else 0, 1))
    columns = _columns(tree)
    rows = [
        Row(tuple(_cell(row, name, largest) for _, name in columns), depth=int(row["depth"]))
        for row in shown.to_dict("records")
    ]
    table = Table(
        tuple(column for column, _ in columns),
        rows,
        len(tree),
        _MODULES_AS_TEXT,
        _OPEN_MODULES,
        ("module", ""),
        is_stacked=True,
    )
    leaves = tree[~tree.index.isin(tree["parent"].dropna().astype(int))]
    time_column, side = ("device_ns", "GPU") if leaves["device_ns"].any() else ("host_ns", "CPU")
    first = leaves.loc[leaves[time_column].idxmax()]
    parts = [f"most {side} time in {clean(first['path'], 60)} ({units.duration(int(first[time_column]))})"]
    if tree["peak_bytes"].any():
        most = leaves.loc[leaves["peak_bytes"].idxmax()]
        parts.append(f"most memory at the peak: {clean(most['path'], 60)} ({units.size(int(most['peak_bytes']))})")
    answer = "; ".join(parts)
    return Section("modules", "cl-module", title="Modules", facts=answer, blocks=(table,), is_open=False)


def _columns(tree: pd.DataFrame) -> list[tuple[Column, str]]:
    """Return the columns that have a value, with their names in the frame."""
    known = [
        (Column("module", "name", text_width=50), "name"),
        (Column("GPU", "time", "right"), "device_ns"),
        (Column("forward", "forward", "right"), "forward_ns"),
        (Column("backward", "backward", "right"), "backward_ns"),
        (Column("CPU", "host", "right"), "host_ns"),
        (Column("at peak", "memory", "right"), "peak_bytes"),
        (Column("FLOP/s", "rate", "right"), "flops_per_s"),
    ]
    return [(column, name) for column, name in known if name == "name" or (tree[name].fillna(0) > 0).any()]


def _cell(row: dict[Any, Any], name: str, largest: int) -> Cell:
    value = row[name]
    if name == "name":
        return Text(f"{_INDENT * min(int(row['depth']), 12)}{clean(value, 80)}", "place", full=clean(row["path"]))
    if pd.isna(value) or not value:
        return "-"
    if name == "device_ns":
        return bar("", min(int(value) / largest, 1.0)), f" {units.duration(int(value))}"
    if name == "peak_bytes":
        return units.size(int(value))
    return _rate(float(value)) if name == "flops_per_s" else units.duration(int(value))


def _rate(value: float) -> str:
    for scale, unit in ((1e15, "PFLOP/s"), (1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1e6, "MFLOP/s")):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value:.3g} FLOP/s"


_MAX_STEPS: Final = 100
_STEPS_AS_TEXT: Final = 8
_OPEN_STEPS: Final = 10
_STEP_COLUMNS: Final = (
    Column("step", "step"),
    Column("time", "time", "right"),
    Column("against the median", "extra", "right"),
    Column("GPU", "device", "right"),
    Column("CPU", "host", "right"),
    Column("launched", "count", "right"),
)


def steps_section(trace: Trace) -> Section | None:
    """Return the steps in order; None where there are fewer than two."""
    steps = step_costs(trace)
    if len(steps) < 2:
        return None
    largest = max(int(steps["dur_ns"].max()), 1)
    shown = steps[:_MAX_STEPS]
    rows = []
    for row in shown.to_dict("records"):
        number: Cell = units.count(int(row["step"]))
        if row["is_outlier"]:
            number = (f"{number} ", Text("outlier", "strong"))
        extra = int(row["extra_ns"])
        sign = "-" if extra < 0 else "+"
        time = bar("", int(row["dur_ns"]) / largest), f" {units.duration(int(row['dur_ns']))}"
        cells = (
            units.duration(int(row["device_ns"])),
            units.duration(int(row["host_ns"])),
            units.count(int(row["num_works"])),
        )
        rows.append(Row((number, time, f"{sign}{units.duration(abs(extra))}", *cells), event=int(row["row"])))
    table = Table(_STEP_COLUMNS, rows, len(steps), _STEPS_AS_TEXT, _OPEN_STEPS, ("step", ""), is_stacked=True)
    odd = bool(steps["is_outlier"].any())
    median = f"{units.plural(len(steps), 'step')}, median {units.duration(int(steps['dur_ns'].median()))}"
    outliers = steps[steps["is_outlier"]]
    answer = median
    if len(outliers):
        worst = outliers.loc[outliers["extra_ns"].idxmax()]
        more = "" if len(outliers) == 1 else f" and {len(outliers) - 1} more"
        answer = f"{median}; step {worst['step']}{more} took {units.duration(int(worst['extra_ns']))} longer"
    return Section("steps", "cl-step", title="Steps", facts=answer, blocks=(table,), is_open=False, is_in_text=odd)
