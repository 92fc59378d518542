"""Collectives in fixes: they run on another stream than the current one, so ``wait_stream`` does not apply.

A collective with ``async_op=True`` runs on a stream of its process group, which waits for the current stream of the
call. Later work has to wait for the ``Work`` object that the call returns.
"""

from __future__ import annotations

import ast
from typing import Any, Final

from cudalens.sanitizer.engine import Access
from cudalens.sanitizer.fixes.source import Located

_NAMESPACES: Final = ("c10d::", "_c10d_functional::")


def is_collective(touch: Access) -> bool:
    """Whether an access is by a collective."""
    return touch.op.startswith(_NAMESPACES)


def runs_aside(touch: Access, located: Located | None) -> bool:
    """Whether an access is by a collective that may run on another stream than the current one.

    Args:
        touch: The access.
        located: Its statement; None if the source is not available.
    """
    if not is_collective(touch):
        return False
    call = _call(located)
    if call is None or any(keyword.arg is None for keyword in call.keywords):
        return True
    given = [keyword.value for keyword in call.keywords if keyword.arg == "async_op"]
    return bool(given) and not (isinstance(given[0], ast.Constant) and given[0].value is False)


def work_name(located: Located) -> str | None:
    """The variable of the ``Work`` object, as in ``work = dist.all_reduce(x, async_op=True)``.

    None if the statement has another form, or if the variable is assigned more than once.
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
    """The call that made the access: the located expression, or the only call of the statement."""
    if located is None:
        return None
    if isinstance(located.expression, ast.Call):
        return located.expression
    calls = [node for node in ast.walk(located.statement) if isinstance(node, ast.Call)]
    return calls[0] if len(calls) == 1 else None
