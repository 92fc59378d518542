"""Patch the attributes and methods of torch.Tensor for a virtual device (device, is_cuda, to, data_ptr, ...).

The patches are class attributes, so that they apply in every thread, below dispatch, and in C++ that calls Python.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any, Final

import torch
from torch.nn.parameter import is_lazy
from torch.overrides import handle_torch_function, has_torch_function_unary

from cudalens.device import call_tracing
from cudalens.device.tensors import PLAIN_TYPES
from cudalens.errors import VirtualDeviceError
from cudalens.virtual.compiled.tracing import hidden_device, is_tracing, shown_device
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches
from cudalens.virtual.shapes.reading import contents_error, describe
from cudalens.virtual.shapes.storage import lacks_values
from cudalens.virtual.tensors import storages
from cudalens.virtual.tensors.copies import from_data, is_python_data, run_copy, to_device
from cudalens.virtual.tensors.residency import (
    KEY,
    Residence,
    is_pinned,
    is_sparse,
    pin,
    place_of,
    residence_of,
)

_DEFAULT_FUNCTION: Final[Any] = getattr(torch.Tensor.__torch_function__, "__func__", None)
#: Methods that torch writes in Python, and that ask the modes and classes themselves.
_ASKS_MODES: Final = frozenset({"__array__", "__repr__"})
_HOST_FIRST: Final = "Use Tensor.cpu() to copy the tensor to host memory first."
_UNSET: Final = object()


def install(patches: Patches, gpus: Gpus) -> None:
    """Make tensors of the virtual devices behave as CUDA tensors."""
    # torch caches the getters of Tensor's attributes at the first call; torch._dynamo, which optimizers import at
    # their first use, expects the getters of C.
    torch.overrides.get_default_nowrap_functions()
    moves = _Moves(gpus)
    for name in ("to", "cuda", "cpu"):
        patches.set(torch.Tensor, name, _Method(name, _or_lazy(_method(getattr(moves, name), name))))
    for name in ("type", "type_as", "pin_memory", "is_pinned", "new_tensor", "record_stream"):
        patches.set(torch.Tensor, name, _Method(name, _method(getattr(moves, name), name)))
    for name, make in _PROPERTIES.items():
        patches.set(torch.Tensor, name, make(_original(name)))
    for name, make_method in _METHODS.items():
        method = _method(make_method(gpus, _original(name)), name)
        patches.set(torch.Tensor, name, method if name in _ASKS_MODES else _Method(name, method))
    patches.set(torch.Tensor, "_make_wrapper_subclass", staticmethod(_make_wrapper(gpus)))


def _make_wrapper(gpus: Gpus) -> Any:
    """Make wrapper subclasses on the CPU, for torch's C++ aborts on their gradients, and remember the device."""
    original = getattr(torch.Tensor, "_make_wrapper_subclass")  # noqa: B009 - the stubs of torch lack it

    @functools.wraps(original)
    def make(*args: Any, **kwargs: Any) -> Any:
        if is_tracing():
            return original(*map(_hidden, args), **{name: _hidden(value) for name, value in kwargs.items()})
        index = gpus.device_index(kwargs.get("device"))
        if index is None:
            return original(*args, **kwargs)
        made = original(*args, **{**kwargs, "device": "cpu"})
        made.__dict__[KEY] = Residence(gpus, gpus.devices[index], None, 0)
        return made

    return make


def _hidden(value: Any) -> Any:
    return hidden_device(value) if isinstance(value, torch.device) else value


