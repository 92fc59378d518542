"""What changed between the steps before and after a change of the step time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from cudalens.analysis import units
from cudalens.analysis.compare.runs import differences
from cudalens.analysis.summary import step_rows
from cudalens.analysis.time.work import COMPUTE, KINDS
from cudalens.errors import TraceError
from cudalens.frames import Trace
from cudalens.watching.step_parts import step_parts

#: Share of the change that a part has to explain.
_LEAST_PART: Final = 0.2
#: Relative change of a size or a clock that is a cause.
_LEAST_SHARE: Final = 0.04
_MOST: Final = 4


@dataclass(frozen=True)
class Before:
    """What is known of the steps on one side of a change.

    Attributes:
        step_ns: Median step time.
        data_ns: Median time in which a step waited for its DataLoader; 0 if unknown.
        elements: Median number of elements of a batch; None if unknown.
        retries: Allocations per step that the allocator had to retry after releasing its cache; None if unknown.
        clock_mhz: Clock of the GPU; None if unknown.
        trace: Recorded steps; None if there are none.
    """

    step_ns: float
    data_ns: float = 0.0
    elements: float | None = None
    retries: float | None = None
    clock_mhz: float | None = None
    trace: Trace | None = None


class Cause(NamedTuple):
    """One cause of a change.

    Attributes:
        kind: ``data loading``, ``allocator retries``, ``sync``, ``larger batch``, ``clock``, ``communication``,
            ``GPU work``, ``idle`` or ``host``.
        text: The cause in words.
        delta_ns: Time per step that it explains; 0 where that is not known.
    """

    kind: str
    text: str
    delta_ns: float


def causes(before: Before, after: Before) -> list[Cause]:
    """Causes of the change from `before` to `after`, the most likely first.

    Causes that were counted (retries of the allocator, added synchronisations) precede parts of the step, which only
    say where the time goes. A part is a cause if it explains a fifth of the change.
    """
    delta = after.step_ns - before.step_ns
    parts = _part_deltas(before, after)
    found = [
        *_retries(before, after, delta),
        *_loading(before, after, delta),
        *_syncs(before, after, delta),
        *_compute(before, after, delta, parts),
        *_other_parts(before, after, delta, parts),
    ]
    return (found or _operators(before, after, delta))[:_MOST]


def _explains(part: float, delta: float) -> bool:
    return part / delta >= _LEAST_PART if delta else False


def _part_deltas(before: Before, after: Before) -> dict[str, float]:
    if before.trace is None or after.trace is None:
        return {}
    old, new = step_parts(before.trace), step_parts(after.trace)
    return {name: new.get(name, 0.0) - old.get(name, 0.0) for name in {**old, **new}}


def _retries(before: Before, after: Before, delta: float) -> list[Cause]:
    if before.retries is None or after.retries is None or delta <= 0 or after.retries < 2 * before.retries + 0.05:
        return []
    text = f"the allocator releases its cache and retries {after.retries:.2g} times a step, {before.retries:.2g} before"
    return [Cause("allocator retries", text, delta)]


def _loading(before: Before, after: Before, delta: float) -> list[Cause]:
    more = after.data_ns - before.data_ns
    if not _explains(more, delta):
        return []
    return [Cause("data loading", f"{_signed(more)} in data loading", more)]


def _syncs(before: Before, after: Before, delta: float) -> list[Cause]:
    if before.trace is None or after.trace is None or delta <= 0:
        return []
    old, new = _num_syncs(before.trace), _num_syncs(after.trace)
    added = {place: new[place] - old.get(place, 0.0) for place in new if new[place] - old.get(place, 0.0) >= 0.5}
    if not added:
        return []
    place = max(added, key=lambda one: added[one])
    return [Cause("sync", f"{added[place]:.2g} more waits for the GPU a step: {place}", delta)]


def _num_syncs(trace: Trace) -> dict[str, float]:
    """Waits for the GPU per step, by what waits and where."""
    num_steps = max(len(step_rows(trace)), 1)
    syncs = trace.syncs
    if not len(syncs):
        return {}
    texts = syncs["op"].astype(object).where(syncs["op"].notna(), syncs["call"].astype(object))
    places = syncs["place"].astype(object)
    labels = [
        f"{op} at {place}" if isinstance(place, str) else str(op) for op, place in zip(texts, places, strict=True)
    ]
    names, counts = np.unique(labels, return_counts=True)
    return dict(zip(names.tolist(), (counts / num_steps).tolist(), strict=True))


def _compute(before: Before, after: Before, delta: float, parts: dict[str, float]) -> list[Cause]:
    """Causes of more or less work: another size of the batch, another clock, other kernels."""
    sized = _ratio(before.elements, after.elements)
    if sized is not None and abs(sized) >= _LEAST_SHARE and (sized > 0) == (delta > 0):
        share = f"{1 + sized:.3g} times as many" if sized >= 1 else f"{abs(100 * sized):.0f} % {_more(sized)}"
        text = f"batches have {share} elements"
        return [Cause("larger batch" if sized > 0 else "smaller batch", text, delta)]
    clocked = _ratio(before.clock_mhz, after.clock_mhz)
    if clocked is not None and abs(clocked) >= _LEAST_SHARE and (clocked < 0) == (delta > 0):
        text = f"the GPU's clock went from {before.clock_mhz:.0f} to {after.clock_mhz:.0f} MHz"
        return [Cause("clock", text, parts.get("GPU compute", delta))]
    more = parts.get("GPU compute", 0.0)
    if not _explains(more, delta):
        return []
    return [Cause("GPU work", f"GPU compute {_signed(more)}{_top_kernel(before, after, delta)}", more)]


def _other_parts(before: Before, after: Before, delta: float, parts: dict[str, float]) -> list[Cause]:
    found = []
    for name, more in parts.items():
        if name in ("GPU compute", "data loading") or not _explains(more, delta):
            continue
        if name == "communication":
            kind = "communication"
        else:
            kind = "idle" if name.startswith("idle") else "host"
        if name == "idle: data loading":
            kind = "data loading"
        text = (
            f"GPU idle {_signed(more)} ({name.removeprefix('idle: ')})" if kind == "idle" else f"{name} {_signed(more)}"
        )
        found.append(Cause(kind, text, more))
    return sorted(found, key=lambda cause: -abs(cause.delta_ns))


def _top_kernel(before: Before, after: Before, delta: float) -> str:
    assert before.trace is not None
    assert after.trace is not None
    try:
        kernels = differences(before.trace, after.trace).kernels
    except TraceError:
        return ""
    kernels = kernels[(kernels["delta_ns"] * delta > 0) & (kernels["kind"] == KINDS[COMPUTE])]  # no copies
    return f", most in {units.shorten(str(kernels.iloc[0]['name']), 60)}" if len(kernels) else ""


def _operators(before: Before, after: Before, delta: float) -> list[Cause]:
    """Return the operator or call that changed most, where no part explains the change."""
    if before.trace is None or after.trace is None:
        return []
    try:
        ops = differences(before.trace, after.trace).ops
    except TraceError:
        return []
    ops = ops[ops["delta_ns"] * delta > 0]
    if not len(ops):
        return []
    top = ops.iloc[0]
    return [
        Cause(
            "host", f"{units.shorten(str(top['name']), 60)} {_signed(float(top['delta_ns']))}", float(top["delta_ns"])
        )
    ]


def _ratio(before: float | None, after: float | None) -> float | None:
    return after / before - 1 if before and after is not None else None


def _more(change: float) -> str:
    return "more" if change > 0 else "fewer"


def _signed(ns: float) -> str:
    return f"{'+' if ns >= 0 else '-'}{units.duration(abs(ns))}"
