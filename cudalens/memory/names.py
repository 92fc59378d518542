"""Find the variables that hold a tensor: a search from the program's variables through the objects they refer to.

The search is breadth-first, so that the shortest name of a tensor is found first, and it is bounded. It reads
containers, instance dictionaries, slots, closures, stack frames and autograd graphs without running code of the program
(see `cudalens.memory.objects`). It keeps no reference to the objects after it ends.
"""

from __future__ import annotations

import functools
import gc
import re
import sys
import threading
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from cudalens.device.stacks import is_users_file
from cudalens.memory.objects import SavedWalk, class_dict, instance_dict, mro_of, slots_of
from cudalens.memory.snapshot import Address, storage_address

#: The path to its holder (or None); the last part: text, or the address of a tensor that is a dict key; its id.
Path = tuple[Any, "str | Address", int]
Children = Iterator[tuple["str | Address", Any]]

#: Maximum number of objects that a search examines.
MAX_STEPS: Final = 1_000_000
#: Maximum number of names per storage.
MAX_NAMES: Final = 8
_MAX_ALIASES: Final = 4
_MAX_KEY: Final = 40
_ATOMS: Final = frozenset({int, float, str, bytes, bool, complex, type(None), range, slice, bytearray})
#: Packages whose instances are not searched: shells and test runners refer to everything in the process.
_SHELLS: Final = ("IPython", "ipykernel", "traitlets", "zmq", "tornado", "jupyter_client", "_pytest", "cudalens")
_NAME: Final = re.compile(r"[A-Za-z_]\w*\Z")


