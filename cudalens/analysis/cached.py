"""Decorators of analyses: compute a result once per Trace, and apply an analysis to every rank of a job."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import pandas as pd

from cudalens.frames import Ranks, Trace

T = TypeVar("T")

_CACHES: Final[list[WeakKeyDictionary[Any, Any]]] = []


def once_per_trace(compute: Callable[[Trace], T]) -> Callable[[Trace], T]:
    """`compute` with a cache: a Trace does not change, so neither do the results for it.

    The cache holds no Trace alive. All callers get the same object and must not change it.
    """
    results: WeakKeyDictionary[Trace, T] = WeakKeyDictionary()
    _CACHES.append(results)

    @wraps(compute)
    def cached(trace: Trace) -> T:
        if trace not in results:
            results[trace] = compute(trace)
        return results[trace]

    return cached


def forget_all() -> None:
    """Drop all results, after a change of what they depend on besides the Trace."""
    for results in _CACHES:
        results.clear()


# Analyses of one Trace, applied to every rank of a job.

P = ParamSpec("P")


def ranked(
    analysis: Callable[Concatenate[Trace, P], pd.DataFrame],
) -> Callable[Concatenate[Trace | Ranks, P], pd.DataFrame]:
    """Let `analysis`, which makes a frame of a Trace, take Ranks as well.

    Of Ranks it gives the frames of all ranks, one after the other, with a first column ``rank`` (Int64). Attributes of
    the frames (``DataFrame.attrs``) are those of the first rank.
    """

    @wraps(analysis)
    def over(trace: Trace | Ranks, /, *args: P.args, **kwargs: P.kwargs) -> pd.DataFrame:
        if isinstance(trace, Trace):
            return analysis(trace, *args, **kwargs)
        frames = [_with_rank(analysis(one, *args, **kwargs), rank) for rank, one in trace.items()]
        if not frames:
            raise ValueError(f"'{trace.name}' holds no rank; there is nothing to analyse.")
        return pd.concat(frames, ignore_index=True)

    return over


def _with_rank(frame: pd.DataFrame, rank: int) -> pd.DataFrame:
    ranks = pd.array([rank], dtype="Int64").take([0] * len(frame))
    return pd.concat([pd.DataFrame({"rank": ranks}, index=frame.index), frame], axis=1)
