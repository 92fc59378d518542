"""Exceptions, captures of others, bad use: streams, pool, random numbers and the next call stay healthy."""

from __future__ import annotations

import torch

from cudalens.errors import GraphError
from cudalens.graphs import GraphManager
from graph_scenarios.stage import counts, fails, hidden_count, is_captured, reasons, same, scenario, values


class Flaky:
    """A function that raises at its n-th run."""

    def __init__(self, at: int, kind: type[BaseException]):
        self.at, self.kind, self.runs = at, kind, hidden_count()

    def __call__(self, x):
        self.runs.value += 1
        y = x * 2 + torch.rand_like(x) * 0
        if self.runs.value == self.at:
            raise self.kind("mine")
        return y + 1


def healthy(m: GraphManager) -> None:
    assert not torch.cuda.is_current_stream_capturing()
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    same(values() + 1, values().cpu() + 1)
    other = m.wrap(lambda x: x.cumsum(0))
    for n in range(4):
        same(other(values() + n), (values() + n).cumsum(0))
    assert counts(other) == (1, 1, 2, 0)
    m.check_memory_pool()


@scenario
def an_exception_in_warmup_is_the_user_s(m: GraphManager) -> None:
    step = m.wrap(Flaky(1, ValueError))
    fails(lambda: step(values()), ValueError, "mine")
    for n in range(4):
        same(step(values() + n), (values() + n) * 2 + 1)
    assert counts(step)[2] == 2
    healthy(m)


@scenario
def an_exception_in_recording_is_the_user_s_or_runs_eager(m: GraphManager) -> None:
    """The function raised while it was captured: it is run without a graph, and raises there if it must."""
    flaky = Flaky(2, ValueError)
    step = m.wrap(flaky)
    for n in range(5):
        same(step(values() + n), (values() + n) * 2 + 1)
    assert reasons(m)["CAPTURE_FAILED"] >= 1
    healthy(m)


@scenario
def a_function_that_always_raises_does_so_each_time(m: GraphManager) -> None:
    def function(x):
        y = x + 1
        raise ValueError(f"mine {y.shape}")

    step = m.wrap(function)
    for _ in range(4):
        fails(lambda: step(values()), ValueError, "mine")
    healthy(m)


@scenario
def exceptions_that_depend_on_arguments(m: GraphManager) -> None:
    def function(x, n):
        y = x * n
        if n > 2:
            raise ValueError("too large")
        return y

    step = m.wrap(function)
    for n in (1, 3, 1, 3, 2, 3, 1, 2, 2, 3, 1):
        if n > 2:
            fails(lambda n=n: step(values(), n), ValueError, "too large")
        else:
            same(step(values(), n), values() * n)
    healthy(m)


@scenario
def a_keyboard_interrupt_in_warmup_and_in_capture(m: GraphManager) -> None:
    for at in (1, 2):
        step = m.wrap(Flaky(at, KeyboardInterrupt))
        raised = 0
        for n in range(6):
            try:
                same(step(values() + n), (values() + n) * 2 + 1)
            except KeyboardInterrupt:
                raised += 1
        assert raised == 1
        assert counts(step)[2] >= 2
    healthy(m)


@scenario
def a_keyboard_interrupt_while_another_stream_works(m: GraphManager) -> None:
    """The end of the capture fails too: the side stream has not joined. The interrupt reaches the caller."""
    side, captures = torch.cuda.Stream(), []

    def forks(x: torch.Tensor) -> torch.Tensor:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x * 2
            if is_captured() and not captures:
                captures.append(1)
                raise KeyboardInterrupt
        torch.cuda.current_stream().wait_stream(side)
        return y + 1

    step = m.wrap(forks)
    same(step(values()), values() * 2 + 1)
    fails(lambda: step(values()), KeyboardInterrupt)
    for n in range(3):
        same(step(values() + n), (values() + n) * 2 + 1)
    healthy(m)


