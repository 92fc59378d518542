"""A backward inside of a graphed function, in a thread of the autograd engine, as on a GPU.

Only warm-ups run here: the virtual device does not set the stream of such a thread, as the engine does on a GPU.
"""

from __future__ import annotations

import pytest
import torch
from engine_threads import backward_on_engine_thread
from graph_scenarios.stage import values

from cudalens import virtual
from cudalens.graphs import GraphManager
from cudalens.graphs.observer import Observer, is_transformed


def reused(x):
    y = x.sin()
    return (y * x + y.exp() * y).sum()


def test_gradients_are_added_where_no_python_code_called_the_mode():
    x = torch.arange(6.0, requires_grad=True)
    (expected,) = torch.autograd.grad(reused(x), x)
    with backward_on_engine_thread(), Observer([], 0):
        (found,) = torch.autograd.grad(reused(x), x)
    assert torch.equal(found, expected)


@pytest.mark.parametrize("hook", [None, lambda grad: grad * 2], ids=["plain", "with a hook"])
def test_what_a_backward_makes_is_not_taken_for_memory_of_the_pool(hook):
    def function(x):
        x = x.detach().requires_grad_()
        if hook is not None:
            x.register_hook(hook)
        (grad,) = torch.autograd.grad(reused(x), x)
        return grad, x * 2

    with virtual.device("h100"), backward_on_engine_thread():
        manager = GraphManager(debug=True)
        found = manager.wrap(function)(values())
        expected = function(values())
        for one, other in zip(found, expected, strict=True):
            assert torch.equal(one, other)
        del found, expected, one, other
        manager.shutdown()


def test_batched_gradients_are_seen_as_such():
    """A thread of the engine does not know that the caller differentiates with ``is_grads_batched=True``."""
    found = []
    x = torch.arange(3.0, requires_grad=True)
    y = x.sin()
    y.register_hook(lambda grad: found.append((type(grad), is_transformed(grad))))
    torch.autograd.grad(y, x, torch.eye(3), is_grads_batched=True, retain_graph=True)
    torch.autograd.grad(y.sum(), x)
    assert found == [(torch.Tensor, True), (torch.Tensor, False)]
