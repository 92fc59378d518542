"""Rewrites the statements of a ``%%cudagraph`` cell as a function for a graph manager, where a graph can run them.

The function takes what the cell reads and returns what it assigns. A replay runs no Python. A cell that does more than
compute (it prints, awaits, reads the clock, has other magics) is not rewritten, and the reason is reported. In a cell
that defines functions these are wrapped; a cell that calls functions under a manager is not rewritten.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cudalens.fixes.names import Names, names_of
from cudalens.magics.cells import RUN_PREFIX
from cudalens.magics.graph_reach import changing_call, decorated_in, is_pure_package
from cudalens.magics.syntax import statement_at


@dataclass(frozen=True, slots=True)
class Why:
    """Why a cell runs without a graph.

    Attributes:
        reason: Short form.
        detail: What the cell does, as the predicate of a sentence.
        advice: What to do about it.
    """

    reason: str
    detail: str
    advice: str


_SHOWS: Final = frozenset({"print", "display", "input", "tqdm", "trange", "pprint", "help"})
_SCOPE: Final = frozenset({"exec", "eval", "globals", "locals", "vars", "breakpoint", "exit", "quit", "open"})
_CLOCKS: Final = frozenset({"time", "random", "datetime", "secrets"})
_ALONE: Final = "move it to a cell of its own, or put the computation into a function: cudalens.cudagraph(fn)."

#: Why cells run without a graph, by a key.
WHYS: Final[Mapping[str, Why]] = {
    "awaits": Why("AWAITS", "awaits, and a replay runs no Python", _ALONE),
    "shows": Why("PRINTS", "prints or shows something, which a replay does not", _ALONE),
    "magic": Why("OTHER_MAGIC", "has another magic or a shell command, which a replay does not run", _ALONE),
    "scope": Why("NAMESPACE", "changes the notebook's names or works on files", _ALONE),
    "clock": Why(
        "READS_CLOCK", "reads the clock or Python's random numbers, which a replay does not read again", _ALONE
    ),
    "mode": Why(
        "SHOWS_ALL",
        "runs where IPython shows every expression, and a function shows none",
        "set ast_node_interactivity.",
    ),
    "class": Why("DEFINES_CLASS", "defines a class, and each run would define a new one", _ALONE),
    "device": Why("NO_DEVICE", "runs where there is no CUDA device", "`%cudadevice virtual h100` models one."),
    "wrote": Why("PRINTS", "printed something while it warmed up, which a replay does not", _ALONE),
}


def rewritten(body: list[ast.stmt], run: str, shell: Any, name: str | None = None) -> list[ast.stmt]:
    """Return the statements of a cell, as they run under the manager.

    Args:
        body: The user's statements; the last may store its value in ``<run>.value``.
        run: Name of the variable of the run.
        shell: The shell.
        name: Name of the function in the cell to wrap; None for all that no other one calls.

    Returns:
        The definition of a function and its call; or `body`, where it is not rewritten.
    """
    if not body or not _compiles(body):
        return body
    if functions := _wrappable(body, name):
        for function in functions:
            function.decorator_list.insert(0, _expression(f"{run}.wrap", function))
        return body
    *rest, last = body
    kept = _kept_value(last, run)
    cell = body if kept is None else [*rest, ast.copy_location(ast.Expr(kept), last)]
    names = names_of(cell)
    if decorated_in(shell.user_ns, names.read):
        return body
    if (found := _refusal(cell, run, shell)) is not None:
        key, line = found
        return [statement_at(f"{run}.refuse({key!r}, {line})", body[0]), *body]
    return _as_function(cell, run, names, shell, has_value=kept is not None)


def _as_function(body: list[ast.stmt], run: str, names: Names, shell: Any, *, has_value: bool) -> list[ast.stmt]:
    """A function of the statements and its call; with `has_value` the function returns the last expression's value."""
    given = sorted(name for name in names.needed if name in shell.user_ns and not name.startswith("_"))
    # A tensor that is written in place is looked up by name, unless it is local, so that the user's tensor is written.
    given = [name for name in given if name not in names.written or name in names.assigned]
    given = [name for name in given if name in names.assigned or is_value(shell.user_ns[name])]
    parameters = ", ".join(f"{name}=None" for name in given)
    assigned, why_once = sorted(names.assigned), _why_once(body, names)
    *rest, last = body
    value: ast.expr = ast.copy_location(ast.Constant(None), last)
    if has_value and isinstance(last, ast.Expr):
        body, value = rest, last.value
    made = f"{{k: v for k, v in locals().items() if k in {assigned!r}}}"
    function = statement_at(f"def {run}cell({parameters}): return None, {made}", last)
    assert isinstance(function, ast.FunctionDef)
    returned = function.body[0]
    assert isinstance(returned, ast.Return)
    assert isinstance(returned.value, ast.Tuple)
    returned.value.elts[0] = value
    function.body = [*body, returned]
    ast.copy_location(function, body[0] if body else last)
    facts = f"given={given!r}, static={sorted(names.written & names.assigned)!r}, why_once={why_once!r}"
    call = statement_at(f"{run}.value = {run}.call({f'{run}cell'!r}, {facts}, read={sorted(names.read)!r})", last)
    return [function, call]


