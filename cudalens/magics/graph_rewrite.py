"""Rewrites the statements of a ``%%cudagraph`` cell as a function for a graph manager, where a graph can run them.

The function takes what the cell reads and returns what it assigns. A replay runs no Python. A cell that does more than
compute (it prints, awaits, reads the clock, has other magics) is not rewritten, and the reason is reported. In a cell
that defines functions these are wrapped; a cell that calls functions under a manager is not rewritten.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final
from weakref import ref

from cudalens.fixes.names import Names, names_of
from cudalens.magics.cells import RUN_PREFIX
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
    "function": Why(
        "DEFINES_FUNCTION", "keeps a function that reads variables of the cell when it is called later", _ALONE
    ),
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
            source = f"{run}.wrap"
            statement = statement_at(source, function)
            assert isinstance(statement, ast.Expr)
            function.decorator_list.insert(0, statement.value)
        return body
    *rest, last = body
    kept = _kept_value(last, run)
    cell = body if kept is None else [*rest, ast.copy_location(ast.Expr(kept), last)]
    names = names_of(cell)
    if decorated_in(shell.user_ns, names.read):
        return body
    variables = names.assigned | set(_given(names, shell))
    if (found := _refusal(cell, run, shell, variables)) is not None:
        key, line = found
        return [statement_at(f"{run}.refuse({key!r}, {line})", body[0]), *body]
    return _as_function(cell, run, names, shell, has_value=kept is not None)


def _as_function(body: list[ast.stmt], run: str, names: Names, shell: Any, *, has_value: bool) -> list[ast.stmt]:
    """A function of the statements and its call; with `has_value` the function returns the last expression's value."""
    given = _given(names, shell)
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


def _given(names: Names, shell: Any) -> list[str]:
    """Return the names whose values are arguments of the function."""
    given = sorted(name for name in names.needed if name in shell.user_ns and not name.startswith("_"))
    # A tensor that is written in place is looked up by name, unless it is local, so that the user's tensor is written.
    given = [name for name in given if name not in names.written or name in names.assigned]
    return [name for name in given if name in names.assigned or is_value(shell.user_ns[name])]


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


def _refusal(body: Sequence[ast.stmt], run: str, shell: Any, variables: Container[str]) -> tuple[str, int] | None:
    """Why a cell is not rewritten (a key of `WHYS`), and the line that is the reason.

    Args:
        body: The statements.
        run: Name of the variable of the run.
        shell: The shell.
        variables: Names that would be local to the function.
    """
    if shell.ast_node_interactivity in ("all", "none"):
        return "mode", body[0].lineno
    for statement in body:
        for node in ast.walk(statement):
            if (key := _refused(node, run, shell)) is not None:
                return key, getattr(node, "lineno", statement.lineno)
        for function in _kept_functions(statement):
            if any(isinstance(node, ast.Name) and node.id in variables for node in ast.walk(function)):
                return "function", function.lineno
    return None


#: Functions that call a function or use up an iterator among their arguments before they return.
_USING_UP: Final = frozenset(
    {"sorted", "min", "max", "sum", "any", "all", "list", "tuple", "set", "frozenset", "dict", "join", "sort"}
    | {"reduce", "tree_map", "tree_map_only"}
)


def _kept_functions(node: ast.AST, *, is_used_up: bool = False) -> Iterator[ast.expr | ast.stmt]:
    """Return functions and generators in a statement that may still exist after it: a call of one would read variables.

    In a notebook such a function reads the names of the notebook as they are then; in a function around the cell, they
    are what the cell left.

    Args:
        node: The statement, or a part of it.
        is_used_up: Whether what is around the part calls or iterates over its value at once.
    """
    if isinstance(node, ast.FunctionDef):
        yield node
        return
    if isinstance(node, ast.Lambda | ast.GeneratorExp) and not is_used_up:
        yield node
    for child in ast.iter_child_nodes(node):
        match node:
            case ast.Call(func=function):
                name = _called(function).lstrip(".")
                is_item = name == "dict" and isinstance(child, ast.keyword)  # dict(call=lambda: ...)
                is_used = child is function or ((is_used_up or name in _USING_UP) and not is_item)
            case ast.For(iter=iterated) | ast.comprehension(iter=iterated):
                is_used = child is iterated
            case ast.Assign(targets=targets):  # a, *b = (x * n for n in range(3))
                is_used = all(isinstance(target, ast.Tuple | ast.List) for target in targets)
            case _:
                is_used = isinstance(node, ast.Starred) or (is_used_up and isinstance(node, ast.keyword))
        yield from _kept_functions(child, is_used_up=is_used)


def _refused(node: ast.AST, run: str, shell: Any) -> str | None:
    match node:
        case ast.Await() | ast.AsyncFor() | ast.AsyncWith() | ast.AsyncFunctionDef():
            return "awaits"
        case ast.ClassDef():
            return "class"
        case ast.Global() | ast.Nonlocal() | ast.Delete():
            return "scope"
        case ast.ImportFrom() if any(alias.name == "*" for alias in node.names):
            return "scope"
        case ast.Name(id=name):
            if (name.startswith(RUN_PREFIX) and name != run) or name == "get_ipython":
                return "magic"
            if name in _SHOWS | _SCOPE:
                return "shows" if name in _SHOWS else "scope"
            return "clock" if _is_clock(shell.user_ns.get(name)) else None
    return None


