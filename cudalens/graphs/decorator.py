"""`cudagraph`: run a function or module by CUDA graphs, in the manager of the calling thread."""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import MethodType
from typing import Any, Literal, overload

import torch

from cudalens.device.tensors import PLAIN_TYPES
from cudalens.graphs.functions import Function, Mutations
from cudalens.graphs.graphed import Graphed, take_over_name
from cudalens.graphs.managers import is_in_use, limited_manager, manager
from cudalens.graphs.padding import Pad, call_padded, pads_of


class LazyGraphed:
    """Like `Graphed`, with the manager of the calling thread and of the device of the call's first tensor.

    Attributes:
        fn: The function itself.
    """

    def __init__(self, fn: Callable[..., Any], options: dict[str, Any]) -> None:
        self.fn, self._options = fn, options
        self._local = threading.local()
        take_over_name(self, fn)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function, by a graph if possible."""
        first = args[0] if args else None
        if not (isinstance(first, torch.Tensor) and _is_on_cuda(first)) and not torch.cuda.is_available():
            name = str(getattr(self.fn, "__name__", "a function"))
            _warn_without_device(name)
            if pad := self._options.get("pad"):  # the results are those of the padded call on every machine
                return call_padded(Function(0, name, self.fn, None, pad=pad), args, kwargs, self.fn)
            return self.fn(*args, **kwargs)
        return self.on(_device_of(args, kwargs, self.fn))(*args, **kwargs)

    def on(self, device: int) -> Graphed:
        """The callable of this thread's manager for a device."""
        wrapped: dict[int, Graphed] = self._local.__dict__.setdefault("wrapped", {})
        found = wrapped.get(device)
        if found is None or not is_in_use(found.manager):
            options = dict(self._options)
            max_bytes = options.pop("max_bytes", None)
            mine = manager(device) if max_bytes is None else limited_manager(device, max_bytes)
            found = wrapped[device] = mine.wrap(self.fn, **options)
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
    eager_if_slower: bool = True,
    max_bytes: int | None = None,
    pad: Mapping[str, int | Pad] | None = None,
) -> Callable[[Callable[..., Any]], LazyGraphed]: ...


def cudagraph(
    fn: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    static: str | int | Sequence[str | int] = (),
    mutations: Literal["skip", "copy"] = "skip",
    check: bool | None = None,
    eager_if_slower: bool = True,
    max_bytes: int | None = None,
    pad: Mapping[str, int | Pad] | None = None,
) -> LazyGraphed | Callable[[Callable[..., Any]], LazyGraphed]:
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
        check: Compare the first and every 32nd replay of each recording with a call without a graph.
        eager_if_slower: Run the function without a graph after some replays, if a replay costs the host more than the
            launches that it saves: measured on a GPU, modelled on a virtual device.
        max_bytes: The function gets a memory pool of its own, which may reserve so much. The recording that goes beyond
            is freed, and no other is made: those calls run without a graph. None for the pool that functions share.
        pad: Arguments whose lengths grow, by name: ``{"input_ids": 64}`` pads the last dimension with zeros to a
            multiple of 64, a `cudalens.graphs.Pad` states another dimension and value, and which results are cut. The
            function is always called with the padded argument, by a graph or without one.
    """
    if max_bytes is not None and (isinstance(max_bytes, bool) or not isinstance(max_bytes, int) or max_bytes < 0):
        raise TypeError(f"max_bytes={max_bytes!r}: expected a number of bytes, or None for no limit.")
    options = {
        "name": name,
        "static": static,
        "mutations": mutations,
        "check": check,
        "eager_if_slower": eager_if_slower,
        "max_bytes": max_bytes,
        "pad": pads_of(pad),
    }
    if fn is None:
        return lambda function: cudagraph(function, **options)
    if not callable(fn):
        raise TypeError(f"cudagraph of {type(fn).__name__}: expected a function or an nn.Module.")
    if mutations not in ("skip", "copy"):
        raise TypeError(f"mutations={mutations!r}: expected 'skip' or 'copy'.")
    return LazyGraphed(fn, options)


def _is_on_cuda(tensor: torch.Tensor) -> bool:
    """Whether a tensor is on a CUDA device; no mode or class of the program, which may count calls, sees it read."""
    if type(tensor) in PLAIN_TYPES and not torch._C._len_torch_function_stack():
        return tensor.is_cuda
    with torch._C.DisableTorchFunction():
        return tensor.is_cuda


def _device_of(args: tuple[Any, ...], kwargs: dict[str, Any], fn: Any) -> int:
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor) and _is_on_cuda(value):
            with torch._C.DisableTorchFunction():
                return value.get_device()
    if isinstance(fn, torch.nn.Module):
        for parameter in fn.parameters():
            if parameter.is_cuda:
                return parameter.get_device()
    return torch.cuda.current_device()


@functools.cache
def _warn_without_device(name: str) -> None:
    warnings.warn(
        f"cudalens.cudagraph: there is no CUDA device, so {name} runs as it is "
        "(cudalens.virtual.device('h100') or `%cudadevice virtual h100` models one).",
        RuntimeWarning,
        stacklevel=3,
    )
