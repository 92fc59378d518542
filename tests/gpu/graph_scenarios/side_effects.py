"""Side effects of Python code, clocks, files and random numbers: the function runs without a graph, and says why."""

from __future__ import annotations

import contextvars
import datetime
import io
import logging
import os
import random
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from cudalens.graphs import GraphManager
from graph_scenarios.stage import counts, reason_row, same, scenario, values

Case = tuple[Callable[[torch.Tensor], torch.Tensor], str, str]
"""A function, the reason why it has no graph, and words of the message."""

SCALE = contextvars.ContextVar("SCALE", default=2.0)
LIMIT = 6


class Counter:
    """An object that counts its calls."""

    total = 0

    def __init__(self) -> None:
        self.n = 0

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.n += 1
        return x + 1

    def of_all(self, x: torch.Tensor) -> torch.Tensor:
        Counter.total += 1
        return x + 1


def an_attribute() -> Case:
    return Counter(), "SIDE_EFFECT", "n: "


def a_class_attribute() -> Case:
    return Counter().of_all, "SIDE_EFFECT", "Counter.total"


def an_item() -> Case:
    held = {"calls": 0}

    def function(x: torch.Tensor) -> torch.Tensor:
        held["calls"] += 1
        return x + 1

    return function, "SIDE_EFFECT", "held['calls']: "


def a_list() -> Case:
    held: list[float] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        held.append(1.0)
        return x + 1

    return function, "SIDE_EFFECT", "the length of held"


