"""Changes of a watched run and their causes: what the steps and recordings on both sides say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import msgspec
import numpy as np

from cudalens.frames import Trace
from cudalens.watching.burst import Recorded
from cudalens.watching.causes import Before, causes
from cudalens.watching.change_detector import Shift
from cudalens.watching.run import WatchedChange
from cudalens.watching.steps import StepHistory

MOST_CHANGES: Final = 100
_NUM_BEFORE: Final = 64
#: Steps after which a change is found, or is none.
_NUM_UNDECIDED: Final = 40


class Changes:
    """The changes so far, with causes computed when one is found, and again with the first recording after it."""

    def __init__(self) -> None:
        self._found: list[WatchedChange] = []
        self._recent: list[tuple[int, Trace]] = []
        self._before: Trace | None = None

    @property
    def found(self) -> tuple[WatchedChange, ...]:
        """The changes, oldest first."""
        return tuple(self._found)

    def add(self, shift: Shift, history: StepHistory) -> None:
        """Add a change that the step times show."""
        earlier = [trace for step, trace in self._recent if step < shift.step]
        self._before = earlier[-1] if earlier else None
        columns = history.columns()
        at = int(np.searchsorted(columns["step"], shift.step))
        ts = int(columns["ts"][min(at, len(columns["ts"]) - 1)]) if len(columns["ts"]) else 0
        change = WatchedChange(shift.step, ts, shift.before_ns, shift.after_ns, shift.found_at)
        self._found = [*self._found, self._explained(change, columns, None)][-MOST_CHANGES:]

    def add_recording(self, recorded: Recorded, history: StepHistory) -> None:
        """Use the Trace of a recording, the newest, for the last change, if it is the first after it."""
        if self._found and recorded.is_after_change and recorded.step > self._found[-1].step:
            self._found[-1] = self._explained(self._found[-1], history.columns(), recorded.trace)
        if recorded.trace is not None:
            self._remember(recorded.step, recorded.trace)

    def _remember(self, step: int, trace: Trace) -> None:
        """Keep at most four Traces, one of them from before any change that may still be found."""
        self._recent.append((step, trace))
        old = [one for one in self._recent if one[0] <= step - _NUM_UNDECIDED]
        new = [one for one in self._recent if one[0] > step - _NUM_UNDECIDED]
        self._recent = [*old[-1:], *(new if len(new) < 3 else [new[0], *new[-2:]])]

    def _explained(self, change: WatchedChange, columns: dict[str, Any], after: Trace | None) -> WatchedChange:
        at = int(np.searchsorted(columns["step"], change.step))
        old = _side(change.before_ns, columns, slice(max(at - _NUM_BEFORE, 0), at), self._before)
        new = _side(change.after_ns, columns, slice(at, None), after)
        # It is read about once a second, and when the change is found: the last reading is the one after the change.
        new = replace(new, clock_mhz=_last(columns["clock_mhz"]))
        found = causes(old, new)
        texts, kinds = tuple(one.text for one in found), tuple(one.kind for one in found)
        return msgspec.structs.replace(change, causes=texts, kinds=kinds)


def _side(step_ns: float, columns: dict[str, Any], rows: slice, trace: Trace | None) -> Before:
    part = {name: values[rows] for name, values in columns.items()}
    return Before(
        step_ns,
        _median(part["data_ns"]) or 0.0,
        _median(part["elements"]),
        _retries(part),
        _median(part["clock_mhz"]),
        trace,
    )


def _median(values: Any) -> float | None:
    known = values[values >= 0]
    return float(np.median(known)) if len(known) else None


def _last(values: Any) -> float | None:
    known = values[values >= 0]
    return float(known[-1]) if len(known) else None


def _retries(part: dict[str, Any]) -> float | None:
    """Retries per step: the counter's difference over the steps between two readings."""
    known = np.flatnonzero(part["num_retries"] >= 0)
    if len(known) < 2:
        return None
    steps = part["step"][known[-1]] - part["step"][known[0]]
    return float((part["num_retries"][known[-1]] - part["num_retries"][known[0]]) / max(steps, 1))