def _hidden_target(value: Any) -> Any:
    """The device that torch's C++ accepts for a target of ``to()``, which a program may name by a text or a number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return hidden_device(torch.device("cuda", value))
    return hidden_device(torch.device(value)) if isinstance(value, str) else _hidden(value)


def _move_traced(tensor: torch.Tensor, device: Any = None, *args: Any, **kwargs: Any) -> Any:
    """``cuda()`` of a traced tensor."""
    target = torch.device("cuda", device) if isinstance(device, int) else torch.device(device or "cuda")
    return _original("to")(tensor, hidden_device(target), *args, **kwargs)


def _original(name: str) -> Any:
    for owner in torch.Tensor.__mro__:
        if name in vars(owner):
            return vars(owner)[name]
    raise VirtualDeviceError(f"this version of torch has no Tensor.{name}, which a virtual device must replace.")


def _method(bound: Any, name: str) -> Any:
    """Return a function that binds as a method of torch.Tensor; traced tensors keep torch's own."""
    original = _original(name)

    def method(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if not is_tracing() or place_of(self) is not None:
            return bound(self, *args, **kwargs)
        if name == "cuda":
            return _move_traced(self, *args, **kwargs)
        if name != "to":
            return original(self, *args, **kwargs)
        if "device" in kwargs:
            kwargs["device"] = _hidden_target(kwargs["device"])
        return original(self, *map(_hidden_target, args[:1]), *args[1:], **kwargs)

    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    method.__doc__ = getattr(_original(name), "__doc__", None)
    return method


class _Method:
    """A replaced method of torch.Tensor, which a user's modes and tensor classes see as they see torch's own.

    It equals torch's own method, because a table of functions can be older than the virtual device.
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._function, self._original = function, _original(name)
        self.__name__, self.__qualname__, self.__doc__ = name, f"Tensor.{name}", function.__doc__

    def __get__(self, tensor: torch.Tensor | None, kind: type | None = None) -> Any:
        return self if tensor is None else MethodType(self, tensor)

    def __call__(self, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """Call the method, or the user's modes and classes that handle it."""
        if _has_user_handler(tensor):
            others = (value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor))
            return handle_torch_function(self, (tensor, *others), tensor, *args, **kwargs)
        return self._function(tensor, *args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return other is self or bool(self._original == (other._original if isinstance(other, _Method) else other))

    def __hash__(self) -> int:
        return hash(self._original)

    def __reduce__(self) -> Any:
        return getattr, (torch.Tensor, self.__name__)


def _has_user_handler(tensor: torch.Tensor) -> bool:
    """Whether a user's function mode, or a ``__torch_function__`` of the tensor's class, handles its methods now."""
    num_modes = torch._C._len_torch_function_stack()
    if (type(tensor) in PLAIN_TYPES and num_modes < 2) or not has_torch_function_unary(tensor):
        return False
    modes = map(torch._C._get_function_stack_at, range(num_modes))
    if not all(getattr(mode, "is_of_virtual_device", False) for mode in modes):
        return True
    own: Any = getattr(type(tensor).__torch_function__, "__func__", None)
    return own not in (None, _DEFAULT_FUNCTION) and torch._C._is_torch_function_enabled()


def _attribute(getter: Callable[[Any], Any], doc: str | None) -> property:
    """Return an attribute of torch.Tensor, which a user's modes and tensor classes see as they see torch's own."""

    def get(self: torch.Tensor) -> Any:
        if _has_user_handler(self):
            return handle_torch_function(attribute.__get__, (self,), self)
        return getter(self)

    attribute = property(get, doc=doc)
    return attribute


def _or_lazy(method: Callable[..., Any]) -> Callable[..., Any]:
    """Support tensors of lazy modules, which refuse most functions and must keep their type."""

    @functools.wraps(method)
    def move(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if not is_lazy(self):
            return method(self, *args, **kwargs)
        with torch._C.DisableTorchFunctionSubclass():
            moved = method(self, *args, **kwargs)
            return moved if moved is self else moved.as_subclass(type(self))

    return move


def _device(original: Any) -> property:
    @call_tracing.pausable
    def device(self: torch.Tensor) -> torch.device:
        residence = place_of(self)
        if residence is not None:
            return residence.torch_device
        found: torch.device = original.__get__(self)
        return shown_device(found) if is_tracing() else found

    return _attribute(device, original.__doc__)


def _is_cuda(original: Any) -> property:
    def is_cuda(self: torch.Tensor) -> bool:
        if place_of(self) is not None:
            return True
        return self.device.type == "cuda" if is_tracing() else bool(original.__get__(self))

    return _attribute(is_cuda, original.__doc__)


def _is_cpu(original: Any) -> property:
    return _attribute(lambda self: place_of(self) is None and original.__get__(self), original.__doc__)


_PROPERTIES: Final = {"device": _device, "is_cuda": _is_cuda, "is_cpu": _is_cpu}


def _get_device(gpus: Gpus, original: Any) -> Any:
    def get_device(self: torch.Tensor) -> int:
        residence = place_of(self)
        return int(original(self)) if residence is None else int(residence.torch_device.index)

    return get_device


def _data_ptr(gpus: Gpus, original: Any) -> Any:
    def data_ptr(self: torch.Tensor) -> int:
        residence = residence_of(self)
        if residence is None or not self.numel():
            if gpus.shapes is not None and lacks_values(self):
                raise contents_error("the address of host memory")
            return int(original(self))
        return residence.address + int(self.storage_offset()) * self.element_size()

    return data_ptr


def _numpy(gpus: Gpus, original: Any) -> Any:
    def numpy(self: torch.Tensor, *, force: bool = False) -> Any:
        residence = residence_of(self)
        if residence is None:
            return original(_readable(gpus, self), force=force)
        if not force and residence.device:
            raise TypeError(f"can't convert {residence.torch_device} device type tensor to numpy. {_HOST_FIRST}")
        return original(_readable(gpus, self.detach().cpu()), force=True)

    return numpy


def _array(gpus: Gpus, original: Any) -> Any:
    def __array__(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - it is numpy's
        residence = residence_of(self)
        if residence is not None and residence.device:
            raise TypeError(f"can't convert {residence.torch_device} device type tensor to numpy. {_HOST_FIRST}")
        return original(_readable(gpus, self), *args, **kwargs)

    return __array__


def _readable(gpus: Gpus, tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor with values that the host can read: itself, or one of the default number.

    Raises:
        VirtualDeviceError: It has no values, and there is no default.
    """
    if gpus.shapes is None or not lacks_values(tensor):
        return tensor
    return gpus.shapes.defaults.host_copy(tensor)


def _read_by_host(gpus: Gpus, original: Any) -> Any:
    """For methods that copy all values to the host: ``tolist()`` and ``repr()``."""

    def read(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        # torch calls this method again from within its function modes; only that call copies.
        residence = None if has_torch_function_unary(self) else residence_of(self)
        if residence is not None and original is _TOLIST and not is_sparse(self) and not lacks_values(self):
            with torch.no_grad():
                return original(to_device(gpus, self, None))  # torch copies the tensor with aten::_to_copy
        if residence is not None and self.numel() and not is_sparse(self):  # the parts of a sparse tensor are read
            run_copy(gpus, self, self, (residence.device, None), non_blocking=False, op="aten::copy_")
        if gpus.shapes is None or has_torch_function_unary(self) or not lacks_values(self):
            return original(self, *args, **kwargs)
        return describe(self) if original is _REPR else original(_readable(gpus, self))

    return read


def _new(gpus: Gpus, original: Any) -> Any:
    def new(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        residence = residence_of(self)
        made: torch.Tensor = original(self, *args, **kwargs)
        if residence is None or kwargs.get("device") is not None or residence_of(made) is not None:
            return made
        is_data = bool(args) and not isinstance(args[0], int | torch.Size)
        if is_data:
            return to_device(gpus, made, residence.device)
        gpus.place_tensor(made, residence.device)
        return made

    return new


_REPR: Final = torch.Tensor.__repr__
_TOLIST: Final = torch.Tensor.tolist

_METHODS: Final = {
    "get_device": _get_device,
    "data_ptr": _data_ptr,
    "numpy": _numpy,
    "__array__": _array,
    "new": _new,
    "tolist": _read_by_host,
    "__repr__": _read_by_host,
}


class _Moves:
    """The methods that move a tensor, or describe its memory."""

    def __init__(self, gpus: Gpus) -> None:
        self._gpus = gpus
        self._to, self._type = _original("to"), _original("type")
        self._pin, self._is_pinned = _original("pin_memory"), _original("is_pinned")
        self._new_tensor = _original("new_tensor")

    def to(self, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        """``Tensor.to``: a device, a dtype, both, or another tensor's."""
        device, rest = _split(args, kwargs)
        if device is _UNSET or device is None:
            return self._cast(tensor, rest)
        index = self._gpus.device_index(device)
        if index is None and torch.device(device).type != "cpu":
            return self._to(tensor, device, **rest)
        target = None if index is None else self._gpus.devices[index]
        residence = place_of(tensor)
        if (residence.device if residence is not None else None) is target:
            return self._cast(tensor, rest)
        return to_device(
            self._gpus,
            tensor,
            target,
            dtype=rest.get("dtype"),
            non_blocking=bool(rest.get("non_blocking", False)),
            memory_format=rest.get("memory_format") or torch.preserve_format,
        )

    def _cast(self, tensor: torch.Tensor, rest: dict[str, Any]) -> torch.Tensor:
        """Convert the dtype on the same device."""
        return self._to(tensor, rest.pop("dtype", None) or tensor.dtype, **rest)

    def cuda(
        self, tensor: torch.Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None
    ) -> torch.Tensor:
        """``Tensor.cuda``."""
        place = "cuda" if device is None else device
        if not isinstance(place, int) and torch.device(place).type != "cuda":
            raise RuntimeError(f"Invalid device, must be cuda device: {place}")
        return self.to(tensor, place, non_blocking=non_blocking, memory_format=memory_format)

    def cpu(self, tensor: torch.Tensor, memory_format: Any = None) -> torch.Tensor:
        """``Tensor.cpu``."""
        return self.to(tensor, "cpu", memory_format=memory_format)

    def type(self, tensor: torch.Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        """``Tensor.type``: the legacy name of device and dtype, or a conversion to it."""
        if dtype is None:
            return storages.name_of(tensor)
        place, wanted = storages.parse(dtype)
        if place is None:
            return self._type(tensor, dtype, non_blocking, **kwargs)
        return self.to(tensor, place, wanted, non_blocking=non_blocking)

    def type_as(self, tensor: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """``Tensor.type_as``: on the device of `other`, with its dtype."""
        return self.to(tensor, other)

    def pin_memory(self, tensor: torch.Tensor, device: Any = None) -> torch.Tensor:
        """``Tensor.pin_memory``: a copy in page-locked host memory; the tensor itself if it is there already."""
        if residence_of(tensor) is not None:
            raise RuntimeError(f"cannot pin '{storages.name_of(tensor)}' only dense CPU tensors can be pinned")
        if is_pinned(tensor):
            return tensor
        pinned = tensor.clone()
        pin(pinned)
        return pinned

    def is_pinned(self, tensor: torch.Tensor, device: Any = None) -> bool:
        """``Tensor.is_pinned``."""
        return is_pinned(tensor)

    def new_tensor(self, tensor: torch.Tensor, data: Any, *, device: Any = None, **kwargs: Any) -> torch.Tensor:
        """``Tensor.new_tensor``: on the tensor's device by default."""
        place = tensor.device if device is None else device
        index = self._gpus.device_index(place)

        def make() -> torch.Tensor:
            return self._new_tensor(tensor, data, **{**kwargs, "device": torch.device("cpu"), "requires_grad": False})

        if index is not None and is_python_data(data):
            moved = from_data(self._gpus, make, self._gpus.devices[index])
        else:
            moved = self.to(make(), place)
        return moved.requires_grad_() if kwargs.get("requires_grad", False) else moved

    def record_stream(self, tensor: torch.Tensor, stream: Any) -> None:
        """``Tensor.record_stream``: the block is reused only after `stream` has reached its free."""
        residence = residence_of(tensor)
        if residence is None or residence.block is None:
            return
        self._gpus.record_stream(residence.device, residence.block, self._gpus.stream_of(stream))


def _split(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Split the arguments of ``Tensor.to`` into the device and the rest by name.

    The forms are (dtype, non_blocking, copy), (device, dtype, non_blocking, copy) and (other, non_blocking, copy).
    """
    rest = dict(kwargs)
    device = rest.pop("device", _UNSET)
    other = rest.pop("other", None)
    names = ["non_blocking", "copy"]
    if args:
        first, args = args[0], args[1:]
        if isinstance(first, torch.dtype):
            rest["dtype"] = first
        elif isinstance(first, torch.Tensor):
            other = first
        else:
            device, names = first, ["dtype", *names]
    if other is not None:
        device, rest["dtype"] = other.device, other.dtype
    rest.update(zip(names, args, strict=False))
    return device, {key: value for key, value in rest.items() if value is not None}


# Check that gradients are on the virtual device of their tensors, which torch's C++ cannot check here.


def install_gradient_checks(patches: Patches, gpus: Gpus) -> None:
    """Check assignments to ``Tensor.grad``."""
    original: Any = torch._C.TensorBase.grad

    @call_tracing.pausable
    def set_grad(self: torch.Tensor, grad: Any) -> None:
        if isinstance(grad, torch.Tensor) and not _on_same_device(self, grad):
            raise RuntimeError("assigned grad has data located on a different device")
        original.__set__(self, grad)

    patches.set(torch.Tensor, "grad", property(original.__get__, set_grad, original.__delete__, original.__doc__))


def check_roots(outputs: Sequence[Any], grads: Sequence[Any]) -> None:
    """Check the gradients passed to ``backward``.

    Raises:
        RuntimeError: A gradient is not on the device of its tensor; torch's message.
    """
    for position, (output, grad) in enumerate(zip(outputs, grads, strict=False)):
        if isinstance(output, torch.Tensor) and isinstance(grad, torch.Tensor) and not _on_same_device(output, grad):
            raise RuntimeError(
                f"invalid gradient at index {position} - expected device {output.device} but got {grad.device}"
            )


def _on_same_device(tensor: torch.Tensor, grad: torch.Tensor) -> bool:
    ours, theirs = place_of(tensor), place_of(grad)
    if (ours and ours.device) is (theirs and theirs.device):
        return True
    return not (_has_storage(tensor) and _has_storage(grad))


def _has_storage(tensor: torch.Tensor) -> bool:
    """Whether a tensor has a storage; the wrappers of torch.func do not, and their contents are checked instead."""
    try:
        tensor.untyped_storage()
    except (RuntimeError, NotImplementedError):
        return False
    return True


# Group lists of tensors by virtual device for torch's foreach optimizers.

_GROUP = "_group_tensors_by_device_and_dtype"


def install_foreach_grouping(patches: Patches, gpus: Gpus) -> None:
    """Group by the virtual device of the tensors."""
    original = getattr(torch._C, _GROUP, None)
    if original is None:
        return

    @call_tracing.pausable
    def group(lists: Sequence[Sequence[Any]], with_indices: bool = False) -> Any:
        if not lists or all(tensor is None or residence_of(tensor) is None for tensor in lists[0]):
            return original(lists, with_indices)
        # By device and dtype of the tensors in the first list, in order.
        groups: dict[Any, tuple[list[list[Any]], list[int]]] = {}
        for position, first in enumerate(lists[0]):
            members, indices = groups.setdefault((first.device, first.dtype), ([[] for _ in lists], []))
            for member, values in zip(members, lists, strict=True):
                if values:
                    member.append(values[position])
            if with_indices:
                indices.append(position)
        return groups

    patches.set(torch._C, _GROUP, group)
