"""Costs by name, by the definitions of torch.profiler's key_averages, without a loop over events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cudalens.frames.build import STEP_PREFIX, categorical, is_category

if TYPE_CHECKING:
    from cudalens.frames import Trace

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

STEP_NAME: Final = "ProfilerStep*"
"""The one name under which all steps are averaged, as torch does."""

UNCOUNTED: Final = ("Trace", "overhead", "gpu_user_annotation", "cuda_sync")
"""Categories that are about the recording itself, mark a stretch of a stream whose kernels are counted already, or wait
for a stream without work of their own; they are averaged, but take no share."""


def key_averages(trace: Trace, rows: Any = None) -> pd.DataFrame:
    """Costs by name, one row per (name, is device work), dearest first.

    Counts, totals and self totals of host rows equal torch.profiler's ``key_averages()`` of the same run to the
    nanosecond: an event that has its parent's name and no sibling is folded into its parent, and all steps count as
    ``ProfilerStep*``.

    Args:
        trace: Any Trace.
        rows: The rows of `Trace.events` to average, as a boolean mask of shape (n,) or as row numbers; None for all.
            Tree, folding and self times remain those of the whole trace.

    Returns:
        Columns ``name``, ``cat`` (of the first such row), ``is_device``, ``count``, ``total_ns``, ``self_ns``,
        ``mean_ns``, ``std_ns`` (sample standard deviation of dur, n - 1 below; missing for a single row), ``min_ns``,
        ``max_ns``, ``share_pct`` (of all self time on its side, host or device), ``device_total_ns`` (GPU time of the
        work launched beneath a host row, or of the device row itself), ``flops`` and ``num_bytes`` (sums; missing where
        nothing is known). Sorted by self_ns, then total_ns, descending. Instants are left out.
    """
    events = trace.events
    keep = ~events["is_instant"].to_numpy()
    parent = _parents(events)
    fold = _folded(events, parent)
    self_ns = events["self_dur"].to_numpy() + _lost_to_folded(events, parent, fold)
    device_ns = _device_time_beneath(events, parent)
    keep &= ~fold & _chosen(rows, len(events))
    at = np.flatnonzero(keep)
    return _averaged(events, at, self_ns[at], device_ns[at])


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


def _step_names(names: pd.Categorical) -> tuple[Ints, list[str]]:
    """Codes and texts of the names with every step under one name."""
    texts = [STEP_NAME if text.startswith(STEP_PREFIX) else text for text in names.categories]
    codes, distinct = pd.factorize(np.array(texts, object))
    codes = np.append(codes, -1)
    return codes[names.codes], list(distinct)


def _folded(events: pd.DataFrame, parent: Ints) -> Bools:
    """In a chain of only children of one name, torch folds every other generation in each round until all are gone.

    Lifting replaces the parent's children by the grandchildren, so a parent that had one child may get several, and
    then no more is folded into it. A row is therefore folded exactly when it is an only child of its parent's name:
    what a lift changes is the row that stands above, which bears the same name, and the number of siblings of the
    lifted rows, which stays as it was.
    """
    names, _ = _step_names(events["name"].array)
    child = np.flatnonzero(parent >= 0)
    siblings = np.bincount(parent[child], minlength=len(parent))
    result = np.zeros(len(parent), bool)
    result[child] = (names[parent[child]] == names[child]) & (siblings[parent[child]] == 1)
    return result


def _lost_to_folded(events: pd.DataFrame, parent: Ints, fold: Bools) -> Ints:
    """What a row that remains gets back: the self time of the rows folded into it, and theirs in turn, ns.

    The self time of a chain is the sum of its members' self times, since the lifted children are the last member's.
    """
    gain = np.zeros(len(parent), np.int64)
    rows = np.flatnonzero(fold)
    if len(rows):
        np.add.at(gain, heads(parent, fold)[rows], events["self_dur"].to_numpy()[rows])
    return gain


def heads(parent: Ints, fold: Bools) -> Ints:
    """The row that each row ends up in once the folded ones are gone (itself, where it is not folded)."""
    head: Ints = np.where(fold, parent, np.arange(len(parent)))
    while fold[head].any():
        head = head[head]
    return head


def _chosen(rows: Any, n: int) -> Bools:
    if rows is None:
        return np.ones(n, bool)
    rows = np.asarray(rows)
    if rows.dtype == bool:
        if len(rows) != n:
            raise ValueError(f"rows is a mask of length {len(rows)}, expected one value per event: {n}")
        chosen: Bools = rows
        return chosen
    chosen = np.zeros(n, bool)
    chosen[rows.astype(np.int64)] = True
    return chosen


def is_device(events: pd.DataFrame) -> Bools:
    """True for rows that stand on a device, shape (n,)."""
    on_device: Bools = events["device"].notna().to_numpy()
    return on_device


def _device_time_beneath(events: pd.DataFrame, parent: Ints) -> Ints:
    """GPU time of the work launched by each host row or by a row beneath it, ns; dur for device work."""
    dur = events["dur"].to_numpy()
    total = np.zeros(len(events), np.int64)
    work = np.flatnonzero(is_category(events["cat"].array, ("kernel", "gpu_memcpy", "gpu_memset")))
    if len(work):
        launch = events["launch"].array[work].to_numpy(dtype=np.int64, na_value=-1)
        np.add.at(total, launch[launch >= 0], dur[work[launch >= 0]])
        total = sums_beneath(total, parent, events["depth"].to_numpy())
    on_device = is_device(events)
    total[on_device] = dur[on_device]
    return total


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


def _averaged(events: pd.DataFrame, at: Ints, self_ns: Ints, device_ns: Ints) -> pd.DataFrame:
    names, texts = _step_names(events["name"].array)
    on_device = is_device(events)[at]
    key = names[at] * 2 + on_device
    group, first = _grouped(key)
    dur = events["dur"].to_numpy()[at]
    n = len(first)
    out = pd.DataFrame(
        {
            "name": categorical(names[at][first], texts),
            "cat": events["cat"].array[at[first]],
            "is_device": on_device[first],
            "count": np.bincount(group, minlength=n),
            "total_ns": _sums(group, dur, n),
            "self_ns": _sums(group, self_ns, n),
        }
    )
    out["mean_ns"] = out["total_ns"] / out["count"]
    out["std_ns"] = _sample_std(group, dur, out["mean_ns"].to_numpy(), out["count"].to_numpy())
    out["min_ns"], out["max_ns"] = _extremes(group, dur, n)
    out["share_pct"] = _shares(out)
    out["device_total_ns"] = _sums(group, device_ns, n)
    for column in ("flops", "num_bytes"):
        out[column] = _known_sums(group, events[column].array[at], n)
    return out.sort_values(["self_ns", "total_ns"], ascending=False, kind="stable", ignore_index=True)


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


def _shares(out: pd.DataFrame) -> NDArray[np.float64]:
    counted = ~out["cat"].isin(UNCOUNTED).to_numpy()
    weight = np.where(counted, out["self_ns"].to_numpy(), 0).astype(np.float64)
    side = out["is_device"].to_numpy().astype(np.int64)
    whole = np.bincount(side, weights=weight, minlength=2)[side]
    shares: NDArray[np.float64] = 100.0 * np.divide(weight, whole, out=np.zeros_like(weight), where=whole > 0)
    return shares


def _known_sums(group: Ints, values: Any, n: int) -> Any:
    known = ~np.asarray(values.isna())
    total = _sums(group[known], values[known].to_numpy(dtype=np.int64), n)
    return pd.arrays.IntegerArray(total, np.bincount(group[known], minlength=n) == 0)
