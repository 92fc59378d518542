"""Two runs side by side: what became faster or slower, came or went, by operator, kernel, module and memory.

Repeats (profiler steps, or several Traces) separate noise from change: `cudalens.analysis.compare.bootstrap` gives the
interval of each difference of medians, and only what leaves it is called a change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis.compare.bootstrap import difference_interval
from cudalens.analysis.compare.match import matched
from cudalens.analysis.compare.units import Costs, Measured, Side, measure, side_of, step_rows, stride_of_steps
from cudalens.analysis.time.work import device_work
from cudalens.frames import Ranks, Trace

Floats = NDArray[np.float64]

#: Of the interval of the whole.
LEVEL: Final = 0.95
#: Of the interval of each row: there are many rows, and each may be wrong.
ROW_LEVEL: Final = 0.99
#: A row that changed by less than this share of itself did not change, however sure that is.
LEAST_SHARE: Final = 0.01

#: ``more`` and ``less`` are for memory; ``unknown``: it differs, and one repeat does not tell whether that is noise.
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
        low: Lower end of the interval of after / before - 1; None where there is but one repeat on a side.
        high: Upper end of it.
        unit: What a repeat is: ``step`` or ``run``.
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
        """Change as a share of before, ``after / before - 1``; None where nothing was measured before."""
        return self.after_ns / self.before_ns - 1 if self.before_ns else None

    @property
    def status(self) -> str:
        """``faster``, ``slower``, ``same``, or ``unknown`` where it differs and noise is not known."""
        if self.ratio is None or self.after_ns == self.before_ns:
            return "same" if self.after_ns == self.before_ns else "unknown"
        if self.low is None or self.high is None:
            return "unknown"
        if not (self.low > 0 or self.high < 0) or abs(self.ratio) < LEAST_SHARE:
            return "same"
        return "faster" if self.ratio < 0 else "slower"


@dataclass(frozen=True)
class Differences:
    """What `differences` found.

    Attributes:
        a: The first side.
        b: The second.
        whole: How long a repeat took.
        ops: A row per operator, call or range and side, as `differences` defines it.
        kernels: A row per kernel.
        modules: A row per module.
        memory: A row per device and kind of peak.
        notes: What speaks against comparing these two, a sentence each.
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
        b: Likewise.

    Returns:
        Frames ``ops``, ``kernels``, ``modules`` and ``memory``, a row each, largest difference first, with

        - ``name`` and ``where``: an operator, a call of the runtime or driver, a range of the program (or a module) on
          the ``host`` (its self time), or an operator (a module) on the ``device`` (GPU time of the work that it
          launched itself, not through another operator); a kernel, copy or set, with ``op``, the
          operator that launched it, ``a_name`` and ``b_name`` (missing where a side has none), and ``matched_by``:
          ``name``, or ``op`` where the name is another one but the operator and the kind of work are the same; of
          memory ``name`` is ``peak allocated`` or ``peak reserved``, and ``where`` the device;
        - ``a_ns`` and ``b_ns`` (memory: ``a_bytes``, ``b_bytes``): medians over the repeats of each side, where a
          repeat without it counts as 0;
        - ``delta_ns`` (``delta_bytes``): b less a; ``change_pct``: that in per cent of a, missing where a has none;
        - ``low_ns`` and ``high_ns`` (``low_bytes``, ``high_bytes``): the interval of the difference of medians at
          `ROW_LEVEL`, missing where a side has one repeat;
        - ``a_count`` and ``b_count``: calls a repeat (medians); not of memory;
        - ``status``: one of `STATUSES`. A row changed when its interval does not hold 0 and it changed by `LEAST_SHARE`
          or more; it is ``added`` or ``removed`` then where no repeat of the other side has it. With one repeat on a
          side, what only one side has is ``added`` or ``removed``, and other changes are ``unknown``.

        Repeats are profiler steps where all Traces have them (also the last; of more than
        `compare_units.MOST_STEPS` one of each two, four, …, and ``notes`` says so), else whole Traces. ``modules`` and
        ``memory`` are empty where a Trace of either side did not record them, and ``notes`` says so.

    Raises:
        TypeError: A side has another type.
        TraceError: A side is empty.
    """
    first, second = side_of(a, "a"), side_of(b, "b")
    by_step = first.has_steps and second.has_steps
    before, after = measure(first, by_step=by_step), measure(second, by_step=by_step)
    before, after, missing = _both_recorded(first, second, before, after)
    notes = (*_notes(first, second, by_step=by_step), *missing)
    kernels = matched(before, after)
    return Differences(
        first,
        second,
        _whole(before, after, "step" if by_step else "run"),
        _costs(before.ops, after.ops, before.calls["ops"], after.calls["ops"], before, after),
        _kernel_costs(kernels, before, after),
        _costs(before.modules, after.modules, before.calls["modules"], after.calls["modules"], before, after),
        _sorted(_table(*_aligned(before.memory, after.memory, before, after), ("name", "where"), "bytes")),
        notes,
    )


def _both_recorded(a: Side, b: Side, before: Measured, after: Measured) -> tuple[Measured, Measured, list[str]]:
    """What both sides measured, without what one of them did not record: not recorded is not removed."""
    notes = []
    for what, has in (("modules", _has_modules), ("memory", _has_memory)):
        known = [[has(trace) for trace in side.traces] for side in (a, b)]
        if not any(map(any, known)) or all(map(all, known)):
            continue
        lacking = next(
            t.info.name or s.name
            for s, k in zip((a, b), known, strict=True)
            for t, yes in zip(s.traces, k, strict=True)
            if not yes
        )
        notes.append(
            f"'{lacking}' did not record {what}, so {what} {'are' if what == 'modules' else 'is'} not compared"
        )
        before, after = _without(before, what), _without(after, what)
    return before, after, notes


def _has_modules(trace: Trace) -> bool:
    return bool(trace.events["module"].notna().any())


def _has_memory(trace: Trace) -> bool:
    return len(trace.memory) > 0


def _without(measured: Measured, what: str) -> Measured:
    nothing: dict[str, Any] = {what: {}}
    if what in measured.calls:
        nothing["calls"] = {**measured.calls, what: {}}
    return replace(measured, **nothing)


def _whole(before: Measured, after: Measured, unit: str) -> Change:
    n, m = len(before.wall), len(after.wall)
    middle = (float(np.median(before.wall)), float(np.median(after.wall)))
    if n < 2 or m < 2 or not middle[0]:
        return Change(*middle, n, m, None, None, unit)
    # A step that took less than the clock tells took a nanosecond: of nothing there is no ratio.
    a, b = np.maximum(before.wall, 1)[None], np.maximum(after.wall, 1)[None]
    low, high = difference_interval(a, b, LEVEL, is_ratio=True)
    return Change(*middle, n, m, float(low[0]), float(high[0]), unit)


def _aligned(
    before: Costs, after: Costs, first: Measured, second: Measured
) -> tuple[list[tuple[Any, ...]], Floats, Floats]:
    """All keys of both, and what the repeats of each side spent on them: shapes (keys, n) and (keys, m)."""
    keys = list(dict.fromkeys([*before, *after]))
    none = np.zeros(len(first.wall)), np.zeros(len(second.wall))
    sides = [
        np.array([costs.get(key, absent) for key in keys]).reshape(len(keys), len(absent))
        for costs, absent in zip((before, after), none, strict=True)
    ]
    return keys, sides[0], sides[1]


def _costs(
    before: Costs, after: Costs, calls_before: Costs, calls_after: Costs, first: Measured, second: Measured
) -> pd.DataFrame:
    keys, old, new = _aligned(before, after, first, second)
    table = _table(keys, old, new, ("name", "where"), "ns")
    _, *counts = _aligned({key: calls_before.get(key, 0 * old[0]) for key in keys}, calls_after, first, second)
    return _sorted(_with_counts(table, *counts))


def _kernel_costs(pairs: Any, before: Measured, after: Measured) -> pd.DataFrame:
    old = np.array([row.before for row in pairs]).reshape(len(pairs), len(before.wall))
    new = np.array([row.after for row in pairs]).reshape(len(pairs), len(after.wall))
    keys = [(row.b_name or row.a_name, row.kind) for row in pairs]
    table = _table(keys, old, new, ("name", "where"), "ns").rename(columns={"where": "kind"})
    for column in ("op", "a_name", "b_name", "matched_by"):
        table[column] = pd.array([getattr(row, column) for row in pairs], dtype="str")
    counts = [
        np.array([getattr(row, name) for row in pairs]).reshape(sides.shape)
        for name, sides in (("calls_a", old), ("calls_b", new))
    ]
    return _sorted(_with_counts(table, *counts))


def _with_counts(table: pd.DataFrame, old: Floats, new: Floats) -> pd.DataFrame:
    for name, counts in (("a_count", old), ("b_count", new)):
        table[name] = np.median(counts, axis=1) if len(table) else np.empty(0)
    return table


def _table(keys: list[tuple[Any, ...]], old: Floats, new: Floats, names: tuple[str, ...], unit: str) -> pd.DataFrame:
    columns: dict[str, Any] = {name: pd.array([key[k] for key in keys], dtype="str") for k, name in enumerate(names)}
    before, after = (_medians(values) for values in (old, new))
    delta = after - before
    low, high = _row_intervals(old, new)
    known = before != 0
    change = np.divide(100 * delta, before, out=np.zeros(len(before)), where=known)
    columns |= {f"a_{unit}": before, f"b_{unit}": after, f"delta_{unit}": delta}
    columns["change_pct"] = pd.arrays.FloatingArray(change, ~known)
    columns |= {f"low_{unit}": low, f"high_{unit}": high}
    columns["status"] = pd.array(_statuses(old, new, delta, low, high, unit), dtype="str")
    return pd.DataFrame(columns)


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
    if len(old) and low.isna().all():
        found[delta != 0] = "unknown"
        found[has & ~had], found[had & ~has] = "added", "removed"
    elif len(old):
        found[has & ~had], found[had & ~has] = "added", "removed"
        within = (low.to_numpy(np.float64) <= 0) & (high.to_numpy(np.float64) >= 0)
        middle = np.maximum(_medians(old), _medians(new))
        found[within | (np.abs(delta) < LEAST_SHARE * middle)] = "same"
    statuses: list[str] = found.tolist()
    return statuses


def _sorted(table: pd.DataFrame) -> pd.DataFrame:
    """Largest difference first; where they differ by the same, the dearest first."""
    delta = next(name for name in table.columns if name.startswith("delta_"))
    old, new = (table[delta.replace("delta", side)] for side in ("a", "b"))
    order = np.lexsort((-np.maximum(old, new), -table[delta].abs()))
    return table.iloc[order].reset_index(drop=True)


def _notes(a: Side, b: Side, *, by_step: bool) -> tuple[str, ...]:
    sides = (a, b)
    notes = []
    if a.is_simulated != b.is_simulated:
        model = a if a.is_simulated else b
        notes.append(
            f"'{model.name}' is simulated and '{(b if model is a else a).name}' was measured: the times of a model are "
            "no measure of a real device"
        )
    if not by_step and (a.has_steps or b.has_steps):
        notes.append("only one side has profiler steps, so whole runs are compared")
    for side in sides if by_step else ():
        count = max(len(step_rows(trace)) for trace in side.traces)
        if (stride := stride_of_steps(count)) > 1:
            notes.append(f"'{side.name}' has {count:,} profiler steps: one of each {stride} is compared")
    works = [_has_device_work(side) for side in sides]
    if works[0] != works[1]:
        notes.append(f"'{sides[works.index(False)].name}' holds no device work, '{sides[works.index(True)].name}' does")
    for what, facts in (("device", _devices), ("torch", _torch)):
        known = [facts(side) for side in sides]
        if all(known) and known[0] != known[1]:
            notes.append(f"{what}: {known[0]} before, {known[1]} after")
    notes += [f"'{s.name}' did not end well: {t.info.status}" for s in sides for t in s.traces if t.info.status != "ok"]
    return tuple(notes)


def _has_device_work(side: Side) -> bool:
    return any(len(device_work(trace).rows) > 0 for trace in side.traces)


def _devices(side: Side) -> str:
    return ", ".join(dict.fromkeys(device.name for trace in side.traces for device in trace.info.devices))


def _torch(side: Side) -> str:
    versions: Mapping[str, str] = side.traces[0].info.versions
    return versions.get("torch", "")
