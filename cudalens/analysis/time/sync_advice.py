"""Group the waits of the host for the GPU by line and expression, and choose the advice on how to avoid each."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from cudalens.analysis.cached import once_per_trace
from cudalens.analysis.time.groups import length, union
from cudalens.analysis.time.work import uses_torch
from cudalens.frames import RUNTIME_CATEGORIES
from cudalens.frames.column_arrays import Bools, Ints, combined, is_category, map_texts
from cudalens.frames.sync_kinds import EXPLICIT, SyncKind

if TYPE_CHECKING:
    from cudalens.frames import Trace

#: Operators that make a tensor from numbers, and in-place ones that fill a new tensor.
FACTORY: Final = (
    r"^aten::(?:(?:rand|randn|zeros|ones|full)(?:_like)?|randint|randperm|normal|arange|linspace|logspace|eye"
    r"|tril_indices|triu_indices|(?:normal|uniform|random|bernoulli|exponential)_)$"
)
#: Waits for a copy, which can be one of a tensor that was just made on the CPU.
_TO_DEVICE: Final = (SyncKind.PAGEABLE_TO_DEVICE, SyncKind.BLOCKING_TO_DEVICE, SyncKind.COPY)

_KEY: Final = ("place", "source", "expression", "kind", "op")
_DTYPES: Final = {
    **dict.fromkeys(_KEY, object),
    "is_hidden": bool,
    "count": "int64",
    "total_ns": "Int64",
    "mean_ns": "Float64",
    "max_ns": "Int64",
    "gpu_ns": "Int64",
    "share_pct": "Float64",
    "event": "Int64",
    "advice": object,
}


def syncs(trace: Trace) -> pd.DataFrame:
    """The waits of `trace` by place and kind, most expensive first.

    Returns:
        A row per ``place`` (with its ``source`` and ``expression``), ``kind`` and ``op``, None if unknown.
        ``is_hidden``: it is not an explicit synchronisation. ``count``: waits. ``total_ns``, ``mean_ns``, ``max_ns``:
        durations, missing if no end is known. ``gpu_ns``: of the total, while the GPU was at work. ``share_pct``: of
        all waiting. ``event``: row of ``trace.events`` of the longest. ``advice``: how to avoid it.
    """
    return wait_groups(trace).copy()


@once_per_trace
def wait_groups(trace: Trace) -> pd.DataFrame:
    """Return the frame of `syncs`, cached; callers must not change it."""
    waits = trace.syncs
    if not len(waits):
        return pd.DataFrame({name: pd.Series(dtype=dtype) for name, dtype in _DTYPES.items()})
    plain = waits.astype(dict.fromkeys(_KEY, object))
    for name in _KEY:
        plain[name] = plain[name].where(plain[name].notna(), "")
    has_torch = uses_torch(trace)
    is_made = pd.Series(_is_of_made_tensor(trace), index=plain.index)
    rows = [
        _group(key, group, has_torch, is_made[group.index].mean() > 1 / 2)
        for key, group in plain.groupby(list(_KEY), sort=False)
    ]
    total = sum(0 if row["total_ns"] is pd.NA else row["total_ns"] for row in rows)
    for row in rows:
        row["share_pct"] = _share(row["total_ns"], total)
    frame = pd.DataFrame({name: pd.Series([row[name] for row in rows], dtype=dtype) for name, dtype in _DTYPES.items()})
    return frame.sort_values(
        ["total_ns", "count"], ascending=False, na_position="last", kind="stable", ignore_index=True
    )


def _is_of_made_tensor(trace: Trace) -> Bools:
    """Which waits are for the copy of a tensor that the operator before made on the CPU; shape of ``trace.syncs``."""
    waits, events = trace.syncs, trace.events
    found = np.zeros(len(waits), bool)
    at = np.flatnonzero(waits["kind"].isin(_TO_DEVICE).to_numpy() & waits["event"].notna().to_numpy())
    is_op = is_category(events["cat"].array, ("cpu_op",))
    names = events["name"].array
    is_factory = is_op & map_texts(names, lambda name: re.search(FACTORY, name) is not None, False)
    if not len(at) or not is_factory.any():
        return found
    parent = events["parent"].array.to_numpy(dtype=np.int64, na_value=-1)
    outer = waits["event"].array[at].to_numpy(dtype=np.int64)
    while (climbs := (parent[outer] >= 0) & is_op[parent[outer]]).any():
        outer = np.where(climbs, parent[outer], outer)
    start = events["ts"].to_numpy()
    end = start + events["dur"].to_numpy()
    thread = combined(*(events[name].array.to_numpy(dtype=np.int64, na_value=-1) for name in ("pid", "tid")))
    ops = np.flatnonzero(is_op & ~(is_op[parent] & (parent >= 0)))
    calls = np.flatnonzero(is_category(events["cat"].array, RUNTIME_CATEGORIES))
    for number in np.unique(thread[outer]).tolist():
        mine = np.flatnonzero(thread[outer] == number)
        own_ops = _by_start(ops[thread[ops] == number], start)
        own_calls = _by_start(calls[thread[calls] == number], start)
        place = np.searchsorted(start[own_ops], start[outer[mine]]) - 1
        before = own_ops[np.maximum(place, 0)]
        # An operator that calls the runtime makes its tensor on the device.
        low, high = (np.searchsorted(start[own_calls], edge[before]) for edge in (start, end))
        found[at[mine]] = (place >= 0) & is_factory[before] & (low == high)
    return found


def _by_start(rows: Ints, start: Ints) -> Ints:
    return rows[np.argsort(start[rows], kind="stable")]


def _group(key: Any, group: pd.DataFrame, has_torch: bool, is_made: bool) -> dict[str, Any]:
    found = {name: value or None for name, value in zip(_KEY, key, strict=True)}
    kind = SyncKind(str(found["kind"]))
    known = group["dur"].dropna()
    longest = known.index[int(np.argmax(known.to_numpy(np.int64)))] if len(known) else group.index[0]
    gpu = group["gpu_dur"].dropna()
    how = advice(kind, found["op"], found["expression"], has_torch=has_torch)
    if is_made:
        how = SyncAdvice.MAKE_ON_DEVICE.value
    return found | {
        "is_hidden": kind not in EXPLICIT,
        "count": len(group),
        "total_ns": int(known.sum()) if len(known) else pd.NA,
        "mean_ns": float(known.mean()) if len(known) else pd.NA,
        "max_ns": int(known.max()) if len(known) else pd.NA,
        "gpu_ns": int(gpu.sum()) if len(gpu) else pd.NA,
        "event": group["event"][longest],
        "advice": how,
    }


def _share(value: Any, total: int) -> Any:
    return pd.NA if value is pd.NA or not total else 100 * value / total


def waited_ns(waits: pd.DataFrame) -> int:
    """Time in which any thread was in one of some rows of ``trace.syncs``, ns: waits at the same time count once."""
    known = waits[waits["dur"].notna()]
    start = known["ts"].to_numpy(np.int64)
    return length(union(start, start + known["dur"].to_numpy(np.int64)))


def is_of_group(waits: pd.DataFrame, group: Mapping[str, Any]) -> Bools:
    """Which rows of ``trace.syncs`` are of a row of `syncs`; shape of `waits`."""
    found = np.ones(len(waits), bool)
    for name in _KEY:
        is_same = waits[name].isna() if group[name] is None else waits[name] == group[name]
        found &= is_same.fillna(False).to_numpy(bool)
    return found


@dataclass(frozen=True)
class SyncSummary:
    """Totals of the waits, for a verdict.

    Attributes:
        num_hidden: Number of waits that are not explicit synchronisations.
        hidden_ns: Their total duration; of a Trace (`cudalens.analysis.facts.wait_summary`) the time in which any
            thread was in one.
        num_places: Number of their places (or operators, if the place is unknown).
        num_explicit: Number of explicit synchronisations.
        explicit_ns: The same for these.
        worst: The most expensive group, of the hidden ones if there are any; a row of `syncs` by column, whose
            ``total_ns`` is such a time, too.
    """

    num_hidden: int
    hidden_ns: int
    num_places: int
    num_explicit: int
    explicit_ns: int
    worst: dict[str, Any] | None


def summarize_syncs(groups: pd.DataFrame) -> SyncSummary:
    """Return the totals of the frame of `syncs`."""
    hidden, explicit = groups[groups["is_hidden"]], groups[~groups["is_hidden"]]
    first = hidden if len(hidden) else explicit
    named = hidden["place"].combine_first(hidden["op"]).combine_first(hidden["kind"])
    return SyncSummary(
        num_hidden=int(hidden["count"].sum()),
        hidden_ns=int(hidden["total_ns"].sum()),
        num_places=int(named.nunique()),
        num_explicit=int(explicit["count"].sum()),
        explicit_ns=int(explicit["total_ns"].sum()),
        worst=first.iloc[0].to_dict() if len(first) else None,
    )


# The advice: a sentence for each remedy, and the remedy for a kind of wait.

#: Longer expressions of the user are not repeated in a sentence.
_MAX_NAME: Final = 40


class SyncAdvice(Enum):
    """A sentence for each remedy; ``{it}`` is the expression, ``{x}`` the tensor in it, ``{mask}`` the index."""

    READ_LATER = "keep {x} on the device (total += {x}.detach()) and read it every N steps"
    WHERE = "compute both ways and choose on the device, torch.where({x}, a, b), or test every N steps"
    ASSERT = "torch._assert_async({x}) checks without waiting, or check every N steps"
    PRINT_LESS = "print {x} every N steps, or collect the values on the device and print them after the loop"
    COMPARE_LATER = "keep the answer on the device, (a == b).all(), and read many answers at once"
    USE_THE_MASK = (
        "work with the mask, torch.where or a product with it; torch.nonzero_static({x}, size=n) does not wait"
    )
    MASKED_READ = "keep the shape: torch.where({mask}, {x}, 0), or sums and means weighted by {mask}"
    MASKED_WRITE = "{x}.masked_fill_({mask}, value) or torch.where({mask}, value, {x}) does not wait"
    FIXED_SIZE = "the host needs the size of the result: do it once outside of the loop, or pad to a fixed size"
    GIVE_SIZE = "give the size of the result: output_size= of repeat_interleave, num_classes= of one_hot"
    CHECK_NOTHING = (
        "use the variant that leaves the check to you: torch.linalg.inv_ex, cholesky_ex, solve_ex, lu_factor_ex"
    )
    COPY_LATER = (
        "copy once after the loop, or into pinned memory: host.copy_({x}, non_blocking=True), and wait for an event "
        "before you read it"
    )
    NOT_BLOCKING_TO_HOST = (
        "the target is pinned: non_blocking=True, then wait for an event only where the values are read"
    )
    PIN = "pin the host's tensor (DataLoader(pin_memory=True), {x}.pin_memory()) and copy with non_blocking=True"
    MAKE_ON_DEVICE = (
        "make the tensor once, outside of the loop, or on the device itself: torch.arange, full, zeros(device=…)"
    )
    MAKE_MODULE_ON_DEVICE = (
        'make the model on the GPU (with torch.device("cuda"): model = …), or profile the steps after it'
    )
    NOT_BLOCKING = "add non_blocking=True; it helps where the host's tensor is pinned"
    LESS_MEMORY = (
        "the allocator ran out and gave its cache back: lower the peak, "
        "or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True against fragmentation"
    )
    KEEP_CACHE = "leave the cache to the allocator: empty_cache() waits, and the memory is asked for again at once"
    WARM_UP = "a library gave memory back while it set itself up: warm up before you measure"
    ORDER_STREAMS = "only needed for timing; to order streams, use stream.wait_stream: it does not stop the host"
    TRY_BEFORE = (
        "cuDNN measures algorithms here (torch.backends.cudnn.benchmark): warm up with the same shapes before you "
        "measure, and keep shapes constant"
    )
    NATIVE_COPIES = (
        "pinned memory and cudaMemcpyAsync: a copy from pageable memory waits; small values as kernel arguments"
    )
    NATIVE_READS = (
        "keep results on the GPU and copy them once after the loop, or with cudaMemcpyAsync into pinned memory "
        "(cudaMallocHost) and an event"
    )
    NATIVE_ORDER = (
        "work on one stream runs in order without a wait: synchronize once after the loop (nowait in OpenMP, async in "
        "OpenACC), and use cudaStreamWaitEvent between streams"
    )
    NATIVE_FREE = "freeing memory waits for the GPU: allocate once, and free after the last work"
    ASK_FOR_LESS = "the operator reads a result on the host: move it out of the loop, or replace it"


_BY_KIND: Final[Mapping[SyncKind, SyncAdvice]] = {
    SyncKind.ITEM: SyncAdvice.READ_LATER,
    SyncKind.TRUTH: SyncAdvice.WHERE,
    SyncKind.PRINT: SyncAdvice.PRINT_LESS,
    SyncKind.EQUAL: SyncAdvice.COMPARE_LATER,
    SyncKind.NONZERO: SyncAdvice.USE_THE_MASK,
    SyncKind.BOOLEAN_INDEX: SyncAdvice.MASKED_READ,
    SyncKind.UNIQUE: SyncAdvice.FIXED_SIZE,
    SyncKind.DATA_SIZE: SyncAdvice.GIVE_SIZE,
    SyncKind.CHECK: SyncAdvice.CHECK_NOTHING,
    SyncKind.CPU: SyncAdvice.COPY_LATER,
    SyncKind.TOLIST: SyncAdvice.COPY_LATER,
    SyncKind.NUMPY: SyncAdvice.COPY_LATER,
    SyncKind.PAGEABLE_TO_HOST: SyncAdvice.COPY_LATER,
    SyncKind.PAGEABLE_TO_DEVICE: SyncAdvice.PIN,
    SyncKind.MODULE_TO_DEVICE: SyncAdvice.MAKE_MODULE_ON_DEVICE,
    SyncKind.BLOCKING_TO_HOST: SyncAdvice.NOT_BLOCKING_TO_HOST,
    SyncKind.BLOCKING_TO_DEVICE: SyncAdvice.NOT_BLOCKING,
    SyncKind.COPY: SyncAdvice.NOT_BLOCKING,
    SyncKind.ALLOCATOR_RETRY: SyncAdvice.LESS_MEMORY,
    SyncKind.EMPTY_CACHE: SyncAdvice.KEEP_CACHE,
    SyncKind.FREE: SyncAdvice.WARM_UP,
    SyncKind.DEVICE_SYNC: SyncAdvice.ORDER_STREAMS,
    SyncKind.STREAM_SYNC: SyncAdvice.ORDER_STREAMS,
    SyncKind.EVENT_SYNC: SyncAdvice.ORDER_STREAMS,
    SyncKind.OPERATOR: SyncAdvice.ASK_FOR_LESS,
}

#: Operators with which a program copies; others copy within for themselves.
_COPY_OPS: Final = frozenset({"aten::to", "aten::_to_copy", "aten::copy_", "aten::cpu", "aten::_foreach_copy_"})
_MAKERS: Final = frozenset({"tensor", "as_tensor", "asarray", "from_numpy", "Tensor"})
_STATEMENT: Final = re.compile(r"(?:if|while|assert)\b\s*")


#: For programs without torch: C++, OpenMP, OpenACC; other kinds of waits have `SyncAdvice.NATIVE_ORDER`.
_NATIVE: Final[Mapping[SyncKind, SyncAdvice]] = {
    SyncKind.PAGEABLE_TO_DEVICE: SyncAdvice.NATIVE_COPIES,
    SyncKind.BLOCKING_TO_DEVICE: SyncAdvice.NATIVE_COPIES,
    SyncKind.COPY: SyncAdvice.NATIVE_COPIES,
    SyncKind.PAGEABLE_TO_HOST: SyncAdvice.NATIVE_READS,
    SyncKind.BLOCKING_TO_HOST: SyncAdvice.NATIVE_READS,
    SyncKind.FREE: SyncAdvice.NATIVE_FREE,
}


def remedy(
    kind: SyncKind, op: str | None = None, expression: str | None = None, *, has_torch: bool = True
) -> SyncAdvice:
    """The advice for a wait.

    Args:
        kind: Kind of the wait.
        op: The operator, if known.
        expression: The user's expression, if known.
        has_torch: Whether the program uses torch.
    """
    if not has_torch:
        return _NATIVE.get(kind, SyncAdvice.NATIVE_ORDER)
    if kind is SyncKind.OPERATOR and op is not None and "conv" in op:
        return SyncAdvice.TRY_BEFORE
    if kind is SyncKind.PAGEABLE_TO_HOST and op is not None and op not in _COPY_OPS:
        return SyncAdvice.ASK_FOR_LESS
    if kind is SyncKind.BOOLEAN_INDEX and op is not None and "index_put" in op:
        return SyncAdvice.MASKED_WRITE
    if kind is SyncKind.TRUTH and (expression or "").startswith("assert"):
        return SyncAdvice.ASSERT
    if kind is SyncKind.PAGEABLE_TO_DEVICE and _called(_parsed(expression)) in _MAKERS:
        return SyncAdvice.MAKE_ON_DEVICE
    return _BY_KIND[kind]


def advice(kind: SyncKind, op: str | None = None, expression: str | None = None, *, has_torch: bool = True) -> str:
    """Return the sentence, with the user's own names in it, if they are short."""
    tensor, mask = _names(expression)
    sentence = remedy(kind, op, expression, has_torch=has_torch).value
    return sentence.format(it=expression or "this", x=tensor or "x", mask=mask or "mask")


def _names(expression: str | None) -> tuple[str, str]:
    """Return the tensor of an expression, and its index."""
    node = _parsed(expression)
    if isinstance(node, ast.Subscript):
        return _text(node.value), _text(node.slice)
    if isinstance(node, ast.Call):
        first = _text(node.args[0]) if node.args else ""
        if not isinstance(node.func, ast.Attribute) or _text(node.func.value) == "torch":
            second = _text(node.args[1]) if len(node.args) > 1 else ""
            return first, second
        return _text(node.func.value), first
    return (_text(node), "") if node is not None else ("", "")


def _parsed(expression: str | None) -> ast.expr | None:
    try:
        return ast.parse(_STATEMENT.sub("", expression or "", count=1).strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _called(node: ast.expr | None) -> str:
    if not isinstance(node, ast.Call):
        return ""
    # A tensor that is created and moved in one expression: torch.tensor(…).cuda().
    inner = _called(node.func.value) if isinstance(node.func, ast.Attribute) else ""
    return inner or (node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", ""))


def _text(node: ast.expr) -> str:
    """Return the source of an expression, if it is short enough for a sentence."""
    try:
        text = ast.unparse(node)
    except (ValueError, RecursionError):
        return ""
    return text if len(text) <= _MAX_NAME else ""