def _is_clock(thing: Any) -> bool:
    module = getattr(thing, "__name__", "") if isinstance(thing, type(ast)) else getattr(thing, "__module__", "")
    return module in _CLOCKS


def _wrappable(body: Iterable[ast.stmt], name: str | None) -> list[ast.FunctionDef]:
    """Return the functions of the cell to wrap: the one called `name`, else those that no other one calls."""
    functions = [statement for statement in body if isinstance(statement, ast.FunctionDef)]
    if named := [function for function in functions if function.name == name]:
        return named
    called = {node.id for function in functions for node in ast.walk(function) if isinstance(node, ast.Name)}
    return [
        function
        for function in functions
        if function.name not in called
        and not any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(function))
    ]


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


# The objects that a ``%%cudagraph`` cell reaches through the functions that it calls, and whether they keep state.

_PLAIN: Final = (int, float, complex, bool, str, bytes, type(None))


class Bound:
    """An object that a name is bound to, compared by identity through a weak reference."""

    __slots__ = ("_hash", "_ref", "_text")

    def __init__(self, thing: Any) -> None:
        self._hash = id(thing)
        try:
            self._ref: Any = ref(thing)
        except TypeError:  # a builtin function
            self._ref = lambda: thing
        self._text = f"<{getattr(thing, '__name__', None) or type(thing).__name__}>"

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Bound):
            return NotImplemented
        thing = self._ref()
        return thing is not None and thing is other._ref()

    def __repr__(self) -> str:
        return self._text


def bound_values(namespace: Mapping[str, Any], names: Iterable[str], given: Iterable[str]) -> dict[str, Any]:
    """Return what recordings of a cell depend on besides its arguments, by name.

    Args:
        namespace: The user's namespace.
        names: Names that the cell reads.
        given: Names whose values are arguments.

    Returns:
        Plain values; functions and modules by identity. Tensors are left out, because a manager finds them.
    """
    known = set(given)
    found: dict[str, Any] = {}
    for name, thing in sorted(_reached(namespace, names).items()):
        if name in known:
            continue
        if isinstance(thing, _PLAIN):
            found[name] = thing
        elif callable(thing) and not _is_library(thing):
            found[name] = Bound(thing)
    return found


