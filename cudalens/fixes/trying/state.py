"""Copy what a program can change, and restore it: variables, containers, objects, tensors, generators, settings.

The search begins at variables and follows references. An object that can neither be copied nor is known to be constant
is refused by name.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import fractions
import functools
import io
import os
import pathlib
import random
import re
import sys
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, Final

import torch

from cudalens.device.stacks import is_users_file
from cudalens.errors import FixError
from cudalens.fixes.settings import RandomStates, read_settings, restore_settings
from cudalens.fixes.values import is_equal, values_in

#: Objects that are searched at most; a program with more is refused.
_MAX_OBJECTS: Final = 2_000_000

_CONSTANT: Final = (
    *(type(None), bool, int, float, complex, str, bytes, range, slice, type(...), type(NotImplemented), types.CodeType),
    *(
        torch.dtype,
        torch.device,
        torch.Size,
        torch.memory_format,
        torch.layout,
        torch.qscheme,
        torch.finfo,
        torch.iinfo,
    ),
    *(re.Pattern, re.Match, pathlib.PurePath, enum.Enum, decimal.Decimal, fractions.Fraction, datetime.date),
    *(datetime.time, datetime.timedelta, datetime.tzinfo, weakref.ref, property, staticmethod, classmethod),
    *(types.BuiltinFunctionType, types.MethodWrapperType, types.WrapperDescriptorType, types.MethodDescriptorType),
    *(types.GetSetDescriptorType, types.MemberDescriptorType, types.GenericAlias, types.MappingProxyType),
)
#: Types by module and name that a run leaves as they are, or whose state does not change values.
_HARMLESS: Final = frozenset(
    {("_thread", "lock"), ("_thread", "RLock"), ("_thread", "_local"), ("operator", "itemgetter")}
    | {("operator", "attrgetter"), ("functools", "_lru_cache_wrapper"), ("_contextvars", "ContextVar")}
    | {("torch.cuda.streams", "Stream"), ("torch.cuda.streams", "Event"), ("torch", "Stream"), ("torch", "Event")}
    | {("torch.cuda.graphs", "CUDAGraph"), ("logging", "Logger"), ("torch", "Generator"), ("_weakrefset", "WeakSet")}
    | {("torch.utils.hooks", "RemovableHandle")}
)
#: Packages whose objects keep compiled code, recordings and caches, which a run may add to; groups of one process.
_CACHES: Final = (
    *("torch._dynamo", "torch._inductor", "torch._functorch", "torch.fx", "triton", "cudalens"),
    *("torch._C._distributed_c10d", "torch.distributed.distributed_c10d"),
)
#: Modules of objects whose state is in another process or in the operating system.
_OTHER_PROCESSES: Final = ("socket", "subprocess", "multiprocessing.context", "multiprocessing.process")


class State:
    """What a program can change, copied when this is made.

    Args:
        namespace: The program's variables.
        names: The variables that it reads or assigns; the search begins there.

    Raises:
        FixError: An object cannot be copied; the message has the expression for it.
    """

    def __init__(self, namespace: MutableMapping[str, Any], names: Iterable[str]) -> None:
        self._namespace = namespace
        self._variables = dict(namespace)
        self._names = set(names)
        self._settings = read_settings()
        self._random = RandomStates()
        self._environment = dict(os.environ)
        self._undo: list[Callable[[], None]] = []
        self._storages: dict[int, tuple[torch.Tensor, torch.Tensor, int]] = {}
        #: Tensors that the program reaches, by the expression for them.
        self.tensors: dict[str, torch.Tensor] = {}
        #: NumPy arrays that the program reaches, with the expression for each.
        self._arrays: list[tuple[str, Any]] = []
        self._seen: dict[int, Any] = {}
        self._holders: list[tuple[str, Any]] = []
        self._waiting: list[tuple[str, Any]] = [
            (name, namespace[name]) for name in sorted(set(names)) if name in namespace
        ]
        while self._waiting:
            where, value = self._waiting.pop()
            self._visit(where, value)

    @property
    def num_bytes(self) -> int:
        """Bytes of the copies of tensors."""
        return sum(size for _, _, size in self._storages.values())

    def pinned_arrays(self) -> list[str]:
        """Return the NumPy arrays that share pinned memory, by the expression for them."""
        flat_tensors = [flat for flat, _, _ in self._storages.values() if flat.device.type == "cpu"]
        pinned = [range(flat.data_ptr(), flat.data_ptr() + flat.nbytes) for flat in flat_tensors if flat.is_pinned()]
        found = []
        for where, array in self._arrays:
            address = array.__array_interface__["data"][0]
            if _is_of_pinned_tensor(array) or any(address in memory for memory in pinned):
                found.append(where)
        return found

    def restore(self) -> None:
        """Restore all; work on devices must have ended."""
        restore_settings(self._settings)
        with torch.no_grad():
            for flat, copy, num_bytes in self._storages.values():
                storage = flat.untyped_storage()
                if storage.nbytes() != num_bytes:
                    storage.resize_(num_bytes)
                flat.copy_(copy)
        for undo in self._undo:
            undo()
        # Names with two underscores are those of torch.compile, whose compiled code reads them.
        for name in [name for name in self._namespace if name not in self._variables and not name.startswith("__")]:
            del self._namespace[name]
        for name, value in self._variables.items():
            if name not in self._namespace or self._namespace[name] is not value:
                self._namespace[name] = value
        self._random.restore()
        _restore_environment(self._environment)

    def contents(self) -> dict[str, Any]:
        """Return what the containers, objects of the user and variables that were found hold now, by the expression.

        Values are numbers, text, arrays, tensors that did not exist when this was made, lengths of containers, and the
        state of torch's random generators.
        """
        found: dict[str, Any] = {}
        for where, holder in self._holders:
            if isinstance(holder, set):
                found[f"{where} (in order)"] = repr(sorted(map(_plain_text, holder)))
                continue
            is_long = isinstance(holder, list) and len(holder) > _MAX_COMPARED
            if is_long and all(isinstance(one, _PLAIN_VALUES) for one in holder):
                found[f"the elements of {where}"] = hash(tuple(holder))
                continue
            items = _items_of(where, holder)
            found[f"the length of {where}"] = len(items)
            for name, item in items:
                if id(item) not in self._seen:
                    found |= dict(values_in(name, item))
        variables = self._namespace.items()
        named = {name: value for name, value in variables if name in self._names and not name.startswith("_")}
        for name, value in named.items():
            if id(value) not in self._seen:
                found |= dict(values_in(name, value))
        return found | self._random.now()

    def _follow(self, where: str, value: Any) -> None:
        """Visit an object later; `where` is the expression for it, which messages name."""
        if not isinstance(value, _CONSTANT):
            self._waiting.append((where, value))

    def _visit(self, where: str, value: Any) -> None:
        """Copy what an object holds, add the function that restores it, and follow what it refers to."""
        if isinstance(value, _CONSTANT) or id(value) in self._seen:
            return
        self._seen[id(value)] = value  # kept, so that no other object has its id
        if len(self._seen) > _MAX_OBJECTS:
            raise FixError(f"the program reaches more than {_MAX_OBJECTS:,} objects, too many to copy ({where}).")
        for kinds, visit in _VISITORS:
            if isinstance(value, kinds):
                visit(self, where, value)
                if isinstance(value, list | dict | set | collections.deque) and getattr(value, "__dict__", None):
                    self._save_attributes(where, value, [])
                return
        self._visit_object(where, value)

    # A method for each kind of object, as `_VISITORS` lists them.

    def _visit_tensor(self, where: str, tensor: torch.Tensor) -> None:
        if getattr(type(tensor), "__torch_dispatch__", _PLAIN_DISPATCH) is not _PLAIN_DISPATCH:
            raise _refusal(where, tensor, "a tensor subclass")
        self.tensors[where] = tensor
        self._save_storage(tensor)
        layout = tensor.detach() if tensor.layout is torch.strided else None
        grad = tensor.grad if tensor.is_leaf else None
        needs_grad = tensor.requires_grad
        if grad is not None:
            self._visit(f"{where}.grad", grad)
        if vars(tensor):
            self._visit(f"{where}.__dict__", vars(tensor))

        def undo() -> None:
            if layout is not None and not _has_layout(tensor, layout):
                tensor.data = layout
            if tensor.is_leaf:
                if tensor.requires_grad != needs_grad:
                    tensor.requires_grad_(needs_grad)
                if tensor.grad is not grad:
                    tensor.grad = grad

        self._undo.append(undo)

    def _save_storage(self, tensor: torch.Tensor) -> None:
        if tensor.layout is not torch.strided:
            if tensor.layout is torch.sparse_coo:
                for part in (tensor._indices(), tensor._values()):
                    self._save_storage(part)
            return
        storage = tensor.untyped_storage()
        num_bytes = storage.nbytes()
        if num_bytes == 0 or storage._cdata in self._storages:
            return
        with torch.no_grad():
            flat = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
            self._storages[storage._cdata] = flat, flat.clone(), num_bytes

    def _visit_list(self, where: str, value: Any) -> None:
        contents = list(value)
        self._holders.append((where, value))
        for number, item in enumerate(contents):
            self._follow(f"{where}[{number}]", item)

        def undo() -> None:
            if len(value) != len(contents) or any(a is not b for a, b in zip(value, contents, strict=True)):
                value.clear()
                value.extend(contents)

        self._undo.append(undo)

    def _visit_dict(self, where: str, value: MutableMapping[Any, Any]) -> None:
        contents = dict(value)
        self._holders.append((where, value))
        for key, item in contents.items():
            self._follow(f"{where}[{key!r}]" if not isinstance(key, torch.Tensor) else f"{where}[tensor]", item)
            if not isinstance(key, str | int):
                self._follow(f"a key of {where}", key)
        self._undo.append(lambda: _restore_mapping(value, contents))

    def _visit_weak_mapping(self, where: str, value: MutableMapping[Any, Any]) -> None:
        contents = dict(value)
        for item in contents.values():
            self._follow(f"a value of {where}", item)
        self._undo.append(lambda: _restore_mapping(value, contents))

    def _visit_set(self, where: str, value: set[Any]) -> None:
        contents = set(value)
        self._holders.append((where, value))
        for item in contents:
            self._follow(f"an element of {where}", item)

        def undo() -> None:
            if value != contents:
                value.clear()
                value.update(contents)

        self._undo.append(undo)

    def _visit_bytes(self, where: str, value: bytearray) -> None:
        contents = bytes(value)

        def undo() -> None:
            value[:] = contents

        self._undo.append(undo)

    def _visit_fixed(self, where: str, value: Iterable[Any]) -> None:
        for number, item in enumerate(value):
            self._follow(f"{where}[{number}]", item)
        if hasattr(value, "__dict__"):
            self._visit_object(where, value)

    def _visit_function(self, where: str, value: types.FunctionType) -> None:
        if _is_library(value.__module__):
            return
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=False):
            self._save_cell(f"{name} of {where}", cell)
        for item in (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()):
            self._follow(f"a default of {where}", item)
        if vars(value):
            self._visit(f"{where}.__dict__", vars(value))
        self._visit_globals(value)

    def _visit_globals(self, value: types.FunctionType) -> None:
        """The global variables that a function of the user names, which it may also assign."""
        names = [name for name in names_in(value.__code__) if name in value.__globals__]
        self._names |= set(names)
        for name in names:
            self._follow(name, value.__globals__[name])
        if value.__globals__ is not self._namespace and names:
            space, before = value.__globals__, {name: value.__globals__[name] for name in names}
            self._undo.append(lambda: space.update(before))

    def _save_cell(self, where: str, cell: types.CellType) -> None:
        try:
            contents = cell.cell_contents
        except ValueError:  # not bound yet
            return
        self._holders.append((where, cell))
        self._follow(where, contents)

        def undo() -> None:
            cell.cell_contents = contents

        self._undo.append(undo)

    def _visit_method(self, where: str, value: types.MethodType) -> None:
        self._follow(f"{where}.__self__", value.__self__)
        self._follow(f"{where}.__func__", value.__func__)

    def _visit_partial(self, where: str, value: functools.partial[Any]) -> None:
        for item in (value.func, *value.args, *value.keywords.values()):
            self._follow(f"{where}.func", item)

    def _visit_generator(self, where: str, value: torch.Generator) -> None:
        state = value.get_state()

        def undo() -> None:
            value.set_state(state)

        self._undo.append(undo)

    def _visit_random(self, where: str, value: random.Random) -> None:
        state = value.getstate()
        self._undo.append(lambda: value.setstate(state))

    def _visit_module(self, where: str, value: types.ModuleType) -> None:
        """Modules are left as they are; the globals that functions of user modules name are saved with these."""

    def _visit_class(self, where: str, value: type) -> None:
        if _is_library(value.__module__):
            return
        before = {name: item for name, item in vars(value).items() if not name.startswith("__")}
        for name, item in before.items():
            self._follow(f"{where}.{name}", item)

        def undo() -> None:
            for name, item in before.items():
                if vars(value).get(name) is not item:
                    setattr(value, name, item)

        self._undo.append(undo)

    def _visit_object(self, where: str, value: Any) -> None:
        kind = type(value)
        module, name = kind.__module__, kind.__qualname__
        if (module, name) in _HARMLESS or module.startswith(_CACHES):
            return
        if module.partition(".")[0] == "numpy":
            self._visit_numpy(where, value)
            return
        if module.partition(".")[0] == "pandas" and hasattr(value, "_mgr"):
            copy = value.copy()
            self._undo.append(lambda: object.__setattr__(value, "_mgr", copy.copy()._mgr))
            return
        if isinstance(value, io.IOBase):
            if value in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
                return
            raise _refusal(where, value, "an open file")
        if hasattr(value, "__next__") and not isinstance(getattr(value, "__dict__", None), dict):
            raise _refusal(where, value, "an iterator, whose position cannot be restored")
        slots = [slot for base in kind.__mro__ for slot in _slots_of(base)]
        if not slots and not isinstance(getattr(value, "__dict__", None), dict):
            raise _refusal(where, value, "an object that cannot be copied")
        if module in _OTHER_PROCESSES or (module, name) in (("threading", "Thread"), ("threading", "Timer")):
            raise _refusal(where, value, "part of another program or thread")
        self._save_attributes(where, value, slots)

    def _save_attributes(self, where: str, value: Any, slots: list[Any]) -> None:
        slot_values = [(slot, slot.__get__(value)) for slot in slots if _is_set(slot, value)]
        for slot, item in slot_values:
            self._follow(f"{where}.{slot.__name__}", item)
        space = getattr(value, "__dict__", None)
        contents = dict(space) if isinstance(space, dict) else {}
        if contents and not _is_library(type(value).__module__):
            self._holders.append((where, value))
        for name, item in contents.items():
            self._follow(f"{where}.{name}", item)

        def undo() -> None:
            for slot, item in slot_values:
                if not _is_set(slot, value) or slot.__get__(value) is not item:
                    slot.__set__(value, item)
            if not isinstance(space, dict):
                return
            # `space` as the default: a name that is missing differs from each value.
            has_changed = any(space.get(name, space) is not item for name, item in contents.items())
            if has_changed or len(space) != len(contents):
                space.clear()
                space.update(contents)

        self._undo.append(undo)

    def _visit_numpy(self, where: str, value: Any) -> None:
        numpy: Any = sys.modules["numpy"]
        if isinstance(value, numpy.ndarray):
            copy = value.copy()
            self._arrays.append((where, value))
            if value.dtype.hasobject:
                for item in value.reshape(-1).tolist():
                    self._follow(f"an element of {where}", item)
            if value.flags.writeable:
                self._undo.append(lambda: numpy.copyto(value, copy))
        elif isinstance(value, numpy.random.Generator):
            bits, state = value.bit_generator, value.bit_generator.state
            self._undo.append(lambda: setattr(bits, "state", state))
        elif isinstance(value, numpy.random.RandomState):
            old = value.get_state()
            self._undo.append(lambda: value.set_state(old))


def _is_of_pinned_tensor(array: Any) -> bool:
    """Return whether a NumPy array was made of a pinned tensor, which the program need not reach itself."""
    numpy: Any = sys.modules["numpy"]
    base = array
    while isinstance(base, numpy.ndarray):
        base = base.base
    return isinstance(base, torch.Tensor) and base.device.type == "cpu" and base.is_pinned()


def _items_of(where: str, holder: Any) -> list[tuple[str, Any]]:
    """What a container, an object or a variable of a function holds, with the expression for each item."""
    if isinstance(holder, types.CellType):
        try:
            return [(where, holder.cell_contents)]
        except ValueError:
            return []
    if isinstance(holder, dict):
        # Tensors and objects as keys have no short text that is the same in each run.
        keys = [repr(key) if isinstance(key, _PLAIN_VALUES) else f"key {number}" for number, key in enumerate(holder)]
        return [(f"{where}[{key}]", item) for key, item in zip(keys, holder.values(), strict=True)]
    if isinstance(holder, list | collections.deque):
        return [(f"{where}[{number}]", item) for number, item in enumerate(holder)]
    return [(f"{where}.{name}", item) for name, item in vars(holder).items()]


def _plain_text(value: Any) -> str:
    return repr(value) if isinstance(value, _PLAIN_VALUES) else type(value).__name__


#: Values whose text is the same in each run.
_PLAIN_VALUES: Final = (str, bytes, int, float, bool, type(None))
#: Of a longer list of numbers or text, only the hash is compared.
_MAX_COMPARED: Final = 10_000


def names_in(code: types.CodeType) -> Iterator[str]:
    """Yield the names of globals and attributes that code uses, in inner functions too."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from names_in(constant)


