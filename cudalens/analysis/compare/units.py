"""What a comparison counts: the repeats of each side, and what each spent on every operator, kernel and module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis.ancestors import nearest
from cudalens.analysis.memory.totals import is_memory_snapshot
from cudalens.analysis.summary import wall_ns
from cudalens.analysis.time.work import KINDS, device_work
from cudalens.errors import TraceError
from cudalens.frames import RUNTIME_CATEGORIES, Ranks, Trace, is_category
from cudalens.frames.build import STEP_PREFIX

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: Categories whose own time on the host is compared: operators, calls of runtime and driver, ranges of the program.
NO_OP: Final = "(no operator)"
NO_MODULE: Final = "(no module)"
HOST, DEVICE = "host", "device"
_HOST: Final = ("cpu_op", "user_annotation", *RUNTIME_CATEGORIES)
#: Of more profiler steps than this in a Trace, every second, fourth, … is compared: the tables hold a number for each
#: row and step, and at so many steps an interval is narrow as it is.
MOST_STEPS: Final = 2048
_MEMORY: Final = {"allocated_bytes": "peak allocated", "reserved_bytes": "peak reserved"}

#: What each repeat spent (or how often), by key; each array of shape (repeats,).
Costs = dict[tuple[Any, ...], Floats]


@dataclass(frozen=True)
class Side:
    """One side of a comparison.

    Attributes:
        name: What it is called.
        traces: What it is made of, at least one: repeats, or the ranks of one job.
        is_job: Whether `traces` are the ranks of one job, which ran side by side.
    """

    name: str
    traces: tuple[Trace, ...]
    is_job: bool = False

    @property
    def has_steps(self) -> bool:
        """Whether every Trace of it holds profiler steps."""
        return all(len(step_rows(trace)) > 0 for trace in self.traces)

    @property
    def is_simulated(self) -> bool:
        """Whether any of it is a model's."""
        return any(trace.info.is_simulated for trace in self.traces)


@dataclass(frozen=True)
class Measured:
    """What the repeats of one side spent.

    Attributes:
        wall: Length of each repeat, ns; shape (n,).
        ops: Time by (operator, call or range, "host" or "device"), ns.
        kernels: Time by (kernel, operator that launched it, kind of work), ns.
        modules: Time by (module path, "host" or "device"), ns.
        calls: How often, by the same keys, each of the three.
        memory: Bytes by (what, device).
    """

    wall: Floats
    ops: Costs
    kernels: Costs
    modules: Costs
    calls: Mapping[str, Costs]
    memory: Costs


def side_of(value: object, name: str) -> Side:
    """`value` (a Trace, several, or Ranks) as a side that is called `name` where it has no name of its own.

    Raises:
        TypeError: It has another type.
        TraceError: It is empty, or holds a Trace in which nothing was recorded.
    """
    if isinstance(value, Trace):
        side = Side(value.info.name or name, (value,))
    elif isinstance(value, Ranks):
        side = Side(value.name or name, tuple(value.values()), is_job=True)
    elif isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(one, Trace) for one in value):
        traces = tuple(value)
        side = Side(traces[0].info.name if traces and traces[0].info.name else name, traces)
    else:
        raise TypeError(f"cannot compare {type(value).__name__}; expected a Trace, a list of Traces, or Ranks.")
    if not side.traces:
        raise TraceError(f"cannot compare: side {name} holds no Trace; give at least one.")
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


def step_rows(trace: Trace) -> Ints:
    """Rows of the events that are profiler steps of the host."""
    events = trace.events
    host = events["device"].isna().to_numpy() & ~events["is_instant"].to_numpy()
    return np.flatnonzero(_is_step(trace) & host & events["step"].notna().to_numpy())


def _is_step(trace: Trace) -> NDArray[np.bool_]:
    """Rows that bear the name of a profiler step: every one has another, and the steps are what is compared."""
    names = trace.events["name"].array
    found = np.array([str(name).startswith(STEP_PREFIX) for name in names.categories.tolist()] + [False], bool)
    rows: NDArray[np.bool_] = found[names.codes]
    return rows


