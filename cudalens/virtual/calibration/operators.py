"""The operators that `cudalens.virtual.calibrate` times, with the sizes that the formulas of their kernels need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import torch
from torch.nn import functional


class Operator(NamedTuple):
    """An operator on tensors of one size.

    Attributes:
        family: The family of its constants.
        sizes: The sizes by their names in the formula of the family.
        num_bytes: Bytes of its operands and its result.
        prepare: Makes the operands on the current CUDA device and returns the call.
    """

    family: str
    sizes: dict[str, int]
    num_bytes: int
    prepare: Callable[[], Callable[[], Any]]


def operators(half: torch.dtype) -> Iterator[Operator]:
    """About 200 operators; `half` is the dtype of products on tensor cores."""
    yield from _products(half)
    yield from _attention(half)
    yield from _rows()
    for power in range(8, 29):
        yield _pointwise(2**power, functional.relu)
    for power in range(12, 28, 3):
        yield _pointwise(2**power, torch.tanh)


_WEIGHTS: Final = ((256, 256), (1024, 1024), (4096, 1024), (1024, 4096), (4096, 4096), (8192, 8192), (16384, 4096))


def _products(half: torch.dtype) -> Iterator[Operator]:
    for n, k in _WEIGHTS:
        for m in (1, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192):
            yield _product("matrix_half", half, 1, m, n, k)
    for n, k in _WEIGHTS[:6]:
        for m in (16, 128, 512, 2048, 4096):
            yield _product("matrix_single", torch.float32, 1, m, n, k)
    for batch, m, n, k in ((16, 128, 128, 64), (16, 1024, 1024, 64), (256, 512, 512, 64), (256, 512, 64, 512)):
        yield _product("matrix_single", torch.float32, batch, m, n, k)


def _product(family: str, dtype: torch.dtype, batch: int, m: int, n: int, k: int) -> Operator:
    def prepare() -> Callable[[], Any]:
        a = torch.ones(batch, m, k, dtype=dtype, device="cuda")
        b = torch.ones(batch, k, n, dtype=dtype, device="cuda")
        return (lambda: torch.mm(a[0], b[0])) if batch == 1 else (lambda: torch.bmm(a, b))

    num_bytes = batch * (m * k + k * n + m * n) * dtype.itemsize
    sizes = {"batch": batch, "m": m, "n": n, "k": k, "element_bytes": dtype.itemsize}
    return Operator(family, sizes, num_bytes, prepare)


def _attention(half: torch.dtype) -> Iterator[Operator]:
    for batch in (1, 8):
        for length in (128, 512, 1024, 2048, 4096):
            for head_dim in (64, 128):
                yield _attend("attention", half, batch, length, length, head_dim)
    for batch in (1, 16, 64):
        for keys in (128, 1024, 4096, 16384):
            yield _attend("decode", half, batch, 1, keys, 128)


def _attend(family: str, dtype: torch.dtype, batch: int, queries: int, keys: int, head_dim: int) -> Operator:
    heads = 16

    def prepare() -> Callable[[], Any]:
        query = torch.ones(batch, heads, queries, head_dim, dtype=dtype, device="cuda")
        key = torch.ones(batch, heads, keys, head_dim, dtype=dtype, device="cuda")
        return lambda: functional.scaled_dot_product_attention(query, key, key, is_causal=queries > 1)

    num_bytes = 2 * batch * heads * head_dim * (queries + keys) * dtype.itemsize
    sizes = {"batch": batch, "queries": queries, "keys": keys, "heads": heads, "kv_heads": heads, "head_dim": head_dim}
    return Operator(family, sizes, num_bytes, prepare)


def _rows() -> Iterator[Operator]:
    for length in (64, 256, 1000, 1024, 2048, 5001, 16384):
        for rows in (32, 1024, 8192):
            yield _row("softmax", rows, length, lambda x: torch.softmax(x, -1))
            yield _row("layer_norm", rows, length, lambda x: functional.layer_norm(x, x.shape[-1:]))


def _row(family: str, rows: int, length: int, call: Callable[[torch.Tensor], Any]) -> Operator:
    def prepare() -> Callable[[], Any]:
        x = torch.ones(rows, length, device="cuda")
        return lambda: call(x)

    return Operator(family, {"rows": rows, "length": length}, 8 * rows * length, prepare)


def _pointwise(num_elements: int, call: Callable[[torch.Tensor], Any]) -> Operator:
    def prepare() -> Callable[[], Any]:
        x = torch.ones(num_elements, device="cuda")
        return lambda: call(x)

    return Operator("pointwise", {"num_bytes": 8 * num_elements}, 8 * num_elements, prepare)
