"""Names of the kernels that a virtual device shows: ``simulated::addmm<float>``.

The names must differ from those of real kernels: cuBLAS, cuDNN and ATen name kernels by their implementation, which is
not modelled. A name contains the prefix ``simulated``, the operator (its name in `torch.ops.aten`, so that a search for
"addmm" or "softmax" finds it), and the computation type in CUDA C++ notation.
"""

from __future__ import annotations

from typing import Final

import torch

#: The prefix of every name.
NAMESPACE: Final = "simulated"

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

#: Parts of the names of operators that torch has for CPUs alone, and those of their counterparts for GPUs.
_CPU_PARTS: Final = {"_for_cpu": "", "mkldnn_rnn_layer": "_cudnn_rnn", "mkldnn_convolution": "cudnn_convolution"}


def name_of(func: torch._ops.OpOverload, dtype: torch.dtype | str | None = None) -> str:
    """The name of the modelled kernel for a call of `func`.

    Args:
        func: An operator overload; a namespace other than aten is part of the name.
        dtype: The computation type, or the name of one; None leaves it out.
    """
    operator = func._schema.name.removeprefix("aten::")
    for of_cpu, of_gpu in _CPU_PARTS.items():
        operator = operator.replace(of_cpu, of_gpu)
    name = f"{NAMESPACE}::{operator}"
    return name if dtype is None else f"{name}<{_type_name(dtype)}>"


def _type_name(dtype: torch.dtype | str) -> str:
    return dtype if isinstance(dtype, str) else _TYPES.get(dtype, str(dtype).removeprefix("torch."))
