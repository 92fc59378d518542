"""Find the values that a function can read: those that its code reaches by name, with the place of each.

Code objects give names; names lead from globals, closures, defaults and arguments through attributes and containers to
values. A value is looked into only where the reached code has a name for it, or where it is a container.
"""

from __future__ import annotations

import builtins
import functools
import io
import logging
import sys
import threading
import weakref
from array import array
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from types import BuiltinMethodType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any, Final, TypeAlias

import torch

from cudalens.device.modes import has_own_dispatch
from cudalens.device.tensors import PLAIN_TYPES
from cudalens.graphs.guards.code_names import imported, names_of, stored_by
from cudalens.graphs.guards.files import is_functional, is_installed, is_of_torch, is_searched
from cudalens.graphs.guards.found import Read, Reads
from cudalens.graphs.guards.lookups import (
    AttributeItems,
    BaseItems,
    CacheMisses,
    CellItems,
    Contents,
    Elements,
    IsGradientMissing,
    LocalItems,
    NumpyState,
    ScalerStages,
    ScriptItems,
    SlotItems,
    Version,
    Written,
    attributes_in,
    items_in,
    module_of,
    slots_of,
)

#: How many values are looked at before a function counts as one that cannot be guarded.
_MOST_VALUES: Final = 20_000

#: Items of a container beyond which only its length is looked at.
_MOST_ITEMS: Final = 1_000

#: Bytes of a buffer beyond which it is not compared.
_MOST_BYTES: Final = 4_096

#: Container, key, value, label.
Item: TypeAlias = tuple[Any, Any, Any, str]

#: Searches of a function. Code that one search finds can read more attribute names, with which the next one searches.
_MOST_PASSES: Final = 16

_HOOKS: Final = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")

#: Tables of a module, with what a label calls their items.
_MODULE_TABLES: Final = {
    "_parameters": "parameters", "_buffers": "buffers", "_modules": "children", **dict.fromkeys(_HOOKS, "hooks")
}  # fmt: skip

#: Classes of torch whose attributes are compared, because a program can replace ``torch.nn.Module.__call__``; and those
#: of them whose methods are only compared: the code of ``torch.Tensor.relu`` is not searched.
_READ_CLASSES: Final = (torch.nn.Module, torch.Tensor, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler)
_COMPARED_CLASSES: Final = (torch.nn.Module, torch.Tensor)

#: Packages besides the standard library whose objects hold what a program puts into them, under names of their own:
#: ``name`` and ``dim`` of a ``torch.nn.utils.weight_norm.WeightNorm``.
_HOLDERS: Final = ("torch.amp", "torch.cuda.amp", "torch.nn.utils")

#: Libraries whose objects hold no values of the user's (``torch.utils.hooks.RemovableHandle``), and parts of them whose
#: objects do (``torch.distributions.Normal``).
_INTERNAL: Final = ("torch", "cudalens")
_OF_PROGRAMS: Final = (*_HOLDERS, "torch.distributions", "torch.optim", "torch.utils.data")

#: Libraries whose modules hold no values of the user's: of ``numpy.pi`` only the value is compared.
_LIBRARIES: Final = ("numpy", "pandas", "scipy", "matplotlib", "IPython", "_pytest", "hypothesis", "triton")

#: Classes of NumPy whose objects are buffers: they are compared by their bytes.
_ARRAYS: Final = ("ndarray", "memmap", "recarray", "matrix", "MaskedArray")

#: Libraries whose objects hold data that no attribute leads to: a ``pandas.DataFrame`` cannot be compared.
_OPAQUE: Final = ("pandas", "scipy", "polars", "pyarrow", "xarray", "h5py")

#: What calls something else, which is looked into: the ``f`` of ``functools.partial(f, 2)``.
_WRAPPERS: Final = (
    MethodType, BuiltinMethodType, functools.partial, functools._lru_cache_wrapper, property, staticmethod, classmethod,
    weakref.ref,
)  # fmt: skip

#: Compared by their value: ``0.1``. Only objects of subclasses have attributes.
_PLAIN: Final = (str, bytes, int, float, complex, bool, type(None))
#: Looked into whatever names the code has: ``weights[0]`` can be any item.
_CONTAINERS: Final = (dict, list, tuple, deque, set, frozenset, MappingProxyType)
#: Their dict is looked into: ``table`` for ``table.values()``.
_VIEWS: Final[tuple[type, ...]] = (type({}.keys()), type({}.values()), type({}.items()))


