"""Collectives in fixes: their work is not the current stream's, so that no ``wait_stream`` written there concerns it.

A collective that was called with ``async_op=True`` runs on a stream of its process group's own, which waited for the
current stream of the call. What comes later has to wait for the work that the call returned.
"""

from __future__ import annotations

import ast
from typing import Any, Final

from cudalens.sanitizer.engine import Touch
from cudalens.sanitizer.fixes.source import Located

_NAMESPACES: Final = ("c10d::", "_c10d_functional::")


def is_collective(touch: Touch) -> bool:
    """Whether an access is a collective's."""
    return touch.op.startswith(_NAMESPACES)


def runs_aside(touch: Touch, located: Located | None) -> bool:
    """Whether an access is that of a collective which may run on a stream of its own.

    Args:
        touch: The access.
        located: Where it is in the source; None where that is not to be had.
    """
    if not is_collective(touch):
        return False
    call = _call(located)
    if call is None or any(keyword.arg is None for keyword in call.keywords):
        return True
    given = [keyword.value for keyword in call.keywords if keyword.arg == "async_op"]
    return bool(given) and not (isinstance(given[0], ast.Constant) and given[0].value is False)


def work_name(located: Located) -> str | None:
    """The variable that holds the work and nothing else: ``work = dist.all_reduce(x, async_op=True)``.

    None where it is not so simple.
    """
    statement: Any = located.statement
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign):
        target = statement.target
    else:
        return None
    is_whole = statement.value is not None and statement.value is _call(located)
    if not is_whole or not isinstance(target, ast.Name):
        return None
    bound = [n for n in ast.walk(located.scope) if isinstance(n, ast.Name) and n.id == target.id]
    return target.id if sum(isinstance(n.ctx, ast.Store) for n in bound) == 1 else None


def _call(located: Located | None) -> ast.Call | None:
    """The call that made the access: the expression at the place, or the only one of the statement."""
    if located is None:
        return None
    if isinstance(located.expression, ast.Call):
        return located.expression
    calls = [node for node in ast.walk(located.statement) if isinstance(node, ast.Call)]
    return calls[0] if len(calls) == 1 else None
