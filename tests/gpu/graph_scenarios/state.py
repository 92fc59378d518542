"""State around a function: what it keeps, what requires gradients, what moves, how often its Python code runs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from cudalens.graphs import GraphManager, mark_step_begin
from graph_scenarios.stage import counts, reason_row, reasons, same, scenario, values


class Holder:
    """An object of the user's program."""

    def __init__(self) -> None:
        self.n = torch.zeros(6, device="cuda")
        self.num_calls = 0


def linear(*, seed: int = 4) -> nn.Linear:
    torch.manual_seed(seed)
    return nn.Linear(6, 6).cuda()


@scenario
def a_state_that_is_replaced_and_returned_advances_once_per_call(m: GraphManager) -> None:
    holder = Holder()

    def function(x: torch.Tensor) -> torch.Tensor:
        holder.n = holder.n + x
        return holder.n

    step = m.wrap(function)
    for n in range(6):
        same(step(torch.ones_like(holder.n)), torch.full((6,), n + 1.0, device="cuda"))
    row = reason_row(m, "ESCAPED_TENSOR")
    assert "'holder.n'" in row["detail"]
    assert "holder.n = holder.n + x" in row["source"]
    assert counts(step)[1:3] == (0, 0)


@scenario
def a_state_that_is_replaced_advances_once_per_call(m: GraphManager) -> None:
    holder = Holder()

    def function(x: torch.Tensor) -> torch.Tensor:
        holder.n = holder.n + x
        return holder.n * 10

    step = m.wrap(function)
    for n in range(6):
        same(step(torch.ones_like(holder.n)), torch.full((6,), 10.0 * (n + 1), device="cuda"))
        same(holder.n, torch.full((6,), n + 1.0, device="cuda"))


@scenario
def a_list_that_grows_does_so_once_per_call(m: GraphManager) -> None:
    kept: list[torch.Tensor] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        kept.append(x * 2)
        return torch.stack(kept).sum(0)

    step = m.wrap(function)
    for n in range(6):
        same(step(torch.ones(6, device="cuda")), torch.full((6,), 2.0 * (n + 1), device="cuda"))
        assert len(kept) == n + 1


def masks_agree(step: Callable[..., Any], layer: nn.Linear, n: int) -> bool:
    """Whether the backward's dropout mask is the forward's."""
    x = (values() + n).view(1, 6).requires_grad_()
    layer.zero_grad()
    y = step(x)
    y.sum().backward()
    assert layer.bias.grad is not None
    return bool(((y != 0) == (layer.bias.grad != 0)).all())


@scenario
def dropout_in_a_checkpoint_is_the_same_in_forward_and_backward(m: GraphManager) -> None:
    for use_reentrant in (False, True):
        layer = linear()
        net = nn.Sequential(layer, nn.Dropout(0.5))
        step = m.wrap(lambda x, net=net, use=use_reentrant: checkpoint(net, x, use_reentrant=use))
        assert all(masks_agree(step, layer, n) for n in range(6))
        assert counts(step)[1:3] == (0, 0)
    assert reasons(m)["RECOMPUTED"] >= 2


@scenario
def dropout_in_a_checkpoint_of_transformers_has_a_change(m: GraphManager) -> None:
    """Transformers checkpoints the layers of a model in one file, and has a method that ends this."""
    space: dict[str, Any] = {"checkpoint": checkpoint}
    source = "def forward(net, x): return checkpoint(net, x, use_reentrant=False)"
    exec(compile(source, "/packages/transformers/modeling_layers.py", "exec"), space)
    net = nn.Sequential(linear(), nn.Dropout(0.5))
    step = m.wrap(lambda x: space["forward"](net, x))
    for n in range(4):
        step((values() + n).view(1, 6).requires_grad_()).sum().backward()
    row = reason_row(m, "RECOMPUTED")
    assert row["change"].startswith("+ model.gradient_checkpointing_disable()")
    assert row["count"] == 3


