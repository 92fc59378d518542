"""How the statements of a ``%%cudagraph`` cell become a function that a graph manager can run, and when they do not.

The function takes what the cell reads and returns what it assigns. A replay runs no Python: so a cell that does more
than compute (it prints, awaits, reads the clock, holds other magics) stays as it is, and the reason is told. A cell
that defines functions has those wrapped, one that calls functions under a manager runs as it is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cudalens.magics.cell_names import Names, names_of
from cudalens.magics.graph_options import GraphOptions
from cudalens.magics.graph_reach import decorated_in

RUN_PREFIX: Final = "__cudalens_run_"
"""How the names begin under which runs stand in the user's namespace."""


@dataclass(frozen=True, slots=True)
class Why:
    """Why a cell runs as it is.

    Attributes:
        reason: In a word.
        detail: In a sentence, of the cell.
        advice: What to do about it.
    """

    reason: str
    detail: str
    advice: str


_SHOWS: Final = frozenset({"print", "display", "input", "tqdm", "trange", "pprint", "help"})
_SCOPE: Final = frozenset({"exec", "eval", "globals", "locals", "vars", "breakpoint", "exit", "quit", "open"})
_CLOCKS: Final = frozenset({"time", "random", "datetime", "secrets"})
_ALONE: Final = "move it to a cell of its own, or put the computation into a function: cudalens.cudagraph(fn)."

WHYS: Final[Mapping[str, Why]] = {
    "awaits": Why("AWAITS", "awaits, and a replay runs no Python", _ALONE),
    "shows": Why("PRINTS", "prints or shows something, which a replay would not", _ALONE),
    "magic": Why("OTHER_MAGIC", "holds another magic or a shell command, which a replay would not run", _ALONE),
    "scope": Why("NAMESPACE", "works on the notebook's names themselves or on files", _ALONE),
    "clock": Why(
        "READS_CLOCK", "reads the clock or Python's random numbers, which a replay would not read anew", _ALONE
    ),
    "mode": Why(
        "SHOWS_ALL", "is set to show every expression, and a function shows none", "set ast_node_interactivity."
    ),
    "class": Why("DEFINES_CLASS", "defines a class, which would be a new one in every run", _ALONE),
    "device": Why("NO_DEVICE", "runs where there is no CUDA device", "`%cudadevice virtual h100` models one."),
    "wrote": Why("PRINTS", "printed something while it warmed up, which a replay would not", _ALONE),
}
"""Why cells run as they are, by a key."""


def rewritten(body: list[ast.stmt], run: str, shell: Any, options: GraphOptions) -> list[ast.stmt]:
    """The statements of a cell, as they run under the manager.

    Args:
        body: The user's statements; the last may keep its value in ``<run>.value``.
        run: Name of the variable that holds the run.
        shell: The shell.
        options: What the magic line asks for.

    Returns:
        The definition of a function and its call; or `body`, where it stays as it is.
    """
    if not body or not _compiles(body):
        return body
    if functions := _wrappable(body, options.name):
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
        return [_at(f"{run}.stays({key!r}, {line})", body[0]), *body]
    return _as_function(cell, run, names, shell, has_value=kept is not None)


def _as_function(body: list[ast.stmt], run: str, names: Names, shell: Any, *, has_value: bool) -> list[ast.stmt]:
    """A function of the statements and its call; with `has_value` the last one is an expression, whose value it is."""
    given = sorted(name for name in names.needed if name in shell.user_ns and not name.startswith("_"))
    # What is written in place stays the notebook's own tensor, so it is looked up by name, unless it is a local one.
    given = [name for name in given if name not in names.written or name in names.assigned]
    given = [name for name in given if name in names.assigned or is_value(shell.user_ns[name])]
    parameters = ", ".join(f"{name}=None" for name in given)
    assigned = sorted(names.assigned)
    *rest, last = body
    value: ast.expr = ast.copy_location(ast.Constant(None), last)
    if has_value and isinstance(last, ast.Expr):
        body, value = rest, last.value
    made = f"{{k: v for k, v in locals().items() if k in {assigned!r}}}"
    function = _at(f"def {run}cell({parameters}): return None, {made}", last)
    assert isinstance(function, ast.FunctionDef)
    returned = function.body[0]
    assert isinstance(returned, ast.Return)
    assert isinstance(returned.value, ast.Tuple)
    returned.value.elts[0] = value
    function.body = [*body, returned]
    ast.copy_location(function, body[0] if body else last)
    facts = f"given={given!r}, static={sorted(names.written & names.assigned)!r}, why_once={_why_once(body, names)!r}"
    call = _at(f"{run}.value = {run}.call({f'{run}cell'!r}, {facts}, read={sorted(names.read)!r})", last)
    return [function, call]


def is_value(thing: Any) -> bool:
    """Whether a variable is something that a cell computes with, and not code: no function, class or module."""
    return not callable(thing) and not isinstance(thing, type(ast))


def _kept_value(last: ast.stmt, run: str) -> ast.expr | None:
    """The expression of ``<run>.value = <expression>``; None where `last` is another statement."""
    if not isinstance(last, ast.Assign) or len(last.targets) != 1:
        return None
    target = last.targets[0]
    is_ours = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == run
    return last.value if is_ours else None


def _refusal(body: Sequence[ast.stmt], run: str, shell: Any) -> tuple[str, int] | None:
    """Why a cell stays as it is, and the line of that."""
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
    """Functions of the cell that are to be wrapped: the one of that name, else those that no other one calls."""
    functions = [statement for statement in body if isinstance(statement, ast.FunctionDef)]
    if named := [function for function in functions if function.name == name]:
        return named
    called = {node.id for function in functions for node in ast.walk(function) if isinstance(node, ast.Name)}
    return [function for function in functions if function.name not in called and not _yields(function)]


def _yields(function: ast.FunctionDef) -> bool:
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(function))


_CHANGES: Final = frozenset(
    {"append", "extend", "insert", "remove", "pop", "clear", "update", "add", "discard", "setdefault", "write"}
    | {"backward", "step", "zero_grad", "load_state_dict", "fill", "send", "put"}
)


def _why_once(body: Sequence[ast.stmt], names: Names) -> str:
    """Why running a cell again might change what it computes; empty text where nothing shows that."""
    if both := sorted(names.needed & names.assigned):
        return f"it changes {both[0]!r}, which it reads"
    if names.written:
        return f"it writes into {min(names.written)!r}"
    for node in _nodes(body):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGES:
            return f"it calls .{node.func.attr}()"
    return ""


def _nodes(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    for statement in body:
        yield from ast.walk(statement)


def _compiles(body: list[ast.stmt]) -> bool:
    """Whether `body` is valid outside of a function; if not, no function may make its ``return`` valid."""
    try:
        compile(ast.Module(body, []), "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError, TypeError):
        return False
    return True


def _expression(source: str, like: ast.stmt) -> ast.expr:
    statement = _at(source, like)
    assert isinstance(statement, ast.Expr)
    return statement.value


def _at(source: str, like: ast.stmt) -> ast.stmt:
    """The statement `source`, at the place of `like` in the cell."""
    statement = ast.parse(source).body[0]
    for node in ast.walk(statement):
        ast.copy_location(node, like)
    return statement
