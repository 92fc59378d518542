"""The 300 operators and sizes that the campaign times: products, attention, normalisation, and all others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import torch
from torch.nn import functional

from campaign.other_operators import others

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
#: Makes the operands on the current CUDA device and returns the call.
Prepare = Callable[[], Callable[[], Any]]


class Operator(NamedTuple):
    """An operator on operands of one size.

    Attributes:
        family: What the accuracy is reported for.
        name: Unique: what it does, the dtype and the sizes.
        prepare: Makes the operands on the current CUDA device and returns the call.
    """

    family: str
    name: str
    prepare: Prepare


def operators() -> list[Operator]:
    """All, in a fixed order; families follow each other, so that every n-th is a fair sample."""
    families = {
        "matrix products": _products(),
        "batched products": _batches(),
        "attention": _attention(),
        "decoding attention": _decoding(),
        "softmax and normalisation": _rows(),
        **others(),
    }
    found = [Operator(family, *one) for family, every in families.items() for one in every]
    assert len({one.name for one in found}) == len(found)
    return found


def label(dtype: torch.dtype) -> str:
    """The dtype without its package."""
    return str(dtype).removeprefix("torch.")


_WEIGHTS: Final = ((1024, 1024), (4096, 1024), (1024, 4096), (4096, 4096), (14336, 4096), (32000, 4096))


def _products() -> Iterator[tuple[str, Prepare]]:
    for n, k in _WEIGHTS:
        for m in (1, 16, 128, 1000, 4096):
            yield _product(BF16, m, n, k)
    for n, k in ((8192, 8192), (4095, 4096), (4096, 4095), (4096, 4092), (50257, 768), (64, 65536), (256, 512)):
        yield _product(BF16, 2048, n, k)
    for m in (16, 64, 256, 512, 8192):
        yield _product(FP16, m, 4096, 4096)
    for n, k in _WEIGHTS[:5]:
        for m in (16, 256, 4096):
            yield _product(FP32, m, n, k)
    for m in (8, 512, 4096):
        yield f"linear with bias bfloat16 {m} x 4096 x 1024", _linear(BF16, m, 4096, 1024)
        yield f"linear with bias float32 {m} x 4096 x 1024", _linear(FP32, m, 4096, 1024)


def _product(dtype: torch.dtype, m: int, n: int, k: int) -> tuple[str, Prepare]:
    def prepare() -> Callable[[], Any]:
        a = torch.randn(m, k, device="cuda").to(dtype)
        b = torch.randn(n, k, device="cuda").to(dtype).t()
        return lambda: a @ b

    return f"mm {label(dtype)} {m} x {n} x {k}", prepare


def _linear(dtype: torch.dtype, m: int, n: int, k: int) -> Prepare:
    def prepare() -> Callable[[], Any]:
        layer = torch.nn.Linear(k, n, device="cuda", dtype=dtype)
        x = torch.randn(m, k, device="cuda", dtype=dtype)
        return lambda: layer(x)

    return prepare


def _batches() -> Iterator[tuple[str, Prepare]]:
    for dtype in (BF16, FP32):
        for batch, m, n, k in (
            (16, 128, 128, 64), (16, 1024, 1024, 64), (64, 512, 64, 512), (256, 512, 512, 64), (12, 1023, 1023, 64),
            (8, 2048, 2048, 128), (1024, 32, 32, 64),
        ):  # fmt: skip
            yield f"bmm {label(dtype)} {batch} x {m} x {n} x {k}", _batch(dtype, batch, m, n, k)


def _batch(dtype: torch.dtype, batch: int, m: int, n: int, k: int) -> Prepare:
    def prepare() -> Callable[[], Any]:
        a = torch.randn(batch, m, k, device="cuda", dtype=dtype)
        b = torch.randn(batch, k, n, device="cuda", dtype=dtype)
        return lambda: torch.bmm(a, b)

    return prepare


def _attention() -> Iterator[tuple[str, Prepare]]:
    for batch, length in ((1, 512), (1, 2048), (1, 8192), (8, 1024), (8, 2048), (32, 512)):
        for head_dim in (64, 128):
            for is_causal in (True, False):
                sizes = f"{batch} x 16 heads x {length} x {head_dim}"
                kind = "causal" if is_causal else "full"
                yield f"attention {kind} bfloat16 {sizes}", _attend(BF16, batch, length, head_dim, is_causal)
    for batch, length in ((1, 2048), (8, 1024)):
        for head_dim in (64, 128):
            sizes = f"{batch} x 16 heads x {length} x {head_dim}"
            yield f"attention backward causal bfloat16 {sizes}", _attend_backward(batch, length, head_dim)
    yield "attention causal float32 4 x 16 heads x 1024 x 64", _attend(FP32, 4, 1024, 64, is_causal=True)


def _attend(dtype: torch.dtype, batch: int, length: int, head_dim: int, is_causal: bool) -> Prepare:
    def prepare() -> Callable[[], Any]:
        q, k, v = (torch.randn(batch, 16, length, head_dim, device="cuda", dtype=dtype) for _ in range(3))
        return lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)

    return prepare


def _attend_backward(batch: int, length: int, head_dim: int) -> Prepare:
    def prepare() -> Callable[[], Any]:
        sizes = (batch, 16, length, head_dim)
        leaves = [torch.randn(sizes, device="cuda", dtype=BF16, requires_grad=True) for _ in range(3)]
        return with_backward(lambda: functional.scaled_dot_product_attention(*leaves, is_causal=True), leaves)

    return prepare


def with_backward(forward: Callable[[], torch.Tensor], leaves: list[torch.Tensor]) -> Callable[[], Any]:
    """A call of the function and its backward pass."""
    gradient = torch.ones_like(forward())
    return lambda: torch.autograd.grad(forward(), leaves, gradient)


def _decoding() -> Iterator[tuple[str, Prepare]]:
    for batch in (1, 16, 64):
        for keys in (512, 4096, 16384):
            for kv_heads in (32, 8):
                yield f"decode bfloat16 {batch} x 32/{kv_heads} heads x {keys} x 128", _decode(batch, keys, kv_heads)


def _decode(batch: int, keys: int, kv_heads: int) -> Prepare:
    def prepare() -> Callable[[], Any]:
        query = torch.randn(batch, 32, 1, 128, device="cuda", dtype=BF16)
        k, v = (torch.randn(batch, kv_heads, keys, 128, device="cuda", dtype=BF16) for _ in range(2))
        return lambda: functional.scaled_dot_product_attention(query, k, v, enable_gqa=kv_heads != 32)

    return prepare


_ROWS: Final[dict[str, Callable[[torch.Tensor], Any]]] = {
    "softmax": lambda x: torch.softmax(x, -1),
    "layer_norm": lambda x: functional.layer_norm(x, x.shape[-1:]),
}


def _rows() -> Iterator[tuple[str, Prepare]]:
    for name, call in _ROWS.items():
        for dtype in (BF16, FP32):
            for rows, length in ((32, 1024), (8192, 64), (8192, 1024), (8192, 4096), (2048, 50257), (65536, 1001)):
                yield f"{name} {label(dtype)} {rows} x {length}", _row(call, dtype, rows, length)
        for rows, length in ((8192, 1024), (2048, 8192)):
            yield f"{name} backward bfloat16 {rows} x {length}", _row_backward(call, rows, length)
    yield "rms_norm bfloat16 8192 x 4096", _row(lambda x: functional.rms_norm(x, x.shape[-1:]), BF16, 8192, 4096)
    yield "log_softmax float32 8192 x 32000", _row(lambda x: torch.log_softmax(x, -1), FP32, 8192, 32000)


def _row(call: Callable[[torch.Tensor], Any], dtype: torch.dtype, rows: int, length: int) -> Prepare:
    def prepare() -> Callable[[], Any]:
        x = torch.randn(rows, length, device="cuda", dtype=dtype)
        return lambda: call(x)

    return prepare


def _row_backward(call: Callable[[torch.Tensor], Any], rows: int, length: int) -> Prepare:
    def prepare() -> Callable[[], Any]:
        x = torch.randn(rows, length, device="cuda", dtype=BF16, requires_grad=True)
        return with_backward(lambda: call(x), [x])

    return prepare