#: Where tensors keep the hooks that a backward calls.
HOOK_TABLES: Final = ("_backward_hooks", "_post_accumulate_grad_hooks")


def find_reads(
    roots: Iterable[tuple[str, Any]],
    executed: Container[CodeType] | None = None,
    *,
    reads_hooks: bool = False,
    reads_gradients: bool = False,
    takes_all: bool = False,
) -> Reads:
    """The values that can be read from some functions and objects.

    Args:
        roots: Functions, modules and objects, by label.
        executed: The code that ran in a call. Functions of installed packages that did not run are not searched: as
            long as the values that were found are equal, a call does not run them. None: all are searched.
        reads_hooks: Whether the hooks of tensors are read, as by a backward.
        reads_gradients: Whether it matters which gradients are None, as for a backward that adds to them.
        takes_all: Take all attributes of objects, also those that the code has no name for.
    """
    known = [*roots, ("torch.Tensor", torch.Tensor)]
    names, is_dynamic = {"forward", "__call__"}, takes_all
    names |= {*(HOOK_TABLES if reads_hooks else ()), *(("grad",) if reads_gradients else ())}
    for _ in range(_MOST_PASSES):
        search = _Search(names, is_dynamic=is_dynamic, executed=executed)
        found = search.run(known)
        # Without a new name the next search would find the same.
        if (search.names, search.is_dynamic) == (names, is_dynamic) or not found.is_complete:
            return found
        names, is_dynamic = search.names, search.is_dynamic
    found.is_complete = False  # more names of attributes were found than the last pass looked for
    return found


