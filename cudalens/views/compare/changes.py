"""What changed between two runs: the verdict, and tables of kernels, operators, modules and memory."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import pandas as pd

from cudalens.analysis import units
from cudalens.analysis.compare.measure import HOST
from cudalens.analysis.compare.runs import LEAST_SHARE, Change, Differences
from cudalens.analysis.short_names import short_names
from cudalens.views.sections.markup import signed_bar
from cudalens.views.sections.model import Column, Row, Section, Table, Text

_CHANGED: Final = ("added", "removed", "faster", "slower", "more", "less")
_NOUNS: Final = {"kernels": ("kernel", "kernels"), "ops": ("operator or call", "operators and calls")}
_NAME: Final = 60
_MOST: Final = 2
#: Share of the whole difference; a smaller change of the host explains nothing.
_LEAST_PART: Final = 0.10
#: Calls in which the host waits for the devices.
_WAITS: Final = r"Synchronize$|^aten::(?:item|_local_scalar_dense)$"
#: A change is clear if its interval contains less than this share of it. With many rows, some are wrong by chance.
_CLEAR: Final = 0.5
#: An interval whose ends differ by this factor is written as multiples.
_WIDE: Final = 2.0
#: Beyond this multiple the exact number does not matter.
_LARGEST_MULTIPLE: Final = 99


def names(found: Differences) -> tuple[str, str]:
    """Return the names of both sides, which always differ."""
    a, b = (units.shorten(side.name, 40) or letter for side, letter in ((found.a, "a"), (found.b, "b")))
    return (a, b) if a != b else (f"{a} (a)", f"{b} (b)")


def comparison_verdict(found: Differences) -> str:
    """Return the answer in one line: how much faster or slower, how sure that is, and what it comes from most."""
    mark = _mark(found)
    parts = [_whole(found), _causes(found), _memory(found)]
    line = "; ".join(part for part in parts if part)
    return f"{mark} {line}" if mark else line


def _mark(found: Differences) -> str:
    """Return a badge for modelled times; "" where both sides were measured."""
    sides = [(side, name) for side, name in zip((found.a, found.b), names(found), strict=True) if side.is_simulated]
    if not sides:
        return ""
    models = dict.fromkeys(
        trace.info.source.removeprefix("virtual:")
        for side, _ in sides
        for trace in side.traces
        if trace.info.is_simulated
    )
    if len(sides) == 2:
        return f"[simulated: {', '.join(models)}]"
    return f"[{sides[0][1]} is simulated ({', '.join(models)}), the other was measured]"


def _whole(found: Differences) -> str:
    whole, host, b = found.whole, found.host, names(found)[1]
    if host is not None and whole.status == "same" and host.status != "same":
        return _host(whole, host, b)
    if whole.after_ns == whole.before_ns:
        return f"no change: {units.duration(whole.after_ns)} {_each(whole)} in both"
    if whole.ratio is None:
        return _durations(whole)
    if whole.low is None or whole.high is None:
        return f"{b} {_took(whole.ratio)} ({_durations(whole)}), but noise is unknown: {_too_few(found)}"
    if whole.status == "same":
        return _same(whole)
    if whole.limit:
        hint = " (give several runs a side)" if "noise" in whole.limit else ""
        return f"{b} {_took(whole.ratio)} in these runs ({_durations(whole)}); {whole.limit}{hint}"
    return f"{b} {_changed(whole.ratio)} ({_measured(whole)})"


def _host(whole: Change, host: Change, b: str) -> str:
    """Return the host's time without interruptions changed; whole steps vary too much to show it."""
    spread = f"whole {whole.unit}s vary too much to show it: {_durations(whole)}"
    return f"{b} {_changed(host.ratio or 0)} without interruptions ({_measured(host)}); {spread}"


def _same(whole: Change) -> str:
    ratio, low, high = whole.ratio or 0.0, whole.low or 0.0, whole.high or 0.0
    if abs(ratio) < LEAST_SHARE:
        return f"no change: {_durations(whole)}, less than 1 % {'less' if ratio < 0 else 'more'}"
    noise = _noise(low, high, whole.level)
    return f"no change beyond noise: {_durations(whole)} ({noise}, profile more repeats to find out)"


