"""What a replay depends on and what it changes, row by row of the table in docs/graphs.md: equal to eager execution."""

from __future__ import annotations

import asyncio
import builtins
import configparser
import dataclasses
import decimal
import functools
import gc
import inspect
import logging
import signal
import string
import sys
import threading
import types
import warnings
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.random as numpy_random
import torch
from numpy.random import seed as numpy_seed
from torch import nn
from torch.nn import functional
from torch.utils import data
from torch.utils.flop_counter import FlopCounterMode

from cudalens.errors import GraphError
from cudalens.graphs import GraphManager
from graph_scenarios.stage import counts, fails, hidden_count, is_captured, reasons, same, scenario, values

Wrap = Callable[[Any], Any]
NUM_CALLS = 8
CHANGED_AT = 5


@dataclasses.dataclass(frozen=True)
class Expected:
    """What the manager has to do besides giving what eager execution gives.

    Attributes:
        replays: Whether some calls replay.
        reason: Why none does, or why there is another recording; None if nothing is demanded.
        words: In its details.
    """

    replays: bool = True
    reason: str | None = None
    words: str = ""


REPLAYS = Expected()


def _outcome(make: Callable[[Wrap], Any], wrap: Wrap) -> Any:
    torch.manual_seed(0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = make(wrap)
    return found, [str(one.message) for one in caught]


def like_eager(expected: Expected) -> Callable[[Callable[[Wrap], Any]], Any]:
    """A scenario: a program gives the same with its function under a manager and without."""

    def decorate(make: Callable[[Wrap], Any]) -> Any:
        def run(m: GraphManager) -> None:
            eager = _outcome(make, lambda function: function)
            found = _outcome(make, m.wrap)
            assert repr(found) == repr(eager)
            assert (sum(function.counts.replays for function in m.functions) > 0) == expected.replays
            if expected.reason is not None:
                rows = m.frame()
                rows = rows[rows["reason"] == expected.reason]
                assert any(expected.words in str(text) for text in rows["detail"]), m.frame()["detail"].tolist()

        return scenario(run)

    return decorate


def calls(function: Any, change: Callable[[], Any] | None = None) -> list[Any]:
    """Results of some calls; `change` runs before one of them."""
    found = []
    for n in range(NUM_CALLS):
        if n == CHANGED_AT and change is not None:
            change()
        result = function(values() + n)
        found.append(result.tolist() if isinstance(result, torch.Tensor) else result)
    return found


# Python state that a call changes.


class Counting(torch.optim.Optimizer):
    """An optimizer whose step counts in its state, as the examples in torch's documentation do."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 0.1})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                state["step"] = state.get("step", 0) + 1
                parameter.add_(parameter.grad, alpha=-group["lr"] / state["step"])


def _training_step(optimizer_class: Any, **options: Any) -> tuple[nn.Linear, torch.optim.Optimizer, Any]:
    model = nn.Linear(6, 6).cuda()
    optimizer = optimizer_class(model.parameters(), **options)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad(set_to_none=False)
        loss: torch.Tensor = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return model, optimizer, step


@like_eager(Expected(replays=False, reason="SIDE_EFFECT", words="['step']"))
def a_counter_in_the_state_of_an_optimizer(wrap: Wrap) -> Any:
    _, optimizer, step = _training_step(Counting)
    return calls(wrap(step)), [state["step"] for state in optimizer.state.values()]


@like_eager(Expected(replays=False, reason="SIDE_EFFECT", words="training"))
def the_mode_of_a_module(wrap: Wrap) -> Any:
    model = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6, affine=False)).cuda()

    def evaluate(x: torch.Tensor) -> torch.Tensor:
        model.eval()
        found: torch.Tensor = model(x.view(1, 6)).detach()
        model.train()
        model.eval()
        return found

    def with_training(x: torch.Tensor) -> Any:
        model.train()
        return graphed(x).tolist(), model.training

    graphed = wrap(evaluate)
    return calls(with_training), model[1].running_mean.tolist()


@like_eager(Expected(replays=False, reason="SIDE_EFFECT", words="num_calls"))
def an_attribute_that_the_code_names_only_as_text(wrap: Wrap) -> Any:
    held = types.SimpleNamespace()

    def function(x: torch.Tensor) -> torch.Tensor:
        name = "num" + "_calls"
        held.__dict__[name] = held.__dict__.get(name, 0) + 1
        return x * 2

    return calls(wrap(function)), held


@like_eager(Expected(replays=False, reason="SIDE_EFFECT", words="the order of the keys"))
def the_order_of_a_dict(wrap: Wrap) -> Any:
    table = {"a": 1.0, "b": 2.0}

    def function(x: torch.Tensor) -> torch.Tensor:
        first = next(iter(table))
        table[first] = table.pop(first)
        return x * table["a"]

    return calls(wrap(function)), list(table)


@like_eager(Expected(replays=False, reason="SIDE_EFFECT", words="the memory of"))
def the_data_of_two_tensors(wrap: Wrap) -> Any:
    a, b = values(), values() * 2

    def function(x: torch.Tensor) -> torch.Tensor:
        a.data, b.data = b.data, a.data
        return x * a

    return calls(wrap(function)), a.tolist(), b.tolist()


@like_eager(Expected(replays=False, reason="SIDE_EFFECT", words="the memory of 'x'"))
def the_data_of_an_argument(wrap: Wrap) -> Any:
    other = values() * 7

    def function(x: torch.Tensor) -> torch.Tensor:
        x.data = other
        return x + 1

    graphed, found = wrap(function), []
    for n in range(NUM_CALLS):
        x = values() * n
        found.append((graphed(x).tolist(), x.tolist()))
    return found


@like_eager(Expected(replays=False, reason="OUTSIDE_CALL", words="warnings.warn()"))
def a_warning_of_the_program(wrap: Wrap) -> Any:
    def function(x: torch.Tensor) -> torch.Tensor:
        warnings.warn("mind the step", stacklevel=1)
        return x * 2

    return calls(wrap(function))


@like_eager(Expected(replays=False, reason="OUTSIDE_CALL", words="a warning"))
def a_warning_of_torch(wrap: Wrap) -> Any:
    return calls(wrap(lambda x: x * 2 + functional.mse_loss(x[:1], x)))


# What a copy of an argument does not share with it, and what only a recording answers otherwise.


def _slices(wrap: Wrap, function: Callable[[torch.Tensor], Any]) -> list[Any]:
    """Results for parts of one buffer, of which each has another offset and version."""
    graphed, buffer, found = wrap(function), torch.arange(64.0, device="cuda"), []
    for n in range(NUM_CALLS):
        buffer.add_(1)
        part = buffer[4 * n : 4 * n + 4] if n != CHANGED_AT else buffer[:4].clone()
        found.append(graphed(part).tolist())
    return found


UNCOMPARED = "UNGUARDED"


@like_eager(Expected(replays=False, reason=UNCOMPARED, words="storage_offset() of 'x'"))
def the_offset_of_an_argument(wrap: Wrap) -> Any:
    return _slices(wrap, lambda x: x * x.storage_offset())


@like_eager(Expected(replays=False, reason=UNCOMPARED, words="untyped_storage() of 'x'"))
def the_storage_of_an_argument(wrap: Wrap) -> Any:
    return _slices(wrap, lambda x: x * x.untyped_storage().nbytes())


@like_eager(Expected(replays=False, reason=UNCOMPARED, words="_base of 'x'"))
def the_base_of_an_argument(wrap: Wrap) -> Any:
    return _slices(wrap, lambda x: x * (x if x._base is None else x._base.sum()))


@like_eager(Expected(replays=False, reason=UNCOMPARED, words="_version of 'x'"))
def the_version_of_an_argument(wrap: Wrap) -> Any:
    return _slices(wrap, lambda x: x * x._version)


@like_eager(Expected(replays=False, reason=UNCOMPARED, words="grad of 'x'"))
def the_gradient_of_an_argument(wrap: Wrap) -> Any:
    def perturb(x: torch.Tensor) -> torch.Tensor:
        return x.detach() + (0 if x.grad is None else x.grad.sign())

    graphed, found = wrap(perturb), []
    for n in range(NUM_CALLS):
        x = values().requires_grad_()
        if n >= CHANGED_AT:
            (x * x).sum().backward()
        found.append(graphed(x).tolist())
    return found


@like_eager(REPLAYS)
def a_function_that_computes_gradients_of_an_argument(wrap: Wrap) -> Any:
    graphed = wrap(lambda x: torch.autograd.grad((x * x).sum(), x)[0])
    return [graphed((values() + n).requires_grad_()).tolist() for n in range(NUM_CALLS)]


@like_eager(Expected(replays=False, reason="OUTSIDE_CALL", words="is_current_stream_capturing()"))
def a_branch_of_captures(wrap: Wrap) -> Any:
    return calls(wrap(lambda x: x * (2 if torch.cuda.is_current_stream_capturing() else 3)))


@like_eager(Expected(reason="NEW_MODE", words="validation of distributions"))
def the_validation_of_distributions(wrap: Wrap) -> Any:
    def function(x: torch.Tensor) -> Any:
        return torch.distributions.Normal(x * 0, 1.0).log_prob(x)

    def call(x: torch.Tensor) -> Any:
        try:
            return graphed(x if x[0] < NUM_CALLS else x * float("nan"))
        except ValueError as error:
            return str(error)[:40]

    graphed, before = wrap(function), torch.distributions.Distribution._validate_args
    torch.distributions.Distribution.set_default_validate_args(False)
    try:
        return calls(call, lambda: torch.distributions.Distribution.set_default_validate_args(True))
    finally:
        torch.distributions.Distribution.set_default_validate_args(before)


@like_eager(REPLAYS)
def the_cache_of_parametrizations(wrap: Wrap) -> Any:
    class Doubled(nn.Module):
        def forward(self, weight: torch.Tensor) -> torch.Tensor:
            return weight * 2

    model = nn.Linear(6, 6).cuda()
    nn.utils.parametrize.register_parametrization(model, "weight", Doubled())
    graphed, found = wrap(lambda x: model(x).detach()), []
    for n in range(2 * NUM_CALLS):
        found.append(graphed(values()).tolist())
        with nn.utils.parametrize.cached() if n > CHANGED_AT else torch.enable_grad():
            found.append(graphed(values()).tolist())
            model.parametrizations.weight.original.data.mul_(1.5)
            found.append(graphed(values()).tolist())
    return found


@like_eager(Expected(reason="NEW_VALUE", words="torch.set_printoptions()"))
def how_tensors_are_shown(wrap: Wrap) -> Any:
    function = wrap(lambda x: (x * 2, repr(torch.tensor(1 / 3))))
    try:
        return calls(lambda x: function(x)[1], lambda: torch.set_printoptions(precision=7))
    finally:
        torch.set_printoptions(profile="default")


@like_eager(Expected(reason="NEW_VALUE", words="torch.is_warn_always_enabled()"))
def whether_warnings_are_repeated(wrap: Wrap) -> Any:
    function = wrap(lambda x: (x * 2, torch.is_warn_always_enabled()))
    try:
        return calls(lambda x: function(x)[1], lambda: torch.set_warn_always(True))
    finally:
        torch.set_warn_always(False)


@like_eager(Expected(reason="NEW_VALUE", words="_last_lr"))
def the_rate_of_a_scheduler(wrap: Wrap) -> Any:
    optimizer = torch.optim.SGD(nn.Linear(6, 6).cuda().parameters(), lr=0.5)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)

    def advance() -> None:
        optimizer.step()
        scheduler.step()

    return calls(wrap(lambda x: x * scheduler.get_last_lr()[0]), advance)


def _called_again(what: str) -> Any:
    return like_eager(Expected(replays=False, reason="OUTSIDE_CALL", words=what))


@_called_again("torch.get_num_threads()")
def the_number_of_threads(wrap: Wrap) -> Any:
    before = torch.get_num_threads()
    try:
        return calls(wrap(lambda x: x * torch.get_num_threads()), lambda: torch.set_num_threads(before + 1))
    finally:
        torch.set_num_threads(before)


@_called_again("initial_seed() of a random generator")
def the_seed_of_the_program(wrap: Wrap) -> Any:
    return calls(wrap(lambda x: x * (torch.initial_seed() % 7)), lambda: torch.manual_seed(3))


@_called_again("initial_seed() of a random generator")
def the_seed_of_the_device(wrap: Wrap) -> Any:
    return calls(wrap(lambda x: x * (torch.cuda.initial_seed() % 7)), lambda: torch.manual_seed(3))


@_called_again("initial_seed() of a random generator")
def the_seed_of_a_generator(wrap: Wrap) -> Any:
    generator = torch.Generator(device="cuda").manual_seed(1)
    return calls(wrap(lambda x: x * (generator.initial_seed() % 7)), lambda: generator.manual_seed(3))


def _memory_read(read: Callable[[], int]) -> Callable[[Wrap], Any]:
    def measured(wrap: Wrap) -> Any:
        kept: list[torch.Tensor] = []
        before = read()

        def call(x: torch.Tensor) -> torch.Tensor:
            return x * (2 if read() >= before + (1 << 24) else 1)

        return calls(wrap(call), lambda: kept.append(torch.zeros(1 << 23, device="cuda")))

    return measured


@_called_again("torch.cuda.memory_allocated()")
def the_allocated_memory(wrap: Wrap) -> Any:
    return _memory_read(lambda: torch.cuda.memory_allocated())(wrap)


@_called_again("torch.cuda.max_memory_allocated()")
def the_peak_of_memory(wrap: Wrap) -> Any:
    torch.cuda.reset_peak_memory_stats()
    return _memory_read(lambda: torch.cuda.max_memory_allocated())(wrap)


@_called_again("torch.cuda.memory_stats()")
def the_statistics_of_memory(wrap: Wrap) -> Any:
    return _memory_read(lambda: torch.cuda.memory_stats()["allocated_bytes.all.current"])(wrap)


# Values that a program reads by a method or a property of an object of torch.


def read_again(words: str) -> Callable[[Callable[[], tuple[Any, Any]]], Any]:
    """A scenario of a read and of a change of what it reads: both are made once for each run of a program."""

    def decorate(make: Callable[[], tuple[Any, Any]]) -> Any:
        def run(wrap: Wrap) -> Any:
            read, change = make()
            return calls(wrap(lambda x: x * read()), change)

        return like_eager(Expected(reason="NEW_VALUE", words=words))(run)

    return decorate


class Items(data.Dataset[int]):
    """A data set of a program, that counts how often an item is taken."""

    def __init__(self) -> None:
        self.items, self.num_taken = [1, 2, 3, 4], 0

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> int:
        self.num_taken += 1
        return self.items[index]


class Endless(data.IterableDataset[int]):
    """A data set without a length."""

    def __iter__(self) -> Any:
        return iter(range(4))


@read_again("len(DataLoader): 4 → 5")
def the_length_of_a_loader() -> Any:
    items = Items()
    loader = data.DataLoader(items, batch_size=1)
    return lambda: len(loader), lambda: items.items.append(5)


@read_again("len(Subset): 2 → 3")
def the_length_of_a_subset() -> Any:
    subset = data.Subset(Items(), [1, 2])
    return lambda: len(subset), lambda: subset.indices.append(0)  # type: ignore[attr-defined]


@read_again("len(ConcatDataset): 8 → 9")
def the_length_of_joined_data_sets() -> Any:
    joined = data.ConcatDataset([Items(), Items()])
    return lambda: len(joined), lambda: joined.cumulative_sizes.append(9)


@read_again("RandomSampler.num_samples: 4 → 5")
def the_number_of_samples() -> Any:
    items = Items()
    sampler = data.RandomSampler(items)
    return lambda: sampler.num_samples, lambda: items.items.append(5)


@read_again("StepLR.state_dict()")
def the_state_of_a_scheduler() -> Any:
    optimizer = torch.optim.SGD(nn.Linear(6, 6).cuda().parameters(), lr=0.5)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)

    def advance() -> None:
        optimizer.step()
        scheduler.step()

    return lambda: scheduler.state_dict()["last_epoch"], advance


@read_again("Normal.batch_shape: 'torch.Size([])' → 'torch.Size([2])'")
def the_shape_of_a_distribution() -> Any:
    normal = torch.distributions.Normal(0.0, 1.0)
    return lambda: len(normal.batch_shape), lambda: setattr(normal, "_batch_shape", torch.Size([2]))


@read_again("FlopCounterMode.get_total_flops(): 0 → 5")
def the_operations_of_a_counter() -> Any:
    counter = FlopCounterMode(display=False)
    return counter.get_total_flops, lambda: counter.flop_counts["Global"].update(one=5)


@read_again("Future.done(): False → True")
def a_future_that_is_done() -> Any:
    future: torch.futures.Future[int] = torch.futures.Future()
    return lambda: 1 + future.done(), lambda: future.set_result(1)


@read_again("the length of sys.path")
def the_places_of_modules() -> Any:
    name = "a folder that does not exist"
    while name in sys.path:
        sys.path.remove(name)
    return lambda: len(sys.path), lambda: sys.path.append(name)


@read_again("sys.argv")
def the_arguments_of_the_program() -> Any:
    sys.argv[:] = [argument for argument in sys.argv if argument != "--faster"]
    return lambda: 1 + ("--faster" in sys.argv), lambda: sys.argv.append("--faster")


@_called_again("Store.get()")
def a_value_in_a_store(wrap: Wrap) -> Any:
    store = torch.distributed.HashStore()
    store.set("factor", "2")
    return calls(wrap(lambda x: x * int(store.get("factor"))), lambda: store.set("factor", "3"))


@_called_again("an item of Subset")
def an_item_of_a_subset(wrap: Wrap) -> Any:
    items = [1, 2, 3, 4]
    subset = data.Subset(items, [1, 2])  # type: ignore[arg-type]
    return calls(wrap(lambda x: x * subset[0]), lambda: items.__setitem__(1, 9))


@like_eager(Expected(replays=False, reason="SIDE_EFFECT", words="num_taken"))
def an_item_that_a_data_set_counts(wrap: Wrap) -> Any:
    items = Items()
    subset = data.Subset(items, [1, 2])
    return [*calls(wrap(lambda x: x * subset[0])), items.num_taken]


class AskedItems(Items):
    """A data set that counts how often it is asked for its length."""

    num_asked = 0

    def __len__(self) -> int:
        self.num_asked += 1
        return len(self.items)


@like_eager(Expected(replays=False, reason="SIDE_EFFECT", words="num_asked"))
def a_length_that_a_data_set_counts(wrap: Wrap) -> Any:
    items = AskedItems()
    loader = data.DataLoader(items, batch_size=1)
    before = items.num_asked
    return [*calls(wrap(lambda x: x * len(loader))), items.num_asked - before]


@like_eager(REPLAYS)
def a_loader_without_a_length(wrap: Wrap) -> Any:
    loader: data.DataLoader[int] = data.DataLoader(Endless())

    def call(x: torch.Tensor) -> torch.Tensor:
        try:
            return x * len(loader)
        except TypeError:
            return x * 7

    return calls(wrap(call))


@like_eager(REPLAYS)
def a_distribution_that_the_call_makes(wrap: Wrap) -> Any:
    def draw(x: torch.Tensor) -> torch.Tensor:
        normal = torch.distributions.Normal(x, 1.0, validate_args=False)
        return normal.log_prob(x + 1) * normal.batch_shape[0]

    return calls(wrap(draw))


@like_eager(Expected(replays=False, reason="CHANGED_READ", words="torch.is_warn_always_enabled(): True → False"))
def a_state_that_the_call_sets_and_reads(wrap: Wrap) -> Any:
    def call(x: torch.Tensor) -> torch.Tensor:
        torch.set_warn_always(True)
        x = x * (1 + torch.is_warn_always_enabled())
        torch.set_warn_always(False)
        return x

    return calls(wrap(call))


@_called_again("gc.isenabled()")
def the_garbage_collector(wrap: Wrap) -> Any:
    before = gc.isenabled()
    try:
        gc.enable()
        return calls(wrap(lambda x: x * (2 if gc.isenabled() else 1)), gc.disable)
    finally:
        (gc.enable if before else gc.disable)()


@_called_again("decimal.getcontext()")
def the_context_of_decimal(wrap: Wrap) -> Any:
    with decimal.localcontext():
        return calls(wrap(lambda x: x * decimal.getcontext().prec), lambda: setattr(decimal.getcontext(), "prec", 3))


@_called_again("signal.getsignal()")
def the_handler_of_a_signal(wrap: Wrap) -> Any:
    before = signal.getsignal(signal.SIGUSR1)
    try:
        return calls(
            wrap(lambda x: x * (2 if signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN else 1)),
            lambda: signal.signal(signal.SIGUSR1, signal.SIG_IGN),
        )
    finally:
        signal.signal(signal.SIGUSR1, before)


@_called_again("threading.active_count()")
def the_number_of_python_threads(wrap: Wrap) -> Any:
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    try:
        return calls(wrap(lambda x: x * threading.active_count()), thread.start)
    finally:
        end.set()
        thread.join()


@_called_again("threading.current_thread()")
def the_name_of_a_thread(wrap: Wrap) -> Any:
    thread = threading.current_thread()
    before = thread.name
    try:
        return calls(
            wrap(lambda x: x * len(threading.current_thread().name)), lambda: setattr(thread, "name", "a longer name")
        )
    finally:
        thread.name = before


def _scale(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
    return x * factor


@like_eager(REPLAYS)
def a_library_that_reads_the_recursion_limit(wrap: Wrap) -> Any:
    """`inspect.signature` reads it, which libraries call in a forward."""
    return calls(wrap(lambda x: _scale(x, *[3.0 for name in inspect.signature(_scale).parameters if name == "factor"])))


@_called_again("sys.getrecursionlimit()")
def the_recursion_limit(wrap: Wrap) -> Any:
    before = sys.getrecursionlimit()
    try:
        return calls(wrap(lambda x: x * sys.getrecursionlimit()), lambda: sys.setrecursionlimit(before + 1))
    finally:
        sys.setrecursionlimit(before)


@like_eager(Expected(replays=False, reason=UNCOMPARED, words="sys.modules"))
def a_module_that_is_looked_up_by_text(wrap: Wrap) -> Any:
    module = sys.modules["settings_of_a_program"] = types.ModuleType("settings_of_a_program")
    module.scale = 2.0  # type: ignore[attr-defined]
    try:
        return calls(
            wrap(lambda x: x * sys.modules["settings_of_a_program"].scale), lambda: setattr(module, "scale", 5.0)
        )
    finally:
        del sys.modules["settings_of_a_program"]


@like_eager(Expected(replays=False, reason=UNCOMPARED, words="flatiter"))
def an_iterator_of_an_array(wrap: Wrap) -> Any:
    array = np.arange(1.0, 4.0)
    flat = array.flat
    return calls(wrap(lambda x: x * float(flat[1])), lambda: array.fill(7.0))


# Random generators.


@like_eager(Expected(replays=False, reason="OUTSIDE_CALL", words="manual_seed()"))
def a_seed(wrap: Wrap) -> Any:
    def function(x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(3)
        return x + torch.rand(6, device="cuda")

    return calls(wrap(function)), torch.rand(2, device="cuda").tolist()


@like_eager(Expected(replays=False, reason="OUTSIDE_CALL", words="manual_seed()"))
def a_seed_of_a_generator(wrap: Wrap) -> Any:
    generator = torch.Generator("cuda")

    def function(x: torch.Tensor) -> torch.Tensor:
        generator.manual_seed(3)
        return x + torch.rand(6, device="cuda", generator=generator)

    return calls(wrap(function))


@like_eager(Expected(replays=False, reason="OUTSIDE_CALL", words="set_state()"))
def a_state_of_a_generator(wrap: Wrap) -> Any:
    state = torch.cuda.get_rng_state()

    def function(x: torch.Tensor) -> torch.Tensor:
        torch.cuda.set_rng_state(state)
        return x + torch.rand(6, device="cuda")

    return calls(wrap(function))


@like_eager(Expected(replays=False, reason="OUTSIDE_CALL", words="manual_seed()"))
def a_fork_with_a_seed(wrap: Wrap) -> Any:
    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.random.fork_rng(devices=[0]):
            torch.manual_seed(1)
            x = x + torch.rand(6, device="cuda")
        return x + torch.rand(6, device="cuda")

    return calls(wrap(function))


def _seeded_by(function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """A function that seeds NumPy as the program did, of whose numbers the program uses none before the replays."""

    @like_eager(Expected(replays=False, reason="OUTSIDE_CALL", words="generator"))
    def make(wrap: Wrap) -> Any:
        np.random.seed(3)
        graphed, found = wrap(function), []
        for n in range(NUM_CALLS):
            found.append((graphed(values()).tolist(), np.random.rand() if n > NUM_CALLS // 2 else None))
        return found

    return make


def _imported_seed(x: torch.Tensor) -> torch.Tensor:
    numpy_seed(3)
    return x * 2


def _seed_of_an_imported_module(x: torch.Tensor) -> torch.Tensor:
    numpy_random.seed(3)
    return x * 2


def _seed_imported_inside(x: torch.Tensor) -> torch.Tensor:
    from numpy.random import seed as set_seed

    set_seed(3)
    return x * 2


_kept_seed = functools.partial(np.random.seed, 3)
_holder = types.SimpleNamespace(module=np.random)


def _seed_of_a_partial(x: torch.Tensor) -> torch.Tensor:
    _kept_seed()
    return x * 2


def _seed_of_a_held_module(x: torch.Tensor) -> torch.Tensor:
    _holder.module.seed(3)
    return x * 2


def _seed_by_text(x: torch.Tensor) -> torch.Tensor:
    getattr(np.random, "se" + "ed"[:2])(3)
    return x * 2


a_seed_of_numpy_in_a_partial = _seeded_by(_seed_of_a_partial)
a_seed_of_numpy_in_a_module_that_is_held = _seeded_by(_seed_of_a_held_module)
a_seed_of_numpy_by_text = _seeded_by(_seed_by_text)
a_seed_of_numpy_that_was_imported = _seeded_by(_imported_seed)
a_seed_of_numpy_by_its_module = _seeded_by(_seed_of_an_imported_module)
a_seed_of_numpy_that_is_imported_inside = _seeded_by(_seed_imported_inside)


def _seed_everything() -> None:
    np.random.seed(3)


@like_eager(REPLAYS)
def a_seed_of_numpy_that_is_not_called(wrap: Wrap) -> Any:
    is_seeded = False

    def function(x: torch.Tensor) -> torch.Tensor:
        if is_seeded:
            _seed_everything()
        return x * float(np.ones(1)[0])

    return calls(wrap(function))


@like_eager(Expected(replays=False, reason="OUTSIDE_CALL", words="manual_seed()"))
def a_seed_of_the_cpu(wrap: Wrap) -> Any:
    def function(x: torch.Tensor) -> torch.Tensor:
        torch.default_generator.manual_seed(3)
        return x * 2

    graphed, found = wrap(function), []
    for _ in range(NUM_CALLS):
        found.append((graphed(values()).tolist(), torch.rand(2).tolist()))
    return found


@like_eager(Expected(replays=False, reason="OUTSIDE_CALL", words="whether a call reaches it is not known"))
def a_branch_not_taken_that_seeds_numpy(wrap: Wrap) -> Any:
    def function(x: torch.Tensor, seeds: bool = False) -> torch.Tensor:
        if seeds:
            np.random.seed(3)
        return x * 2

    return calls(wrap(function))


@like_eager(Expected(replays=False, reason="OUTSIDE_CALL", words="seed() of NumPy's generator"))
def a_seed_of_numpy(wrap: Wrap) -> Any:
    def function(x: torch.Tensor) -> torch.Tensor:
        np.random.seed(3)
        return x * 2

    graphed, found = wrap(function), []
    for n in range(NUM_CALLS):
        y = graphed(values()).tolist()
        found.append((y, np.random.rand() if n >= CHANGED_AT else None))
    return found


@like_eager(REPLAYS)
def random_numbers_of_the_device(wrap: Wrap) -> Any:
    found = calls(wrap(lambda x: functional.dropout(x, 0.5)), lambda: torch.manual_seed(7))
    return found, torch.rand(2, device="cuda").tolist()


# Python state that a call reads.


def _hooked(register: Callable[[nn.Linear, Any], Any]) -> Any:
    def make(wrap: Wrap) -> Any:
        model, optimizer, step = _training_step(torch.optim.SGD, lr=0.1)
        found = calls(wrap(step), lambda: register(model, optimizer))
        return found, model.weight.tolist()

    return like_eager(Expected(reason="NEW_VALUE"))(make)


a_hook_of_a_parameter = _hooked(lambda model, _: model.weight.register_hook(lambda grad: grad * 0.1))
a_hook_after_accumulation = _hooked(
    lambda model, _: model.weight.register_post_accumulate_grad_hook(lambda p: (p.grad.mul_(0.1), None)[1])
)
a_hook_before_the_step_of_an_optimizer = _hooked(
    lambda model, optimizer: optimizer.register_step_pre_hook(lambda *_: (model.weight.grad.mul_(0.1), None)[1])
)
a_hook_after_the_step_of_an_optimizer = _hooked(
    lambda model, optimizer: optimizer.register_step_post_hook(lambda *_: (model.weight.data.mul_(0.5), None)[1])
)
a_hook_of_a_module = _hooked(lambda model, _: model.register_forward_hook(lambda *given: given[2] * 2))
a_learning_rate = _hooked(lambda _, optimizer: optimizer.param_groups[0].update(lr=0.01))


@like_eager(Expected(reason="ESCAPED_TENSOR"))
def a_parameter_that_is_replaced_by_one_without_gradient(wrap: Wrap) -> Any:
    """The recording for the new parameter fails, because it makes a gradient. The call without a graph finds none."""
    model = nn.Linear(6, 6).cuda()
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)

    def step(x: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = model(x).pow(2).mean()
        loss.backward()
        return loss.detach()

    found = calls(wrap(step), lambda: setattr(model, "weight", nn.Parameter(model.weight.detach() * 2)))
    assert model.weight.grad is not None
    return found, model.weight.grad.tolist()


@like_eager(Expected(reason="NEW_VALUE"))
def an_attribute_that_is_added_later(wrap: Wrap) -> Any:
    held = types.SimpleNamespace()
    return calls(wrap(lambda x: x * getattr(held, "factor", 1.0)), lambda: setattr(held, "factor", 3.0))


@like_eager(Expected(reason="NEW_VALUE", words="factor exists now"))
def an_attribute_of_a_module_of_python_that_is_added_later(wrap: Wrap) -> Any:
    settings = types.ModuleType("settings_of_a_program")
    return calls(wrap(lambda x: x * getattr(settings, "factor", 1.0)), lambda: setattr(settings, "factor", 3.0))


def _replaced(owner: Any, name: str, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    def make(wrap: Wrap) -> Any:
        own = vars(owner).get(name)
        try:
            return calls(wrap(function), lambda: setattr(owner, name, lambda x, *_, **__: x * 5))
        finally:
            if own is None:
                delattr(owner, name)
            else:
                setattr(owner, name, own)

    return like_eager(Expected(reason="NEW_VALUE"))(make)


a_function_of_torch = _replaced(torch, "relu", lambda x: torch.relu(x))
a_function_of_nn = _replaced(functional, "relu", lambda x: functional.relu(x))
a_function_of_nn_by_its_full_name = _replaced(functional, "relu", lambda x: torch.nn.functional.relu(x))
a_function_of_linalg = _replaced(torch.linalg, "vector_norm", lambda x: torch.linalg.vector_norm(x))
a_function_that_a_function_of_nn_calls = _replaced(functional, "relu", lambda x: functional.lp_pool1d(x[None], 2, 2))
a_method_of_tensors = _replaced(torch.Tensor, "relu", lambda x: x.relu())
an_operator_of_tensors = _replaced(torch.Tensor, "__neg__", lambda x: -x)
a_reflected_operator_of_tensors = _replaced(torch.Tensor, "__rsub__", lambda x: 1 - x)
a_function_behind_torch_ops = _replaced(torch.ops.aten, "sin", lambda x: torch.ops.aten.sin(x))


@like_eager(REPLAYS)
def a_frozen_dataclass_as_argument(wrap: Wrap) -> Any:
    @dataclasses.dataclass(frozen=True)
    class Batch:
        x: torch.Tensor
        scale: float = 1.0

    graphed = wrap(lambda batch: batch.x * batch.scale)
    return calls(lambda x: graphed(Batch(x)).tolist()), calls(lambda x: graphed(Batch(x, 3.0)).tolist())


@like_eager(REPLAYS)
def a_dataclass_that_holds_others(wrap: Wrap) -> Any:
    @dataclasses.dataclass
    class Options:
        scales: list[float]

    @dataclasses.dataclass
    class Batch:
        parts: dict[str, torch.Tensor]
        options: Options

    graphed = wrap(lambda batch: batch.parts["x"] * sum(batch.options.scales))
    return calls(lambda x: graphed(Batch({"x": x}, Options([1.0, 2.0]))).tolist())


@like_eager(Expected(replays=False, reason="SIDE_EFFECT", words="the contents of 'batch"))
def a_dataclass_that_the_call_changes(wrap: Wrap) -> Any:
    @dataclasses.dataclass
    class Batch:
        x: torch.Tensor
        num_uses: int = 0

    def function(batch: Any) -> torch.Tensor:
        batch.num_uses += 1
        found: torch.Tensor = batch.x * 2
        return found

    graphed, found = wrap(function), []
    for _ in range(NUM_CALLS):
        batch = Batch(values())
        found.append((graphed(batch).tolist(), batch.num_uses))
    return found


@like_eager(Expected(replays=False))
def objects_with_equal_names_and_other_tensors(wrap: Wrap) -> Any:
    class Named:
        def __init__(self, x: torch.Tensor) -> None:
            self.x = x

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Named)

        def __hash__(self) -> int:
            return 1

    graphed = wrap(lambda named: named.x * 2)
    return calls(lambda x: graphed(Named(x)).tolist())


@like_eager(Expected(replays=False))
def objects_whose_comparison_gives_a_tensor(wrap: Wrap) -> Any:
    class Point:
        def __init__(self, x: torch.Tensor) -> None:
            self.x = x

        def __eq__(self, other: object) -> Any:
            return self.x == other.x if isinstance(other, Point) else NotImplemented

        def __hash__(self) -> int:
            return 1

    graphed = wrap(lambda point: point.x * 2)
    return calls(lambda x: graphed(Point(x)).tolist())


# Objects of the standard library and of torch, whose attributes the program's code has no names for.


def _decided_by(read: Callable[[], float], change: Callable[[], Any], undo: Callable[[], Any] = lambda: None) -> Any:
    """A function multiplies by what it reads from an object that the program changes between two calls."""

    @like_eager(Expected(reason="NEW_VALUE"))
    def make(wrap: Wrap) -> Any:
        undo()
        found = calls(wrap(lambda x: x * read()), change)
        undo()
        return found

    return make


_event, _semaphore, _async_event = threading.Event(), threading.Semaphore(5), asyncio.Event()
_template, _settings, _logger = (
    string.Template("2"),
    configparser.ConfigParser(),
    logging.getLogger("cudalens.scenario"),
)
_child_logger = _logger.getChild("child")

an_event_of_threads = _decided_by(lambda: 1.0 + _event.is_set(), _event.set, _event.clear)
an_event_of_tasks = _decided_by(lambda: 1.0 + _async_event.is_set(), _async_event.set, _async_event.clear)
a_counter_of_threads = _decided_by(
    lambda: _semaphore._value,  # type: ignore[attr-defined]
    lambda: setattr(_semaphore, "_value", 4),
    lambda: setattr(_semaphore, "_value", 5),
)
a_template = _decided_by(
    lambda: float(_template.substitute()),
    lambda: setattr(_template, "template", "3"),
    lambda: setattr(_template, "template", "2"),
)
settings_of_a_file = _decided_by(
    lambda: _settings.getfloat("model", "scale"),
    lambda: _settings.read_dict({"model": {"scale": "3"}}),
    lambda: _settings.read_dict({"model": {"scale": "2"}}),
)
the_level_of_a_parent_of_a_logger = _decided_by(
    lambda: 1.0 + _child_logger.isEnabledFor(logging.DEBUG),
    lambda: _logger.setLevel(logging.DEBUG),
    lambda: _logger.setLevel(logging.INFO),
)
the_level_of_all_loggers = _decided_by(
    lambda: 1.0 + _child_logger.isEnabledFor(logging.INFO),
    lambda: logging.disable(logging.INFO),
    lambda: logging.disable(logging.NOTSET),
)
a_name_in_builtins = _decided_by(
    lambda: scale_of_scenario,  # type: ignore[name-defined]  # noqa: F821
    lambda: setattr(builtins, "scale_of_scenario", 3.0),
    lambda: setattr(builtins, "scale_of_scenario", 2.0),
)


@like_eager(Expected(reason="NEW_VALUE"))
def the_dtype_of_an_autocast_region(wrap: Wrap) -> Any:
    region = torch.autocast("cuda", torch.float16, cache_enabled=False)

    def function(x: torch.Tensor) -> torch.Tensor:
        with region:
            return x.view(1, 6) @ x.view(6, 1) / 7

    graphed = wrap(function)
    dtypes: list[str] = []

    def with_dtype(x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = graphed(x)
        dtypes.append(str(found.dtype))
        return found

    return calls(with_dtype, lambda: setattr(region, "fast_dtype", torch.bfloat16)), dtypes


# Loss scalers and weak references, which hold Python values of the program as well.


def _scaled_step(change: Callable[[torch.amp.GradScaler], Any]) -> Any:
    """A step of mixed precision, between two calls of which the program changes the scaler."""

    @like_eager(REPLAYS)
    def make(wrap: Wrap) -> Any:
        model = nn.Linear(6, 6).cuda()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True, capturable=True)
        scaler = torch.amp.GradScaler("cuda", init_scale=2.0**4, growth_interval=2)

        def step(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            with torch.autocast("cuda", torch.float16):
                loss = model(x).float().square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            return loss.detach()

        return calls(wrap(step), lambda: change(scaler)), scaler.state_dict(), model.weight.tolist()

    return make


a_growth_factor_of_a_scaler = _scaled_step(lambda scaler: scaler.set_growth_factor(8.0))
a_growth_interval_of_a_scaler = _scaled_step(lambda scaler: scaler.set_growth_interval(1))
a_scaler_that_is_switched_off = _scaled_step(lambda scaler: setattr(scaler, "_enabled", False))


@like_eager(Expected(replays=False, reason="UNGUARDED", words="a weak reference to"))
def an_object_that_only_a_weak_reference_leads_to(wrap: Wrap) -> Any:
    class Options:
        factor = 3

    held = [Options()]
    reference = weakref.ref(held[0])

    def function(x: torch.Tensor) -> torch.Tensor:
        options = reference()
        return x * (100 if options is None else options.factor)

    return calls(wrap(function), held.clear)


@like_eager(Expected(replays=False, reason="UNGUARDED", words="a weak reference to Tensor"))
def a_tensor_that_only_a_weak_reference_leads_to(wrap: Wrap) -> Any:
    held = [values()]
    reference = weakref.ref(held[0])

    def function(x: torch.Tensor) -> torch.Tensor:
        present = reference()
        return x * 2 if present is None else x + present

    return calls(wrap(function), held.clear)


@like_eager(REPLAYS)
def an_object_that_a_weak_reference_and_a_variable_lead_to(wrap: Wrap) -> Any:
    class Options:
        factor = 3

    held = Options()
    reference = weakref.ref(held)
    return calls(wrap(lambda x: x * held.factor + reference().factor), lambda: setattr(held, "factor", 5))


# Recordings that fail in the middle of the function, after it changed Python values: it runs again from its beginning.


def _refuse_capture() -> None:
    if is_captured():
        raise RuntimeError("not in a capture")


@like_eager(Expected(replays=False, reason="CAPTURE_FAILED"))
def attributes_and_containers_when_a_recording_fails(wrap: Wrap) -> Any:
    held = types.SimpleNamespace(is_busy=False, keys={}, stack=[3], ready=set(), queue=deque(), weight=values())

    def function(x: torch.Tensor) -> torch.Tensor:
        assert not held.is_busy
        assert not held.keys
        weight, held.weight = held.weight, None
        held.is_busy, held.extra, held.stack[0], held.keys["a"] = True, 1, 7, 1
        held.stack.append(4)
        held.ready.add(4)
        held.queue.append(4)
        _refuse_capture()
        held.is_busy, held.stack[0], held.weight = False, held.stack.pop() - 1, weight
        del held.keys["a"], held.extra
        held.ready.clear()
        held.queue.clear()
        return x + weight

    return calls(wrap(function)), repr(held)


@like_eager(Expected(replays=False, reason="CAPTURE_FAILED"))
def variables_slots_and_modes_when_a_recording_fails(wrap: Wrap) -> Any:
    class Slotted:
        __slots__ = ("count",)

    slotted, count = Slotted(), 0
    slotted.count = 0

    def function(x: torch.Tensor) -> torch.Tensor:
        nonlocal count
        count += 1
        slotted.count += 1
        assert (count, slotted.count) == (1, 1)
        torch.set_grad_enabled(False)
        _refuse_capture()
        torch.set_grad_enabled(True)
        count, slotted.count = 0, 0
        return x * 2

    return calls(wrap(function)), count, slotted.count, torch.is_grad_enabled()


@like_eager(Expected(replays=False, reason="CAPTURE_FAILED", words="an optimizer that is not capturable"))
def the_stage_of_a_scaler_when_a_recording_fails(wrap: Wrap) -> Any:
    model = nn.Linear(6, 6).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, fused=True)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0**10)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        scaler.step(optimizer)
        scaler.update()
        return norm.detach()

    return calls(wrap(step)), model.weight.tolist()


@scenario
def a_class_that_a_failed_recording_leaves_changed_is_an_error(m: GraphManager) -> None:
    class Counted:
        is_busy = False

    def function(x: torch.Tensor) -> torch.Tensor:
        Counted.is_busy = True
        _refuse_capture()
        Counted.is_busy = False
        return x * 2

    step = m.wrap(function, name="step")
    step(values())
    fails(lambda: step(values()), GraphError, "step", "not in a capture", "is_busy: False → True", ".fn")
    same(step(values()), values() * 2)


# Autograd: versions, conjugation, and what changes between a forward and its backward.


def _saved_result(function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    def make(wrap: Wrap) -> Any:
        graphed, found = wrap(function), []
        for n in range(NUM_CALLS):
            x = (values() + n).requires_grad_()
            y = graphed(x)
            y.mul_(2)
            found.append(_backward(y, x))
        return found

    return like_eager(REPLAYS)(make)


def _backward(y: torch.Tensor, *inputs: torch.Tensor) -> Any:
    """Gradients, or the beginning of the message of an error."""
    try:
        y.sum().backward()
    except RuntimeError as error:
        return str(error)[:60]
    return [None if one.grad is None else one.grad.tolist() for one in inputs]


a_result_of_exp_that_is_overwritten = _saved_result(torch.exp)
a_result_of_relu_that_is_overwritten = _saved_result(torch.relu)
a_result_of_softmax_that_is_overwritten = _saved_result(lambda x: torch.softmax(x, 0))
a_result_of_sqrt_that_is_overwritten = _saved_result(torch.sqrt)
a_result_that_no_backward_reads = _saved_result(lambda x: x * 3)


@like_eager(REPLAYS)
def an_argument_that_changes_before_the_backward(wrap: Wrap) -> Any:
    w = nn.Parameter(values())
    graphed, found = wrap(lambda x: x * w), []
    for n in range(NUM_CALLS):
        x, w.grad = values() * n, None
        y = graphed(x)
        x.add_(1)
        found.append(_backward(y, w))
    return found


@like_eager(REPLAYS)
def the_data_of_an_argument_is_overwritten_before_the_backward(wrap: Wrap) -> Any:
    def function(x: torch.Tensor) -> torch.Tensor:
        square = x.view(2, -1) * x.view(2, -1)
        return square.view(-1) * x + x.expand(2, -1).sum(0)

    graphed, found = wrap(function), []
    for n in range(NUM_CALLS):
        leaf = (values() + n).requires_grad_()
        x = leaf if n % 2 else leaf * 1
        y = graphed(x)
        x.data.mul_(2)
        y.sum().backward(retain_graph=True)
        x.data.add_(1)
        y.sum().backward()
        assert leaf.grad is not None
        found.append(leaf.grad.tolist())
    return found


@like_eager(REPLAYS)
def the_data_of_an_argument_that_is_read_conjugated_is_overwritten(wrap: Wrap) -> Any:
    graphed, found = wrap(lambda z: (z * z.conj() * z[1:2]).real.sum()), []
    for n in range(NUM_CALLS):
        z = torch.complex(values() + n, values() * 2).requires_grad_()
        y = graphed(z)
        z.data.mul_(1j)
        found.append(_backward(y, z))
    return found


@scenario
def the_data_of_an_argument_is_replaced_before_the_backward(m: GraphManager) -> None:
    w = nn.Parameter(values())
    step = m.wrap(lambda x: (x * w).sum())
    raised = 0
    for n in range(NUM_CALLS):
        x, w.grad = values() * n, None
        loss = step(x)
        x.data = x.data + 5
        if counts(step)[1]:
            fails(loss.backward, RuntimeError, "the .data of an argument")
            raised += 1
            continue
        loss.backward()
        assert w.grad is not None
        same(w.grad, values() * n + 5)
    assert raised == counts(step)[1] + counts(step)[2]
    assert not reasons(m)["PENDING_BACKWARD"]


@like_eager(REPLAYS)
def a_tensor_times_its_conjugate(wrap: Wrap) -> Any:
    graphed, found = wrap(lambda z: (z * z.conj()).real.sum()), []
    for n in range(NUM_CALLS):
        z = torch.complex(values() + n, values() * 2).requires_grad_()
        found.append(_backward(graphed(z), z))
    return found


@like_eager(REPLAYS)
def a_spectrum_times_its_conjugate(wrap: Wrap) -> Any:
    def power(x: torch.Tensor) -> torch.Tensor:
        spectrum = torch.fft.rfft(x)
        return (spectrum * spectrum.conj()).real.sum()

    graphed, found = wrap(power), []
    for n in range(NUM_CALLS):
        x = (values() + n).requires_grad_()
        found.append(_backward(graphed(x), x))
    return found


# Checks on the device.


@like_eager(REPLAYS)
def an_assertion_on_the_device(wrap: Wrap) -> Any:
    def function(x: torch.Tensor) -> torch.Tensor:
        torch._assert_async((x > 0).all())
        return x * 2

    graphed, found = wrap(function), []
    for n in range(NUM_CALLS if not _is_real() else CHANGED_AT):
        try:
            found.append(graphed(values() if n != CHANGED_AT else -values()).tolist())
        except RuntimeError as error:
            found.append(str(error)[:40])
    return found


def _is_real() -> bool:
    """Whether a failed assertion ends the process' use of the device, as on a real GPU."""
    return torch.version.cuda is not None


# Version counters.


@like_eager(REPLAYS)
def versions_of_what_a_call_overwrites(wrap: Wrap) -> Any:
    total, hidden, other = values(), values(), nn.Parameter(values())

    def function(x: torch.Tensor) -> torch.Tensor:
        total.add_(x).mul_(2)
        hidden.data.add_(1)
        with torch.no_grad():
            other[:2].zero_()
        return x * 2

    graphed, found = wrap(function), []
    for _ in range(NUM_CALLS):
        y = graphed(values())
        found.append((y._version, total._version, hidden._version, other._version))
    return found, total.tolist()


@scenario
def versions_of_an_argument_that_is_copied_back(m: GraphManager) -> None:
    step = m.wrap(lambda x: x.mul_(2).add_(1).sum(), mutations="copy")
    for _ in range(NUM_CALLS):
        x, other = values(), values()
        same(step(x), step.fn(other))
        same(x, other)
        assert x._version == other._version == 2
    assert counts(step)[2] > 0


@like_eager(REPLAYS)
def versions_of_results_that_are_overwritten(wrap: Wrap) -> Any:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        return y.add_(1)

    graphed, found = wrap(function), []
    for _ in range(NUM_CALLS):
        y = graphed(values())
        before = y._version
        y.zero_()
        found.append((before, y._version))
    return found


@like_eager(REPLAYS)
def versions_after_a_recording_that_is_refused(wrap: Wrap) -> Any:
    """The old parameter keeps its gradient, so that the new one's cannot take its memory."""
    model = nn.Linear(6, 6).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x: torch.Tensor) -> None:
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()

    graphed, found, kept = wrap(step), [], []
    for n in range(NUM_CALLS):
        if n == CHANGED_AT:
            kept.append(model.weight)
            model.weight = nn.Parameter(model.weight.detach() * 2)
            optimizer.param_groups[0]["params"][0] = model.weight
        graphed(values().view(1, 6))
        found.append((model.weight._version, model.bias._version))
    return found


