"""Wrap functions whose C++ code chooses a different implementation for CUDA tensors (attention, ctc_loss, ...)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch.nn import functional

from cudalens.virtual.dispatch.attention import attend, cpu_backends
from cudalens.virtual.tensors.residency import residence_of

_LENGTHS: Final = ("input_lengths", "target_lengths")


def _attention(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    with cpu_backends():
        return func(*args, **kwargs)


def _attend(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return attend(*args, **kwargs)


def _ctc_loss(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Pass lengths on the host as numbers, as the CUDA implementation reads them."""
    lengths = {name: args[2 + i] if len(args) > 2 + i else kwargs.get(name) for i, name in enumerate(_LENGTHS)}
    if not all(isinstance(given, torch.Tensor) and residence_of(given) is None for given in lengths.values()):
        return func(*args, **kwargs)
    numbers = {name: tuple(given.tolist()) for name, given in lengths.items() if given is not None}
    for i, name in enumerate(_LENGTHS):
        if len(args) > 2 + i:
            args = (*args[: 2 + i], numbers.pop(name), *args[3 + i :])
    return func(*args, **{**kwargs, **numbers})


def _one_hot(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Skip the host's check of the class indices, which CUDA leaves to the kernel."""
    index: Any = args[0] if args else next(filter(torch.is_tensor, kwargs.values()))
    num_classes = args[1] if len(args) > 1 else kwargs.get("num_classes", -1)
    if num_classes <= 0 or residence_of(index) is None or index.dtype != torch.int64 or not index.numel():
        return func(*args, **kwargs)
    blank = index.new_zeros((*index.shape, num_classes))
    return blank.scatter_(-1, index.unsqueeze(-1), 1)


def _matrix_rank(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Write the result into ``out``, which torch leaves unchanged under any dispatch mode.

    The rank of an empty matrix is made here: torch's C++ code makes it on the CPU without a call of the dispatcher.
    """
    out = kwargs.pop("out", None)
    rank: torch.Tensor = func(*args, **kwargs)
    matrix: torch.Tensor = args[0] if args else next(filter(torch.is_tensor, kwargs.values()))
    if not matrix.numel() and residence_of(matrix) is not None:
        rank = matrix.new_empty(rank.shape, dtype=rank.dtype).zero_()  # two calls, as in torch: its version is 1
    if out is None:
        return rank
    return out.resize_(rank.shape).copy_(rank)


HANDLERS: Final[dict[Any, Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]]] = {
    functional.scaled_dot_product_attention: _attend,
    functional.multi_head_attention_forward: _attention,
    functional.ctc_loss: _ctc_loss,
    functional.one_hot: _one_hot,
    torch.linalg.matrix_rank: _matrix_rank,
    torch.ctc_loss: _ctc_loss,
}