@scenario
def a_reentrant_checkpoint_without_dropout_runs_without_a_graph(m: GraphManager) -> None:
    layer, twin = linear(), linear()
    step = m.wrap(lambda x: checkpoint(layer, x, use_reentrant=True))
    for n in range(5):
        for call, net in ((step, layer), (lambda x: twin(x), twin)):
            net.zero_grad()
            call((values() + n).requires_grad_()).sum().backward()
        same(layer.weight.grad, twin.weight.grad)
    assert "use_reentrant=True" in reason_row(m, "RECOMPUTED")["detail"]


@scenario
def a_module_that_is_unfrozen_gets_gradients(m: GraphManager) -> None:
    for num_frozen in (1, 2, 3):
        layer, twin = linear().requires_grad_(False), linear().requires_grad_(False)
        step = m.wrap(layer)
        for n in range(7):
            outs = []
            for call, net in ((step, layer), (twin, twin)):
                net.requires_grad_(n >= num_frozen)
                net.zero_grad()
                out = call(values() + n)
                if n >= num_frozen:
                    out.sum().backward()
                outs.append(out)
            same(*outs)
            same([p.grad for p in layer.parameters()], [p.grad for p in twin.parameters()])
            del out, outs
        assert counts(step)[2] >= 2
    rows = m.frame().query("reason == 'NEW_MODE'")
    assert rows["detail"].str.contains("requires a gradient now").all()


@scenario
def a_previous_output_as_a_leaf_has_its_gradient(m: GraphManager) -> None:
    layer = linear()
    step = m.wrap(layer)
    z, expected = values(), values()
    for _ in range(8):
        z, expected = z.detach().requires_grad_(), expected.detach().requires_grad_()
        leaf = z
        out, want = step(z), layer(expected)
        out.sum().backward()
        want.sum().backward()
        same(leaf.grad, expected.grad)
        assert leaf is z
        same(leaf, expected)
        z, expected = out, want


@scenario
def a_previous_output_as_a_leaf_comes_back_as_itself(m: GraphManager) -> None:
    layer = linear()
    step = m.wrap(lambda x: (x, layer(x)))
    z = values()
    for _ in range(6):
        z = z.detach().requires_grad_()
        again, out = step(z)
        assert again is z
        (again.sum() + out.sum()).backward()
        same(z.grad, layer.weight.detach().sum(0) + 1)
        z = out


@scenario
def a_tensor_with_history_from_outside_is_this_call_s(m: GraphManager) -> None:
    """The gradient goes to what the name holds now, though its memory is that of the recording."""
    w, v = values().requires_grad_(), values().requires_grad_()
    held: dict[str, torch.Tensor] = {}
    step = m.wrap(lambda x: (x * held["h"]).sum())
    for n in range(6):
        w.grad = v.grad = None
        held["h"] = w * (n + 1)
        out, want = step(values()), (values() * (v * (n + 1))).sum()
        out.backward()
        want.backward()
        same((out, w.grad), (want, v.grad))
        del out, want
        held.clear()


@scenario
def generators_and_closures_run_without_a_graph(m: GraphManager) -> None:
    rows, later = m.wrap(lambda x: (row for row in x * 2)), m.wrap(lambda x: lambda: x + 1)
    for n in range(4):
        same(list(rows(values() + n)), list((values() + n) * 2))
        same(later(values() + n)(), values() + n + 1)
    assert counts(rows)[1:3] == counts(later)[1:3] == (0, 0)
    assert reasons(m)["OPAQUE_RESULT"] >= 2


@scenario
def an_empty_tensor_is_no_copy_from_the_host(m: GraphManager) -> None:
    step = m.wrap(lambda x: torch.cat([torch.tensor([], device="cuda"), x * 2]))
    for n in range(4):
        same(step(values() + n), (values() + n) * 2)
    assert counts(step) == (1, 1, 2, 0)


@scenario
def parameters_that_move_are_found(m: GraphManager) -> None:
    layer = linear()
    step = m.wrap(layer)
    with torch.no_grad():
        for n in range(6):
            same(step(values() + n), layer(values() + n))
            if n % 2:
                layer.cpu()
                layer.cuda()
            else:
                layer.bias.data = layer.bias.data * 2
    assert counts(step)[3] == 0


