"""The sizes of matrix products, convolutions, attention and row-wise kernels, from the arguments of an operator."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from cudalens.gpus import predict

if TYPE_CHECKING:
    from cudalens.gpus.registry import DeviceSpec

#: Batch, rows and columns of the result, inner dimension.
Product = tuple[int, int, int, int]

#: Further time of a sum over another dimension than the last: few threads read far apart. Recorded sums of 0.1 to 2 MB
#: take 6 to 10 us (A100, V100), sums over the last dimension 3 us.
COLUMN_SUM_NS: Final = 4_000

#: Multiplications of a 3 x 3 convolution over those of Winograd's algorithm F(2 x 2, 3 x 3), which cuDNN uses in single
#: precision (Lavin and Gray, arXiv 1509.09308). Recorded on a V100: 3 x 3 convolutions of ResNet-50 take 0.47 of the
#: time that all multiplications would.
WINOGRAD: Final = 2.25

#: Row-wise operators: the family of their constants, and the position of the argument that has the rows.
_ROWS: Final = {
    "_softmax": "softmax",
    "_log_softmax": "softmax",
    "_softmax_backward_data": "softmax",
    "_log_softmax_backward_data": "softmax",
    "native_layer_norm": "layer_norm",
    "native_layer_norm_backward": "layer_norm",
    "_fused_rms_norm": "layer_norm",
    "_fused_rms_norm_backward": "layer_norm",
}


def product_ns(
    spec: DeviceSpec, dtype_key: str, func: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any], out: Any
) -> int | None:
    """Time of the products of a call; None if the operator has no known sizes."""
    name = base_name(func)
    if dtype_key in ("tf32", "bfloat16") and spec.compute_capability < (8, 0):
        dtype_key = "float32"  # GPUs before Ampere have no such tensor cores
    if "attention" in name:
        return _attention_ns(spec, dtype_key, func, args, kwargs)
    sizes = _PRODUCTS.get(name)
    if sizes is None or any(isinstance(value, Tensor) and value.layout is not torch.strided for value in args):
        return None
    element_bytes = args[0].element_size()
    saving = WINOGRAD if dtype_key == "float32" and _is_winograd(name, args) else 1
    slowdown = 1.0 if dtype_key in ("float32", "float64") else predict.UNALIGNED[_alignment(args, out)]
    time_ns = 0
    for batch, m, n, k in sizes(args, out):
        depth = k if saving == 1 else math.ceil(k / saving)
        factor = slowdown if min(m, n) > 1 else 1.0  # a vector needs no tensor core
        time_ns += predict.PROGRAM_NS + predict.matrix_ns(spec, dtype_key, batch, m, n, depth, element_bytes, factor)
    return time_ns


def _alignment(args: Sequence[Any], out: Any) -> int:
    """Bytes, at most 16, to which every row or column of the matrices of a call is aligned."""
    aligned = 16
    for value in (*args, out):
        if isinstance(value, Tensor) and value.dim() in (2, 3):
            leading = max(value.stride()[-2:]) if min(value.shape[-2:]) > 1 else 16
            aligned = math.gcd(aligned, leading * value.element_size())
    return aligned


def _is_winograd(name: str, args: Sequence[Any]) -> bool:
    """Whether a call is a convolution of windows of 3 x 3 at every position, without groups."""
    if not name.startswith("convolution"):
        return False
    first = 4 if name.endswith("backward") else 3
    weight, (stride, _, dilation, transposed, _, groups) = args[first - 2], args[first : first + 6]
    return tuple(weight.shape[2:]) == (3, 3) and set(stride) == set(dilation) == {1} and not transposed and groups == 1


def row_ns(spec: DeviceSpec, func: torch._ops.OpOverload, args: Sequence[Any], num_bytes: int) -> int | None:
    """Time of a row-wise kernel; None for other operators, and for rows that are not contiguous."""
    kind = _ROWS.get(base_name(func))
    if kind is None:
        return None
    value = args[0]
    if kind == "softmax":
        dim = args[2 if "backward" in base_name(func) else 1]
        if value.dim() == 0 or dim % value.dim() != value.dim() - 1:
            return None
        length = value.shape[-1]
    else:
        length = math.prod(args[2 if "backward" in base_name(func) else 1])
    if not length or not value.numel():
        return None
    return predict.rows_ns(spec, kind, value.numel() // length, length, num_bytes, value.element_size())


def column_sum_ns(func: torch._ops.OpOverload, args: Sequence[Any]) -> int:
    """Further time of a sum or mean over another dimension than the last; 0 for other operators."""
    if base_name(func) not in ("sum", "mean") or len(args) < 2 or not isinstance(args[1], list | tuple):
        return 0
    last = args[0].dim() - 1
    return COLUMN_SUM_NS if args[1] and last > 0 and all(dim % (last + 1) != last for dim in args[1]) else 0


@cache
def base_name(func: torch._ops.OpOverload) -> str:
    """The name of an operator without namespace, and without the underscore of in-place variants."""
    return func._schema.name.partition("::")[2].rstrip("_")


def _attention_ns(
    spec: DeviceSpec, dtype_key: str, func: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any]
) -> int | None:
    is_backward = "backward" in func._schema.name
    query, key, value = args[1:4] if is_backward else args[:3]
    if query.dim() != 4:
        return None
    heads_dim, rows_dim = (2, 1) if base_name(func).startswith("_flash_attention") else (1, 2)
    batch, head_dim = query.shape[0], query.shape[-1]
    heads, queries = query.shape[heads_dim], query.shape[rows_dim]
    kv_heads, keys = key.shape[heads_dim], key.shape[rows_dim]
    if not min(batch, heads, queries, keys, kv_heads):
        return None
    dim = (head_dim + value.shape[-1]) // 2
    is_causal = bool(_argument(func, "is_causal", args, kwargs))
    sizes = (batch, queries, keys, heads, kv_heads, dim)
    return predict.attention_ns(spec, dtype_key, *sizes, is_causal, query.element_size(), is_backward)


def _argument(func: torch._ops.OpOverload, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """An argument of a call by its name in the schema; None if there is none."""
    for index, argument in enumerate(func._schema.arguments):
        if argument.name == name:
            return args[index] if index < len(args) else kwargs.get(name, argument.default_value)
    return None


def _mm(args: Sequence[Any], out: Any, first: int = 0) -> Iterator[Product]:
    *batch, rows, inner = args[first].shape
    yield math.prod(batch), rows, args[first + 1].shape[-1], inner


def _addmm(args: Sequence[Any], out: Any) -> Iterator[Product]:
    return _mm(args, out, 1)


def _mv(args: Sequence[Any], out: Any, first: int = 0) -> Iterator[Product]:
    matrix = args[first]
    yield 1, int(matrix.shape[0]), 1, int(matrix.shape[-1])


def _addmv(args: Sequence[Any], out: Any) -> Iterator[Product]:
    return _mv(args, out, 1)


def _linear(args: Sequence[Any], out: Any) -> Iterator[Product]:
    value, weight = args[:2]
    inner = int(value.shape[-1])
    yield 1, value.numel() // max(inner, 1), weight.numel() // max(inner, 1), inner


def _convolution(args: Sequence[Any], out: Any) -> Iterator[Product]:
    value, weight, groups = args[0], args[1], args[8]
    result = value if args[6] else out  # a transposed convolution multiplies each element of its input
    yield _convolved(result, weight, groups)


def _convolution_backward(args: Sequence[Any], out: Any) -> Iterator[Product]:
    grad, value, weight, groups, wanted = args[0], args[1], args[2], args[9], args[10]
    result = value if args[7] else grad
    batch, positions, channels, inner = _convolved(result, weight, groups)
    if wanted[0]:
        yield batch, positions, inner, channels
    if wanted[1]:
        yield batch, channels, inner, positions


def _convolved(result: Tensor, weight: Tensor, groups: int) -> Product:
    """A convolution as a matrix product: positions x output channels, over input channels and the window."""
    positions = result.numel() // max(int(result.shape[1]), 1)
    return groups, positions, int(weight.shape[0]) // groups, weight.numel() // max(int(weight.shape[0]), 1)


_PRODUCTS: Final[dict[str, Callable[[Sequence[Any], Any], Iterator[Product]]]] = {
    "mm": _mm,
    "bmm": _mm,
    "_int_mm": _mm,
    "_scaled_mm": _mm,
    "addmm": _addmm,
    "baddbmm": _addmm,
    "addbmm": _addmm,
    "_addmm_activation": _addmm,
    "mv": _mv,
    "addmv": _addmv,
    "linear": _linear,
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
}