def _each(whole: Change) -> str:
    return "a step" if whole.unit == "step" else "a run"


def _durations(whole: Change) -> str:
    return f"{units.duration(whole.before_ns)} → {units.duration(whole.after_ns)} {_each(whole)}"


def _changed(ratio: float) -> str:
    """``is 18 % slower``, ``takes 2.5 times as long``, ``is 8 times as fast``."""
    change = units.time_change(ratio)
    return f"takes {change}" if change.endswith("as long") else f"is {change}"


def _took(ratio: float) -> str:
    """As `_changed`, of these runs: ``took 18 % more time``, ``took 2.5 times as long``, ``was 8 times as fast``."""
    change = units.time_change(ratio)
    if units.is_factor(ratio):
        return f"took {change}" if ratio > 0 else f"was {change}"
    return f"took {units.percent(100 * abs(ratio))} {'less' if ratio < 0 else 'more'} time"


def _measured(whole: Change) -> str:
    """Return the times of both sides, and the interval of their ratio where repeats differ."""
    if whole.low == whole.high:
        return _durations(whole)
    return f"{_durations(whole)}, {_interval(whole)}"


def _interval(whole: Change) -> str:
    ratio, low, high = whole.ratio or 0.0, whole.low or 0.0, whole.high or 0.0
    level = f"{100 * whole.level:.0f} % interval"
    if units.is_factor(ratio):
        ends = (low, high) if ratio > 0 else (high, low)
        multiples = []  # of the time, or of the speed
        for end in ends:
            if ratio >= 0:
                multiples.append(units.number(1 + end))
            elif 1 + end > 1 / _LARGEST_MULTIPLE:
                multiples.append(units.number(1 / (1 + end)))
            else:
                multiples.append(f"over {_LARGEST_MULTIPLE}")
        return f"{level} {units.interval(*multiples)} times"
    if (low < 0) != (high < 0):
        return f"{level} {units.interval(units.signed_percent(100 * low), units.signed_percent(100 * high))}"
    return f"{level} {units.interval(*(units.percent(100 * end) for end in sorted((abs(low), abs(high)))))}"


def _noise(low: float, high: float, level: float) -> str:
    """Return the interval of a ratio; where it is wide, the range of multiples."""
    if (1 + high) <= _WIDE * (1 + low):
        ends = units.interval(units.signed_percent(100 * low), units.signed_percent(100 * high))
        return f"{100 * level:.0f} % interval {ends}"
    least = f"{1 + low:.2g}" if 1 + low >= 1 / _LARGEST_MULTIPLE else "near 0"
    most = f"{1 + high:.2g}" if 1 + high < _LARGEST_MULTIPLE else f"over {_LARGEST_MULTIPLE}"
    return f"they vary so much that {least} to {most} times as long is possible"


def _too_few(found: Differences) -> str:
    whole, (a, b) = found.whole, names(found)
    what = "step" if whole.unit == "step" else "run"
    single = [name for name, n in ((a, whole.num_before), (b, whole.num_after)) if n < 2]
    of = "each side has" if len(single) == 2 else f"{single[0]} has"
    return f"{of} one {what} (profile several steps, or give lists of runs)"