class NameSearch:
    """Finds names for storages on CUDA devices.

    Args:
        max_steps: Maximum number of objects to examine.

    Attributes:
        names: Names of each storage, at most `MAX_NAMES`: those of variables first, then those through autograd graphs
            and optimizers' parameter lists.
        objects: Names of the other requested objects, by ``id``.
        is_complete: Whether the search visited all objects.
    """

    def __init__(self, *, max_steps: int = MAX_STEPS) -> None:
        self.names: dict[Address, list[str]] = {}
        self.objects: dict[int, str] = {}
        self.is_complete = True
        self._steps = max_steps
        self._queue: deque[tuple[Any, Path]] = deque()
        self._seen: dict[int, Any] = {}  # keeps the objects alive, so that no id is reused
        self._walk = SavedWalk()
        self._paths: dict[Address, list[Path]] = {}
        self._aliases: dict[int, list[Path]] = {}
        self._wanted: set[int] = set()
        self._children: dict[type, Callable[[Any], Children] | None] = {}

    def run(self, roots: Roots, wanted: Mapping[int, Any] | None = None) -> None:
        """Search from `roots`, kind by kind: an object that a variable holds is named after the variable first.

        Args:
            roots: Where the search begins.
            wanted: Other objects to find names for, by ``id``.
        """
        self._wanted = set(wanted or ())
        passed_by = (*roots.passed_by, self._queue, self._seen, self._paths, self._aliases)
        self._seen.update((id(thing), thing) for thing in passed_by)
        try:
            for kind in roots.kinds():
                for name, value in kind:
                    self._meet(value, (None, name, id(value)))
                self._drain()
            self.names = {address: self._named(address) for address in self._paths}
        finally:
            for kept in (self._queue, self._seen, self._paths, self._aliases, self._children):
                kept.clear()
            self._walk.forget()

    def _drain(self) -> None:
        while self._queue and self._steps > 0:
            thing, path = self._queue.popleft()
            children = self._children_of(type(thing))
            if children is not None:
                with suppress(RuntimeError):  # another thread changed it during the iteration
                    self._look_into(children(thing), path)
        self.is_complete = self.is_complete and not self._queue
        self._queue.clear()

    def _look_into(self, children: Children, path: Path) -> None:
        for fragment, child in children:
            self._steps -= 1
            if self._steps <= 0:
                self.is_complete = False
                return
            if type(child) not in _ATOMS:
                self._meet(child, (path, fragment, id(child)))

    def _meet(self, thing: Any, path: Path) -> None:
        """Record the path of an object, and queue the object if it is new."""
        if type(thing) is _Graph:
            for saved in thing.addresses:
                self._note(saved, path)
            return
        if id(thing) in self._wanted:
            self.objects.setdefault(id(thing), self._text(path))
        if id(thing) in self._seen:
            aliases = self._aliases.setdefault(id(thing), [])
            if len(aliases) < _MAX_ALIASES:
                aliases.append(path)
            return
        self._seen[id(thing)] = thing
        if torch.Tensor in mro_of(type(thing)) and (address := storage_address(thing)) is not None:
            self._note(address, path)
        self._queue.append((thing, path))

    def _note(self, address: Address, path: Path) -> None:
        known = self._paths.setdefault(address, [])
        if len(known) < 2 * MAX_NAMES:
            known.append(path)

    # Names of paths.

    def _named(self, address: Address) -> list[str]:
        """Return the names of a storage: each path to it, with the aliases of the objects on the path."""
        found: dict[str, None] = {}
        for path in self._paths[address]:
            for name in self._texts(path):
                found.setdefault(name)
        return sorted(found, key=lambda name: (name.startswith("<"), is_weak(name)))[:MAX_NAMES]

    def _texts(self, path: Path, *, plainly: bool = False) -> Iterator[str]:
        """Yield the path, and its variants through aliases; `plainly`: without aliases that have a tensor as a key."""
        pending, seen = deque([(path, "")]), {id(path)}
        for _ in range(2 * MAX_NAMES):
            if not pending:
                return
            step: Any
            step, tail = pending.popleft()
            yield self._text(step) + tail
            while step is not None:
                for alias in self._aliases.get(step[2], ()):
                    if id(alias) not in seen and not (plainly and _goes_through(alias)):
                        seen.add(id(alias))
                        pending.append((alias, tail))
                tail = self._fragment(step) + tail
                step = step[0]

    def _text(self, path: Path) -> str:
        """Return the path as the program would write it."""
        parts: list[str] = []
        step: Any = path
        while step is not None:
            parts.append(self._fragment(step))
            step = step[0]
        return "".join(reversed(parts))

    def _fragment(self, step: Path) -> str:
        if isinstance(step[1], str):
            return step[1]
        plain = (path for path in self._paths.get(step[1], ()) if not _goes_through(path))
        names = (name for path in plain for name in self._texts(path, plainly=True))
        return f"[{next((name for name in names if not is_weak(name)), '<tensor>')}]"

    # The references of objects, by type.

    def _children_of(self, kind: type) -> Callable[[Any], Children] | None:
        try:
            return self._children[kind]
        except KeyError:
            return self._children.setdefault(kind, self._chosen(kind))

    def _chosen(self, kind: type) -> Callable[[Any], Children] | None:
        bases = mro_of(kind)
        for base in bases:
            if base in _READERS:
                return _READERS[base]
            if base is torch.Tensor:
                return self._of_tensor
            if base is torch.nn.Module:
                return _of_module
            if base is types.ModuleType:
                return _of_python_module
            if base is type:
                return _of_class
        return None if _module_of(kind).partition(".")[0] in _SHELLS else _of_instance

    def _of_tensor(self, tensor: torch.Tensor) -> Children:
        yield from _of_instance(tensor)
        with torch._C.DisableTorchFunctionSubclass():
            node, hooks = tensor.grad_fn, tensor._backward_hooks
            gradient = tensor.grad if tensor.is_leaf or tensor.retains_grad else None
            inner = _parts_of_sparse(tensor)
        if gradient is not None:
            yield ".grad", gradient
        yield from inner
        if hooks:
            yield "._backward_hooks", hooks
        if node is not None:
            yield ".grad_fn", _Graph(self._saved(node))
            for name, value in self._walk.attributes():
                yield f".grad_fn.<ctx>{_attribute(name)}", value

    def _saved(self, node: Any) -> list[Address]:
        self._walk.add(node)
        return list(self._walk.addresses())


class _Graph:
    """The storages that an autograd graph saved and that no earlier graph did."""

    def __init__(self, addresses: list[Address]) -> None:
        self.addresses = addresses


def is_weak(name: str) -> bool:
    """Return whether a name goes through autograd, an optimizer's parameter groups or an unnamed reference."""
    return ".grad_fn" in name or ".<" in name or "param_groups" in name


def _goes_through(path: Path) -> bool:
    """Return whether a path has a tensor as a key, which needs a name itself."""
    step: Any = path
    while step is not None:
        if not isinstance(step[1], str):
            return True
        step = step[0]
    return False


