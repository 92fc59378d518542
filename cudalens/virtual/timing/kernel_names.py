"""Names of the kernels that a virtual device shows: ``simulated::addmm<float>``.

They must not pass for kernels that ran: cuBLAS, cuDNN and ATen name theirs by what they do inside, which nothing here
decides. So a name says that it is simulated, which operator it stands for (the name that `torch.ops.aten` has, so that
a search for "addmm" or "softmax" finds it), and the type that it computes with, as CUDA C++ writes it.
"""

from __future__ import annotations

from typing import Final

import torch

NAMESPACE: Final = "simulated"
"""What every name begins with."""

_TYPES: Final = {
    torch.float64: "double",
    torch.float32: "float",
    torch.float16: "__half",
    torch.bfloat16: "__nv_bfloat16",
    torch.complex64: "cuComplex",
    torch.complex128: "cuDoubleComplex",
    torch.int64: "int64_t",
    torch.int32: "int32_t",
    torch.int16: "int16_t",
    torch.int8: "int8_t",
    torch.uint8: "uint8_t",
    torch.bool: "bool",
}


def name_of(func: torch._ops.OpOverload, dtype: torch.dtype | None = None) -> str:
    """The name of the kernel that stands for a call of `func`.

    Args:
        func: An operator's overload; of another namespace than aten, that is part of the name.
        dtype: Of what it computes with; None leaves the type out.
    """
    name = f"{NAMESPACE}::{func._schema.name.removeprefix('aten::')}"
    return name if dtype is None else f"{name}<{_TYPES.get(dtype, str(dtype).removeprefix('torch.'))}>"
