"""A backward pass runs on the streams of its forward pass, and waits where it crosses streams."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.checkpoint import checkpoint

import cudalens.virtual
from cudalens.virtual.timing.interfaces import Work
from cudalens.virtual.timing.streams import MAX_SWITCHES, History, Stream, named
from cudalens.virtual.torch_cuda.errors import GpuTraceSignals


@dataclass
class Log:
    """The work of streams in order: launches by operator, and event edges."""

    launches: list[tuple[str, int]] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)
    num_events_alive: int = 0

    def streams_of(self, op: str) -> list[int]:
        return [stream for name, stream in self.launches if name == f"aten::{op}"]


class _Signals(GpuTraceSignals):
    """Records which stream waited for an event of which stream."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._recorded: dict[int, int] = {}

    def event_created(self, cuda_event: int) -> None:
        self._log.num_events_alive += 1

    def event_deleted(self, cuda_event: int) -> None:
        self._log.num_events_alive -= 1

    def event_recorded(self, cuda_event: int, stream: int) -> None:
        self._recorded[cuda_event] = stream

    def event_waited(self, cuda_event: int, stream: int) -> None:
        self._log.edges.append((self._recorded[cuda_event], stream))


@pytest.fixture
def device() -> Iterator[cudalens.virtual.device]:
    with cudalens.virtual.device("h100x2") as entered:
        yield entered


@contextmanager
def logged(device: cudalens.virtual.device) -> Iterator[Log]:
    log = Log()
    assert device.gpus is not None
    machine, launch = device.gpus.machine, Stream.launch

    def noted(self: Stream, work: Work, call: str = "cudaLaunchKernel") -> object:
        log.launches.append((str(work.op), self.handle))
        return launch(self, work, call)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stream, "launch", noted)
        patch.setattr(machine, "signals", _Signals(log))
        yield log


def _weight() -> torch.Tensor:
    return torch.ones(4, 4, device="cuda", requires_grad=True)


def test_nodes_run_on_the_streams_of_their_forward(device: cudalens.virtual.device) -> None:
    side, weight = torch.cuda.Stream(), _weight()
    with torch.cuda.stream(side):
        hidden = torch.mm(weight, weight.detach())
    torch.cuda.current_stream().wait_stream(side)
    loss = hidden.exp().sum()
    with logged(device) as log:
        loss.backward()
    assert log.streams_of("mul") == [0]
    assert log.streams_of("mm") == [side.cuda_stream]


def test_events_are_recorded_where_gradients_cross_and_at_the_end(device: cudalens.virtual.device) -> None:
    side, weight = torch.cuda.Stream(), _weight()
    with torch.cuda.stream(side):
        hidden = torch.mm(weight, weight.detach())
    loss = hidden.sum()
    with logged(device) as log:
        loss.backward()
    assert log.edges == [(0, side.cuda_stream), (side.cuda_stream, 0)]
    assert log.num_events_alive == 0


def test_a_pass_on_one_stream_needs_no_event(device: cudalens.virtual.device) -> None:
    side, weight = torch.cuda.Stream(), _weight()
    with torch.cuda.stream(side):
        loss = torch.mm(weight, weight.detach()).sum()
        with logged(device) as log:
            loss.backward()
    assert log.edges == []
    assert {stream for _, stream in log.launches} == {side.cuda_stream}


def test_the_caller_on_another_stream_hands_in_and_waits(device: cudalens.virtual.device) -> None:
    side, weight = torch.cuda.Stream(), _weight()
    loss = torch.mm(weight, weight.detach()).sum()
    with logged(device) as log, torch.cuda.stream(side):
        loss.backward()
        assert torch.cuda.current_stream() == side
    assert log.streams_of("ones_like") == [side.cuda_stream]
    assert log.streams_of("mm") == [0]
    assert log.edges == [(side.cuda_stream, 0), (0, side.cuda_stream)]


def test_gradients_of_one_input_are_added_on_its_stream(device: cudalens.virtual.device) -> None:
    side = torch.cuda.Stream()
    weight = _weight()
    root = weight * 1.0
    with torch.cuda.stream(side):
        right = root.exp()
    left = root.exp()
    loss = (left + right).sum()
    with logged(device) as log:
        loss.backward()
    adds = [op for op, _ in log.launches].count("aten::add") + [op for op, _ in log.launches].count("aten::add_")
    assert adds == 1
    assert log.streams_of("add") + log.streams_of("add_") == [0]
    assert (side.cuda_stream, 0) in log.edges


def test_a_leaf_used_on_two_streams_is_added_to_on_the_first(device: cudalens.virtual.device) -> None:
    side, weight = torch.cuda.Stream(), _weight()
    with torch.cuda.stream(side):
        first = torch.mm(weight, weight.detach())
    second = torch.mm(weight, weight.detach())
    loss = (first + second).sum()
    with logged(device) as log:
        loss.backward()
    assert log.streams_of("mm") == [0, side.cuda_stream]
    assert log.streams_of("add") + log.streams_of("add_") == [side.cuda_stream]
    assert torch.equal(weight.grad, torch.full((4, 4), 8.0, device="cuda"))


