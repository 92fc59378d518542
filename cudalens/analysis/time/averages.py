"""Costs by name, by the definitions of torch.profiler's key_averages, without a loop over events."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from cudalens.analysis.cached import once_per_trace, ranked
from cudalens.analysis.time.groups import sums
from cudalens.analysis.time.keys import (
    STEP_NAME,
    Stacks,
    check_keys,
    codes_of,
    column_of,
    step_names,
    with_torch_groups,
)
from cudalens.analysis.time.work import is_waiting
from cudalens.frames import GPU_ACTIVITIES, RUNTIME_CATEGORIES
from cudalens.frames.column_arrays import Bools, Ints, categorical, combined, integers, is_category, nullable

if TYPE_CHECKING:
    from cudalens.frames import Trace

__all__ = ["STEP_NAME", "UNCOUNTED", "averages", "folded", "heads", "key_averages", "sums_beneath", "total_average"]

#: Categories of the program's own ranges.
ANNOTATIONS: Final = ("user_annotation", "gpu_user_annotation")

MEMORY_COLUMNS: Final = (
    "host_memory_bytes",
    "self_host_memory_bytes",
    "device_memory_bytes",
    "self_device_memory_bytes",
)

#: Categories about the recording itself, ranges on a stream whose kernels are counted already, and waits for a stream;
#: they are averaged, but have no share.
UNCOUNTED: Final = ("Trace", "overhead", "gpu_user_annotation", "cuda_sync")


@ranked
def key_averages(
    trace: Trace,
    /,
    rows: ArrayLike | None = None,
    *,
    by: Sequence[str] | str = ("name",),
    top_level: bool = False,
    group_by_input_shape: bool = False,
    group_by_input_shapes: bool = False,
    group_by_stack_n: int = 0,
    group_by_overload_name: bool = False,
) -> pd.DataFrame:
    """Costs by name or by other keys, one row per value and side (host or device), most expensive first.

    Counts, totals and self totals of host rows equal torch.profiler's ``key_averages()`` of the same run to the
    nanosecond: an event that has its parent's name and no sibling is folded into its parent, all steps count as
    ``ProfilerStep*``, and a range of the program is separate from an operator of its name. ``by=("name",
    "input_shapes", "stack:5")`` is torch's ``key_averages(group_by_input_shape=True, group_by_stack_n=5)``.

    Args:
        trace: Any Trace, or Ranks.
        rows: The rows of `Trace.events` to average, as a boolean mask of shape (n,) or as row numbers; None for all.
            Tree, folding and self times remain those of the whole trace.
        by: The keys of a group, any of ``name``; ``input_shapes`` (a list of tensors is ``[]``, as torch
            groups them) and ``shapes`` (as recorded); ``dtypes``; ``stack:N`` (the N innermost entries of the call
            stack); ``module``; ``cell_line`` (the user's innermost line); ``stream``; ``device``; ``tid``; ``thread``;
            ``step``; ``cat``. Rows without a value are a separate group, whose value is missing.
        top_level: Average only rows without a parent: device work, and the outermost host rows.
        group_by_input_shape: torch.profiler's option: adds ``input_shapes`` to `by`.
        group_by_input_shapes: The same.
        group_by_stack_n: torch.profiler's option: adds ``stack:N`` to `by`.
        group_by_overload_name: torch.profiler's option; refused, because overload names are not recorded.

    Returns:
        A column for each of `by` (``stack`` for ``stack:N``, an entry a line, innermost first), then ``cat`` (of the
        first such row), ``is_device``, ``count``, ``total_ns``, ``self_ns``, ``mean_ns``, ``std_ns`` (sample standard
        deviation of dur, n - 1 below; missing for a single row), ``min_ns``, ``max_ns``, ``share_pct`` (of all self
        time on its side, host or device; 0 for Python calls in which a thread only waits), ``device_total_ns`` (GPU
        time of the work launched beneath a host row, or of the device row itself), ``self_device_ns`` (of it, work that
        no descendant launched; a runtime call's counts for its caller), ``flops`` and ``num_bytes`` (sums; missing if
        all are unknown), ``host_memory_bytes`` and ``device_memory_bytes`` (allocated minus released while the rows
        ran, on their threads; missing if no memory was recorded), ``self_host_memory_bytes`` and
        ``self_device_memory_bytes`` (the same without descendants), and ``place`` (the user's innermost line of the
        first row, as ``In[7]:3`` or ``file:line``; missing without stacks). Where ``name`` is not among `by`, enclosing
        and enclosed rows may share a group: self times and shares add up, totals then count time more than once. Sorted
        by self_ns, then total_ns, descending. Instants are left out.

    Raises:
        TypeError: `group_by_overload_name` is on.
        ValueError: `by` has an unknown key; `rows` is a mask of another length or has rows that do not exist.
    """
    if group_by_overload_name:
        raise TypeError(
            "group_by_overload_name: overload names are not recorded; by=['name', 'input_shapes'] separates "
            "calls with different inputs"
        )
    by_shape = group_by_input_shape or group_by_input_shapes
    keys = check_keys(with_torch_groups(by, by_input_shape=by_shape, stack_entries=group_by_stack_n))
    found = _measured(trace)
    keep = ~trace.events["is_instant"].to_numpy() & ~found.fold & chosen_rows("rows", rows, len(trace))
    if top_level:
        keep &= found.parent < 0
    return _averaged(trace, keys, np.flatnonzero(keep), found)


@once_per_trace
def averages(trace: Trace) -> pd.DataFrame:
    """``key_averages(trace)``, cached; callers must not change it."""
    return key_averages(trace)


@ranked
def total_average(trace: Trace, /) -> pd.DataFrame:
    """Return all rows of a Trace as one: torch.profiler's ``total_average()``, with host and device separate.

    Args:
        trace: Any Trace, or Ranks.

    Returns:
        One row: ``name`` ("Total"), ``count`` (host and device rows, folded ones left out), ``total_ns`` (durations of
        host rows, those of enclosed rows included: what torch calls cpu_time_total), ``self_ns`` (their self times),
        ``device_ns`` (durations of device rows), ``flops`` and ``num_bytes`` (sums; missing if all are unknown), and
        the sums of the memory columns of `key_averages`: as in torch, memory of a row also counts for the rows around
        it, except in the ``self_`` columns.
    """
    found = key_averages(trace)
    host = ~found["is_device"].to_numpy()
    summed = ("flops", "num_bytes", *MEMORY_COLUMNS)
    total = found[list(summed)].sum(min_count=1)
    return pd.DataFrame(
        {
            "name": categorical(np.zeros(1, np.int32), ["Total"]),
            "count": [int(found["count"].sum())],
            "total_ns": [int(found["total_ns"][host].sum())],
            "self_ns": [int(found["self_ns"][host].sum())],
            "device_ns": [int(found["total_ns"][~host].sum())],
            **{column: pd.array([total[column]], dtype="Int64") for column in summed},
        }
    )


class _Measured(NamedTuple):
    """The costs of each row, with those of the rows folded into it; arrays of shape (n,).

    Attributes:
        parent: Row of the parent or -1.
        fold: Rows that are folded into their parent.
        self_ns: Self time.
        device_ns: GPU time of the work launched beneath the row.
        self_device_ns: Of it, work that no descendant launched.
        memory: Bytes allocated minus bytes released, by column; empty if no memory was recorded.
    """

    parent: Ints
    fold: Bools
    self_ns: Ints
    device_ns: Ints
    self_device_ns: Ints
    memory: dict[str, Ints]


def _measured(trace: Trace) -> _Measured:
    events = trace.events
    parent, depth = integers(events["parent"]), events["depth"].to_numpy()
    fold = _folded(events, parent)
    head = heads(parent, fold)
    # GPU time of the work launched by each host row, ns; dur for device work.
    dur = events["dur"].to_numpy()
    launch = integers(events["launch"])
    work = np.flatnonzero(is_category(events["cat"].array, GPU_ACTIVITIES) & (launch >= 0))
    own_device = sums(dur[work], launch[work], len(events))
    on_device = is_device(events)
    own_device[on_device] = dur[on_device]
    device = sums_beneath(own_device, parent, depth)
    memory = {}
    for side, own in _memory_of(trace).items():
        memory[f"{side}_memory_bytes"] = sums_beneath(own, parent, depth)
        memory[f"self_{side}_memory_bytes"] = _with_folded(own, fold, head)
    self_ns = _with_folded(events["self_dur"].to_numpy(), fold, head)
    # Times of runtime calls are added to their callers, if there are any, as torch.profiler does.
    calls = np.flatnonzero(is_category(events["cat"].array, RUNTIME_CATEGORIES) & (parent >= 0) & (own_device > 0))
    given = own_device.copy()
    np.add.at(given, parent[calls], own_device[calls])
    given[calls] = 0
    self_device = _with_folded(given, fold, head)
    return _Measured(parent, fold, self_ns, device, self_device, memory)


def _with_folded(own: Ints, fold: Bools, head: Ints) -> Ints:
    """Return the own values of each row, plus those of the rows folded into it.

    The value of a chain is the sum over its members, since the remaining children are those of the last member.
    """
    rows = np.flatnonzero(fold)
    if not len(rows):
        return own
    total = own.copy()
    np.add.at(total, head[rows], own[rows])
    return total


def folded(events: pd.DataFrame) -> Bools:
    """Rows that averaging folds into their parent: same name, and no sibling, repeatedly until none is left.

    Args:
        events: The events frame of a Trace.

    Returns:
        True where folded, shape (n,). Only host rows in the call tree can be.
    """
    return _folded(events, integers(events["parent"]))


def _folded(events: pd.DataFrame, parent: Ints) -> Bools:
    """In a chain of only children of one name, torch folds every other generation in each round until none is left.

    Folding replaces the child by the grandchildren, so a parent with one child may get several, and then nothing more
    is folded into it. A row is therefore folded exactly if it is an only child with its parent's name: folding changes
    the parent of the grandchildren, which has the same name, but not their number of siblings.
    """
    names, _ = step_names(events["name"].array)
    child = np.flatnonzero(parent >= 0)
    siblings = np.bincount(parent[child], minlength=len(parent))
    result = np.zeros(len(parent), bool)
    result[child] = (names[parent[child]] == names[child]) & (siblings[parent[child]] == 1)
    return result


def heads(parent: Ints, fold: Bools) -> Ints:
    """Return the row that each row is folded into, or the row itself."""
    head: Ints = np.where(fold, parent, np.arange(len(parent)))
    while fold[head].any():
        head = head[head]
    return head


def chosen_rows(name: str, rows: ArrayLike | None, n: int) -> Bools:
    """Return the argument `name`, a mask of shape (n,) or row numbers, as a mask; all rows for None.

    Raises:
        ValueError: It is a mask of another length, or has other row numbers.
    """
    if rows is None:
        return np.ones(n, bool)
    rows = np.asarray(rows)
    if rows.dtype == bool:
        if len(rows) != n:
            raise ValueError(f"{name} is a mask of length {len(rows)}, expected one value per event: {n}")
        return rows
    if len(rows) and (rows.min() < 0 or rows.max() >= n):
        raise ValueError(f"{name} has rows outside of the trace's {n} events")
    chosen = np.zeros(n, bool)
    chosen[rows.astype(np.int64)] = True
    return chosen


def is_device(events: pd.DataFrame) -> Bools:
    """True for device rows, shape (n,)."""
    return events["device"].notna().to_numpy()


def _memory_of(trace: Trace) -> dict[str, Ints]:
    """Bytes allocated minus bytes released while each row was the innermost of its thread, for host and devices."""
    memory = trace.memory
    memory = memory[memory["action"].isin(("alloc", "free_completed")) & memory["event"].notna()]
    if not len(trace.memory):
        return {}
    size = memory["num_bytes"].to_numpy()
    signed = np.where((memory["action"] == "free_completed").to_numpy(), -size, size)
    row = memory["event"].to_numpy(dtype=np.int64)
    on_host = (memory["device_type"] == "cpu").to_numpy(dtype=bool, na_value=False)
    sides = {"host": on_host, "device": ~on_host}
    return {side: sums(signed[here], row[here], len(trace)) for side, here in sides.items()}


def sums_beneath(values: Ints, parent: Ints, depth: NDArray[np.integer]) -> Ints:
    """Sum of `values` of each row and all its descendants in the call tree.

    Args:
        values: Shape (n,); integers, so that sums are exact.
        parent: Row of the parent or -1, shape (n,).
        depth: Number of ancestors, shape (n,).
    """
    total = values.copy()
    rows = np.flatnonzero(parent >= 0)
    rows = rows[np.argsort(-depth[rows], kind="stable")]
    levels = depth[rows]
    for part in np.split(rows, np.flatnonzero(np.diff(levels)) + 1):
        part = part[total[part] != 0]
        np.add.at(total, parent[part], total[part])
    return total


def _averaged(trace: Trace, keys: Sequence[str], at: Ints, found: _Measured) -> pd.DataFrame:
    events, stacks = trace.events, cache(lambda: Stacks(trace))
    on_device = is_device(events)[at]
    coded = [codes_of(trace, key, stacks) for key in keys]
    apart = [on_device.astype(np.int64)]
    if "name" in keys:
        apart.append(is_category(events["cat"].array, ANNOTATIONS)[at].astype(np.int64))
    group = combined(*(codes[at] for codes, _ in coded), *apart)
    first = np.unique(group, return_index=True)[1]
    dur = events["dur"].to_numpy()[at]
    n = len(first)
    out = pd.DataFrame({column_of(key): take(at[first]) for key, (_, take) in zip(keys, coded, strict=True)})
    if "cat" not in out:
        out["cat"] = events["cat"].array[at[first]]
    out["is_device"] = on_device[first]
    out["count"] = np.bincount(group, minlength=n)
    out["total_ns"] = sums(dur, group, n)
    out["self_ns"] = sums(found.self_ns[at], group, n)
    out["mean_ns"] = out["total_ns"] / out["count"]
    mean = out["mean_ns"].to_numpy()
    count = out["count"].to_numpy()
    squares = np.bincount(group, weights=(dur - mean[group]) ** 2, minlength=len(count))
    single = count < 2
    out["std_ns"] = pd.arrays.FloatingArray(np.sqrt(squares / np.where(single, 1, count - 1)), single)
    out["min_ns"], out["max_ns"] = _extremes(group, dur, n)
    is_cost = ~is_category(events["cat"].array[at], UNCOUNTED) & ~is_waiting(events["name"].array[at])
    out["share_pct"] = _shares(out, group, np.where(is_cost, found.self_ns[at], 0))
    out["device_total_ns"] = sums(found.device_ns[at], group, n)
    out["self_device_ns"] = sums(found.self_device_ns[at], group, n)
    for column in ("flops", "num_bytes"):
        values = events[column].array[at]
        known = ~np.asarray(values.isna())
        total = sums(values[known].to_numpy(dtype=np.int64), group[known], n)
        out[column] = pd.arrays.IntegerArray(total, np.bincount(group[known], minlength=n) == 0)
    for column in MEMORY_COLUMNS:
        of_group = sums(found.memory[column][at], group, n) if found.memory else np.zeros(n, np.int64)
        out[column] = nullable(of_group, np.full(n, not found.memory))
    codes, texts = stacks().places() if events["stack"].notna().any() else (np.full(len(events), -1, np.int64), [])
    out["place"] = categorical(codes[at[first]], texts)
    return out.sort_values(["self_ns", "total_ns"], ascending=False, kind="stable", ignore_index=True)


def _extremes(group: Ints, dur: Ints, n: int) -> tuple[Ints, Ints]:
    low, high = np.full(n, np.iinfo(np.int64).max), np.full(n, np.iinfo(np.int64).min)
    np.minimum.at(low, group, dur)
    np.maximum.at(high, group, dur)
    return low, high


def _shares(out: pd.DataFrame, group: Ints, self_ns: Ints) -> NDArray[np.float64]:
    weight = sums(self_ns, group, len(out)).astype(np.float64)
    side = out["is_device"].to_numpy().astype(np.int64)
    whole = np.bincount(side, weights=weight, minlength=2)[side]
    return 100.0 * np.divide(weight, whole, out=np.zeros_like(weight), where=whole > 0)