# Hooks of arguments.


@like_eager(Expected(replays=False, reason="ODD_TENSOR", words="with hooks"))
def a_hook_of_an_argument_in_a_backward_inside(wrap: Wrap) -> Any:
    def function(x: torch.Tensor) -> torch.Tensor:
        (grad,) = torch.autograd.grad((x * x).sum(), x)
        return grad

    graphed, found = wrap(function), []
    for _ in range(NUM_CALLS):
        x = values().requires_grad_()
        x.register_hook(lambda grad: grad * 3)
        found.append(graphed(x).tolist())
    return found


@like_eager(REPLAYS)
def a_hook_of_an_argument_in_a_backward_outside(wrap: Wrap) -> Any:
    graphed, found = wrap(lambda x: x * x), []
    for _ in range(NUM_CALLS):
        x = values().requires_grad_()
        x.register_hook(lambda grad: grad * 3)
        found.append(_backward(graphed(x), x))
    return found


# Results that the program holds already.


@like_eager(Expected(replays=False, reason="OPAQUE_RESULT", words="a dict that exists before the call"))
def a_dict_among_the_arguments_that_is_returned(wrap: Wrap) -> Any:
    def function(batch: dict[str, Any]) -> Any:
        return batch, batch["x"] * 2

    graphed, found = wrap(function), []
    for n in range(NUM_CALLS):
        batch = {"x": values() + n}
        same_batch, y = graphed(batch)
        found.append((same_batch is batch, y.tolist()))
    return found


