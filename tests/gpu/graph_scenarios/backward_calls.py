"""When a backward runs: late, never, twice, and what it adds up."""

from __future__ import annotations

import gc
import warnings
import weakref
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from cudalens.graphs import GraphManager
from graph_scenarios.networks import batch, gradients, small
from graph_scenarios.stage import counts, fails, reason_row, reasons, same, scenario, values


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


def _backwards_of_two_results(function: Any, order: tuple[int, ...], **options: Any) -> list[Any]:
    """The gradients after each backward of one result, or the first words of its error, over some calls."""
    found: list[Any] = []
    for n in range(6):
        results = function(values() + n)
        for position in order:
            try:
                results[position].sum().backward(**options)
            except RuntimeError as error:
                found.append(str(error)[:40])
                break
            found.append([w.grad.tolist() if w.grad is not None else None for w in function.weights])
        for w in function.weights:
            w.grad = None
    return found


def _two_results(shared: bool) -> Any:
    first, second = values().requires_grad_(), (values() * 2).requires_grad_()

    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = (x * first).sin()
        return hidden.exp(), (hidden if shared else x * first) * second

    function.weights = [first, second]  # type: ignore[attr-defined]
    return function


def _compare_backwards(m: GraphManager, shared: bool, order: tuple[int, ...], **options: Any) -> None:
    function, twin = _two_results(shared), _two_results(shared)
    step = m.wrap(function)
    step.weights = function.weights
    assert _backwards_of_two_results(step, order, **options) == _backwards_of_two_results(twin, order, **options)
    assert counts(step)[2] > 0


@scenario
def results_that_share_no_saved_tensor_have_backwards_of_their_own(m: GraphManager) -> None:
    for order in [(0, 1), (1, 0), (0,), (1, 0, 1)]:
        _compare_backwards(m, False, order)


@scenario(check=True)
def results_that_share_no_saved_tensor_are_checked(m: GraphManager) -> None:
    _compare_backwards(m, False, (0, 1))


@scenario
def a_result_that_is_changed_after_the_backward_of_another_raises(m: GraphManager) -> None:
    w = values().requires_grad_()
    for wrap in (m.wrap, lambda function: function):
        function = wrap(lambda x: ((x * w).exp(), (x + w).exp()))
        for n in range(4):
            first, second = function(values() + n)
            first.sum().backward()
            second.mul_(2)
            fails(second.sum().backward, RuntimeError, "modified by an inplace operation")


@scenario
def parameters_of_one_result_are_stepped_before_the_backward_of_another(m: GraphManager) -> None:
    """As an actor and a critic are trained; a parameter that the second backward needs is an error."""

    def train(wrap: Any, late: bool) -> list[Any]:
        torch.manual_seed(0)
        actor, critic = (nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 1)).cuda() for _ in range(2))
        losses, found = wrap(lambda x: (actor(x).mean(), critic(x).pow(2).mean())), []
        for n in range(6):
            first, second = losses(values() + n)
            for loss, module in ((first, critic if late else actor), (second, critic)):
                try:
                    loss.backward()
                except RuntimeError as error:
                    found.append("modified by an inplace operation" in str(error))
                with torch.no_grad():
                    for parameter in module.parameters():
                        parameter.mul_(0.9)
                found.append([None if p.grad is None else p.grad.tolist() for p in module.parameters()])
        return found

    for late in (False, True):
        assert train(m.wrap, late) == train(lambda function: function, late)
    assert any(function.counts.replays for function in m.functions)


@scenario
def a_second_backward_through_a_shared_saved_tensor_raises(m: GraphManager) -> None:
    for order in [(0, 1), (1, 0)]:
        _compare_backwards(m, True, order)


@scenario
def results_have_backwards_of_a_graph_that_is_retained(m: GraphManager) -> None:
    for shared in (True, False):
        _compare_backwards(m, shared, (0, 1, 0), retain_graph=True)


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
def a_hook_of_a_parameter_that_the_results_do_not_depend_on(m: GraphManager) -> None:
    w, other = values().requires_grad_(), values().requires_grad_()
    average, seen = values(), []

    def forward(x: torch.Tensor) -> torch.Tensor:
        average.lerp_(other.detach(), 0.1)
        return (x * w).sum()

    step = m.wrap(forward)
    for n in range(6):
        if n == 3:
            other.register_hook(seen.append)
            other.register_post_accumulate_grad_hook(seen.append)
        step(values() + n).backward()
    assert counts(step)[2] == 4
    assert seen == []
    assert other.grad is None


@scenario
def a_hook_of_a_parameter_of_the_result_that_is_not_differentiated(m: GraphManager) -> None:
    w, other = values().requires_grad_(), values().requires_grad_()
    seen: list[Any] = []
    step = m.wrap(lambda x: ((x * w).sum(), (x * other).sum()))
    for n in range(8):
        if n == 4:
            hook = other.register_hook(lambda gradient: seen.append(gradient.tolist()))
        if n == 6:
            hook.remove()
        first, second = step(values() + n)
        first.backward()
        if n % 2:
            second.backward()
    assert seen == [(values() + 5).tolist()]
    assert reasons(m)["UNEVEN_GRADIENT"] == 2  # without a graph while there is a hook
    assert counts(step)[2] == 5


class _ReturnsZeros(torch.autograd.Function):
    """Gets zeros, and not None, for a result without a gradient, and passes them on."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        return grads[0] * 2


@scenario
def an_argument_of_the_result_that_is_not_differentiated_is_computed_by_another_parameter(m: GraphManager) -> None:
    for depends in (True, False):  # the second result on the second argument
        w, other = values().requires_grad_(), values().requires_grad_()
        step = m.wrap(lambda x, y, depends=depends: (x.sin().sum(), (y.sin() if depends else y.detach()).sum()))
        for n in range(5):
            first, _ = step(w * n, _ReturnsZeros.apply(other))
            first.backward()
            assert other.grad is None, n
        assert (counts(step)[2] > 0) is not depends


@scenario
def a_checkpoint_around_functions_calls_them_again_in_the_backward(m: GraphManager) -> None:
    """Each is called again before the backward has used the results of the others: no step begins there."""
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(6, 6), nn.Tanh()).cuda() for _ in range(3)]
    weights = [layer[0].weight for layer in layers]

    def weight_gradients(functions: list[Any], x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        hidden = x.clone().requires_grad_()
        for function in functions:
            hidden = checkpoint(function, hidden, use_reentrant=True)
        for weight in weights:
            weight.grad = None
        hidden.sum().backward()
        return tuple(weight.grad.clone() for weight in weights)

    steps = [m.wrap(layer) for layer in layers]
    for n in range(8):
        x = values() * n
        same(weight_gradients(steps, x), weight_gradients(layers, x))
    assert all(counts(step)[2] >= 6 for step in steps)


@scenario
def a_hook_of_a_backward_calls_the_function_whose_backward_runs(m: GraphManager) -> None:
    w = values().requires_grad_()
    step = m.wrap(lambda x: x * w)
    found = []

    def call(gradient: torch.Tensor) -> None:
        found.append(step(values()).detach().clone())

    for n in range(5):
        x = (values() + n).requires_grad_()
        x.register_hook(call)
        w.grad = None
        step(x).sum().backward()
        same((x.grad, w.grad), (w.detach(), x.detach()))
        same(found[-1], (values() * w).detach())
    assert counts(step)[2] >= 4
