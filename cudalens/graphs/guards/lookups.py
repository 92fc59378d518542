"""Containers through which guards look up values that are not items of a dict, a list or a tuple."""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import CellType
from typing import Any, Final

import torch

_BASES: Final = (OrderedDict, dict, list, deque, tuple, set, frozenset)


def module_of(kind: Any) -> str:
    """The name of the module of a class; "" where the class has something else in its place."""
    found = getattr(kind, "__module__", None)
    return found if isinstance(found, str) else ""


def items_in(held: Any) -> Any:
    """A container itself, or its items where its class is a subclass, which may replace the methods."""
    base = next((base for base in _BASES if isinstance(held, base)), None)
    return held if base is None or type(held) is base else BaseItems(held, base)


def attributes_in(owner: Any) -> dict[str, Any] | None:
    """The ``__dict__`` of an object, read without its ``__getattribute__``; None if it has none."""
    try:
        held = object.__getattribute__(owner, "__dict__")
    except (AttributeError, TypeError):
        return None
    return held if isinstance(held, dict) else None


def slots_of(base: type) -> dict[str, None]:
    """The names of the slots of a class, private ones as code has them (``_Class__name``)."""
    slots = base.__dict__.get("__slots__", ())
    prefix = f"_{base.__name__.lstrip('_')}"
    names = (slots,) if isinstance(slots, str) else slots
    return {f"{prefix}{name}" if name.startswith("__") and not name.endswith("__") else name: None for name in names}


class CellItems:
    """A closure's variable, looked up like an item."""

    __slots__ = ("_cell",)

    def __init__(self, cell: CellType) -> None:
        self._cell = cell

    def __getitem__(self, key: str) -> Any:
        return self._cell.cell_contents

    def __setitem__(self, key: str, value: Any) -> None:
        self._cell.cell_contents = value


class ItemsAt:
    """The items of the container that is in a place now."""

    __slots__ = ("_holder", "_key")

    def __init__(self, holder: Any, key: Any) -> None:
        self._holder, self._key = holder, key

    def __getitem__(self, key: Any) -> Any:
        return self._holder[self._key][key]


def place_id(container: Any, key: Any) -> tuple[int, Any]:
    """Identity of the place of a value, while its container lives."""
    return id(container.owner if isinstance(container, AttributeItems) else container), key


class AttributeItems:
    """The attributes of an object of the interpreter or of torch: reading them runs no code of a program."""

    __slots__ = ("_owner",)

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    @property
    def owner(self) -> Any:
        """The object."""
        return self._owner

    def __getitem__(self, key: str) -> Any:
        return getattr(self._owner, key)

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self._owner, key, value)


class LocalItems:
    """The attributes of a ``threading.local`` in the calling thread."""

    __slots__ = ("_owner",)

    def __init__(self, owner: threading.local) -> None:
        self._owner = owner

    def __getitem__(self, key: str) -> Any:
        return self.held()[key]

    def __len__(self) -> int:
        return len(self.held())

    def held(self) -> dict[str, Any]:
        """The ``__dict__`` of the calling thread."""
        found: dict[str, Any] = threading.local.__getattribute__(self._owner, "__dict__")
        return found


class SlotItems:
    """The ``__slots__`` of an object, read without its ``__getattr__`` and ``__getattribute__``."""

    __slots__ = ("_kind", "_owner")

    def __init__(self, owner: Any, kind: type) -> None:
        self._owner, self._kind = owner, kind

    @property
    def owner(self) -> Any:
        """The object."""
        return self._owner

    def __getitem__(self, key: str) -> Any:
        return self._kind.__dict__[key].__get__(self._owner)

    def __setitem__(self, key: str, value: Any) -> None:
        self._kind.__dict__[key].__set__(self._owner, value)


class BaseItems:
    """The items of a subclass of dict, list, tuple, set or deque, read without methods of the subclass.

    A program's ``__getitem__`` can make a new object in every call (a registry of classes), count, or add a key.
    """

    __slots__ = ("_base", "_owner")

    def __init__(self, owner: Any, base: Any) -> None:
        self._owner, self._base = owner, base

    def __getitem__(self, key: Any) -> Any:
        return self._base.__getitem__(self._owner, key)

    def __len__(self) -> int:
        return int(self._base.__len__(self._owner))

    def __iter__(self) -> Iterator[Any]:
        return iter(self._base.__iter__(self._owner))

    @property
    def has_keys(self) -> bool:
        """Whether it is a dict."""
        return issubclass(self._base, dict)

    @property
    def base(self) -> Any:
        """The built-in class whose methods are called."""
        return self._base

    @property
    def owner(self) -> Any:
        """The container."""
        return self._owner

    def items(self) -> list[tuple[Any, Any]]:
        """Keys or positions, with the values."""
        return [(key, self[key]) for key in self] if self.has_keys else list(enumerate(self))


