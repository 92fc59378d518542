"""Backward passes on threads of torch's autograd engine, without a GPU.

For tensors on a GPU the engine runs a backward in a thread of C++ that has no Python frames and that the caller's
thread waits for. For tensors on the CPU it runs it in the caller's thread, unless backwards are nested more deeply than
60: those go to a pool of threads (``MAX_DEPTH`` in torch/csrc/autograd/engine.h). Here each backward is in 61 others.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
from torch.utils._python_dispatch import (
    _disable_current_modes,
    _get_current_dispatch_mode_stack,
    _pop_mode,
    _push_mode,
)

_DEPTH: Final = 61
_kept: Final = threading.local()


@contextlib.contextmanager
def backward_on_engine_thread() -> Iterator[None]:
    """While it is entered, the engine runs each backward in a thread without Python frames."""
    owner: Any = torch.autograd.graph.Variable
    engine = owner._execution_engine
    owner._execution_engine = _Engine(engine)
    try:
        yield
    finally:
        owner._execution_engine = engine


class _Engine:
    """The engine, with each backward at the depth at which it takes another thread."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def run_backward(self, *args: Any, **kwargs: Any) -> Any:
        if hasattr(_kept, "state"):  # a thread of a device runs its own backwards
            return self._engine.run_backward(*args, **kwargs)
        found: list[Any] = []
        modes, has_gradients = list(_get_current_dispatch_mode_stack()), torch.is_grad_enabled()

        def run() -> None:
            self._nested(1, _keep_thread_state)
            with _pushed(modes), torch.set_grad_enabled(has_gradients):
                found.append(self._engine.run_backward(*args, **kwargs))

        with _disable_current_modes(), _Failure() as failure:
            self._nested(_DEPTH, failure.kept(run))
        return found[0]

    def _nested(self, depth: int, function: Callable[[], None]) -> None:
        """Call a function inside of nested backwards."""
        step = function if depth == 1 else lambda: self._nested(depth - 1, function)
        with torch.enable_grad():
            one = _Step.apply(torch.ones(1, requires_grad=True), step)
        self._engine.run_backward((one,), (torch.ones(1),), False, False, (), True, accumulate_grad=True)


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, one: torch.Tensor, function: Callable[[], None]) -> torch.Tensor:
        ctx.function = function
        return one.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        ctx.function()
        return None, None


class _Failure:
    """Takes an exception past the nested backwards unchanged."""

    def __init__(self) -> None:
        self._error: BaseException | None = None

    def kept(self, function: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                function()
            except BaseException as error:
                self._error = error

        return run

    def __enter__(self) -> _Failure:
        return self

    def __exit__(self, *_: object) -> None:
        if self._error is not None:
            raise self._error


@contextlib.contextmanager
def _pushed(modes: list[Any]) -> Iterator[None]:
    for mode in modes:
        _push_mode(mode)
    try:
        yield
    finally:
        for _ in modes:
            _pop_mode()


def _keep_thread_state() -> None:
    """Give this thread a Python state for good, as threads of a device have: an exception stays in it."""
    assert sys._getframe().f_back.f_back.f_back is None, "the engine did not take another thread"
    if not hasattr(_kept, "state"):
        _kept.state = ctypes.pythonapi.PyGILState_Ensure()