class _Search:
    """One search with the attribute names that are known so far.

    What its methods do with a value says how the value is treated: ``yield`` compares it before each replay and looks
    into it, `_waiting` only looks into it, and `_skip` before ``yield`` only compares it.

    Args:
        names: Attribute names that the code reads, as far as earlier searches found. Kept as `_known`.
        is_dynamic: Whether some code computes names, so that this search takes all attributes. Kept as `_takes_all`.
        executed: As of `find_reads`.

    Attributes:
        names: Those names, and the ones that the code found by this search reads.
        is_dynamic: Whether that is so, or code found by this search computes names.
    """

    def __init__(self, names: Iterable[str], *, is_dynamic: bool, executed: Container[CodeType] | None) -> None:
        self._known, self._executed = frozenset(names), executed
        self._takes_all = is_dynamic
        self.names, self.is_dynamic = set(names), is_dynamic
        self._texts: set[str] = set()
        self._found = Reads()
        self._waiting: deque[tuple[Any, str]] = deque()
        self._weak: list[tuple[weakref.ref[Any], str]] = []
        self._seen: set[int] = set()
        self._num_tables = 0
        self._builtins: set[str] = set()
        self._alive: list[Any] = []

    def run(self, roots: Iterable[tuple[str, Any]]) -> Reads:
        """Walk from the roots, breadth first."""
        self._waiting.extend((value, label) for label, value in roots)
        while self._waiting or self._weak:
            if not self._waiting:
                # What weak references lead to, and nothing else does. A guard of an object would keep it alive.
                weak, self._weak = self._weak, []
                for reference, label in weak:
                    value = reference()
                    if value is not None and id(value) not in self._seen:
                        self._found.unguarded.append(f"{label} (a weak reference to {type(value).__name__})")
                continue
            value, label = self._waiting.popleft()
            if id(value) in self._seen:
                continue
            self._seen.add(id(value))
            self._alive.append(value)
            if len(self._seen) - self._num_tables > _MOST_VALUES:
                self._found.is_complete = False
                break
            for container, key, item, item_label in self._items(value, label):
                read = Read(container, key, item_label, item)
                is_tensor = issubclass(type(item), torch.Tensor)
                (self._found.tensors if is_tensor else self._found.values).append(read)
                self._waiting.append((item, item_label))
        return self._found

    def _skip(self, value: Any) -> None:
        """Do not look into a value of a library. It is compared, because a program can put another in its place."""
        self._seen.add(id(value))
        self._alive.append(value)

    def _named(self, held: Mapping[str, Any]) -> list[str]:
        """The attributes in a namespace that the code can read."""
        return sorted(map(str, held)) if self._takes_all else sorted(self._known & held.keys())

    def _items(self, value: Any, label: str) -> Iterator[Item]:
        library = module_of(type(value)).partition(".")[0]
        if library == "numpy":
            yield from self._of_numpy(value, label)
            return
        if library in _OPAQUE or (
            issubclass(type(value), Iterator) and (library == "torch" or attributes_in(value) is None)
        ):
            yield from self._of_opaque(value, label)
            return
        if issubclass(type(value), _PLAIN):
            if type(value) not in _PLAIN:
                yield from self._of_object(value, label)
            return
        for kinds, items in self._by_kind():
            if issubclass(type(value), kinds):  # isinstance() asks the object for its class
                yield from items(value, label)
                return
        yield from self._of_object(value, label)

    def _by_kind(self) -> tuple[tuple[Any, Callable[[Any, str], Iterable[Item]]], ...]:
        return (
            (torch.Generator, lambda value, label: ()),
            (torch.Tensor, self._of_tensor),
            (FunctionType, self._of_function),
            (_WRAPPERS, self._of_wrapper),
            (torch.jit.ScriptModule, self._of_script),
            (torch.nn.Module, self._of_module),
            (torch.amp.GradScaler, self._of_scaler),
            (_CONTAINERS, self._of_container),
            (_VIEWS, self._of_view),
            ((bytearray, memoryview, array), self._of_buffer),
            ((io.StringIO, io.BytesIO), self._of_text),
            (threading.local, self._of_local),
            (threading.Thread, lambda value, label: ()),
            (logging.Logger, self._of_logger),
            (ModuleType, self._of_namespace),
            (type, self._of_class),
        )

    def _of_tensor(self, tensor: torch.Tensor, label: str) -> Iterator[Item]:
        """What a program can store in a tensor besides its elements."""
        if held := attributes_in(tensor):
            self._found.attributes.append((tensor, held, f"attributes of {label}"))
        kind: Any = type(tensor)
        has_own_class = kind not in PLAIN_TYPES
        if has_own_class:  # its methods may run inside of operators, where nothing observes them
            self._found.owners.append((tensor, f"the class of {label}"))
            self._waiting.append((kind, kind.__name__))
        for name in sorted(held or {}) if has_own_class else self._named(held or {}):
            yield held, name, (held or {})[name], _dotted(label, name)
        if not self._known.isdisjoint(HOOK_TABLES):
            attributes = AttributeItems(tensor)
            with torch._C.DisableTorchFunctionSubclass():
                hooks = [(table, getattr(tensor, table, None)) for table in HOOK_TABLES]
            for table, held_hooks in hooks:
                yield attributes, table, held_hooks, f"hooks of {label}"
        with torch._C.DisableTorchFunctionSubclass():
            if "grad" in self._known and tensor.is_leaf:
                yield IsGradientMissing(tensor), "", tensor.grad is None, f"{label}.grad is None"
        if "_version" in self._known:
            yield Version(tensor), "", tensor._version, _dotted(label, "_version")

    def _of_wrapper(self, value: Any, label: str) -> Iterable[Item]:
        """What a callable is made of: looked into, and itself found again by identity."""
        if isinstance(value, BuiltinMethodType):
            if not isinstance(value.__self__, ModuleType | type):
                self._waiting.append((value.__self__, f"{label}.__self__"))
        elif isinstance(value, functools._lru_cache_wrapper):
            return [(CacheMisses(value), "", value.cache_info().misses, f"calls of {label}")]
        elif isinstance(value, weakref.ref):
            self._weak.append((value, label))
        elif isinstance(value, functools.partial):
            made_of = AttributeItems(value)
            return [(made_of, name, getattr(value, name), label) for name in ("func", "args", "keywords")]
        else:
            if isinstance(value, MethodType):
                self._waiting.append((value.__self__, "self"))
            self._waiting.append((value.fget if isinstance(value, property) else value.__func__, label))
        return ()

    def _of_buffer(self, value: Any, label: str) -> Iterable[Item]:
        """A buffer is compared by its bytes, if these are few."""
        try:
            view = memoryview(value)
            if view.nbytes <= _MOST_BYTES and view.format != "O":
                return [(Contents(value), "", view.tobytes(), label)]
        except (BufferError, ValueError):  # dates, say
            pass
        return self._of_opaque(value, label)

    @staticmethod
    def _of_text(value: Any, label: str) -> Iterable[Item]:
        return [(Written(value), "", value.getvalue(), label)]

    def _of_opaque(self, value: Any, label: str) -> Iterable[Item]:
        self._found.unguarded.append(f"{label} ({type(value).__name__})")
        return ()

    def _of_numpy(self, value: Any, label: str) -> Iterable[Item]:
        if type(value).__name__ in _ARRAYS:
            return self._of_buffer(value, label)
        if isinstance(value, Iterator):  # of an array
            return self._of_opaque(value, label)
        bits = getattr(value, "bit_generator", None) or getattr(value, "_bit_generator", None)
        return [] if bits is None else [(NumpyState(bits), "", repr(bits.state), label)]

    def _of_function(self, function: FunctionType, label: str) -> Iterator[Item]:
        if (wrapped := getattr(function, "__wrapped__", None)) is not None:
            self._waiting.append((wrapped, label))
        code = function.__code__
        is_user = is_searched(code.co_filename) or is_functional(code.co_filename)
        if self._executed is not None and is_installed(code.co_filename) and code not in self._executed:
            return
        if not is_user and code.co_filename != functools.singledispatch.__code__.co_filename:
            return
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                yield CellItems(cell), name, cell.cell_contents, name
            except ValueError:  # the variable has no value yet
                continue
        if is_user:
            self._found.functions.append((function, f"the code of {label or function.__name__}"))
            yield from self._of_code(function, label)

    def _of_code(self, function: FunctionType, label: str) -> Iterator[Item]:
        code = function.__code__
        names = names_of(code)
        # The name of a method such as ``__add__`` is in no code: ``a + b`` reads it.
        self.names |= names.attributes | {code.co_name}
        self._texts |= names.texts
        self._found.has_identities = self._found.has_identities or names.has_identities
        self.is_dynamic = self.is_dynamic or (names.is_dynamic and not is_of_torch(code.co_filename))
        for name in sorted(names.globals & function.__globals__.keys()):
            yield function.__globals__, name, function.__globals__[name], name
        if absent := names.globals - function.__globals__.keys():
            self._found.absent.append((function.__globals__, absent))
            yield from self._of_builtins(absent)
        for name in sorted(imported(names.imports, function.__globals__) & sys.modules.keys()):
            yield sys.modules, name, sys.modules[name], name
        held, of = function.__dict__, label or function.__name__
        self._found.sizes.append((held, f"attributes of {of}"))
        self._found.attributes.append((function, held, f"attributes of {of}"))
        for name in self._named(held):
            yield held, name, held[name], _dotted(of, name)
        defaults = AttributeItems(function)
        for attribute in ("__defaults__", "__kwdefaults__"):
            if (given := getattr(function, attribute)) is not None:
                yield defaults, attribute, given, f"{of}'s defaults"

    def _of_builtins(self, names: frozenset[str]) -> Iterator[Item]:
        """Values that a program stored in ``builtins``, and functions that it may replace there."""
        held = vars(builtins)
        for name in sorted((names & held.keys()) - self._builtins):
            yield held, name, held[name], name
        self._builtins |= names

    def _of_module(self, module: torch.nn.Module, label: str) -> Iterator[Item]:
        held, of = module.__dict__, label or "the module"
        for table, what in _MODULE_TABLES.items():
            if table in held:
                yield from self._of_table(held, table, f"{what} of {of}", label)
        self._found.sizes.append((held, f"attributes of {of}"))
        self._found.attributes.append((module, held, f"attributes of {of}"))
        for name in self._named(held):
            if name not in _MODULE_TABLES:
                yield held, name, held[name], _dotted(label, name)
        self._found.owners.append((module, f"the class of {of}"))
        self._waiting.append((type(module), type(module).__name__))

    def _of_table(self, held: dict[str, Any], table: str, what: str, label: str) -> Iterator[Item]:
        """A table of a module: itself, the order of its keys, and its items. Tables do not count towards the limit."""
        items = held[table]
        self._seen.add(id(items))
        self._num_tables += 1
        self._alive.append(items)
        yield held, table, items, what
        self._found.sizes.append((items, what))
        self._found.orders.append((items, f"the order of {what}"))
        for key, value in items.items():
            yield items, key, value, label if table in _HOOKS else _dotted(label, key)

    def _of_script(self, module: torch.jit.ScriptModule, label: str) -> Iterator[Item]:
        self._waiting += [(child, _dotted(label, name)) for name, child in module._modules.items()]
        for table in (module._parameters, module._buffers):
            for name, tensor in table.items():
                yield table, name, tensor, _dotted(label, name)
        attributes = ScriptItems(module)
        if (names := attributes.names()) is None:
            self._found.unguarded.append(f"{label or 'a module'} ({type(module).__name__} of a file)")
        for name in names or ():
            yield attributes, name, attributes[name], _dotted(label, name)

    def _of_scaler(self, scaler: torch.amp.GradScaler, label: str) -> Iterator[Item]:
        """The options of a ``GradScaler``, its scale, and where its steps are.

        Its ``__dict__`` is not among the sizes: a copy of it would hold the tensors of one step.
        """
        held = scaler.__dict__
        stages = ScalerStages(scaler)
        self._found.attributes.append((scaler, held, f"attributes of {label}"))
        self._found.owners.append((scaler, f"the class of {label}"))
        yield stages, "", stages[""], f"the stages of {label}"
        for name in sorted(held.keys() - {"_per_optimizer_states"}):
            yield held, name, held[name], _dotted(label, name)
        self._waiting.append((type(scaler), type(scaler).__name__))

    def _of_container(self, held: Any, label: str) -> Iterator[Item]:
        inside = items_in(held)
        if not isinstance(held, tuple | frozenset):
            self._found.sizes.append((inside, f"the length of {label or 'a container'}"))
        if len(inside) > _MOST_ITEMS:
            self._found.unguarded.append(f"{label} ({len(inside)} items)")
        elif isinstance(held, set | frozenset):
            elements = Elements(held)
            yield elements, "", elements[""], label
            self._inside(inside, f"an element of {label}")
        else:
            has_keys = inside.has_keys if isinstance(inside, BaseItems) else isinstance(inside, dict | MappingProxyType)
            if has_keys:
                self._found.orders.append((inside, f"the order of the keys of {label or 'a dict'}"))
                self._inside(inside, f"a key of {label or 'a dict'}")
            for key, value in list(inside.items() if has_keys else enumerate(inside)):
                self._found.has_identities |= isinstance(key, torch.Tensor)
                if isinstance(held, tuple) and not issubclass(type(value), torch.Tensor):
                    # Only looked into: the tuple is compared with its items where it was found.
                    self._waiting.append((value, f"{label}[{key_text(key)}]"))
                else:
                    yield inside, key, value, f"{label}[{key_text(key)}]"
        if type(held) not in _CONTAINERS:  # of a subclass
            yield from self._of_object(held, label)

    def _of_view(self, view: Any, label: str) -> Iterable[Item]:
        """The keys, values or items of a dict, which change with it."""
        self._waiting.append((view.mapping, label))
        return ()

    def _inside(self, values: Iterable[Any], label: str) -> None:
        """Look into values that their container compares by identity."""
        looked_into = [(value, label) for value in values if type(value) not in _PLAIN]
        self._found.keys += [at for at in looked_into if issubclass(type(at[0]), torch.Tensor)]
        self._waiting += looked_into

    def _of_namespace(self, module: ModuleType, label: str) -> Iterator[Item]:
        held = vars(module)
        name = str(held.get("__name__"))
        is_library = name.partition(".")[0] in ("torch", *_LIBRARIES, *sys.builtin_module_names)
        is_library = is_library or not is_searched(str(held.get("__file__") or ""))
        kind: Any = type(module)
        if kind is not ModuleType and is_installed(str(held.get("__file__"))):  # its tables of lazy imports
            self._seen |= {id(held[name]) for name in stored_by(kind) if isinstance(held.get(name), dict | list | set)}
        for name in sorted(self._known & held.keys()):
            item = held[name]
            is_looked_into = not is_library or (module is sys and _is_plain_list(item))
            if not is_looked_into and isinstance(item, dict | list | set):
                continue
            if not (is_looked_into or isinstance(item, torch.Tensor | FunctionType | ModuleType)):
                self._skip(item)
            yield held, name, item, _dotted(label, name)
        # ``getattr(module, "name", default)`` has another result once the module has the name.
        if not is_library and (absent := frozenset(self._texts - held.keys())):
            self._found.absent.append((held, absent))

    def _of_class(self, kind: type, label: str) -> Iterator[Item]:
        """The attributes of a class; another one of the same name can come before it in the order of the bases."""
        yield AttributeItems(kind), "__mro__", kind.__mro__, f"the bases of {label}"
        if type(kind) is not type:
            self._waiting.append((type(kind), type(kind).__name__))
        for base in kind.__mro__:
            if base is object or not (_is_users(base) or issubclass(base, _READ_CLASSES)):
                continue
            self._found.sizes.append((base.__dict__, f"attributes of {base.__name__}"))
            is_wrapper = issubclass(base, torch.Tensor) and has_own_dispatch((base,))
            operators = base.__dict__ if base is torch.Tensor or is_wrapper else ()  # code has no name for them
            for name in sorted({*self._named(base.__dict__), *filter(_is_special, operators)}):
                if base in _COMPARED_CLASSES:
                    self._skip(base.__dict__[name])
                yield base.__dict__, name, base.__dict__[name], _dotted(label, name)

    def _of_logger(self, logger: logging.Logger, label: str) -> Iterator[Item]:
        """What decides whether a record is written: the levels of a logger and of its parents."""
        for name in ("level", "disabled", "parent"):
            yield logger.__dict__, name, getattr(logger, name), _dotted(label, name)
        yield logger.manager.__dict__, "_disable", logger.manager.disable, "logging.disable()"

    def _of_local(self, owner: threading.local, label: str) -> Iterator[Item]:
        attributes = LocalItems(owner)
        self._found.sizes.append((attributes, f"attributes of {label}"))
        for name in self._named(attributes.held()):
            yield attributes, name, attributes[name], _dotted(label, name)

    def _of_object(self, owner: Any, label: str) -> Iterator[Item]:
        module = module_of(type(owner))
        held = attributes_in(owner)
        if module.partition(".")[0] in _INTERNAL and not module.startswith(_OF_PROGRAMS):
            self._waiting.append(((held or {}).get("fn"), label))  # a function under a graph manager
            return
        self._found.owners.append((owner, f"the class of {label or 'an object'}"))
        if held is not None:
            self._found.sizes.append((held, f"attributes of {label or 'an object'}"))
            self._found.attributes.append((owner, held, f"attributes of {label or 'an object'}"))
            for name in sorted(held) if _is_holder(owner) else self._named(held):
                yield held, name, held[name], _dotted(label, name)
        for base in type(owner).__mro__:
            for name in self._named(slots_of(base)):
                try:
                    yield SlotItems(owner, base), name, SlotItems(owner, base)[name], _dotted(label, name)
                except (LookupError, AttributeError):  # a slot without a value, or of a mangled name
                    continue
        self._waiting.append((type(owner), type(owner).__name__))


