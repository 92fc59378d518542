"""Legacy tensor types: ``torch.cuda.FloatTensor`` and the names that ``Tensor.type()`` returns."""

from __future__ import annotations

from typing import Any, Final

import torch

from cudalens.virtual.patching import Patches

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


def install(patches: Patches, gpus: object) -> None:
    """Add the legacy tensor types to torch.cuda, and accept them as the default type."""
    for dtype, old in NAMES.items():
        members = {"dtype": dtype, "is_cuda": True, "__module__": "torch.cuda"}
        patches.set(torch.cuda, f"{old}Tensor", CudaTensorType(f"{old}Tensor", (), members))
        members = {"dtype": dtype, "is_cuda": True, "is_sparse": True, "__module__": "torch.cuda.sparse"}
        patches.set(torch.cuda.sparse, f"{old}Tensor", CudaSparseType(f"{old}Tensor", (), members))
    DefaultType(patches)
