"""Guards of compiled code that C++ cannot check: the device of a tensor, and the function modes of the program."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch

from cudalens.virtual.compiled.tracing import current_stack, set_stack
from cudalens.virtual.patching import Patches
from cudalens.virtual.tensors.residency import place_of

#: The function modes of the program that is compiled, outermost first.
_expected: Final[list[list[Any]]] = []


@contextmanager
def expected_stack(stack: list[Any]) -> Iterator[None]:
    """Compiled code inside of this context is used under these function modes."""
    _expected.append(stack)
    try:
        yield
    finally:
        _expected.pop()


def install(patches: Patches) -> None:
    """Add a guard for the device of each tensor, which is a CPU tensor for C++."""
    from torch._dynamo import guards
    from torch._dynamo.guards import CheckFunctionManager, GuardBuilder

    dynamo_guards: Any = guards

    builder: Any = GuardBuilder
    manager_kind: Any = CheckFunctionManager
    make_guards = manager_kind.__init__
    match_tensor, match_modes = builder.TENSOR_MATCH, builder.TORCH_FUNCTION_STATE

    made: list[weakref.ref[Any]] = []
    patches.on_restore(lambda: _invalidate(made))

    def match_tensor_and_device(self: Any, guard: Any, value: Any = None) -> None:
        match_tensor(self, guard, value)
        found = value if value is not None else self.get(guard)
        found = found if isinstance(found, torch.Tensor) else found()
        device = _device_of(found)
        self.get_guard_manager(guard).add_lambda_guard(
            lambda tensor: _device_of(tensor) == device,
            [f"{self.arg_ref(guard)}.device == {str(device or torch.device('cpu'))!r}"],
            guard.user_stack,
        )

    def match_all_modes(self: Any, guard: Any) -> None:
        manager = self.check_fn_manager
        before = manager.torch_function_mode_stack
        if _expected:
            manager.torch_function_mode_stack = _expected[-1]
        try:
            match_modes(self, guard)
        finally:
            manager.torch_function_mode_stack = before

    def make_guards_under_modes(self: Any, *args: Any, **kwargs: Any) -> None:
        # Dynamo checks the new guards at once, as if the program called the function.
        with _stack_restored():
            make_guards(self, *args, **kwargs)
        made.append(weakref.ref(self.guard_manager))

    explain = dynamo_guards.get_guard_fail_reason

    def explain_under_modes(*args: Any, **kwargs: Any) -> Any:
        with _stack_restored():  # else the guard of the modes would be the reason of every recompilation
            return explain(*args, **kwargs)

    patches.set(dynamo_guards, "get_guard_fail_reason", explain_under_modes)
    patches.set(manager_kind, "__init__", make_guards_under_modes)
    patches.set(builder, "TENSOR_MATCH", _like(match_tensor_and_device, match_tensor))
    patches.set(builder, "TORCH_FUNCTION_STATE", _like(match_all_modes, match_modes))


def _invalidate(made: list[weakref.ref[Any]]) -> None:
    """Remove compiled code from its functions, which would keep it, and count it as recompilations."""
    from torch._dynamo.guards import DeletedGuardManagerWrapper

    for reference in made:
        manager = reference()
        entry, state = getattr(manager, "cache_entry", None), getattr(manager, "extra_state", None)
        if entry is not None and state is not None:
            state.invalidate(entry, DeletedGuardManagerWrapper("the virtual CUDA device has ended"))


@contextmanager
def _stack_restored() -> Iterator[None]:
    inside = current_stack()
    if _expected:
        set_stack(_expected[-1])
    try:
        yield
    finally:
        set_stack(inside)


def _like(function: Any, original: Any) -> Any:
    """Copy what torch has written to the method: guards are chosen by their names and attributes."""
    function.__name__, function.__qualname__ = original.__name__, original.__qualname__
    vars(function).update(vars(original))
    return function


def _device_of(tensor: Any) -> torch.device | None:
    """The virtual device of a tensor; None in host memory."""
    place = place_of(tensor)
    return None if place is None else place.torch_device
