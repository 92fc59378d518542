"""What a cell reaches through the functions that it calls: whatever of it changes, a recorded graph does not know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, Final
from weakref import ref

_PLAIN: Final = (int, float, complex, bool, str, bytes, type(None))


class Bound:
    """What a name stands for, compared by identity and not kept alive: another function of that name is another key."""

    __slots__ = ("_hash", "_ref", "_text")

    def __init__(self, thing: Any) -> None:
        self._hash = id(thing)
        try:
            self._ref: Any = ref(thing)
        except TypeError:  # a builtin function, which does not change
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
    """What recordings of a cell depend on besides what it is given, by name.

    Args:
        namespace: The user's.
        names: Names that the cell reads.
        given: Names whose values are arguments already.

    Returns:
        Plain values as they are; functions and modules by identity. Tensors are left out: a manager finds them itself.
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
    """Names among those that a cell reaches which stand for functions under a graph manager."""
    return [name for name, thing in _reached(namespace, names).items() if _is_decorated(thing)]


def modules_in(namespace: Mapping[str, Any], names: Iterable[str]) -> list[Any]:
    """The nn.Modules among what a cell reaches."""
    return [thing for thing in _reached(namespace, names).values() if hasattr(type(thing), "named_parameters")]


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
    """Whether it is code of an installed package or of Python itself, which does not change."""
    if isinstance(thing, ModuleType):
        return True
    is_code = isinstance(thing, FunctionType | BuiltinFunctionType | type)
    return is_code and getattr(thing, "__module__", None) != "__main__"


def _is_decorated(thing: Any) -> bool:
    function = getattr(thing, "__func__", thing)
    kinds = (type(function), *(type(module) for module in _parts(function)))
    return any(kind.__module__.startswith("cudalens.graphs") for kind in kinds)


def _parts(thing: Any) -> Iterable[Any]:
    """Modules within a module: one of them may be decorated."""
    return thing.modules() if hasattr(type(thing), "named_parameters") else ()
