"""Run analyses: compute a result once per Trace, apply an analysis to every rank of a job, contain one that raises."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import pandas as pd

from cudalens.errors import CudalensError
from cudalens.frames import Ranks, Trace
from cudalens.frames.info import Problem

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
        frames = []
        for rank, one in trace.items():
            frame = analysis(one, *args, **kwargs)
            ranks = pd.array([rank], dtype="Int64").take([0] * len(frame))
            frames.append(pd.concat([pd.DataFrame({"rank": ranks}, index=frame.index), frame], axis=1))
        if not frames:
            raise ValueError(f"'{trace.name}' holds no rank; there is nothing to analyse.")
        return pd.concat(frames, ignore_index=True)

    return over


# An analysis or a view that raises becomes a problem of the Trace, and everything else is shown.

_MAX_TEXT: Final = 200

#: Has the traceback of each failure, at level DEBUG.
_log: Final = logging.getLogger(__name__)

_failures: Final[WeakKeyDictionary[Trace, dict[str, Problem]]] = WeakKeyDictionary()


def attempt(trace: Trace, what: str, otherwise: T, compute: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return ``compute(*args, **kwargs)``; if it raises, report that as a problem of `trace` and return `otherwise`.

    Errors of cudalens are answers, and pass.

    Args:
        trace: The Trace that `compute` reads.
        what: What it computes, in words: ``the finding 'tiny_operators'``.
        otherwise: The result if it raises.
        compute: What may have a fault.
        *args: Its arguments.
        **kwargs: More of its arguments.
    """
    try:
        return compute(*args, **kwargs)
    except CudalensError:
        raise
    except Exception as error:
        _log.debug("%s failed", what, exc_info=True)
        _failures.setdefault(trace, {})[what] = Problem(f"fault of cudalens: {what} failed", 1, _described(error))
        return otherwise


def failures(trace: Trace) -> tuple[Problem, ...]:
    """Return what has failed for `trace` so far."""
    return tuple(_failures.get(trace, {}).values())


def _described(error: Exception) -> str:
    """``ValueError at cpu_rules.py:67: ...``."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}: {str(error)[:_MAX_TEXT]}"
