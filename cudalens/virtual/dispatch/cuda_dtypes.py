"""Dtypes that operators lack on a GPU, and operands that its reductions convert.

A product of integer matrices runs on the CPU and raises NotImplementedError on a GPU. The virtual device raises it,
too, so that a program which runs here runs on a GPU. The table is that of the ``AT_DISPATCH`` macros in
aten/src/ATen/native/cuda; torch's database of operators (``dtypesIfCUDA``) lists the same.
"""

from __future__ import annotations

from typing import Any, Final

import torch

from cudalens.errors import UnsupportedOperatorError

_INTEGERS: Final = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})
_HALF: Final = frozenset({torch.float16, torch.bfloat16})

#: Names of operators without those that write in place or to ``out``, by the dtypes that they lack.
_LACKING: Final = {
    _INTEGERS: """
        addbmm addmm addmv baddbmm bmm dot mm mv vdot
        max_pool2d_with_indices max_pool3d_with_indices native_dropout_backward
    """,
    frozenset({torch.int64}): """
        avg_pool2d avg_pool3d convolution _convolution convolution_overrideable
    """,
    frozenset({torch.uint8}): """
        upsample_bilinear2d upsample_bicubic2d _upsample_bilinear2d_aa _upsample_bicubic2d_aa
    """,
    frozenset({torch.float32, torch.float64}): """
        histogram _histogramdd_bin_edges _histogramdd_from_bin_cts _histogramdd_from_bin_tensors
    """,
    _HALF: "angle histc igamma igammac special_gammaincc special_gammainc",
}
#: The names of dtypes in torch's C++, which its messages have.
_NAMES: Final = {
    torch.uint8: "Byte",
    torch.int8: "Char",
    torch.int16: "Short",
    torch.int32: "Int",
    torch.int64: "Long",
    torch.float16: "Half",
    torch.bfloat16: "BFloat16",
    torch.float32: "Float",
    torch.float64: "Double",
}
_BY_NAME: Final = {name: dtypes for dtypes, names in _LACKING.items() for name in names.split()}


def lacking_dtypes(name: str) -> frozenset[torch.dtype]:
    """Return the dtypes that an operator has on the CPU alone.

    Args:
        name: Its name without namespace and overload, such as ``addmm_``.
    """
    return _BY_NAME.get(name.removesuffix("_"), frozenset())


def check_dtypes(what: str, lacking: frozenset[torch.dtype], args: tuple[Any, ...]) -> None:
    """Raise the error of a GPU for tensors of a dtype that its operator lacks.

    Args:
        what: The operator, as in ``aten::mm``.
        lacking: The dtypes that it has on the CPU alone.
        args: Its arguments.

    Raises:
        UnsupportedOperatorError: The first tensor among the arguments has one of these dtypes.
    """
    dtype = next((value.dtype for value in args if isinstance(value, torch.Tensor)), None)
    if dtype in lacking:
        raise UnsupportedOperatorError(
            f"{what}: not implemented for '{_NAMES[dtype]}' on a GPU; the CPU has it. Convert the tensors to another "
            "dtype, or compute on the CPU."
        )


#: Reductions and scans that convert their operand to the dtype of their result.
CASTING: Final = frozenset(
    {"aten::sum", "aten::nansum", "aten::prod", "aten::mean", "aten::cumsum", "aten::cumprod"}
    | {"aten::cumsum_", "aten::cumprod_"}
)
_READS_HALF: Final = frozenset({"aten::sum", "aten::nansum", "aten::prod", "aten::mean"})


def cast_operand(name: str, operand: torch.Tensor, result: torch.Tensor) -> torch.Tensor | None:
    """Return the copy of an operand that a reduction reads in its place, without values; None if it reads the operand.

    The sum of a bool mask reads a copy of 8 bytes an element. Kernels of sums to float32 read 16-bit floats.

    Source: make_reduction_from_out_ty in ATen/native/ReduceOpsUtils.h, impl_func_cum_ops in ReduceOps.cpp.

    Args:
        name: The operator, as in ``aten::sum``; one of `CASTING`.
        operand: What it reduces.
        result: Its result.
    """
    reads_it = name in _READS_HALF and operand.dtype in _HALF and result.dtype is torch.float32
    if operand.dtype is result.dtype or reads_it or operand.layout is not torch.strided:
        return None
    return torch.empty_like(operand, dtype=result.dtype, device="meta")
