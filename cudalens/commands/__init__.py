"""The verbs of the ``cudalens`` command: one module each, with its options and what it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cudalens.commands import (
    attach,
    brief,
    check,
    compare,
    convert,
    diff_memory,
    doctor,
    hang,
    job,
    mcp,
    query,
    ranks,
    report,
    summary,
    view,
)

if TYPE_CHECKING:
    from types import ModuleType

#: In the order of ``cudalens --help``. Each has ``add(verbs)``, which adds the verb's parser.
VERBS: Final[tuple[ModuleType, ...]] = (
    report,
    view,
    summary,
    brief,
    check,
    convert,
    ranks,
    compare,
    diff_memory,
    query,
    hang,
    job,
    attach,
    mcp,
    doctor,
)
