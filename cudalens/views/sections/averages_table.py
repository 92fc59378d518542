"""Averages as an aligned text table, in the columns and words of torch.profiler's ``key_averages().table()``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import pandas as pd

from cudalens.analysis import key_averages
from cudalens.analysis.units import duration, size
from cudalens.frames import Trace
from cudalens.views.sections.model import Column, Row
from cudalens.views.sections.write_text import aligned

#: torch's names of the columns; it also writes cuda or xpu for device.
_SORTS: Final = {
    "cpu_time": "mean_ns",
    "cpu_time_total": "total_ns",
    "self_cpu_time_total": "self_ns",
    "device_time_total": "device_total_ns",
    "self_device_time_total": "self_device_ns",
    "cpu_memory_usage": "host_memory_bytes",
    "self_cpu_memory_usage": "self_host_memory_bytes",
    "device_memory_usage": "device_memory_bytes",
    "self_device_memory_usage": "self_device_memory_bytes",
}

_UNIT_NS: Final = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
_UNLIMITED: Final = 1 << 30

#: From a number of ns to text.
_Format = Callable[[float], str]


class _Widths(NamedTuple):
    """The most characters of a cell, by column."""

    name: int
    other: int
    source: int


def table(
    trace: Trace,
    sort_by: str | None = None,
    row_limit: int = 100,
    *,
    by: Sequence[str] | str = ("name",),
    top_level: bool = False,
    header: str | None = None,
    top_level_events_only: bool = False,
    time_unit: str | None = None,
    max_name_column_width: int | None = 55,
    max_shapes_column_width: int | None = 80,
    max_src_column_width: int | None = 80,
    group_by_input_shape: bool = False,
    group_by_input_shapes: bool = False,
    group_by_stack_n: int = 0,
    group_by_overload_name: bool = False,
) -> str:
    """Return the averages of `trace` as text.

    Args:
        trace: Any Trace.
        sort_by: A column of `cudalens.analysis.key_averages`, or torch's name of one (``self_cpu_time_total``,
            ``cuda_time_total`` …), largest first; None for self time.
        row_limit: Rows to show; -1 for all.
        by: What rows must have in common, as `key_averages` takes it.
        top_level: Only rows that no other row encloses.
        header: A line above the table.
        top_level_events_only: torch's name of `top_level`.
        time_unit: "s", "ms", "us" or "ns" for all times; None for a unit that suits each.
        max_name_column_width: Characters of a name; None for all.
        max_shapes_column_width: Characters of any other value of `by`; None for all.
        max_src_column_width: Characters of a source line; None for all.
        group_by_input_shape: torch.profiler's option: adds ``input_shapes`` to `by`.
        group_by_input_shapes: The same.
        group_by_stack_n: torch.profiler's option: adds ``stack:N`` to `by`.
        group_by_overload_name: torch.profiler's option; refused, because overload names are not recorded.

    Raises:
        ValueError: `sort_by` or `by` names no column, or there is no such `time_unit`.
    """
    in_unit = _in_unit(time_unit)
    widths = _Widths(
        *(width or _UNLIMITED for width in (max_name_column_width, max_shapes_column_width, max_src_column_width))
    )
    averages = key_averages(
        trace,
        by=by,
        top_level=top_level or top_level_events_only,
        group_by_input_shape=group_by_input_shape,
        group_by_input_shapes=group_by_input_shapes,
        group_by_stack_n=group_by_stack_n,
        group_by_overload_name=group_by_overload_name,
    )
    column = _column(sort_by, averages)
    if column is not None:
        averages = averages.sort_values(column, ascending=False, kind="stable", na_position="last")
    shown = averages if row_limit < 0 else averages.head(row_limit)
    columns = _columns(shown, averages, widths, in_unit)
    rows = [Row(cells) for cells in zip(*(texts for _, texts in columns), strict=True)]
    lines = [*([header] if header else []), *aligned([column for column, _ in columns], rows)]
    if num_left := len(averages) - len(shown):
        lines.append(f"{num_left:,} more {'row' if num_left == 1 else 'rows'}; row_limit=-1 shows all")
    host = ~averages["is_device"]
    lines.append(f"Self CPU time total: {in_unit(int(averages['self_ns'][host].sum()))}")
    if averages["is_device"].any():
        lines.append(f"Self device time total: {in_unit(int(averages['self_device_ns'][~host].sum()))}")
    if trace.info.is_simulated:
        lines.append("Simulated times, computed by a model")
    return "\n".join(lines)


def _column(sort_by: str | None, averages: pd.DataFrame) -> str | None:
    if sort_by is None:
        return None
    usual = sort_by.replace("cuda", "device").replace("xpu", "device").replace("privateuse1", "device")
    column = sort_by if sort_by in averages else _SORTS.get(usual)
    if column is None or not pd.api.types.is_numeric_dtype(averages[column].dtype):
        numbers = [name for name in averages if pd.api.types.is_numeric_dtype(averages[name].dtype)]
        raise ValueError(f"sort_by is {sort_by!r}; there are: {', '.join([*_SORTS, *numbers])}")
    return column


def _in_unit(time_unit: str | None) -> _Format:
    """Writes a number of ns in `time_unit`."""
    if time_unit is None:
        return duration
    if time_unit not in _UNIT_NS:
        raise ValueError(f"time_unit is {time_unit!r}; expected None or one of {', '.join(_UNIT_NS)}")
    return lambda ns: f"{ns / _UNIT_NS[time_unit]:.3f}{time_unit}"


def _columns(
    shown: pd.DataFrame, averages: pd.DataFrame, widths: _Widths, in_unit: _Format
) -> list[tuple[Column, list[str]]]:
    """Return the columns that have something to show, each with its cells."""
    is_device = averages["is_device"]
    keys = list(averages.columns[: list(averages.columns).index("is_device")])
    keys = keys if keys == ["cat"] else [key for key in keys if key != "cat"]
    texts = [
        ("Name" if key == "name" else key, shown[key], widths.name if key == "name" else widths.other) for key in keys
    ]
    columns = [_texts(*text) for text in texts]
    whole = int(averages["self_ns"][~is_device].sum())
    on_host = ~shown["is_device"]
    self_ns, total = shown["self_ns"].where(on_host, 0), shown["total_ns"].where(on_host, 0)
    columns += _numbers(
        {
            "Self CPU %": (_share(ns, whole) for ns in self_ns),
            "Self CPU": map(in_unit, self_ns),
            "CPU total %": (_share(ns, whole) for ns in total),
            "CPU total": map(in_unit, total),
            "CPU time avg": map(in_unit, total / shown["count"]),
        }
    )
    if is_device.any():
        whole_device = int(averages["self_device_ns"][is_device].sum())
        columns += _numbers(
            {
                "Self device": map(in_unit, shown["self_device_ns"]),
                "Self device %": (_share(ns, whole_device) for ns in shown["self_device_ns"]),
                "Device total": map(in_unit, shown["device_total_ns"]),
                "Device time avg": map(in_unit, shown["device_total_ns"] / shown["count"]),
            }
        )
    for side, head in (("host", "CPU Mem"), ("device", "Device Mem")):
        if averages[f"{side}_memory_bytes"].fillna(0).any():
            found = (shown[f"{prefix}{side}_memory_bytes"] for prefix in ("", "self_"))
            columns += _numbers({title: map(_size, b) for title, b in zip((head, f"Self {head}"), found, strict=True)})
    columns += _numbers({"# of Calls": map(str, shown["count"])})
    if averages["flops"].notna().any():
        flops = ("--" if pd.isna(number) else f"{int(number):,}" for number in shown["flops"])
        columns += _numbers({"Total FLOPs": flops})
    return [*columns, _texts("Source", shown["place"], widths.source)] if averages["place"].notna().any() else columns


def _numbers(texts: dict[str, Iterable[str]]) -> list[tuple[Column, list[str]]]:
    return [(Column(title, align="right"), list(cells)) for title, cells in texts.items()]


def _texts(title: str, values: pd.Series, width: int) -> tuple[Column, list[str]]:
    texts = ["" if pd.isna(value) else " < ".join(str(value).split("\n")) for value in values]
    return Column(title, text_width=width), [_cut(text, width) for text in texts]


def _cut(text: str, width: int) -> str:
    """Return the beginning of `text`: of a stack, the innermost entries."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f}%" if whole else "-"


def _size(num_bytes: Any) -> str:
    return "-" if pd.isna(num_bytes) else size(int(num_bytes))