@scenario
def a_forward_whose_results_are_dropped_is_graphed(m: GraphManager) -> None:
    """Functions that keep their own result for the backward (exp, softmax) do not keep it for ever."""
    layer = linear()
    step = m.wrap(lambda x: layer(x).exp().softmax(-1).tanh())
    for n in range(6):
        step(values() + n)
    assert counts(step)[0] <= 2
    assert counts(step)[2] >= 3


@scenario
def a_mark_before_the_first_call_counts(m: GraphManager) -> None:
    m.shutdown()
    mark_step_begin()
    other = GraphManager(m.device)
    step = other.wrap(lambda x: x + 1)
    for n in range(4):
        first, second = step(values() + n), step(values() * 2 + n)
        same((first, second), (values() + n + 1, values() * 2 + n + 1))
        del first, second
        mark_step_begin()
    other.shutdown()


@scenario
def a_mark_for_one_manager_is_not_one_for_a_later_manager(m: GraphManager) -> None:
    mark_step_begin()
    m.shutdown()
    other = GraphManager(m.device)
    step = other.wrap(lambda x: x + 1)
    generations = []
    for n in range(3):
        same(step(values() + n), values() + n + 1)
        generations.append(other.generation)
    assert generations == [generations[0] + n for n in range(3)]
    other.shutdown()


@scenario
def activations_that_are_kept_on_the_host(m: GraphManager) -> None:
    """The reason is at the statement that keeps them there, and its change leaves it out."""
    w = values().requires_grad_()

    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            hidden = x * w
            return hidden.sin().sum()

    step = m.wrap(function)
    for n in range(4):
        w.grad = None
        x = values() + n
        step(x).backward()
        same(w.grad, (x * (w * x).cos()).detach())
    assert counts(step)[2] == 0
    frame = m.frame()
    rows = frame[frame["reason"] == "PAGEABLE_COPY"]
    assert set(rows["change"].str.partition(":")[0]) == {"- with torch.autograd.graph.save_on_cpu(pin_memory=True)"}
    first_line = function.__code__.co_firstlineno
    assert first_line + 1 in {int(place.rpartition(":")[2]) for place in rows["place"]}


@scenario
def sparse_results_keep_their_values_while_other_functions_replay(m: GraphManager) -> None:
    with warnings.catch_warnings():  # torch warns once that compressed layouts are a beta feature
        warnings.simplefilter("ignore")
        torch.eye(2).to_sparse_csr()
    other = m.wrap(lambda x: x.sin() + 1)
    for layout in (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc):
        step = m.wrap(lambda x, layout=layout: x.relu().to_sparse(layout=layout))
        kept = []
        for n in range(4):
            x = values(1 + n, -2, 3, -4).view(2, 2)
            kept.append((step(x), x.relu()))
            other(other(x))
            for found, dense in kept:
                assert found.is_cuda
                same(found.to_dense(), dense)
        assert counts(step) == (1, 0, 0, 3)
        row = m.frame().query("kind == 'skip' and reason == 'ODD_TENSOR'").iloc[-1]
        assert f"{layout} of " in row["detail"]


@scenario
def sparse_gradients_are_kept_while_other_functions_replay(m: GraphManager) -> None:
    torch.manual_seed(0)
    table = nn.Embedding(6, 3, sparse=True).cuda()
    look_up, other = m.wrap(table), m.wrap(lambda x: x.sin() + 1)

    def train(words: torch.Tensor) -> torch.Tensor:
        table.weight.grad = None
        loss = table(words).square().sum()
        loss.backward()
        return loss.detach()

    for forward in (lambda words: look_up(words).square().sum().backward(), m.wrap(train)):
        kept = []
        for n in range(4):
            words = torch.tensor([n, 1, 5], device="cuda")
            table.weight.grad = None
            forward(words)
            expected = torch.zeros_like(table.weight).index_add_(0, words, 2 * table.weight.detach()[words])
            kept.append((table.weight.grad, expected))
            other(other(values()))
            for found, dense in kept:
                same(found.to_dense(), dense)
