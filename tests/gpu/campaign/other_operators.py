"""Pointwise operators, copies, reductions, convolutions, indexing, losses and optimizers that the campaign times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
from torch.nn import functional

BF16, FP32 = torch.bfloat16, torch.float32
Call = Callable[[], Any]
Prepare = Callable[[], Call]
MIB: Final = 1 << 20


def others() -> dict[str, Iterator[tuple[str, Prepare]]]:
    """Names and preparations by family."""
    return {
        "pointwise": _pointwise(),
        "copies": _copies(),
        "reductions": _reductions(),
        "convolutions": _convolutions(),
        "indexing": _indexing(),
        "losses": _losses(),
        "optimizers": _optimizers(),
    }


def _label(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _on(sizes: tuple[int, ...], dtype: torch.dtype, call: Callable[[torch.Tensor], Any]) -> Prepare:
    def prepare() -> Call:
        x = torch.randn(sizes, device="cuda", dtype=dtype)
        return lambda: call(x)

    return prepare


def _backward(sizes: tuple[int, ...], dtype: torch.dtype, call: Callable[[torch.Tensor], torch.Tensor]) -> Prepare:
    def prepare() -> Call:
        x = torch.randn(sizes, device="cuda", dtype=dtype, requires_grad=True)
        gradient = torch.ones_like(call(x))
        return lambda: torch.autograd.grad(call(x), x, gradient)

    return prepare


_POINTWISE: Final[dict[str, Callable[[torch.Tensor], Any]]] = {
    "add": lambda x: x + x,
    "mul by a number": lambda x: x * 2,
    "relu": torch.relu,
    "gelu": functional.gelu,
    "silu": functional.silu,
    "exp": torch.exp,
    "dropout": lambda x: functional.dropout(x, 0.1),
    "add in place": lambda x: x.add_(1),
}


def _pointwise() -> Iterator[tuple[str, Prepare]]:
    for name, call in _POINTWISE.items():
        for dtype in (BF16, FP32):
            for count in (1 << 12, 1 << 20, 1 << 26):
                yield f"{name} {_label(dtype)} {count}", _on((count,), dtype, call)
    for name in ("gelu", "dropout"):
        yield f"{name} backward bfloat16 {1 << 24}", _backward((1 << 24,), BF16, _POINTWISE[name])
    yield "add a row bfloat16 8192 x 4096", _on((8192, 4096), BF16, lambda x: x + x[0])
    yield "add a column float32 8192 x 4096", _on((8192, 4096), FP32, lambda x: x + x[:, :1])
    yield "add transposed float32 4096 x 4096", _on((4096, 4096), FP32, lambda x: x + x.t())
    yield "where float32 16777216", _on((1 << 24,), FP32, lambda x: torch.where(x > 0, x, 0.0))
    yield "zeros float32 16777216", _on((1 << 24,), FP32, torch.zeros_like)
    yield "randn float32 16777216", _on((1 << 24,), FP32, lambda x: x.normal_())


def _copies() -> Iterator[tuple[str, Prepare]]:
    for mib in (1, 16, 256):
        for is_pinned in (True, False):
            yield f"to device {'pinned' if is_pinned else 'pageable'} {mib} MiB", _to_device(mib * MIB, is_pinned)
        yield f"to host pinned {mib} MiB", _to_host(mib * MIB)
        yield f"clone {mib} MiB", _on((mib * MIB // 4,), FP32, torch.clone)
    for first, second in ((BF16, FP32), (FP32, BF16)):
        for count in (1 << 16, 1 << 25):
            name = f"cast {_label(first)} to {_label(second)} {count}"
            yield name, _on((count,), first, lambda x, dtype=second: x.to(dtype))
    yield "transpose and copy float32 4096 x 4096", _on((4096, 4096), FP32, lambda x: x.t().contiguous())
    yield "transpose and copy bfloat16 4096 x 4096", _on((4096, 4096), BF16, lambda x: x.t().contiguous())
    heads = (8, 16, 1024, 64)
    yield "swap heads and copy bfloat16 8 x 16 x 1024 x 64", _on(heads, BF16, lambda x: x.transpose(1, 2).contiguous())
    images = (64, 64, 56, 56)
    yield "to channels last float32 64 x 64 x 56 x 56", _on(images, FP32, _channels_last)


def _channels_last(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous(memory_format=torch.channels_last)


def _to_device(num_bytes: int, is_pinned: bool) -> Prepare:
    def prepare() -> Call:
        host = torch.zeros(num_bytes, dtype=torch.uint8, pin_memory=is_pinned)
        target = torch.empty(num_bytes, dtype=torch.uint8, device="cuda")
        return lambda: target.copy_(host, non_blocking=True)

    return prepare


def _to_host(num_bytes: int) -> Prepare:
    def prepare() -> Call:
        target = torch.zeros(num_bytes, dtype=torch.uint8, pin_memory=True)
        source = torch.zeros(num_bytes, dtype=torch.uint8, device="cuda")
        return lambda: target.copy_(source, non_blocking=True)

    return prepare


def _reductions() -> Iterator[tuple[str, Prepare]]:
    for count in (1 << 12, 1 << 20, 1 << 26):
        yield f"sum of all float32 {count}", _on((count,), FP32, torch.sum)
        yield f"sum of all bfloat16 {count}", _on((count,), BF16, torch.sum)
    for sizes in ((8192, 4096), (64, 1 << 18)):
        for dim in (0, 1):
            text = f"float32 {sizes[0]} x {sizes[1]} over dimension {dim}"
            yield f"sum {text}", _on(sizes, FP32, lambda x, dim=dim: x.sum(dim))
            yield f"argmax {text}", _on(sizes, FP32, lambda x, dim=dim: x.argmax(dim))
    yield "mean of images float32 64 x 512 x 7 x 7", _on((64, 512, 7, 7), FP32, lambda x: x.mean((2, 3)))
    yield "norm float32 16777216", _on((1 << 24,), FP32, torch.linalg.vector_norm)
    yield "cumsum float32 8192 x 4096", _on((8192, 4096), FP32, lambda x: x.cumsum(1))
    yield "sort float32 8192 x 1024", _on((8192, 1024), FP32, lambda x: x.sort(1))
    yield "topk float32 2048 x 50257", _on((2048, 50257), FP32, lambda x: x.topk(50))


_CONVOLUTIONS: Final = (
    # batch, channels, side, out channels, kernel, stride
    (32, 3, 224, 64, 7, 2), (32, 64, 56, 64, 3, 1), (32, 64, 56, 256, 1, 1), (32, 128, 28, 128, 3, 1),
    (32, 256, 14, 256, 3, 1), (32, 512, 7, 512, 3, 1), (8, 3, 224, 768, 16, 16), (4, 320, 64, 320, 3, 1),
)  # fmt: skip


def _convolutions() -> Iterator[tuple[str, Prepare]]:
    for sizes in _CONVOLUTIONS:
        text = "{} x {} x {}, {} channels, {} x {}, stride {}".format(*sizes[:5], sizes[4], sizes[5])
        yield f"conv2d float32 {text}", _convolution(FP32, *sizes)
        yield f"conv2d channels last bfloat16 {text}", _convolution(BF16, *sizes)
    for sizes in (_CONVOLUTIONS[1], _CONVOLUTIONS[4]):
        text = "{} x {} x {}, {} channels, {} x {}, stride {}".format(*sizes[:5], sizes[4], sizes[5])
        yield f"conv2d backward float32 {text}", _convolution(FP32, *sizes, is_backward=True)
    images = (32, 64, 112, 112)
    yield "max_pool2d float32 32 x 64 x 112 x 112", _on(images, FP32, lambda x: functional.max_pool2d(x, 3, 2, 1))
    yield "batch_norm float32 32 x 64 x 112 x 112", _on(images, FP32, _batch_norm)
    yield "group_norm bfloat16 4 x 320 x 64 x 64", _on((4, 320, 64, 64), BF16, lambda x: functional.group_norm(x, 32))
    yield "interpolate bfloat16 4 x 320 x 32 x 32", _on((4, 320, 32, 32), BF16, _twice)


def _batch_norm(x: torch.Tensor) -> torch.Tensor:
    return functional.batch_norm(x, None, None, training=True)


def _twice(x: torch.Tensor) -> torch.Tensor:
    return functional.interpolate(x, scale_factor=2.0, mode="nearest")


def _convolution(
    dtype: torch.dtype,
    batch: int,
    channels: int,
    side: int,
    out: int,
    kernel: int,
    stride: int,
    is_backward: bool = False,
) -> Prepare:
    def prepare() -> Call:
        layout = torch.channels_last if dtype == BF16 else torch.contiguous_format
        layer = torch.nn.Conv2d(
            channels, out, kernel, stride, kernel // 2 if kernel < 8 else 0, device="cuda", dtype=dtype
        )
        layer = layer.to(memory_format=layout)
        x = torch.randn(batch, channels, side, side, device="cuda", dtype=dtype).contiguous(memory_format=layout)
        if not is_backward:
            return lambda: layer(x)
        leaves = [x.requires_grad_(), *layer.parameters()]
        gradient = torch.ones_like(layer(x))
        return lambda: torch.autograd.grad(layer(x), leaves, gradient)

    return prepare


def _indexing() -> Iterator[tuple[str, Prepare]]:
    for words, width in ((50257, 768), (128256, 4096)):
        for count in (512, 8192):
            text = f"{count} of {words} x {width}"
            yield f"embedding bfloat16 {text}", _indexed(words, width, count, lambda x, i: functional.embedding(i, x))
            yield f"embedding backward bfloat16 {text}", _embedding_backward(words, width, count)
    text = "8192 of 50257 x 768"
    yield f"index_select bfloat16 {text}", _indexed(50257, 768, 8192, lambda x, i: x.index_select(0, i))
    yield f"index_add bfloat16 {text}", _added(50257, 768, 8192, lambda x, i, rows: x.index_add_(0, i, rows))
    yield (
        f"index_put accumulate bfloat16 {text}",
        _added(50257, 768, 8192, lambda x, i, rows: x.index_put_((i,), rows, accumulate=True)),
    )
    yield (
        "gather float32 8192 x 4096",
        _on((8192, 4096), FP32, lambda x: x.gather(1, x.new_zeros(x.shape, dtype=torch.int64))),
    )
    yield "cat 2 bfloat16 8192 x 4096", _on((8192, 4096), BF16, lambda x: torch.cat([x, x]))
    yield "cat 100 bfloat16 100 x 4096", _on((100, 4096), BF16, lambda x: torch.cat([x] * 100))
    yield "triu float32 4096 x 4096", _on((4096, 4096), FP32, torch.triu)


def _indexed(words: int, width: int, count: int, call: Callable[[torch.Tensor, torch.Tensor], Any]) -> Prepare:
    def prepare() -> Call:
        table = torch.randn(words, width, device="cuda", dtype=BF16)
        index = torch.arange(count, device="cuda") * 7919 % words
        return lambda: call(table, index)

    return prepare


def _added(
    words: int, width: int, count: int, call: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Any]
) -> Prepare:
    def prepare() -> Call:
        table = torch.randn(words, width, device="cuda", dtype=BF16)
        index = torch.arange(count, device="cuda") * 7919 % words
        rows = torch.randn(count, width, device="cuda", dtype=BF16)
        return lambda: call(table, index, rows)

    return prepare


def _embedding_backward(words: int, width: int, count: int) -> Prepare:
    def prepare() -> Call:
        table = torch.randn(words, width, device="cuda", dtype=BF16, requires_grad=True)
        index = torch.arange(count, device="cuda") * 7919 % words
        gradient = torch.ones_like(functional.embedding(index, table))
        return lambda: torch.autograd.grad(functional.embedding(index, table), table, gradient)

    return prepare


def _losses() -> Iterator[tuple[str, Prepare]]:
    for dtype in (BF16, FP32):
        yield f"cross_entropy {_label(dtype)} 2048 x 50257", _on((2048, 50257), dtype, _cross_entropy)
        yield f"cross_entropy backward {_label(dtype)} 2048 x 50257", _backward((2048, 50257), dtype, _cross_entropy)
    count = 1 << 20
    yield f"binary_cross_entropy_with_logits float32 {count}", _on((count,), FP32, _binary)
    yield f"binary_cross_entropy_with_logits backward float32 {count}", _backward((count,), FP32, _binary)
    yield f"mse_loss backward float32 {count}", _backward((count,), FP32, lambda x: functional.mse_loss(x, x.detach()))


def _cross_entropy(x: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(x, torch.zeros(len(x), dtype=torch.int64, device="cuda"))


def _binary(x: torch.Tensor) -> torch.Tensor:
    return functional.binary_cross_entropy_with_logits(x, x.detach().sigmoid())


def _optimizers() -> Iterator[tuple[str, Prepare]]:
    for kind, options in (("fused", {"fused": True}), ("foreach", {"foreach": True}), ("single", {"foreach": False})):
        for count, side in ((100, 256), (16, 4096)):
            yield f"AdamW {kind} float32 {count} of {side} x {side}", _adamw(count, side, options)
    yield "SGD with momentum foreach float32 100 of 256 x 256", _sgd(100, 256)


def _parameters(count: int, side: int) -> list[torch.nn.Parameter]:
    found = [torch.nn.Parameter(torch.randn(side, side, device="cuda")) for _ in range(count)]
    for one in found:
        one.grad = torch.ones_like(one)
    return found


def _adamw(count: int, side: int, options: dict[str, bool]) -> Prepare:
    return lambda: torch.optim.AdamW(_parameters(count, side), capturable=True, **options).step


def _sgd(count: int, side: int) -> Prepare:
    return lambda: torch.optim.SGD(_parameters(count, side), lr=0.1, momentum=0.9, foreach=True).step
