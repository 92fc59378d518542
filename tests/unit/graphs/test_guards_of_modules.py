"""Guards of modules: sub-modules, hooks and tables of attributes, however a program replaces them."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from cudalens.graphs.guards import guard_set
from cudalens.graphs.guards.comparing import PythonCompared
from cudalens.graphs.guards.guard_set import GuardSet
from cudalens.graphs.guards.reads import find_reads


class Scaled(nn.Module):
    """A module that is equal to others of its number."""

    def __init__(self, scale: float = 2.0) -> None:
        super().__init__()
        self.scale, self.layer = scale, nn.Linear(2, 2)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scaled) and other.scale == self.scale

    __hash__ = nn.Module.__hash__

    def forward(self, x: Any) -> Any:
        return self.layer(x) * self.scale


def first(module: Any, inputs: Any) -> None:
    """A hook."""


def second(module: Any, inputs: Any) -> None:
    """Another hook."""


def other_hook(model: nn.Module) -> None:
    """The number of hooks stays."""
    model[1]._forward_pre_hooks.clear()
    model[1].register_forward_pre_hook(second)


def other_function_of_a_hook(model: nn.Module) -> None:
    """The number of the hook stays, too."""
    hooks = model[1]._forward_pre_hooks
    hooks[next(iter(hooks))] = second


def hooks_in_another_order(model: nn.Module) -> None:
    """The first one runs last."""
    model[1]._forward_pre_hooks.move_to_end(next(iter(model[1]._forward_pre_hooks)))


def no_hooks_in_another_table(model: nn.Module) -> None:
    """What programs write to remove all hooks."""
    model[1]._forward_pre_hooks = OrderedDict()


def hook_without_a_handle(model: nn.Module) -> None:
    """No number is taken."""
    model[0]._forward_hooks[-1] = lambda *given: None


def other_order(model: nn.Module) -> None:
    """The same sub-modules under the same names."""
    model._modules["0"] = model._modules.pop("0")


def equal_module(model: nn.Module) -> None:
    """Equal for the program, with other weights."""
    model[2] = Scaled()


def other_table_of_modules(model: nn.Module) -> None:
    """In place of the one that was read."""
    model._modules = {**model._modules, "1": nn.ReLU()}


def other_table_of_parameters(model: nn.Module) -> None:
    """In place of the one that was read."""
    model[0]._parameters = {**model[0]._parameters, "bias": None}


def other_table_of_buffers(model: nn.Module) -> None:
    """In place of the one that was read."""
    model[3]._buffers = dict.fromkeys(model[3]._buffers)


def parameters_in_another_order(model: nn.Module) -> None:
    """As ``parameters()`` gives them."""
    model[0]._parameters["weight"] = model[0]._parameters.pop("weight")


def attributes_of_another(model: nn.Module) -> None:
    """All at once."""
    model[2].__dict__ = Scaled(3.0).__dict__


CHANGES: list[Callable[[Any], None]] = [
    other_hook, other_function_of_a_hook, hooks_in_another_order, no_hooks_in_another_table, hook_without_a_handle,
    other_order, equal_module, other_table_of_modules, other_table_of_parameters, other_table_of_buffers,
    parameters_in_another_order, attributes_of_another,
]  # fmt: skip


def model() -> nn.Sequential:
    made = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), Scaled(), nn.BatchNorm1d(2))
    made[1].register_forward_pre_hook(first)
    made[1].register_forward_pre_hook(lambda *given: None)
    return made


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_change_is_found(change: Callable[[Any], None]) -> None:
    changed = model()
    guards = GuardSet(find_reads([("", changed)]))
    assert guards.hold()
    change(changed)
    assert not guards.hold()
    assert guards.difference() is not None


def test_another_model_changes_nothing() -> None:
    unchanged = model()
    guards = GuardSet(find_reads([("", unchanged)]))
    for change in CHANGES:
        change(model())
        assert guards.hold(), change.__name__


def number_of_another(model: nn.Module) -> None:
    """Read by ``forward``."""
    model[2].scale = 3.0


def equal_number(model: nn.Module) -> None:
    """Another object that is equal."""
    model[2].scale = float("2.0")


def number_of_another_type(model: nn.Module) -> None:
    """Equal in Python only."""
    model[2].scale = 2


def unread_number(model: nn.Module) -> None:
    """No code has its name."""
    model[2].unread = getattr(model[2], "unread", 0)


def other_class(model: nn.Module) -> None:
    """With the same attributes."""
    model[1].__class__ = nn.ReLU


def another_module_behind(model: nn.Module) -> None:
    """The Sequential is longer."""
    model.append(nn.Identity())


def no_modules(model: nn.Module) -> None:
    """The last one is gone."""
    del model[len(model) - 1]


def moved_keys(model: nn.Module) -> None:
    """All attributes stay, in another order."""
    for name, value in list(model[2].__dict__.items()):
        del model[2].__dict__[name]
        model[2].__dict__[name] = value


MORE = [
    number_of_another, equal_number, number_of_another_type, unread_number, other_class, another_module_behind,
    no_modules, moved_keys,
]  # fmt: skip

TABLES = (
    "_modules", "_parameters", "_buffers", "_forward_hooks", "_forward_pre_hooks", "_backward_hooks",
    "_backward_pre_hooks",
)  # fmt: skip


def observed(module: nn.Module) -> Any:
    """All of a model that a replay depends on; the objects are kept, so that no address is used again."""
    held = module.__dict__
    tables = [(Same(held[name]), [(key, _item(name, value)) for key, value in held[name].items()]) for name in TABLES]
    numbers = {name: (type(held[name]), held[name]) for name in ("scale", "eps", "momentum") if name in held}
    inside = [observed(child) for child in module._modules.values()]
    return type(module), Same(held), sorted(set(held) - {"training"}), tables, numbers, inside


class Same:
    """An object that is equal to itself alone."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    __hash__ = None


def _item(table: str, value: Any) -> Any:
    """Parameters and buffers are compared elsewhere, by their addresses."""
    return value is None if table in ("_parameters", "_buffers") else Same(value)


@settings(max_examples=examples(200), deadline=None)
@given(names=st.lists(st.sampled_from([*CHANGES, *MORE]), max_size=4), is_compiled=st.booleans())
def test_any_change_is_found(names: list[Callable[[Any], None]], is_compiled: bool) -> None:
    changed = model()
    with pytest.MonkeyPatch.context() as patch:
        if not is_compiled:
            patch.setattr(guard_set, "Compared", PythonCompared)
        guards, before = GuardSet(find_reads([("", changed)])), observed(changed)
        for change in names:
            with contextlib.suppress(
                LookupError, AttributeError, TypeError, StopIteration
            ):  # what an earlier change removed
                change(changed)
            assert guards.hold() == (observed(changed) == before)
            assert (guards.difference() is None) == guards.hold()
