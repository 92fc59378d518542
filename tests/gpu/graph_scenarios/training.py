"""Training loops: networks, optimizers, autocast, dropout, checkpoints, frozen parameters."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import torch
from torch import nn

from cudalens.graphs import GraphManager
from graph_scenarios.networks import batch, gradients, network, small
from graph_scenarios.stage import counts, reasons, same, scenario, values


@scenario
def a_network_trains_as_it_does_without_graphs(m: GraphManager) -> None:
    module, twin = network(), network()
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9) for net in (module, twin)]
    step = m.wrap(module)
    for n in range(7):
        x, y = batch(n)
        losses = []
        for optimizer, net in zip(optimizers, (step, twin), strict=True):
            optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach().clone())
            del loss
        same(*losses)
        same(list(module.state_dict().values()), list(twin.state_dict().values()))
    assert counts(step)[3] == 0
    assert counts(step)[2] >= 8


@scenario
def loss_and_network_in_one_function(m: GraphManager) -> None:
    module, twin = network(), network()
    optimizers = [torch.optim.AdamW(net.parameters(), lr=0.01) for net in (module, twin)]

    def of(net):
        return lambda x, y: nn.functional.cross_entropy(net(x), y)

    step = m.wrap(of(module))
    for n in range(6):
        x, y = batch(n)
        losses = []
        for optimizer, function in zip(optimizers, (step, of(twin)), strict=True):
            optimizer.zero_grad(set_to_none=n % 2 == 0)
            loss = function(x, y)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach().clone())
            del loss
        same(*losses)
        same(list(module.state_dict().values()), list(twin.state_dict().values()))
    assert counts(step)[3] == 0


@scenario
def train_and_eval_alternate(m: GraphManager) -> None:
    module, twin = network(), network()
    step = m.wrap(module)
    for n in range(5):
        x, y = batch(n)
        for net, call in ((module, step), (twin, twin)):
            net.train()
            net.zero_grad()
            nn.functional.cross_entropy(call(x), y).backward()
            net.eval()
        with torch.no_grad():
            same(step(x), twin(x))
        same(gradients(module), gradients(twin))
        same(list(module.buffers()), list(twin.buffers()))
    assert counts(step)[3] == 0
    assert reasons(m)["NEW_MODE"] >= 1


@scenario
def a_recurrent_loop(m: GraphManager) -> None:
    w, v = (values().requires_grad_() for _ in range(2))
    cell = m.wrap(lambda h, x: (h * w + x).tanh())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for n in range(5):
            m.mark_step_begin()
            w.grad = v.grad = None
            h = k = torch.zeros(6, device="cuda")
            for t in range(3):
                x = values() / 10 + n + t
                h, k = cell(h, x), (k * v + x).tanh()
            h.sum().backward()
            k.sum().backward()
            same((h, w.grad), (k, v.grad))
            del h, k
    assert counts(cell)[3] == 0


@scenario
def autocast_and_a_grad_scaler(m: GraphManager) -> None:
    module, twin = network(), network()
    step = m.wrap(module)
    sides = []
    for net, call in ((module, step), (twin, twin)):
        sides.append((net, call, torch.optim.SGD(net.parameters(), lr=0.05), torch.amp.GradScaler("cuda")))
    for n in range(6):
        x, y = batch(n)
        losses = []
        for net, call, optimizer, scaler in sides:
            net.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16, cache_enabled=False):
                out = call(x)
                loss = nn.functional.cross_entropy(out.float(), y)
            assert out.dtype is torch.float32 or out.dtype is torch.float16
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.detach().clone())
            del loss, out
        torch.testing.assert_close(*losses, rtol=1e-2, atol=1e-2)
    assert counts(step)[3] == 0


@scenario
def with_and_without_autocast(m: GraphManager) -> None:
    layer = nn.Linear(6, 4).cuda()
    step = m.wrap(layer)
    with torch.no_grad():
        for n in range(4):
            x = torch.ones(2, 6, device="cuda") + n
            assert step(x).dtype is torch.float32
            with torch.autocast("cuda", dtype=torch.float16, cache_enabled=False):
                assert step(x).dtype is torch.float16
                same(step(x), layer(x))
            with torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False):
                assert step(x).dtype is torch.bfloat16
    assert counts(step)[3] == 0


@scenario
def dropout_in_forward_and_backward_agree(m: GraphManager) -> None:
    w, v = (torch.ones(64, device="cuda").requires_grad_() for _ in range(2))
    step = m.wrap(lambda x: nn.functional.dropout(x * w, 0.5))
    for n in range(6):
        x = torch.arange(64.0, device="cuda") + 1
        w.grad = v.grad = None
        torch.manual_seed(n)
        out = step(x)
        torch.manual_seed(n)
        expected = nn.functional.dropout(x * v, 0.5)
        same(out, expected)
        out.sum().backward()
        expected.sum().backward()
        same(w.grad, v.grad)
        assert torch.equal(w.grad != 0, out.detach() != 0)
        del out


@scenario
def checkpointed_blocks(m: GraphManager) -> None:
    from torch.utils.checkpoint import checkpoint

    module, twin = small(), small()

    def of(net):
        return lambda x: checkpoint(net, x, use_reentrant=False).sum()

    step = m.wrap(of(module))
    for n in range(5):
        x, _ = batch(n)
        module.zero_grad()
        twin.zero_grad()
        step(x).backward()
        of(twin)(x).backward()
        same(gradients(module), gradients(twin))


@scenario
def checkpointed_attention_replays_without_dropout(m: GraphManager) -> None:
    from torch.utils.checkpoint import checkpoint

    def of(net: nn.Module, dropout: float) -> Any:
        def attend(x: torch.Tensor) -> torch.Tensor:
            heads = net(x).view(1, 2, 8, 8)
            return nn.functional.scaled_dot_product_attention(heads, heads, heads, dropout_p=dropout)

        def step(x: torch.Tensor) -> list[torch.Tensor]:
            net.zero_grad()
            checkpoint(attend, x, use_reentrant=False).square().sum().backward()
            return [p.grad.clone() for p in net.parameters()]

        return step

    for dropout in (0.0, 0.5):
        nets = [nn.Linear(16, 16).cuda() for _ in range(2)]
        nets[1].load_state_dict(nets[0].state_dict())
        graphed, eager = m.wrap(of(nets[0], dropout)), of(nets[1], dropout)
        for n in range(6):
            x = torch.linspace(-1, 1, 128, device="cuda").view(8, 16) * n
            torch.manual_seed(n)
            found = graphed(x)
            torch.manual_seed(n)
            same(found, eager(x))
        assert (graphed._function.counts.replays > 2) == (dropout == 0.0)


@scenario
def a_whole_training_step_as_one_function(m: GraphManager) -> None:
    module, twin = small(), small()
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in (module, twin)]

    def of(net, optimizer):
        def function(x, y):
            optimizer.zero_grad(set_to_none=False)
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return function

    step, function = m.wrap(of(module, optimizers[0])), of(twin, optimizers[1])
    for n in range(7):
        same(step(*batch(n)), function(*batch(n)))
        same(list(module.parameters()), list(twin.parameters()))


@scenario
def hooks_on_parameters_and_outputs_run(m: GraphManager) -> None:
    w = values().requires_grad_()
    seen = []
    handle = w.register_hook(lambda grad: seen.append("w") or grad * 2)
    step = m.wrap(lambda x: (x * w).sum())
    for n in range(5):
        w.grad = None
        out = step(values() + n)
        out.register_hook(lambda grad: seen.append("out"))
        out.backward()
        same(w.grad, (values() + n) * 2)
        del out
    handle.remove()
    assert seen == ["out", "w"] * 5


@scenario
def a_frozen_parameter(m: GraphManager) -> None:
    module, twin = small(), small()
    for net in (module, twin):
        net[0].weight.requires_grad_(False)
    step = m.wrap(module)
    for n in range(4):
        x, _ = batch(n)
        step(x).sum().backward()
        twin(x).sum().backward()
    same(gradients(module), gradients(twin))


@scenario
def frozen_later(m: GraphManager) -> None:
    """`requires_grad_` of a parameter is part of what a call depends on."""
    module, twin = small(), small()
    step = m.wrap(module)
    for n in range(9):
        for net in (module, twin):
            net.zero_grad()
            net[0].weight.requires_grad_(n < 3 or n > 5)
        x, _ = batch(n)
        step(x).sum().backward()
        twin(x).sum().backward()
        same(gradients(module), gradients(twin))


@scenario
def copies_of_a_network_train_apart(m: GraphManager) -> None:
    module = small()
    other = copy.deepcopy(module)
    steps = [m.wrap(module), m.wrap(other)]
    with torch.no_grad():
        other[0].weight.mul_(2)
    for n in range(4):
        x, _ = batch(n)
        for step, net in zip(steps, (module, other), strict=True):
            twin = copy.deepcopy(net)
            net.zero_grad()
            twin.zero_grad()
            step(x).sum().backward()
            twin(x).sum().backward()
            same(gradients(net), gradients(twin))
