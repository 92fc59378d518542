"""Operations of Triton's interpreter on numbers that numpy has no dtypes for."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest
import torch

tl = pytest.importorskip("triton.language")

from cudalens.virtual.compiled import interpreter_ops  # noqa: E402
from cudalens.virtual.compiled.interpreter import run_kernel  # noqa: E402


def run_on(kernel, *tensors: torch.Tensor, signature: str) -> None:
    """Run a kernel with one program on the addresses of host tensors."""
    names = ["a", "b", "out"][-len(tensors) :]
    args = {name: tensor.data_ptr() for name, tensor in zip(names, tensors, strict=True)}
    run_kernel(kernel, (1, 1, 1), {**args, "size": 16}, dict.fromkeys(names, signature))


def make_kernels():
    import triton

    @triton.jit
    def add(a, b, out, size: tl.constexpr):
        at = tl.arange(0, size)
        tl.store(out + at, tl.load(a + at) * tl.load(b + at) + 1)

    @triton.jit
    def largest(a, b, out, size: tl.constexpr):
        at = tl.arange(0, size)
        tl.store(out + at, tl.maximum(tl.load(a + at), tl.load(b + at)))

    @triton.jit
    def product(a, b, out, size: tl.constexpr):
        at = tl.arange(0, size)[:, None] * size + tl.arange(0, size)[None, :]
        tl.store(out + at, tl.dot(tl.load(a + at), tl.load(b + at)))

    @triton.jit
    def total(b, out, size: tl.constexpr):
        at = tl.arange(0, size)
        tl.atomic_add(out + at // size, tl.load(b + at))

    return {"add": add, "largest": largest, "product": product, "total": total}


def test_bfloat16_numbers_are_computed_with_and_not_their_bits():
    kernels = make_kernels()
    a, b = torch.randn(16, dtype=torch.bfloat16), torch.randn(16, dtype=torch.bfloat16)
    out = torch.empty_like(a)
    run_on(kernels["add"], a, b, out, signature="*bf16")
    torch.testing.assert_close(out, a * b + 1)


def test_a_matrix_product_of_bfloat16_numbers():
    a, b = torch.randn(16, 16, dtype=torch.bfloat16), torch.randn(16, 16, dtype=torch.bfloat16)
    out = torch.empty_like(a)
    run_on(make_kernels()["product"], a, b, out, signature="*bf16")
    torch.testing.assert_close(out, a @ b)


def test_the_maximum_of_a_number_and_nan_is_the_number_as_on_a_gpu():
    a, b = torch.full((16,), float("nan")), torch.arange(16.0)
    out = torch.empty_like(a)
    run_on(make_kernels()["largest"], a, b, out, signature="*fp32")
    assert torch.equal(out, b)


def test_atomic_additions_of_bfloat16_numbers_to_one_address():
    values, out = torch.arange(16, dtype=torch.bfloat16), torch.zeros(1, dtype=torch.bfloat16)
    run_on(make_kernels()["total"], values, out, signature="*bf16")
    assert out.item() == 120


def test_numbers_too_large_for_float8_become_the_largest_one():
    encoded = interpreter_ops.encode(np.array([1e6, -1e6, 300.0], np.float32), tl.float8e4nv)
    assert interpreter_ops.decode(encoded, tl.float8e4nv).tolist() == [448.0, -448.0, 288.0]


def test_types_that_nvidia_gpus_lack_are_refused():
    with pytest.raises(NotImplementedError, match="not a type of NVIDIA GPUs"):
        interpreter_ops.encode(np.ones(1, np.float32), tl.float8e4b8)


def test_conditions_of_a_block_are_computed_for_each_element():
    import triton

    @triton.jit
    def conditions(b, out, size: tl.constexpr):
        at = tl.arange(0, size)
        value = tl.load(b + at)
        is_zero = not (value > 0)
        is_small = (value > 2 and value < 6) or value == 9
        chosen = max(value, 7) if size > 1 and not (size > 100) else value
        tl.store(out + at, tl.where(is_zero, -1, tl.where(is_small, -2, chosen)))

    b = torch.arange(16, dtype=torch.int32)
    out = torch.empty_like(b)
    run_on(conditions, b, out, signature="*i32")
    assert out.tolist() == [-1, 7, 7, -2, -2, -2, 7, 7, 8, -2, 10, 11, 12, 13, 14, 15]


@pytest.mark.parametrize("condition", ["value > 3", "0 < at < 5"])
def test_what_triton_does_not_compile_is_an_error(condition, tmp_path, monkeypatch):
    (tmp_path / "branching_kernel.py").write_text(
        "import triton\nimport triton.language as tl\n\n@triton.jit\ndef branch(b, out, size: tl.constexpr):\n"
        "    at = tl.arange(0, size)\n    value = tl.load(b + at)\n"
        f"    if {condition}:\n        value += 1\n    tl.store(out + at, value)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "branching_kernel", raising=False)
    kernel = importlib.import_module("branching_kernel").branch
    b = torch.arange(16, dtype=torch.int32)
    with pytest.raises(NotImplementedError, match=r"block of more than one element|comparison of more than two"):
        run_on(kernel, b, torch.empty_like(b), signature="*i32")


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.bool])
def test_the_complement_of_a_number(dtype):
    import triton

    @triton.jit
    def complement(b, out, size: tl.constexpr):
        at = tl.arange(0, size)
        tl.store(out + at, ~tl.load(b + at))

    b = torch.arange(16).to(dtype)
    out = torch.empty_like(b)
    run_on(complement, b, out, signature={torch.uint8: "*u8", torch.int16: "*i16", torch.bool: "*i1"}[dtype])
    assert torch.equal(out, ~b)
