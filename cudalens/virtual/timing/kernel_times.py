"""Predict the times of matrix products, convolutions, attention and row-wise kernels from an operator's arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch import Tensor

from cudalens.gpus import predict
from cudalens.gpus.predict import COLLECTIVES, collective_time

if TYPE_CHECKING:
    from cudalens.gpus.registry import DeviceSpec

#: Computes the elements of a table that a call uses, from the table, the arguments and the result.
Rule = Callable[[Tensor, Sequence[Any], dict[str, Any], Any], int]


def _as_result(table: Tensor, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> int:
    first = out[0] if isinstance(out, tuple | list) else out
    return int(first.numel())


def _as_rows(table: Tensor, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> int:
    return int(args[1].numel()) * (table.numel() // max(table.shape[0], 1))


def _as_targets(table: Tensor, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> int:
    return int(args[1].numel())


def _as_source(table: Tensor, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> int:
    """Return the source of ``scatter`` and ``index_add``; a number is written once per index."""
    given = [value for value in (*args[2:], *kwargs.values()) if isinstance(value, Tensor)]
    return max((value.numel() for value in given), default=0)


def _as_filled(table: Tensor, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> int:
    size = table.shape[args[1]] if table.dim() else 1
    return int(args[2].numel()) * (table.numel() // max(size, 1))


def _as_indexed(table: Tensor, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> int:
    """For ``x[i, :, j] = …``: the broadcast size of the indices, times the dimensions without an index."""
    indices = [*args[1], *[None] * (table.dim() - len(args[1]))]
    picked = [index for index in indices if index is not None]
    if any(index.dtype in (torch.bool, torch.uint8) for index in picked):
        return table.numel()  # the number of True elements is unknown without a synchronisation: an upper bound
    meet = prod(torch.broadcast_shapes(*(index.shape for index in picked)))  # type: ignore[no-untyped-call]
    return meet * prod(size for size, index in zip(table.shape, indices, strict=True) if index is None)


#: Operators that read a part of their first argument.
PICKS: Final[dict[str, Rule]] = {
    "index_select": _as_result,
    "gather": _as_result,
    "take": _as_result,
    "index": _as_result,
    "_unsafe_index": _as_result,
    "embedding": _as_result,
    "_embedding_bag": _as_rows,
    "_embedding_bag_forward_only": _as_rows,
    "nll_loss_forward": _as_targets,
    "nll_loss2d_forward": _as_targets,
}

#: In-place operators that read and write a part of their first argument.
TOUCHES: Final[dict[str, Rule]] = {
    "scatter_": _as_source,
    "scatter_add_": _as_source,
    "scatter_reduce_": _as_source,
    "index_add_": _as_source,
    "index_copy_": _as_source,
    "index_reduce_": _as_source,
    "put_": _as_source,
    "index_fill_": _as_filled,
    "index_put_": _as_indexed,
    "_index_put_impl_": _as_indexed,
}


#: Operators of the namespaces c10d and _c10d_functional, without trailing underscores: the collective of each.
_OPERATORS: Final = {
    "_allgather_base": "all_gather",
    "_reduce_scatter_base": "reduce_scatter",
    "all_gather_into_tensor": "all_gather",
    "all_gather_into_tensor_coalesced": "all_gather",
    "all_reduce": "all_reduce",
    "all_reduce_coalesced": "all_reduce",
    "all_to_all_single": "all_to_all",
    "allgather": "all_gather",
    "allgather_into_tensor_coalesced": "all_gather",
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all",
    "reduce_scatter": "reduce_scatter",
    "reduce_scatter_tensor": "reduce_scatter",
    "reduce_scatter_tensor_coalesced": "reduce_scatter",
}
_NAMESPACES: Final = ("c10d", "_c10d_functional")


def collective_ns(spec: DeviceSpec, func: torch._ops.OpOverload, args: Sequence[Any], out: Any) -> Timed | None:
    """Return the time of a collective on GPUs of one node; None for other operators and for groups of one process."""
    namespace, _, name = func._schema.name.partition("::")
    op = _OPERATORS.get(name.rstrip("_")) if namespace in _NAMESPACES else None
    num_gpus = _group_size(func, args) if op is not None else 1
    if op is None or num_gpus < 2:
        return None
    # The larger side is the message: the output of all_gather, the input of reduce_scatter.
    message_bytes = max(sum(tensor.nbytes for tensor in _tensors((value,))) for value in (*args, out))
    return Timed(collective_time(spec, op, num_gpus, message_bytes), COLLECTIVES[op])


def _group_size(func: torch._ops.OpOverload, args: Sequence[Any]) -> int:
    """Return the number of processes of the operator's group."""
    group_type = torch.distributed.ProcessGroup
    for argument, value in zip(func._schema.arguments, args, strict=False):
        if argument.name == "process_group":
            return int(group_type.unbox(value).size())
        if argument.name == "group_name":
            resolve: Any = getattr(torch.distributed.distributed_c10d, "_resolve_process_group")  # noqa: B009
            return int((resolve(value) if isinstance(value, str) else value).size())
    return 1


