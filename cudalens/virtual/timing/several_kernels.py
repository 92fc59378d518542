"""Operators that a GPU runs as several kernels, as recorded traces and torch's sources show them.

A call is first modelled as one kernel. The rules below divide its time among its kernels, or add the kernels whose
memory traffic is not that of the operator's arguments. Operators without a rule are one kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from cudalens.gpus import predict
from cudalens.virtual.timing.durations import FALLBACK_FAMILIES, Family, grid_of, kernel_ns, room
from cudalens.virtual.timing.flops import unit_of
from cudalens.virtual.timing.interfaces import Work

if TYPE_CHECKING:
    from cudalens.gpus.registry import DeviceSpec

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
    """Return the name of the modelled kernel for a call of `func`.

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


#: Computes the kernels of a call from the GPU, the arguments, the result, and the call as one kernel.
Rule = Callable[["DeviceSpec", Sequence[Any], Any, Work], Iterator[Work]]

#: Elements of a chunk, chunks of a launch, and tensors of a launch by the number of lists, of torch's multi-tensor
#: kernels (ATen/native/cuda/MultiTensorApply.cuh, since torch 2.0).
CHUNK: Final = 65536
LAUNCH_CHUNKS: Final = 320
LAUNCH_TENSORS: Final = (110, 64, 48, 36, 30)

#: Tensors that one kernel of ``cat`` copies (CAT_ARRAY_BATCH_SIZE in ATen/native/cuda/Shape.cu).
CAT_TENSORS: Final = 128

#: Up to this number of indices, the gradient of an embedding is one kernel; above, the indices are sorted
#: (ATen/native/cuda/Embedding.cu).
SORTED_INDICES: Final = 3072

#: Further time of a step of a recurrent layer, whose kernels wait for those of the step before: small layers of
#: DeepBench (256 and 512 hidden units, V100 and P100) take 27 to 54 us a step, their product and gates 7 to 36 us.
RNN_STEP_NS: Final = 12_000


def rule_of(name: str) -> Rule | None:
    """Return the rule of an operator, or None for one kernel.

    Args:
        name: The name without namespace and trailing underscores.
    """
    if name.startswith(("_foreach_", "_fused_adam", "_fused_sgd", "_fused_adagrad")):
        return _multi_tensor
    return _RULES.get(name)


def _part(spec: DeviceSpec, whole: Work, name: str, num_bytes: int, num_elements: int, family: Family) -> Work:
    """Return a further kernel of an operator, with the given traffic."""
    grid = grid_of(num_elements)
    duration_ns = kernel_ns(spec, num_elements, num_bytes, "float32", family)
    return replace(
        _named(whole, name),
        duration_ns=duration_ns,
        room=room(spec, grid[0]),
        num_bytes=num_bytes,
        flops=num_elements,
        grid=grid,
        block=(128, 1, 1),
        family=FALLBACK_FAMILIES[family],
    )


def _named(whole: Work, name: str) -> Work:
    operator, bracket, types = whole.name.partition("<")
    return replace(whole, name=f"{operator}::{name}{bracket}{types}")