def _causes(found: Differences) -> str:
    """What changed most in the direction of the whole; the largest change and their number, where the whole did not."""
    delta = found.whole.after_ns - found.whole.before_ns
    # What changed on the devices and on the host, largest difference first; without waits of the host for both.
    kernels, host = changed(found.kernels), changed(found.ops)
    host = host[host["where"] == HOST]
    most = kernels["delta_ns"].abs().max() if len(kernels) else 0
    is_wait = host["name"].str.contains(_WAITS) & (most >= _LEAST_PART * host["delta_ns"].abs())
    rows = pd.concat([kernels, host[~is_wait]], ignore_index=True)
    rows = rows.iloc[rows["delta_ns"].abs().argsort(kind="stable")[::-1]]
    if found.whole.status == "same":
        # ``1 kernel changed: gemm (+1.20 ms, +10 %)``, of what changed clearly; "" where nothing did.
        counted = _counted(found)
        nearest = rows[["low_ns", "high_ns"]].abs().min(axis=1)
        is_clear = (nearest >= _CLEAR * rows["delta_ns"].abs()).fillna(False) | rows["status"].isin(
            ("added", "removed")
        )
        clear = rows[rows["status"].isin(_CHANGED) & is_clear]
        if not counted or clear.empty:
            return ""
        row = clear.iloc[0].to_dict()
        share = "" if pd.isna(row["change_pct"]) else f", {units.signed_change(row['change_pct'] / 100)}"
        return f"{counted}, most {_cause(row)} ({signed_duration(row['delta_ns'])}{share})"
    # Return whether there are kernels, and all of one side.
    statuses = set(found.kernels["status"])
    if statuses in ({"added"}, {"removed"}):
        return "only one of them used the GPU"
    same_way = rows[((rows["delta_ns"] < 0) == (delta < 0)) & (rows["delta_ns"].abs() >= _LEAST_PART * abs(delta))]
    causes = [_described(row) for row in same_way.head(_MOST).to_dict("records")]
    if causes:
        return f"most from {' and '.join(causes)}"
    where = "the GPU's work" if len(found.kernels) else "operators"
    return f"{where} did not change beyond noise: look at the time between them" if delta else ""


def _described(row: dict[Any, Any]) -> str:
    return f"{_cause(row)} ({signed_duration(row['delta_ns'])})"


def _cause(row: dict[Any, Any]) -> str:
    name = units.shorten(str(row["name"]), _NAME)
    if row["status"] in ("added", "removed"):
        return f"{name}{' on the host' if row.get('where') == HOST else ''}, {row['status']}"
    if is_renamed(row):
        return f"{name} in place of {units.shorten(str(row['a_name']), _NAME)}"
    return f"{name} on the host" if row.get("where") == HOST else name


def _counted(found: Differences) -> str:
    """Return how many rows changed although the whole did not: ``3 kernels and 1 operator changed``."""
    counts = [
        f"{units.count(number)} {nouns[number > 1]}"
        for key, nouns in _NOUNS.items()
        if (number := int(getattr(found, key)["status"].isin(_CHANGED).sum()))
    ]
    return f"{' and '.join(counts)} changed" if counts else ""


def _memory(found: Differences) -> str:
    rows = changed(found.memory)
    rows = rows[rows["name"] == "peak allocated"]
    if rows.empty:
        return ""
    row = rows.iloc[0]
    return f"peak memory {units.size(row['a_bytes'])} → {units.size(row['b_bytes'])} ({row['where']})"


def comparison_notes(found: Differences) -> list[str]:
    """Return what limits the comparison, a line each."""
    whole = found.whole
    each = "steps" if whole.unit == "step" else "runs"
    runs = (
        f" of {whole.runs_before} and {whole.runs_after} runs" if max(whole.runs_before, whole.runs_after) > 1 else ""
    )
    basis = f"{whole.num_before} and {whole.num_after} {each}{runs if whole.unit == 'step' else ''}; medians"
    if whole.limit:
        basis += f"; {whole.limit}, so nothing is claimed beyond these runs"
    elif whole.low is not None:
        basis += "; only changes larger than noise are listed"
    return [*found.notes, basis]


BETTER, WORSE, UNSURE = "#1a8f5c", "#d1443a", "#7d8790"
#: The frames and their titles, in the order in which they are shown.
SECTIONS: Final = {"kernels": "Kernels", "ops": "Operators and calls", "modules": "Modules", "memory": "Memory"}

_ROW_NOUNS: Final = {"kernels": "kernel", "ops": "row", "modules": "module", "memory": "peak"}
_WHERE: Final = {"kernels": "operator", "memory": "device"}
_UNCHANGED: Final = "same"
_MAX_ROWS: Final = 25
#: What the names of ranges that autograd makes for each node of the graph begin with.
_AUTOGRAD: Final = "autograd::engine::"
_NUMBERS: Final = ("before", "after", "difference", "interval", "change", "calls")