@scenario
def an_exception_that_is_kept_keeps_its_memory(m: GraphManager) -> None:
    """As a notebook keeps the last one: its frames hold tensors of the pool."""
    a = m.wrap(lambda x: x + 1)
    for at, kind in ((1, ValueError), (1, KeyboardInterrupt), (2, ValueError), (2, KeyboardInterrupt)):
        for _ in range(3):
            a(values())
        held = a(values() * 5)
        step, kept = m.wrap(Flaky(at, kind)), []
        for n in range(5):
            try:
                same(step(values() + n), (values() + n) * 2 + 1)
            except kind as error:
                kept.append(error)
        try:
            same(held, values() * 5 + 1)
        except RuntimeError as error:
            assert "overwritten" in str(error)  # noqa: PT017
        for n in range(4):
            same(a(values() + n), values() + n + 1)
        del kept, held
    healthy(m)


@scenario
def a_cache_that_is_filled_while_recording_is_right(m: GraphManager) -> None:
    """What a capture makes was not computed yet: an eager call must not find it."""
    cache, runs = {}, hidden_count()

    def function(x):
        runs.value += 1
        if runs.value == 2:
            cache["table"] = torch.arange(6.0, device="cuda") * 7
        return x + cache.get("table", 0)

    step = m.wrap(function)
    for n in range(5):
        same(step(values() + n), values() + n + (torch.arange(6.0, device="cuda") * 7 if n else 0))
    healthy(m)


@scenario
def a_cache_that_cannot_be_right_is_an_error(m: GraphManager) -> None:
    cache, runs, total = {}, hidden_count(), torch.zeros(6, device="cuda")

    def function(x):
        runs.value += 1
        total.add_(1)
        if runs.value == 2:
            cache["table"] = x * 7
        return x + cache.get("table", 0)

    step = m.wrap(function, name="fills")
    same(step(values()), values())
    fails(lambda: step(values()), RuntimeError, "fills", "never computed")
    cache.clear()
    same(step(values()), values())
    healthy(m)


@scenario
def random_numbers_go_on_after_a_failed_capture(m: GraphManager) -> None:
    step = m.wrap(Flaky(2, KeyboardInterrupt))
    torch.manual_seed(6)
    step(values())
    state = torch.cuda.get_rng_state()
    fails(lambda: step(values()), KeyboardInterrupt)
    assert torch.equal(torch.cuda.get_rng_state(), state)


@scenario
def an_exception_behind_replays(m: GraphManager) -> None:
    """The allocator's books were brought back for a recording that never came to be."""
    a, flaky = m.wrap(lambda x: (x + 1, x + 2)), m.wrap(Flaky(2, KeyboardInterrupt))
    for n in range(6):
        held = a(values() + n)
        if n > 2:
            try:
                same(flaky(held[0]), (values() + n + 1) * 2 + 1)
            except KeyboardInterrupt:
                assert n == 4
        same(held, (values() + n + 1, values() + n + 2))
        del held
    healthy(m)


@scenario
def an_exception_in_backward(m: GraphManager) -> None:
    class Broken(torch.autograd.Function):
        broken = True

        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            if Broken.broken:
                raise ValueError("in backward")
            return grad * 2

    w = values().requires_grad_()
    step = m.wrap(lambda x: Broken.apply(x * w).sum())
    for _ in range(3):
        fails(step(values()).backward, ValueError, "in backward")
    Broken.broken = False
    for n in range(4):
        w.grad = None
        step(values() + n).backward()
        same(w.grad, (values() + n) * 2)
    healthy(m)


@scenario
def arguments_that_are_gone_are_an_error_of_theirs(m: GraphManager) -> None:
    step = m.wrap(lambda x: x + 1, name="inc")
    for _ in range(3):
        old = step(values())
    new = step(values() * 2)
    fails(lambda: step(old), RuntimeError, "inc", "overwritten")
    same(new, values() * 2 + 1)
    for n in range(3):
        same(step(values() + n), values() + n + 1)
    healthy(m)


