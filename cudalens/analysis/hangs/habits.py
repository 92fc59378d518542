"""Whether a rank's last collective is the one that followed the same collectives before."""

from __future__ import annotations

import itertools
from typing import Literal, TypeAlias

from cudalens.analysis.hangs.job import Job
from cudalens.analysis.hangs.waits import signature

#: A collective without its number: group (and direction), operation, types, number of values.
Kind: TypeAlias = tuple[str, str, tuple[str, ...], int]


def habit(job: Job, rank: int) -> Literal["usual", "unusual", "unknown"]:
    """``unusual`` if the rank entered another collective than each time before after the two that precede it.

    ``unknown`` if those two did not occur in this order before.
    """
    kinds = _kinds(job, rank)
    if len(kinds) < 3:
        return "unknown"
    *_, first, second, last = kinds
    followers = {kinds[at + 2] for at in range(len(kinds) - 3) if (kinds[at], kinds[at + 1]) == (first, second)}
    if not followers:
        return "unknown"
    return "usual" if last in followers else "unusual"


def comes_later(job: Job, rank: int, others: frozenset[int]) -> bool:
    """Return whether the rank's last collective followed, before, the one that `others` entered instead."""
    kinds = _kinds(job, rank)
    expected = {found[-1] for other in others if (found := _kinds(job, other))}
    pairs = itertools.pairwise(kinds[:-1])
    return bool(kinds) and any(first in expected and second == kinds[-1] for first, second in pairs)


def _kinds(job: Job, rank: int) -> list[Kind]:
    dump = job.last.get(rank)
    calls = sorted(dump.calls, key=lambda call: call.created_ns) if dump else []
    return [(call.lane, *signature(call)) for call in calls]
