"""Tensors of classes that handle calls: by ``__torch_dispatch__``, as DTensor does, or ``__torch_function__``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_map

from cudalens import cudagraph
from cudalens.graphs import GraphManager
from graph_scenarios.observed_state import REPLAYS, Expected, Wrap, calls, like_eager
from graph_scenarios.stage import counts, fails, same, scenario, values

_SAME_CLASS = ("detach", "clone", "add_", "zeros_like", "mul_")


class Scaled(torch.Tensor):
    """A tensor that is stored with a factor; operators get the product."""

    @staticmethod
    def __new__(cls, inside: torch.Tensor, factor: torch.Tensor, requires_grad: bool = False) -> Scaled:
        return torch.Tensor._make_wrapper_subclass(
            cls, inside.shape, dtype=inside.dtype, device=inside.device, requires_grad=requires_grad
        )

    def __init__(self, inside: torch.Tensor, factor: torch.Tensor, requires_grad: bool = False) -> None:
        self.inside, self.factor = inside, factor

    def __repr__(self) -> str:
        return "Scaled"

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["inside", "factor"], None

    @staticmethod
    def __tensor_unflatten__(parts: dict[str, torch.Tensor], context: None, *form: Any) -> Scaled:
        return Scaled(parts["inside"], parts["factor"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.partition("::")[2]
        if name in _SAME_CLASS:
            given = tree_map(lambda one: one.inside if isinstance(one, Scaled) else one, args[1:])
            inside = func(args[0].inside, *given, **(kwargs or {}))
            return args[0] if name.endswith("_") else Scaled(inside, args[0].factor)
        args = tree_map(lambda one: one.inside * one.factor if isinstance(one, Scaled) else one, args)
        return func(*args, **(kwargs or {}))


def scaled(**options: Any) -> Scaled:
    return Scaled(values(), torch.tensor(2.0, device="cuda"), **options)


@like_eager(REPLAYS)
def a_tensor_of_such_a_class(wrap: Wrap) -> Any:
    weight = scaled()
    return calls(wrap(lambda x: (x + weight).relu() * weight), lambda: weight.inside.add_(1))


@like_eager(REPLAYS)
def a_tensor_of_such_a_class_that_the_call_makes(wrap: Wrap) -> Any:
    factor = torch.tensor(2.0, device="cuda")
    return calls(wrap(lambda x: Scaled(x * 2, factor).clone() + x))


@like_eager(Expected(reason="STATIC_MOVED", words="weight.factor"))
def a_part_that_is_replaced(wrap: Wrap) -> Any:
    weight = scaled()

    def change() -> None:
        weight.factor = torch.tensor(5.0, device="cuda")

    return calls(wrap(lambda x: x + weight), change)


@like_eager(REPLAYS)
def a_tensor_that_is_replaced(wrap: Wrap) -> Any:
    held = {"weight": scaled()}
    return calls(wrap(lambda x: x + held["weight"]), lambda: held.update(weight=scaled().mul_(3)))


@like_eager(REPLAYS)
def a_value_that_the_operators_of_the_class_read(wrap: Wrap) -> Any:
    factors = [2.0]

    class Listed(Scaled):
        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*(one.inside * factors[0] if isinstance(one, Listed) else one for one in args))

    weight = Listed(values(), values())
    return calls(wrap(lambda x: x + weight), lambda: factors.__setitem__(0, 7.0))


@like_eager(REPLAYS)
def in_place_changes_of_it_are_counted(wrap: Wrap) -> Any:
    weight = scaled()

    def step(x: torch.Tensor) -> torch.Tensor:
        weight.add_(x)
        return x + weight

    return [*calls(wrap(step)), weight._version, weight.inside._version, weight.inside.tolist()]


@like_eager(REPLAYS)
def its_gradient_is_made_in_the_call(wrap: Wrap) -> Any:
    weight = scaled(requires_grad=True)
    gradients = []

    def step(x: torch.Tensor) -> torch.Tensor:
        weight.grad = None
        (x * weight).square().sum().backward()
        return x + 1

    graphed = wrap(step)
    for n in range(7):
        graphed(values() + n)
        gradients.append((weight.grad.tolist(), type(weight.grad).__name__))
    return gradients


class Held(torch.Tensor):
    """A tensor with another one inside, and nothing else; operators give such tensors again, as for DTensor."""

    @staticmethod
    def __new__(cls, inside: torch.Tensor) -> Held:
        return torch.Tensor._make_wrapper_subclass(
            cls, inside.shape, inside.stride(), dtype=inside.dtype, device=inside.device,
            requires_grad=inside.requires_grad,
        )  # fmt: skip

    def __init__(self, inside: torch.Tensor) -> None:
        self.inside = inside.detach()

    def __repr__(self) -> str:
        return "Held"

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["inside"], None

    @staticmethod
    def __tensor_unflatten__(parts: dict[str, torch.Tensor], context: None, *form: Any) -> Held:
        return Held(parts["inside"])

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = tree_map(lambda one: one.inside if isinstance(one, Held) else one, (args, kwargs or {}))
        out = func(*given[0], **given[1])
        if func._schema.name.endswith("_"):
            return args[0]
        return tree_map(lambda one: Held(one) if isinstance(one, torch.Tensor) else one, out)


def _training_of_held(wrap: Wrap, read: Callable[[Held, int], Any]) -> list[Any]:
    weight = Held(values().requires_grad_())

    def step(x: torch.Tensor) -> torch.Tensor:
        weight.grad = None
        (Held(x) * weight).square().sum().backward()
        with torch.no_grad():
            weight.sub_(weight.grad, alpha=0.01)
        return x + 1

    graphed, found = wrap(step), []
    for n in range(9):
        graphed(values() + n)
        found.append((read(weight, n), weight.inside.tolist(), weight._version))
    return found


@like_eager(REPLAYS)
def a_gradient_of_such_a_class(wrap: Wrap) -> Any:
    return _training_of_held(wrap, lambda weight, n: (type(weight.grad).__name__, weight.grad.inside.tolist()))


@like_eager(REPLAYS)
def a_gradient_of_such_a_class_that_the_program_keeps(wrap: Wrap) -> Any:
    kept: list[Any] = []
    _training_of_held(wrap, lambda weight, n: kept.append(weight.grad))
    return [one.inside.tolist() for one in kept]


@like_eager(REPLAYS)
def the_tensor_inside_of_a_gradient_that_the_program_keeps(wrap: Wrap) -> Any:
    kept: list[Any] = []
    _training_of_held(wrap, lambda weight, n: kept.append(weight.grad.inside))
    return [one.tolist() for one in kept]


@like_eager(Expected(reason="GRADIENT_HELD"))
def a_view_of_the_tensor_inside_of_a_gradient(wrap: Wrap) -> Any:
    kept: list[Any] = []
    found = _training_of_held(wrap, lambda weight, n: kept.append(weight.grad.inside[:2]) if n == 5 else None)
    return found, [one.tolist() for one in kept]


@scenario
def its_gradient_after_the_call_is_that_of_eager_execution(m: GraphManager) -> None:
    """A recorded backward would not compute it."""
    weight = scaled(requires_grad=True)
    step = m.wrap(lambda x: (x * weight).square())
    for n in range(5):
        weight.grad = None
        step(values() + n).sum().backward()
        same(weight.grad, 2 * (values() + n).square() * values() * 2)
    assert counts(step)[2] == 0


@like_eager(REPLAYS)
def gradients_through_a_frozen_one(wrap: Wrap) -> Any:
    weight, found = scaled(), []
    step = wrap(lambda x: (x * weight).square())
    for n in range(7):
        x = (values() + n).requires_grad_()
        step(x).sum().backward()
        assert x.grad is not None
        found.append(x.grad.tolist())
    return found


@like_eager(Expected(replays=False, reason="OPAQUE_RESULT", words="Scaled"))
def one_that_is_returned(wrap: Wrap) -> Any:
    weight = scaled()
    return [str((one + values()).tolist()) for one in [wrap(lambda x: weight.clone())(values()) for _ in range(5)]]


@like_eager(Expected(replays=False, reason="HIDDEN_TENSOR", words="operators of"))
def operators_that_no_mode_sees(wrap: Wrap) -> Any:
    def step(x: torch.Tensor) -> torch.Tensor:
        with no_dispatch():
            x.size()
        return x * 2

    return calls(wrap(step))


@scenario
def one_that_is_changed_between_forward_and_backward(m: GraphManager) -> None:
    weight = scaled()
    step = m.wrap(lambda x: (x * weight).square())
    for n in range(6):
        x = (values() + n).requires_grad_()
        result = step(x)
        if n < 5:
            result.sum().backward()
        else:
            weight.add_(1)
            fails(lambda result=result: result.sum().backward(), RuntimeError, "modified by an inplace operation")


@scenario
def a_part_that_is_changed_between_forward_and_backward(m: GraphManager) -> None:
    """Autograd does not notice it: the gradient is that of the changed part."""
    weight = scaled()
    step = m.wrap(lambda x: x * weight)
    for n in range(6):
        x = (values() + n).requires_grad_()
        result = step(x)
        weight.inside.add_(1)
        result.sum().backward()
        assert x.grad is not None
        same(x.grad, (values() + n + 1) * 2)


class Allowing(torch.Tensor):
    """A class of tensors that allows some functions, and notes which are called."""

    allowed: ClassVar[tuple[Any, ...]] = (torch.Tensor.mul, torch.Tensor.add)
    seen: ClassVar[list[str]] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.seen.append(func.__name__)
        if func not in cls.allowed:
            raise TypeError(f"{func} is not allowed")
        return super().__torch_function__(func, types, args, kwargs or {})


@scenario
def a_class_of_tensors_sees_only_the_calls_of_the_program(m: GraphManager) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.mul(2).add(1)

    for step in (m.wrap(function), cudagraph(function)):
        for _ in range(3):
            Allowing.seen.clear()
            result = step(values().as_subclass(Allowing))
            assert Allowing.seen == ["mul", "add"]
            assert type(result) is Allowing
            same(result.as_subclass(torch.Tensor), values() * 2 + 1)
