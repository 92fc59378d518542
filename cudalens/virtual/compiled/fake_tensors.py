"""Let fake CUDA tensors pass torch's autograd in a build without CUDA.

torch's C++ asks Python for the device of a fake tensor. While code is traced, the answer is a device that autograd
accepts (`tracing.hidden_device`). Operators that C++ then calls with this device get CUDA again, before any torch mode
handles them.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from cudalens.device.modes import is_faking
from cudalens.virtual.compiled.tracing import current_stack, hidden_device, is_tracing, set_stack, shown_device
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches, when_imported
from cudalens.virtual.tensors.residency import place_of


def install_methods(patches: Patches, gpus: Gpus) -> None:
    """Replace methods of fake tensors that make their device current in C++, which has no CUDA.

    DTensor finds the sizes of results with fake tensors on the device of its mesh: ``uniform_()`` copies there.
    """

    def copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
        return torch.ops.aten.copy_.default(self, src, non_blocking)

    def contiguous(self: Any, *, memory_format: torch.memory_format = torch.contiguous_format) -> Any:
        return torch.ops.aten.contiguous.default(self, memory_format=memory_format)

    def replace(module: Any) -> None:
        patches.set(module.FakeTensor, "copy_", copy_)
        patches.set(module.FakeTensor, "contiguous", contiguous)

    when_imported(patches, "torch._subclasses.fake_tensor", replace)


def install(patches: Patches) -> None:
    """Patch fake tensors and the modes that trace operators."""
    from torch._subclasses import fake_tensor
    from torch._subclasses.functional_tensor import FunctionalTensorMode
    from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode

    kind: Any = fake_tensor.FakeTensor
    mode: Any = fake_tensor.FakeTensorMode
    own_dispatch = kind.__torch_dispatch__.__func__

    def dispatch(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.prim.device.default and is_tracing():
            return _device_in_cpp(args[0])
        return own_dispatch(cls, func, types, args, kwargs or {})

    patches.set(kind, "__torch_dispatch__", classmethod(dispatch))
    handlers = fake_tensor._DISPATCH_META_HANDLERS
    by_mode: Any = handlers[torch.ops.prim.device.default]
    answer = lambda args: _device_in_cpp(args[0]) if is_tracing() else by_mode(args)  # noqa: E731
    patches.set_item(handlers, torch.ops.prim.device.default, answer)

    avoids = mode.avoid_device_init.fget
    patches.set(mode, "avoid_device_init", property(lambda self: is_tracing() or avoids(self)))
    _fold_on_host(patches)
    _trace_constants_on_host(patches)
    _lay_out_convolutions(patches)
    for traced in (mode, FunctionalTensorMode, ProxyTorchDispatchMode):
        patches.set(traced, "__torch_dispatch__", _with_shown_devices(traced.__torch_dispatch__))


class HostConstants(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Makes on the host the small tensors that torch computes to find constants of a graph."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not is_faking():
            args = tuple([_on_host_device(value) for value in args])
            kwargs = {name: _on_host_device(value) for name, value in kwargs.items()}
        return func(*args, **kwargs)


def _on_host_device(value: Any) -> Any:
    is_device = isinstance(value, torch.device) and value.type == "cuda"
    return torch.device("cpu") if is_device else value


def _fold_on_host(patches: Patches) -> None:
    from torch._inductor.constant_folding import ConstantFolder
    from torch._inductor.fx_passes.joint_graph import UniformValueConstantFolder

    folder: Any = ConstantFolder
    uniform: Any = UniformValueConstantFolder
    patches.set(folder, "run", _on_host(folder.run))
    patches.set(uniform, "_add_peephole_patterns", _on_host(uniform._add_peephole_patterns))


def _trace_constants_on_host(patches: Patches) -> None:
    """Move constants of a program (``torch.tensor([1.0], device="cuda")``) to no device while they are traced."""
    from torch.fx.experimental import proxy_tensor

    module: Any = proxy_tensor
    unset_fake = module.unset_fake_temporarily

    @contextmanager
    def unset_fake_on_host() -> Iterator[Any]:
        with unset_fake() as before:
            if not is_tracing():
                yield before
                return
            with HostConstants():  # type: ignore[no-untyped-call]
                yield before

    patches.set(module, "unset_fake_temporarily", unset_fake_on_host)


def _lay_out_convolutions(patches: Patches) -> None:
    """Give results of convolutions the layout of cuDNN's: channels last if the input or the weight has it."""
    from torch._prims_common import suggest_memory_format

    of_backend: Any = torch._C._conv_determine_backend_memory_format

    def memory_format(value: torch.Tensor, weight: torch.Tensor, backend: Any) -> torch.memory_format:
        if not is_tracing() or torch.float64 in (value.dtype, weight.dtype):
            return of_backend(value, weight, backend)
        formats = [suggest_memory_format(tensor) for tensor in (value, weight)]
        return next((found for found in formats if found is not torch.contiguous_format), torch.contiguous_format)

    patches.set(torch._C, "_conv_determine_backend_memory_format", memory_format)


def _on_host(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def compute(*args: Any, **kwargs: Any) -> Any:
        if not is_tracing():
            return function(*args, **kwargs)
        with HostConstants():  # type: ignore[no-untyped-call]
            return function(*args, **kwargs)

    return compute


def _device_in_cpp(tensor: Any) -> torch.device:
    if tensor.fake_mode.in_kernel_invocation:
        return torch.device("meta")
    return hidden_device(tensor.fake_device)


def _with_shown_devices(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def dispatch(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if is_tracing():
            args = tuple([_shown(value) for value in args])
            kwargs = {name: _shown(value) for name, value in (kwargs or {}).items()}
        return original(self, func, types, args, kwargs or {})

    return dispatch


def _shown(value: Any) -> Any:
    return shown_device(value) if isinstance(value, torch.device) else value


# Guards of compiled code that C++ cannot check: the device of a tensor, and the function modes of the program.

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


def install_guards(patches: Patches) -> None:
    """Add a guard for the device of each tensor, which is a CPU tensor for C++."""
    from torch._dynamo import guards
    from torch._dynamo.guards import CheckFunctionManager, GuardBuilder
    from torch._dynamo.variables.ctx_manager import TorchFunctionDisableVariable
    from torch._guards import Guard

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
    # Dynamo made one guard with the method when it was imported, for functions that ask whether modes are enabled.
    made_before: Any = TorchFunctionDisableVariable._guards_singleton
    patches.set(
        TorchFunctionDisableVariable,
        "_guards_singleton",
        Guard(made_before.originating_source, builder.TORCH_FUNCTION_STATE),
    )


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