def is_value(thing: Any) -> bool:
    """Return whether a variable is data of a cell and not code: no function, class or module."""
    return not callable(thing) and not isinstance(thing, type(ast))


def _kept_value(last: ast.stmt, run: str) -> ast.expr | None:
    """Return the expression of ``<run>.value = <expression>``; None where `last` is another statement."""
    if not isinstance(last, ast.Assign) or len(last.targets) != 1:
        return None
    target = last.targets[0]
    is_ours = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == run
    return last.value if is_ours else None


def _refusal(body: Sequence[ast.stmt], run: str, shell: Any) -> tuple[str, int] | None:
    """Why a cell is not rewritten (a key of `WHYS`), and the line that is the reason."""
    if shell.ast_node_interactivity in ("all", "none"):
        return "mode", body[0].lineno
    for statement in body:
        for node in ast.walk(statement):
            if (key := _refused(node, run, shell)) is not None:
                return key, getattr(node, "lineno", statement.lineno)
        if isinstance(statement, ast.ClassDef | ast.AsyncFunctionDef):
            return "class" if isinstance(statement, ast.ClassDef) else "awaits", statement.lineno
    return None


def _refused(node: ast.AST, run: str, shell: Any) -> str | None:
    match node:
        case ast.Await() | ast.AsyncFor() | ast.AsyncWith():
            return "awaits"
        case ast.Global() | ast.Nonlocal() | ast.Delete():
            return "scope"
        case ast.ImportFrom() if any(alias.name == "*" for alias in node.names):
            return "scope"
        case ast.Name(id=name):
            return _refused_name(name, run, shell)
    return None


def _refused_name(name: str, run: str, shell: Any) -> str | None:
    if (name.startswith(RUN_PREFIX) and name != run) or name == "get_ipython":
        return "magic"
    if name in _SHOWS | _SCOPE:
        return "shows" if name in _SHOWS else "scope"
    return "clock" if _is_clock(shell.user_ns.get(name)) else None


def _is_clock(thing: Any) -> bool:
    module = getattr(thing, "__name__", "") if isinstance(thing, type(ast)) else getattr(thing, "__module__", "")
    return module in _CLOCKS


def _wrappable(body: Iterable[ast.stmt], name: str | None) -> list[ast.FunctionDef]:
    """Return the functions of the cell to wrap: the one called `name`, else those that no other one calls."""
    functions = [statement for statement in body if isinstance(statement, ast.FunctionDef)]
    if named := [function for function in functions if function.name == name]:
        return named
    called = {node.id for function in functions for node in ast.walk(function) if isinstance(node, ast.Name)}
    return [function for function in functions if function.name not in called and not _yields(function)]


def _yields(function: ast.FunctionDef) -> bool:
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(function))


def _why_once(body: Sequence[ast.stmt], names: Names) -> str:
    """Why running a cell again may change a result; empty text where its statements show no reason."""
    if both := sorted(names.needed & names.assigned):
        return f"it changes {both[0]!r}, which it reads"
    if names.written:
        return f"it writes into {min(names.written)!r}"
    for node in _nodes(body):
        if isinstance(node, ast.Call) and (call := changing_call(_called(node.func))):
            return f"it calls {call}()"
        if other := [name for name in _imported(node) if not is_pure_package(name)]:
            return f"it imports {other[0]!r}"
    return ""


def _imported(node: ast.AST) -> list[str]:
    """Return the modules that a statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


def _called(function: ast.expr) -> str:
    """Return the name or the attribute that is called, an attribute with its dot; empty text for another expression."""
    match function:
        case ast.Name(id=name):
            return name
        case ast.Attribute(attr=name):
            return f".{name}"
    return ""


def _nodes(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    for statement in body:
        yield from ast.walk(statement)


def _compiles(body: list[ast.stmt]) -> bool:
    """Return whether `body` is valid outside of a function: a function around it must not make its ``return`` valid."""
    try:
        compile(ast.Module(body, []), "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError, TypeError):
        return False
    return True


def _expression(source: str, like: ast.stmt) -> ast.expr:
    statement = statement_at(source, like)
    assert isinstance(statement, ast.Expr)
    return statement.value
