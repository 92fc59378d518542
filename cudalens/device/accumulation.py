"""Find the additions of gradients that torch's autograd engine does in place.

If a tensor is used several times, the engine adds its gradients. It adds to the first one in place if nothing else
refers to it (``can_accumulate_inplace`` in torch/csrc/autograd/input_buffer.cpp). While a dispatch mode is active, it
does not, so every addition takes new memory and has the strides of a new tensor. Here the condition is evaluated as if
no mode were active.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.autograd import graph

if TYPE_CHECKING:
    from types import FrameType

ADD: Final = torch.ops.aten.add.Tensor
ADD_IN_PLACE: Final = torch.ops.aten.add_.Tensor
_counts_references: Final = hasattr(torch.Tensor, "_use_count") and hasattr(torch._C, "_storage_Use_Count")
#: References to a tensor that only the engine's buffer holds, and to its storage, as a dispatch mode sees them: the
#: buffer, the arguments of the operator, and their Python objects (torch 2.11 to 2.15).
_NUM_REFERENCES: Final = 4
_NUM_STORAGE_REFERENCES: Final = 2
#: Operators whose derivative contains no addition of two tensors, so an addition in their nodes is the engine's.
_NAMES: Final = """
Abs AdaptiveAvgPool2D Add Addbmm Addcmul Addmm Addmv Alias AvgPool2D Baddbmm Bmm Cat Clamp ClampMax ClampMin
Clone Convolution Cos CudnnBatchNorm CudnnConvolution Div Dot Elu Embedding Exp Expand Gather Gelu Hardsigmoid
Hardswish Hardtanh Index IndexSelect LeakyRelu Log LogSigmoid LogSoftmax MaskedFill MaxPool2DWithIndices Mean
Mish Mm MseLoss Mul Mv NativeBatchNorm NativeDropout NativeGroupNorm NativeLayerNorm Neg NllLoss NllLoss2D
Permute Pow Relu Repeat ReshapeAlias Rsqrt Rsub ScaledDotProductCudnnAttention
ScaledDotProductEfficientAttention ScaledDotProductFlashAttention ScaledDotProductFlashAttentionForCpu Select
Sigmoid Silu Sin Slice Softmax Softplus Split SplitWithSizes Sqrt Squeeze Stack Sub Sum T Tanh Threshold ToCopy
Transpose Unbind UnsafeSplit UnsafeView Unsqueeze UpsampleBilinear2D UpsampleNearest2D View Where
"""
_OPERATORS: Final = frozenset(_NAMES.split())
_NODE: Final = re.compile(r"(\w+?)Backward\d*")


def is_in_place(args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> bool:
    """Whether torch does this call of ``aten::add.Tensor`` in place on a device: the engine adds gradients.

    Call it directly in a dispatch mode's handler.
    """
    if torch._C._current_graph_task_id() == -1 or torch.is_grad_enabled() or kwargs or len(args) != 2:
        return False
    if not _counts_references or _num_references(args) != _NUM_PYTHON_REFERENCES:
        return False
    return _is_engine(sys._getframe(2)) and _is_node_without_additions() and _can_be_overwritten(*args)


def _num_references(args: tuple[Any, ...]) -> int:
    """Python's count of references to the first of some arguments."""
    return sys.getrefcount(args[0])


#: Python's references to a gradient that no code of the program has: the arguments, and torch's C++ that passes them.
_NUM_PYTHON_REFERENCES: Final = _num_references((object(),)) + 1


def _is_engine(frame: FrameType | None) -> bool:
    """Whether the engine called the operator, not Python code (a hook or function) that the engine called."""
    return frame is None or frame.f_code is graph._engine_run_backward.__code__


def _is_node_without_additions() -> bool:
    node = torch._C._current_autograd_node()
    match = None if node is None else _NODE.fullmatch(node.name())
    return match is not None and match[1] in _OPERATORS


def _can_be_overwritten(first: Any, second: Any) -> bool:
    """Whether the first gradient is a dense tensor that only the engine holds, and the second is one like it."""
    return (
        type(first) is type(second) is torch.Tensor
        and first.layout is second.layout is torch.strided
        and first.shape == second.shape
        and first.dtype is second.dtype
        and first._use_count() == _NUM_REFERENCES  # type: ignore[attr-defined]
        and torch._C._storage_Use_Count(first.untyped_storage()._cdata) == _NUM_STORAGE_REFERENCES
        and bool(torch.ops.aten.is_non_overlapping_and_dense.default(first))
    )
