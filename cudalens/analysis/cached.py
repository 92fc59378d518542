"""Compute a result once per Trace and share it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from cudalens.frames import Trace

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