def a_variable_of_a_closure() -> Case:
    calls = 0

    def function(x: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return x + 1

    return function, "SIDE_EFFECT", "calls: "


def a_swap_of_two_tensors() -> Case:
    held = {"a": values(), "b": values() * 2}

    def function(x: torch.Tensor) -> torch.Tensor:
        held["a"], held["b"] = held["b"], held["a"]
        return x + 1

    return function, "SIDE_EFFECT", "held['a']"


def a_print() -> Case:
    def function(x: torch.Tensor) -> torch.Tensor:
        print(end="")
        return x + 1

    return function, "OUTSIDE_CALL", "print()"


def a_log_record() -> Case:
    logger = logging.Logger("graphs")
    logger.addHandler(logging.NullHandler())

    def function(x: torch.Tensor) -> torch.Tensor:
        logger.warning("called")
        return x + 1

    return function, "OUTSIDE_CALL", "writes a log record"


def text_in_memory() -> Case:
    out = io.StringIO()

    def function(x: torch.Tensor) -> torch.Tensor:
        out.write("x")
        return x + 1

    return function, "SIDE_EFFECT", "out: "


def a_clock() -> Case:
    return lambda x: x * time.perf_counter(), "OUTSIDE_CALL", "time.perf_counter()"


def a_date() -> Case:
    return lambda x: x * datetime.datetime.now(datetime.UTC).year, "OUTSIDE_CALL", "datetime.now()"


def a_random_number() -> Case:
    return lambda x: x * random.random(), "OUTSIDE_CALL", "random.random()"


def a_random_number_of_numpy() -> Case:
    return lambda x: x * float(np.random.rand()), "SIDE_EFFECT", "the state of numpy.random"


def a_generator_of_numpy() -> Case:
    generator = np.random.default_rng(0)
    return lambda x: x * float(generator.normal()), "SIDE_EFFECT", "generator: "


def a_random_number_of_the_cpu() -> Case:
    return lambda x: x * torch.rand(()).item(), "OUTSIDE_CALL", "rand on the CPU"


def a_file() -> Case:
    file = tempfile.NamedTemporaryFile()  # noqa: SIM115

    def function(x: torch.Tensor) -> torch.Tensor:
        with open(file.name) as opened:
            return x + len(opened.read())

    return function, "OUTSIDE_CALL", "io.open()"


def whether_a_file_exists() -> Case:
    return lambda x: x + os.path.exists("nowhere"), "OUTSIDE_CALL", "os.stat()"


def an_iterator() -> Case:
    numbers = iter(range(100))
    return lambda x: x + next(numbers), "UNGUARDED", "numbers"


def a_long_list() -> Case:
    held = list(range(5000))
    return lambda x: x + held[7], "UNGUARDED", "held (5000 items)"


def a_large_array() -> Case:
    held = np.zeros(5000)
    return lambda x: x + float(held[7]), "UNGUARDED", "held (ndarray)"


CASES: tuple[Callable[[], Case], ...] = (
    an_attribute,
    a_class_attribute,
    an_item,
    a_list,
    a_variable_of_a_closure,
    a_swap_of_two_tensors,
    a_print,
    a_log_record,
    text_in_memory,
    a_clock,
    a_date,
    a_random_number,
    a_random_number_of_numpy,
    a_generator_of_numpy,
    a_random_number_of_the_cpu,
    a_file,
    whether_a_file_exists,
    an_iterator,
    a_long_list,
    a_large_array,
)


def _runs_eager(make: Callable[[], Case]) -> None:
    def run(m: GraphManager) -> None:
        function, reason, words = make()
        step = m.wrap(function)
        for n in range(LIMIT):
            step(values() + n)
        assert counts(step)[1:3] == (0, 0)
        row = reason_row(m, reason)
        assert words in row["detail"]
        assert row["advice"]
        assert "side_effects.py" in row["place"]

    globals()[f"{make.__name__}_has_no_graph"] = scenario(run)


for _make in CASES:
    _runs_eager(_make)


@scenario
def every_call_counts(m: GraphManager) -> None:
    counter = Counter()
    step = m.wrap(counter)
    for n in range(LIMIT):
        same(step(values() + n), values() + n + 1)
    assert counter.n == LIMIT


@scenario
def the_line_of_the_side_effect_is_named(m: GraphManager) -> None:
    step = m.wrap(Counter())
    for _ in range(4):
        step(values())
    assert reason_row(m, "SIDE_EFFECT")["source"] == "self.n += 1"


@scenario
def lists_and_dicts_among_the_arguments_are_the_caller_s(m: GraphManager) -> None:
    def function(batch: dict[str, Any]) -> torch.Tensor:
        batch["factor"] = 2.0
        batch["names"].append("factor")
        return batch["x"] + 1

    step = m.wrap(function)
    for n in range(LIMIT):
        batch = {"x": values() + n, "names": []}
        same(step(batch), values() + n + 1)
        assert batch["factor"] == 2.0
        assert batch["names"] == ["factor"]
    assert "the contents of 'batch'" in reason_row(m, "SIDE_EFFECT")["detail"]


@scenario
def an_argument_that_is_kept_is_the_caller_s(m: GraphManager) -> None:
    held: dict[str, Any] = {}

    def function(x: torch.Tensor) -> torch.Tensor:
        held["last"] = x
        return x + 1

    step, x = m.wrap(function), values()
    for _ in range(LIMIT):
        step(x)
        assert held["last"] is x
    assert "held['last'], which keeps an argument" in reason_row(m, "SIDE_EFFECT")["detail"]


@scenario
def an_effect_of_the_first_call_alone_is_none(m: GraphManager) -> None:
    held: dict[str, Any] = {}

    def function(x: torch.Tensor) -> torch.Tensor:
        if "scale" not in held:
            held["scale"] = 3.0
        held["shape"] = x.shape
        return x * held["scale"]

    step = m.wrap(function)
    for n in range(LIMIT):
        same(step(values() + n), (values() + n) * 3)
    assert counts(step) == (2, 1, LIMIT - 3, 0)


@scenario
def values_of_context_variables_are_compared(m: GraphManager) -> None:
    step = m.wrap(lambda x: x * SCALE.get())
    token = SCALE.set(3.0)
    for n in range(LIMIT):
        same(step(values() + n), (values() + n) * 3)
    SCALE.reset(token)
    for n in range(LIMIT):
        same(step(values() + n), (values() + n) * 2)
    assert counts(step) == (2, 2, 2 * LIMIT - 4, 0)
    assert "ContextVar 'SCALE': 3.0 → 2.0" in reason_row(m, "NEW_VALUE")["detail"]


@scenario
def values_of_the_environment_are_compared(m: GraphManager) -> None:
    os.environ["CUDALENS_TEST"] = "3"
    step = m.wrap(lambda x: x * float(os.environ["CUDALENS_TEST"]))
    for n in range(LIMIT):
        same(step(values() + n), (values() + n) * 3)
    os.environ["CUDALENS_TEST"] = "2"
    for n in range(LIMIT):
        same(step(values() + n), (values() + n) * 2)
    del os.environ["CUDALENS_TEST"]
    assert counts(step) == (2, 2, 2 * LIMIT - 4, 0)


@scenario
def a_hook_with_an_effect_runs_in_every_backward(m: GraphManager) -> None:
    log: deque[str] = deque()

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y.register_hook(lambda grad: log.append("hook"))
        return y.sum()

    step = m.wrap(function)
    for _ in range(LIMIT):
        step(values().requires_grad_()).backward()
    assert len(log) == LIMIT


@scenario
def under_a_profiler_of_python_calls_nothing_is_recorded(m: GraphManager) -> None:
    step = m.wrap(lambda x: x * 2)
    sys.setprofile("".format)  # written in C, as those of cProfile before Python 3.12 and of torch's profiler
    try:
        for n in range(4):
            same(step(values() + n), (values() + n) * 2)
    finally:
        sys.setprofile(None)
    assert counts(step) == (0, 0, 0, 4)
    assert "profiler of Python calls" in reason_row(m, "OBSERVED")["detail"]
    for n in range(4):
        same(step(values() + n), (values() + n) * 2)
    assert counts(step) == (1, 1, 2, 4)


@scenario
def a_backward_of_an_overwritten_tensor_fails_as_without_graphs(m: GraphManager) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.exp()
        y.add_(1)
        return y.sum()

    step, failed = m.wrap(function), 0
    for _ in range(LIMIT):
        loss = step(values().requires_grad_())
        try:
            loss.backward()
        except RuntimeError:
            failed += 1
    assert failed == LIMIT
