"""Count the global step of several requesters: a profiler's ``step()`` and any number of optimizers.

Each requester counts its own steps, and the global step is the largest count: a loop in which the profiler and two
optimizers step once each has made one step, not three. The definitions are those of torch's `KinetoStepTracker`
(torch/autograd/profiler.py), whose counts and step `steps` shares, so that torch's optimizers and profilers and ours
are requesters of one and the same global step.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, MutableMapping
from typing import Any, Final, Protocol

import torch
from torch.autograd import profiler as torch_profiler


class Counts(Protocol):
    """The state of a tracker, with the names of torch's own tracker."""

    _step_dict: MutableMapping[str, int]
    _current_step: int


class OwnCounts:
    """Counts of a tracker that shares them with no other."""

    def __init__(self) -> None:
        self._step_dict: MutableMapping[str, int] = defaultdict(int)
        self._current_step = 0


class StepTracker:
    """The global step of several requesters.

    Args:
        move: Called once for each increment of the global step: what moves the real one (torch's, by default).
        counts: Where counts are kept; by default in the tracker alone.
    """

    def __init__(self, move: Callable[[], object] | None = None, counts: Counts | None = None) -> None:
        self._move = move if move is not None else _move_torchs
        self._counts: Counts = counts if counts is not None else OwnCounts()

    @property
    def current(self) -> int:
        """The global step."""
        return self._counts._current_step

    @property
    def requesters(self) -> dict[str, int]:
        """The count of each requester."""
        return dict(self._counts._step_dict)

    def init(self, requester: str) -> None:
        """Let `requester` count from the global step on; also one that counted before."""
        self._counts._step_dict[requester] = self._counts._current_step

    def forget(self, requester: str) -> bool:
        """Leave `requester` out from now on; the global step stays. Whether it was known."""
        return self._counts._step_dict.pop(requester, None) is not None

    def increment(self, requester: str) -> int:
        """Count one step of `requester`, and move the real step where the largest count has grown.

        A requester that was not known counts from the global step on.

        Returns:
            The global step.

        Warns:
            UserWarning: The largest count is ahead of the global step by more than one: a count was set directly.
        """
        counts = self._counts
        if requester not in counts._step_dict:
            self.init(requester)
        counts._step_dict[requester] += 1
        ahead = max(counts._step_dict.values()) - counts._current_step
        if ahead > 1:
            warnings.warn(
                f"the profiler step jumps by {ahead}, from {counts._current_step}; counts are "
                f"{dict(counts._step_dict)}. Was a count set directly? Each requester should count one step at a time.",
                stacklevel=2,
            )
        for _ in range(ahead):
            self._move()
        counts._current_step += max(ahead, 0)
        return counts._current_step


def _move_torchs() -> None:
    """Report a step to Kineto, if this build of torch can: its daemon may wait for one to begin a trace on demand."""
    kineto_step: Callable[[], None] | None = getattr(torch.autograd, "_kineto_step", None)
    if kineto_step is not None:
        kineto_step()


def _shared_counts() -> Counts | None:
    """The tracker of torch, if it keeps its counts in the expected attributes."""
    tracker: Any = getattr(torch_profiler, "KinetoStepTracker", None)
    is_known = isinstance(getattr(tracker, "_step_dict", None), dict) and isinstance(
        getattr(tracker, "_current_step", None), int
    )
    return tracker if is_known else None


#: The steps of this process.
steps: Final = StepTracker(counts=_shared_counts())