def stride_of_steps(count: int) -> int:
    """One of how many of `count` steps is compared: a power of two, so that the ranks of a job agree on it."""
    return 1 << max(0, -(-count // MOST_STEPS) - 1).bit_length()


def measure(side: Side, *, by_step: bool) -> Measured:
    """What each repeat of `side` spent: each step of each Trace, or each Trace as a whole.

    Of a job, a repeat is the step of one number on all ranks: as long as that of the slowest rank, its costs and peaks
    the mean over ranks.
    """
    parts = [_measure(trace, by_step=by_step) for trace in side.traces]
    labels = [label for label, _ in parts]
    found = [one for _, one in parts]
    if not side.is_job or len(found) == 1:
        return _joined(found, [len(one.wall) for one in found])
    return _over_ranks(found, labels)


def _measure(trace: Trace, *, by_step: bool) -> tuple[list[Any], Measured]:
    """The labels of the repeats in `trace`, and what they spent."""
    units = _Units(trace, by_step=by_step)
    ops, kernels, modules = _Sums(units.n), _Sums(units.n), _Sums(units.n)
    events, work = trace.events, device_work(trace)
    parent = events["parent"].to_numpy(dtype=np.int64, na_value=-1)
    op = nearest(is_category(events["cat"].array, ("cpu_op",)), parent)
    above = np.where(work.launch >= 0, op[work.launch], -1) if len(op) else work.launch
    dur = work.end - work.start
    names = events["name"].array
    ops.add(_texts(names, above, NO_OP), DEVICE, units.of[work.rows], dur)
    kernels.add(_pairs(names, work.rows, above, work.kind), None, units.of[work.rows], dur)
    host = np.flatnonzero(is_category(events["cat"].array, _HOST) & ~events["is_instant"].to_numpy() & ~_is_step(trace))
    own = events["self_dur"].to_numpy()
    ops.add(_texts(names, host, NO_OP), HOST, units.of[host], own[host])
    if events["module"].notna().any():
        module = events["module"].array
        inner = nearest(events["module"].notna().to_numpy(), parent)
        beneath = np.where(work.launch >= 0, inner[work.launch], -1)
        modules.add(_texts(module, beneath, NO_MODULE), DEVICE, units.of[work.rows], dur)
        modules.add(_texts(module, inner[host], NO_MODULE), HOST, units.of[host], own[host])
    calls = {"ops": ops.calls, "kernels": kernels.calls, "modules": modules.calls}
    return units.labels, Measured(units.wall, ops.costs, kernels.costs, modules.costs, calls, _memory(trace, units))


class _Units:
    """The repeats within one Trace.

    Attributes:
        n: How many.
        of: Repeat of each row of the events, -1 for none; shape (rows,).
        wall: Length of each, ns; (n,).
        start: Start of each, ns; (n,).
        labels: What each is called: the number of the step.
    """

    def __init__(self, trace: Trace, *, by_step: bool) -> None:
        events = trace.events
        if not by_step:
            self.n = 1
            self.labels: list[Any] = [None]
            self.of = np.zeros(len(events), np.int64)
            self.wall = np.array([wall_ns(trace)], np.float64)
            self.start = np.array([np.iinfo(np.int64).min])
            self.end = np.array([np.iinfo(np.int64).max])
            return
        rows = step_rows(trace)
        step = events["step"].array[rows].to_numpy(dtype=np.int64)
        numbers, first = np.unique(step, return_index=True)
        stride = stride_of_steps(len(numbers))
        kept = numbers % stride == 0
        kept = kept if kept.any() else np.arange(len(numbers)) % stride == 0
        numbers, first = numbers[kept], first[kept]
        self.labels, rows = numbers.tolist(), rows[first]
        self.n = len(rows)
        number = events["step"].array.to_numpy(dtype=np.int64, na_value=-1)
        at = np.minimum(np.searchsorted(numbers, number), self.n - 1)
        self.of = np.where(numbers[at] == number, at, -1)
        self.start = events["ts"].to_numpy()[rows]
        self.wall = events["dur"].to_numpy()[rows].astype(np.float64)
        self.end = self.start + events["dur"].to_numpy()[rows]


class _Sums:
    """Times and counts by key and repeat."""

    def __init__(self, n: int) -> None:
        self._n = n
        self.costs: Costs = {}
        self.calls: Costs = {}

    def add(self, keyed: tuple[Ints, list[tuple[Any, ...]]], where: str | None, unit: Ints, values: Ints) -> None:
        """Add `values` of rows, whose keys are numbered, to their repeats; `where` ends each key."""
        code, keys = keyed
        inside = np.flatnonzero(unit >= 0)
        at = code[inside] * self._n + unit[inside]
        size = len(keys) * self._n
        total = np.bincount(at, weights=values[inside], minlength=size).reshape(len(keys), self._n)
        count = np.bincount(at, minlength=size).reshape(len(keys), self._n)
        for key, cost, calls in zip(keys, total.astype(np.float64), count.astype(np.float64), strict=True):
            if calls.any():
                full = key if where is None else (*key, where)
                self.costs[full], self.calls[full] = cost, calls


def _texts(texts: pd.Categorical, rows: Ints, none: str) -> tuple[Ints, list[tuple[Any, ...]]]:
    """Number and key of the text of each of `rows`; `none` for row -1 and for a missing text."""
    codes = np.where(rows >= 0, texts.codes[rows] if len(texts) else -1, -1).astype(np.int64)
    code, distinct = pd.factorize(codes)
    names = texts.categories.tolist()
    return code, [(none if k < 0 else str(names[k]),) for k in distinct.tolist()]


def _pairs(names: pd.Categorical, rows: Ints, ops: Ints, kind: NDArray[np.int8]) -> tuple[Ints, list[tuple[Any, ...]]]:
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


def _memory(trace: Trace, units: _Units) -> Costs:
    """Peaks of each device within each repeat; what was held when it began counts."""
    found: Costs = {}
    for (kind, device), part in trace.memory.groupby(["device_type", "device"], dropna=False, observed=True):
        of = "host" if pd.isna(kind) else f"{kind}:{device}" if pd.notna(device) else str(kind)
        for column, what in _MEMORY.items():
            known = part[part[column].notna()]
            if len(known):
                found[what, of] = _peaks(known["ts"].to_numpy(), known[column].to_numpy(dtype=np.float64), units)
    return found


def _peaks(ts: Ints, held: Floats, units: _Units) -> Floats:
    first = np.maximum(np.searchsorted(ts, units.start, side="left") - 1, 0)
    last = np.maximum(np.searchsorted(ts, units.end, side="right"), first + 1)
    return np.array([held[a:b].max() for a, b in zip(first.tolist(), last.tolist(), strict=True)])


def _joined(found: list[Measured], lengths: list[int]) -> Measured:
    """The repeats of several Traces, one after the other; what a Trace does not have cost it nothing."""

    def joined(parts: Iterable[Costs]) -> Costs:
        listed = list(parts)
        keys = dict.fromkeys(key for part in listed for key in part)
        return {
            key: np.concatenate([part.get(key, np.zeros(n)) for part, n in zip(listed, lengths, strict=True)])
            for key in keys
        }

    calls = {kind: joined(one.calls[kind] for one in found) for kind in found[0].calls}
    return Measured(
        np.concatenate([one.wall for one in found]),
        joined(one.ops for one in found),
        joined(one.kernels for one in found),
        joined(one.modules for one in found),
        calls,
        joined(one.memory for one in found),
    )


def _over_ranks(found: list[Measured], labels: list[list[Any]]) -> Measured:
    """The ranks of a job as one: repeats that all ranks have, the slowest rank's length, and means of the rest."""
    shared = [label for label in labels[0] if all(label in others for others in labels)]
    if not shared:
        raise TraceError("cannot compare: the ranks of a job have no profiler step in common.")
    picks = [np.array([own.index(label) for label in shared]) for own in labels]
    picked = [_picked(one, pick) for one, pick in zip(found, picks, strict=True)]
    k, n = len(picked), len(shared)
    both = _joined(picked, [n] * k)

    def mean(costs: Costs) -> Costs:
        return {key: values.reshape(k, n).mean(axis=0) for key, values in costs.items()}

    calls = {kind: mean(part) for kind, part in both.calls.items()}
    wall = both.wall.reshape(k, n).max(axis=0)
    return Measured(wall, mean(both.ops), mean(both.kernels), mean(both.modules), calls, mean(both.memory))


def _picked(one: Measured, pick: Ints) -> Measured:
    def chosen(costs: Costs) -> Costs:
        return {key: values[pick] for key, values in costs.items()}

    calls = {kind: chosen(part) for kind, part in one.calls.items()}
    return Measured(
        one.wall[pick], chosen(one.ops), chosen(one.kernels), chosen(one.modules), calls, chosen(one.memory)
    )