def _divided(whole: Work, num_parts: int) -> Iterator[Work]:
    """Yield a kernel as several of equal length and name."""
    if num_parts <= 1:
        yield whole
        return
    shares = {name: getattr(whole, name) // num_parts for name in ("duration_ns", "num_bytes", "flops")}
    for _ in range(num_parts):
        yield replace(whole, **shares)


def _layer_norm_backward(spec: DeviceSpec, args: Sequence[Any], out: Any, whole: Work) -> Iterator[Work]:
    """Yield the gradient of the input; then those of weight and bias, which read both tensors again."""
    yield whole
    if any(isinstance(grad, Tensor) for grad in out[1:]):
        grad, value = args[:2]
        yield _part(spec, whole, "gamma_beta", grad.nbytes + value.nbytes, value.numel(), "other")


def _bce_with_logits(spec: DeviceSpec, args: Sequence[Any], out: Any, whole: Work) -> Iterator[Work]:
    """Pointwise operators on temporary tensors (ATen/native/Loss.cpp), then the reduction."""
    logits = args[0]
    size, count = logits.nbytes, logits.numel()
    weights = [value for value in args[2:4] if isinstance(value, Tensor)]
    for name, tensors in (("log_sigmoid", 2), ("rsub", 2), ("mul", 3), ("sub", 3), *(("mul", 3) for _ in weights)):
        yield _part(spec, whole, name, tensors * size, count, "dense")
    if out.dim() < logits.dim():
        yield _part(spec, whole, "reduce", size, count, "other")


def _convolution(spec: DeviceSpec, args: Sequence[Any], out: Any, whole: Work) -> Iterator[Work]:
    """Tensor cores read channels last: other layouts are converted before and back; a bias is added behind."""
    value, weight, bias = args[:3]
    converts = _converts_layout(value, weight)
    if converts:
        yield _part(spec, whole, "to_channels_last", 2 * value.nbytes, value.numel(), "dense")
        yield _part(spec, whole, "to_channels_last", 2 * weight.nbytes, weight.numel(), "dense")
    yield whole
    if converts:
        yield _part(spec, whole, "from_channels_last", 2 * out.nbytes, out.numel(), "dense")
    if isinstance(bias, Tensor):
        # Not vectorised: recorded at 0.30 to 0.68 of the bandwidth for 26 million elements (H100, H200).
        yield _part(spec, whole, "add_bias", 2 * out.nbytes, out.numel(), "strided")


def _converts_layout(value: Tensor, weight: Tensor) -> bool:
    is_half = value.dtype in (torch.float16, torch.bfloat16)
    return is_half and value.dim() == 4 and not weight.is_contiguous(memory_format=torch.channels_last) and (
        not value.is_contiguous(memory_format=torch.channels_last)
    )  # fmt: skip


def _convolution_backward(spec: DeviceSpec, args: Sequence[Any], out: Any, whole: Work) -> Iterator[Work]:
    """One product for the gradient of the input, one for that of the weight, and a sum for that of the bias.

    The layouts of their operands and results are converted as in the forward pass.
    """
    grad, value, weight = args[:3]
    converts = _converts_layout(value, weight)
    if converts:
        for tensor in (grad, value):
            yield _part(spec, whole, "to_channels_last", 2 * tensor.nbytes, tensor.numel(), "dense")
    yield from _divided(whole, sum(isinstance(result, Tensor) for result in out[:2]))
    if converts and isinstance(out[0], Tensor):
        yield _part(spec, whole, "from_channels_last", 2 * out[0].nbytes, out[0].numel(), "dense")
    if isinstance(out[2], Tensor):
        yield _part(spec, whole, "grad_bias", grad.nbytes, grad.numel(), "other")


def _embedding_backward(spec: DeviceSpec, args: Sequence[Any], out: Any, whole: Work) -> Iterator[Work]:
    """The gradient is filled with zeros; many indices are sorted and counted; then the rows are added."""
    grad, indices = args[:2]
    yield _part(spec, whole, "fill", out.nbytes, out.numel(), "dense")
    if indices.numel() > SORTED_INDICES:
        for _ in range(4):  # radix sort of the indices with their positions, 8 bits a pass
            yield _part(spec, whole, "sort", 4 * indices.nbytes, indices.numel(), "other")
        for name in ("segments", "scan", "offsets"):
            yield _part(spec, whole, name, 2 * indices.nbytes, indices.numel(), "other")
    yield _part(spec, whole, "rows", 2 * grad.nbytes + indices.nbytes, grad.numel(), "other")


def _index_put(spec: DeviceSpec, args: Sequence[Any], out: Any, whole: Work) -> Iterator[Work]:
    """With ``accumulate``, the indices are sorted before."""
    indices = [index for index in args[1] if isinstance(index, Tensor)]
    if indices and len(args) > 3 and args[3]:
        most = max(indices, key=torch.Tensor.numel)
        yield _part(spec, whole, "sort", 4 * 8 * most.numel(), most.numel(), "other")
    yield whole


def _rnn_layer(spec: DeviceSpec, args: Sequence[Any], out: Any, whole: Work) -> Iterator[Work]:
    """One product with the input of all steps; then for each step a product with the state and the gates."""
    is_backward = "backward" in whole.name
    value, hidden_weight = args[0], args[2]
    steps, batch = int(value.shape[0]), int(value.shape[1])
    gates, hidden = (int(size) for size in hidden_weight.shape)
    dtype_key = unit_of(value.dtype, "matmul")
    element_bytes = value.element_size()
    num_products = 2 if is_backward else 1  # the gradients of the input and of the weight

    def product(name: str, rows: int, inner: int, extra_ns: int = 0) -> Work:
        product_ns = predict.matrix_ns(spec, dtype_key, 1, rows, gates, inner, element_bytes)
        return replace(
            _named(whole, name),
            duration_ns=product_ns + extra_ns,
            num_bytes=(rows * inner + inner * gates + rows * gates) * element_bytes,
            flops=2 * rows * inner * gates,
        )

    for _ in range(num_products):
        yield product("input", steps * batch, int(value.shape[2]))
    state_bytes = (gates + 3 * hidden) * batch * element_bytes
    for _ in range(steps):
        yield product("state", batch, hidden, RNN_STEP_NS)
        yield _part(spec, whole, "gates", state_bytes, batch * hidden, "dense")
    if is_backward:
        yield product("weight", steps * batch, hidden)


def _cat(spec: DeviceSpec, args: Sequence[Any], out: Any, whole: Work) -> Iterator[Work]:
    return _divided(whole, -(-len(args[0]) // CAT_TENSORS))


def _multi_tensor(spec: DeviceSpec, args: Sequence[Any], out: Any, whole: Work) -> Iterator[Work]:
    """Chunks of all tensors, in launches of limited numbers of chunks and of tensors."""
    lists = [value for value in args if isinstance(value, list | tuple) and value and isinstance(value[0], Tensor)]
    if not lists:
        return _divided(whole, 1)
    chunks = sum(-(-tensor.numel() // CHUNK) for tensor in lists[0])
    most_tensors = LAUNCH_TENSORS[min(len(lists), len(LAUNCH_TENSORS)) - 1]
    return _divided(whole, max(-(-chunks // LAUNCH_CHUNKS), -(-len(lists[0]) // most_tensors)))


_RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(("native_layer_norm_backward", "_fused_rms_norm_backward"), _layer_norm_backward),
    "binary_cross_entropy_with_logits": _bce_with_logits,
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    "embedding_dense_backward": _embedding_backward,
    "index_put": _index_put,
    "_index_put_impl": _index_put,
    "cat": _cat,
    "mkldnn_rnn_layer": _rnn_layer,
    "mkldnn_rnn_layer_backward": _rnn_layer,
}