def test_hooks_see_the_nodes_stream(device: cudalens.virtual.device) -> None:
    side, weight = torch.cuda.Stream(), _weight()
    seen: list[int] = []
    with torch.cuda.stream(side):
        hidden = weight * 2
        hidden.register_hook(lambda grad: seen.append(torch.cuda.current_stream().cuda_stream))
    outer = hidden.exp()
    outer.register_hook(lambda grad: seen.append(torch.cuda.current_stream().cuda_stream))
    outer.sum().backward()
    assert seen == [0, side.cuda_stream]


def test_a_streams_switch_inside_a_node_ends_with_it(device: cudalens.virtual.device) -> None:
    side, other = torch.cuda.Stream(), torch.cuda.Stream()

    class Switching(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
            return x * 1

        @staticmethod
        def backward(ctx: object, grad: torch.Tensor) -> torch.Tensor:
            assert torch.cuda.current_stream() == side
            torch.cuda.set_stream(other)
            return grad.neg()

    weight = _weight()
    hidden = weight.exp()
    with torch.cuda.stream(side):
        switched = Switching.apply(hidden)
    with logged(device) as log:
        switched.sum().backward()
    assert log.streams_of("neg") == [other.cuda_stream]
    assert log.streams_of("mul") == [0]
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpointed_work_runs_again_on_its_stream(device: cudalens.virtual.device, use_reentrant: bool) -> None:
    side, weight = torch.cuda.Stream(), _weight()
    with torch.cuda.stream(side):
        hidden = checkpoint(lambda x: torch.mm(x, x).tanh(), weight * 1.0, use_reentrant=use_reentrant)
    loss = hidden.sum()
    with logged(device) as log:
        loss.backward()
    assert set(log.streams_of("mm")) == {side.cuda_stream}
    assert set(log.streams_of("tanh_backward")) == {side.cuda_stream}
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    assert log.num_events_alive == 0


def test_grad_of_chosen_inputs_waits_for_their_streams(device: cudalens.virtual.device) -> None:
    side, weight = torch.cuda.Stream(), _weight()
    with torch.cuda.stream(side):
        hidden = weight * 2
    loss = hidden.exp().sum()
    with logged(device) as log:
        torch.autograd.grad(loss, weight)
    assert log.edges == [(0, side.cuda_stream), (side.cuda_stream, 0)]


def test_an_error_in_a_node_leaves_the_callers_stream(device: cudalens.virtual.device) -> None:
    side, weight = torch.cuda.Stream(), _weight()
    with torch.cuda.stream(side):
        hidden = weight * 2

    def fail(grad: torch.Tensor) -> None:
        raise ZeroDivisionError

    hidden.register_hook(fail)
    with logged(device) as log:
        with pytest.raises(ZeroDivisionError):
            hidden.exp().sum().backward()
        assert torch.cuda.current_stream() == torch.cuda.default_stream()
    assert log.num_events_alive == 0
    assert device.gpus is not None
    assert device.gpus.machine.before_stream_read is None


def test_a_graph_that_is_kept_runs_twice_alike(device: cudalens.virtual.device) -> None:
    side, weight = torch.cuda.Stream(), _weight()
    with torch.cuda.stream(side):
        hidden = torch.mm(weight, weight.detach())
    loss = hidden.sum()
    logs = []
    for _ in range(2):
        weight.grad = None
        with logged(device) as log:
            loss.backward(retain_graph=True)
        logs.append((log.launches, log.edges))
    assert logs[0] == logs[1]


def test_a_thread_that_only_runs_backward_finds_the_streams(device: cudalens.virtual.device) -> None:
    side, weight = torch.cuda.Stream(), _weight()
    with torch.cuda.stream(side):
        hidden = torch.mm(weight, weight.detach())
    loss = hidden.sum()
    with logged(device) as log:
        thread = threading.Thread(target=loss.backward)
        thread.start()
        thread.join()
    assert log.streams_of("mm") == [side.cuda_stream]


def test_gradients_memory_is_kept_for_the_stream_that_uses_it(device: cudalens.virtual.device) -> None:
    """A gradient made on one stream and used on another is recorded there, as torch's engine does."""
    side, weight = torch.cuda.Stream(), _weight()
    with torch.cuda.stream(side):
        hidden = torch.mm(weight, weight.detach())
    assert device.gpus is not None
    recorded: list[int] = []
    record_stream = device.gpus.record_stream
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            device.gpus,
            "record_stream",
            lambda d, block, stream: recorded.append(stream.handle) or record_stream(d, block, stream),
        )
        (hidden * 2).sum().backward()
    assert recorded == [side.cuda_stream]


