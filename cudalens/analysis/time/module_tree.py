"""The tree of nn.Modules with GPU time of the forward and the backward pass, FLOPs, and memory at the peak."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from cudalens.analysis.ancestors import nearest
from cudalens.analysis.cached import once_per_trace
from cudalens.analysis.time.attribution_keys import inherited, own_keys
from cudalens.analysis.time.groups import sums
from cudalens.analysis.time.work import device_work
from cudalens.frames import Trace
from cudalens.frames.column_arrays import Bools, Ints, integers, masked

#: Deeper modules count for the one at this depth.
_MAX_DEPTH: Final = 40
#: Columns that are sums over a module and the modules within it.
SUMS: Final = ("forward_ns", "backward_ns", "host_ns", "num_works", "flops", "peak_bytes")


@once_per_trace
def module_tree(trace: Trace) -> pd.DataFrame:
    """Costs of each nn.Module with those of the modules within it.

    A row belongs to the module that `attribution` gives it: a backward row to that of its forward operator. Backward
    time is the GPU time of work that a backward row launched: a row with a ``forward`` operator, or within one.

    Returns:
        A row per module, each after the one around it, siblings by GPU time. ``path`` (names with dots), ``name``,
        ``depth``, ``parent`` (row of this frame, <NA> for a root), ``forward_ns`` and ``backward_ns`` (sums of the
        durations of device work, ns), ``host_ns`` (self time of host rows, ns), ``num_works``, ``flops`` (of its
        operators; 0 if none is known), ``flops_per_s`` (by GPU time; missing without either), ``peak_bytes`` (of
        tensors that its operators allocated and that exist at the peak of the device; 0 without recorded memory).
    """
    events, work = trace.events, device_work(trace)
    key, texts = _keys(trace)
    if not texts:
        return _frame([], {name: np.empty(0, np.int64) for name in SUMS})
    n = len(texts)
    is_backward = nearest(integers(events["forward"]) >= 0, integers(events["parent"])) >= 0
    known = work.launch >= 0
    at = np.where(known, key[work.launch], -1)
    back = known & is_backward[np.maximum(work.launch, 0)]
    length = work.end - work.start
    is_host = events["device"].isna().to_numpy() & (key >= 0) & ~events["is_instant"].to_numpy()
    host = np.flatnonzero(is_host)
    own = {
        "forward_ns": _sums(length, at, (at >= 0) & ~back, n),
        "backward_ns": _sums(length, at, (at >= 0) & back, n),
        "host_ns": sums(events["self_dur"].to_numpy()[host], key[host], n),
        "num_works": np.bincount(at[at >= 0], minlength=n),
        "flops": sums(integers(events["flops"], 0)[host], key[host], n),
        "peak_bytes": _at_peak(trace, key, n),
    }
    return _frame(texts, own)


def _keys(trace: Trace) -> tuple[Ints, list[str]]:
    """Return the module of each host row, -1 for none."""
    events = trace.events
    own, texts = own_keys(trace, "module")
    parent, forward = integers(events["parent"]), integers(events["forward"])
    return inherited(np.where(events["device"].isna(), own, -1), parent, forward), texts


def _sums(values: Ints, at: Ints, chosen: Bools, n: int) -> Ints:
    return sums(values[chosen], at[chosen], n)


def _at_peak(trace: Trace, key: Ints, n: int) -> Ints:
    """Bytes that each module allocated and that exist when the most memory of a GPU is allocated."""
    memory = trace.memory
    memory = memory[(memory["device_type"] == "cuda").fillna(False).to_numpy(dtype=bool)]
    allocated = integers(memory["allocated_bytes"])
    if not len(memory) or allocated.max() < 0:
        return np.zeros(n, np.int64)
    device = memory["device"].array[int(allocated.argmax())]
    rows = (np.arange(len(memory)) <= int(allocated.argmax())) & (memory["device"] == device).fillna(True).to_numpy(
        bool
    )
    last = memory[rows].drop_duplicates("addr", keep="last")
    last = last[last["action"].astype(str).eq("alloc") & last["event"].notna() & last["addr"].notna()]
    of_event = key[integers(last["event"])]
    return _sums(integers(last["num_bytes"], 0), of_event, of_event >= 0, n)


def _frame(texts: list[str], own: dict[str, Ints]) -> pd.DataFrame:
    """Return the tree, from the values of each path itself."""
    paths = list(dict.fromkeys(path for text in texts if text for path in _with_outer(text)))
    place = {path: number for number, path in enumerate(paths)}
    total = {name: np.zeros(len(paths), np.int64) for name in SUMS}
    for number, text in enumerate(texts):
        for path in _with_outer(text) if text else ():
            for name in SUMS:
                total[name][place[path]] += own[name][number]
    is_used = total["num_works"] + total["host_ns"] + total["peak_bytes"] > 0
    order = _preorder(paths, total["forward_ns"] + total["backward_ns"], is_used)
    rank = {paths[number]: row for row, number in enumerate(order)}
    shown = [paths[number] for number in order]
    frame = pd.DataFrame({"path": pd.Series(shown, dtype="str")})
    frame["name"] = pd.Series([path.rpartition(".")[2] for path in shown], dtype="str")
    frame["depth"] = np.array([path.count(".") for path in shown], np.int64)
    frame["parent"] = masked(np.array([rank.get(path.rpartition(".")[0], -1) for path in shown], np.int64))
    for name in SUMS:
        frame[name] = total[name][order]
    device = (frame["forward_ns"] + frame["backward_ns"]).to_numpy()
    rate = pd.array(frame["flops"] / np.maximum(device, 1) * 1e9, dtype="Float64")
    frame["flops_per_s"] = pd.Series(rate).where((device > 0) & (frame["flops"] > 0))
    return frame


def _with_outer(path: str) -> list[str]:
    """Return the modules around a module, outermost first, and itself: ``a``, ``a.b``, ``a.b.c`` of ``a.b.c``."""
    parts = path.split(".", _MAX_DEPTH)
    return [".".join(parts[: k + 1]) for k in range(len(parts))]


def _preorder(paths: list[str], weight: Ints, is_used: Bools) -> list[int]:
    """Numbers of the used paths, each after the one around it, siblings by weight."""
    children: dict[str, list[int]] = {}
    for number, path in enumerate(paths):
        if is_used[number]:
            children.setdefault(path.rpartition(".")[0], []).append(number)
    order: list[int] = []
    open_ = sorted(children.get("", []), key=lambda number: weight[number])
    while open_:
        number = open_.pop()
        order.append(number)
        open_ += sorted(children.get(paths[number], []), key=lambda number: weight[number])
    return order
