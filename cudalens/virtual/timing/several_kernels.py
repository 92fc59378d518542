"""Operators that a GPU runs as several kernels, as recorded traces and torch's sources show them.

A call is first modelled as one kernel. The rules below divide its time among its kernels, or add the kernels whose
memory traffic is not that of the operator's arguments. Operators without a rule are one kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from cudalens.gpus import predict
from cudalens.virtual.timing.flops import allows_tf32, unit_of
from cudalens.virtual.timing.interfaces import Work
from cudalens.virtual.timing.kernel_parts import Rule, at_least, divided, named, operator_of, part
from cudalens.virtual.timing.kernel_times import AMPERE, CHANNEL_MULTIPLE, has_few_channels, is_patch_embedding
from cudalens.virtual.timing.selections import SELECTION_RULES

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
GPU_PARTS: Final = {
    "_for_cpu": "",
    "mkldnn_rnn_layer": "_cudnn_rnn",
    "MkldnnRnnLayerBackward": "CudnnRnnBackward",
    "mkldnn_convolution": "cudnn_convolution",
    "_nnpack_spatial_convolution": "cudnn_convolution",
    "thnn_conv2d": "cudnn_convolution",
    "slow_conv3d": "cudnn_convolution",
    "slow_conv_transpose2d": "cudnn_convolution_transpose",
    "slow_conv_transpose3d": "cudnn_convolution_transpose",
}


def name_of(func: torch._ops.OpOverload, dtype: torch.dtype | str | None = None) -> str:
    """Return the name of the modelled kernel for a call of `func`.

    Args:
        func: An operator overload; a namespace other than aten is part of the name.
        dtype: The computation type, or the name of one; None leaves it out.
    """
    operator = func._schema.name.removeprefix("aten::")
    for of_cpu, of_gpu in GPU_PARTS.items():
        operator = operator.replace(of_cpu, of_gpu)
    name = f"{NAMESPACE}::{operator}"
    if dtype is None:
        return name
    if isinstance(dtype, torch.dtype):
        dtype = _TYPES.get(dtype, str(dtype).removeprefix("torch."))
    return f"{name}<{dtype}>"


#: Elements of a chunk, chunks of a launch, and tensors of a launch by the number of lists, of torch's multi-tensor
#: kernels (ATen/native/cuda/MultiTensorApply.cuh, since torch 2.0).
CHUNK: Final = 65536
LAUNCH_CHUNKS: Final = 320
LAUNCH_TENSORS: Final = (110, 64, 48, 36, 30)

#: Tensors that one kernel of ``cat`` copies (CAT_ARRAY_BATCH_SIZE in ATen/native/cuda/Shape.cu).
CAT_TENSORS: Final = 128

#: Time of a thread block for a whole chunk, which kernels of few chunks take whatever the bandwidth: measured 21 to 25
#: us for lists of 100 tensors of 65,536 elements, and 42 us for a fused optimizer (H100; 20 to 41 us on an H200).
CHUNK_NS: Final = 21_000
FUSED_CHUNK_NS: Final = 42_000

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


def _layer_norm_backward(spec: DeviceSpec, args: Sequence[Any], out: Any, whole: Work) -> Iterator[Work]:
    """Yield the gradient of the input; then those of weight and bias, which read both tensors again."""
    yield whole
    if any(isinstance(grad, Tensor) for grad in out[1:]):
        grad, value = args[:2]
        yield part(spec, whole, "gamma_beta", grad.nbytes + value.nbytes, value.numel(), "other")


def _bce_with_logits(spec: DeviceSpec, args: Sequence[Any], out: Any, whole: Work) -> Iterator[Work]:
    """Pointwise operators on temporary tensors (ATen/native/Loss.cpp), then the reduction."""
    logits = args[0]
    size, count = logits.nbytes, logits.numel()
    weights = [value for value in args[2:4] if isinstance(value, Tensor)]
    for name, tensors in (("log_sigmoid", 2), ("rsub", 2), ("mul", 3), ("sub", 3), *(("mul", 3) for _ in weights)):
        yield part(spec, whole, name, tensors * size, count, "dense")
    if out.dim() < logits.dim():
        yield part(spec, whole, "reduce", size, count, "other")


def _convolution(spec: DeviceSpec, args: Sequence[Any], out: Any, whole: Work) -> Iterator[Work]:
    """Tensor cores read channels last: other layouts are converted before and back; a bias is added behind."""
    value, weight, bias, stride, groups = *args[:4], args[8]
    converts = _converts_layout(spec, value, weight, stride)
    if converts:
        yield part(spec, whole, "to_channels_last", 2 * value.nbytes, value.numel(), "dense")
        yield part(spec, whole, "to_channels_last", 2 * weight.nbytes, weight.numel(), "dense")
    elif _is_half(value) and has_few_channels(value, weight, groups):
        padded_bytes = value.nbytes * CHANNEL_MULTIPLE // max(int(weight.shape[1]), 1)
        yield part(spec, whole, "pad_channels", value.nbytes + 2 * padded_bytes, value.numel(), "strided")
    yield whole
    if converts:
        yield part(spec, whole, "from_channels_last", 2 * out.nbytes, out.numel(), "dense")
    if isinstance(bias, Tensor):
        yield part(spec, whole, "add_bias", 2 * out.nbytes, out.numel(), "strided")


def _is_half(value: Tensor) -> bool:
    return value.dtype in (torch.float16, torch.bfloat16)


def _converts_layout(spec: DeviceSpec, value: Tensor, weight: Tensor, stride: Sequence[int]) -> bool:
    """Return whether the layout is converted for tensor cores; in TF32, windows of one element are plain products."""
    is_tf32 = value.dtype == torch.float32 and spec.compute_capability >= AMPERE and allows_tf32("conv")
    if is_tf32 and (weight.shape[2:].numel() == 1 or is_patch_embedding(weight, stride)):
        return False
    return (_is_half(value) or is_tf32) and value.dim() == 4 and not (
        weight.is_contiguous(memory_format=torch.channels_last)
        or value.is_contiguous(memory_format=torch.channels_last)
    )  # fmt: skip


def _convolution_backward(spec: DeviceSpec, args: Sequence[Any], out: Any, whole: Work) -> Iterator[Work]:
    """One product for the gradient of the input, one for that of the weight, and a sum for that of the bias.

    The layouts of their operands and results are converted as in the forward pass, for each of the products.
    """
    grad, value, weight, _, stride = args[:5]
    num_products = sum(isinstance(result, Tensor) for result in out[:2])
    converts = _converts_layout(spec, value, weight, stride)
    operands = [*[grad] * isinstance(out[0], Tensor), *[grad, value] * isinstance(out[1], Tensor)]
    for tensor in operands if converts else ():
        yield part(spec, whole, "to_channels_last", 2 * tensor.nbytes, tensor.numel(), "dense")
    yield from divided(whole, num_products)
    if converts and isinstance(out[0], Tensor):
        yield part(spec, whole, "from_channels_last", 2 * out[0].nbytes, out[0].numel(), "dense")
    if isinstance(out[2], Tensor):
        yield part(spec, whole, "grad_bias", grad.nbytes, grad.numel(), "other")


def _rnn_layer(spec: DeviceSpec, args: Sequence[Any], out: Any, whole: Work) -> Iterator[Work]:
    """One layer of an LSTM in one direction, the CPU's operator."""
    value, input_weight, hidden_weight = args[:3]
    yield from _recurrent_layer(spec, whole, value, int(value.shape[0]), input_weight, hidden_weight)