@like_eager(Expected(replays=False, reason="OPAQUE_RESULT", words="a list that exists before the call"))
def a_list_of_the_program_that_is_returned(wrap: Wrap) -> Any:
    held = [1.0, 2.0]
    graphed = wrap(lambda x: (held, x * held[0]))
    return [(found is held, y.tolist()) for found, y in (graphed(values()) for _ in range(NUM_CALLS))]


# check=True: nothing differs, and nothing of the call without a graph remains.


@scenario(check=True)
def a_check_of_a_training_step_leaves_no_trace(m: GraphManager) -> None:
    def train(wrap: Wrap) -> Any:
        torch.manual_seed(0)
        model, optimizer, step = _training_step(torch.optim.SGD, lr=0.1, momentum=0.9)
        graphed, found = wrap(step), []
        for _ in range(NUM_CALLS):
            loss = graphed(values())
            weight = model.weight
            assert weight.grad is not None
            momenta = [state["momentum_buffer"]._version for state in optimizer.state.values()]
            found.append((loss.tolist(), weight.tolist(), weight._version, weight.grad._version, momenta))
        return found

    assert train(m.wrap) == train(lambda function: function)
    rows = m.frame()
    assert rows["num_replays"].max() > 0
    assert rows["is_equal"].dropna().all(), rows["first_diff"].tolist()


