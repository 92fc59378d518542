"""A comparison of two runs in words: the verdict first, then what changed, dearest first."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd

from cudalens.analysis import units
from cudalens.analysis.compare.runs import LEAST_SHARE, ROW_LEVEL, Differences
from cudalens.analysis.compare.units import HOST

CHANGED: Final = ("added", "removed", "faster", "slower", "more", "less")
SECTIONS: Final = {"kernels": "kernels", "ops": "operators and calls", "modules": "modules", "memory": "memory"}
"""The frames, and what they are called; in the order in which they are shown."""

_NOUNS: Final = {"kernels": ("kernel", "kernels"), "ops": ("operator or call", "operators and calls")}

MAX_ROWS: Final = 12
_NAME: Final = 48
_VERDICT_NAME: Final = 60
_MOST: Final = 2
_LEAST_PART: Final = 0.10
"""Of the whole difference: what the host did that is less explains nothing."""
_MANY: Final = 2.0
"""From this change on, per cent say less than times."""
_UNTOLD: Final = 99
"""Beyond it a multiple is no more than "very many"."""


def names(found: Differences) -> tuple[str, str]:
    """What both sides are called; never the same."""
    a, b = (units.shorten(side.name, 40) or letter for side, letter in ((found.a, "a"), (found.b, "b")))
    return (a, b) if a != b else (f"{a} (a)", f"{b} (b)")


def changed(table: pd.DataFrame) -> pd.DataFrame:
    """Its rows that changed; where one repeat does not tell noise from change, all that differ."""
    return table[table["status"].isin((*CHANGED, "unknown"))]


def verdict(found: Differences) -> str:
    """The answer in one line: how much faster or slower, how sure that is, and what it comes from most."""
    mark = _mark(found)
    parts = [_whole(found), _causes(found), _memory(found)]
    line = "; ".join(part for part in parts if part)
    return f"{mark} {line}" if mark else line


def _mark(found: Differences) -> str:
    """What must stand on the face of times that no clock measured."""
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
    whole, (_, b) = found.whole, names(found)
    each = "a step" if whole.unit == "step" else "a run"
    times = f"{units.duration(whole.before_ns)} → {units.duration(whole.after_ns)} {each}"
    if whole.ratio is None or whole.after_ns == whole.before_ns:
        return (
            f"no change: {units.duration(whole.after_ns)} {each} in both"
            if whole.after_ns == whole.before_ns
            else times
        )
    if whole.low is None or whole.high is None:
        said = f"{_percent(whole.ratio)} {'less' if whole.ratio < 0 else 'more'} time"
        said = _times(whole.ratio) if whole.ratio >= _MANY else said
        return f"{b} took {said} ({times}), but noise is unknown: {_too_few(found)}"
    if whole.status == "same" and abs(whole.ratio) < LEAST_SHARE:
        return f"no change: {times}, less than 1 % {'less' if whole.ratio < 0 else 'more'}"
    if whole.status == "same":
        return f"no change beyond noise: {times} ({_noise(whole.low, whole.high)}, more repeats tell more)"
    if whole.ratio >= _MANY:
        interval = f"95 % interval {1 + whole.low:.3g} to {1 + whole.high:.3g} times"
        return f"{b} is slower, {_times(whole.ratio)} ({times}, {interval})"
    ends = sorted((abs(whole.low), abs(whole.high)))
    interval = f"95 % interval {_number(ends[0])} to {_percent(ends[1])}"
    return f"{b} is {_percent(whole.ratio)} {whole.status} ({times}, {interval})"


def _noise(low: float, high: float) -> str:
    """The interval of a ratio; where it is so wide that per cent say nothing, as what would fit as well."""
    if (1 + high) <= _MANY * (1 + low):
        return f"95 % interval {_signed(low)} to {_signed(high)}"
    least = f"{1 + low:.2g}" if 1 + low >= 1 / _UNTOLD else "near 0"
    most = f"{1 + high:.2g}" if 1 + high < _UNTOLD else f"over {_UNTOLD}"
    return f"they vary so much that {least} to {most} times as long fits as well"


def _times(ratio: float) -> str:
    return f"{1 + ratio:.3g} times as long"


def _too_few(found: Differences) -> str:
    whole, (a, b) = found.whole, names(found)
    what = "step" if whole.unit == "step" else "run"
    single = [name for name, n in ((a, whole.num_before), (b, whole.num_after)) if n < 2]
    of = "each side has" if len(single) == 2 else f"{single[0]} has"
    return f"{of} one {what} (profile several steps, or give lists of runs)"


def _percent(ratio: float) -> str:
    return units.percent(100 * abs(ratio))


def _number(share: float) -> str:
    return _percent(share).removesuffix(" %")


def _signed(ratio: float) -> str:
    return f"{'+' if ratio > 0 else '-' if ratio < 0 else ''}{_percent(ratio)}"


def _causes(found: Differences) -> str:
    """What changed most in the direction of the whole; how much did, where the whole did not."""
    whole = found.whole
    table = found.kernels if len(found.kernels) else found.ops
    rows = changed(table)
    delta = whole.after_ns - whole.before_ns
    if whole.status == "same":
        return _counted(found)
    told = _told(rows, delta)
    if not told and _is_one_sided(found):
        return "only one of them used the GPU"
    if not told:
        where = "the GPU's work" if len(found.kernels) else "operators"
        host = changed(found.ops)
        between = _told(host[(host["where"] == HOST) & (host["delta_ns"].abs() >= _LEAST_PART * abs(delta))], delta)
        more = f"most from {' and '.join(between)}" if between else "look at what stands between"
        return f"{where} did not change beyond noise: {more}" if delta else ""
    return f"most from {' and '.join(told)}"


def _told(rows: pd.DataFrame, delta: float) -> list[str]:
    """The rows that changed the most in the direction of `delta`, each with by how much."""
    same_way = rows[(rows["delta_ns"] < 0) == (delta < 0)].head(_MOST)
    return [f"{_cause(row)} ({signed_duration(row['delta_ns'])})" for row in same_way.to_dict("records")]


def _is_one_sided(found: Differences) -> bool:
    """Whether there are kernels, and all of one side."""
    statuses = set(found.kernels["status"])
    return statuses in ({"added"}, {"removed"})


def _cause(row: dict[Any, Any]) -> str:
    name = units.shorten(str(row["name"]), _VERDICT_NAME)
    if row["status"] in ("added", "removed"):
        return f"{name}, {row['status']}"
    if is_renamed(row):
        return f"{name} in place of {units.shorten(str(row['a_name']), _VERDICT_NAME)}"
    return f"{name} on the {row['where']}" if "where" in row else name


def is_renamed(row: dict[Any, Any]) -> bool:
    """Whether a kernel was matched with one of another name."""
    return row.get("matched_by") == "op"


def _counted(found: Differences) -> str:
    """How many rows changed although the whole did not: ``3 kernels and 1 operator changed``."""
    counts = [
        f"{units.count(number)} {nouns[number > 1]}"
        for key, nouns in _NOUNS.items()
        if (number := int(getattr(found, key)["status"].isin(CHANGED).sum()))
    ]
    return f"{' and '.join(counts)} changed" if counts else ""


def _memory(found: Differences) -> str:
    rows = changed(found.memory)
    rows = rows[rows["name"] == "peak allocated"]
    told = [
        f"peak memory {units.size(row['a_bytes'])} → {units.size(row['b_bytes'])} ({row['where']})"
        for row in rows.head(1).to_dict("records")
    ]
    return "".join(told)


def signed_duration(ns: float) -> str:
    """A difference for the eye: ``-1.90 ms``, ``+20 µs``, ``0``."""
    return f"{'+' if ns > 0 else '-'}{units.duration(abs(ns))}" if ns else "0"


def signed_size(num_bytes: float) -> str:
    """A difference for the eye: ``-1.90 GiB``, ``+512 B``, ``0``."""
    return f"{'+' if num_bytes > 0 else '-'}{units.size(abs(num_bytes))}" if num_bytes else "0"


def rows_of(found: Differences, key: str) -> list[tuple[str, ...]]:
    """The rows of a section that changed, as texts: name, where, before, after, difference, interval, change, calls."""
    is_memory = key == "memory"
    unit, show, signed = ("bytes", units.size, signed_size) if is_memory else ("ns", units.duration, signed_duration)
    rows: list[tuple[str, ...]] = []
    for row in changed(getattr(found, key)).to_dict("records"):
        low, high = row[f"low_{unit}"], row[f"high_{unit}"]
        interval = "-" if pd.isna(low) else f"{signed(low)} to {signed(high)}"
        change = row["status"] if row["status"] in ("added", "removed") else _change(row["change_pct"])
        calls = "" if is_memory else _calls(row["a_count"], row["b_count"])
        where = str(row.get("where", row.get("op", "")))
        times = (show(row[f"a_{unit}"]), show(row[f"b_{unit}"]), signed(row[f"delta_{unit}"]))
        rows.append((row_name(row), where, *times, interval, change, calls))
    return rows


def row_name(row: dict[Any, Any]) -> str:
    """A row's name; of a kernel that was renamed both names."""
    return f"{row['a_name']} → {row['b_name']}" if is_renamed(row) else str(row["name"])


