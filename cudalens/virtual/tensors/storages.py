"""Patch torch.UntypedStorage for storages of a virtual device (device, data_ptr, clone, resize_, ...)."""

from __future__ import annotations

import functools
from typing import Any, Final

import torch

from cudalens.errors import VirtualDeviceError
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches
from cudalens.virtual.shapes.reading import value_error
from cudalens.virtual.shapes.storage import NO_VALUES_KEY
from cudalens.virtual.tensors.residency import KEY, PINNED_KEY, Residence

#: Attribute of a storage without values that was made smaller: its size.
_NUM_BYTES_KEY: Final = "_cudalens_num_bytes"


def install(patches: Patches, gpus: Gpus) -> None:
    """Make storages of the virtual devices behave as CUDA storages."""
    storage = torch.UntypedStorage
    originals = {name: getattr(storage, name) for name in _METHODS}
    patches.set(storage, "device", property(_device(_own_device())))
    patches.set(storage, "is_cuda", property(lambda self: _residence(self) is not None))
    patches.set(storage, "__new__", staticmethod(_new(gpus, storage.__new__)))
    for name, make in _METHODS.items():
        patches.set(storage, name, make(gpus, originals))
    patches.set(storage, "is_pinned", lambda self, device=None: PINNED_KEY in self.__dict__)


def _own_device() -> Any:
    for owner in torch.UntypedStorage.__mro__:
        if "device" in vars(owner):
            return vars(owner)["device"]
    raise VirtualDeviceError(
        "the storages of this version of torch have no device attribute, which a virtual device must replace."
    )


def _residence(storage: Any) -> Residence | None:
    residence: Residence | None = storage.__dict__.get(KEY)
    return residence if residence is not None and not residence.gpus.is_closed else None


def _device(original: Any) -> Any:
    def device(self: Any) -> torch.device:
        residence = _residence(self)
        return original.__get__(self) if residence is None else residence.torch_device

    return device


def _get_device(gpus: Gpus, originals: dict[str, Any]) -> Any:
    def get_device(self: Any) -> int:
        residence = _residence(self)
        return int(originals["get_device"](self)) if residence is None else residence.device.index

    return get_device


def _data_ptr(gpus: Gpus, originals: dict[str, Any]) -> Any:
    def data_ptr(self: Any) -> int:
        residence = _residence(self)
        if residence is None:
            _check_values(self)
            return int(originals["data_ptr"](self))
        return residence.address

    return data_ptr


def _as_bytes(storage: Any) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8).set_(storage)


def _new(gpus: Gpus, original: Any) -> Any:
    def __new__(cls: type, *args: Any, device: Any = None, **kwargs: Any) -> Any:  # noqa: N807 - it is Python's
        index = gpus.device_index(device)
        if index is None:
            return original(cls, *args, **kwargs, **({} if device is None else {"device": device}))
        made = original(cls, *args, **kwargs)
        gpus.place_tensor(_as_bytes(made), gpus.devices[index])
        return made

    return __new__


def _check_values(storage: Any) -> None:
    """Refuse to read a storage without values."""
    if NO_VALUES_KEY in storage.__dict__:
        raise value_error("the contents of a storage")


def _reading(name: str) -> Any:
    """Return a method that reads the host memory of a storage, or gives it to other processes."""

    def make(gpus: Gpus, originals: dict[str, Any]) -> Any:
        original = originals[name]

        @functools.wraps(original)
        def read(self: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(self, torch.UntypedStorage):
                _check_values(self)
            return original(self, *args, **kwargs)

        return read

    return make


def _clone(gpus: Gpus, originals: dict[str, Any]) -> Any:
    def clone(self: Any) -> Any:
        is_plain = _residence(self) is None and NO_VALUES_KEY not in self.__dict__
        return originals["clone"](self) if is_plain else _as_bytes(self).clone().untyped_storage()

    return clone


def _cpu(gpus: Gpus, originals: dict[str, Any]) -> Any:
    def cpu(self: Any) -> Any:
        _check_values(self)
        return self if _residence(self) is None else _as_bytes(self).cpu().untyped_storage()

    return cpu


def _cuda(gpus: Gpus, originals: dict[str, Any]) -> Any:
    def cuda(self: Any, device: Any = None, non_blocking: bool = False) -> Any:
        return _as_bytes(self).cuda(device, non_blocking=non_blocking).untyped_storage()

    return cuda


def _to(gpus: Gpus, originals: dict[str, Any]) -> Any:
    def to(self: Any, *, device: Any, non_blocking: bool = False) -> Any:
        return _as_bytes(self).to(device, non_blocking=non_blocking).untyped_storage()

    return to


def _resize(gpus: Gpus, originals: dict[str, Any]) -> Any:
    def resize_(self: Any, size: int) -> Any:
        residence = _residence(self)
        if residence is not None and residence.arena is not None and residence.block is not None:
            raise VirtualDeviceError(
                "a storage in the memory pool of a CUDA graph cannot be resized on a virtual device: it shares its "
                "memory with others. Create a new tensor, or resize the tensor itself (Tensor.resize_)."
            )
        if NO_VALUES_KEY in self.__dict__:
            _resize_blank(self, originals["nbytes"](self), int(size))
        else:
            originals["resize_"](self, size)
        if residence is not None and residence.num_bytes != self.nbytes():
            block = gpus.reserve(residence.device, self.nbytes()) if self.nbytes() else None
            self.__dict__[KEY] = Residence(gpus, residence.device, block, self.nbytes())
        return self

    return resize_


def _resize_blank(storage: Any, own_bytes: int, num_bytes: int) -> None:
    """Resize a storage without values.

    torch's own method needs memory, and the C++ storage cannot shrink: its size is `own_bytes`, at least the size that
    Python sees.
    """
    storage.__dict__.pop(_NUM_BYTES_KEY, None)
    if num_bytes > own_bytes:
        _as_bytes(storage).resize_(num_bytes)
    elif num_bytes < own_bytes:
        storage.__dict__[_NUM_BYTES_KEY] = num_bytes


def _num_bytes(name: str) -> Any:
    """Return a method that returns the size of a storage."""

    def make(gpus: Gpus, originals: dict[str, Any]) -> Any:
        original = originals[name]
        if gpus.shapes is None:
            return original

        @functools.wraps(original)
        def num_bytes(self: Any) -> int:
            resized: int | None = self.__dict__.get(_NUM_BYTES_KEY)
            return int(original(self)) if resized is None else resized

        return num_bytes

    return make


_METHODS = {
    "get_device": _get_device,
    "data_ptr": _data_ptr,
    "clone": _clone,
    "cpu": _cpu,
    "cuda": _cuda,
    "to": _to,
    "resize_": _resize,
    "nbytes": _num_bytes("nbytes"),
    "size": _num_bytes("size"),
    **{name: _reading(name) for name in ("_share_filename_cpu_", "_share_fd_cpu_", "_write_file", "tolist")},
}
