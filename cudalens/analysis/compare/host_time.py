"""The host time of a step without interruptions, for comparisons on machines that other programs use.

A process that waits for a processor makes some of its operators much longer, others not at all. The shortest of many
repeats of the same work is hardly affected. So of each operator's work the least self time counts, times the number of
its calls; and of the time between operators, the least time before each of them.

Interruptions only add time. So of several runs, too, the least time of each operator counts, and how fast the least
times of further runs rise above it says how far it can be from the time without interruptions.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis.cached import once_per_trace
from cudalens.analysis.compare.measure import numbered_steps
from cudalens.analysis.event_arrays import Floats
from cudalens.frames import Trace
from cudalens.frames.column_arrays import Ints, integers, is_category

#: Calls of an operator whose least times differ by less than this factor count as the same work.
_ALIKE: Final = 1.5

#: The names of the times from the start of a step to its first operator, and from its last operator to its end.
_BEGIN: Final = -2
_END: Final = -1

#: An interval is this many spreads on both sides, and `_MARGIN` more.
_WIDTH: Final = 1.5
_MARGIN: Final = 0.02


@once_per_trace
def least_host_times(trace: Trace) -> dict[tuple[str, str], float] | None:
    """Return the least host time of a step by operator, ns: in it (``own``) and since the one before it (``before``).

    The same work are the calls of one operator at one place of the step, over all steps, and at places whose least
    times differ by less than `_ALIKE`. Time in which an operator of any thread runs is not between operators. Without
    steps, it is the time of the whole run. None without operators.
    """
    events = trace.events
    is_op = is_category(events["cat"].array, ("cpu_op",)) & ~events["is_instant"].to_numpy()
    step = integers(events["step"])
    in_step = is_op & (step >= 0)
    rows = np.flatnonzero(in_step if in_step.any() else is_op)
    if not len(rows):
        return None
    names = events["name"].array
    of_step = step[rows]
    own = _least(names.codes[rows].astype(np.int64), of_step, events["self_dur"].to_numpy()[rows])
    before = _least(*_between(trace, rows, of_step))
    number = len(np.unique(of_step))
    texts = [*names.categories.tolist(), "(start of the step)", "(end of the step)"]
    return {
        (texts[name], kind): total / number
        for kind, found in (("own", own), ("before", before))
        for name, total in found.items()
    }


def _between(trace: Trace, rows: Ints, step: Ints) -> tuple[Ints, Ints, Ints]:
    """Name, step and length of the times without an operator: before each outermost one, and at the end of a step."""
    events = trace.events
    parent = integers(events["parent"])[rows]
    outer = rows[~np.isin(parent, rows)]
    steps = numbered_steps(trace) if (step >= 0).any() else rows[:0]
    ts, dur = events["ts"].to_numpy(), events["dur"].to_numpy()
    number = integers(events["step"])
    at = np.concatenate([ts[outer], (ts + dur)[steps]])
    until = np.concatenate([(ts + dur)[outer], (ts + dur)[steps]])
    name = np.concatenate([events["name"].array.codes[outer].astype(np.int64), np.full(len(steps), _END)])
    of = np.concatenate([number[outer], number[steps]])
    order = np.lexsort((name == _END, at, of))
    at, until, name, of = at[order], until[order], name[order], of[order]
    begin = dict(zip(number[steps].tolist(), ts[steps].tolist(), strict=True))
    busy = np.maximum.accumulate(until)  # steps follow each other
    first = np.append(True, of[1:] != of[:-1])
    since = np.where(first, [begin.get(one, start) for one, start in zip(of.tolist(), at.tolist(), strict=True)],
                     np.append(at[:1], busy[:-1]))  # fmt: skip
    return np.where(first & (name != _END), _BEGIN, name), of, np.maximum(at - since, 0)


def _least(name: Ints, step: Ints, taken: Ints) -> dict[int, float]:
    """Return the least times of all calls of each name, added up."""
    calls = pd.DataFrame({"name": name, "step": step, "taken": taken})
    calls["place"] = calls.groupby(["name", "step"], sort=False).cumcount()
    places = calls.groupby(["name", "place"], sort=False)["taken"].agg(["min", "size"]).reset_index()
    ordered = places.sort_values(["name", "min"], kind="stable")
    sums: dict[int, float] = {}
    least, size = ordered["min"].to_numpy(np.float64).tolist(), ordered["size"].tolist()
    first, current = 0.0, None
    for this, value, count in zip(ordered["name"].tolist(), least, size, strict=True):
        if this != current or value > _ALIKE * first:
            current, first = this, value
        sums[this] = sums.get(this, 0.0) + first * count
    return sums


def least_of_runs(runs: Sequence[dict[tuple[str, str], float]]) -> Floats:
    """The least time of each operator over the runs, the second least and so on, added up; shape (runs,), ascending."""
    names = list(dict.fromkeys(name for run in runs for name in run))
    table = np.array([[run.get(name, 0.0) for run in runs] for name in names])
    return np.sort(table, axis=1).sum(axis=0)


def least_change(before: Floats, after: Floats) -> tuple[float, float, float]:
    """Return the times of both sides without interruptions, and the half width of the interval of their log ratio.

    Args:
        before: `least_of_runs` of two or more runs.
        after: The same of the other side.
    """
    number = min(len(before), len(after))
    width = _WIDTH * float(np.hypot(_spread(before), _spread(after))) + _MARGIN
    return _expected_least(before, number), _expected_least(after, number), width


def _spread(sums: Floats) -> float:
    """Return the logarithm of the middle sum over the least one, divided by the number of runs between them."""
    middle = max((len(sums) - 1) // 2, 1)
    return float(np.log(max(sums[middle], 1) / max(sums[0], 1))) / middle


def _expected_least(sums: Floats, number: int) -> float:
    """Return the mean of the least of all choices of `number` runs: more runs of one side do not make it faster."""
    n = len(sums)
    weights = [comb(n - 1 - k, number - 1) / comb(n, number) for k in range(n)]
    return float(np.dot(weights, sums))
