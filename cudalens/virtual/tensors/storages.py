"""Patch torch.UntypedStorage for storages of a virtual device (device, data_ptr, clone, resize_, ...)."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any, Final

import torch

from cudalens.errors import VirtualDeviceError
from cudalens.virtual.gpus import Gpus
from cudalens.virtual.patching import Patches
from cudalens.virtual.shapes.reading import contents_error
from cudalens.virtual.shapes.storage import NO_VALUES_KEY
from cudalens.virtual.tensors.residency import KEY, PINNED_KEY, Residence

#: Attribute of a storage without values that was made smaller: its size.
_NUM_BYTES_KEY: Final = "_cudalens_num_bytes"

#: FSDP2 compares addresses to find out whether two tensors share memory; it does not read from them.
_FSDP: Final = str(Path(torch.__file__).parent / "distributed" / "fsdp")


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
        if residence is not None:
            return residence.address
        if NO_VALUES_KEY in self.__dict__ and sys._getframe(1).f_code.co_filename.startswith(_FSDP):
            return int(self._cdata)
        _check_values(self)
        return int(originals["data_ptr"](self))

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
        raise contents_error("the contents of a storage")


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
            # torch's own method needs memory, and the C++ storage cannot shrink: its size is `own_bytes`, at least the
            # size that Python sees.
            own_bytes = originals["nbytes"](self)
            self.__dict__.pop(_NUM_BYTES_KEY, None)
            if size > own_bytes:
                _as_bytes(self).resize_(int(size))
            elif size < own_bytes:
                self.__dict__[_NUM_BYTES_KEY] = int(size)
        else:
            originals["resize_"](self, size)
        if residence is not None and residence.num_bytes != self.nbytes():
            block = gpus.reserve(residence.device, self.nbytes()) if self.nbytes() else None
            self.__dict__[KEY] = Residence(gpus, residence.device, block, self.nbytes())
        return self

    return resize_


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


# Legacy tensor types: ``torch.cuda.FloatTensor`` and the names that ``Tensor.type()`` returns.

#: Dtypes with a legacy type name (torch/csrc/tensor/python_tensor.cpp).
NAMES: Final = {
    torch.float32: "Float",
    torch.float64: "Double",
    torch.float16: "Half",
    torch.bfloat16: "BFloat16",
    torch.uint8: "Byte",
    torch.int8: "Char",
    torch.int16: "Short",
    torch.int32: "Int",
    torch.int64: "Long",
    torch.bool: "Bool",
}


#: Dtypes with a legacy name, but no type.
_COMPLEX: Final = {
    torch.complex32: "ComplexHalf",
    torch.complex64: "ComplexFloat",
    torch.complex128: "ComplexDouble",
}


def name_of(tensor: torch.Tensor) -> str:
    """Return the result of ``Tensor.type()``."""
    module = ("torch.cuda" if tensor.is_cuda else "torch") + (".sparse" if tensor.layout is torch.sparse_coo else "")
    old = NAMES.get(tensor.dtype) or _COMPLEX.get(tensor.dtype)
    return f"{module}.{old}Tensor" if old is not None else f"{module}.{str(tensor.dtype).partition('.')[2]}Tensor"


def parse(kind: Any) -> tuple[str | None, torch.dtype | None]:
    """Return the device type and dtype of a legacy type or its name; (None, None) for a dtype.

    Raises:
        ValueError: There is no such type.
    """
    if isinstance(kind, CudaTensorType):
        return "cuda", kind.dtype
    text = kind if isinstance(kind, str) else f"{getattr(kind, '__module__', '')}.{getattr(kind, '__name__', '')}"
    for dtype, old in NAMES.items():
        if text == f"torch.{old}Tensor":
            return "cpu", dtype
        if text == f"torch.cuda.{old}Tensor":
            return "cuda", dtype
    if isinstance(kind, str):
        raise ValueError(f"invalid type: '{kind}'")
    return None, None


class CudaTensorType(type):
    """Metaclass of ``torch.cuda.FloatTensor`` and similar types.

    Calling a type creates a tensor; ``isinstance`` checks the device, the dtype and the layout.
    """

    dtype: torch.dtype
    layout = torch.strided

    def __instancecheck__(cls, instance: object) -> bool:
        if not isinstance(instance, torch.Tensor) or not instance.is_cuda:
            return False
        return instance.dtype == cls.dtype and instance.layout == cls.layout

    def __call__(cls, *args: Any, device: Any = None) -> torch.Tensor:
        """Create a tensor of that type from values or sizes."""
        return _make_legacy(args, cls.dtype, "cuda" if device is None else device)


class CudaSparseType(CudaTensorType):
    """Metaclass of ``torch.cuda.sparse.FloatTensor`` and similar types, which are called with indices and values."""

    layout = torch.sparse_coo

    def __call__(cls, *args: Any, device: Any = None) -> torch.Tensor:
        """Create a sparse tensor of that type from indices and values, or from sizes."""
        place = "cuda" if device is None else device
        if args and isinstance(args[0], torch.Tensor):
            return torch.sparse_coo_tensor(*args, dtype=cls.dtype, device=place)
        sizes = args[0] if args and isinstance(args[0], torch.Size) else args
        return torch.zeros(tuple(sizes or (0,)), dtype=cls.dtype, device=place, layout=cls.layout)


def _make_legacy(args: tuple[Any, ...], dtype: torch.dtype, device: Any) -> torch.Tensor:
    """Create a tensor from what a legacy type is called with: sizes, values or nothing."""
    if len(args) == 1 and not isinstance(args[0], int | torch.Size):
        return torch.tensor(args[0], dtype=dtype, device=device)
    sizes = args[0] if args and isinstance(args[0], torch.Size) else args
    return torch.empty(*(sizes or (0,)), dtype=dtype, device=device)


class DefaultType:
    """``torch.set_default_tensor_type``: the dtype of new tensors, and a virtual device or the host.

    ``torch.Tensor(2, 3)`` does not reach torch's modes; its constructor is replaced while the default is on a device.
    """

    def __init__(self, patches: Patches) -> None:
        self._original: Any = torch._C._set_default_tensor_type
        self._new: Any = torch.Tensor.__new__
        self._is_on_device = False
        patches.set(torch._C, "_set_default_tensor_type", self.set)
        patches.on_restore(self._use_host)

    def set(self, kind: Any) -> None:
        """Set the default.

        Raises:
            TypeError: It is not a floating-point type; torch's message.
        """
        place, dtype = parse(kind)
        if place != "cuda":
            self._original(kind)
            if self._is_on_device:
                torch.set_default_device(None)
            self._use_host()
            return
        if dtype is None or not dtype.is_floating_point:
            raise TypeError("only floating-point types are supported as the default type")
        torch.set_default_dtype(dtype)
        torch.set_default_device("cuda")
        self._is_on_device = True
        torch.Tensor.__new__ = staticmethod(self._construct)  # type: ignore[method-assign]

    def _use_host(self) -> None:
        if self._is_on_device:
            self._is_on_device = False
            del torch.Tensor.__new__

    def _construct(self, cls: Any, *args: Any, **kwargs: Any) -> Any:
        is_of_values = len(args) == 1 and isinstance(args[0], torch.Tensor | torch.UntypedStorage | torch.TypedStorage)
        if cls is not torch.Tensor or kwargs or is_of_values:
            return self._new(cls, *args, **kwargs)
        return _make_legacy(args, torch.get_default_dtype(), "cuda")


def install_legacy_types(patches: Patches, gpus: object) -> None:
    """Add the legacy tensor types to torch.cuda, and accept them as the default type."""
    for dtype, old in NAMES.items():
        members = {"dtype": dtype, "is_cuda": True, "__module__": "torch.cuda"}
        patches.set(torch.cuda, f"{old}Tensor", CudaTensorType(f"{old}Tensor", (), members))
        members = {"dtype": dtype, "is_cuda": True, "is_sparse": True, "__module__": "torch.cuda.sparse"}
        patches.set(torch.cuda.sparse, f"{old}Tensor", CudaSparseType(f"{old}Tensor", (), members))
    DefaultType(patches)
