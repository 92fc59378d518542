"""Functions for which graphs do not pay run without one, and the reason has the numbers."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import pytest
import torch

import cudalens
from cudalens import virtual
from cudalens.graphs import GraphManager, Reason
from cudalens.graphs.costs import NUM_EAGER, NUM_REPLAYS, NUM_TIMED, HostCost
from cudalens.views.graphs.words import verdict


def _chain(length: int):
    gc.collect()  # functions of earlier calls with an equal variable would be warmed up twice, to tell which one ran

    def step(x):
        for _ in range(length):
            x = x + 1
        return x

    return step


def _trace(manager):
    from cudalens.api.run_info import graphs_trace

    return graphs_trace(manager, "cell")


def _counts(step):
    counts = step._function.counts
    return counts.warmups, counts.recordings, counts.replays, counts.eager


@pytest.mark.parametrize(("length", "is_slower"), [(1, True), (4, True), (30, False)])
def test_a_function_of_few_kernels_runs_without_a_graph_after_ten_replays(length: int, is_slower: bool) -> None:
    with virtual.device("h100"):
        manager = GraphManager()
        step = manager.wrap(_chain(length), name="step")
        for number in range(20):
            given = torch.full((4,), float(number), device="cuda")
            assert step(given).tolist() == [number + length] * 4
        expected = (1, 1, NUM_REPLAYS, 20 - 2 - NUM_REPLAYS) if is_slower else (1, 1, 18, 0)
        assert _counts(step) == expected
        assert len(manager.nodes()) == (0 if is_slower else 1)
        manager.shutdown()


def test_the_first_line_and_the_reason_have_the_modelled_times() -> None:
    with virtual.device("h100") as device:
        manager = GraphManager()
        step = manager.wrap(_chain(2), name="step")
        for _ in range(20):
            step(torch.ones(4, device="cuda"))
        trace = _trace(manager)
        skip = trace.graphs[trace.graphs["kind"] == "skip"].iloc[0]
        spec = device.spec
        replay_us = (20_000 + 240 + spec.launch_ns + spec.graph_launch_ns) / 1000
        assert skip["reason"] == "COSTS_MORE"
        numbers = f"{replay_us:.1f} µs of host time per replay, {2 * spec.launch_ns / 1000:.1f} µs for 2 launches"
        assert numbers in skip["detail"]
        assert "(modelled)" in skip["detail"]
        assert "1 function runs eager: step is slower as a graph" in verdict(trace)
        assert numbers in verdict(trace)
        manager.shutdown()


def test_the_first_line_has_the_modelled_gain_without_a_check() -> None:
    with virtual.device("h100") as device:
        manager = GraphManager()
        step = manager.wrap(_chain(30), name="step")
        for _ in range(5):
            step(torch.ones(4, device="cuda"))
        spec = device.spec
        gain_us = (29 * spec.launch_ns - 20_240 - spec.graph_launch_ns) / 1000
        assert f"{gain_us:.1f} µs less host time a replay (modelled)" in verdict(_trace(manager))
        manager.shutdown()


def test_it_replays_all_the_same_if_the_user_asks_for_that() -> None:
    with virtual.device("h100"):
        step = cudalens.cudagraph(_chain(1), eager_if_slower=False)
        for _ in range(20):
            step(torch.ones(4, device="cuda"))
        assert _counts(step.on(0)) == (1, 1, 18, 0)
        cudalens.graphs.reset()


def test_other_functions_replay_after_the_recordings_before_them_are_freed() -> None:
    with virtual.device("h100"):
        manager = GraphManager(debug=True)
        short, long = manager.wrap(_chain(1), name="short"), manager.wrap(_chain(30), name="long")
        for number in range(20):
            found = long(short(torch.full((4,), float(number), device="cuda")))
            assert found.tolist() == [number + 31] * 4
            del found
        assert _counts(short)[3] > 0
        assert _counts(long)[3] == 0
        assert {node.variant.function.name for node in manager.nodes()} == {"long"}
        manager.shutdown()


def test_gradients_are_those_of_eager_when_a_graph_stops_to_be_used() -> None:
    with virtual.device("h100"):
        manager = GraphManager(debug=True)
        weight = torch.nn.Parameter(torch.ones(4, device="cuda"))
        step = manager.wrap(lambda x: x * weight, name="step")
        for number in range(16):
            weight.grad = None
            step(torch.full((4,), float(number), device="cuda")).sum().backward()
            assert weight.grad.tolist() == [float(number)] * 4
        assert _counts(step)[3] > 0
        manager.shutdown()


def _node(num_kernels: int):
    variant = SimpleNamespace(num_kernels=num_kernels, function=SimpleNamespace(place=None))
    return SimpleNamespace(
        variant=variant, backwards={}, waits=[], copied=[], fixed=[], guards=[], num_replays=NUM_TIMED + 1
    )


def test_on_a_gpu_the_replays_that_are_timed_by_events_are_not_compared() -> None:
    cost, node = HostCost(), _node(3)
    for number in range(1, NUM_TIMED + 1):
        node.num_replays = number
        cost.note_replay(node, 1, None)
    assert cost.replay_ns is None


def test_on_a_gpu_the_fastest_call_without_a_graph_is_compared_with_the_fastest_replay() -> None:
    cost, node = HostCost(), _node(3)
    for number in range(NUM_REPLAYS):
        assert not cost.needs_eager_call
        cost.note_replay(node, 50_000 if number == 4 else 300_000, None)
    for host_ns in (90_000, 30_000, 80_000)[:NUM_EAGER]:
        assert cost.needs_eager_call
        cost.note_eager(host_ns)
    finding = cost.why_eager(node)
    assert finding is not None
    assert finding.reason is Reason.COSTS_MORE
    assert finding.what == "50.0 µs of host time per replay, 30.0 µs for 3 launches without one (measured)"


def test_on_a_gpu_a_function_of_many_kernels_is_not_called_without_a_graph() -> None:
    cost, node = HostCost(), _node(100)
    for _ in range(NUM_REPLAYS):
        cost.note_replay(node, 90_000, None)
    assert cost.is_decided
    assert not cost.needs_eager_call
    assert cost.why_eager(node) is None
