"""Python values that a function reads: another value gets another recording, and what cannot be compared gets none."""

from __future__ import annotations

import functools
import sys
import types
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from cudalens.graphs import GraphManager
from graph_scenarios.stage import counts, hidden_count, reason_row, reasons, recordings, same, scenario, values

Case = tuple[Callable[..., Any], Callable[[], Any]]
"""A function, and what changes a value that it reads."""

FACTOR = 1.0
CONFIG: dict[str, Any] = {"scale": 1.0, "deep": {"rates": [1.0, 2.0]}}


class Settings:
    """A class whose attribute is read."""

    scale = 1.0


class Slotted:
    """An object without a ``__dict__``."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


@dataclass
class Options:
    """A dataclass."""

    scale: float = 1.0


class Scaled(nn.Module):
    """A module with a number and a property."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.factor, self._offset = nn.Linear(6, 6), 2.0, 1.0

    @property
    def offset(self) -> float:
        return self._offset

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.layer(x) * self.factor + self.offset
        return out


def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def thrice(x: torch.Tensor) -> torch.Tensor:
    return x * 3


helper = twice


def a_global() -> Case:
    def change() -> None:
        global FACTOR
        FACTOR += 1

    return lambda x: x * FACTOR, change


def a_nested_dict() -> Case:
    def change() -> None:
        CONFIG["deep"]["rates"][1] += 1

    return lambda x: x * CONFIG["scale"] + CONFIG["deep"]["rates"][1], change


def a_closure() -> Case:
    scale = 2.0

    def change() -> None:
        nonlocal scale
        scale = 3.0

    return lambda x: x * scale, change


def a_default() -> Case:
    def function(x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
        return x * scale

    def change() -> None:
        function.__defaults__ = (4.0,)

    return function, change


def an_epsilon() -> Case:
    norm = nn.BatchNorm1d(6).cuda().eval()

    def change() -> None:
        norm.eps = 5.0

    return lambda x: norm(x.expand(2, 6)), change


def a_child_module() -> Case:
    net = nn.Sequential(nn.Linear(6, 6), nn.Tanh()).cuda()

    def change() -> None:
        net[1] = nn.Sigmoid()

    return net, change


def a_hook() -> Case:
    net = nn.Sequential(nn.Linear(6, 6), nn.Tanh()).cuda()
    return net, lambda: net[1].register_forward_hook(lambda module, args, out: out * 2)


def a_removed_hook() -> Case:
    net = nn.Sequential(nn.Linear(6, 6), nn.Tanh()).cuda()
    handle = net[1].register_forward_hook(lambda module, args, out: out * 2)
    return net, handle.remove


def a_rebound_forward() -> Case:
    net = nn.Sequential(nn.Linear(6, 6), nn.Tanh()).cuda()

    def change() -> None:
        net[1].forward = lambda x: x * 100

    return net, change


def a_rebound_function() -> Case:
    def change() -> None:
        global helper
        helper = thrice if helper is twice else twice

    return lambda x: helper(x), change


def a_class_attribute() -> Case:
    def change() -> None:
        Settings.scale += 1

    return lambda x: x * Settings.scale, change


def a_slot() -> Case:
    held = Slotted(1.0)

    def change() -> None:
        held.value = 4.0

    return lambda x: x * held.value, change


def a_length() -> Case:
    held = [1, 2, 3]
    return lambda x: x * len(held), lambda: held.append(4)


def a_set() -> Case:
    held = {1, 2}
    return lambda x: x * (3 if 5 in held else 2), lambda: held.add(5)


def a_module_attribute() -> Case:
    net = Scaled().cuda()

    def change() -> None:
        net.factor = 3.0

    return net, change


def a_property() -> Case:
    net = Scaled().cuda()

    def change() -> None:
        net._offset = 3.0

    return net, change


def a_learning_rate() -> Case:
    optimizer = torch.optim.SGD([values().requires_grad_()], lr=0.1)

    def change() -> None:
        optimizer.param_groups[0]["lr"] = 1.0

    return lambda x: x * optimizer.param_groups[0]["lr"], change


def a_scheduler() -> Case:
    optimizer = torch.optim.SGD([values().requires_grad_()], lr=0.5)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)

    def change() -> None:
        optimizer.step()
        schedule.step()

    return lambda x: x * optimizer.param_groups[0]["lr"], change


def a_dataclass() -> Case:
    options = Options()

    def function(x: torch.Tensor) -> torch.Tensor:
        local = options
        return x * local.scale

    def change() -> None:
        options.scale = 2.0

    return function, change


def a_namespace_in_a_namespace() -> Case:
    outer = types.SimpleNamespace(inner=types.SimpleNamespace(scale=2.0))

    def change() -> None:
        outer.inner = types.SimpleNamespace(scale=5.0)

    return lambda x: x * outer.inner.scale, change


def a_partial() -> Case:
    function = functools.partial(lambda x, held: x * held[0], held=[1.0])

    def change() -> None:
        function.keywords["held"][0] = 3.0

    return function, change


def the_type_of_a_number() -> Case:
    held = {"scale": 1}

    def change() -> None:
        held["scale"] = True

    return lambda x: x * (2 if held["scale"] is True else 1), change