@scenario(check=True)
def a_check_finds_another_gradient(m: GraphManager) -> None:
    """The factor of a backward is in memory of C, which no guard compares: the gradient is that of eager execution."""
    factor = hidden_count()
    factor.value = 2

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            return grad * factor.value

    step = m.wrap(lambda x: Scaled.apply(x).sum())
    for _ in range(3):  # the backward of the first call is not recorded: it warms up, records, replays one call later
        x = values().requires_grad_()
        step(x).backward()
        assert x.grad is not None
        same(x.grad, values() * 0 + 2)
    factor.value = 5
    x = values().requires_grad_()
    step(x).backward()
    assert x.grad is not None
    same(x.grad, values() * 0 + 5)
    assert any("5.0 without a graph" in str(text) for text in m.frame()["first_diff"])


class Scaled(torch.Tensor):
    """A weight that is stored as integers, as libraries for quantisation do."""

    @staticmethod
    def __new__(cls, data: torch.Tensor, factor: float) -> Scaled:
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=torch.float32, device=data.device)

    def __init__(self, data: torch.Tensor, factor: float) -> None:
        self.data_of, self.factor = data, factor

    def __repr__(self) -> str:
        return f"Scaled({self.factor})"

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in (torch.Tensor.mul, torch.Tensor.__mul__, torch.mul):
            return super().__torch_function__(func, types, args, kwargs or {})
        args = [one.data_of * one.factor if isinstance(one, Scaled) else one for one in args]
        return func(*args)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError(func)


@scenario
def the_parts_of_a_tensor_of_another_class(m: GraphManager) -> None:
    weight = Scaled(values(), 2.0)
    step = m.wrap(lambda x: x * weight)
    for n in range(4):
        same(step(values() + n), (values() + n) * values() * 2)
    assert counts(step)[2] > 0
    weight.data_of.add_(1)
    same(step(values()), values() * (values() + 1) * 2)
    weight.factor = 3.0
    for _ in range(3):
        same(step(values()), values() * (values() + 1) * 3)
    weight.data_of = values() + 5
    for _ in range(3):
        same(step(values()), values() * (values() + 5) * 3)
    weight = Scaled(values(), 7.0)
    for _ in range(3):
        same(step(values()), values() * values() * 7)
