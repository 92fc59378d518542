"""Python code that torch's C++ calls back: it sees the device as the code around it does."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import Function, graph
from torch.utils.checkpoint import checkpoint

from cudalens.virtual import device

CUDA = torch.device("cuda", 0)


@pytest.fixture(autouse=True)
def _gpu():
    with device("h100"):
        yield


def devices_seen():
    """What a callback gets for pinned, device and host tensors, and whether mixing the last two is an error."""
    pinned = torch.empty(3, pin_memory=True)
    mixed = "accepted"
    try:
        torch.ones(3) + torch.ones(3, device="cuda")
    except RuntimeError as error:
        mixed = "refused" if "same device" in str(error) else str(error)
    return (
        (pinned.device.type, pinned.is_pinned()),
        torch.tensor([1.0], device="cuda").device,
        torch.as_tensor([1.0], device=0).device,
        torch.device(0),
        (torch.ones(3) + torch.zeros(3)).device.type,
        mixed,
    )


EXPECTED = (("cpu", True), CUDA, CUDA, CUDA, "cpu", "refused")


class Doubles(Function):
    """A function whose callbacks look at the devices."""

    seen: list

    @staticmethod
    def forward(ctx, x):
        Doubles.seen.append(devices_seen())
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        Doubles.seen.append(devices_seen())
        return grad * 2


class DoublesForTransforms(Function):
    """The form that torch.func takes."""

    generate_vmap_rule = False

    @staticmethod
    def forward(x):
        Doubles.seen.append(devices_seen())
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        Doubles.seen.append(devices_seen())

    @staticmethod
    def vmap(info, in_dims, x):
        Doubles.seen.append(devices_seen())
        return x * 2, in_dims[0]

    @staticmethod
    def backward(ctx, grad):
        Doubles.seen.append(devices_seen())
        return grad * 2


@pytest.fixture
def seen():
    Doubles.seen = []
    return Doubles.seen


def leaf():
    return torch.ones(3, device="cuda", requires_grad=True)


def saved_tensors_hooks(note):
    def observe(tensor):
        note()
        return tensor

    x = leaf()
    with graph.saved_tensors_hooks(observe, observe):
        y = (x * x).sin().sum()
    y.backward()


def hooks_of_one_saved_tensor(note):
    def observe(tensor):
        note()
        return tensor

    y = leaf() * 2
    z = y.exp()
    z.grad_fn._raw_saved_result.register_hooks(observe, observe)
    z.sum().backward()


def tensor_hook(note):
    y = leaf() * 2
    y.register_hook(lambda grad: note())
    y.sum().backward()


def node_hooks(note):
    y = leaf() * 2
    y.grad_fn.register_prehook(lambda grads: note())
    y.grad_fn.register_hook(lambda inputs, outputs: note())
    y.sum().backward()


def accumulation_hook(note):
    x = leaf()
    x.register_post_accumulate_grad_hook(lambda tensor: note())
    (x * 2).sum().backward()


def multi_grad_hook(note):
    y, z = leaf() * 2, leaf() * 3
    graph.register_multi_grad_hook([y, z], lambda grads: note())
    graph.register_multi_grad_hook([y, z], lambda grad: note(), mode="any")
    (y + z).sum().backward()


def end_of_backward(note):
    y = leaf() * 2
    y.register_hook(lambda grad: torch.autograd.Variable._execution_engine.queue_callback(note))
    y.sum().backward()


def autograd_grad(note):
    x = leaf()
    y = x * 2
    y.register_hook(lambda grad: note())
    torch.autograd.grad(y.sum(), x)


def module_hooks(note):
    layer = torch.nn.Linear(3, 3, device="cuda")
    layer.register_forward_hook(lambda *arguments: note())
    layer.register_full_backward_hook(lambda *arguments: note())
    layer(leaf()).sum().backward()


def checkpoint_of(use_reentrant):
    def run(note):
        def body(x):
            note()
            return x.sin().cos()

        checkpoint(body, leaf(), use_reentrant=use_reentrant).sum().backward()

    run.__name__ = f"checkpoint_reentrant_{use_reentrant}"
    return run


def operator_of_a_library(note):
    @torch.library.custom_op("cudalens_callbacks::noted", mutates_args=())
    def noted(x: torch.Tensor) -> torch.Tensor:
        note()
        return x * 2

    assert noted(leaf().detach()).device == CUDA


def function_of_a_subclass(note):
    class Observed(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is torch.sin:
                note()
            return super().__torch_function__(func, types, args, kwargs or {})

    assert torch.sin(leaf().detach().as_subclass(Observed)).device == CUDA


CALLBACKS = [
    saved_tensors_hooks,
    hooks_of_one_saved_tensor,
    tensor_hook,
    node_hooks,
    accumulation_hook,
    multi_grad_hook,
    end_of_backward,
    autograd_grad,
    module_hooks,
    checkpoint_of(True),
    checkpoint_of(False),
    operator_of_a_library,
    function_of_a_subclass,
]


@pytest.mark.parametrize("calls", CALLBACKS, ids=lambda calls: calls.__name__)
def test_a_callback_sees_the_device(calls):
    seen = []

    def note():
        seen.append(devices_seen())

    calls(note)
    assert seen
    assert set(seen) == {EXPECTED}


def test_the_methods_of_a_function_see_the_device(seen):
    Doubles.apply(leaf()).sum().backward()
    assert seen == [EXPECTED, EXPECTED]


def test_the_methods_of_a_function_see_the_device_under_torch_func(seen):
    x = leaf().detach()
    gradient = torch.func.grad(lambda value: DoublesForTransforms.apply(value).sum())(x)
    assert gradient.tolist() == [2.0] * 3
    assert len(seen) >= 3  # forward, setup_context, backward
    assert set(seen) == {EXPECTED}


def test_the_vmap_rule_of_a_function_sees_the_device(seen):
    x = torch.ones(2, 3, device="cuda")
    assert torch.vmap(DoublesForTransforms.apply)(x).tolist() == [[2.0] * 3] * 2
    assert seen
    assert set(seen) == {EXPECTED}


@pytest.mark.parametrize("is_pinned", [True, False])
def test_save_on_cpu_frees_the_memory_of_saved_tensors(is_pinned):
    def held_by_a_forward(context):
        before = torch.cuda.memory_allocated()
        x = torch.randn(256, 256, device="cuda", requires_grad=True)
        with context:
            y = x
            for _ in range(6):
                y = (y * y).tanh()
        held = torch.cuda.memory_allocated() - before
        y.sum().backward()
        return held // x.nbytes, x.grad.sum().item()

    num_kept, _ = held_by_a_forward(graph.saved_tensors_hooks(lambda saved: saved, lambda saved: saved))
    num_offloaded, gradient = held_by_a_forward(graph.save_on_cpu(pin_memory=is_pinned))
    assert num_kept == 7  # the leaf, and the result of each step
    assert num_offloaded == 2  # the leaf and the result
    assert gradient != 0


def test_a_packed_tensor_is_in_pinned_host_memory():
    packed = []

    def pack(tensor):
        copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        packed.append(copy.copy_(tensor, non_blocking=True))
        return copy

    x = leaf()
    with graph.saved_tensors_hooks(pack, lambda copy: copy.to("cuda", non_blocking=True)):
        y = (x * x).sum()
    y.backward()
    assert [(copy.device.type, copy.is_pinned()) for copy in packed] == [("cpu", True)] * 2
    assert x.grad.tolist() == [2.0] * 3


def test_hooks_that_outlive_the_device_see_the_host():
    with graph.saved_tensors_hooks(lambda saved: torch.ones(3), lambda saved: saved):
        from cudalens.virtual.context import active

        active().disable()
        x = torch.ones(3, requires_grad=True)
        (x * x).sum().backward()
    assert x.grad.tolist() == [2.0] * 3
    assert not torch.cuda.is_available()


def test_an_operator_of_a_library_runs_its_operators_on_the_device():
    @torch.library.custom_op("cudalens_callbacks::scaled", mutates_args=())
    def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
        scratch = torch.full(x.shape, factor, device=x.device)
        return x * scratch

    torch.cuda.reset_peak_memory_stats()
    x = torch.ones(1024, device="cuda")
    y = scaled(x, 3.0)
    assert y.device == CUDA
    assert y.sum().item() == 3 * 1024
    assert torch.cuda.max_memory_allocated() >= 3 * x.nbytes  # the scratch tensor as well