def _tensors(values: Sequence[Any]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


#: Batch, rows and columns of the result, inner dimension.
Product = tuple[int, int, int, int]


class Timed(NamedTuple):
    """A predicted time, ns, and the family of `cudalens.gpus.constants` whose formula gave it."""

    ns: int
    family: str


#: Further time of a sum over another dimension than the last: few threads read far apart. Recorded sums of 0.1 to 2 MB
#: take 6 to 10 us (A100, V100), sums over the last dimension 3 us.
COLUMN_SUM_NS: Final = 4_000

#: Channels of half precision are padded to this number for tensor cores (cuDNN's layout NHWC).
CHANNEL_MULTIPLE: Final = 8

#: Input channels up to which kernels for tensor cores are slow: those of images and of sound.
FEW_CHANNELS: Final = 4

#: The compute capability from which tensor cores take TF32 and bfloat16, and that of an H100.
AMPERE: Final = (8, 0)
HOPPER: Final = (9, 0)

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
) -> Timed | None:
    """Return the time of the products of a call, or None if the operator has no known sizes."""
    name = base_name(func)
    if dtype_key in ("tf32", "bfloat16") and spec.compute_capability < AMPERE:
        dtype_key = "float32"  # GPUs before Ampere have no such tensor cores
    if "attention" in name:
        return _attention_ns(spec, dtype_key, func, args, kwargs)
    if name in ("convolution", "convolution_backward"):
        return convolution_ns(spec, dtype_key, name, args, out)
    sizes = _PRODUCTS.get(name)
    if sizes is None or any(isinstance(value, Tensor) and value.layout is not torch.strided for value in args):
        return None
    element_bytes = args[0].element_size()
    is_plain = dtype_key in ("float32", "float64")
    slowdown = 1.0 if is_plain else predict.unaligned_slowdown(spec, _alignment(args, out))
    time_ns = 0
    for batch, m, n, k in sizes(args, out):
        factor = slowdown if min(m, n) > 1 else 1.0  # a vector needs no tensor core
        time_ns += predict.PROGRAM_NS + predict.matrix_ns(spec, dtype_key, batch, m, n, k, element_bytes, factor)
    return Timed(time_ns, "matrix_single" if is_plain else "matrix_half")


def _alignment(args: Sequence[Any], out: Any) -> int:
    """Bytes, at most 16, to which every row or column of the matrices of a call is aligned."""
    aligned = 16
    for value in (*args, out):
        if isinstance(value, Tensor) and value.dim() in (2, 3):
            leading = max(value.stride()[-2:]) if min(value.shape[-2:]) > 1 else 16
            aligned = math.gcd(aligned, leading * value.element_size())
    return aligned


