"""Contain an analysis or a view that raises: it becomes a problem of the Trace, and everything else is shown."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from cudalens.errors import CudalensError
from cudalens.frames.info import Problem

if TYPE_CHECKING:
    from cudalens.frames import Trace

T = TypeVar("T")
P = ParamSpec("P")

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
