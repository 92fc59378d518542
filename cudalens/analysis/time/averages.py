"""Costs by name, by the definitions of torch.profiler's key_averages, without a loop over events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Unpack

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.analysis.cached import once_per_trace
from cudalens.analysis.ranked import ranked
from cudalens.analysis.time.averages_keys import (
    STEP_NAME,
    TorchGroups,
    check_keys,
    codes_of,
    column_of,
    step_names,
    with_torch_groups,
)
from cudalens.analysis.time.averages_stacks import Stacks
from cudalens.frames import GPU_ACTIVITIES, RUNTIME_CATEGORIES, is_category, nullable
from cudalens.frames.columns import categorical

if TYPE_CHECKING:
    from cudalens.frames import Trace

__all__ = ["STEP_NAME", "UNCOUNTED", "averages", "folded", "heads", "key_averages", "sums_beneath", "total_average"]

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

#: Categories of the program's own ranges.
ANNOTATIONS: Final = ("user_annotation", "gpu_user_annotation")

MEMORY_COLUMNS: Final = (
    "host_memory_bytes",
    "self_host_memory_bytes",
    "device_memory_bytes",
    "self_device_memory_bytes",
)

#: Categories that are about the recording itself, mark a stretch of a stream whose kernels are counted already, or wait
#: for a stream without work of their own; they are averaged, but take no share.
UNCOUNTED: Final = ("Trace", "overhead", "gpu_user_annotation", "cuda_sync")


@ranked
def key_averages(
    trace: Trace,
    /,
    rows: Any = None,
    *,
    by: Sequence[str] | str = ("name",),
    top_level: bool = False,
    **groups: Unpack[TorchGroups],
) -> pd.DataFrame:
    """Costs by name, or by whatever `by` says, one row per value and side (host or device), dearest first.

    Counts, totals and self totals of host rows equal torch.profiler's ``key_averages()`` of the same run to the
    nanosecond: an event that has its parent's name and no sibling is folded into its parent, all steps count as
    ``ProfilerStep*``, and a range of the program is kept apart from an operator of its name. ``by=("name",
    "input_shapes", "stack:5")`` is torch's ``key_averages(group_by_input_shape=True, group_by_stack_n=5)``.

    Args:
        trace: Any Trace, or Ranks.
        rows: The rows of `Trace.events` to average, as a boolean mask of shape (n,) or as row numbers; None for all.
            Tree, folding and self times remain those of the whole trace.
        by: What rows must have in common, any of ``name``; ``input_shapes`` (a list of tensors is ``[]``, as torch
            groups them) and ``shapes`` (as recorded); ``dtypes``; ``stack:N`` (the N innermost entries of the call
            stack); ``module``; ``cell_line`` (the user's innermost line); ``stream``; ``device``; ``tid``; ``thread``;
            ``step``; ``cat``. Rows without a value are a group of their own, whose value is missing.
        top_level: Average only rows that no other row encloses: device work, and what the host called first.
        **groups: torch.profiler's options, ``group_by_input_shape=True`` and ``group_by_stack_n=5``, which add keys.

    Returns:
        A column for each of `by` (``stack`` for ``stack:N``, an entry a line, innermost first), then ``cat`` (of the
        first such row), ``is_device``, ``count``, ``total_ns``, ``self_ns``, ``mean_ns``, ``std_ns`` (sample standard
        deviation of dur, n - 1 below; missing for a single row), ``min_ns``, ``max_ns``, ``share_pct`` (of all self
        time on its side, host or device), ``device_total_ns`` (GPU time of the work launched beneath a host row, or of
        the device row itself), ``self_device_ns`` (of it, what no host row beneath launched; a runtime call's is its
        caller's), ``flops`` and ``num_bytes`` (sums; missing where nothing is known), ``host_memory_bytes`` and
        ``device_memory_bytes`` (allocated less released while the rows ran, on their threads; missing where no memory
        was recorded), ``self_host_memory_bytes`` and ``self_device_memory_bytes`` (without what host rows beneath did),
        and ``place`` (the user's innermost line of the first row, as ``In[7]:3`` or ``file:line``; missing without
        stacks). Where ``name`` is not among `by`, enclosing and enclosed rows may share a group: self times and shares
        add up, totals then count time more than once. Sorted by self_ns, then total_ns, descending. Instants are left
        out.

    Raises:
        ValueError: `by` holds what is no key; `rows` is a mask of another length.
    """
    keys = check_keys(with_torch_groups(by, groups))
    found = _measured(trace)
    keep = ~trace.events["is_instant"].to_numpy() & ~found.fold & chosen_rows("rows", rows, len(trace))
    if top_level:
        keep &= found.parent < 0
    return _averaged(trace, keys, np.flatnonzero(keep), found)


@once_per_trace
def averages(trace: Trace) -> pd.DataFrame:
    """``key_averages(trace)``, shared by all who call this."""
    return key_averages(trace)


@ranked
def total_average(trace: Trace, /) -> pd.DataFrame:
    """All rows of a Trace as one: torch.profiler's ``total_average()``, with host and device apart.

    Args:
        trace: Any Trace, or Ranks.

    Returns:
        One row: ``name`` ("Total"), ``count`` (host and device rows, folded ones left out), ``total_ns`` (durations of
        host rows, those of enclosed rows included: what torch calls cpu_time_total), ``self_ns`` (their self times),
        ``device_ns`` (durations of device rows), ``flops`` and ``num_bytes`` (sums; missing where nothing is known),
        and the memory columns of `key_averages`, summed likewise: what a row allocated counts for the rows around it,
        too, as torch has it, but for the ``self_`` ones.
    """
    found = key_averages(trace)
    host = ~found["is_device"].to_numpy()
    summed = ("flops", "num_bytes", *MEMORY_COLUMNS)
    sums = found[list(summed)].sum(min_count=1)
    return pd.DataFrame(
        {
            "name": categorical(np.zeros(1, np.int32), ["Total"]),
            "count": [int(found["count"].sum())],
            "total_ns": [int(found["total_ns"][host].sum())],
            "self_ns": [int(found["self_ns"][host].sum())],
            "device_ns": [int(found["total_ns"][~host].sum())],
            **{column: pd.array([sums[column]], dtype="Int64") for column in summed},
        }
    )


class _Measured(NamedTuple):
    """What each row costs, folded rows counted into the rows that they are folded into; arrays of shape (n,).

    Attributes:
        parent: Row of the parent or -1.
        fold: Rows that are folded into their parent.
        self_ns: Self time.
        device_ns: GPU time of the work launched beneath the row.
        self_device_ns: Of it, what no row beneath launched.
        memory: Bytes allocated less those released, by column; nothing where no memory was recorded.
    """

    parent: Ints
    fold: Bools
    self_ns: Ints
    device_ns: Ints
    self_device_ns: Ints
    memory: dict[str, Ints]


def _measured(trace: Trace) -> _Measured:
    events = trace.events
    parent, depth = _parents(events), events["depth"].to_numpy()
    fold = _folded(events, parent)
    head = heads(parent, fold)
    own_device = _device_time_of(events)
    device = sums_beneath(own_device, parent, depth)
    memory = {}
    for side, own in _memory_of(trace).items():
        memory[f"{side}_memory_bytes"] = sums_beneath(own, parent, depth)
        memory[f"self_{side}_memory_bytes"] = _with_folded(own, fold, head)
    self_ns = _with_folded(events["self_dur"].to_numpy(), fold, head)
    self_device = _with_folded(_given_to_callers(own_device, events, parent), fold, head)
    return _Measured(parent, fold, self_ns, device, self_device, memory)


def _with_folded(own: Ints, fold: Bools, head: Ints) -> Ints:
    """What a row that remains has itself, once that of the rows folded into it is its own.

    That of a chain is the sum over its members, since the lifted children are the last member's.
    """
    rows = np.flatnonzero(fold)
    if not len(rows):
        return own
    total = own.copy()
    np.add.at(total, head[rows], own[rows])
    return total


def folded(events: pd.DataFrame) -> Bools:
    """Rows that averaging folds into their parent: same name, and no sibling, again and again until none is left.

    Args:
        events: The events frame of a Trace.

    Returns:
        True where folded, shape (n,). Only host rows in the call tree can be.
    """
    return _folded(events, _parents(events))


def _parents(events: pd.DataFrame) -> Ints:
    parent: Ints = events["parent"].to_numpy(dtype=np.int64, na_value=-1)
    return parent


def _folded(events: pd.DataFrame, parent: Ints) -> Bools:
    """In a chain of only children of one name, torch folds every other generation in each round until all are gone.

    Lifting replaces the parent's children by the grandchildren, so a parent that had one child may get several, and
    then no more is folded into it. A row is therefore folded exactly when it is an only child of its parent's name:
    what a lift changes is the row that stands above, which bears the same name, and the number of siblings of the
    lifted rows, which stays as it was.
    """
    names, _ = step_names(events["name"].array)
    child = np.flatnonzero(parent >= 0)
    siblings = np.bincount(parent[child], minlength=len(parent))
    result = np.zeros(len(parent), bool)
    result[child] = (names[parent[child]] == names[child]) & (siblings[parent[child]] == 1)
    return result


def heads(parent: Ints, fold: Bools) -> Ints:
    """The row that each row ends up in once the folded ones are gone (itself, where it is not folded)."""
    head: Ints = np.where(fold, parent, np.arange(len(parent)))
    while fold[head].any():
        head = head[head]
    return head


def chosen_rows(name: str, rows: Any, n: int) -> Bools:
    """The argument `name`, a mask of shape (n,) or row numbers, as a mask; all rows for None.

    Raises:
        ValueError: It is a mask of another length, or has other row numbers.
    """
    if rows is None:
        return np.ones(n, bool)
    rows = np.asarray(rows)
    if rows.dtype == bool:
        if len(rows) != n:
            raise ValueError(f"{name} is a mask of length {len(rows)}, expected one value per event: {n}")
        chosen: Bools = rows
        return chosen
    if len(rows) and (rows.min() < 0 or rows.max() >= n):
        raise ValueError(f"{name} has rows outside of the trace's {n} events")
    chosen = np.zeros(n, bool)
    chosen[rows.astype(np.int64)] = True
    return chosen


def is_device(events: pd.DataFrame) -> Bools:
    """True for rows that stand on a device, shape (n,)."""
    on_device: Bools = events["device"].notna().to_numpy()
    return on_device


def _device_time_of(events: pd.DataFrame) -> Ints:
    """GPU time of the work launched by each host row, ns; dur for device work."""
    dur = events["dur"].to_numpy()
    own = np.zeros(len(events), np.int64)
    work = np.flatnonzero(is_category(events["cat"].array, GPU_ACTIVITIES))
    if len(work):
        launch = events["launch"].array[work].to_numpy(dtype=np.int64, na_value=-1)
        launched = launch >= 0
        np.add.at(own, launch[launched], dur[work[launched]])
    on_device = is_device(events)
    own[on_device] = dur[on_device]
    return own


def _given_to_callers(own: Ints, events: pd.DataFrame, parent: Ints) -> Ints:
    """What runtime calls launched as their callers', where they have some: torch.profiler has it so, too."""
    calls = np.flatnonzero(is_category(events["cat"].array, RUNTIME_CATEGORIES) & (parent >= 0) & (own > 0))
    given = own.copy()
    np.add.at(given, parent[calls], own[calls])
    given[calls] = 0
    return given


def _memory_of(trace: Trace) -> dict[str, Ints]:
    """Bytes allocated less those released while each row was the innermost of its thread, for host and devices."""
    memory = trace.memory
    memory = memory[memory["action"].isin(("alloc", "free_completed")) & memory["event"].notna()]
    if not len(trace.memory):
        return {}
    size = memory["num_bytes"].to_numpy()
    signed = np.where((memory["action"] == "free_completed").to_numpy(), -size, size)
    row = memory["event"].to_numpy(dtype=np.int64)
    on_host = (memory["device_type"] == "cpu").to_numpy(dtype=bool, na_value=False)
    totals = {}
    for side, here in (("host", on_host), ("device", ~on_host)):
        totals[side] = np.zeros(len(trace), np.int64)
        np.add.at(totals[side], row[here], signed[here])
    return totals


def sums_beneath(values: Ints, parent: Ints, depth: NDArray[np.int32]) -> Ints:
    """`values` of each row and of all rows beneath it in the call tree, summed one generation at a time.

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
    events, stacks = trace.events, _once(lambda: Stacks(trace))
    on_device = is_device(events)[at]
    coded = [codes_of(trace, key, stacks) for key in keys]
    apart = [on_device.astype(np.int64)]
    if "name" in keys:
        apart.append(is_category(events["cat"].array, ANNOTATIONS)[at].astype(np.int64))
    group, first = _grouped(_joined([*(codes[at] for codes, _ in coded), *apart]))
    dur = events["dur"].to_numpy()[at]
    n = len(first)
    out = pd.DataFrame({column_of(key): take(at[first]) for key, (_, take) in zip(keys, coded, strict=True)})
    if "cat" not in out:
        out["cat"] = events["cat"].array[at[first]]
    out["is_device"] = on_device[first]
    out["count"] = np.bincount(group, minlength=n)
    out["total_ns"] = _sums(group, dur, n)
    out["self_ns"] = _sums(group, found.self_ns[at], n)
    out["mean_ns"] = out["total_ns"] / out["count"]
    out["std_ns"] = _sample_std(group, dur, out["mean_ns"].to_numpy(), out["count"].to_numpy())
    out["min_ns"], out["max_ns"] = _extremes(group, dur, n)
    out["share_pct"] = _shares(out, group, found.self_ns[at], events["cat"].array[at])
    out["device_total_ns"] = _sums(group, found.device_ns[at], n)
    out["self_device_ns"] = _sums(group, found.self_device_ns[at], n)
    for column in ("flops", "num_bytes"):
        out[column] = _known_sums(group, events[column].array[at], n)
    for column in MEMORY_COLUMNS:
        sums = _sums(group, found.memory[column][at], n) if found.memory else np.zeros(n, np.int64)
        out[column] = nullable(sums, np.full(n, not found.memory))
    codes, texts = stacks().places() if events["stack"].notna().any() else (np.full(len(events), -1, np.int64), [])
    out["place"] = categorical(codes[at[first]], texts)
    return out.sort_values(["self_ns", "total_ns"], ascending=False, kind="stable", ignore_index=True)


def _once(make: Callable[[], Stacks]) -> Callable[[], Stacks]:
    made: list[Stacks] = []

    def get() -> Stacks:
        if not made:
            made.append(make())
        return made[0]

    return get


def _joined(keys: list[Ints]) -> Ints:
    """One code for each distinct combination of codes."""
    code = keys[0]
    for key in keys[1:]:
        width = int(key.max(initial=-1)) + 2
        if int(code.max(initial=0)) >= (1 << 62) // width:
            code = pd.factorize(code)[0].astype(np.int64)
        code = code * width + key + 1
    return code


def _grouped(key: Ints) -> tuple[Ints, Ints]:
    """A dense group number per row in order of appearance, and the first row of each group."""
    group, distinct = pd.factorize(key)
    first = np.full(len(distinct), len(key), np.int64)
    np.minimum.at(first, group, np.arange(len(key)))
    return group, first


def _sums(group: Ints, values: Ints, n: int) -> Ints:
    """Exact integer sums by group; float weights would round past 2**53."""
    total = np.zeros(n, np.int64)
    np.add.at(total, group, values)
    return total


def _sample_std(group: Ints, dur: Ints, mean: NDArray[np.float64], count: Ints) -> Any:
    squares = np.bincount(group, weights=(dur - mean[group]) ** 2, minlength=len(count))
    single = count < 2
    return pd.arrays.FloatingArray(np.sqrt(squares / np.where(single, 1, count - 1)), single)


def _extremes(group: Ints, dur: Ints, n: int) -> tuple[Ints, Ints]:
    low, high = np.full(n, np.iinfo(np.int64).max), np.full(n, np.iinfo(np.int64).min)
    np.minimum.at(low, group, dur)
    np.maximum.at(high, group, dur)
    return low, high


def _shares(out: pd.DataFrame, group: Ints, self_ns: Ints, cat: pd.Categorical) -> NDArray[np.float64]:
    weight = _sums(group, np.where(is_category(cat, UNCOUNTED), 0, self_ns), len(out)).astype(np.float64)
    side = out["is_device"].to_numpy().astype(np.int64)
    whole = np.bincount(side, weights=weight, minlength=2)[side]
    shares: NDArray[np.float64] = 100.0 * np.divide(weight, whole, out=np.zeros_like(weight), where=whole > 0)
    return shares


def _known_sums(group: Ints, values: Any, n: int) -> Any:
    known = ~np.asarray(values.isna())
    total = _sums(group[known], values[known].to_numpy(dtype=np.int64), n)
    return pd.arrays.IntegerArray(total, np.bincount(group[known], minlength=n) == 0)