def changed(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `table` that changed; where noise is not known, all that differ."""
    return table[table["status"] != _UNCHANGED]


def changes_section(found: Differences, key: str) -> Section | None:
    """Return the rows of one frame that changed, most important first; None where none did."""
    table = changed(getattr(found, key))
    if table.empty:
        return None
    most = float(table[_delta(key)].abs().max()) or 1.0
    shown = table.head(_MAX_ROWS).to_dict("records")
    # What replaces names of kernels, Python functions and autograd's ranges where they are shown together.
    names = [str(name) for row in shown for name in (row["name"], row.get("a_name"), row.get("b_name")) if name]
    ranges = {name: name.removeprefix(_AUTOGRAD) for name in names if name.startswith(_AUTOGRAD)}
    short = short_names(name for name in names if "<" in name or ".py(" in name) | ranges
    rows = []
    for row in shown:
        is_memory = key == "memory"
        unit, show, signed = (
            ("bytes", units.size, signed_size) if is_memory else ("ns", units.duration, signed_duration)
        )
        low, high, delta = row[f"low_{unit}"], row[f"high_{unit}"], row[_delta(key)]
        difference = signed(delta)
        bar = signed_bar(difference, delta / most, color_of(delta, row["status"]))
        if pd.isna(low):
            interval = "-"
        elif low == high:  # the repeats are equal
            interval = ""
        else:
            interval = units.interval(signed(low), signed(high))
        change = row["status"] if row["status"] in ("added", "removed") else _change(row["change_pct"])
        where = str(row.get("where", row.get("op", "")))
        calls = "" if is_memory else _calls(row["a_count"], row["b_count"])
        times = (show(row[f"a_{unit}"]), show(row[f"b_{unit}"]), difference)
        name = Text(row_name(row, short), full=row_name(row))
        rows.append(Row((name, where, bar, *times, interval, change, calls)))
    columns = (
        Column("name", text_width=48, html_width=96),
        Column(_WHERE.get(key, "where"), _WHERE.get(key, "where"), text_width=24, html_width=32),
        Column("", text_width=0),
        *(Column(title, title if title == "interval" else "", "right") for title in _NUMBERS),
    )
    drawn = Table(columns, rows, len(table), more=(_ROW_NOUNS[key], ""))
    return Section("", "cc", title=SECTIONS[key], blocks=(drawn,))


def color_of(delta: float, status: str) -> str:
    """Green for less, red for more, grey for what may be noise."""
    if status == "unknown":
        return UNSURE
    return BETTER if delta < 0 else WORSE


def row_name(row: dict[Any, Any], short: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return a row's name, of a kernel that was renamed both names; those in `short` are replaced."""
    names = (row["a_name"], row["b_name"]) if is_renamed(row) else (row["name"],)
    return " → ".join(short.get(str(name), str(name)) for name in names)


def is_renamed(row: dict[Any, Any]) -> bool:
    """Return whether a kernel was matched with one of another name."""
    return row.get("matched_by") == "op"


def signed_duration(ns: float) -> str:
    """Return a difference of times: ``-1.90 ms``, ``+20 µs``, ``0``."""
    if not ns:
        return "0"
    return ("+" if ns > 0 else "-") + units.duration(abs(ns))


def signed_size(num_bytes: float) -> str:
    """Return a difference of sizes: ``-1.90 GiB``, ``+512 B``, ``0``."""
    if not num_bytes:
        return "0"
    return ("+" if num_bytes > 0 else "-") + units.size(abs(num_bytes))


def _delta(key: str) -> str:
    return "delta_bytes" if key == "memory" else "delta_ns"


def _change(percent: Any) -> str:
    return "-" if pd.isna(percent) else units.signed_change(float(percent) / 100)


def _calls(before: float, after: float) -> str:
    old, new = units.number(before), units.number(after)
    return old if old == new else f"{old} → {new}"
