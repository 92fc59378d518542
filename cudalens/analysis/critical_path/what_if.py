"""Estimates of the effect of changes, by replaying the dependencies of a trace with other durations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from cudalens.analysis.critical_path.change import Change
from cudalens.analysis.critical_path.graph import DependencyGraph
from cudalens.analysis.time.averages import chosen_rows
from cudalens.frames.column_arrays import Ints

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from cudalens.frames import Trace


@dataclass(frozen=True, repr=False)
class WhatIf:
    """The estimated effect of changes.

    Attributes:
        length_ns: Time from the start to the last end with the changes.
        before_ns: The same without them.
        saved_ns: The difference; negative if the changes cost time.
        changes: The changes, in words.
        assumptions: The assumptions, in words.
    """

    length_ns: int
    before_ns: int
    saved_ns: int
    changes: tuple[str, ...]
    assumptions: tuple[str, ...]

    def __repr__(self) -> str:
        """The changes, their effect, and the assumptions."""
        share = 100.0 * self.saved_ns / max(self.before_ns, 1)
        word = "saves" if self.saved_ns >= 0 else "costs"
        head = f"{'; '.join(self.changes)}: {word} {abs(self.saved_ns) / 1e6:,.3f} ms ({abs(share):.1f} %)"
        lines = [f"{head}, {self.before_ns / 1e6:,.3f} ms become {self.length_ns / 1e6:,.3f} ms."]
        return "\n".join([*lines, *(f"Assumed: {text}." for text in self.assumptions)])


_ALWAYS: Final = (
    "calls, works of a stream and waits keep their recorded order",
    "concurrent device work does not get faster when other work is removed",
)


def what_if(
    trace: Trace,
    graph: DependencyGraph,
    before_ns: int,
    *,
    scale: dict[str, float],
    fuse: str | ArrayLike | None,
    without_operators: bool,
    without_syncs: bool,
    overlap_copies: bool,
) -> WhatIf:
    """See `cudalens.analysis.CriticalPath.what_if`."""
    if not scale and fuse is None and not without_syncs and not overlap_copies:
        raise ValueError("what_if() changes nothing: give scale, fuse, without_syncs or overlap_copies")
    change = Change(trace.events, graph)
    for key, factor in scale.items():
        change.scale(key, factor)
    if fuse is not None:
        change.fuse(_group(fuse, change), without_operators)
    if without_syncs:
        change.drop_syncs()
    if overlap_copies:
        change.overlap_copies()
    length = change.length_ns()
    return WhatIf(length, before_ns, before_ns - length, tuple(change.texts), (*_ALWAYS, *change.assumed, *graph.notes))


def _group(which: Any, change: Change) -> Ints:
    """Group 0 for the selected rows of the events, -1 for the others."""
    rows = change.named(which) if isinstance(which, str) else chosen_rows("fuse", which, len(change.events))
    return np.where(rows, 0, -1)