def _rnn_layers(spec: DeviceSpec, args: Sequence[Any], out: Any, whole: Work) -> Iterator[Work]:
    """All layers and directions."""
    value, weights, stride = args[:3]
    is_backward = "backward" in whole.name
    batch_first, batch_sizes = (args[14], args[18]) if is_backward else (args[10], args[14])
    steps = len(batch_sizes) or int(value.shape[1 if batch_first else 0])
    for layer in range(0, len(weights), stride):
        yield from _recurrent_layer(spec, whole, value, steps, weights[layer], weights[layer + 1])


def _recurrent_layer(
    spec: DeviceSpec, whole: Work, value: Tensor, steps: int, input_weight: Tensor, hidden_weight: Tensor
) -> Iterator[Work]:
    """One product with the input of all steps; then for each step a product with the state and the gates."""
    is_backward = "backward" in whole.name
    gates, hidden = (int(size) for size in hidden_weight.shape)
    num_rows = value.numel() // int(value.shape[-1])
    batch = -(-num_rows // steps)
    dtype_key = unit_of(value.dtype, "matmul")
    element_bytes = value.element_size()
    num_products = 2 if is_backward else 1  # the gradients of the input and of the weight

    def product(name: str, rows: int, inner: int, extra_ns: int = 0) -> Work:
        product_ns = predict.matrix_ns(spec, dtype_key, 1, rows, gates, inner, element_bytes)
        return replace(
            named(whole, name),
            duration_ns=product_ns + extra_ns,
            num_bytes=(rows * inner + inner * gates + rows * gates) * element_bytes,
            flops=2 * rows * inner * gates,
        )

    for _ in range(num_products):
        yield product("input", num_rows, int(input_weight.shape[1]))
    state_bytes = (gates + 3 * hidden) * batch * element_bytes
    for _ in range(steps):
        yield product("state", batch, hidden, RNN_STEP_NS)
        yield part(spec, whole, "gates", state_bytes, batch * hidden, "dense")
    if is_backward:
        yield product("weight", num_rows, hidden)


def _cat(spec: DeviceSpec, args: Sequence[Any], out: Any, whole: Work) -> Iterator[Work]:
    return divided(whole, -(-len(args[0]) // CAT_TENSORS))


def _multi_tensor(spec: DeviceSpec, args: Sequence[Any], out: Any, whole: Work) -> Iterator[Work]:
    """Chunks of all tensors, in launches of limited numbers of chunks and of tensors.

    Lists whose tensors differ in their sizes, such as parameters and steps of an optimizer that can be captured, take
    torch's path of one pointwise kernel for each tensor.
    """
    lists = [value for value in args if isinstance(value, list | tuple) and value and isinstance(value[0], Tensor)]
    if not lists:
        yield whole
        return
    is_fused = operator_of(whole).startswith("_fused_")
    if not is_fused and any(each[0].shape != lists[0][0].shape for each in lists[1:]):
        for tensor in lists[0]:
            yield part(spec, whole, "each", 2 * tensor.nbytes, tensor.numel(), "strided")
        return
    chunks = sum(-(-tensor.numel() // CHUNK) for tensor in lists[0])
    # The steps of a fused optimizer are not in its lists of chunks (FusedOptimizerTensorListMetadata).
    depth = len(lists) - (is_fused and len(lists) > 3)
    most_tensors = LAUNCH_TENSORS[min(depth, len(LAUNCH_TENSORS)) - 1]
    longest_chunk = min(CHUNK, max(tensor.numel() for tensor in lists[0]))
    chunk_ns = (FUSED_CHUNK_NS if is_fused else CHUNK_NS) * longest_chunk / CHUNK
    for work in divided(whole, max(-(-chunks // LAUNCH_CHUNKS), -(-len(lists[0]) // most_tensors))):
        yield at_least(work, chunk_ns)


_RULES: Final[dict[str, Rule]] = {
    **SELECTION_RULES,
    **dict.fromkeys(("native_layer_norm_backward", "_fused_rms_norm_backward"), _layer_norm_backward),
    "binary_cross_entropy_with_logits": _bce_with_logits,
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    "cat": _cat,
    "mkldnn_rnn_layer": _rnn_layer,
    "mkldnn_rnn_layer_backward": _rnn_layer,
    "_cudnn_rnn": _rnn_layers,
    "_cudnn_rnn_backward": _rnn_layers,
}
