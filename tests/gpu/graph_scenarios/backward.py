"""Gradients through recordings: of arguments, parameters, views and several functions."""

from __future__ import annotations

import warnings

import torch

from cudalens.graphs import GraphManager
from graph_scenarios.stage import counts, reasons, recordings, same, scenario, values


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
