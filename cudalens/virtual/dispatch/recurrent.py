"""GRU and RNN layers as on a GPU: one operator of cuDNN for all steps, where the CPU runs operators for each step.

``torch.gru`` is composite: for CUDA tensors it calls ``_cudnn_rnn`` (ATen/native/RNN.cpp), for CPU tensors products and
pointwise operators. torch's C++ takes tensors of a virtual device for CPU tensors, so the call is made here. Values and
gradients are those of the CPU's operators. LSTM layers have an operator of their own on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import _C, Tensor

from cudalens.virtual.tensors.residency import residence_of
from cudalens.virtual.torch_cuda.rng import Replacement

_aten = torch.ops.aten

#: torch's functions by their number in cuDNN's interface (``cudnnRNNMode_t``).
_FUNCTIONS: Final[dict[int, Callable[..., Any]]] = {0: torch.rnn_relu, 1: torch.rnn_tanh, 3: torch.gru}
_MODES: Final = {func: mode for mode, func in _FUNCTIONS.items()}
FUNCTIONS: Final = tuple(_MODES)
#: Numbers that a step keeps for the backward pass: the results of the gates, and the product with the old state.
_KEPT: Final = {0: 1, 1: 1, 3: 4}
_DTYPES: Final = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
_NOT_TRAINING: Final = "cudnn RNN backward can only be called in training mode"
_AUTOGRAD: Final = (
    _C.DispatchKeySet(_C.DispatchKey.AutogradCPU)
    | _C.DispatchKeySet(_C.DispatchKey.AutogradFunctionality)
    | _C.DispatchKeySet(_C.DispatchKey.ADInplaceOrView)
)


def run_layers(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call one of `FUNCTIONS`: by cuDNN's operator where a GPU does so.

    Dropout between layers is left to the CPU's operators, which draw its random numbers.
    """
    if kwargs or len(args) not in (8, 9) or not _is_for_cudnn(args[0]):
        return func(*args, **kwargs)
    is_packed = isinstance(args[2], Tensor)  # (data, batch_sizes, hidden, weights, ...)
    sizes = args[1].tolist() if is_packed else []
    hidden, weights, has_biases, num_layers, dropout, train, bidirectional, *order = args[2 if is_packed else 1 :]
    if dropout and train and num_layers > 1:
        return func(*args)
    out, state, *_ = torch._cudnn_rnn(
        args[0],
        weights,
        4 if has_biases else 2,
        None,
        hidden,
        None,
        _MODES[func],
        hidden.shape[2],
        0,
        num_layers,
        bool(order and order[0]),
        0.0,
        train,
        bidirectional,
        sizes,
        None,
    )
    return out, state


def _is_for_cudnn(value: Tensor) -> bool:
    is_used = torch.backends.cudnn.enabled and not torch.is_autocast_enabled("cuda")
    return is_used and residence_of(value) is not None and value.dtype in _DTYPES and bool(value.numel())


class Layers(Replacement):
    """Computes ``_cudnn_rnn``."""

    def __call__(
        self,
        value: Tensor,
        weights: Sequence[Tensor],
        weight_stride: int,
        weight_buffer: Tensor | None,
        hidden: Tensor,
        cells: Tensor | None,
        mode: int,
        hidden_size: int,
        proj_size: int,
        num_layers: int,
        batch_first: bool,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_sizes: Sequence[int],
        dropout_state: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Compute the values.

        Returns:
            The output, the state, an empty tensor for the cells, the memory for the backward pass, and an empty buffer.
        """
        layout = weight_stride, num_layers, batch_first, bidirectional, batch_sizes
        with _with_autograd():  # torch.matmul computes otherwise for operands that need gradients
            results = _computed(mode, value, weights, hidden, *layout)
        out, state = (result.detach() for result in results)
        num_rows = value.shape[0] if batch_sizes else value.shape[0] * value.shape[1]
        num_kept = num_rows * len(weights) // weight_stride * hidden_size * _KEPT[mode] if train else 0
        kept = torch.empty(num_kept * value.element_size(), dtype=torch.uint8)
        return out, state, value.new_empty(0), kept, value.new_empty(0)


class LayersBackward(Replacement):
    """Computes ``_cudnn_rnn_backward``."""

    def __call__(
        self,
        value: Tensor,
        weights: Sequence[Tensor],
        weight_stride: int,
        weight_buffer: Tensor,
        hidden: Tensor,
        cells: Tensor | None,
        output: Tensor,
        grad_output: Tensor | None,
        grad_state: Tensor | None,
        grad_cells: Tensor | None,
        mode: int,
        hidden_size: int,
        proj_size: int,
        num_layers: int,
        batch_first: bool,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_sizes: Sequence[int],
        dropout_state: Tensor | None,
        reserve: Tensor,
        output_mask: Sequence[bool],
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None, list[Tensor]]:
        """Compute the gradients of the input, the state and the weights; that of the cells is None."""
        if not train:
            raise RuntimeError(_NOT_TRAINING)
        leaves = [tensor.detach().requires_grad_() for tensor in (value, hidden, *weights)]
        with _with_autograd(), torch.enable_grad():
            layout = weight_stride, num_layers, batch_first, bidirectional, batch_sizes
            results = _computed(mode, leaves[0], leaves[2:], leaves[1], *layout)
            given = [
                torch.zeros_like(result) if grad is None else grad
                for result, grad in zip(results, (grad_output, grad_state), strict=True)
            ]
            engine = torch.autograd.Variable._execution_engine  # torch.autograd.grad follows streams of the device
            grads = engine.run_backward(
                tuple(results), tuple(given), False, False, tuple(leaves), allow_unreachable=True, accumulate_grad=False
            )
        whole = [torch.zeros_like(leaf) if grad is None else grad for leaf, grad in zip(leaves, grads, strict=True)]
        of_value, of_hidden, *of_weights = whole
        return (
            of_value if output_mask[0] else None,
            of_hidden if output_mask[1] else None,
            None,
            of_weights if output_mask[3] else [],
        )


def _computed(
    mode: int,
    value: Tensor,
    weights: Sequence[Tensor],
    hidden: Tensor,
    weight_stride: int,
    num_layers: int,
    batch_first: bool,
    bidirectional: bool,
    batch_sizes: Sequence[int],
) -> tuple[Tensor, Tensor]:
    """Run the CPU's operators of the layers, without dropout."""
    sizes = (torch.tensor(batch_sizes, dtype=torch.int64, device="cpu"),) if batch_sizes else ()
    order = () if batch_sizes else (batch_first,)
    options = weight_stride == 4, num_layers, 0.0, False, bidirectional
    out, state = _FUNCTIONS[mode](value, *sizes, hidden, list(weights), *options, *order)
    return out, state


@contextmanager
def _with_autograd() -> Iterator[None]:
    """Record gradients in the handler of a dispatch mode, for which torch switches them off."""
    excluded = _C._dispatch_tls_local_exclude_set() - _AUTOGRAD
    with _C._ForceDispatchKeyGuard(_C._dispatch_tls_local_include_set(), excluded):
        yield


REPLACEMENTS: Final = {
    "_cudnn_rnn": Layers(_aten._cudnn_rnn.default),
    "_cudnn_rnn_backward": LayersBackward(_aten._cudnn_rnn_backward.default),
}