def _change(percent: Any) -> str:
    return "-" if pd.isna(percent) else _signed(float(percent) / 100)


def _calls(before: float, after: float) -> str:
    return f"{before:g}" if before == after else f"{before:g} → {after:g}"


def where_title(key: str) -> str:
    """What the second column of a section holds."""
    return {"kernels": "operator", "memory": "device"}.get(key, "where")


TITLES: Final = ("name", "where", "before", "after", "difference", "interval", "change", "calls")
NUM_TEXTS: Final = 2


def notes(found: Differences) -> list[str]:
    """What to know before believing it, a line each."""
    whole = found.whole
    each = "steps" if whole.unit == "step" else "runs"
    basis = f"{whole.num_before} and {whole.num_after} {each}; medians"
    if whole.low is not None:
        basis += f"; a row changed when 0 is outside of its {100 * ROW_LEVEL:.0f} % interval"
    return [*found.notes, basis]


def to_text(found: Differences) -> str:
    """The whole comparison as text: verdict, notes, and a table for each section in which something changed."""
    lines = [verdict(found), *(f"  ! {note}" for note in notes(found))]
    for key, title in SECTIONS.items():
        rows = rows_of(found, key)
        if rows:
            lines += ["", title.capitalize(), *_aligned(rows[:MAX_ROWS], where_title(key))]
        if len(rows) > MAX_ROWS:
            lines.append(f"and {len(rows) - MAX_ROWS} more")
    return "\n".join(lines)


def _aligned(rows: list[tuple[str, ...]], where: str) -> list[str]:
    short = [
        (TITLES[0], where, *TITLES[2:]),
        *((units.shorten(row[0], _NAME), units.shorten(row[1], 24), *row[2:]) for row in rows),
    ]
    widths = [max(len(row[k]) for row in short) for k in range(len(TITLES))]
    lines = [
        "  ".join(
            text.ljust(width) if k < NUM_TEXTS else text.rjust(width)
            for k, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in short
    ]
    return [lines[0], "─" * max(map(len, lines)), *lines[1:]]
