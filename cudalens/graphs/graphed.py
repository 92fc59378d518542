"""Callables that run through a manager, and the managers that belong to a thread."""

from __future__ import annotations

import copy
import functools
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import MethodType
from typing import TYPE_CHECKING, Any, Literal, overload

import torch

from cudalens.graphs.backend import backend_for
from cudalens.graphs.functions import Function

if TYPE_CHECKING:
    from cudalens.graphs.functions import Mutations
    from cudalens.graphs.manager import GraphManager


class Graphed:
    """A function that runs through a manager; everything else of it (a module's parameters, say) is the function's.

    Attributes:
        fn: The function itself.
        manager: Who runs it.
    """

    def __init__(self, manager: GraphManager, function: Function) -> None:
        self.manager, self._function = manager, function
        self.fn = function.call
        _take_over_name(self, function.call)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it, by a graph where that is possible."""
        return self.manager.call(self._function, args, kwargs)

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        return self if owner is None else MethodType(self, owner)

    def __getattr__(self, name: str) -> Any:
        if name in ("fn", "manager", "_function"):  # not set yet, as while it is being copied
            raise AttributeError(name)
        return getattr(self.fn, name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Of a module: its copy, run by the same manager; of a function: itself, as functions are copied."""
        if not isinstance(self.fn, torch.nn.Module):
            return self
        function = self._function
        return self.manager.wrap(
            copy.deepcopy(self.fn, memo),
            name=function.name,
            static=function.static,
            mutations=function.mutations,
            check=function.check,
        )

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{self._function.name} belongs to a graph manager, which cannot be pickled; pickle what it wraps (.fn), "
            "or wrap with cudalens.cudagraph."
        )

    def __repr__(self) -> str:
        return f"<cudalens.cudagraph of {self._function.name}>"


class LazyGraphed:
    """As `Graphed`, in the manager of the calling thread and of the device of the call's first tensor.

    Attributes:
        fn: The function itself.
    """

    def __init__(self, fn: Callable[..., Any], options: dict[str, Any]) -> None:
        self.fn, self._options = fn, options
        self._local = threading.local()
        _take_over_name(self, fn)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it, by a graph where that is possible."""
        if not torch.cuda.is_available():
            _warn_without_device(getattr(self.fn, "__name__", "a function"))
            return self.fn(*args, **kwargs)
        return self.on(_device_of(args, kwargs, self.fn))(*args, **kwargs)

    def on(self, device: int) -> Graphed:
        """The callable of this thread's manager for a device."""
        wrapped: dict[int, Graphed] = self._local.__dict__.setdefault("wrapped", {})
        found, owner = wrapped.get(device), manager(device)
        if found is None or found.manager is not owner:
            found = wrapped[device] = owner.wrap(self.fn, **self._options)
        return found

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        return self if owner is None else MethodType(self, owner)

    def __getattr__(self, name: str) -> Any:
        if name in ("fn", "_options", "_local"):
            raise AttributeError(name)
        return getattr(self.fn, name)

    def __reduce__(self) -> Any:
        """A module is copied and pickled with its wrapper; a function stays itself, found by its name."""
        if isinstance(self.fn, torch.nn.Module):
            return LazyGraphed, (self.fn, self._options)
        return self.__qualname__

    def __repr__(self) -> str:
        return f"<cudalens.cudagraph of {getattr(self.fn, '__name__', type(self.fn).__name__)}>"


_managers = threading.local()


def manager(device: int | str | torch.device | None = None) -> GraphManager:
    """This thread's manager of a device, made when it is asked for first.

    Args:
        device: As `GraphManager`.

    Raises:
        GraphError: There is no such device.
    """
    from cudalens.graphs.manager import GraphManager
    from cudalens.graphs.variants import device_index

    index = device_index(device)
    known: dict[int, GraphManager] = _managers.__dict__.setdefault("by_device", {})
    found = known.get(index)
    if found is None or found.is_closed or found.backend is not backend_for(index):
        found = known[index] = GraphManager(index)
    return found


def managers() -> Iterator[GraphManager]:
    """This thread's managers, by device."""
    known: dict[int, GraphManager] = _managers.__dict__.get("by_device", {})
    for _, found in sorted(known.items()):
        if not found.is_closed and found.is_present:
            yield found


def reset() -> None:
    """Free all recordings of this thread's managers; decorated functions begin with a warmup again."""
    for found in list(managers()):
        found.reset()
    _managers.__dict__.pop("by_device", None)


@overload
def cudagraph(fn: Callable[..., Any]) -> LazyGraphed: ...


@overload
def cudagraph(
    fn: None = None,
    *,
    name: str | None = None,
    static: str | int | Sequence[str | int] = (),
    mutations: Mutations = "skip",
    check: bool | None = None,
) -> Callable[[Callable[..., Any]], LazyGraphed]: ...


def cudagraph(
    fn: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    static: str | int | Sequence[str | int] = (),
    mutations: Literal["skip", "copy"] = "skip",
    check: bool | None = None,
) -> Any:
    """Run a function or module by CUDA graphs: warmed up, recorded, then replayed; without one where that is not safe.

    As a decorator, with or without options, or as a call: ``step = cudalens.cudagraph(step)``. Backward works through
    it. What was graphed, what was not and why: ``cudalens.graphs.manager().frame()``, or ``%cudagraph tree`` and
    ``explain`` in a notebook.

    The outputs of one step are overwritten by the next, as with torch.compile(mode="reduce-overhead"): a step begins
    where a function is called again, or at `cudalens.graphs.mark_step_begin()` once that is used. Touching an output
    later raises an error that says so; clone what you keep.

    Args:
        fn: The function or nn.Module.
        name: For reports.
        static: Names or positions of arguments that are the same tensors in every call (a cache, say).
        mutations: For arguments that are overwritten and not static: ``skip`` the graph, or ``copy`` them back.
        check: Compare the first replay of every recording with a call without a graph.
    """
    options = {"name": name, "static": static, "mutations": mutations, "check": check}
    if fn is None:
        return lambda function: cudagraph(function, **options)
    if not callable(fn):
        raise TypeError(f"cudagraph of {type(fn).__name__}: expected a function or an nn.Module.")
    if mutations not in ("skip", "copy"):
        raise TypeError(f"mutations={mutations!r}: expected 'skip' or 'copy'.")
    return LazyGraphed(fn, options)


def _device_of(args: tuple[Any, ...], kwargs: dict[str, Any], fn: Any) -> int:
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor) and value.is_cuda:
            return value.get_device()
    if isinstance(fn, torch.nn.Module):
        for parameter in fn.parameters():
            if parameter.is_cuda:
                return parameter.get_device()
    return torch.cuda.current_device()


def _take_over_name(target: Any, fn: Callable[..., Any]) -> None:
    if not isinstance(fn, torch.nn.Module):
        functools.update_wrapper(target, fn, updated=())


@functools.cache
def _warn_without_device(name: str) -> None:
    warnings.warn(
        f"cudalens.cudagraph: there is no CUDA device, so {name} runs as it is "
        "(cudalens.virtual.device('h100') or `%cudadevice virtual h100` models one).",
        RuntimeWarning,
        stacklevel=3,
    )
