"""Results and operations of operators by their inputs' shapes: products, attention, norms, embeddings.

The formulas are those of ``torch.utils.flop_counter``: a multiply-add is two operations, and causal masks are ignored.
Convolutions need their strides, which are not among the shapes: `convolutions` has them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import prod
from typing import Final, NamedTuple

Shape = Sequence[int]


class Count(NamedTuple):
    """What a call computes.

    Attributes:
        result: Elements of its results, of the dtype of its first input.
        flops: Operations; None if they are not counted.
        read: Elements that it reads of its first input; None for all.
    """

    result: int
    flops: int | None = None
    read: int | None = None


def count(name: str, shapes: list[Shape]) -> Count | None:
    """The results and operations of an operator; None if its name or its shapes are not known.

    Args:
        name: Its name, as ``aten::mm``.
        shapes: The shapes of its tensor inputs; an optional tensor that is not given is ``[]``.
    """
    for pattern, formula in _FORMULAS:
        if pattern.fullmatch(name):
            return formula(name, shapes)
    return None


def _product(name: str, shapes: list[Shape]) -> Count | None:
    """2 m n k: the last two inputs are the factors."""
    rank = 3 if "bmm" in name else 2
    matrices = [shape for shape in shapes if len(shape) == rank][-2:]
    if len(matrices) < 2 or matrices[0][-1] != matrices[1][-2] or matrices[0][:-2] != matrices[1][:-2]:
        return None
    result = prod(matrices[0][:-1]) * matrices[1][-1]
    return Count(result, 2 * result * matrices[0][-1])


def _sizes(name: str, q: Shape, k: Shape, v: Shape) -> tuple[int, int, int, int, int] | None:
    """Batch times heads, queries, keys, and the widths of keys and values of an attention; None if they do not fit.

    ``scaled_dot_product`` operators have heads before positions, the kernels' own operators after them.
    """
    if not len(q) == len(k) == len(v) == 4 or q[3] != k[3] or q[0] != k[0]:
        return None
    heads, at = (1, 2) if "scaled_dot_product" in name else (2, 1)
    return (q[0] * q[heads], q[at], k[at], q[3], v[3]) if k[at] == v[at] else None


def _attention(name: str, shapes: list[Shape]) -> Count | None:
    """2 s t (e + v) for each head: queries times keys, and weights times values."""
    sizes = _sizes(name, *shapes[:3]) if len(shapes) >= 3 else None
    if sizes is None:
        return None
    heads, queries, keys, width, width_v = sizes
    return Count(heads * queries * width_v, 2 * heads * queries * keys * (width + width_v))


def _attention_backward(name: str, shapes: list[Shape]) -> Count | None:
    """2 s t (3 e + 2 v) for each head: the weights again, and the gradients of weights, queries, keys and values."""
    sizes = _sizes(name, *shapes[1:4]) if len(shapes) >= 4 else None
    if sizes is None:
        return None
    heads, queries, keys, width, width_v = sizes
    return Count(sum(map(prod, shapes[1:4])), 2 * heads * queries * keys * (3 * width + 2 * width_v))


def _like_first(name: str, shapes: list[Shape]) -> Count | None:
    """A result of the size of the first input."""
    return Count(prod(shapes[0])) if shapes and shapes[0] else None


def _embedding(name: str, shapes: list[Shape]) -> Count | None:
    """The rows of a table that the indices select."""
    if len(shapes) < 2 or len(shapes[0]) != 2:
        return None
    rows = prod(shapes[1]) * shapes[0][1]
    return Count(rows, read=rows)


_KERNELS: Final = r"(?:flash|efficient|cudnn|fused)_attention"
_FORMULAS: Final[tuple[tuple[re.Pattern[str], Callable[[str, list[Shape]], Count | None]], ...]] = tuple(
    (re.compile(pattern), formula)
    for pattern, formula in (
        (r"aten::(?:mm|addmm|bmm|baddbmm)", _product),
        (rf"aten::(?:scaled_dot_product_attention|_scaled_dot_product_{_KERNELS}(?:_for_cpu)?)", _attention),
        (rf"aten::_{_KERNELS}_forward", _attention),
        (rf"aten::_(?:scaled_dot_product_)?{_KERNELS}_backward", _attention_backward),
        (r"aten::(?:native_(?:layer|group|batch)_norm|(?:cudnn|miopen)_batch_norm|_fused_rms_norm)", _like_first),
        (r"aten::(?:_softmax|_log_softmax|gelu|silu|relu|sigmoid|tanh|exp|neg|sqrt|rsqrt)", _like_first),
        (r"aten::embedding", _embedding),
    )
)
