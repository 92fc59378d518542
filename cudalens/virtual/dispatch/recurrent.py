"""Recurrent layers as on a GPU: one operator of cuDNN for all steps, where the CPU runs operators for each step.

``torch.gru`` is composite: for CUDA tensors it calls ``_cudnn_rnn`` (ATen/native/RNN.cpp), for CPU tensors products and
pointwise operators, or one of a library for some LSTM layers. torch's C++ takes tensors of a virtual device for CPU
tensors, so the call is made here. Values and gradients are those of the CPU's operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import torch
from torch import _C, Tensor

from cudalens.virtual.tensors.residency import residence_of
from cudalens.virtual.torch_cuda.rng import Replacement

_aten = torch.ops.aten

#: torch's functions by their number in cuDNN's interface (``cudnnRNNMode_t``).
_FUNCTIONS: Final[dict[int, Callable[..., Any]]] = {
    0: torch.rnn_relu,
    1: torch.rnn_tanh,
    2: torch.lstm,
    3: torch.gru,
}
_MODES: Final = {func: mode for mode, func in _FUNCTIONS.items()}
FUNCTIONS: Final = tuple(_MODES)
#: Numbers that a step keeps for the backward pass: the results of the gates; an LSTM its cell, a GRU a product, too.
_KEPT: Final = {0: 1, 1: 1, 2: 5, 3: 4}
_DTYPES: Final = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
_NOT_TRAINING: Final = "cudnn RNN backward can only be called in training mode"
_AUTOGRAD: Final = (
    _C.DispatchKeySet(_C.DispatchKey.AutogradCPU)
    | _C.DispatchKeySet(_C.DispatchKey.AutogradFunctionality)
    | _C.DispatchKeySet(_C.DispatchKey.ADInplaceOrView)
)


def run_layers(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call one of `FUNCTIONS`: by cuDNN's operator where a GPU does so.

    Layers with dropout between them are an operator each, so that dropout draws from the generator of the device.
    """
    if kwargs or len(args) != _NUM_ARGUMENTS or not _is_for_cudnn(args[0]):
        return func(*args, **kwargs)
    is_packed = isinstance(args[3], list | tuple)  # (data, batch_sizes, states, weights, ...)
    given, weights, has_biases, num_layers, dropout, train, bidirectional, *order = args[2 if is_packed else 1 :]
    value, *weights = _cast(args[0], *weights)
    states = _cast(*([given] if isinstance(given, Tensor) else given))
    run = _Run(_MODES[func], args[1].tolist() if is_packed else [], has_biases, train, bidirectional)
    batch_first = bool(order and order[0])
    if not dropout or not train or num_layers == 1:
        value, last = run(value, states, weights, num_layers, batch_first)
    else:
        value = value.transpose(0, 1) if batch_first else value
        parts = []
        num_weights = len(weights) // num_layers
        for layer, part in enumerate(zip(*(state.chunk(num_layers) for state in states), strict=True)):
            if layer:
                value = torch.dropout(value, dropout, train)
            value, state = run(value, part, weights[layer * num_weights :][:num_weights], 1, False)
            parts.append(state)
        last = [torch.cat(group) for group in zip(*parts, strict=True)]
        value = value.transpose(0, 1) if batch_first else value
    return (value, *last)


_NUM_ARGUMENTS: Final = 9


class _Run(NamedTuple):
    """What the calls for all layers have in common."""

    mode: int
    batch_sizes: Sequence[int]
    has_biases: bool
    train: bool
    bidirectional: bool

    def __call__(
        self, value: Tensor, states: Sequence[Tensor], weights: list[Tensor], num_layers: int, batch_first: bool
    ) -> tuple[Tensor, list[Tensor]]:
        """Run some layers.

        Args:
            value: Their input.
            states: The state, and the cells of an LSTM.
            weights: Those of all layers and directions.
            num_layers: The number of layers.
            batch_first: The order of the input's dimensions.

        Returns:
            The output, and the last states.
        """
        hidden, cells = states[0], states[1] if len(states) > 1 else None
        hidden_size = hidden.shape[2] if cells is None else cells.shape[2]
        proj_size = hidden.shape[2] if hidden.shape[2] != hidden_size else 0
        stride = (4 if self.has_biases else 2) + bool(proj_size)
        options = num_layers, batch_first, 0.0, self.train, self.bidirectional, self.batch_sizes, None
        out, state, cell, _, _ = torch._cudnn_rnn(
            value, weights, stride, None, hidden, cells, self.mode, hidden_size, proj_size, *options
        )
        return out, [state] if cells is None else [state, cell]


def _is_for_cudnn(value: Tensor) -> bool:
    is_used = torch.backends.cudnn.enabled and residence_of(value) is not None
    return is_used and value.dtype in _DTYPES and bool(value.numel())


def _cast(*tensors: Tensor) -> list[Tensor]:
    """Return tensors in the dtype of autocast, which copies the weights of each call (ATen/cudnn/AutocastRNN.cpp)."""
    if not torch.is_autocast_enabled("cuda"):
        return list(tensors)
    dtype = torch.get_autocast_dtype("cuda")
    return [tensor if tensor.dtype is torch.float64 else tensor.to(dtype) for tensor in tensors]