def _refusal(where: str, value: Any, what: str) -> FixError:
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    return FixError(
        f"the cell cannot run again on the same state: {where} is {what} ({kind}). Make it in the cell, or put the "
        "statements that can run again into a cell of their own."
    )


def _is_library(module: str | None) -> bool:
    """Return whether a module is not the user's: installed, or of Python."""
    if module in (None, "__main__"):
        return False
    file = getattr(sys.modules.get(str(module)), "__file__", None)
    return file is None or not is_users_file(file)


_PLAIN_DISPATCH: Final = getattr(torch._C, "_disabled_torch_dispatch_impl", None)


def _has_layout(tensor: torch.Tensor, layout: torch.Tensor) -> bool:
    return (
        tensor.untyped_storage()._cdata == layout.untyped_storage()._cdata
        and tensor.shape == layout.shape
        and tensor.stride() == layout.stride()
        and tensor.storage_offset() == layout.storage_offset()
        and tensor.dtype == layout.dtype
    )


def _slots_of(kind: type) -> list[Any]:
    """Return the descriptors of ``__slots__`` of a class that Python code made; types of C have other members."""
    if not kind.__flags__ & _HEAP_TYPE:
        return []
    return [item for item in vars(kind).values() if isinstance(item, types.MemberDescriptorType)]


