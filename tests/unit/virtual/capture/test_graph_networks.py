"""Whole networks as CUDA graphs compute the values of eager execution."""

from __future__ import annotations

import pytest
import torch
from graph_helpers import capture


def network():
    torch.manual_seed(7)
    return torch.nn.Sequential(
        torch.nn.Linear(5, 8), torch.nn.BatchNorm1d(8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 3)
    )


def batches(number):
    draw = torch.Generator().manual_seed(11)
    return [(torch.randn(6, 5, generator=draw), torch.randint(3, (6,), generator=draw)) for _ in range(number)]


def train(model, optimizer, batch):
    optimizer.zero_grad(set_to_none=True)
    loss = torch.nn.functional.cross_entropy(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return loss


@pytest.mark.parametrize("kind", ["sgd", "adam", "foreach", "radam"])
def test_whole_network_training_equals_eager_training(h100, kind):
    """The recipe of torch's notes on CUDA graphs: warm up on a side stream, capture a step, replay it."""

    def make(model):
        if kind == "sgd":
            return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        if kind == "radam":
            return torch.optim.RAdam(model.parameters(), lr=0.01, capturable=True)
        return torch.optim.AdamW(model.parameters(), lr=0.01, capturable=True, foreach=kind == "foreach")

    def eager():
        model = network().cuda()
        optimizer = make(model)
        return [train(model, optimizer, (x.cuda(), y.cuda())).item() for x, y in batches(7)], model

    def graphed():
        model = network().cuda()
        optimizer = make(model)
        data = batches(7)
        x, y = data[0][0].cuda(), data[0][1].cuda()
        side, losses = torch.cuda.Stream(), []
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for batch in data[:3]:
                x.copy_(batch[0])
                y.copy_(batch[1])
                losses.append(train(model, optimizer, (x, y)).item())
        torch.cuda.current_stream().wait_stream(side)
        graph, loss = capture(lambda: train(model, optimizer, (x, y)))
        for batch in data[3:]:
            x.copy_(batch[0])
            y.copy_(batch[1])
            graph.replay()
            losses.append(loss.item())
        return losses, model

    (eager_losses, eager_model), (graph_losses, graph_model) = eager(), graphed()
    assert graph_losses == eager_losses
    for ours, theirs in zip(graph_model.state_dict().values(), eager_model.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs)


def test_make_graphed_callables_trains_as_eager_does(graph_gpus):
    def run(graphs):
        model = network().cuda()
        head = torch.nn.Linear(3, 3).cuda()
        with torch.no_grad():
            head.weight.fill_(0.5)
            head.bias.zero_()
        x = torch.randn(6, 5, device="cuda", requires_grad=True, generator=None)
        model.eval()  # no running statistics: the warm-up of make_graphed_callables would move them
        if graphs:
            hidden = torch.randn(6, 3, device="cuda", requires_grad=True)
            model, head = torch.cuda.make_graphed_callables((model, head), ((x,), (hidden,)))
        parameters = [*model.parameters(), *head.parameters()]
        optimizer = torch.optim.SGD(parameters, lr=0.1)
        losses = []
        for data, target in batches(4):
            optimizer.zero_grad(set_to_none=True)
            loss = torch.nn.functional.cross_entropy(head(model(data.cuda())), target.cuda())
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, [p.detach().cpu() for p in parameters]

    (eager_losses, eager), (graph_losses, graphed) = run(False), run(True)
    assert graph_losses == eager_losses
    assert all(torch.equal(a, b) for a, b in zip(eager, graphed, strict=True))


def test_a_graph_in_a_larger_graph(h100):
    x, y = torch.ones(2, device="cuda"), torch.zeros(2, device="cuda")
    inner, product = capture(lambda: y.add_(x) * 10)

    def program():
        x.mul_(2)
        inner.replay()
        return product + 1

    outer, out = capture(program)
    assert x.tolist() == [1, 1]
    assert y.tolist() == [0, 0]
    outer.replay()
    assert x.tolist() == [2, 2]
    assert y.tolist() == [2, 2]
    assert out.tolist() == [21, 21]
    outer.replay()
    assert y.tolist() == [6, 6]
    assert out.tolist() == [61, 61]


def test_a_replay_computes_what_was_captured_whatever_autocast_states(h100):
    layer, x = torch.nn.Linear(4, 4).cuda(), torch.randn(2, 4, device="cuda")

    def low():
        with torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False):
            return layer(x)

    full_graph, full_out = capture(lambda: layer(x))
    low_graph, low_out = capture(low)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        full_graph.replay()
    low_graph.replay()
    assert torch.equal(full_out, layer(x))
    assert low_out.dtype == torch.bfloat16
    assert torch.equal(low_out, low())


def test_forward_and_backward_on_two_streams_are_captured(h100):
    left, right = torch.nn.Linear(4, 4).cuda(), torch.nn.Linear(4, 4).cuda()
    parameters = [*left.parameters(), *right.parameters()]
    x, side = torch.randn(2, 4, device="cuda"), torch.cuda.Stream()

    def step():
        main = torch.cuda.current_stream()
        side.wait_stream(main)
        with torch.cuda.stream(side):
            first = left(x).relu()
        second = right(x).tanh()
        main.wait_stream(side)
        return torch.autograd.grad((first * second).sum(), parameters)

    graph, grads = capture(step)
    x.copy_(torch.randn(2, 4).cuda())
    graph.replay()
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(grads, step(), strict=True))
