"""Find values that a program reads by a method or property of an object of torch, as ``len(loader)``.

The code of such a class is not read for names, so the method itself is called again before each replay, with the same
object. A method is one that reads if Python or torch use its name for that, or if its code stores nothing. Another one
that returns a plain value cannot be repeated, nor can one that gives an item, which a data set of the program may make.
"""

from __future__ import annotations

import dis
import functools
import inspect
import re
import weakref
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final

import torch

from cudalens.graphs.guards.code_names import names_of
from cudalens.graphs.guards.files import is_of_torch, is_searched
from cudalens.graphs.guards.found import Read
from cudalens.graphs.guards.lookups import MethodValue, compared
from cudalens.graphs.guards.torch_getters import GETTER_NAME, is_plain

_SPECIAL: Final = frozenset({"__bool__", "__contains__", "__len__", "__repr__", "__str__"})

#: How a special method is written in a program.
_WRITTEN: Final = {
    "__bool__": "bool({})",
    "__len__": "len({})",
    "__repr__": "repr({})",
    "__str__": "str({})",
    "__getitem__": "an item of {}",
}

#: Objects whose state is compared or replayed in ways of their own.
_OTHER_OWNERS: Final[Any] = (
    torch.Tensor, torch.Generator, torch.UntypedStorage, torch.TypedStorage, torch.amp.GradScaler, torch.cuda.CUDAGraph,
    torch.optim.Optimizer, torch.Event, torch.Stream,
)  # fmt: skip

_STORES: Final = frozenset({"DELETE_ATTR", "DELETE_SUBSCR", "STORE_ATTR", "STORE_GLOBAL", "STORE_SUBSCR"})
_NOT_PLAIN_CODE: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_VARIADIC: Final = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS

#: What pybind11 writes of a method whose result is a plain value.
_PLAIN_IN_C: Final = re.compile(
    r"\w+\(self: (torch\._C\.[\w.]+).*\) -> (bool|int|float|str|bytes|(list|dict|tuple)\[[a-z, \[\]]+\])$"
)
#: Those that wait, or whose answer an object keeps for its whole life.
_CONSTANT_IN_C: Final = frozenset({"group_name", "name", "rank", "size", "wait"})


@functools.cache
def is_method(code: CodeType) -> bool:
    """Whether code may be that of a method or property of torch that is not read for names."""
    is_other = not is_of_torch(code.co_filename) or bool(code.co_flags & (_NOT_PLAIN_CODE | _VARIADIC))
    if is_other or code.co_varnames[: min(code.co_argcount, 1)] != ("self",):
        return False
    if is_searched(code.co_filename) and not names_of(code).is_dynamic:
        return False
    return code.co_name in (*_SPECIAL, "__getitem__") or not code.co_name.startswith("__")


class MethodCall:
    """A call of a method of torch, which has begun.

    Args:
        frame: The frame, for whose code `is_method` is True.
    """

    def __init__(self, frame: FrameType) -> None:
        self._code, values = frame.f_code, frame.f_locals
        self._owner = values["self"]
        names = self._code.co_varnames[1 : self._code.co_argcount + self._code.co_kwonlyargcount]
        num_given = self._code.co_argcount - 1
        self._arguments = tuple(values[name] for name in names[:num_given])
        self._keywords = {name: values[name] for name in names[num_given:]}

    def result(self, value: Any) -> Read | str | None:
        """The value that the program read, after the call returned it.

        Returns:
            What to compare; in words, a call that cannot be repeated; None if neither is needed.
        """
        if isinstance(self._owner, _OTHER_OWNERS) or not is_plain(value):
            return None
        found = _attribute_with(self._code, type(self._owner))
        if found is None or not is_plain([*self._arguments, *self._keywords.values()]):
            return None
        try:
            owner = weakref.ref(self._owner)
        except TypeError:
            return None
        is_property = isinstance(found, property)
        if not (is_property or _reads_only(self._code)):
            return None if value is None else self._label(is_property)
        function: Any = found.fget if is_property else found
        container = MethodValue(owner, functools.partial(_call, function, self._keywords), *self._arguments)
        try:  # a call that raised an error returned None, too, and raises it again
            found_value = compared(value) if value is not None else container[""]
        except LookupError:
            return None
        return Read(container, "", self._label(is_property), found_value)

    def _label(self, is_property: bool) -> str:
        name, kind = self._code.co_name, type(self._owner).__name__
        if name in _WRITTEN:
            return _WRITTEN[name].format(kind)
        given = [repr(value) for value in self._arguments if value is not None]
        return f"{kind}.{name}" if is_property else f"{kind}.{name}({', '.join(given)})"


def method_in_c(function: Any) -> str | None:
    """A method in C that returns a plain value of an object of torch, in words; None if a function is not one."""
    found = _PLAIN_IN_C.match((function.__doc__ or "").partition("\n")[0])
    if found is None or function.__name__ in _CONSTANT_IN_C:
        return None
    return f"{found[1].rpartition('.')[2]}.{function.__name__}()"


def _call(function: Callable[..., Any], keywords: dict[str, Any], owner: Any, *arguments: Any) -> Any:
    return function(owner, *arguments, **keywords)


@functools.cache
def _reads_only(code: CodeType) -> bool:
    """Whether a method reads: its name says so, or its code stores nothing and gives no item."""
    if code.co_name in ("state_dict", *_SPECIAL) or GETTER_NAME.fullmatch(code.co_name) is not None:
        return True
    return code.co_name != "__getitem__" and not any(at.opname in _STORES for at in dis.get_instructions(code))


def _attribute_with(code: CodeType, kind: type) -> Any:
    """The attribute of a class or of one of its bases whose code this is; None if there is none."""
    for base in kind.__mro__:
        found = base.__dict__.get(code.co_name)
        function: Any = found.fget if isinstance(found, property) else found
        if function is not None and getattr(inspect.unwrap(function), "__code__", None) is code:
            return found
    return None
