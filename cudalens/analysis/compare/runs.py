"""Compare two runs: what became faster or slower, by how much, and what the comparison cannot say.

Several runs of each side separate noise from change: only differences whose interval excludes 0 are changes. Steps of
one run are not independent, so the runs are what is compared (`cudalens.analysis.compare.significance`). With one run
on a side, the steps show how much it varied within, and nothing is claimed beyond these runs. Modelled runs have no
noise between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pandas as pd

from cudalens.analysis.compare.measure import (
    HOST,
    RECORDED,
    Costs,
    Key,
    Measured,
    Side,
    least_change,
    least_host_times,
    least_of_runs,
    matched,
    measure,
    numbered_steps,
    side_of,
    stride_of_steps,
)
from cudalens.analysis.compare.significance import half_width, run_values
from cudalens.analysis.time.work import device_work
from cudalens.frames import Ranks, Trace, is_category
from cudalens.frames.column_arrays import Floats

#: Level of the interval of the whole: of the steps within one run, and of several runs. Runs that follow each other are
#: more alike than others, so a higher level is needed for as few wrong claims.
LEVEL: Final = 0.95
RUNS_LEVEL: Final = 0.99
#: Level of the interval of the host time without interruptions: the share of pairs of equal programs for
#: which no change is claimed.
HOST_LEVEL: Final = 0.95

#: ``more`` and ``less`` are for memory; ``unknown``: it differs, and one repeat does not show whether that is noise.
STATUSES: Final = ("added", "removed", "faster", "slower", "more", "less", "same", "unknown")

Comparable = Trace | Sequence[Trace] | Ranks


@dataclass(frozen=True)
class Change:
    """How long a repeat took.

    Attributes:
        before_ns: Median of the repeats of a; with several runs on both sides, the geometric mean of the runs' medians.
        after_ns: The same of b.
        num_before: Number of repeats of a.
        num_after: Number of those of b.
        low: Lower end of the interval of after / before - 1; None if a side has only one repeat.
        high: Upper end of it.
        unit: ``step`` or ``run``: what a repeat is.
        runs_before: Number of runs of a.
        runs_after: Number of those of b.
        level: Level of the interval.
        limit: Why nothing is claimed beyond these runs, in words; "" where differences are claimed.
    """

    before_ns: float
    after_ns: float
    num_before: int
    num_after: int
    low: float | None
    high: float | None
    unit: str
    runs_before: int = 1
    runs_after: int = 1
    level: float = LEVEL
    limit: str = ""

    @property
    def ratio(self) -> float | None:
        """Change as a share of before, ``after / before - 1``; None if nothing was measured before."""
        return self.after_ns / self.before_ns - 1 if self.before_ns else None

    @property
    def is_beyond_noise(self) -> bool:
        """Whether the interval excludes 0 and the change is `LEAST_SHARE` or more."""
        if self.ratio is None or self.low is None or self.high is None:
            return False
        return (self.low > 0 or self.high < 0) and abs(self.ratio) >= LEAST_SHARE

    @property
    def status(self) -> str:
        """``faster``, ``slower``, ``same``, or ``unknown`` if it differs and the noise between runs is not known."""
        if self.ratio is None or self.after_ns == self.before_ns:
            return "same" if self.after_ns == self.before_ns else "unknown"
        if self.low is None or self.high is None:
            return "unknown"
        if not self.is_beyond_noise:
            return "same"
        if self.limit:
            return "unknown"
        return "faster" if self.ratio < 0 else "slower"


@dataclass(frozen=True)
class Differences:
    """The result of `differences`.

    Attributes:
        a: The first side.
        b: The second.
        whole: How long a repeat took.
        host: Host time of a step without interruptions, in operators and between them, as of
            `cudalens.analysis.compare.measure`; None unless both sides have several measured runs.
        ops: A row per operator, call or range and side, as `differences` defines it.
        kernels: A row per kernel.
        modules: A row per module.
        memory: A row per device and kind of peak.
        notes: What limits the comparison, a sentence each.
    """

    a: Side
    b: Side
    whole: Change
    host: Change | None
    ops: pd.DataFrame
    kernels: pd.DataFrame
    modules: pd.DataFrame
    memory: pd.DataFrame
    notes: tuple[str, ...]

    @property
    def status(self) -> str:
        """`Change.status` of the whole; where that claims nothing, of the host without interruptions."""
        is_claim = self.whole.status in ("faster", "slower") or self.host is None
        return self.whole.status if is_claim or self.host is None or self.host.status == "same" else self.host.status


def differences(a: Comparable, b: Comparable) -> Differences:
    """Return what changed from `a` to `b`.

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
        - ``a_ns`` and ``b_ns`` (memory: ``a_bytes``, ``b_bytes``): medians over the repeats of each side, or, with
          several runs on both sides, the means of the runs' medians; a repeat without it counts as 0;
        - ``delta_ns`` (``delta_bytes``): b minus a; ``change_pct``: that in per cent of a, missing if a is 0;
        - ``low_ns`` and ``high_ns`` (``low_bytes``, ``high_bytes``): the interval of the difference at `ROW_LEVEL`,
          missing if a side has one repeat;
        - ``a_count`` and ``b_count``: calls per repeat (means); not for memory;
        - ``status``: one of `STATUSES`. A row changed if its interval excludes 0 and it changed by `LEAST_SHARE` or
          more; it is ``added`` or ``removed`` if no repeat of the other side has it and at least a quarter of the
          repeats of this side. With one measured run on a side, other changes are ``unknown``.

        Repeats are profiler steps if all Traces have them, else whole Traces. All steps count, also the last; of more
        than `MOST_STEPS` every second, fourth, … is compared. ``modules`` and ``memory`` are empty if a Trace of either
        side did not record them. ``notes`` says both.

    Raises:
        TypeError: A side has another type.
        TraceError: A side is empty.
    """
    first, second = sides = side_of(a, "a"), side_of(b, "b")
    by_step = first.has_steps and second.has_steps
    old, new = measure(first, by_step=by_step), measure(second, by_step=by_step)
    missing = not_recorded(sides)
    # Why nothing is claimed beyond these runs; "" where differences are claimed.
    is_model = all(side.is_simulated for side in sides)
    limit = "" if is_model or min(len(old.of_run), len(new.of_run)) > 1 else "noise between runs is not included"
    limit_of_host = (
        "only one side was recorded with Python stacks" if has_stacks(first) != has_stacks(second) else limit
    )

    def table(kind: str, unit: str = "ns") -> pd.DataFrame:
        before, after = ({} if kind in missing else side.tables[kind] for side in (old, new))
        keys = list(dict.fromkeys([*before, *after]))
        rows = Rows(_values(before, keys, old), _values(after, keys, new), old.of_run, new.of_run, unit, limit)
        return row_table(("name", "where"), keys, rows)

    return Differences(
        first,
        second,
        _whole(old, new, "step" if by_step else "run", limit_of_host),
        _host(first, second, limit_of_host),
        _without_overhead(table("ops"), sides),
        _kernels(old, new, limit),
        table("modules"),
        table("memory", "bytes"),
        (*notes_on(sides, by_step=by_step), *missing.values()),
    )


def _whole(before: Measured, after: Measured, unit: str, limit: str) -> Change:
    counts, runs = (len(before.wall), len(after.wall)), (len(before.of_run), len(after.of_run))
    # A step shorter than the clock's resolution counts as 1 ns: there is no ratio to 0.
    sides = [run_values(np.maximum(side.wall, 1)[None], side.of_run)[0] for side in (before, after)]
    if min(runs) > 1:
        return _change(sides, counts, unit, runs, RUNS_LEVEL, limit)
    middle = (float(np.median(before.wall)), float(np.median(after.wall)))
    if min(counts) < 2 or not middle[0]:
        return Change(*middle, *counts, None, None, unit, *runs, LEVEL, limit)
    return _change(sides, counts, unit, runs, LEVEL, limit, middle)


def _host(first: Side, second: Side, limit: str) -> Change | None:
    """Return the host time without interruptions; None where it is not known, or not measured in several runs."""
    if limit or any(side.is_simulated or side.is_job or len(side.traces) < 2 for side in (first, second)):
        return None
    found = [[least_host_times(trace) for trace in side.traces] for side in (first, second)]
    sides = [[times for times in side if times] for side in found]
    runs = (len(sides[0]), len(sides[1]))
    if min(runs) < 2:
        return None
    before, after, width = least_change(*(least_of_runs(side) for side in sides))
    ratio = float(np.log(max(after, 1)) - np.log(max(before, 1)))
    ends = float(np.expm1(ratio - width)), float(np.expm1(min(ratio + width, _LOG_MOST)))
    return Change(before, after, *runs, *ends, "step", *runs, HOST_LEVEL, limit)


def _change(
    sides: Sequence[Floats], counts: tuple[int, int], unit: str, runs: tuple[int, int], level: float, limit: str,
    middle: tuple[float, float] | None = None,
) -> Change:  # fmt: skip
    """Return the change of two sets of independent values, each of shape (n,), from their logarithms."""
    before, after = (np.log(values)[None] for values in sides)
    first, second = middle or (float(np.exp(before.mean())), float(np.exp(after.mean())))
    width = float(half_width(before, after, level)[0])
    ratio = float(np.log(max(second, 1)) - np.log(max(first, 1)))
    ends = (float(np.expm1(ratio - width)), float(np.expm1(min(ratio + width, _LOG_MOST))))
    return Change(first, second, *counts, *ends, unit, *runs, level, limit)


#: Values that differ a lot can widen an interval beyond the range of a float: its end is then limited.
_LOG_MOST: Final = 700.0


def _values(costs: Costs, keys: Iterable[Key | None], side: Measured) -> Floats:
    """Costs and calls of `keys` in each repeat of `side`, 0 for keys that it lacks; shape (2, keys, repeats)."""
    n = len(side.wall)
    none = np.zeros((2, n))
    values: Floats = np.array([none if key is None else costs.get(key, none) for key in keys]).reshape(-1, 2, n)
    return values.swapaxes(0, 1)


def _kernels(before: Measured, after: Measured, limit: str) -> pd.DataFrame:
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
    rows = Rows(*values, before.of_run, after.of_run, "ns", limit)
    return row_table(("name", "kind"), [key[::2] for key in keys], rows, texts)


def _without_overhead(ops: pd.DataFrame, sides: tuple[Side, Side]) -> pd.DataFrame:
    """`ops` without claims on the host if only one side was recorded with stacks."""
    if has_stacks(sides[0]) == has_stacks(sides[1]):
        return ops
    is_claim = (ops["where"] == HOST) & ops["status"].isin(["faster", "slower"])
    return ops.assign(status=ops["status"].mask(is_claim, "unknown"))


#: Level of the interval of each row: there are many rows, and each can be wrong.
ROW_LEVEL: Final = 0.99
#: A row that changed by less than this share of itself counts as unchanged, however narrow its interval is.
LEAST_SHARE: Final = 0.01
#: Share of the repeats from which on a row of one side alone is not a coincidence.
_OFTEN: Final = 0.25


@dataclass(frozen=True)
class Rows:
    """Costs and calls of rows in each repeat.

    Attributes:
        old: Of the first side, shape (2, rows, n).
        new: Of the second, shape (2, rows, m).
        old_runs: Number of repeats of each run of the first side.
        new_runs: Those of the second.
        unit: ``ns`` or ``bytes``.
        limit: Why nothing is claimed beyond these runs; "" where differences are claimed.
    """

    old: Floats
    new: Floats
    old_runs: tuple[int, ...]
    new_runs: tuple[int, ...]
    unit: str
    limit: str

    @property
    def has_runs(self) -> bool:
        """Whether both sides have several runs."""
        return min(len(self.old_runs), len(self.new_runs)) > 1

    @cached_property
    def middles(self) -> tuple[Floats, Floats]:
        """The costs of each side, shape (rows,)."""
        if self.has_runs:
            old, new = run_values(self.old[0], self.old_runs), run_values(self.new[0], self.new_runs)
            return old.mean(axis=1), new.mean(axis=1)
        return np.median(self.old[0], axis=1), np.median(self.new[0], axis=1)

    @cached_property
    def half_width(self) -> Floats | None:
        """Half of the interval of each difference; None if a side has one repeat."""
        if min(self.old.shape[2], self.new.shape[2]) < 2:
            return None
        old, new = run_values(self.old[0], self.old_runs), run_values(self.new[0], self.new_runs)
        return half_width(old, new, ROW_LEVEL)


def row_table(
    names: tuple[str, str], keys: Sequence[Key], rows: Rows, texts: Mapping[str, Sequence[str | None]] | None = None
) -> pd.DataFrame:
    """Return the rows of `keys`, largest difference first; of equal differences, most expensive first."""
    (before, after), unit = rows.middles, rows.unit
    delta, known = after - before, before != 0
    change = np.divide(100 * delta, before, out=np.zeros(len(before)), where=known)
    columns: dict[str, Any] = {name: pd.array([key[k] for key in keys], dtype="str") for k, name in enumerate(names)}
    columns |= {f"a_{unit}": before, f"b_{unit}": after, f"delta_{unit}": delta}
    columns["change_pct"] = pd.arrays.FloatingArray(change, ~known)
    for end, sign in (("low", -1), ("high", 1)):
        width = np.zeros(len(delta)) if rows.half_width is None else rows.half_width
        is_unknown = np.full(len(delta), rows.half_width is None)
        columns[f"{end}_{unit}"] = pd.arrays.FloatingArray(delta + sign * width, is_unknown)
    columns["status"] = pd.array(_statuses(rows, delta), dtype="str")
    columns |= {name: pd.array(values, dtype="str") for name, values in (texts or {}).items()}
    if unit == "ns":
        columns |= {"a_count": rows.old[1].mean(axis=1), "b_count": rows.new[1].mean(axis=1)}
    order = np.lexsort((-np.maximum(before, after), -np.abs(delta)))
    return pd.DataFrame(columns).iloc[order].reset_index(drop=True)


def _statuses(rows: Rows, delta: Floats) -> list[str]:
    fewer, more = ("faster", "slower") if rows.unit == "ns" else ("less", "more")
    found = np.where(delta < 0, fewer, more).astype(object)
    width = rows.half_width
    if rows.limit or width is None:
        found[:] = "unknown"
    middle = np.maximum(*rows.middles)
    found[(delta == 0) | (np.abs(delta) < LEAST_SHARE * middle)] = "same"
    if width is None:
        found[delta != 0] = "unknown"
    else:
        found[np.abs(delta) <= width] = "same"
    had, has = ((values[0] > 0).mean(axis=1) for values in (rows.old, rows.new))
    is_other = delta != 0  # a row of few steps has a median of 0 on both sides
    found[is_other & (had == 0) & (has >= _OFTEN)] = "added"
    found[is_other & (has == 0) & (had >= _OFTEN)] = "removed"
    return found.tolist()


def not_recorded(sides: tuple[Side, Side]) -> dict[str, str]:
    """Notes on what some Traces did not record, by kind of cost: that is not compared, since it is not removed."""
    notes, num_traces = {}, sum(len(side.traces) for side in sides)
    for kind, has in RECORDED.items():
        lacking = [trace.info.name or side.name for side in sides for trace in side.traces if not has(trace)]
        if 0 < len(lacking) < num_traces:
            verb = "are" if kind == "modules" else "is"
            notes[kind] = f"'{lacking[0]}' did not record {kind}, so {kind} {verb} not compared"
    return notes


def has_stacks(side: Side) -> bool:
    """Return whether any of `side` was recorded with Python stacks, which makes the host slower."""
    return any(bool(is_category(trace.events["cat"].array, ("python_function",)).any()) for trace in side.traces)


def notes_on(sides: tuple[Side, Side], *, by_step: bool) -> list[str]:
    """Return what limits the comparison of `sides`, a sentence each."""
    notes = [*_on_times(sides), *_on_steps(sides, by_step=by_step)]
    without, with_work = sorted(sides, key=_has_device_work)
    if _has_device_work(without) != _has_device_work(with_work):
        notes.append(f"'{without.name}' has no device work, '{with_work.name}' has")
    for what, facts in (("device", _devices), ("torch", _torch)):
        known = [facts(side) for side in sides]
        if all(known) and known[0] != known[1]:
            notes.append(f"{what}: {known[0]} before, {known[1]} after")
    notes += [f"'{s.name}' did not finish: {t.info.status}" for s in sides for t in s.traces if t.info.status != "ok"]
    return notes


def _on_times(sides: tuple[Side, Side]) -> Iterator[str]:
    if sides[0].is_simulated != sides[1].is_simulated:
        real, model = sorted(sides, key=lambda side: side.is_simulated)
        yield (
            f"'{model.name}' is simulated and '{real.name}' was measured: modelled times are not "
            "measurements of a real device"
        )
    without, recorded = sorted(sides, key=has_stacks)
    if has_stacks(without) != has_stacks(recorded):
        yield f"only '{recorded.name}' was recorded with Python stacks: host times are not comparable"


def _on_steps(sides: tuple[Side, Side], *, by_step: bool) -> Iterator[str]:
    if not by_step and any(side.has_steps for side in sides):
        yield "only one side has profiler steps, so whole runs are compared"
    for side in sides if by_step else ():
        count = max(len(numbered_steps(trace)) for trace in side.traces)
        if (stride := stride_of_steps(count)) > 1:
            yield f"'{side.name}' has {count:,} profiler steps: 1 of {stride} is compared"


def _has_device_work(side: Side) -> bool:
    return any(len(device_work(trace).rows) > 0 for trace in side.traces)


def _devices(side: Side) -> str:
    return ", ".join(dict.fromkeys(device.name for trace in side.traces for device in trace.info.devices))


def _torch(side: Side) -> str:
    return str(side.traces[0].info.versions.get("torch", ""))