def decorated_in(namespace: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Names that a cell reaches and that are functions under a graph manager."""
    return [name for name, thing in _reached(namespace, names).items() if _is_decorated(thing)]


def data_in(namespace: Mapping[str, Any], names: Iterable[str]) -> list[Any]:
    """The data that a cell reaches: tensors, modules, and lists, tuples and dictionaries, which may contain them."""
    return [
        thing
        for thing in _reached(namespace, names).values()
        if isinstance(thing, list | tuple | dict) or hasattr(type(thing), "named_parameters") or _is_tensor(thing)
    ]


def _reached(namespace: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in found or name not in namespace:
            continue
        thing = found[name] = namespace[name]
        function = getattr(thing, "__func__", thing)
        if isinstance(function, FunctionType) and function.__globals__ is namespace:
            waiting.extend(_globals(function.__code__))
    return found


def _globals(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals(constant)


def _is_library(thing: Any) -> bool:
    """Return whether it is code of an installed package or of Python, which does not change while the notebook runs."""
    if isinstance(thing, ModuleType):
        return True
    is_code = isinstance(thing, FunctionType | BuiltinFunctionType | type)
    return is_code and getattr(thing, "__module__", None) != "__main__"


def _is_decorated(thing: Any) -> bool:
    function = getattr(thing, "__func__", thing)
    kinds = (type(function), *(type(module) for module in _parts(function)))
    return any(kind.__module__.startswith("cudalens.graphs") for kind in kinds)


def _parts(thing: Any) -> Iterable[Any]:
    """Return the modules in a module: one of them may be under a manager."""
    return thing.modules() if hasattr(type(thing), "named_parameters") else ()


#: Names of calls that change something besides their result.
_CHANGING: Final = frozenset(
    {".append", ".appendleft", ".extend", ".insert", ".remove", ".pop", ".popleft", ".popitem", ".clear", ".update"}
    | {".add", ".discard", ".setdefault", ".write", ".backward", ".step", ".zero_grad", ".load_state_dict", ".fill"}
    | {".send", ".put", ".record", ".train", ".eval", "setattr", "delattr", "next", "open", "exec", "eval", "print"}
)

#: Packages whose functions keep no state that a second call changes, apart from tensors and random numbers.
_PURE_PACKAGES: Final = frozenset(
    {"torch", "math", "cmath", "operator", "functools", "itertools", "builtins", "typing", "collections", "dataclasses"}
    | {"einops"}
)
_CONSTANTS: Final = (range, slice, type(...))

_STORES: Final = frozenset(
    {"STORE_ATTR", "DELETE_ATTR", "STORE_GLOBAL", "DELETE_GLOBAL", "STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE"}
)
_HOOKS: Final = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_MAX_OBJECTS: Final = 10_000


def changing_call(name: str) -> str:
    """`name` (with a dot where it is an attribute) if a call of it changes something; else empty text."""
    is_in_place = name.endswith("_") and name.startswith(".") and not name.startswith("._")
    return name if name in _CHANGING or is_in_place or name.startswith(".register_") else ""


def state_reached(namespace: Mapping[str, Any], names: Iterable[str]) -> str:
    """Why running a cell again may change something, from the objects that it reaches; empty text where nothing may.

    Only objects that are known to keep no state pass: plain values, tensors and containers of them, functions of
    some packages, modules and functions whose code stores nothing. Tensors that are written are found by observation,
    not here.

    Args:
        namespace: The user's namespace.
        names: Names that the cell reads.
    """
    search = _StateSearch()
    for name in sorted(names):
        try:
            why = search.reason(namespace[name]) if name in namespace else ""
        except Exception:  # an object that raises when it is looked at
            why = "which cannot be searched for state"
        if why:
            return f"it uses {name!r}, {why}"
    return ""


class _StateSearch:
    """Searches objects for state that a second run of a cell may change."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def reason(self, thing: Any) -> str:
        """Why `thing` may keep state, as an apposition; empty text where it does not."""
        if isinstance(thing, _PLAIN) or _is_tensor(thing) or id(thing) in self._seen:
            return ""
        if len(self._seen) >= _MAX_OBJECTS:
            return "which holds too many objects to search"
        self._seen.add(id(thing))
        match thing:
            case MethodType():
                return self._first([thing.__func__, thing.__self__])
            case functools.partial():
                return self._first([thing.func, *thing.args, *thing.keywords.values()])
            case dict():
                return self._first(thing.values())
            case list() | tuple() | set() | frozenset():
                return self._first(thing)
        return self._of_object(thing)

    def _of_object(self, thing: Any) -> str:
        if hasattr(type(thing), "named_parameters"):
            for part in thing.modules():
                if any(getattr(part, name, None) for name in _HOOKS):
                    return f"which has a module with hooks ({type(part).__name__})"
                for kind in type(part).__mro__:
                    if not is_pure_package(kind.__module__):
                        methods = [m for n, m in vars(kind).items() if isinstance(m, FunctionType) and n != "__init__"]
                        if why := self._first(methods):
                            return why
            return ""
        if _is_pure_library(thing):
            return ""
        if isinstance(thing, FunctionType):
            return self._of_function(thing)
        if isinstance(thing, ModuleType | type):
            return f"a {'module' if isinstance(thing, ModuleType) else 'class'} that may have effects"
        return f"an object of {type(thing).__name__}, which may keep state"

    def _first(self, things: Iterable[Any]) -> str:
        return next((why for thing in things if (why := self.reason(thing))), "")

    def _of_function(self, function: FunctionType) -> str:
        """Why a function of the user may keep state: by its code, its closure, its defaults and its globals."""
        if what := _changes(function.__code__):
            return f"which reaches {function.__name__}(), where {what}"
        cells = [cell.cell_contents for cell in function.__closure__ or () if _is_bound(cell)]
        defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
        named = [function.__globals__[name] for name in _globals(function.__code__) if name in function.__globals__]
        return self._first([*cells, *defaults, *named])


def _changes(code: CodeType, *, is_inner: bool = False) -> str:
    """Return what in `code` changes something that remains after the call; empty text where nothing does."""
    import dis

    for instruction in dis.get_instructions(code):
        name = str(instruction.argval)
        if instruction.opname == "IMPORT_NAME" and not is_pure_package(name):
            return f"{name!r} is imported"
        is_free = instruction.opname == "STORE_DEREF" and name in code.co_freevars and not is_inner
        if instruction.opname in _STORES or is_free:
            return f"{name!r} is assigned" if "SUBSCR" not in instruction.opname else "an item is assigned"
        is_attribute = instruction.opname in ("LOAD_ATTR", "LOAD_METHOD")
        is_global = instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME")
        if (is_attribute or is_global) and (call := changing_call(f".{name}" if is_attribute else name)):
            return f"{call} is called"
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return next((what for one in inner if (what := _changes(one, is_inner=True))), "")


def _is_pure_library(thing: Any) -> bool:
    """Return whether it is a module, a class, a function or a constant of a package without state."""
    if isinstance(thing, ModuleType):
        return is_pure_package(thing.__name__)
    if isinstance(thing, FunctionType | BuiltinFunctionType | type):
        owner = getattr(thing, "__self__", None)
        name = thing.__module__ or type(owner).__module__
        return is_pure_package(name) and (owner is None or isinstance(owner, ModuleType | type))
    return type(thing).__module__ == "torch" or isinstance(thing, _CONSTANTS)


def is_pure_package(name: str) -> bool:
    """Return whether the module `name` is of a package whose functions keep no state."""
    return name.partition(".")[0] in _PURE_PACKAGES


def _is_tensor(thing: Any) -> bool:
    return hasattr(type(thing), "__torch_function__") and hasattr(type(thing), "untyped_storage")


def _is_bound(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False
