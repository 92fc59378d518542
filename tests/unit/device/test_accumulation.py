"""Gradients are added in place under our dispatch modes where torch adds them in place without a mode."""

from __future__ import annotations

import random
import re

import pytest
import torch
from torch.nn import functional

import cudalens
from cudalens import virtual
from cudalens.graphs.observer import Observer


def convolve(x):
    identity = torch.eye(x.shape[1], device=x.device)
    return functional.conv2d(x[:, :, None, None], identity[..., None, None])[..., 0, 0]


UNARY = (
    torch.sigmoid,
    torch.relu,
    torch.exp,
    lambda x: x * 2,
    lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
    lambda x: functional.layer_norm(x, x.shape[-1:]),
    lambda x: x.unsqueeze(0)[0],
    lambda x: x.sum().expand(x.shape),
    lambda x: torch.cat([x[:1], x[1:]]),
    convolve,
)
BINARY = (torch.add, torch.mul, torch.sub, lambda a, b: torch.where(a > b, a, b), lambda a, b: a @ b.T @ b)


def program(seed, device):
    """A random function of reused tensors; the gradients of its leaf and those that hooks keep, in order.

    Returns:
        Each gradient with its version counter.
    """
    choose = random.Random(seed)
    torch.manual_seed(seed)
    leaf = torch.randn(3, 4).to(device).requires_grad_()
    made, kept = [leaf, leaf * 1], []
    for _ in range(choose.randint(4, 12)):
        if choose.random() < 0.5:
            result = choose.choice(UNARY)(choose.choice(made))
        else:
            result = choose.choice(BINARY)(choose.choice(made), choose.choice(made))
        what = choose.random()
        if what < 0.15:
            result.register_hook(kept.append)
        elif what < 0.3:
            result.register_hook(lambda grad: grad + grad.sigmoid())
        made.append(result.tanh())
    sum(made[-3:]).backward(torch.ones(3, 4, device=device))
    return [(tensor, tensor._version) for tensor in (leaf.grad, *kept)]


def additions(run):
    """The names of the additions of tensors in a run on the CPU, in order."""
    names = run.trace.events["name"].astype(str)
    return [name for name in names if name in ("aten::add", "aten::add_")]


def added_kernels(run):
    """The operators of the kernels that add, in a run on a virtual device."""
    names = run.trace.events["name"].astype(str)
    return [f"aten::{found[1]}" for name in names if (found := re.match(r"simulated::(add_?)<", name))]


def assert_equal(results, expected):
    for (result, version), (wanted, wanted_version) in zip(results, expected, strict=True):
        assert torch.equal(result.cpu(), wanted.cpu())
        assert version == wanted_version
        assert result.stride() == wanted.stride()


@pytest.mark.parametrize("seed", range(25))
def test_random_programs_add_as_without_a_mode(seed):
    with cudalens.profile(keep=False) as plain:
        expected = program(seed, "cpu")
    with virtual.device("h100"), cudalens.profile(keep=False) as run:
        results = program(seed, "cuda")
    assert added_kernels(run) == additions(plain)
    assert_equal(results, expected)


MODES = {"the sanitizer": cudalens.sanitize, "the observer of a first call": lambda: Observer([], 0)}


@pytest.mark.parametrize("name", MODES)
@pytest.mark.parametrize("seed", range(6))
def test_a_mode_that_observes_changes_no_addition(seed, name):
    with virtual.device("h100"):
        with cudalens.profile(keep=False) as plain:
            expected = program(seed, "cuda")
        with MODES[name](), cudalens.profile(keep=False) as run:
            results = program(seed, "cuda")
    assert added_kernels(run) == added_kernels(plain)
    assert_equal(results, expected)


def test_a_residual_backward_takes_the_memory_that_torch_takes():
    size = 1 << 20
    with virtual.device("h100"):
        x = torch.randn(size, device="cuda", requires_grad=True)
        hidden = x * 2
        output = (hidden * 3 + hidden.sigmoid()) * 2
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        output.backward(torch.ones_like(output))
        # The gradients of the output, of both branches and of the sum: three at a time, not four.
        assert torch.cuda.max_memory_allocated() - before == 3 * size * 4


KEEPERS = {
    "the gradient": lambda grad: grad,
    "a view": lambda grad: grad.detach(),
    "its storage": lambda grad: grad.untyped_storage(),
    "both": lambda grad: (grad, grad.detach()),
}


def kept_by_hooks(keep, device):
    """What hooks on nodes keep of gradients that are added to others later."""
    kept = []
    leaf = torch.arange(1.0, 5.0).to(device).requires_grad_()
    reused = leaf * 1
    branches = [reused * 2, reused * 3, reused * 5]
    for branch in branches:
        branch.grad_fn.register_hook(lambda inputs, _: kept.append(keep(inputs[0])))
    sum(branches).backward(torch.ones(4, device=device))
    return [[values_of(part, device) for part in (one if isinstance(one, tuple) else (one,))] for one in kept]


def values_of(kept, device):
    tensor = kept if isinstance(kept, torch.Tensor) else torch.empty(0, device=device).set_(kept)
    return tensor.tolist()


@pytest.mark.parametrize("name", KEEPERS)
def test_a_kept_gradient_is_not_overwritten(name):
    expected = kept_by_hooks(KEEPERS[name], "cpu")
    with cudalens.sanitize():
        assert kept_by_hooks(KEEPERS[name], "cpu") == expected
    with virtual.device("h100"):
        assert kept_by_hooks(KEEPERS[name], "cuda") == expected
