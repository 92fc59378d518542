"""Functions that turn a spelling of a device into a ``torch.device``: an index, a tensor, or one by name.

torch's C++ resolves an index with the accelerator that it was built for, which a virtual device is not.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any, Final

import torch

from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches


def install(patches: Patches, gpus: Gpus) -> None:
    """Replace the factory that torch's modes do not see."""
    original: Any = torch.range

    def range_(*args: Any, device: Any = None, requires_grad: bool = False, **kwargs: Any) -> torch.Tensor:
        if gpus.device_index(device) is None:
            kwargs |= {} if device is None else {"device": device}
            made: torch.Tensor = original(*args, requires_grad=requires_grad, **kwargs)
            return made
        return original(*args, **kwargs).to(device).requires_grad_(requires_grad)

    range_.__name__, range_.__doc__ = "range", original.__doc__
    patches.set(torch, "range", range_)


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
MAKE_DEVICES: Final[dict[Any, Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]]] = {
    torch.device: _device,
    torch._C._nn._parse_to: _parse_to,
}