def _module_of(kind: type) -> str:
    found = class_dict(kind).get("__module__")
    return found if type(found) is str else ""


def _attribute(name: Any) -> str:
    return f".{name}" if type(name) is str and _NAME.match(name) else f"[{_key(name)}]"


def _key(key: Any) -> str:
    """Return a key of a dict as text, without running its ``__repr__`` unless its type is builtin."""
    if type(key) in (int, bool, float, type(None)):
        return repr(key)
    if type(key) is str:
        return repr(key if len(key) <= _MAX_KEY else f"{key[:_MAX_KEY]}…")
    if type(key) is tuple and all(type(part) in (int, str) for part in key[:4]):
        return ", ".join(_key(part) for part in key[:4]) + (", …" if len(key) > 4 else "")
    return f"<{type(key).__name__}>"


def _of_dict(thing: dict[Any, Any]) -> Children:
    for key, value in list(dict.items(thing)):
        if type(key) not in _ATOMS:
            yield ".<key>", key
        address = storage_address(key) if torch.Tensor in mro_of(type(key)) else None
        yield f"[{_key(key)}]" if address is None else address, value
    yield from _of_instance(thing)


def _of_sequence(thing: Any) -> Children:
    reader = next((kind for kind in (list, tuple) if kind in mro_of(type(thing))), deque)
    for index, value in enumerate(reader.__iter__(thing)):
        yield f"[{index}]", value
    yield from _of_instance(thing)


def _of_set(thing: Any) -> Children:
    reader = set if set in mro_of(type(thing)) else frozenset
    for value in reader.__iter__(thing):
        yield ".<item>", value


def _of_instance(thing: Any) -> Children:
    for name, value in list(instance_dict(thing).items()):
        yield _attribute(name), value
    for name, value in slots_of(thing):
        yield _attribute(name), value


def _of_module(thing: Any) -> Children:
    """Yield a ``torch.nn.Module``: parameters, buffers and submodules by their registered names."""
    own = dict(instance_dict(thing))
    for group in ("_parameters", "_buffers", "_modules"):
        part = own.pop(group, None)
        if dict in mro_of(type(part)):
            for name, value in list(dict.items(part)):
                yield f"[{name}]" if type(name) is str and name.isdecimal() else _attribute(name), value
    for name, value in own.items():
        yield _attribute(name), value


def _of_python_module(thing: types.ModuleType) -> Children:
    if is_users(thing):
        yield from ((_attribute(name), value) for name, value in list(instance_dict(thing).items()))


def _of_class(kind: type) -> Children:
    if (module := sys.modules.get(_module_of(kind))) is not None and (
        _module_of(kind) == "__main__" or is_users(module)
    ):
        yield from ((_attribute(name), value) for name, value in list(class_dict(kind).items()))


