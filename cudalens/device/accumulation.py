"""Find the additions of gradients that torch's autograd engine does in place.

If a tensor is used several times, the engine adds its gradients. It adds to the first one in place if nothing else
refers to it (``can_accumulate_inplace`` in torch/csrc/autograd/input_buffer.cpp). While a dispatch mode is active, it
does not, so every addition takes new memory and has the strides of a new tensor. Here the condition is evaluated as if
no mode were active.
"""

from __future__ import annotations

import functools
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

import torch
from torch.autograd import graph
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from cudalens.device.call_tracing import caller_of

ADD: Final = torch.ops.aten.add.Tensor
_ADD_IN_PLACE: Final = torch.ops.aten.add_.Tensor
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


class _References(NamedTuple):
    """How often the first argument of an operator and its storage are referred to, by Python and by C++."""

    python: int
    cpp: int
    storage_python: int
    storage_cpp: int


def addition(args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
    """Return the operator that torch runs for this call of ``aten::add.Tensor`` where no mode is active.

    It is ``aten::add_.Tensor`` if the engine adds a gradient to the first argument in place. Autograd, which counts the
    changes of a tensor, does not see what a dispatch mode's handler calls, so the change is counted here.

    Call it directly in a dispatch mode's handler. A hook of torch's own that adds to a retained gradient
    (``retain_grad`` and a second backward) looks the same and is done in place, too; the values are equal.
    """
    if torch._C._current_graph_task_id() == -1 or torch.is_grad_enabled() or kwargs or len(args) != 2:
        return ADD
    if (
        _is_called_by_engine()
        and _is_node_without_additions()
        and _are_dense_and_alike(*args)
        and _references(args) == _usual_references()
    ):
        graph.increment_version(args[0])
        return _ADD_IN_PLACE
    return ADD


def _is_called_by_engine() -> bool:
    """Return whether the engine called the operator, not Python code (a hook or function) that the engine called.

    On a GPU, the engine runs in a thread of its own: no Python code has called the mode there.
    """
    frame = caller_of(sys._getframe(2))  # of the caller of the mode's handler
    return frame is None or frame.f_code is graph._engine_run_backward.__code__


def _is_node_without_additions() -> bool:
    node = torch._C._current_autograd_node()
    match = None if node is None else _NODE.fullmatch(node.name())
    return match is not None and match[1] in _OPERATORS


def _are_dense_and_alike(first: Any, second: Any) -> bool:
    return (
        type(first) is type(second) is torch.Tensor
        and first.layout is second.layout is torch.strided
        and first.shape == second.shape
        and first.dtype is second.dtype
        and bool(torch.ops.aten.is_non_overlapping_and_dense.default(first))
    )


def _references(args: tuple[Any, ...]) -> _References:
    first = args[0]
    storage = first.untyped_storage()
    in_cpp, of_storage = first._use_count(), torch._C._storage_Use_Count(storage._cdata)
    return _References(sys.getrefcount(first), in_cpp, sys.getrefcount(storage), of_storage)


class _Measure(TorchDispatchMode):
    """Counts the references to a gradient that only the engine's buffer holds."""

    found: _References | None = None

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if func is ADD and torch._C._current_graph_task_id() != -1:
            self.found = _references(args)
        with torch._C.DisableTorchFunction():  # the program's function modes are not for this
            return func(*args, **(kwargs or {}))


@functools.cache
def _usual_references() -> _References | None:
    """What `_references` returns where nothing but the engine's buffer holds a gradient; it depends on the versions.

    It is measured by a small backward, in the first backward of the program that needs it: before, the engine's threads
    may not have started. A thread of its own has none of the states of a running handler. None if this torch has no
    such counts, or no thread can start (the interpreter ends); then every addition takes new memory.
    """
    try:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(_measured).result()
    except (AttributeError, RuntimeError):
        return None


def _measured() -> _References | None:
    mode = _Measure()
    with _disable_current_modes():
        with torch._C.DisableTorchFunction():
            leaf = torch.ones(2, device="cpu", requires_grad=True)
            reused = leaf * 2
            output, grad = reused * 3 + reused.sigmoid(), torch.ones(2, device="cpu")
        with mode:
            engine = torch.autograd.Variable._execution_engine  # torch.autograd.backward may be patched
            engine.run_backward((output,), (grad,), False, False, (), allow_unreachable=True, accumulate_grad=True)
    return mode.found