#: Py_TPFLAGS_HEAPTYPE of CPython.
_HEAP_TYPE: Final = 1 << 9


def _is_set(slot: Any, value: Any) -> bool:
    try:
        slot.__get__(value)
    except AttributeError:
        return False
    return True


_VISITORS: Final[tuple[tuple[Any, Callable[[State, str, Any], None]], ...]] = (
    (torch.Tensor, State._visit_tensor),
    (torch.Generator, State._visit_generator),
    (random.Random, State._visit_random),
    ((list, collections.deque), State._visit_list),
    (dict, State._visit_dict),
    ((weakref.WeakKeyDictionary, weakref.WeakValueDictionary), State._visit_weak_mapping),
    (set, State._visit_set),
    (bytearray, State._visit_bytes),
    ((tuple, frozenset), State._visit_fixed),
    (types.FunctionType, State._visit_function),
    (types.MethodType, State._visit_method),
    (functools.partial, State._visit_partial),
    (types.ModuleType, State._visit_module),
    (type, State._visit_class),
)


def _restore_mapping(mapping: MutableMapping[Any, Any], contents: Mapping[Any, Any]) -> None:
    """Give a mapping the same keys and values as before, in the same order."""
    is_same = len(mapping) == len(contents) and all(
        a is b and mapping[a] is item for a, (b, item) in zip(mapping, contents.items(), strict=True)
    )
    if not is_same:
        mapping.clear()
        mapping.update(contents)


def _restore_environment(variables: Mapping[str, str]) -> None:
    """Give the environment the same variables as before."""
    for name in set(os.environ) - set(variables):
        del os.environ[name]
    for name, value in variables.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def changes_between(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of `State.contents` that a run added or changed."""
    return {
        name: value
        for name, value in after.items()
        if name not in before or (value is not before[name] and not is_equal(before[name], value))
    }
