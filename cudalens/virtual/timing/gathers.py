"""Count the elements that gather and scatter operators access: rows read, elements written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final

import torch
from torch import Tensor

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
    """The source of ``scatter`` and ``index_add``; a number is written once per index."""
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
