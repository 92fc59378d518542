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
    """The result of ``Tensor.type()``."""
    module = ("torch.cuda" if tensor.is_cuda else "torch") + (".sparse" if tensor.layout is torch.sparse_coo else "")
    old = NAMES.get(tensor.dtype) or _COMPLEX.get(tensor.dtype)
    return f"{module}.{old}Tensor" if old is not None else f"{module}.{str(tensor.dtype).partition('.')[2]}Tensor"


def parse(kind: Any) -> tuple[str | None, torch.dtype | None]:
    """The device type and dtype of a legacy type or its name; (None, None) for a dtype.

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

    Calling a type creates a tensor; ``isinstance`` checks the device and the dtype.
    """

    dtype: torch.dtype

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, torch.Tensor) and instance.is_cuda and instance.dtype == cls.dtype

    def __call__(cls, *args: Any, device: Any = None) -> torch.Tensor:
        """Create a tensor of that type from values or sizes."""
        place = "cuda" if device is None else device
        if len(args) == 1 and not isinstance(args[0], int | torch.Size):
            return torch.tensor(args[0], dtype=cls.dtype, device=place)
        sizes = args[0] if args and isinstance(args[0], torch.Size) else args
        return torch.empty(*(sizes or (0,)), dtype=cls.dtype, device=place)


def install(patches: Patches, gpus: object) -> None:
    """Add the legacy tensor types to torch.cuda."""
    for dtype, old in NAMES.items():
        members = {"dtype": dtype, "is_cuda": True, "__module__": "torch.cuda"}
        patches.set(torch.cuda, f"{old}Tensor", CudaTensorType(f"{old}Tensor", (), members))