class Layers(Replacement):
    """Computes ``_cudnn_rnn``."""

    reads_requires_grad = True  # torch.matmul computes otherwise for operands that need gradients

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
            The output, the state, the cells (empty without them), the memory for the backward pass, an empty buffer.
        """
        layout = weight_stride, num_layers, batch_first, bidirectional, batch_sizes
        with _with_autograd():
            results = _computed(mode, value, weights, hidden, cells, *layout)
        out, state, *rest = (result.detach() for result in results)
        kept = _kept(mode, value, len(weights) // weight_stride * hidden_size if train else 0)
        return out, state, rest[0] if rest else value.new_empty(0), kept, value.new_empty(0)

    def shape_of(self, *args: Any, **kwargs: Any) -> Any:
        """Return results of these sizes; torch's shape function has no buffer for the backward pass."""
        value, weights, stride, _, hidden, cells, mode, hidden_size, proj_size, _, batch_first, _, train = args[:13]
        bidirectional, batch_sizes = args[13:15]
        width = (proj_size or hidden_size) * (2 if bidirectional else 1)
        steps = (value.shape[1], value.shape[0]) if batch_first else value.shape[:-1]
        out = value.new_empty((*steps, width))
        if batch_first and not batch_sizes:
            out = out.transpose(0, 1)
        kept = _kept(mode, value, len(weights) // stride * hidden_size if train else 0)
        last = value.new_empty(0) if cells is None else cells.new_empty(cells.shape)
        return out, hidden.new_empty(hidden.shape), last, kept, value.new_empty(0)


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
        """Compute the gradients of the input, the state, the cells and the weights."""
        if not train:
            raise RuntimeError(_NOT_TRAINING)
        states = [hidden] if cells is None else [hidden, cells]
        leaves = [tensor.detach().requires_grad_() for tensor in (value, *states, *weights)]
        own, (of_states, of_weights) = leaves[0], (leaves[1 : 1 + len(states)], leaves[1 + len(states) :])
        layout = weight_stride, num_layers, batch_first, bidirectional, batch_sizes
        with _with_autograd(), torch.enable_grad():
            results = _computed(
                mode, own, of_weights, of_states[0], of_states[1] if len(of_states) > 1 else None, *layout
            )
            given = [
                torch.zeros_like(result) if grad is None else grad
                for result, grad in zip(results, (grad_output, grad_state, grad_cells), strict=False)
            ]
            engine = torch.autograd.Variable._execution_engine  # torch.autograd.grad follows streams of the device
            grads = engine.run_backward(
                tuple(results), tuple(given), False, False, tuple(leaves), allow_unreachable=True, accumulate_grad=False
            )
        whole = [torch.zeros_like(leaf) if grad is None else grad for leaf, grad in zip(leaves, grads, strict=True)]
        return (
            whole[0] if output_mask[0] else None,
            whole[1] if output_mask[1] else None,
            whole[2] if output_mask[2] and cells is not None else None,
            whole[1 + len(states) :] if output_mask[3] else [],
        )

    def shape_of(self, *args: Any, **kwargs: Any) -> Any:
        """Return gradients of these sizes; torch has no shape function."""
        value, weights, _, _, hidden, cells, *_, output_mask = args
        if not args[16]:
            raise RuntimeError(_NOT_TRAINING)
        wanted = zip((value, hidden, cells), output_mask[:3], strict=True)
        made = [torch.empty_like(each) if is_wanted and each is not None else None for each, is_wanted in wanted]
        return (*made, [torch.empty_like(weight) for weight in weights] if output_mask[3] else [])


def _kept(mode: int, value: Tensor, width: int) -> Tensor:
    """Return the memory that cuDNN keeps for the backward pass; its size is an estimate.

    Args:
        mode: The kind of layer.
        value: The input.
        width: Numbers of the state in all layers and directions.
    """
    num_rows = value.numel() // value.shape[-1]
    return value.new_empty(num_rows * width * _KEPT[mode] * value.element_size(), dtype=torch.uint8)


def _computed(
    mode: int,
    value: Tensor,
    weights: Sequence[Tensor],
    hidden: Tensor,
    cells: Tensor | None,
    weight_stride: int,
    num_layers: int,
    batch_first: bool,
    bidirectional: bool,
    batch_sizes: Sequence[int],
) -> Sequence[Tensor]:
    """Run the CPU's operators of the layers, without dropout."""
    sizes = (torch.tensor(batch_sizes, dtype=torch.int64, device="cpu"),) if batch_sizes else ()
    order = () if batch_sizes else (batch_first,)
    options = weight_stride >= 4, num_layers, 0.0, False, bidirectional
    states = hidden if cells is None else (hidden, cells)
    results: Sequence[Tensor] = _FUNCTIONS[mode](value, *sizes, states, list(weights), *options, *order)
    return results


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
