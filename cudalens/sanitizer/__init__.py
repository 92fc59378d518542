"""The stream-race sanitizer: find accesses to the same memory that no stream, event or synchronisation orders.

`replay` checks a recorded program and needs no torch. `sanitize` checks a running one; `access` reports kernels to it
that torch does not observe.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from cudalens.sanitizer.engine import Access, Memory, Race, RaceKind
from cudalens.sanitizer.replay import replay
from cudalens.sanitizer.settings import Suppressions, SuppressionWarning, read_suppressions

if TYPE_CHECKING:
    from cudalens.sanitizer.live.sanitize import RaceWarning, Sanitizer, access, running, sanitize
    from cudalens.sanitizer.settings import Status

__all__ = [
    "Access",
    "Memory",
    "Race",
    "RaceKind",
    "RaceWarning",
    "Sanitizer",
    "Status",
    "SuppressionWarning",
    "Suppressions",
    "Touch",
    "access",
    "read_suppressions",
    "replay",
    "running",
    "sanitize",
]

Touch = Access  #: another name of `Access`

#: Names that need torch, imported on first use.
_LIVE: Final = frozenset({"RaceWarning", "Sanitizer", "Status", "access", "running", "sanitize"})


def __getattr__(name: str) -> Any:
    if name not in _LIVE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.live.sanitize"), name)
    return value