def test_torchs_own_sanitizer_finds_nothing_in_a_pass_that_crosses_streams(device: cudalens.virtual.device) -> None:
    from torch.cuda._sanitizer import CUDASanitizerDispatchMode

    side, weight = torch.cuda.Stream(), _weight()
    torch.cuda.synchronize()
    with CUDASanitizerDispatchMode():
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            hidden = torch.mm(weight, weight.detach())
            other = hidden.exp()
        torch.cuda.current_stream().wait_stream(side)
        (hidden.tanh() + other.sin()).sum().backward()
        weight.grad.neg()


def test_prefetching_on_a_side_stream_leaves_no_history(device: cudalens.virtual.device) -> None:
    side, weight = torch.cuda.Stream(), _weight()
    with logged(device) as log:
        for _ in range(20):
            with torch.cuda.stream(side):
                batch = torch.ones(4, 4).to("cuda", non_blocking=True)
            torch.cuda.current_stream().wait_stream(side)
            torch.mm(weight, batch).sum().backward()
    assert set(log.streams_of("mm")) == {0}
    assert device.gpus is not None
    history = device.gpus.machine.on_switch.__self__._per_thread.history  # type: ignore[union-attr]
    assert len(history) == 1


class _Named:
    """The attributes of a stream that a history reads."""

    def __init__(self, handle: int) -> None:
        self.handle = handle


STREAMS = [_Named(handle) for handle in range(4)]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=60))
def test_history_returns_as_a_list_of_every_node_would(moves: list[tuple[int, int]]) -> None:
    """Moves: switch to a stream, then make some nodes."""
    history, nodes = History(), []
    current: dict[int, _Named] = {}
    for stream, num_nodes in moves:
        current = named({0: STREAMS[stream]})
        history.record(len(nodes), current)
        nodes += [current] * num_nodes
    assert [history.at(number) for number in range(len(nodes))] == nodes
    assert history.last == current
    assert len(history) <= 1 + len(moves)


@settings(max_examples=examples(5), deadline=None)
@given(st.integers(1, 3))
def test_history_stays_bounded_and_keeps_what_is_recent(step: int) -> None:
    history = History()
    last = 3 * MAX_SWITCHES
    for number in range(0, last * step, step):
        history.record(number, named({0: STREAMS[1 + (number // step) % 2]}))
    assert len(history) <= MAX_SWITCHES
    for number in range((last - MAX_SWITCHES // 2) * step, last * step, step):
        assert history.at(number) == {0: STREAMS[1 + (number // step) % 2]}


def test_nodes_made_in_a_backward_pass_keep_its_streams(device: cudalens.virtual.device) -> None:
    side, weight = torch.cuda.Stream(), _weight()
    with torch.cuda.stream(side):
        hidden = torch.mm(weight, weight.detach())
    (first,) = torch.autograd.grad(hidden.square().sum(), weight, create_graph=True)
    with logged(device) as log:
        first.sum().backward()
    assert len(log.streams_of("mm")) == 2
    assert set(log.streams_of("mm")) == {side.cuda_stream}


@pytest.mark.parametrize(
    "transform", [torch.func.hessian, torch.func.jacrev, lambda f: torch.func.vmap(torch.func.grad(f))]
)
def test_transforms_differentiate_after_work_on_another_stream(device: cudalens.virtual.device, transform) -> None:
    weight = _weight()
    with torch.cuda.stream(torch.cuda.Stream()):
        (weight * 2).sum().backward()
    torch.cuda.synchronize()
    x = torch.rand_like(weight)
    found = transform(lambda value: (value * weight).sin().sum())(x)
    expected = transform(lambda value: (value * weight.cpu()).sin().sum())(x.cpu())
    assert torch.equal(found.cpu(), expected)


class DoubleOnce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return 2 * grad


def test_a_second_backward_of_a_function_that_allows_one_raises_the_error_of_torch(
    device: cudalens.virtual.device,
) -> None:
    """The node that torch makes for the error has no number, and is not the node of a leaf."""
    x = torch.ones(3, device="cuda", requires_grad=True)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = DoubleOnce.apply(x).square().sum()
        (grad,) = torch.autograd.grad(y, x, create_graph=True)
    torch.cuda.current_stream().wait_stream(side)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        grad.sum().backward()


def test_a_backward_without_history_raises_the_error_of_torch(device: cudalens.virtual.device) -> None:
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        leaf = torch.ones(3, device="cuda", requires_grad=True)
        result = (leaf * 2).sum()
    plain = torch.ones((), device="cuda")
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad"):
        plain.backward()
    with pytest.raises(RuntimeError, match="element 1 of tensors does not require grad"):
        torch.autograd.backward([result, plain])
    with pytest.raises(RuntimeError, match="One of the differentiated Tensors does not require grad"):
        torch.autograd.grad(result, [plain])
