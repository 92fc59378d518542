"""Callables that run through a graph manager."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any

import torch

from cudalens.graphs.functions import Function
from cudalens.graphs.padding import call_padded

if TYPE_CHECKING:
    from cudalens.graphs.manager import GraphManager


class Graphed:
    """A function that runs through a manager. Its other attributes (a module's parameters, say) are the function's.

    Attributes:
        fn: The function itself.
        manager: The manager.
    """

    def __init__(self, manager: GraphManager, function: Function) -> None:
        self.manager, self._function = manager, function
        self.fn = function.call
        take_over_name(self, function.call)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function, by a graph if possible."""
        function = self._function
        if not function.pad:
            return self.manager.call(function, args, kwargs)
        return call_padded(function, args, kwargs, self._call_with)

    def _call_with(self, *args: Any, **kwargs: Any) -> Any:
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
            eager_if_slower=function.eager_if_slower,
            pad=function.pad,
        )

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{self._function.name} belongs to a graph manager, which cannot be pickled; pickle what it wraps (.fn), "
            "or wrap with cudalens.cudagraph."
        )

    def __repr__(self) -> str:
        return f"<cudalens.cudagraph of {self._function.name}>"


def take_over_name(target: Any, fn: Callable[..., Any]) -> None:
    """Give `target` the name and documentation of the function `fn`; not of a module."""
    if not isinstance(fn, torch.nn.Module):
        functools.update_wrapper(target, fn, updated=())
