"""Compare two runs: what became faster or slower, was added or removed, by operator, kernel, module and memory.

Repeats (profiler steps, or several Traces) separate noise from change: `cudalens.analysis.compare.bootstrap` computes
the interval of each difference of medians, and only differences whose interval excludes 0 are changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.analysis.compare.bootstrap import difference_interval
from cudalens.analysis.compare.match import matched
from cudalens.analysis.compare.measure import (
    RECORDED,
    Costs,
    Key,
    Measured,
    Side,
    measure,
    numbered_steps,
    side_of,
    stride_of_steps,
)
from cudalens.analysis.event_arrays import Floats
from cudalens.analysis.time.work import device_work
from cudalens.frames import Ranks, Trace

#: Level of the interval of the whole.
LEVEL: Final = 0.95
#: Level of the interval of each row: there are many rows, and each can be wrong.
ROW_LEVEL: Final = 0.99
#: A row that changed by less than this share of itself counts as unchanged, however narrow its interval is.
LEAST_SHARE: Final = 0.01

#: ``more`` and ``less`` are for memory; ``unknown``: it differs, and one repeat does not show whether that is noise.
STATUSES: Final = ("added", "removed", "faster", "slower", "more", "less", "same", "unknown")

Comparable = Trace | Sequence[Trace] | Ranks


@dataclass(frozen=True)
class Change:
    """How long a repeat took.

    Attributes:
        before_ns: Median of the repeats of a.
        after_ns: Median of those of b.
        num_before: Number of repeats of a.
        num_after: Number of those of b.
        low: Lower end of the interval of after / before - 1; None if a side has only one repeat.
        high: Upper end of it.
        unit: ``step`` or ``run``: what a repeat is.
    """

    before_ns: float
    after_ns: float
    num_before: int
    num_after: int
    low: float | None
    high: float | None
    unit: str

    @property
    def ratio(self) -> float | None:
        """Change as a share of before, ``after / before - 1``; None if nothing was measured before."""
        return self.after_ns / self.before_ns - 1 if self.before_ns else None

    @property
    def status(self) -> str:
        """``faster``, ``slower``, ``same``, or ``unknown`` if it differs and noise is not known."""
        if self.ratio is None or self.after_ns == self.before_ns:
            return "same" if self.after_ns == self.before_ns else "unknown"
        if self.low is None or self.high is None:
            return "unknown"
        if not (self.low > 0 or self.high < 0) or abs(self.ratio) < LEAST_SHARE:
            return "same"
        return "faster" if self.ratio < 0 else "slower"


@dataclass(frozen=True)
class Differences:
    """The result of `differences`.

    Attributes:
        a: The first side.
        b: The second.
        whole: How long a repeat took.
        ops: A row per operator, call or range and side, as `differences` defines it.
        kernels: A row per kernel.
        modules: A row per module.
        memory: A row per device and kind of peak.
        notes: What limits the comparison, a sentence each.
    """

    a: Side
    b: Side
    whole: Change
    ops: pd.DataFrame
    kernels: pd.DataFrame
    modules: pd.DataFrame
    memory: pd.DataFrame
    notes: tuple[str, ...]


def differences(a: Comparable, b: Comparable) -> Differences:
    """What changed from `a` to `b`.

    Args:
        a: A Trace, several Traces of the same thing (repeats), or the ranks of a job.
        b: The same.

    Returns:
        Frames ``ops``, ``kernels``, ``modules`` and ``memory``, a row each, largest difference first, with

        - ``name`` and ``where``: an operator, a call of the runtime or driver, a range of the program (or a module) on
          the ``host`` (its self time), or an operator (a module) on the ``device`` (GPU time of the work that it
          launched itself, not through another operator). For memory ``name`` is ``peak allocated`` or ``peak
          reserved``, and ``where`` the device. Kernels, copies and sets have ``kind`` instead of ``where``; ``op``, the
          operator that launched it; ``a_name`` and ``b_name`` (missing if a side has none); and ``matched_by``:
          ``name``, or ``op`` if the name differs but the operator and the kind of work are the same;
        - ``a_ns`` and ``b_ns`` (memory: ``a_bytes``, ``b_bytes``): medians over the repeats of each side; a repeat
          without it counts as 0;
        - ``delta_ns`` (``delta_bytes``): b minus a; ``change_pct``: that in per cent of a, missing if a is 0;
        - ``low_ns`` and ``high_ns`` (``low_bytes``, ``high_bytes``): the interval of the difference of medians at
          `ROW_LEVEL`, missing if a side has one repeat;
        - ``a_count`` and ``b_count``: calls per repeat (medians); not for memory;
        - ``status``: one of `STATUSES`. A row changed if its interval excludes 0 and it changed by `LEAST_SHARE` or
          more; it is ``added`` or ``removed`` if no repeat of the other side has it. With one repeat on a side, rows of
          only one side are ``added`` or ``removed``, and other changes are ``unknown``.

        Repeats are profiler steps if all Traces have them, else whole Traces. All steps count, also the last; of more
        than `MOST_STEPS` every second, fourth, … is compared. ``modules`` and ``memory`` are empty if a Trace of either
        side did not record them. ``notes`` says both.

    Raises:
        TypeError: A side has another type.
        TraceError: A side is empty.
    """
    first, second = side_of(a, "a"), side_of(b, "b")
    by_step = first.has_steps and second.has_steps
    old, new = measure(first, by_step=by_step), measure(second, by_step=by_step)
    missing = _not_recorded((first, second))

    def table(kind: str, unit: str = "ns") -> pd.DataFrame:
        before, after = ({} if kind in missing else side.tables[kind] for side in (old, new))
        keys = list(dict.fromkeys([*before, *after]))
        return _table(("name", "where"), keys, _values(before, keys, old), _values(after, keys, new), unit)

    return Differences(
        first,
        second,
        _whole(old, new, "step" if by_step else "run"),
        table("ops"),
        _kernels(old, new),
        table("modules"),
        table("memory", "bytes"),
        (*_notes((first, second), by_step=by_step), *missing.values()),
    )


def _not_recorded(sides: tuple[Side, Side]) -> dict[str, str]:
    """Notes on what some Traces did not record, by kind of cost: that is not compared, since it is not removed."""
    notes, num_traces = {}, sum(len(side.traces) for side in sides)
    for kind, has in RECORDED.items():
        lacking = [trace.info.name or side.name for side in sides for trace in side.traces if not has(trace)]
        if 0 < len(lacking) < num_traces:
            verb = "are" if kind == "modules" else "is"
            notes[kind] = f"'{lacking[0]}' did not record {kind}, so {kind} {verb} not compared"
    return notes


def _whole(before: Measured, after: Measured, unit: str) -> Change:
    n, m = len(before.wall), len(after.wall)
    middle = (float(np.median(before.wall)), float(np.median(after.wall)))
    if n < 2 or m < 2 or not middle[0]:
        return Change(*middle, n, m, None, None, unit)
    # A step shorter than the clock's resolution counts as 1 ns: there is no ratio to 0.
    a, b = np.maximum(before.wall, 1)[None], np.maximum(after.wall, 1)[None]
    low, high = difference_interval(a, b, LEVEL, is_ratio=True)
    return Change(*middle, n, m, float(low[0]), float(high[0]), unit)


def _values(costs: Costs, keys: Iterable[Key | None], side: Measured) -> Floats:
    """Costs and calls of `keys` in each repeat of `side`, 0 for keys that it lacks; shape (2, keys, repeats)."""
    n = len(side.wall)
    none = np.zeros((2, n))
    values: Floats = np.array([none if key is None else costs.get(key, none) for key in keys]).reshape(-1, 2, n)
    return values.swapaxes(0, 1)


def _kernels(before: Measured, after: Measured) -> pd.DataFrame:
    old, new = before.tables["kernels"], after.tables["kernels"]
    pairs = matched(old, new)
    keys = [pair.b or pair.a or () for pair in pairs]
    texts: dict[str, list[str | None]] = {
        "op": [key[1] for key in keys],
        "a_name": [pair.a[0] if pair.a else None for pair in pairs],
        "b_name": [pair.b[0] if pair.b else None for pair in pairs],
        "matched_by": [pair.matched_by for pair in pairs],
    }
    values = _values(old, [pair.a for pair in pairs], before), _values(new, [pair.b for pair in pairs], after)
    return _table(("name", "kind"), [key[::2] for key in keys], *values, "ns", texts)


def _table(
    names: tuple[str, str], keys: Sequence[Key], old: Floats, new: Floats, unit: str,
    texts: Mapping[str, Sequence[str | None]] | None = None,
) -> pd.DataFrame:  # fmt: skip
    """The rows of `keys`, largest difference first; of equal differences, most expensive first."""
    before, after = _medians(old[0]), _medians(new[0])
    delta, known = after - before, before != 0
    low, high = _row_intervals(old[0], new[0])
    change = np.divide(100 * delta, before, out=np.zeros(len(before)), where=known)
    columns: dict[str, Any] = {name: pd.array([key[k] for key in keys], dtype="str") for k, name in enumerate(names)}
    columns |= {f"a_{unit}": before, f"b_{unit}": after, f"delta_{unit}": delta}
    columns["change_pct"] = pd.arrays.FloatingArray(change, ~known)
    columns |= {f"low_{unit}": low, f"high_{unit}": high}
    columns["status"] = pd.array(_statuses(old[0], new[0], delta, low, high, unit), dtype="str")
    columns |= {name: pd.array(values, dtype="str") for name, values in (texts or {}).items()}
    if unit == "ns":
        columns |= {"a_count": _medians(old[1]), "b_count": _medians(new[1])}
    order = np.lexsort((-np.maximum(before, after), -np.abs(delta)))
    return pd.DataFrame(columns).iloc[order].reset_index(drop=True)


def _medians(values: Floats) -> Floats:
    medians: Floats = np.median(values, axis=1) if len(values) else np.empty(0)
    return medians


def _row_intervals(old: Floats, new: Floats) -> tuple[Any, Any]:
    if not len(old) or old.shape[1] < 2 or new.shape[1] < 2:
        absent = pd.arrays.FloatingArray(np.zeros(len(old)), np.ones(len(old), bool))
        return absent, absent.copy()
    low, high = difference_interval(old, new, ROW_LEVEL)
    known = np.zeros(len(low), bool)
    return pd.arrays.FloatingArray(low, known), pd.arrays.FloatingArray(high, known.copy())


def _statuses(old: Floats, new: Floats, delta: Floats, low: Any, high: Any, unit: str) -> list[str]:
    fewer, more = ("faster", "slower") if unit == "ns" else ("less", "more")
    found = np.where(delta < 0, fewer, np.where(delta > 0, more, "same")).astype(object)
    had, has = (values.any(axis=1) for values in (old, new))
    is_unknown = low.isna().all()
    if is_unknown:
        found[delta != 0] = "unknown"
    found[has & ~had], found[had & ~has] = "added", "removed"
    if not is_unknown:
        within = (low.to_numpy(np.float64) <= 0) & (high.to_numpy(np.float64) >= 0)
        middle = np.maximum(_medians(old), _medians(new))
        found[within | (np.abs(delta) < LEAST_SHARE * middle)] = "same"
    statuses: list[str] = found.tolist()
    return statuses


def _notes(sides: tuple[Side, Side], *, by_step: bool) -> list[str]:
    notes = []
    if sides[0].is_simulated != sides[1].is_simulated:
        real, model = sorted(sides, key=lambda side: side.is_simulated)
        notes.append(
            f"'{model.name}' is simulated and '{real.name}' was measured: modelled times are not "
            "measurements of a real device"
        )
    if not by_step and any(side.has_steps for side in sides):
        notes.append("only one side has profiler steps, so whole runs are compared")
    for side in sides if by_step else ():
        count = max(len(numbered_steps(trace)) for trace in side.traces)
        if (stride := stride_of_steps(count)) > 1:
            notes.append(f"'{side.name}' has {count:,} profiler steps: 1 of {stride} is compared")
    without, with_work = sorted(sides, key=_has_device_work)
    if _has_device_work(without) != _has_device_work(with_work):
        notes.append(f"'{without.name}' has no device work, '{with_work.name}' has")
    for what, facts in (("device", _devices), ("torch", _torch)):
        known = [facts(side) for side in sides]
        if all(known) and known[0] != known[1]:
            notes.append(f"{what}: {known[0]} before, {known[1]} after")
    notes += [f"'{s.name}' did not finish: {t.info.status}" for s in sides for t in s.traces if t.info.status != "ok"]
    return notes


def _has_device_work(side: Side) -> bool:
    return any(len(device_work(trace).rows) > 0 for trace in side.traces)


def _devices(side: Side) -> str:
    return ", ".join(dict.fromkeys(device.name for trace in side.traces for device in trace.info.devices))


def _torch(side: Side) -> str:
    return str(side.traces[0].info.versions.get("torch", ""))
