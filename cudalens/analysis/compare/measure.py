"""Measure one side of a comparison, match its rows with the other side, and estimate undisturbed host times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis.cached import once_per_trace
from cudalens.analysis.event_arrays import EventArrays, nearest
from cudalens.analysis.memory.totals import is_memory_snapshot
from cudalens.analysis.summary import step_rows, wall_ns
from cudalens.analysis.time.work import KINDS
from cudalens.errors import TraceError
from cudalens.frames import RUNTIME_CATEGORIES, Ranks, Trace
from cudalens.frames.build import STEP_PREFIX
from cudalens.frames.column_arrays import Floats, Ints, integers, is_category

NO_OP: Final = "(no operator)"
NO_MODULE: Final = "(no module)"
HOST, DEVICE = "host", "device"

#: Categories whose own time on the host is compared: operators, calls of runtime and driver, ranges of the program.
_HOST: Final = ("cpu_op", "user_annotation", *RUNTIME_CATEGORIES)

#: Of more profiler steps than this in a Trace, every second, fourth, … is compared: the tables have a number for each
#: row and step, and with so many steps an interval is narrow enough.
MOST_STEPS: Final = 2048

_STEP: Final = f"^{STEP_PREFIX}"
_MEMORY: Final = {"allocated_bytes": "peak allocated", "reserved_bytes": "peak reserved"}

Key = tuple[str, ...]

#: What each repeat spent, and how often, by key; each array of shape (2, repeats).
Costs = dict[Key, Floats]


@dataclass(frozen=True)
class Side:
    """One side of a comparison.

    Attributes:
        name: Its name in views and messages.
        traces: Repeats, or the ranks of one job; at least one.
        is_job: Whether `traces` are the ranks of one job, which ran in parallel.
    """

    name: str
    traces: tuple[Trace, ...]
    is_job: bool = False

    @property
    def has_steps(self) -> bool:
        """Whether every Trace of it has profiler steps."""
        return all(len(numbered_steps(trace)) > 0 for trace in self.traces)

    @property
    def is_simulated(self) -> bool:
        """Whether any of it is modelled."""
        return any(trace.info.is_simulated for trace in self.traces)


@dataclass(frozen=True)
class Measured:
    """What the repeats of one side spent.

    Attributes:
        wall: Length of each repeat, ns; shape (n,).
        of_run: Number of repeats of each run; they add up to n. The ranks of a job are one run.
        tables: Costs by kind. ``ops``: time in ns by (operator, call or range; "host" or "device"). ``kernels``: time
            by (kernel, operator that launched it, kind of work). ``modules``: time by (module path, "host" or
            "device"). ``memory``: bytes by (what, device), without counts.
    """

    wall: Floats
    tables: Mapping[str, Costs]
    of_run: tuple[int, ...]

    def map(self, wall: Floats, function: Callable[[Floats], Floats]) -> Measured:
        """Return the same with other lengths, and with `function` applied to all costs."""
        tables = {kind: {key: function(values) for key, values in costs.items()} for kind, costs in self.tables.items()}
        return Measured(wall, tables, (len(wall),))


def side_of(value: object, name: str) -> Side:
    """`value` (a Trace, several, or Ranks) as a side, with `name` if it has no name of its own.

    Raises:
        TypeError: It has another type.
        TraceError: It is empty, or has a Trace in which nothing was recorded.
    """
    if isinstance(value, Trace):
        side = Side(value.info.name or name, (value,))
    elif isinstance(value, Ranks):
        side = Side(value.name or name, tuple(value.values()), is_job=True)
    elif isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(one, Trace) for one in value):
        side = Side((value[0].info.name if value else "") or name, tuple(value))
    else:
        raise TypeError(f"cannot compare {type(value).__name__}; expected a Trace, a list of Traces, or Ranks.")
    if not side.traces:
        raise TraceError(f"cannot compare: side {name} has no Trace; at least one is needed.")
    for trace in side.traces:
        if is_memory_snapshot(trace):
            raise TraceError(
                f"cannot compare: '{trace.info.name}' (side {name}) is a memory snapshot. Compare these with "
                "Trace.memory_diff (%cudamem diff A B)."
            )
        if not len(trace) and not len(trace.memory):
            raise TraceError(
                f"cannot compare: '{trace.info.name}' (side {name}) has no event; nothing was recorded, or the file "
                "is of another kind. Compare memory snapshots with Trace.memory_diff."
            )
    return side


def numbered_steps(trace: Trace) -> Ints:
    """Rows of the events that are profiler steps of the host with a number."""
    return np.intersect1d(step_rows(trace), np.flatnonzero(trace.events["step"].notna()), assume_unique=True)


def stride_of_steps(count: int) -> int:
    """One of how many of `count` steps is compared: a power of two, so that the ranks of a job agree on it."""
    return 1 << max(0, -(-count // MOST_STEPS) - 1).bit_length()


def measure(side: Side, *, by_step: bool) -> Measured:
    """Return what each repeat of `side` spent: each step of each Trace, or each Trace as a whole.

    For a job, a repeat is the step of one number on all ranks: its length is that of the slowest rank, its costs and
    peaks are means over ranks.
    """
    repeats = [_steps(trace) if by_step else _whole(trace) for trace in side.traces]
    found = [_measure(trace, one) for trace, one in zip(side.traces, repeats, strict=True)]
    if not side.is_job or len(found) == 1:
        return _concatenated(found)
    # The ranks of a job as one: repeats that all ranks have, the slowest rank's length, and means of the rest.
    labels = [one.labels for one in repeats]
    shared = [label for label in labels[0] if all(label in others for others in labels)]
    if not shared:
        raise TraceError("cannot compare: the ranks of a job have no profiler step in common.")
    picks = [np.array([own.index(label) for label in shared]) for own in labels]
    picked = [_picked(one, pick) for one, pick in zip(found, picks, strict=True)]
    both, shape = _concatenated(picked), (len(found), len(shared))
    return both.map(both.wall.reshape(shape).max(axis=0), lambda values: values.reshape(2, *shape).mean(axis=1))


@dataclass(frozen=True)
class _Repeats:
    """The repeats within one Trace.

    Attributes:
        labels: Label of each: the number of the step; n of them.
        of: Repeat of each row of the events, -1 for none; shape (rows,).
        wall: Length of each, ns; (n,).
        start: Start of each, ns; (n,).
        end: End of each, ns; (n,).
    """

    labels: list[int]
    of: Ints
    wall: Floats
    start: Ints
    end: Ints


def _whole(trace: Trace) -> _Repeats:
    start, end = (np.array([limit]) for limit in (np.iinfo(np.int64).min, np.iinfo(np.int64).max))
    return _Repeats([0], np.zeros(len(trace.events), np.int64), np.array([wall_ns(trace)], np.float64), start, end)


def _steps(trace: Trace) -> _Repeats:
    arrays = EventArrays(trace)
    rows = numbered_steps(trace)
    numbers, first = np.unique(arrays.ints("step", rows), return_index=True)
    stride = stride_of_steps(len(numbers))
    kept = numbers % stride == 0
    kept = kept if kept.any() else np.arange(len(numbers)) % stride == 0
    numbers, rows = numbers[kept], rows[first[kept]]
    number = arrays.ints("step")
    at = np.minimum(np.searchsorted(numbers, number), len(numbers) - 1)
    of = np.where(numbers[at] == number, at, -1)
    return _Repeats(numbers.tolist(), of, arrays.dur[rows].astype(np.float64), arrays.ts[rows], arrays.end[rows])


def _measure(trace: Trace, repeats: _Repeats) -> Measured:
    ops, kernels, modules = _Sums(repeats), _Sums(repeats), _Sums(repeats)
    arrays = EventArrays(trace)
    events, work, parent = arrays.events, arrays.work, arrays.parent
    names, module = events["name"].array, events["module"].array
    op = _from_launch(nearest(arrays.is_in("cpu_op"), parent), work.launch)
    dur = work.end - work.start
    ops.add(_texts(names, op, NO_OP), work.rows, dur, DEVICE)
    kernels.add(_pairs(names, work.rows, op, work.kind), work.rows, dur)
    is_host = arrays.is_in(*_HOST) & ~events["is_instant"].to_numpy() & ~arrays.is_named(_STEP)
    host = np.flatnonzero(is_host)
    own = events["self_dur"].to_numpy()[host]
    ops.add(_texts(names, host, NO_OP), host, own, HOST)
    if _has_modules(trace):
        inner = nearest(events["module"].notna().to_numpy(), parent)
        modules.add(_texts(module, _from_launch(inner, work.launch), NO_MODULE), work.rows, dur, DEVICE)
        modules.add(_texts(module, inner[host], NO_MODULE), host, own, HOST)
    tables = {"ops": ops.costs, "kernels": kernels.costs, "modules": modules.costs, "memory": _memory(trace, repeats)}
    return Measured(repeats.wall, tables, (len(repeats.wall),))


def _from_launch(nearest_row: Ints, launch: Ints) -> Ints:
    """Return the row that `nearest` gives for each launch; -1 for launch -1."""
    return np.where(launch >= 0, nearest_row[launch], -1) if len(nearest_row) else launch


def _has_modules(trace: Trace) -> bool:
    return bool(trace.events["module"].notna().any())


def _has_memory(trace: Trace) -> bool:
    return len(trace.memory) > 0


#: Whether a Trace recorded what not every run records.
RECORDED: Final[Mapping[str, Callable[[Trace], bool]]] = {"modules": _has_modules, "memory": _has_memory}


class _Sums:
    """Times and counts by key and repeat."""

    def __init__(self, repeats: _Repeats) -> None:
        self._of, self._n = repeats.of, len(repeats.labels)
        self.costs: Costs = {}

    def add(self, keyed: tuple[Ints, list[Key]], rows: Ints, values: Ints, *where: str) -> None:
        """Add `values` of `rows`, each with the number of its key, to their repeats; `where` ends each key."""
        code, keys = keyed
        unit = self._of[rows]
        inside = np.flatnonzero(unit >= 0)
        at = code[inside] * self._n + unit[inside]
        weights = (values[inside], np.ones(len(inside)))
        sums = [np.bincount(at, weights=weight, minlength=len(keys) * self._n) for weight in weights]
        for key, spent in zip(
            keys, np.array(sums, np.float64).reshape(2, len(keys), self._n).swapaxes(0, 1), strict=True
        ):
            if spent[1].any():
                self.costs[*key, *where] = spent


def _texts(texts: pd.Categorical, rows: Ints, none: str) -> tuple[Ints, list[Key]]:
    """Number and key of the text of each of `rows`; `none` for row -1 and for a missing text."""
    codes = np.where(rows >= 0, texts.codes[rows] if len(texts) else -1, -1).astype(np.int64)
    code, distinct = pd.factorize(codes)
    names = texts.categories.tolist()
    return code, [(none if k < 0 else str(names[k]),) for k in distinct.tolist()]


def _pairs(names: pd.Categorical, rows: Ints, ops: Ints, kind: NDArray[np.int8]) -> tuple[Ints, list[Key]]:
    """Number and key (kernel, operator, kind) of each device work."""
    op = np.where(ops >= 0, names.codes[ops] if len(names) else -1, -1).astype(np.int64)
    stride = len(names.categories) + 1
    code, distinct = pd.factorize(((names.codes[rows].astype(np.int64) + 1) * stride + op + 1) * len(KINDS) + kind)
    keys, known = [], names.categories.tolist()
    for packed in distinct.tolist():
        both, k = divmod(packed, len(KINDS))
        name, of = (part - 1 for part in divmod(both, stride))
        texts = [str(known[part]) if part >= 0 else none for part, none in ((name, "?"), (of, NO_OP))]
        keys.append((*texts, KINDS[k]))
    return code, keys


def _memory(trace: Trace, repeats: _Repeats) -> Costs:
    """Peaks of each device within each repeat; what was held when it began counts."""
    found: Costs = {}
    for (kind, device), part in trace.memory.groupby(["device_type", "device"], dropna=False, observed=True):
        of = "host" if pd.isna(kind) else str(kind)
        if pd.notna(kind) and pd.notna(device):
            of = f"{kind}:{device}"
        for column, what in _MEMORY.items():
            known = part[part[column].notna()]
            if len(known):
                peaks = _peaks(known["ts"].to_numpy(), known[column].to_numpy(dtype=np.float64), repeats)
                found[what, of] = np.array([peaks, np.zeros_like(peaks)])
    return found


def _peaks(ts: Ints, held: Floats, repeats: _Repeats) -> Floats:
    first = np.maximum(np.searchsorted(ts, repeats.start, side="left") - 1, 0)
    last = np.maximum(np.searchsorted(ts, repeats.end, side="right"), first + 1)
    return np.array([held[a:b].max() for a, b in zip(first.tolist(), last.tolist(), strict=True)])


def _concatenated(found: list[Measured]) -> Measured:
    """Return the repeats of several Traces, one after the other; what a Trace does not have cost it nothing."""
    tables = {}
    for kind in found[0].tables:
        parts = [(one.tables[kind], np.zeros((2, len(one.wall)))) for one in found]
        keys = dict.fromkeys(key for costs, _ in parts for key in costs)
        tables[kind] = {key: np.concatenate([costs.get(key, none) for costs, none in parts], axis=1) for key in keys}
    return Measured(np.concatenate([one.wall for one in found]), tables, tuple(len(one.wall) for one in found))


def _picked(one: Measured, pick: Ints) -> Measured:
    return one.map(one.wall[pick], lambda values: values[:, pick])


class Pair(NamedTuple):
    """A kernel of both sides, or of one.

    Attributes:
        a: Its key before, (name, operator that launched it, kind of work); None if it is new.
        b: Its key after; None if it is gone.
        matched_by: ``name``, ``op``, or None if it has no counterpart.
    """

    a: Key | None
    b: Key | None
    matched_by: str | None


def matched(before: Costs, after: Costs) -> list[Pair]:
    """Return the device work of both sides, each with its counterpart.

    1. Work with the same name, operator and kind is the same.
    2. Of the rest, work with the same name and kind is the same, whichever operator launched it.
    3. Of the rest, the most expensive work of each operator and kind on one side is matched with the most expensive on
       the other, the second with the second, and so on: an operator whose kernel was renamed still has the same task.
       This leaves out work that no operator launched, and copies and sets: a compiler does not choose their names, and
       a copy between other places is another copy.
    """
    old, new = dict(before), dict(after)
    found = _taken([(key, key) for key in old if key in new], "name", old, new)
    found += _taken(_by_group(old, new, lambda key: (key[0], key[2])), "name", old, new)
    found += _taken(_by_group(_renamable(old), _renamable(new), lambda key: key[1:]), "op", old, new)
    return [*found, *(Pair(key, None, None) for key in old), *(Pair(None, key, None) for key in new)]


def _taken(pairs: list[tuple[Key, Key]], how: str, old: Costs, new: Costs) -> list[Pair]:
    """`pairs` as matched; removes them from `old` and `new`."""
    for a, b in pairs:
        del old[a], new[b]
    return [Pair(a, b, how) for a, b in pairs]


def _renamable(costs: Costs) -> Costs:
    return {key: cost for key, cost in costs.items() if key[1] != NO_OP and key[2] != "memory"}


def _by_group(old: Costs, new: Costs, group_of: Callable[[Key], Key]) -> list[tuple[Key, Key]]:
    """Pairs within each group, in order of their costs."""
    groups: dict[Key, tuple[list[Key], list[Key]]] = defaultdict(lambda: ([], []))
    for side, costs in enumerate((old, new)):
        for key in sorted(costs, key=lambda one: (-float(np.median(costs[one][0])), one)):
            groups[group_of(key)][side].append(key)
    return [pair for first, second in groups.values() for pair in zip(first, second, strict=False)]


# Host times without interruptions, for comparisons on machines that other programs use.

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

    A process that waits for a processor makes some of its operators much longer, others not at all. The shortest of
    many repeats of the same work is hardly affected. So of each operator's work the least self time counts, times the
    number of its calls; and of the time between operators, the least time before each of them.

    Interruptions only add time. So of several runs, too, the least time of each operator counts, and how fast the least
    times of further runs rise above it says how far it can be from the time without interruptions.

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
