"""Attention with dropout is one kernel in each direction, as on a GPU, with the values of the CPU's operators."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

import cudalens
from cudalens.virtual import device

FUSED = "simulated::_scaled_dot_product_efficient_attention"


def _attend(
    place: str, dtype: torch.dtype = torch.float32, mask: str = "none", features: int = 8, *, is_split: bool = False
) -> list[Tensor]:
    """The result, the gradients, and the next random number of the device.

    With `is_split`, heads are split from the features as models do it, so that positions come before heads in memory.
    """
    torch.manual_seed(1)
    shape = (2, 8, 4, features) if is_split else (2, 4, 8, features)
    made = [torch.randn(shape, dtype=dtype) for _ in range(3)]
    query, key, value = ((one.transpose(1, 2) if is_split else one).to(place).requires_grad_() for one in made)
    masks = {
        "bool": (torch.arange(64).view(8, 8) % 3 > 0).to(place),
        "float": torch.linspace(-1, 1, 64, dtype=dtype).view(8, 8).to(place),
    }
    torch.manual_seed(5)
    out = functional.scaled_dot_product_attention(query, key, value, masks.get(mask), 0.3, mask == "causal")
    weights = torch.arange(out.shape[-1], device=place, dtype=dtype)
    grads = torch.autograd.grad((out * out * weights).sum(), (query, key, value))
    return [one.detach().cpu() for one in (out, *grads, torch.rand(2, device=place))]


def _kernels(program: Callable[[], object]) -> list[str]:
    with device("h100"), cudalens.profile() as profiled:
        program()
    events = profiled.trace.events
    return [name.partition("<")[0] for name in events.loc[events["cat"] == "kernel", "name"].astype(str)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("mask", ["none", "causal", "bool", "float"])
@pytest.mark.parametrize("is_split", [False, True])
def test_values_gradients_and_random_numbers_are_those_of_the_cpu(
    dtype: torch.dtype, mask: str, *, is_split: bool
) -> None:
    expected = _attend("cpu", dtype, mask, is_split=is_split)
    with device("h100"):
        result = _attend("cuda", dtype, mask, is_split=is_split)
    assert all(map(torch.equal, result, expected))


def test_one_kernel_computes_each_direction() -> None:
    kernels = _kernels(lambda: _attend("cuda"))
    assert kernels.count(FUSED) == kernels.count(f"{FUSED}_backward") == 1
    assert not any("softmax" in name or "bmm" in name for name in kernels)


def test_a_transformer_layer_in_training_attends_in_one_kernel() -> None:
    def train(place: str) -> list[Tensor]:
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).to(place)
        torch.manual_seed(7)
        layer(torch.ones(3, 5, 16, device=place)).square().sum().backward()
        return [parameter.grad.cpu() for parameter in layer.parameters() if parameter.grad is not None]

    expected = train("cpu")
    with device("h100"):
        assert all(map(torch.equal, train("cuda"), expected))
    kernels = _kernels(lambda: train("cuda"))
    assert kernels.count(FUSED) == kernels.count(f"{FUSED}_backward") == 1


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (lambda: _attend("cuda", torch.float64), "CUDA has no fused kernel in double precision"),
        (lambda: _attend("cuda", features=6), "rows of 6 floats are not aligned"),
        (lambda: torch.vmap(lambda q: _drop(q, q, q), randomness="different")(_ones(2, 1, 2, 4, 8)), "vmap"),
        (lambda: _math(_ones(1, 2, 4, 8)), "the program asks for the plain formula"),
        (lambda: _drop(*[_ones(2, 4, 8)] * 3), "three dimensions"),
    ],
)
def test_what_cuda_does_not_fuse_is_decomposed(program: Callable[[], object], reason: str) -> None:
    kernels = _kernels(program)
    assert FUSED not in kernels
    assert any("softmax" in name for name in kernels)


def _ones(*sizes: int) -> Tensor:
    return torch.ones(sizes, device="cuda")


def _drop(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(query, key, value, dropout_p=0.5)


def _math(query: Tensor) -> Tensor:
    with sdpa_kernel(SDPBackend.MATH):
        return _drop(query, query, query)


@pytest.mark.parametrize(
    ("gpu", "dtype", "mask", "kernel"),
    [
        ("h100", torch.float16, "none", "flash"),
        ("a100", torch.bfloat16, "causal", "flash"),
        ("a100", torch.float16, "float", "efficient"),  # flash attention takes no mask
        ("a100", torch.float32, "none", "efficient"),
        ("t4", torch.float16, "none", "efficient"),  # flash attention needs Ampere
    ],
)
def test_the_kernel_is_the_first_of_torchs_order_that_takes_the_call(
    gpu: str, dtype: torch.dtype, mask: str, kernel: str
) -> None:
    with device(gpu), cudalens.profile() as profiled:
        _attend("cuda", dtype, mask)
    events = profiled.trace.events
    names = events.loc[events["cat"] == "kernel", "name"].astype(str)
    attention = sorted({name.partition("<")[0] for name in names[names.str.contains("attention")]})
    expected = f"simulated::_scaled_dot_product_{kernel}_attention"
    assert attention == [expected, f"{expected}_backward"]


def test_autocast_casts_its_arguments() -> None:
    with device("h100"), torch.autocast("cuda", dtype=torch.float16):
        query = torch.ones(1, 2, 4, 8, device="cuda", requires_grad=True)
        assert _drop(query, query, query).dtype == torch.float16


def test_without_values_shapes_and_layouts_are_the_same() -> None:
    def shapes() -> list[tuple[object, ...]]:
        query = torch.ones(2, 3, 5, 8, device="cuda", requires_grad=True)
        out = _drop(query, query * 2, query * 3)
        out.sum().backward()
        assert query.grad is not None
        return [(one.shape, one.stride(), one.dtype, one.device) for one in (out, query.grad)] + [
            (torch.cuda.memory_allocated(),)
        ]

    with device("h100"):
        expected = shapes()
    with device("h100", values=False):
        assert shapes() == expected


def test_replays_of_a_captured_step_equal_eager_steps() -> None:
    def train(*, captured: bool) -> list[Tensor]:
        query = torch.linspace(-1, 1, 64, device="cuda").view(1, 2, 4, 8).requires_grad_()

        def step() -> None:
            query.grad = None
            _drop(query, query * 2, query).square().sum().backward()

        torch.cuda.manual_seed(3)
        found: list[Tensor] = []
        graph = torch.cuda.CUDAGraph()
        if captured:
            with torch.cuda.graph(graph):
                step()
        for _ in range(4):
            graph.replay() if captured else step()
            assert query.grad is not None
            found.append(query.grad.cpu().clone())
        return found

    with device("h100"):
        eager, replayed = train(captured=False), train(captured=True)
    assert all(map(torch.equal, eager, replayed))
    assert not torch.equal(eager[0], eager[1])
