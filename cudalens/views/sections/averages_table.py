"""Averages as an aligned text table, in the columns and words of torch.profiler's ``key_averages().table()``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pandas as pd

from cudalens.analysis import key_averages
from cudalens.analysis.units import duration, size
from cudalens.frames import Trace

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
"""torch's words for our columns; it says cuda or xpu for device as well."""

_MAX_NAME: Final = 55
_MAX_TEXT: Final = 80


def table(
    trace: Trace,
    sort_by: str | None = None,
    row_limit: int = 100,
    *,
    by: Sequence[str] | str = ("name",),
    top_level: bool = False,
) -> str:
    """The averages of `trace` as text.

    Args:
        trace: Any Trace.
        sort_by: A column of `cudalens.analysis.key_averages`, or torch's name of one (``self_cpu_time_total``,
            ``cuda_time_total`` …), largest first; None for self time.
        row_limit: Rows to show; -1 for all.
        by: What rows must have in common, as `key_averages` takes it.
        top_level: Only rows that no other row encloses.

    Raises:
        ValueError: `sort_by` or `by` names nothing.
    """
    averages = key_averages(trace, by=by, top_level=top_level)
    column = _column(sort_by, averages)
    if column is not None:
        averages = averages.sort_values(column, ascending=False, kind="stable", na_position="last")
    shown = averages if row_limit < 0 else averages.head(row_limit)
    columns = _columns(shown, averages)
    widths = [max(len(head), *(len(text) for text in texts), 0) for head, texts in columns]
    is_text = [head in _TEXT_HEADS for head, _ in columns]
    rule = "  ".join("-" * width for width in widths)
    lines = [rule, _line([head for head, _ in columns], widths, is_text), rule]
    lines += [_line(list(row), widths, is_text) for row in zip(*(texts for _, texts in columns), strict=True)]
    lines.append(rule)
    if len(shown) < len(averages):
        lines.append(f"{len(averages) - len(shown):,} more rows; row_limit=-1 shows all")
    host = ~averages["is_device"]
    lines.append(f"Self CPU time total: {duration(int(averages['self_ns'][host].sum()))}")
    if averages["is_device"].any():
        lines.append(f"Self device time total: {duration(int(averages['self_device_ns'][~host].sum()))}")
    if trace.info.is_simulated:
        lines.append("Simulated times: a model's, not a clock's")
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


_TEXT_HEADS: Final = (
    "Name",
    "input_shapes",
    "shapes",
    "dtypes",
    "stack",
    "module",
    "cell_line",
    "cat",
    "thread",
    "Source",
)


def _columns(shown: pd.DataFrame, averages: pd.DataFrame) -> list[tuple[str, list[str]]]:
    """Heads and cells of the columns that have something to show."""
    host_self = int(averages["self_ns"][~averages["is_device"]].sum())
    device_self = int(averages["self_device_ns"][averages["is_device"]].sum())
    on_host = ~shown["is_device"]
    keys = list(averages.columns[: list(averages.columns).index("is_device")])
    keys = keys if keys == ["cat"] else [key for key in keys if key != "cat"]
    columns = [
        ("Name" if key == "name" else key, _texts(shown[key], _MAX_NAME if key == "name" else _MAX_TEXT))
        for key in keys
    ]
    self_ns, total = shown["self_ns"].where(on_host, 0), shown["total_ns"].where(on_host, 0)
    columns += [
        ("Self CPU %", [_share(ns, host_self) for ns in self_ns]),
        ("Self CPU", [duration(ns) for ns in self_ns]),
        ("CPU total %", [_share(ns, host_self) for ns in total]),
        ("CPU total", [duration(ns) for ns in total]),
        ("CPU time avg", [duration(ns / count) for ns, count in zip(total, shown["count"], strict=True)]),
    ]
    if averages["is_device"].any():
        means = zip(shown["device_total_ns"], shown["count"], strict=True)
        columns += [
            ("Self device", [duration(ns) for ns in shown["self_device_ns"]]),
            ("Self device %", [_share(ns, device_self) for ns in shown["self_device_ns"]]),
            ("Device total", [duration(ns) for ns in shown["device_total_ns"]]),
            ("Device time avg", [duration(ns / count) for ns, count in means]),
        ]
    for side, head in (("host", "CPU Mem"), ("device", "Device Mem")):
        if averages[f"{side}_memory_bytes"].fillna(0).any():
            columns.append((head, [_size(b) for b in shown[f"{side}_memory_bytes"]]))
            columns.append((f"Self {head}", [_size(b) for b in shown[f"self_{side}_memory_bytes"]]))
    columns.append(("# of Calls", [str(count) for count in shown["count"]]))
    if averages["flops"].notna().any():
        columns.append(("Total FLOPs", ["--" if pd.isna(flops) else f"{int(flops):,}" for flops in shown["flops"]]))
    if averages["place"].notna().any():
        columns.append(("Source", _texts(shown["place"], _MAX_TEXT)))
    return columns


def _texts(values: pd.Series, limit: int) -> list[str]:
    texts = ["" if pd.isna(value) else " < ".join(str(value).split("\n")) for value in values]
    return [text if len(text) <= limit else f"{text[: limit - 1]}…" for text in texts]


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f}%" if whole else "-"


def _size(num_bytes: Any) -> str:
    return "-" if pd.isna(num_bytes) else size(int(num_bytes))


def _line(cells: list[str], widths: list[int], is_text: list[bool]) -> str:
    padded = [cell.ljust(w) if left else cell.rjust(w) for cell, w, left in zip(cells, widths, is_text, strict=True)]
    return "  ".join(padded).rstrip()