def convolution_ns(spec: DeviceSpec, dtype_key: str, name: str, args: Sequence[Any], out: Any) -> Timed | None:
    """Return the time of the products of a convolution, or of its gradients, or None for layouts other than strided.

    Conversions of the layout, the bias and its gradient are kernels of their own (`several_kernels`).

    Args:
        spec: The GPU.
        dtype_key: The compute unit.
        name: "convolution" or "convolution_backward".
        args: The arguments of the call.
        out: The result of the call.
    """
    if name == "convolution":
        value, weight, output, options = args[0], args[1], out, args[3:9]
        results: tuple[str, ...] = ("output",)
    else:
        output, value, weight, options = args[0], args[1], args[2], args[4:10]
        wanted = zip(("input", "weight"), args[10], strict=False)
        results = tuple(result for result, is_wanted in wanted if is_wanted)
    if any(tensor.layout is not torch.strided for tensor in (value, weight, output)) or not output.numel():
        return None
    stride, _, dilation, is_transposed, _, groups = options
    num_bytes = value.nbytes + weight.nbytes + output.nbytes
    window = math.prod(weight.shape[2:])
    multiplied = value if is_transposed else output  # a transposed convolution multiplies each element of its input
    positions = multiplied.numel() // max(int(multiplied.shape[1]), 1)
    rows, channels = int(weight.shape[0]) // groups, int(weight.shape[1])
    if groups > 1 and groups == int(value.shape[1]):
        flops = 2 * positions * weight.numel()
        depthwise_ns = sum(predict.depthwise_ns(spec, num_bytes, flops, kind != "output") for kind in results)
        return Timed(depthwise_ns, "depthwise")

    element_bytes = value.element_size()
    if dtype_key == "tf32" and is_patch_embedding(weight, stride):
        dtype_key = "float32"  # cuDNN has no kernel for tensor cores with channels first for it (H100)
    is_slow = dtype_key not in ("float32", "float64") and has_few_channels(value, weight, groups)
    if element_bytes <= 2:
        rows, channels = (-(-number // CHANNEL_MULTIPLE) * CHANNEL_MULTIPLE for number in (rows, channels))
    is_winograd = (
        dtype_key == "float32"
        and tuple(weight.shape[2:]) == (3, 3)
        and set(stride) == set(dilation) == {1}
        and not is_transposed
        and groups == 1
    )
    products: dict[str, Product] = {
        "output": (groups, positions, rows, channels * window),
        "input": (groups, positions, channels * window, rows),
        "weight": (groups, channels * window, rows, positions),
    }
    time_ns = 0
    for result in results:
        time_ns += predict.convolution_ns(
            spec, dtype_key, *products[result], num_bytes, element_bytes, result, is_winograd, is_slow
        )
    return Timed(time_ns, "convolution_single" if dtype_key in ("float32", "float64") else "convolution_half")


def has_few_channels(value: Tensor, weight: Tensor, groups: int) -> bool:
    """Return whether the input of a convolution has so few channels that kernels for tensor cores are slow."""
    return groups == 1 and int(weight.shape[1]) <= FEW_CHANNELS


def is_patch_embedding(weight: Tensor, stride: Sequence[int]) -> bool:
    """Return whether a convolution cuts an image of few channels into patches that do not overlap."""
    window = tuple(weight.shape[2:])
    return min(window, default=1) > 1 and tuple(stride) == window and int(weight.shape[1]) <= FEW_CHANNELS


def row_ns(spec: DeviceSpec, func: torch._ops.OpOverload, args: Sequence[Any], num_bytes: int) -> Timed | None:
    """Return the time of a row-wise kernel, or None for other operators, and for rows that are not contiguous."""
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
    time_ns = predict.rows_ns(spec, kind, value.numel() // length, length, num_bytes, value.element_size())
    return Timed(time_ns, kind)


def column_sum_ns(func: torch._ops.OpOverload, args: Sequence[Any]) -> int:
    """Further time of a sum or mean over another dimension than the last; 0 for other operators."""
    if base_name(func) not in ("sum", "mean") or len(args) < 2 or not isinstance(args[1], list | tuple):
        return 0
    last = args[0].dim() - 1
    return COLUMN_SUM_NS if args[1] and last > 0 and all(dim % (last + 1) != last for dim in args[1]) else 0


@cache
def base_name(func: torch._ops.OpOverload) -> str:
    """Return the name of an operator without namespace, and without the underscore of in-place variants."""
    return func._schema.name.partition("::")[2].rstrip("_")


def _attention_ns(
    spec: DeviceSpec, dtype_key: str, func: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any]
) -> Timed | None:
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
    # ``check_prefer_cudnn_attention`` (ATen/native/transformers/cuda/sdp_utils.cpp) puts cuDNN first on GPUs of compute
    # capability 9.0 and 10.0, unless the program disables it. Constants of cuDNN were measured on 9.0 alone.
    is_half = query.dtype in (torch.float16, torch.bfloat16) and torch._C._get_cudnn_sdp_enabled()
    is_chosen = is_half and base_name(func).startswith("_scaled_dot_product")
    family = "attention_cudnn" if is_chosen and spec.compute_capability == HOPPER else "attention"
    time_ns = predict.attention_ns(spec, dtype_key, *sizes, is_causal, query.element_size(), is_backward, family)
    return Timed(time_ns, "decode" if queries <= predict.DECODE_QUERIES and not is_backward else family)


def _argument(func: torch._ops.OpOverload, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Return an argument of a call by its name in the schema, or None if there is none."""
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
}
