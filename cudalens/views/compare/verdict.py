"""The verdict on two runs: how much faster or slower, how sure that is, and what it comes from most."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd

from cudalens.analysis import units
from cudalens.analysis.compare.measure import HOST
from cudalens.analysis.compare.runs import LEAST_SHARE, ROW_LEVEL, Differences
from cudalens.views.compare.changes import changed, is_renamed, signed_duration, signed_percent

_CHANGED: Final = ("added", "removed", "faster", "slower", "more", "less")
_NOUNS: Final = {"kernels": ("kernel", "kernels"), "ops": ("operator or call", "operators and calls")}
_NAME: Final = 60
_MOST: Final = 2
#: Share of the whole difference; a smaller change of the host explains nothing.
_LEAST_PART: Final = 0.10
#: From this change on, a multiple is easier to read than per cent.
_MANY: Final = 2.0
#: Beyond this multiple the exact number does not matter.
_LARGEST_MULTIPLE: Final = 99


def names(found: Differences) -> tuple[str, str]:
    """The names of both sides, which always differ."""
    a, b = (units.shorten(side.name, 40) or letter for side, letter in ((found.a, "a"), (found.b, "b")))
    return (a, b) if a != b else (f"{a} (a)", f"{b} (b)")


def verdict(found: Differences) -> str:
    """The answer in one line: how much faster or slower, how sure that is, and what it comes from most."""
    mark = _mark(found)
    parts = [_whole(found), _causes(found), _memory(found)]
    line = "; ".join(part for part in parts if part)
    return f"{mark} {line}" if mark else line


def _mark(found: Differences) -> str:
    """A badge for modelled times; "" where both sides were measured."""
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
    if whole.after_ns == whole.before_ns:
        return f"no change: {units.duration(whole.after_ns)} {each} in both"
    if whole.ratio is None:
        return times
    if whole.low is None or whole.high is None:
        more = f"{_percent(whole.ratio)} {'less' if whole.ratio < 0 else 'more'} time"
        took = _times(whole.ratio) if whole.ratio >= _MANY else more
        return f"{b} took {took} ({times}), but noise is unknown: {_too_few(found)}"
    if whole.status == "same" and abs(whole.ratio) < LEAST_SHARE:
        return f"no change: {times}, less than 1 % {'less' if whole.ratio < 0 else 'more'}"
    if whole.status == "same":
        noise = _noise(whole.low, whole.high)
        return f"no change beyond noise: {times} ({noise}, profile more repeats to find out)"
    if whole.ratio >= _MANY:
        interval = f"95 % interval {1 + whole.low:.3g} to {1 + whole.high:.3g} times"
        return f"{b} is slower, {_times(whole.ratio)} ({times}, {interval})"
    ends = sorted((abs(whole.low), abs(whole.high)))
    interval = f"95 % interval {_number(ends[0])} to {_percent(ends[1])}"
    return f"{b} is {_percent(whole.ratio)} {whole.status} ({times}, {interval})"


def _noise(low: float, high: float) -> str:
    """The interval of a ratio; where it is wide, the range of multiples."""
    if (1 + high) <= _MANY * (1 + low):
        return f"95 % interval {signed_percent(low)} to {signed_percent(high)}"
    least = f"{1 + low:.2g}" if 1 + low >= 1 / _LARGEST_MULTIPLE else "near 0"
    most = f"{1 + high:.2g}" if 1 + high < _LARGEST_MULTIPLE else f"over {_LARGEST_MULTIPLE}"
    return f"they vary so much that {least} to {most} times as long is possible"


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


def _causes(found: Differences) -> str:
    """What changed most in the direction of the whole; how much did, where the whole did not."""
    whole = found.whole
    table = found.kernels if len(found.kernels) else found.ops
    rows = changed(table)
    delta = whole.after_ns - whole.before_ns
    if whole.status == "same":
        return _counted(found)
    causes = _largest(rows, delta)
    if not causes and _is_one_sided(found):
        return "only one of them used the GPU"
    if not causes:
        where = "the GPU's work" if len(found.kernels) else "operators"
        host = changed(found.ops)
        between = _largest(host[(host["where"] == HOST) & (host["delta_ns"].abs() >= _LEAST_PART * abs(delta))], delta)
        more = f"most from {' and '.join(between)}" if between else "look at the time between them"
        return f"{where} did not change beyond noise: {more}" if delta else ""
    return f"most from {' and '.join(causes)}"


def _largest(rows: pd.DataFrame, delta: float) -> list[str]:
    """The rows that changed the most in the direction of `delta`, each with by how much."""
    same_way = rows[(rows["delta_ns"] < 0) == (delta < 0)].head(_MOST)
    return [f"{_cause(row)} ({signed_duration(row['delta_ns'])})" for row in same_way.to_dict("records")]


def _is_one_sided(found: Differences) -> bool:
    """Whether there are kernels, and all of one side."""
    statuses = set(found.kernels["status"])
    return statuses in ({"added"}, {"removed"})


def _cause(row: dict[Any, Any]) -> str:
    name = units.shorten(str(row["name"]), _NAME)
    if row["status"] in ("added", "removed"):
        return f"{name}, {row['status']}"
    if is_renamed(row):
        return f"{name} in place of {units.shorten(str(row['a_name']), _NAME)}"
    return f"{name} on the {row['where']}" if "where" in row else name


def _counted(found: Differences) -> str:
    """How many rows changed although the whole did not: ``3 kernels and 1 operator changed``."""
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


def notes(found: Differences) -> list[str]:
    """What limits the comparison, a line each."""
    whole = found.whole
    each = "steps" if whole.unit == "step" else "runs"
    basis = f"{whole.num_before} and {whole.num_after} {each}; medians"
    if whole.low is not None:
        basis += f"; a row changed when 0 is outside of its {100 * ROW_LEVEL:.0f} % interval"
    return [*found.notes, basis]
