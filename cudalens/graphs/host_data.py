"""Show a capture the copies to the device that torch hides: tensors and indices of Python data.

``torch.tensor([1.0], device="cuda")`` makes a CPU tensor and copies it to the device with the dispatch modes disabled,
and so does ``x[[0, 2]]`` (``internal_new_from_data`` in torch/csrc/utils/tensor_new.cpp). An observer sees only
``aten::lift_fresh`` of the result, and a capture does not allow the copy. So in a capture of such a function, these
functions make the CPU tensor, and copy it by an operator that the observer sees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final

import numpy as np
import torch
from torch.utils import _device as torch_default_device

from cudalens.graphs.functions import inside

_CONSTRUCTORS: Final = ("tensor", "as_tensor", "asarray")
_MASKS: Final = (torch.bool, torch.uint8)


@contextmanager
def shown_copies() -> Iterator[None]:
    """Replace the functions of torch that hide a copy, for calls inside of graphed functions."""
    torch_default_device._device_constructors()  # torch keeps the functions that this finds at its first call
    replaced: list[tuple[Any, str, Any]] = [(torch, name, _constructor(getattr(torch, name))) for name in _CONSTRUCTORS]
    replaced += [
        (torch.Tensor, "new_tensor", _new_tensor(torch.Tensor.new_tensor)),
        (torch.Tensor, "__getitem__", _indexing(torch.Tensor.__getitem__)),
        (torch.Tensor, "__setitem__", _indexing(torch.Tensor.__setitem__)),
    ]
    before: list[tuple[Any, str, Any]] = [(owner, name, vars(owner).get(name)) for owner, name, _ in replaced]
    try:
        for owner, name, function in replaced:
            setattr(owner, name, function)
        yield
    finally:
        for owner, name, function in before:
            if function is None:
                delattr(owner, name)  # a method of the base class
            else:
                setattr(owner, name, function)


def _constructor(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    @wraps(original)
    def make(data: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        given = kwargs.get("device")
        device = _default_device() if given is None else given
        return _make(original, (data, *args), kwargs, data, device)

    return make


def _default_device() -> torch.device | None:
    """The device of ``with torch.device(...)`` or `torch.set_default_device`."""
    stack = map(torch._C._get_function_stack_at, range(torch._C._len_torch_function_stack()))
    return next((mode.device for mode in stack if isinstance(mode, torch_default_device.DeviceContext)), None)


def _new_tensor(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    @wraps(original)
    def make(tensor: torch.Tensor, data: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
        given = kwargs.get("device")
        device = tensor.device if given is None else given
        return _make(original, (tensor, data, *args), kwargs, data, device)

    return make


def _make(
    original: Callable[..., torch.Tensor], args: tuple[Any, ...], kwargs: dict[str, Any], data: Any, device: Any
) -> torch.Tensor:
    is_on_device = isinstance(device, int) or (device is not None and torch.device(device).type == "cuda")
    if not (inside.is_on and is_on_device) or isinstance(data, torch.Tensor) or kwargs.get("pin_memory"):
        return original(*args, **kwargs)
    requires_grad = kwargs.pop("requires_grad", False)
    on_host = original(*args, **{**kwargs, "device": torch.device("cpu")})
    made: torch.Tensor = on_host.to(torch.device("cuda", device) if isinstance(device, int) else device)
    return made.requires_grad_() if requires_grad else made


def _indexing(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def at(tensor: torch.Tensor, index: Any, *value: Any) -> Any:
        if inside.is_on and isinstance(tensor, torch.Tensor) and tensor.is_cuda:
            index = tuple(map(_as_tensor, index)) if type(index) is tuple else _as_tensor(index)
        return original(tensor, index, *value)

    return at


def _as_tensor(index: Any) -> Any:
    """A list of numbers or an array as the CPU tensor that torch makes of it; anything else as it is."""
    is_list = isinstance(index, list) and bool(index) and all(isinstance(item, int | np.integer) for item in index)
    if not (is_list or (isinstance(index, np.ndarray) and index.dtype.kind in "biu" and index.ndim)):
        return index
    made = torch.as_tensor(index)
    return made if made.dtype in _MASKS else made.long()
