"""RMS norm is one kernel for the result and one for each gradient, as on a GPU, with the values of the CPU."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import cudalens
from cudalens.virtual import device

CASES = [
    ((4, 8), (8,), 1e-6),
    ((2, 3, 64), (64,), None),
    ((2, 3, 64), (3, 64), 1e-5),
    ((5, 1000), (1000,), None),
    ((64,), (64,), 1e-6),
    ((0, 8), (8,), None),
]


def _step(
    place: str, case: tuple[tuple[int, ...], tuple[int, ...], float | None], dtype: torch.dtype, *, has_weight: bool
) -> list[Tensor]:
    """The result and the gradients."""
    shape, normalized, eps = case
    torch.manual_seed(0)
    given = [torch.randn(shape, dtype=dtype), torch.randn(normalized, dtype=dtype)][: 1 + has_weight]
    weights = torch.randn(shape, dtype=dtype).to(place)
    tensors = [tensor.to(place).requires_grad_() for tensor in given]
    out = functional.rms_norm(tensors[0], normalized, *tensors[1:], eps=eps)
    grads = torch.autograd.grad(out, tensors, weights)
    return [one.detach().cpu() for one in (out, *grads)]


def _kernels(program) -> list[str]:
    with device("h100"), cudalens.profile() as profiled:
        program()
    events = profiled.trace.events
    return [name.partition("<")[0] for name in events.loc[events["cat"] == "kernel", "name"].astype(str)]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("has_weight", [True, False])
def test_values_and_gradients_are_those_of_the_cpu(case, dtype: torch.dtype, *, has_weight: bool) -> None:
    expected = _step("cpu", case, dtype, has_weight=has_weight)
    with device("h100"):
        result = _step("cuda", case, dtype, has_weight=has_weight)
    assert [one.dtype for one in result] == [one.dtype for one in expected]
    assert all(map(torch.equal, result, expected))


def test_one_kernel_computes_the_result_and_each_gradient() -> None:
    kernels = _kernels(lambda: _step("cuda", CASES[0], torch.float32, has_weight=True))
    fused = "simulated::_fused_rms_norm"
    expected = [fused, f"{fused}_backward", f"{fused}_backward::gamma_beta"]  # the last is the gradient of the weight
    assert [name for name in kernels if "norm" in name or "mean" in name] == expected


@pytest.mark.parametrize("program", ["complex", "other_dtype", "channels_last"])
def test_what_cuda_does_not_fuse_is_decomposed(program: str) -> None:
    def run() -> None:
        x, weight = torch.randn(2, 3, 4, 8, device="cuda"), torch.ones(8, device="cuda")
        if program == "complex":
            functional.rms_norm(torch.complex(x, x), (8,))
        elif program == "other_dtype":
            functional.rms_norm(x.bfloat16(), (8,), weight)
        else:
            functional.rms_norm(x.to(memory_format=torch.channels_last), (8,), weight)

    kernels = _kernels(run)
    assert not any("_fused_rms_norm" in name for name in kernels)
    assert any("rsqrt" in name for name in kernels)


@pytest.mark.parametrize("values", [True, False])
def test_the_backward_keeps_one_number_a_row(*, values: bool) -> None:
    with device("h100", values=values):
        norm, x = nn.RMSNorm(1024, device="cuda"), torch.randn(256, 1024, device="cuda", requires_grad=True)
        before = torch.cuda.memory_allocated()
        out = norm(x)
        assert torch.cuda.memory_allocated() - before == (256 * 1024 + 256) * 4
        out.sum().backward()
        assert x.grad is not None
        assert x.grad.shape == x.shape


def test_second_derivatives_are_those_of_the_cpu() -> None:
    def second(place: str) -> Tensor:
        torch.manual_seed(0)
        x = torch.randn(4, 8, dtype=torch.float64).to(place).requires_grad_()
        (first,) = torch.autograd.grad(functional.rms_norm(x, (8,)).pow(3).sum(), x, create_graph=True)
        return torch.autograd.grad(first.pow(2).sum(), x)[0].cpu()

    expected = second("cpu")
    with device("h100"):
        assert torch.allclose(second("cuda"), expected, rtol=1e-10, atol=1e-12)


def test_the_cpu_is_as_before_afterwards() -> None:
    x = torch.randn(4, 8, requires_grad=True)
    with device("h100"):
        functional.rms_norm(x, (8,))
    assert "FusedRmsNorm" not in type(functional.rms_norm(x, (8,)).grad_fn).__name__