def key_text(key: Any) -> str:
    """A key in a label: a number or a short text as it is, of anything else the type."""
    text = repr(key) if isinstance(key, int | float | str) else ""
    return text if 0 < len(text) < 40 else f"<{type(key).__name__}>"


def _dotted(label: str, name: str) -> str:
    return f"{label}.{name}" if label else name


def _is_plain_list(value: Any) -> bool:
    """Whether a value is a list of texts and numbers, as ``sys.argv`` and ``sys.path``."""
    return type(value) is list and all(type(item) in _PLAIN for item in value)


def _is_special(name: str) -> bool:
    """Whether Python looks a name up for an operator or a statement."""
    return name.startswith("__") and name.endswith("__")


def _is_holder(owner: Any) -> bool:
    """Whether the names of an object's attributes are not in the code that is read: that of the standard library."""
    module = module_of(type(owner))
    return module.partition(".")[0] in sys.stdlib_module_names or module.startswith(_HOLDERS)


def _is_users(kind: type) -> bool:
    """Whether a class is neither torch's nor the interpreter's."""
    module = sys.modules.get(module_of(kind))
    if module is None or kind.__module__ in ("builtins", "__main__"):
        return kind.__module__ != "builtins"
    return is_searched(getattr(module, "__file__", None) or "") and module_of(kind).partition(".")[0] != "torch"
