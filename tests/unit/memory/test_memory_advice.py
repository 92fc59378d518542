"""Advice on memory: losses that keep their autograd graphs, and reference cycles that nothing uses."""

import gc
import weakref
from pathlib import Path

import pytest
import torch

from cudalens.analysis import memory_holders
from cudalens.analysis.memory.holders import kept_graphs
from cudalens.api.memory import memory_snapshot
from cudalens.memory import tensors
from cudalens.memory.objects import can_look
from cudalens.views.memory.words import memory_verdict

pytestmark = pytest.mark.usefixtures("device")
needs_saved = pytest.mark.skipif(not can_look(), reason="this torch does not hand out what autograd saved")


def snapshot(**variables):
    return memory_snapshot(keep=False, namespace=variables)


def steps(number, keep):
    """What `keep` makes of the loss of each step of a small network."""
    net = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.Tanh(), torch.nn.Linear(256, 1)).cuda()
    return net, [keep(net(torch.ones(512, 256, device="cuda")).square().mean()) for _ in range(number)]


def after_backward(loss):
    loss.backward()
    return loss


@needs_saved
def test_losses_that_keep_their_graphs_are_named_with_the_memory_that_detaching_frees():
    net, losses = steps(10, lambda loss: loss)
    trace = snapshot(net=net, losses=losses)
    (found,) = kept_graphs(trace)
    before = torch.cuda.memory_allocated()
    losses[:] = [loss.detach() for loss in losses]
    assert (found.container, found.num_graphs) == ("losses", 10)
    assert found.num_bytes == before - torch.cuda.memory_allocated()
    assert "; autograd graphs of 10 results (" in memory_verdict(trace)
    assert ") kept by `losses`: store loss.detach() or loss.item() if no backward pass follows" in memory_verdict(trace)


@needs_saved
def test_what_custom_functions_keep_in_lists_counts():
    class Kept(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.parts = [x * 2]
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad

    x = torch.ones(1 << 16, device="cuda", requires_grad=True)
    losses = [Kept.apply(x).sum() for _ in range(4)]
    (found,) = kept_graphs(snapshot(x=x, losses=losses))
    assert (found.container, found.num_graphs, found.num_bytes) == ("losses", 4, 4 << 18)


@needs_saved
def test_losses_in_a_dict_of_lists():
    net, losses = steps(5, lambda loss: loss)
    (found,) = kept_graphs(snapshot(net=net, history={"train loss": losses}))
    assert (found.container, found.num_graphs) == ("history['train loss']", 5)


@pytest.mark.parametrize("keep", [torch.Tensor.detach, torch.Tensor.item, after_backward])
def test_losses_without_graphs_or_with_freed_graphs_are_silent(keep):
    net, losses = steps(10, keep)
    trace = snapshot(net=net, losses=losses)
    assert kept_graphs(trace) == []
    assert "autograd graphs" not in memory_verdict(trace)


def test_the_losses_of_two_micro_batches_are_silent():
    net, losses = steps(2, lambda loss: loss)
    assert kept_graphs(snapshot(net=net, losses=losses)) == []


def test_a_list_of_activations_is_silent():
    net, _ = steps(1, torch.Tensor.item)
    outputs = [net(torch.ones(512, 256, device="cuda")) for _ in range(5)]
    assert kept_graphs(snapshot(net=net, outputs=outputs)) == []


def test_one_sum_of_losses_is_silent():
    net, losses = steps(10, lambda loss: loss)
    total = sum(losses)
    del losses
    assert kept_graphs(snapshot(net=net, total=total)) == []


class Owner:
    def __init__(self, elements):
        self.me, self.tensor = self, torch.ones(elements, device="cuda")


@pytest.fixture
def without_gc():
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    gc.collect()


def garbage_of(trace):
    found = memory_holders(trace).set_index("holder")["num_bytes"]
    return int(found.get("<garbage>", 0))


@pytest.mark.usefixtures("without_gc")
def test_unused_cycles_hold_what_gc_collect_frees():
    for _ in range(3):
        Owner(1 << 20)
    trace = snapshot()
    before = torch.cuda.memory_allocated()
    assert "3 tensors held by reference cycles that nothing uses (gc.collect() frees them)" in memory_verdict(trace)
    gc.collect()
    assert garbage_of(trace) == before - torch.cuda.memory_allocated() == 3 * (4 << 20)


@pytest.mark.usefixtures("without_gc")
def test_the_variables_of_a_caught_exception_that_keeps_itself():
    def fail():
        x = torch.ones(1 << 20, device="cuda")
        try:
            raise KeyError(x.shape)
        except KeyError as error:
            kept = error
        return kept.args

    fail()
    assert garbage_of(snapshot()) == 4 << 20
    gc.collect()
    assert garbage_of(snapshot()) == 0


@needs_saved
@pytest.mark.usefixtures("without_gc")
def test_what_the_graph_of_a_loss_in_an_unused_cycle_saved():
    owner = Owner(1)
    owner.loss = torch.ones(1 << 20, device="cuda", requires_grad=True).exp().sum()
    del owner
    assert garbage_of(snapshot()) >= 4 << 20


@pytest.mark.usefixtures("without_gc")
def test_an_interrupt_of_the_search_keeps_no_object(monkeypatch):
    def interrupted(objects, roots):
        assert objects
        raise KeyboardInterrupt

    monkeypatch.setattr(tensors, "_reachable", interrupted)
    Owner(1 << 20)
    with pytest.raises(KeyboardInterrupt) as caught:
        snapshot()
    frames = [entry.frame.f_locals for entry in caught.traceback if entry.path == Path(tensors.__file__)]
    assert [one["objects"] for one in frames if "objects" in one] == [[], []]


@pytest.mark.usefixtures("without_gc")
def test_a_cycle_that_is_used_is_held_by_its_variable():
    owner = Owner(1 << 20)
    trace = snapshot(owner=owner)
    assert garbage_of(trace) == 0
    assert memory_holders(trace)["holder"].tolist() == ["owner.tensor"]


@pytest.mark.usefixtures("without_gc")
def test_what_a_library_holds_is_no_garbage():
    class Target:
        pass

    target = Target()
    weakref.finalize(target, print, Owner(1 << 20)).atexit = False
    trace = snapshot()
    assert garbage_of(trace) == 0
    assert "1 block that no variable holds" in memory_verdict(trace)
    del target
