"""Gradients through recordings: what a training loop does."""

from __future__ import annotations

import copy
import gc
import warnings
import weakref

import torch
from torch import nn

from cudalens.graphs import GraphManager
from graph_scenarios.stage import counts, fails, reason_row, reasons, recordings, same, scenario, values


def network(dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Linear(6, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Dropout(dropout), nn.LayerNorm(8), nn.Linear(8, 3)
    ).cuda()


def small() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 3), nn.Tanh()).cuda()


def batch(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(n)
    return torch.randn(5, 6, generator=draw).cuda(), torch.randint(3, (5,), generator=draw).cuda()


def gradients(module: nn.Module) -> list[torch.Tensor | None]:
    return [None if p.grad is None else p.grad.clone() for p in module.parameters()]


@scenario
def a_forward_and_its_backward_are_a_pair(m: GraphManager) -> None:
    w, v = (values().requires_grad_() for _ in range(2))
    step = m.wrap(lambda x: (x * w).sin().sum())
    for n in range(6):
        x = values() + n
        w.grad = v.grad = None
        loss, expected = step(x), (x * v).sin().sum()
        same(loss, expected)
        loss.backward()
        expected.backward()
        same(w.grad, v.grad)
        del loss
    rows = recordings(m)
    assert rows["mode"].tolist() == ["forward", "backward"]
    assert counts(step) == (2, 2, 7, 0)


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
def gradients_add_up_over_backwards(m: GraphManager) -> None:
    module, twin = small(), small()
    step = m.wrap(module)
    for n in range(9):
        if n % 3 == 0:
            module.zero_grad()
            twin.zero_grad()
        x, y = batch(n)
        nn.functional.cross_entropy(step(x), y).backward()
        nn.functional.cross_entropy(twin(x), y).backward()
        same(gradients(module), gradients(twin))
    assert counts(step)[3] == 0


@scenario
def a_gradient_that_was_kept_is_not_overwritten(m: GraphManager) -> None:
    """What `.grad` is bound to belongs to the user, whatever the next backward writes."""
    w = values().requires_grad_()
    step = m.wrap(lambda x: (x * w).sum())
    for n in range(8):
        w.grad = None
        step(values() + n).backward()
        same(w.grad, values() + n)
        kept = w.grad
        w.grad = None
        step(values() * 10).backward()
        same(w.grad, values() * 10)
        try:
            same(kept, values() + n)
        except RuntimeError as error:  # or it says that it is gone
            assert "overwritten" in str(error)  # noqa: PT017


@scenario
def gradients_of_arguments(m: GraphManager) -> None:
    step = m.wrap(lambda a, b: (a * b).tanh())
    for n in range(5):
        a, b = (values() / 10 + n).requires_grad_(), (values() / 7).requires_grad_()
        c, d = (t.detach().clone().requires_grad_() for t in (a, b))
        grad = values() - n
        step(a, b).backward(grad)
        (c * d).tanh().backward(grad)
        same((a.grad, b.grad), (c.grad, d.grad))
    assert counts(step)[2] == 5


@scenario
def gradients_flow_on_through_arguments(m: GraphManager) -> None:
    step = m.wrap(lambda a: a.sin())
    for n in range(5):
        w, v = ((values() + n).requires_grad_() for _ in range(2))
        (step(w * 2) * 3).sum().backward()
        ((v * 2).sin() * 3).sum().backward()
        same(w.grad, v.grad)


@scenario
def two_functions_in_one_loss(m: GraphManager) -> None:
    w, v = (values().requires_grad_() for _ in range(2))
    a, b = m.wrap(lambda x: (x * w).sin()), m.wrap(lambda p: (p * w).cos())
    for n in range(6):
        w.grad = v.grad = None
        x = values() + n
        p = a(x)
        (b(p).sum() + p.sum()).backward()
        q = (x * v).sin()
        ((q * v).cos().sum() + q.sum()).backward()
        same(w.grad, v.grad)
        del p, q
    assert (counts(a)[3], counts(b)[3]) == (0, 0)
    assert counts(a)[2] >= 4


@scenario
def one_function_twice_in_one_loss(m: GraphManager) -> None:
    w, v = (values().requires_grad_() for _ in range(2))
    step = m.wrap(lambda x: (x * w).sin())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for n in range(6):
            w.grad = v.grad = None
            x = values() + n
            (step(x).sum() + step(x + 1).sum()).backward()
            ((x * v).sin().sum() + ((x + 1) * v).sin().sum()).backward()
            same(w.grad, v.grad)
    assert counts(step)[3] == 0


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
def an_unused_output_has_no_gradient(m: GraphManager) -> None:
    w, u, v, t = (values().requires_grad_() for _ in range(4))

    def of(a, b):
        return lambda x: ((x * a).sin(), (x * b).cos(), (x * a * b).sum())

    step, function = m.wrap(of(w, u)), of(v, t)
    for n in range(12):
        w.grad = u.grad = v.grad = t.grad = None
        found, expected = step(values() + n), function(values() + n)
        chosen = ((0,), (1,), (0, 2))[n % 3]
        sum(found[k].sum() for k in chosen).backward()
        sum(expected[k].sum() for k in chosen).backward()
        same([None if p.grad is None else p.grad for p in (w, u)], [p.grad for p in (v, t)])
        del found, expected
    assert counts(step)[3] == 0


@scenario
def an_unused_parameter_has_no_gradient(m: GraphManager) -> None:
    w, unused = values().requires_grad_(), values().requires_grad_()
    step = m.wrap(lambda x, y: (x * w + unused.detach()).sum())
    for n in range(5):
        w.grad = None
        y = values().requires_grad_()
        step(values() + n, y).backward()
        same(w.grad, values() + n)
        assert unused.grad is None
        assert y.grad is None


@scenario
def only_some_arguments_need_gradients(m: GraphManager) -> None:
    step = m.wrap(lambda a, b, c: (a * b * c).sum())
    for n in range(12):
        given = [(values() + n + k).requires_grad_(k == n % 3) for k in range(3)]
        step(*given).backward()
        expected = [t.detach() for t in given]
        others = [t for k, t in enumerate(expected) if k != n % 3]
        same(given[n % 3].grad, others[0] * others[1])
        assert sum(t.grad is not None for t in given) == 1


@scenario
def a_graph_that_is_retained_is_differentiated_again(m: GraphManager) -> None:
    w = values().requires_grad_()
    step = m.wrap(lambda x: (x * w).sin().sum())
    for n in range(6):
        x = values() + n
        w.grad = None
        loss = step(x)
        loss.backward(retain_graph=True)
        once = w.grad.clone()
        loss.backward()
        same(once, x * (x * w.detach()).cos())
        same(w.grad, once * 2)
        fails(loss.backward, RuntimeError, "second time")
        del loss
    assert counts(step)[3] == 0


@scenario
def gradients_by_torch_autograd_grad(m: GraphManager) -> None:
    w = values().requires_grad_()
    step = m.wrap(lambda x: (x * w).sin())
    for n in range(6):
        x = (values() + n).requires_grad_()
        found = torch.autograd.grad(step(x).sum(), [w, x])
        expected = torch.autograd.grad((x * w).sin().sum(), [w, x])
        same(found, expected)
        (alone,) = torch.autograd.grad(step(x).sum(), [w])
        same(alone, expected[0])


@scenario
def second_derivatives_are_refused_in_words(m: GraphManager) -> None:
    w = values().requires_grad_()
    step = m.wrap(lambda x: (x * w).sin().sum())
    for _ in range(3):
        loss = step(values())
        loss.backward()
        del loss
    (grad,) = torch.autograd.grad(step(values()), [w], create_graph=True)
    fails(grad.sum().backward, RuntimeError, "create_graph=True", ".fn")
    del grad
    loss = step(values())
    w.grad = None
    loss.backward()
    same(w.grad, values() * (values() * w.detach()).cos())


@scenario
def a_backward_that_is_never_called_holds_the_step_and_says_so(m: GraphManager) -> None:
    w = values().requires_grad_()
    step = m.wrap(lambda x: x * w, name="forgetful")
    held = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(5):
            held.append(step(values()))
    assert [str(w.message) for w in caught if "forgetful" in str(w.message)]
    text = next(str(w.message) for w in caught if "forgetful" in str(w.message))
    assert "backward" in text
    assert "no_grad" in text
    assert reason_row(m, "PENDING_BACKWARD")["count"] >= 2
    for out in held:
        same(out, values() * values() + 0 * w)


@scenario
def dropped_outputs_do_not_hold_the_step(m: GraphManager) -> None:
    w = values().requires_grad_()
    step = m.wrap(lambda x: x * w)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(6):
            same(step(values() + n), (values() + n) * w)
    assert counts(step) == (1, 1, 4, 0)


@scenario
def marks_begin_steps_in_spite_of_a_pending_backward(m: GraphManager) -> None:
    w = values().requires_grad_()
    step = m.wrap(lambda x: x * w)
    for n in range(5):
        m.mark_step_begin()
        out = step(values() + n)
        same(out, (values() + n) * w)
    assert counts(step) == (1, 1, 3, 0)
    assert not reasons(m)


@scenario
def a_late_backward_of_an_overwritten_step_raises(m: GraphManager) -> None:
    """Never gradients of other numbers than the forward's."""
    w = values().requires_grad_()
    step = m.wrap(lambda x: (x * w).sin().sum(), name="forward")
    for _ in range(3):
        step(values()).backward()
    m.mark_step_begin()
    old = step(values())
    m.mark_step_begin()
    new = step(values() * 2)
    w.grad = None
    fails(old.backward, RuntimeError, "forward", "overwritten")
    w.grad = None
    new.backward()
    same(w.grad, values() * 2 * (values() * 2 * w.detach()).cos())


@scenario
def a_late_backward_that_saved_only_arguments_is_right_or_raises(m: GraphManager) -> None:
    w = values().requires_grad_()
    step = m.wrap(lambda x: x * w)
    for n in range(6):
        m.mark_step_begin()
        old = step(values() + n)
        m.mark_step_begin()
        new = step(values() * 100)
        w.grad = None
        try:
            old.sum().backward()
        except RuntimeError as error:
            assert "overwritten" in str(error)  # noqa: PT017
        else:
            same(w.grad, values() + n)
        del old, new


@scenario
def a_parameter_that_changes_between_forward_and_backward(m: GraphManager) -> None:
    w, v = (values().requires_grad_() for _ in range(2))
    step = m.wrap(lambda x: (x * w).sum())
    for _ in range(3):
        step(values()).backward()
    for weight, function in ((w, step), (v, lambda x: (x * v).sum())):
        weight.grad = None
        x = values().requires_grad_()
        loss = function(x)
        with torch.no_grad():
            weight.mul_(2)
        try:
            loss.backward()
        except RuntimeError as error:  # eager says that a saved tensor was modified
            assert "modified by an inplace operation" in str(error)  # noqa: PT017
        else:
            raise AssertionError("gradients of other weights than the forward's")
        del loss


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
            with torch.autocast("cuda", dtype=torch.float16):
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
            with torch.autocast("cuda", dtype=torch.float16):
                assert step(x).dtype is torch.float16
                same(step(x), layer(x))
            with torch.autocast("cuda", dtype=torch.bfloat16):
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
def custom_autograd_functions(m: GraphManager) -> None:
    class Clipped(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clamp(0, 3)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * (x < 3) * 7

    w = values().requires_grad_()
    step = m.wrap(lambda x: Clipped.apply(x * w))
    for n in range(5):
        w.grad = None
        x = values() / 5 + n / 10
        step(x).sum().backward()
        same(w.grad, x * ((x * w) < 3) * 7)
    assert counts(step)[3] == 0


@scenario
def in_place_inside_of_a_differentiated_function(m: GraphManager) -> None:
    w, v = (values().requires_grad_() for _ in range(2))

    def of(weight):
        def function(x):
            y = x * weight
            y.add_(1)
            y[2:] *= 3
            return y.sum(), y

        return function

    step = m.wrap(of(w))
    for n in range(5):
        w.grad = v.grad = None
        found, expected = step(values() + n), of(v)(values() + n)
        same(found, expected)
        (found[0] + found[1].sum()).backward()
        (expected[0] + expected[1].sum()).backward()
        same(w.grad, v.grad)
        del found


@scenario
def views_and_arguments_as_differentiable_outputs(m: GraphManager) -> None:
    w, v = (values().requires_grad_() for _ in range(2))

    def of(weight):
        def function(x):
            y = x * weight
            return y, y[2:], y.view(2, 3), x, x[1:], weight

        return function

    step = m.wrap(of(w))
    for n in range(5):
        w.grad = v.grad = None
        x, z = ((values() + n).requires_grad_() for _ in range(2))
        found, expected = step(x), of(v)(z)
        same(found, expected)
        sum((k + 1.0) * out.sum() for k, out in enumerate(found)).backward()
        sum((k + 1.0) * out.sum() for k, out in enumerate(expected)).backward()
        same((w.grad, x.grad), (v.grad, z.grad))
        del found, expected


@scenario
def a_mutated_argument_that_needs_gradients_skips(m: GraphManager) -> None:
    step = m.wrap(lambda a: a.mul_(2).sum(), mutations="copy")
    for n in range(3):
        leaf = (values() + n).requires_grad_()
        step(leaf * 1).backward()
        same(leaf.grad, torch.full((6,), 2.0, device="cuda"))
    assert reasons(m)["MUTATED_INPUT"] >= 1


@scenario
def outputs_without_gradient_beside_some_with(m: GraphManager) -> None:
    w = values().requires_grad_()
    step = m.wrap(lambda x: ((x * w).sum(), (x * w).argmax(), (x * w).detach(), x + 1, 3))
    for n in range(5):
        w.grad = None
        found = step(values() + n)
        assert [getattr(t, "requires_grad", None) for t in found] == [True, False, False, False, None]
        found[0].backward()
        same(w.grad, values() + n)
        del found


@scenario
def gradients_under_no_grad_and_the_reverse(m: GraphManager) -> None:
    w = values().requires_grad_()

    def function(x):
        with torch.enable_grad():
            y = (x * w).sum()
        with torch.no_grad():
            return y, x * w

    step = m.wrap(function)
    for _ in range(4):
        with torch.no_grad():
            found, expected = step(values()), function(values())
            assert [t.requires_grad for t in found] == [t.requires_grad for t in expected]
            same([t.detach() for t in found], [t.detach() for t in expected])
        found = step(values())
        assert [t.requires_grad for t in found] == [True, False]
        found[0].backward()
        del found, expected


@scenario
def a_gradient_inside_of_the_function(m: GraphManager) -> None:
    def function(x):
        with torch.enable_grad():
            t = x.detach().requires_grad_()
            (grad,) = torch.autograd.grad((t.sin() * t).sum(), t)
        return grad

    step = m.wrap(function)
    for n in range(4):
        same(step(values() + n), function(values() + n))
    assert counts(step) == (1, 1, 2, 0)


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
def modules_and_tensors_die_with_their_functions(m: GraphManager) -> None:
    module = small()
    step = m.wrap(module)
    for n in range(3):
        step(batch(n)[0]).sum().backward()
    tokens = [weakref.ref(module), *map(weakref.ref, module.parameters())]
    m.shutdown()
    m.functions.clear()
    del module, step
    gc.collect()
    assert [token() for token in tokens] == [None] * len(tokens)


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
