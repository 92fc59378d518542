"""Device arguments: run a call with ``device="cuda"`` on the CPU, with a result on the virtual device."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from numbers import Integral
from types import FrameType
from typing import Any, Final, TypeAlias

import torch
from torch._ops import OpOverload
from torch.nn import _reduction, functional
from torch.overrides import TorchFunctionMode
from torch.utils import _device as torch_default_device

from cudalens.device import call_tracing
from cudalens.device.modes import is_faking
from cudalens.virtual.dispatch import recurrent, refusals
from cudalens.virtual.dispatch.attention import attend, cpu_backends
from cudalens.virtual.dispatch.mixed_devices import adopt_marked, locate
from cudalens.virtual.dispatch.plans import is_torch_function
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches
from cudalens.virtual.tensors.copies import from_data, is_python_data, to_device
from cudalens.virtual.tensors.residency import residence_of
from cudalens.virtual.timing.machine import Device

Handler: TypeAlias = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]

_CPU: Final = torch.device("cpu")
_DEFAULT: Final[Any] = getattr(torch.Tensor.__torch_function__, "__func__", None)
#: That of classes such as Parameter, whose calls torch handles as those of plain tensors.
_DISABLED: Final = torch._C._disabled_torch_function_impl
#: Attribute of higher-order operators.
_KEYS: Final = "non_fallthrough_keys"
_SETITEM: Final = torch.Tensor.__setitem__
#: The dispatch mode handles its CUDA device; a call for the host would make two copies.
_TO_COPY: Final = torch.ops.aten._to_copy.default

_TO: Final[Any] = torch.ops.aten.to
_MOVES: Final = frozenset({_TO_COPY, _TO_COPY.overloadpacket, *(getattr(_TO, name) for name in _TO.overloads())})

#: The result is created on the host and then moved, as torch does for a GPU; it is still a leaf.
_MADE_ON_HOST: Final = frozenset({torch.tensor, torch.as_tensor, torch.asarray, torch.Tensor.new_tensor})


class FunctionMode(TorchFunctionMode):
    """Removes the CUDA device from a call's arguments and passes it to the dispatch mode.

    Attributes:
        is_of_virtual_device: Tells it from the modes of a user.
    """

    is_of_virtual_device = True

    def __init__(self, gpus: Gpus) -> None:
        super().__init__()
        self._gpus, self._target = gpus, gpus.target
        self._host_time = gpus.machine.host_time
        self._methods = _methods()

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if kwargs is None:
            kwargs = {}
        # Closed: on a thread that outlives the device.
        if self._gpus.is_closed or (isinstance(func, OpOverload) and _is_forwarded(func)):
            return func(*args, **kwargs)
        handler = self._enter(func, types, kwargs)
        try:
            out = func(*args, **kwargs) if handler is None else handler(func, args, kwargs)
            if self._target.has_internal:
                # torch's C++ creates some results for arguments that it takes for CPU tensors without an operator that
                # decides their device: the spectral norm of an empty matrix is zeros.
                self._target.has_internal = False
                device, _ = locate((*args, *kwargs.values()))
                if isinstance(out, torch.Tensor) and device is not None:
                    adopt_marked(self._gpus, out, device)
            return out
        except RuntimeError as error:
            better = refusals.explain(error, _name_of(func), (*args, *kwargs.values()))
            if better is None:
                raise
            try:
                raise better from error
            finally:
                del better  # this frame is in its traceback: a cycle would keep the tensors of the call
        finally:
            self._host_time.leave()

    @call_tracing.pausable
    def _enter(self, func: Any, types: Any, kwargs: dict[str, Any]) -> Handler | None:
        """End the program's time before a call, and return what handles it; None for the function itself."""
        self._host_time.enter()
        try:
            return self._handler(func, types, kwargs)
        except BaseException:
            self._host_time.leave()
            raise

    def _handler(self, func: Any, types: Any, kwargs: dict[str, Any]) -> Handler | None:
        if types and torch._C._is_torch_function_enabled():
            own = [kind.__torch_function__ for kind in types if kind.__torch_function__ is not _DISABLED]
            if any(getattr(function, "__func__", None) is not _DEFAULT for function in own):
                return functools.partial(self._call_subclasses, types)
        if is_faking() and func not in MAKE_DEVICES:
            return self._fake
        if func in MAKE_DEVICES:
            return MAKE_DEVICES[func]
        method = self._methods.get(func)
        if method is not None:
            return functools.partial(method, self)
        if kwargs.get("device") is not None:
            return functools.partial(self._place, device=kwargs["device"])
        if hasattr(func, _KEYS):
            return self._call_higher_order
        return HANDLERS.get(func)

    def _call_subclasses(self, types: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the functions of tensor subclasses, as torch does after the modes."""
        with user_code(self._gpus):
            for kind in types:
                out = kind.__torch_function__(func, types, args, kwargs)
                if out is not NotImplemented:
                    return out
        raise TypeError(
            f"Multiple dispatch failed for {_name_of(func)!r}; all __torch_function__ handlers returned NotImplemented"
        )

    def _call_higher_order(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Dispatch an operator that calls user code, such as the methods of a ``Function`` under torch.func."""
        with user_code(self._gpus):
            find_keys: Any = torch._ops._compute_keyset
            keys = find_keys(args, kwargs, getattr(func, _KEYS))
            return func.dispatch(keys.highestPriorityTypeId(), *args, **kwargs)

    def _make(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        device = kwargs.get("device")
        if device is None:
            device = torch_default_device.CURRENT_DEVICE
        target = self._target
        before, target.is_factory = target.is_factory, True
        try:
            return func(*args, **kwargs) if device is None else self._place(func, args, kwargs, device)
        finally:
            target.is_factory = before

    def _place(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], device: Any) -> Any:
        """Call `func` for the CPU, with `device` as the target."""
        index = self._gpus.device_index(device)
        if index is None and torch.device(device).type != "cpu":
            return func(*args, **{**kwargs, "device": device})
        place = None if index is None else self._gpus.devices[index]
        if place is not None and func in _MADE_ON_HOST and args and is_python_data(args[0]):
            requires_grad = kwargs.pop("requires_grad", False)
            with self._target.named(place):
                made = from_data(self._gpus, lambda: func(*args, **{**kwargs, "device": _CPU}), place)
            return made.requires_grad_() if requires_grad else made
        with self._target.named(place):
            out = func(*args, **{**kwargs, "device": _CPU})
        return self._move_result(out, func, place) if isinstance(out, torch.Tensor) else out

    def _move_result(self, out: torch.Tensor, func: Any, place: Device | None) -> torch.Tensor:
        """Move a result that torch created on the host without an aten factory."""
        residence = residence_of(out)
        if (residence.device if residence is not None else None) is place:
            return out
        if func not in _MADE_ON_HOST or not (out.is_leaf and out.requires_grad):
            return to_device(self._gpus, out, place)
        return to_device(self._gpus, out.detach(), place).requires_grad_()

    def _fake(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Under a FakeTensorMode torch takes CUDA devices itself, but for tensors that it makes on the host first."""
        index = self._gpus.device_index(kwargs.get("device"))
        if index is None:
            return func(*args, **kwargs)
        device = self._gpus.torch_devices[index]
        if func not in _MADE_ON_HOST:
            return func(*args, **{**kwargs, "device": device})
        return func(*args, **{**kwargs, "device": _CPU}).to(device)

    def _move(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The operators below ``Tensor.to``, called by name.

        torch's C++ takes the tensor for one of the CPU. Gradients go back to where the tensor came from.
        """
        schema = getattr(func, "_schema", _TO_COPY._schema)
        named = dict(zip((argument.name for argument in schema.arguments), args, strict=False)) | kwargs
        tensor, device = named.get("self"), named.get("device")
        model = named.get("other")
        device = model.device if isinstance(model, torch.Tensor) else device
        if device is None or not isinstance(tensor, torch.Tensor) or self._target.is_named:
            return func(*args, **kwargs)
        is_copy = func in (_TO_COPY, _TO_COPY.overloadpacket)
        if is_copy and not tensor.requires_grad:
            with self._target.named():
                return func(*args, **kwargs)
        dtype = model.dtype if isinstance(model, torch.Tensor) else named.get("dtype")
        rest: dict[str, Any] = {
            "non_blocking": bool(named.get("non_blocking")),
            "memory_format": named.get("memory_format"),
            "copy": bool(named.get("copy")),
        }
        moved = tensor.to(device, dtype, **rest)
        return moved.clone() if moved is tensor and is_copy else moved

    def _unravel_index(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Observe the tensors of Python numbers that torch's function makes on the device of the indices."""
        with user_code(self._gpus):
            parts: torch.Tensor = torch.functional._unravel_index(*args, **kwargs)
        return parts.unbind(-1)

    def _assign(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        target = self._target
        before, target.is_assigning = target.is_assigning, True
        try:
            return func(*args, **kwargs)
        finally:
            target.is_assigning = before


@functools.cache
def _methods() -> dict[Any, Callable[..., Any]]:
    """Return the method of the mode for each function that needs one."""
    return {
        **dict.fromkeys(torch_default_device._device_constructors(), FunctionMode._make),
        **dict.fromkeys(_MOVES, FunctionMode._move),
        _SETITEM: FunctionMode._assign,
        torch.unravel_index: FunctionMode._unravel_index,
    }


@contextmanager
def user_code(gpus: Gpus) -> Iterator[None]:
    """Enable the function mode for user code inside of a torch function: hooks, functions of tensor subclasses, ...

    torch removes a mode from its stack while the mode handles a function.
    """
    is_off = torch._C._is_torch_function_all_disabled()
    with gpus.target.cleared(), torch._C._EnableTorchFunction() if is_off else nullcontext():
        depth = torch._C._len_torch_function_stack()
        if any(isinstance(torch._C._get_function_stack_at(level), FunctionMode) for level in range(depth)):
            yield
            return
        with FunctionMode(gpus):
            yield


def install(patches: Patches, gpus: Gpus) -> None:
    """Enable the function mode in saved-tensor hooks, which torch's C++ calls while an operator runs."""
    push = torch._C._autograd._push_saved_tensors_default_hooks

    def push_wrapped(pack: Callable[..., Any], unpack: Callable[..., Any]) -> None:
        push(_as_user_code(gpus, pack), _as_user_code(gpus, unpack))

    patches.set(torch._C._autograd, "_push_saved_tensors_default_hooks", push_wrapped)


def _as_user_code(gpus: Gpus, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any) -> Any:
        if gpus.is_closed:
            return function(*args)
        with user_code(gpus):
            return function(*args)

    return call


def _is_forwarded(func: OpOverload[..., Any]) -> bool:
    """Return whether a dispatch mode calls the operator that it was given: its device is the one that C++ named."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and not is_torch_function(frame):
        if frame.f_code.co_name == "__torch_dispatch__":
            return any(value is func for value in frame.f_locals.values())
        frame = frame.f_back
    return False


def _name_of(func: Any) -> str:
    return torch.overrides.resolve_name(func) or getattr(func, "__name__", str(func))


# Spellings of a device: an index, a tensor, or a name.


def install_spellings(patches: Patches, gpus: Gpus) -> None:
    """Replace a factory, and the argument of ``torch.jit.load``, that torch's modes do not see.

    torch's C++ resolves an index with the accelerator that it was built for, which a virtual device is not.
    """
    original: Any = torch.range

    def range_(*args: Any, device: Any = None, requires_grad: bool = False, **kwargs: Any) -> torch.Tensor:
        if gpus.device_index(device) is None:
            kwargs |= {} if device is None else {"device": device}
            return original(*args, requires_grad=requires_grad, **kwargs)
        return original(*args, **kwargs).to(device).requires_grad_(requires_grad)

    range_.__name__, range_.__doc__ = "range", original.__doc__
    patches.set(torch, "range", range_)

    check_location: Any = torch.jit._serialization.validate_map_location

    def with_index(map_location: Any = None) -> Any:
        location = check_location(map_location)
        index = gpus.device_index(location)
        return location if index is None else gpus.torch_devices[index]

    patches.set(torch.jit._serialization, "validate_map_location", with_index)


def index_of(given: Any) -> int | None:
    """The index that names a device: torch takes integers, NumPy's too, but no bool. None for another spelling."""
    return int(given) if not isinstance(given, bool) and isinstance(given, Integral) else None


def _device(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``torch.device(1)``: an index alone is one of the accelerator."""
    given = args[0] if args else kwargs.get("device")
    index = index_of(given)
    return func(*args, **kwargs) if index is None or index < 0 else torch.device("cuda", index)


def _parse_to(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What ``to()`` of a module or a packed sequence was given: device, dtype, non_blocking and memory format."""
    if "device" in kwargs:
        kwargs = {**kwargs, "device": _with_type(kwargs["device"])}
    if args:
        args = (_with_type(args[0]), *args[1:])
    device, *others = func(*args, **kwargs)
    model = args[0] if args else kwargs.get("tensor")
    return (model.device if isinstance(model, torch.Tensor) else device, *others)


def _with_type(given: Any) -> Any:
    index = index_of(given)
    return given if index is None else torch.device("cuda", index)


#: They take a device and make no tensor.
MAKE_DEVICES: Final[dict[Any, Handler]] = {
    torch.device: _device,
    torch._C._nn._parse_to: _parse_to,
}


# Wrap functions whose C++ code chooses a different implementation for CUDA tensors (attention, ctc_loss, ...).

_CTC_LOSS: Final = ("log_probs", "targets", "input_lengths", "target_lengths", "blank", "reduction", "zero_infinity")


def _attention(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    with cpu_backends():
        return func(*args, **kwargs)


def _attend(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return attend(*args, **kwargs)


def _ctc_loss(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Pass lengths on the host as numbers, as the CUDA implementation reads them.

    The mean is computed here, because torch's C++ code would make the lengths that divide the losses on the CPU.
    """
    named = {**dict(zip(_CTC_LOSS, args, strict=False)), **kwargs}
    lengths = {name: _host_lengths(named.get(name)) for name in ("input_lengths", "target_lengths")}
    are_tensors = {isinstance(named.get(name), torch.Tensor) for name in lengths}
    if None in lengths.values() or len(are_tensors) > 1 or len(args) > len(_CTC_LOSS):
        return func(*args, **kwargs)  # lengths on a device, or an error of torch
    if not isinstance(named.get("log_probs"), torch.Tensor) or residence_of(named["log_probs"]) is None:
        return func(*args, **kwargs)
    named.update(lengths)
    if named.get("reduction", "mean") not in ("mean", _reduction.get_enum("mean")):
        return func(**named)
    named["reduction"] = "none" if func is functional.ctc_loss else _reduction.get_enum("none")
    losses = func(**named)
    return (losses / losses.new_tensor(lengths["target_lengths"]).clamp_min(1)).mean()


def _host_lengths(given: Any) -> tuple[int, ...] | None:
    """Return lengths as numbers; None for those on a device."""
    if isinstance(given, torch.Tensor):
        return tuple(given.flatten().tolist()) if residence_of(given) is None else None
    return tuple(given) if isinstance(given, (list, tuple)) else None


def _one_hot(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Skip the host's check of the class indices, which CUDA leaves to the kernel."""
    index: Any = args[0] if args else next(filter(torch.is_tensor, kwargs.values()))
    num_classes = args[1] if len(args) > 1 else kwargs.get("num_classes", -1)
    if num_classes <= 0 or residence_of(index) is None or index.dtype != torch.int64 or not index.numel():
        return func(*args, **kwargs)
    blank = index.new_zeros((*index.shape, num_classes))
    return blank.scatter_(-1, index.unsqueeze(-1), 1)


def _matrix_rank(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Write the result into ``out``, which torch leaves unchanged under any dispatch mode.

    The rank of an empty matrix is made here: torch's C++ code makes it on the CPU without a call of the dispatcher.
    """
    out = kwargs.pop("out", None)
    rank: torch.Tensor = func(*args, **kwargs)
    matrix: torch.Tensor = args[0] if args else next(filter(torch.is_tensor, kwargs.values()))
    if not matrix.numel() and residence_of(matrix) is not None:
        rank = matrix.new_empty(rank.shape, dtype=rank.dtype).zero_()  # two calls, as in torch: its version is 1
    if out is None:
        return rank
    return out.resize_(rank.shape).copy_(rank)


HANDLERS: Final[dict[Any, Handler]] = {
    functional.scaled_dot_product_attention: _attend,
    functional.multi_head_attention_forward: _attention,
    functional.ctc_loss: _ctc_loss,
    functional.one_hot: _one_hot,
    torch.linalg.matrix_rank: _matrix_rank,
    torch.ctc_loss: _ctc_loss,
    **dict.fromkeys(recurrent.FUNCTIONS, recurrent.run_layers),
}