def _of_function(thing: types.FunctionType) -> Children:
    names = thing.__code__.co_freevars
    for name, cell in zip(names, thing.__closure__ or (), strict=False):
        for value in gc.get_referents(cell):
            yield f".<closure>.{name}", value
    for value in (*(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values()):
        yield ".<default>", value
    yield from _of_instance(thing)


def _of_method(thing: types.MethodType) -> Children:
    yield ".__self__", thing.__self__
    yield ".__func__", thing.__func__


def _of_partial(thing: Any) -> Children:
    for name in ("func", "args", "keywords"):
        yield f".{name}", class_dict(functools.partial)[name].__get__(thing)


def _of_error(thing: BaseException) -> Children:
    yield ".args", BaseException.args.__get__(thing)  # type: ignore[attr-defined]
    yield from error_locals(thing, ".<traceback>")


def _of_generator(thing: Any) -> Children:
    """The variables of a suspended generator or coroutine, unnamed: reading ``f_locals`` would keep them alive."""
    return ((".<local>", value) for value in gc.get_referents(thing) if type(value) is not types.FunctionType)


def _of_held(thing: Any) -> Children:
    """References of C objects without named attributes: caches, iterators, dict views."""
    return ((".<held>", value) for value in gc.get_referents(thing) if type(value) not in (type, types.ModuleType))


def _of_nothing(thing: Any) -> Children:
    return iter(())


def _parts_of_sparse(tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """Return the component tensors of a sparse tensor."""
    if tensor.layout is torch.sparse_coo:
        return iter(((".indices()", tensor._indices()), (".values()", tensor._values())))
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        names = ("crow_indices", "col_indices", "values")
    elif tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        names = ("ccol_indices", "row_indices", "values")
    else:
        return iter(())
    return iter([(f".{name}()", getattr(tensor, name)()) for name in names])


_READERS: Final[dict[type, Callable[[Any], Children]]] = {
    dict: _of_dict,
    list: _of_sequence,
    tuple: _of_sequence,
    deque: _of_sequence,
    set: _of_set,
    frozenset: _of_set,
    types.FunctionType: _of_function,
    types.MethodType: _of_method,
    functools.partial: _of_partial,
    BaseException: _of_error,
    types.GeneratorType: _of_generator,
    types.CoroutineType: _of_generator,
    types.AsyncGeneratorType: _of_generator,
    **dict.fromkeys(
        (
            functools._lru_cache_wrapper,
            map,
            filter,
            zip,
            enumerate,
            reversed,
            staticmethod,
            classmethod,
            property,
            types.CellType,
            types.MappingProxyType,
            type({}.keys()),
            type({}.values()),
            type({}.items()),
            type(iter([])),
            type(iter(())),
            type(iter({}.values())),
        ),
        _of_held,
    ),
    **dict.fromkeys((types.BuiltinFunctionType, types.CodeType, types.FrameType, types.TracebackType), _of_nothing),
}


# The roots of a search for names: variables of the notebook or script, IPython's outputs, exceptions, calls.

Named = Iterable[tuple[str, Any]]

#: Prefix of names in the traceback of the exception that is propagating.
EXCEPTION: Final = "<exception>"
#: Prefix of names in the last exception: Python keeps its traceback, and with it the variables.
LAST_EXCEPTION: Final = "<last exception>"
#: Prefix of names of variables in running functions.
CALL: Final = "<call>"

#: Sets of asyncio's tasks by version of Python: `asyncio.all_tasks` has those of one loop only.
_TASKS: Final = ("_scheduled_tasks", "_all_tasks")
_KEPT_BY_IPYTHON: Final = re.compile(r"_+\Z|_\d+\Z")
_HAS_PROXIES: Final = sys.version_info >= (3, 13)


@dataclass(frozen=True)
class Roots:
    """The roots of a search.

    Attributes:
        variables: Variables of the program, by name.
        outputs: IPython's ``Out``, by the number of the cell.
        shortcuts: IPython's ``_``, ``__``, ``_7`` …; searched after ``Out``.
        error: The exception that is propagating, or None.
        passed_by: Objects that the search skips: the namespaces themselves.
        has_calls: Whether the variables of running functions are searched too.
    """

    variables: Mapping[str, Any]
    outputs: Mapping[Any, Any] = field(default_factory=dict)
    shortcuts: Mapping[str, Any] = field(default_factory=dict)
    error: BaseException | None = None
    passed_by: tuple[Any, ...] = ()
    has_calls: bool = True

    def kinds(self) -> Iterator[Named]:
        """Names with their values, kind by kind, the most useful names first."""
        yield self.variables.items()
        yield ((f"Out[{number}]", value) for number, value in list(self.outputs.items()) if type(number) is int)
        yield _modules()
        yield self.shortcuts.items()
        if self.error is not None:
            yield error_locals(self.error, EXCEPTION)
        if (last := last_error()) is not None and last is not self.error:
            yield error_locals(last, LAST_EXCEPTION)
        if self.has_calls:
            yield _calls()


def roots_of(
    namespace: Mapping[str, Any] | None = None,
    error: BaseException | None = None,
    shell: Any = None,
    outputs: Mapping[int, Any] | None = None,
) -> Roots:
    """Return the roots in this process: the notebook's variables if IPython runs, else those of ``__main__``.

    Args:
        namespace: Variables to search instead.
        error: The exception that is propagating, or None.
        shell: IPython's shell, if it is not the one of this process.
        outputs: Values that IPython has not displayed yet, by the number of their cell.
    """
    shell, main = shell or _shell(), vars(sys.modules["__main__"]) if "__main__" in sys.modules else {}
    if namespace is not None:
        given = {name: value for name, value in list(namespace.items()) if type(name) is str}
        return Roots(given, error=error, passed_by=(namespace, main))
    if shell is None:
        return Roots(_plain(main), error=error, passed_by=(main,))
    own = shell.user_ns
    hidden = shell.user_ns_hidden.keys() - {"_", "__", "___"}
    rest = {name: value for name, value in list(own.items()) if name not in hidden and type(name) is str}
    shortcuts = {name: value for name, value in rest.items() if _KEPT_BY_IPYTHON.match(name)}
    shown = own.get("_oh")
    return Roots(
        _plain({name: value for name, value in rest.items() if name not in shortcuts}),
        {**(shown if type(shown) is dict else {}), **(outputs or {})},
        shortcuts,
        error,
        (own, main, shown, shell.user_ns_hidden),
    )


def _plain(namespace: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of a program, without names that begin with two underscores."""
    return {name: value for name, value in list(namespace.items()) if not name.startswith("__")}


def _shell() -> Any:
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None


def is_users(module: Any) -> bool:
    """Return whether a module belongs to the program, and not to Python or an installed package."""
    try:
        file = types.ModuleType.__getattribute__(module, "__file__")
    except (AttributeError, TypeError):
        return False
    return type(file) is str and is_users_file(file)


def _modules() -> Named:
    """Yield the program's modules, which may hold tensors without a variable in the notebook."""
    for name, module in list(sys.modules.items()):
        if name not in ("__main__", "__mp_main__") and type(module) is types.ModuleType and is_users(module):
            yield name, module


def last_error() -> BaseException | None:
    """Return the last uncaught exception, as Python keeps it."""
    for name in ("last_exc", "last_value"):
        if isinstance(found := getattr(sys, name, None), BaseException):
            return found
    return None


def error_locals(error: BaseException, name: str) -> Named:
    """Yield the variables in an exception's traceback, and in those of its causes."""
    running = _running()
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        one = pending.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        pending += [one.__cause__, one.__context__]
        trail = one.__traceback__
        while trail is not None:
            frame = trail.tb_frame
            if _has_own_variables(frame):
                yield from _locals(frame, f"{name}.{frame.f_code.co_name}", is_running=id(frame) in running)
            trail = trail.tb_next


def _calls() -> Named:
    """Yield the variables of the program's running functions, of this thread first, and its tasks of asyncio."""
    others = [frame for thread, frame in sys._current_frames().items() if thread != threading.get_ident()]
    frames = deque([sys._getframe().f_back, *others])
    while frames:
        frame = frames.popleft()
        if frame is None:
            continue
        if _has_own_variables(frame) and is_users_file(frame.f_code.co_filename):
            yield from _locals(frame, f"{CALL}.{frame.f_code.co_name}", is_running=True)
        frames.appendleft(frame.f_back)
    del others, frame  # a frame that a variable of its own refers to stays alive, with all variables of its callers
    yield from _tasks()


def _tasks() -> Named:
    """Yield the coroutines of asyncio's tasks that wait, by the name of their function."""
    module = sys.modules.get("asyncio.tasks")
    known = next((found for name in _TASKS if (found := getattr(module, name, None)) is not None), ())
    for task in list(known):
        coroutine = task.get_coro() if hasattr(task, "get_coro") else None
        if type(coroutine) is types.CoroutineType and is_users_file(coroutine.cr_code.co_filename):
            yield f"{CALL}.{coroutine.cr_code.co_name}", coroutine


def _running() -> set[int]:
    found: set[int] = set()
    frame: types.FrameType | None = sys._getframe()
    while frame is not None:
        found.add(id(frame))
        frame = frame.f_back
    return found


def _has_own_variables(frame: types.FrameType) -> bool:
    """Return whether it is the frame of a function: the variables of modules and cells are the program's."""
    return bool(frame.f_code.co_flags & 0x01)  # CO_OPTIMIZED


def _locals(frame: types.FrameType, name: str, *, is_running: bool) -> Named:
    """Yield a function's variables.

    Before Python 3.13, ``f_locals`` of a running function creates a dict that stays with the frame, and would keep
    alive objects that the function releases later: it is cleared, unless the program has it from ``locals()``.
    """
    found = frame.f_locals
    yield from [(f"{name}.{local}", value) for local, value in found.items()]
    if is_running and not _HAS_PROXIES and sys.getrefcount(found) <= _OWN_REFERENCES:
        found.clear()


#: Reference count of a dict that only its stack frame and the caller of ``sys.getrefcount`` reference.
_OWN_REFERENCES: Final = 3
