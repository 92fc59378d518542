"""How results are related to arguments, outer tensors and each other: by memory, by autograd, by identity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from cudalens.graphs import GraphManager
from graph_scenarios.stage import recordings, same, scenario, values

Function = Callable[..., Any]


@dataclass(frozen=True)
class Relations:
    """What autograd and memory say of one result.

    Attributes:
        requires_grad: Whether it does.
        is_leaf: Whether autograd has no history of it.
        is_view: Whether autograd takes it for a view.
        shares_memory: With which of the other tensors, by position.
        shares_version: Whose version counter changes with its own.
        is_same: Which of the other tensors it is.
    """

    requires_grad: bool
    is_leaf: bool
    shares_memory: tuple[int, ...]
    shares_version: tuple[int, ...]
    is_same: tuple[int, ...]


def relations(results: Sequence[Any], others: Sequence[torch.Tensor]) -> list[Relations]:
    """Of each result, to the arguments and outer tensors in `others` and to the results before it."""
    found, known = [], list(others)
    for result in results:
        if not isinstance(result, torch.Tensor):
            continue
        address = result.untyped_storage().data_ptr()
        found.append(
            Relations(
                result.requires_grad,
                result.is_leaf,
                tuple(n for n, other in enumerate(known) if other.untyped_storage().data_ptr() == address),
                tuple(n for n, other in enumerate(known) if _share_version(result, other)),
                tuple(n for n, other in enumerate(known) if other is result),
            )
        )
        known.append(result)
    return found


def _share_version(a: torch.Tensor, b: torch.Tensor) -> bool:
    before = a._version, b._version
    torch.autograd.graph.increment_version(a)
    changed = b._version != before[1]
    torch._C._autograd._unsafe_set_version_counter((a, b), before)
    return changed


def make(n: int, *, grad: bool, is_leaf: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
    """An argument of call `n`, and the tensor that gradients arrive at."""
    source = (values() + n).requires_grad_(grad)
    return (source if is_leaf else source * 1), source


def differentiate(results: Sequence[Any]) -> None:
    """Backward through the sum of all that have gradients, each with another weight."""
    parts = [
        (k + 1.0) * r.abs().sum() for k, r in enumerate(results) if isinstance(r, torch.Tensor) and r.requires_grad
    ]
    if parts:
        sum(parts[1:], parts[0]).backward()


def compare(m: GraphManager, of: Callable[[torch.Tensor], Function], *, grad: bool = True, is_leaf: bool = True) -> Any:
    """A function with and without graphs, five times: values, relations and gradients are equal."""
    w, v = (values().requires_grad_() for _ in range(2))
    step, function = m.wrap(of(w)), of(v)
    for n in range(5):
        (x, x_source), (y, y_source) = (make(n, grad=grad, is_leaf=is_leaf) for _ in range(2))
        found, expected = step(x), function(y)
        same(found, expected)
        assert relations(found, [x, w]) == relations(expected, [y, v]), n
        w.grad = v.grad = None
        differentiate(found)
        differentiate(expected)
        same((w.grad, x_source.grad), (v.grad, y_source.grad))
        del found, expected
    return step


def inner_leaf(x: torch.Tensor) -> torch.Tensor:
    return (x * 3).detach().requires_grad_()


def untracked(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return x.view(2, 3)


KINDS: dict[str, Callable[[torch.Tensor], Function]] = {
    "a detached argument": lambda w: lambda x: (x * 2, x.detach()),
    "an argument and its detached view": lambda w: lambda x: (x * w, x, x.detach()),
    "a detached part": lambda w: lambda x: (x * 2, x.detach()[2:], x[2:].detach(), x[1:]),
    "data": lambda w: lambda x: (x * w, x.data, w.data),
    "a view made without gradients": lambda w: lambda x: (x * 2, untracked(x), untracked(w)),
    "view_as and alias": lambda w: lambda x: (x * 2, x.view_as(x), x[:], w.view_as(w)),
    "a parameter": lambda w: lambda x: (x * w, w, w),
    "a detached parameter": lambda w: lambda x: (x * w, w.detach(), w.detach()[1:], w[1:]),
    "a part of a parameter": lambda w: lambda x: (x * 2, w[2:], w.view(2, 3)),
    "only views": lambda w: lambda x: ((x * w)[2:], x[1:]),
    "detached result": lambda w: lambda x: (lambda y: (y, y.detach(), y[1:], y.detach()[1:]))(x * w),
    "detached result first": lambda w: lambda x: (lambda y: (y.detach(), y[1:].detach(), y))(x * w),
    "the same result twice": lambda w: lambda x: (lambda y: (y, [y], y.detach()))(x * w),
    "the same argument twice": lambda w: lambda x: (x, x, x * w),
    "parts of one hidden result": lambda w: lambda x: (lambda y: (y[:3], y[2:], y[1:].detach()))(x * w),
    "parts of a chunked result": lambda w: lambda x: tuple((x * w).view(2, 3).unbind(0)),
    "a new leaf": lambda w: lambda x: (x * w, inner_leaf(x)),
    "a leaf on an argument's memory": lambda w: lambda x: (x * 2, x.detach().requires_grad_()),
    "a leaf on a result's memory": lambda w: lambda x: (lambda y: (y, y.detach().requires_grad_()))(x * w),
    "a result without history": lambda w: lambda x: (x * w, x.detach() * 2, torch.zeros_like(x)),
    "other types": lambda w: lambda x: (x * w, x.view(torch.int32), w.view(torch.int32)),
    "complex parts": lambda w: (
        lambda x: (lambda z: (z, z.real, torch.view_as_real(z), z.conj(), z.imag))(torch.complex(x * w, x))
    ),
    "complex of an argument": lambda w: lambda x: (x * w, torch.view_as_complex(x.view(3, 2))),
    "expanded": lambda w: lambda x: (x.expand(2, 6), (x * w).expand(2, 6), w.expand(2, 6)),
    "transposed": lambda w: lambda x: (x.view(2, 3).t(), (x * w).view(2, 3).t(), w.view(2, 3).t()),
}


def _kinds(name: str) -> None:
    of = KINDS[name]

    def run(m: GraphManager) -> None:
        for grad in (True, False):
            for is_leaf in (True, False) if grad else (True,):
                compare(m, of, grad=grad, is_leaf=is_leaf)

    globals()[name.replace(" ", "_").replace("'", "_")] = scenario(run)


for _name in KINDS:
    _kinds(_name)


@scenario
def views_are_tracked_when_they_are_changed_in_place(m: GraphManager) -> None:
    """A change of a result or argument reaches the gradients of its views, as without a graph."""

    def function(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * w
        return y, y[2:], y.view(2, 3), x[1:], y.detach()

    step = m.wrap(function)
    for n in range(5):
        found = []
        for call in (step, function):
            w, x = values().requires_grad_(), (values() + n).requires_grad_()
            y, part, shaped, own, plain = call(x * 1, w)
            y.mul_(2)
            part.mul_(3)
            (y.sum() + part.sum() + shaped.sum() + own.sum()).backward()
            found.append((y, part, shaped, own, plain, w.grad, x.grad))
            del y, part, shaped, own, plain
        same(*found)
        del found


@scenario
def an_in_place_change_of_a_detached_result_is_noticed_by_the_backward(m: GraphManager) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x.exp()
        return y, y.detach()

    step = m.wrap(function)
    for n in range(5):
        for call in (step, function):
            y, plain = call((values() + n).requires_grad_())
            loss = (y * y).sum()
            plain.add_(1)
            message = ""
            try:
                loss.backward()
            except RuntimeError as error:
                message = str(error)
            assert "modified by an inplace operation" in message
            del y, plain, loss


@scenario
def a_returned_argument_is_changed_in_place_afterwards(m: GraphManager) -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x, x.detach(), x[:2], (x * w).sum()

    step = m.wrap(function)
    for n in range(5):
        found = []
        for call in (step, function):
            x, w = values() + n, values().requires_grad_()
            again, plain, part, loss = call(x, w)
            again.mul_(w)
            (x.sum() + part.sum()).backward()
            found.append((x, plain, part, loss, w.grad))
            del again, plain, part, loss
        same(*found)
        del found


@scenario(check=True)
def the_check_compares_relations(m: GraphManager) -> None:
    """The comparison sees a result whose gradient, memory or identity is another than without a graph."""
    kinds = "an argument and its detached view", "detached result", "a detached parameter"
    steps = [compare(m, KINDS[kind]) for kind in kinds]
    checked = recordings(m)["is_equal"].dropna()
    assert len(checked) >= len(steps)
    assert checked.all(), recordings(m)["first_diff"].tolist()
