"""Rules about kernels that take longer than such kernels usually take on the same GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from cudalens.analysis import units
from cudalens.analysis.event_arrays import Bools, Floats, Ints
from cudalens.analysis.findings.finding import Finding
from cudalens.analysis.findings.replays import with_work
from cudalens.analysis.findings.trace_arrays import TraceArrays
from cudalens.analysis.time.groups import numbered
from cudalens.analysis.time.roofline.calls import Calls
from cudalens.analysis.time.roofline.expected import Expected

#: Shorter kernels are dominated by fixed costs, which differ between libraries.
_MIN_NS: Final = 20_000

#: If so many kinds of calls, and this share of all kinds with expected times, are slow, the GPU as a whole is.
_MANY_KINDS: Final = 3
_MOST: Final = 0.7


def slower_than_usual(arrays: TraceArrays) -> Iterator[Finding]:
    """``slow_kernels``: products, attention, softmax or layer norm take longer than on other GPUs of the same model.

    The expected times are those of `cudalens.analysis.time.roofline.expected`. A call counts if its expected time is at
    least `_MIN_NS`, its kernels ran without other work beside them, and they took more than the limit, which is beyond
    the errors of the expected times. Gain: what a replay saves in which such calls take their expected time, at most
    the time beyond it.
    """
    compute, calls = arrays.calls
    usual = calls.expected()
    ns, limit = _columns(usual)
    known = (ns >= _MIN_NS) & _is_alone(arrays, compute[calls.owned], calls)
    slow = known & (calls.durations > limit * ns)
    if not slow.any():
        return
    kernels = np.flatnonzero(slow[calls.call])
    rows = arrays.work.rows[compute[calls.owned[kernels]]]
    size = int((calls.durations - ns)[slow].sum())
    gain = arrays.steady.bound(size, with_work(rows, (ns / np.maximum(calls.durations, 1))[calls.call[kernels]]))
    if gain:
        yield _finding(arrays, calls, usual, known, slow, rows, gain)


def _columns(usual: list[Expected | None]) -> tuple[Floats, Floats]:
    """Expected times and limits, 0 and 1 where they are not known."""
    found = np.array([(0.0, 1.0) if one is None else (one.ns, one.limit) for one in usual]).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _is_alone(arrays: TraceArrays, at: Ints, calls: Calls) -> Bools:
    """Which calls have only kernels beside which no other work of their device ran."""
    work = arrays.work
    beside = np.zeros(len(work.rows), bool)
    for device in np.unique(work.device):
        mine = np.flatnonzero(work.device == device)
        mine = mine[np.argsort(work.start[mine], kind="stable")]
        until = np.maximum.accumulate(work.end[mine])
        following = work.start[mine[1:]]
        beside[mine[1:][until[:-1] > following]] = True
        beside[mine[:-1][work.end[mine[:-1]] > following]] = True
    shared: Ints = np.bincount(calls.call, weights=beside[at], minlength=len(calls.rows))
    return np.asarray(shared == 0)


def _finding(
    arrays: TraceArrays, calls: Calls, usual: list[Expected | None], known: Bools, slow: Bools, rows: Ints, gain: int
) -> Finding:
    chosen = np.flatnonzero(slow)
    largest = max(chosen.tolist(), key=lambda k: calls.durations[k] - usual[k].ns)  # type: ignore[union-attr]
    one = usual[largest]
    assert one is not None
    name, shapes = arrays.name_of(calls.rows[largest]), str(arrays.events["shapes"].array[calls.rows[largest]])
    expected_ns = sum(found.ns for found in (usual[k] for k in chosen.tolist()) if found is not None)
    what = (
        f"{units.plural(len(chosen), 'call')} took {units.duration(int(calls.durations[chosen].sum()))}, and usually "
        f"take {units.duration(expected_ns)} on this GPU ({one.gpu}, times with a mean error of "
        f"{units.percent(one.error_pct)}); the largest difference: {name} of {units.shorten(shapes, 60)}, "
        f"{calls.durations[largest] / one.ns:.1f} times its usual time."
    )
    return arrays.finding(
        "slow_kernels", "kernels slower than usual on this GPU", what, gain, _advice(arrays, calls, known, slow),
        "medium", rows=rows, place=arrays.place(int(calls.rows[largest])),
    )  # fmt: skip


def _advice(arrays: TraceArrays, calls: Calls, known: Bools, slow: Bools) -> str:
    """What to check: the whole GPU where most kinds of calls are slow, otherwise these calls."""
    columns = {name: arrays.events[name].array.codes[calls.rows] for name in ("name", "shapes")}
    kinds, _ = numbered(columns)
    number, all_known = len(np.unique(kinds[slow])), len(np.unique(kinds[known]))
    if number >= _MANY_KINDS and number >= _MOST * all_known:
        return (
            "most kernels are slow, so check the GPU: its clocks and power limit (nvidia-smi -q -d "
            "CLOCK,PERFORMANCE,POWER), and other programs on it"
        )
    return (
        "check these calls: strides and alignment of the operands (rows of 16 bytes), the kernel that the library "
        "chose (its version), and other programs on the GPU; ncu --set full on one of them shows what it waits for"
    )