@scenario
def wrong_arguments(m: GraphManager) -> None:
    step = m.wrap(lambda x: x + 1)
    for _ in range(3):
        fails(lambda: step(), TypeError, "x")
        fails(lambda: step(values(), values()), TypeError)
        fails(lambda: step(y=values()), TypeError, "y")
    for n in range(4):
        same(step(values() + n), values() + n + 1)
    healthy(m)


@scenario
def graphed_functions_within_graphed_functions(m: GraphManager) -> None:
    inner = m.wrap(lambda x: x * 2)
    outer = m.wrap(lambda x: inner(x) + 1)
    other = GraphManager()
    outermost = other.wrap(lambda x: outer(x) - 3)
    for n in range(5):
        same(outermost(values() + n), (values() + n) * 2 - 2)
        same(outer(values() + n), (values() + n) * 2 + 1)
        same(inner(values() + n), (values() + n) * 2)
    assert counts(outermost) == (1, 1, 3, 0)
    assert counts(outer) == (1, 1, 3, 0)
    assert counts(inner) == (1, 1, 3, 0)
    other.shutdown()


@scenario
def calls_within_a_foreign_capture_are_refused(m: GraphManager) -> None:
    step = m.wrap(lambda x: x + 1, name="inner")
    for _ in range(3):
        step(values())
    x, graph, side = values(), torch.cuda.CUDAGraph(), torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    caught = None
    with torch.cuda.stream(side), torch.cuda.graph(graph):
        y = x * 2
        try:
            step(x)
        except GraphError as error:
            caught = str(error)
        z = step.fn(y)
    assert caught is not None
    assert "inner" in caught
    assert "captur" in caught
    graph.replay()
    same(z, values() * 2 + 1)
    graph.reset()
    del graph, z, y
    same(step(values()), values() + 1)
    healthy(m)


@scenario
def captures_within_a_graphed_function_run_eager_and_say_so(m: GraphManager) -> None:
    kept = []

    def function(x):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = x * 2
        graph.replay()
        kept.append(graph)
        return y + 1

    step = m.wrap(function)
    for _ in range(3):
        try:
            same(step(values()), values() * 2 + 1)
        except (RuntimeError, GraphError):
            continue
    for graph in kept:
        graph.reset()
    kept.clear()
    healthy(m)


@scenario
def foreign_graphs_beside(m: GraphManager) -> None:
    x, graph = values(), torch.cuda.CUDAGraph()
    step = m.wrap(lambda t: t + 1)
    side = torch.cuda.Stream()
    for n in range(5):
        if n == 1:
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side), torch.cuda.graph(graph):
                y = x * 3
        if n > 1:
            graph.replay()
            same(y, values() * 3)
        same(step(values() + n), values() + n + 1)
    graph.reset()
    del y, graph
    healthy(m)


@scenario
def out_of_memory_leaves_the_next_call_healthy(m: GraphManager) -> None:
    free, _ = torch.cuda.mem_get_info()

    def function(x, much):
        y = x * 2
        if much:
            y = y + torch.empty(free * 2, dtype=torch.uint8, device="cuda")[:6]
        return y

    step = m.wrap(function)
    for _ in range(3):
        fails(lambda: step(values(), True), torch.OutOfMemoryError)
        same(step(values(), False), values() * 2)
    healthy(m)


@scenario
def a_loss_that_is_dropped_in_an_exception(m: GraphManager) -> None:
    w = values().requires_grad_()
    step = m.wrap(lambda x: (x * w).sin().sum())
    for n in range(6):
        w.grad = None
        try:
            loss = step(values() + n)
            if n % 2:
                raise ValueError("the user's")
            loss.backward()
        except ValueError:
            del loss
            continue
        x = values() + n
        same(w.grad, x * (x * w.detach()).cos())
        del loss
    healthy(m)