def a_tensor_in_a_deque() -> Case:
    held = deque([values()])

    def change() -> None:
        held[0] = values() * 4

    return lambda x: x * held[0], change


def a_tensor_of_a_class() -> Case:
    class Tables:
        first = values()

    def change() -> None:
        Tables.first = values() * 4

    return lambda x: x * Tables.first, change


def a_tensor_in_a_slot() -> Case:
    held = Slotted(values())

    def change() -> None:
        held.value = values() * 4

    return lambda x: x * held.value, change


def the_data_of_a_tensor() -> Case:
    held = values()

    def change() -> None:
        held.data = values() * 4

    return lambda x: x * held, change


CASES: tuple[Callable[[], Case], ...] = (
    a_global,
    a_nested_dict,
    a_closure,
    a_default,
    an_epsilon,
    a_child_module,
    a_hook,
    a_removed_hook,
    a_rebound_forward,
    a_rebound_function,
    a_class_attribute,
    a_slot,
    a_length,
    a_set,
    a_module_attribute,
    a_property,
    a_learning_rate,
    a_scheduler,
    a_dataclass,
    a_namespace_in_a_namespace,
    a_partial,
    the_type_of_a_number,
    a_tensor_in_a_deque,
    a_tensor_of_a_class,
    a_tensor_in_a_slot,
    the_data_of_a_tensor,
)


def _changes(make: Callable[[], Case]) -> None:
    def run(m: GraphManager) -> None:
        function, change = make()
        step = m.wrap(function)
        for n in range(8):
            x = values().view(1, 6) + n
            with torch.no_grad():
                same(step(x), function(x))
            if n == 3:
                change()
        warmups, num_recordings, replays, eager = counts(step)
        assert warmups + num_recordings + replays + eager == 8
        assert (num_recordings, eager) == (2, 0), reasons(m)
        assert reasons(m).keys() <= {"NEW_VALUE", "STATIC_MOVED"}

    globals()[f"{make.__name__}_that_changes_is_noticed"] = scenario(run)


for _make in CASES:
    _changes(_make)


@scenario
def a_value_that_comes_back_finds_its_recording(m: GraphManager) -> None:
    held = {"scale": 1.0}
    step = m.wrap(lambda x: x * held["scale"])
    for n in range(12):
        held["scale"] = float(1 + n // 2 % 2)
        same(step(values()), values() * held["scale"])
    assert counts(step)[:2] == (2, 2)
    assert "held['scale']: 1.0 → 2.0" in reason_row(m, "NEW_VALUE")["detail"]


@scenario(rerecord_limit=3)
def a_value_that_is_new_in_every_call_ends_without_graphs(m: GraphManager) -> None:
    held = {"rate": 1.0}
    step = m.wrap(lambda x: x * held["rate"])
    for n in range(9):
        held["rate"] = 1.0 + n
        same(step(values()), values() * (1.0 + n))
    assert "held['rate']" in reason_row(m, "TOO_MANY_RECORDINGS")["detail"]


@scenario(check=True)
def the_check_compares_later_replays_too(m: GraphManager) -> None:
    calls = hidden_count()

    def function(x: torch.Tensor) -> torch.Tensor:
        calls.value += 1
        return x * 2

    step = m.wrap(function)
    for n in range(70):
        step(values() + n)
    assert recordings(m)["is_equal"].all()
    assert calls.value == 2 + 3


class _Terms(tuple):
    """As the irreducible representations of e3nn: a tuple whose length and elements have another meaning."""

    __slots__ = ()

    def __len__(self) -> int:
        raise NotImplementedError

    def __iter__(self):
        raise NotImplementedError


@scenario
def containers_whose_classes_replace_their_methods(m: GraphManager) -> None:
    terms = _Terms([2.0, (3.0, 1.0)])
    held = {"terms": terms}
    step = m.wrap(lambda x: x * held["terms"][0] + held["terms"][1][0])
    for n in range(6):
        if n == 4:
            held["terms"] = _Terms([5.0, (3.0, 1.0)])
        same(step(values() + n), (values() + n) * held["terms"][0] + 3.0)
    assert counts(step)[2:] == (2, 0)


@scenario
def classes_of_a_library_whose_name_begins_with_that_of_torch(m: GraphManager) -> None:
    library = types.ModuleType("torchscaling")
    library.__file__ = __file__
    namespace = {"scale": 2.0, "offset": torch.tensor([0.5, 1.0]), "__module__": "torchscaling"}
    scaling = library.Scaling = type("Scaling", (), namespace)
    sys.modules["torchscaling"] = library
    try:
        scaled = m.wrap(lambda x: x * scaling().scale)
        shifted = m.wrap(lambda x: x + scaling().offset.to(x.device).sum())
        for n in range(10):
            if n == 4:
                scaling.scale = 3.0
            if n == 7:
                scaling.offset = torch.tensor([1.5, 1.0])
            same(scaled(values()), values() * scaling.scale)
            same(shifted(values()), values() + scaling.offset.sum().item())
        assert min(function.counts.replays for function in m.functions) > 2
    finally:
        del sys.modules["torchscaling"]