class IsGradientMissing:
    """Whether the ``.grad`` of a tensor is None."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def __getitem__(self, key: str) -> bool:
        return self.tensor.grad is None


class Version:
    """How often autograd counted an in-place change of a tensor."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor

    def __getitem__(self, key: str) -> int:
        return self._tensor._version


class Elements:
    """The elements of a set in their order, looked up as one value."""

    __slots__ = ("_owner",)

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    def __getitem__(self, key: str) -> tuple[Any, ...]:
        return tuple(items_in(self._owner))


class ScriptItems:
    """The attributes of a ScriptModule, which are in C++; as text what is converted anew in every look-up."""

    __slots__ = ("_module",)

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getitem__(self, key: str) -> Any:
        found = self._module._c.getattr(key)
        return found if isinstance(found, torch.Tensor) else repr(found)

    def names(self) -> list[str] | None:
        """Attributes besides parameters and buffers; None if they are not known, as after ``torch.jit.load``."""
        known = getattr(self._module, "_concrete_type", None)
        return (
            None
            if known is None
            else [name for name, (_, is_parameter) in known.get_attributes().items() if not is_parameter]
        )


class Environment:
    """Environment variables; None for one that is not set."""

    __slots__ = ()

    def __getitem__(self, key: str) -> str | None:
        return os.environ.get(key)


class CallValue:
    """What a getter returns, as text where it is not a number or text; a look-up error where it raises one."""

    __slots__ = ("_arguments", "_function")

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._function, self._arguments = function, arguments

    def __getitem__(self, key: str) -> Any:
        try:
            value = self._function(*self._arguments)
        except Exception as error:
            raise LookupError(str(error)) from error
        return compared(value)


def compared(value: Any) -> Any:
    """A result of a getter as it is compared: a number or text as it is, anything else as text."""
    return value if type(value) in (bool, int, float, str, type(None)) else repr(value)


class MethodValue:
    """What a property or method of an object returns, like `CallValue`; it does not keep the object alive."""

    __slots__ = ("_arguments", "_owner", "_value_of")

    def __init__(self, owner: weakref.ref[Any], value_of: Callable[..., Any], *arguments: Any) -> None:
        self._owner, self._value_of, self._arguments = owner, value_of, arguments

    def __getitem__(self, key: str) -> Any:
        if not self.is_alive():
            raise LookupError("the object is freed")
        return CallValue(self._value_of, self._owner(), *self._arguments)[key]

    def is_alive(self) -> bool:
        """Whether the object exists: one that a call makes for itself does not, after it."""
        return self._owner() is not None


class ContextValue:
    """The value of a ContextVar in the current context; None where it has none."""

    __slots__ = ("_variable",)

    def __init__(self, variable: ContextVar[Any]) -> None:
        self._variable = variable

    def __getitem__(self, key: str) -> Any:
        try:
            return self._variable.get()
        except LookupError:
            return None


class ScalerStages:
    """How far the steps of a ``GradScaler`` are, for each optimizer, as text: empty between steps.

    Each ``update()`` makes another table. Its tensors belong to one step: to hold them would keep memory of the pool.
    """

    __slots__ = ("_scaler",)

    def __init__(self, scaler: torch.amp.GradScaler) -> None:
        self._scaler = scaler

    def __getitem__(self, key: str) -> str:
        states = self._scaler._per_optimizer_states
        return ", ".join(f"{optimizer}: {state['stage']}" for optimizer, state in states.items())

    def __setitem__(self, key: str, value: str) -> None:
        if value:
            raise ValueError("the tensors of a step that was begun are not known")
        states: Any = self._scaler._per_optimizer_states  # a defaultdict
        self._scaler._per_optimizer_states = type(states)(states.default_factory)


class CacheMisses:
    """How often a function under ``functools.lru_cache`` was computed: another number means other results."""

    __slots__ = ("_function",)

    def __init__(self, function: Any) -> None:
        self._function = function

    def __getitem__(self, key: str) -> int:
        return int(self._function.cache_info().misses)


class Contents:
    """The bytes of a buffer: a NumPy array, a bytearray, an ``array.array``."""

    __slots__ = ("_owner",)

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    def __getitem__(self, key: str) -> bytes:
        return bytes(memoryview(self._owner).tobytes())


class NumpyState:
    """The state of a NumPy random number generator, as text."""

    __slots__ = ("_bit_generator",)

    def __init__(self, bit_generator: Any) -> None:
        self._bit_generator = bit_generator

    def __getitem__(self, key: str) -> str:
        return repr(self._bit_generator.state)


class Written:
    """The contents of an ``io.StringIO`` or ``io.BytesIO``."""

    __slots__ = ("_file",)

    def __init__(self, file: Any) -> None:
        self._file = file

    def __getitem__(self, key: str) -> Any:
        return self._file.getvalue()


#: Their look-ups may make a new object each time, which is compared by value.
MAKERS: Final = (
    CacheMisses, CallValue, Contents, Elements, Environment, MethodValue, NumpyState, ScalerStages, ScriptItems,
    Version, Written,
)  # fmt: skip
