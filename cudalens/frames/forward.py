"""Finds the forward operator of each backward row, by autograd's sequence numbers.

autograd numbers the nodes that a thread creates, and torch records with each operator the number of its thread's next
node. A backward function has its node's number and torch's id of the thread that created it. Among the rows of that
thread and number, the node's creator is the last to start: rows around it, and rows before it that created no node,
began earlier. Kineto uses the same rule for its "fwdbwd" flows (torch/csrc/profiler/collection.cpp,
``generateForwardBackwardLink``); it draws one arrow for each number, here every backward row gets its forward row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from cudalens.frames.column_arrays import Ints, combined, integers


def forward_rows(arrays: Mapping[str, Any], thread_numbers: Mapping[int, int] | None = None) -> Ints:
    """Row of the forward operator of each backward row.

    Args:
        arrays: Columns of the events in order of start, each of shape (n,): ``pid``, ``tid``, ``sequence_nr`` and
            ``fwd_tid``.
        thread_numbers: torch's own id of each host thread by tid, as in ``fwd_tid``. Default, as for files: each id is
            the thread whose forward rows match the most backward rows with that id.

    Returns:
        Row numbers, -1 for none, shape (n,).
    """
    n = len(arrays["sequence_nr"])
    result = np.full(n, -1, np.int64)
    has_number = ~np.asarray(arrays["sequence_nr"].isna())
    if not has_number.any():
        return result
    forward_thread = integers(arrays["fwd_tid"], 0)
    backward = np.flatnonzero(has_number & (forward_thread > 0))
    forward = np.flatnonzero(has_number & (forward_thread <= 0) & ~np.asarray(arrays["tid"].isna()))
    if not len(backward) or not len(forward):
        return result
    number, pid, tid = (integers(arrays[name]) for name in ("sequence_nr", "pid", "tid"))
    threads = _Threads(forward, backward, number, pid, tid, forward_thread)
    lane = threads.by_number(thread_numbers) if thread_numbers is not None else threads.by_fit()
    known = lane >= 0
    result[backward[known]] = _last_before(
        forward, threads.of_forward, number[forward], backward[known], lane[known], number[backward[known]], n
    )
    return result


def _last_before(
    rows: Ints, lane: Ints, number: Ints, asked: Ints, asked_lane: Ints, asked_number: Ints, n: int
) -> Ints:
    """For each asked row, the last of `rows` before it with the same lane and number, -1 for none."""
    both = combined(np.concatenate([lane, asked_lane]), np.concatenate([number, asked_number]))
    key = both[: len(rows)] * n + rows
    key.sort()
    wanted = both[len(rows) :] * n + asked
    at = np.searchsorted(key, wanted) - 1
    found = key[np.maximum(at, 0)]
    hit = (at >= 0) & (found // n == wanted // n)
    return np.where(hit, found % n, -1)


class _Threads:
    """The host threads of the forward rows, and the thread of each backward row's forward operator.

    Attributes:
        of_forward: Number of the (process, thread) of each forward row.
    """

    def __init__(self, forward: Ints, backward: Ints, number: Ints, pid: Ints, tid: Ints, named: Ints) -> None:
        self._forward, self._backward = forward, backward
        self._number, self._pid, self._tid = number, pid, tid
        self._named = named[backward]
        self.of_forward = combined(pid[forward], tid[forward])

    def by_number(self, thread_numbers: Mapping[int, int]) -> Ints:
        """Thread of each backward row by torch's thread ids; -1 if that thread has no forward rows."""
        first = pd.Series(self.of_forward).drop_duplicates().index.to_numpy()
        lane_of = {}
        for at in first.tolist():
            row = self._forward[at]
            torch_number = thread_numbers.get(int(self._tid[row]))
            lane_of[int(self._pid[row]), torch_number] = int(self.of_forward[at])
        return self._look_up(lane_of)

    def by_fit(self) -> Ints:
        """Thread of each backward row by the most matching sequence numbers; -1 if several match equally well.

        A thread has one id: the pair with the most matches is taken first, and its thread is then excluded.
        """
        lane_of: dict[tuple[int, int | None], int] = {}
        taken: set[int] = set()
        fits = self._fits()
        while fits:
            best = max(fits.values())
            leaders = [pair for pair, fit in fits.items() if fit == best]
            settled = [pair for pair in leaders if sum(other[:2] == pair[:2] for other in leaders) == 1]
            for pid, named, lane in settled:
                if lane not in taken:
                    lane_of[pid, named] = lane
                    taken.add(lane)
            gone = {pair[:2] for pair in leaders}
            fits = {pair: fit for pair, fit in fits.items() if pair[:2] not in gone and pair[2] not in taken}
        return self._look_up(lane_of)

    def _fits(self) -> dict[tuple[int, int, int], int]:
        """Return how many backward numbers of each (process, id) the forward rows of each thread have."""
        keys = ["pid", "number"]
        forward, backward = (
            pd.DataFrame({"pid": self._pid[rows], "number": self._number[rows], which: values, row: rows})
            for rows, which, values, row in (
                (self._forward, "lane", self.of_forward, "first"),
                (self._backward, "named", self._named, "last"),
            )
        )
        backward = backward.drop_duplicates([*keys, "named"], keep="last")
        both = forward.drop_duplicates([*keys, "lane"]).merge(backward, on=keys)
        both = both[both["first"] < both["last"]]
        counts = both.groupby(["pid", "named", "lane"]).size()
        return {(int(p), int(i), int(lane)): int(count) for (p, i, lane), count in counts.items()}

    def _look_up(self, lane_of: dict[tuple[int, int | None], int]) -> Ints:
        pairs = combined(self._pid[self._backward], self._named)
        first = pd.Series(pairs).drop_duplicates().index.to_numpy()
        of_code = np.array(
            [lane_of.get((int(self._pid[self._backward[at]]), int(self._named[at])), -1) for at in first], np.int64
        )
        return of_code[pairs]
