"""The time of CUDA graphs: one launch for the host, nodes in their order on the device."""

from __future__ import annotations

import itertools

import pytest
import torch
from graph_helpers import Log, capture, fork, spin

from cudalens.virtual import device
from cudalens.virtual.torch_cuda.graph_handles import state_of


def test_replay_costs_the_host_one_launch(h100):
    x = torch.ones(64, device="cuda")

    def program():
        out = x
        for _ in range(20):
            out = out * 1.5
        return out

    machine = h100.machine
    begin = machine.now_ns
    program()
    eager_ns = machine.now_ns - begin
    graph, _ = capture(program)
    torch.cuda.synchronize()
    begin = machine.now_ns
    graph.replay()
    assert machine.now_ns - begin == machine.spec.graph_launch_ns
    assert machine.now_ns - begin < eager_ns / 10


def test_nothing_runs_on_the_device_during_capture(h100):
    x = torch.ones(1 << 20, device="cuda")
    torch.cuda.synchronize()
    h100.machine.recorder = log = Log()
    tail = h100.devices[0].tail_ns
    graph, _ = capture(lambda: (x @ x if x.dim() == 2 else x * x).sum())
    assert log.work == []
    assert h100.devices[0].tail_ns == tail
    assert [name for name, *_ in log.calls].count("cudaLaunchKernel") >= 2
    graph.replay()
    assert len(log.work) >= 2


def test_a_replay_records_its_launch_its_graph_and_its_nodes(h100):
    x = torch.ones(1 << 16, device="cuda")
    graph, _ = capture(lambda: torch.relu(x * 2).sum())
    h100.machine.recorder = log = Log()
    graph.replay()
    ((name, start, end, correlation),) = log.calls
    assert name == "cudaGraphLaunch"
    assert end - start == h100.spec.graph_launch_ns
    placed = [row for _, _, row in log.work]
    assert [row.graph_node_id for row in placed] == [0, 1, 2]
    assert {row.correlation_id for row in placed} == {correlation}
    assert len({row.graph_id for row in placed}) == 1
    assert placed[0].graph_id is not None
    assert all(a.end_ns + h100.spec.graph_node_ns == b.start_ns for a, b in itertools.pairwise(placed))
    assert {stream for stream, _, _ in log.work} == {h100.machine.current_stream()}
    graph.replay()
    again = [row for _, _, row in log.work][3:]
    assert again[0].start_ns >= placed[-1].end_ns
    assert again[0].correlation_id != correlation


def test_the_same_program_takes_the_same_times():
    def run():
        with device("h100") as virtual:
            x = torch.ones(1 << 18, device="cuda")
            graph, out = capture(lambda: torch.softmax(x.view(512, 512) @ x.view(512, 512), 1).sum())
            for _ in range(3):
                graph.replay()
            out.item()
            return virtual.gpus.machine.now_ns

    assert run() == run()


def test_branches_of_a_graph_overlap_on_the_device(h100):
    h100.machine.recorder = log = Log()
    x = torch.ones(256, device="cuda")
    forked, (left, right) = capture(fork(lambda: (x * 2) + 1))
    log.work.clear()
    forked.replay()
    lanes = {}
    for stream, _, placed in log.work:
        lanes.setdefault(stream, []).append(placed)
    assert left.tolist() == right.tolist() == [3.0] * 256
    first, second = lanes.values()
    assert first[0].start_ns == second[0].start_ns
    assert first[0].end_ns <= first[1].start_ns
    assert second[0].end_ns <= second[1].start_ns


def test_a_join_comes_after_both_branches_and_the_stream_after_the_graph(h100):
    h100.machine.recorder = log = Log()
    x = torch.ones(256, device="cuda")
    side = torch.cuda.Stream()

    def program():
        main = torch.cuda.current_stream()
        side.wait_stream(main)
        with torch.cuda.stream(side):
            spin(2)
            right = x * 3
        left = x * 2
        main.wait_stream(side)
        return left + right

    graph, out = capture(program)
    log.work.clear()
    graph.replay()
    x.add_(1)
    *branches, join, after = [placed for _, _, placed in log.work]
    assert join.start_ns >= max(placed.end_ns for placed in branches) + h100.spec.graph_node_ns
    assert after.start_ns >= join.end_ns
    assert out.tolist() == [5.0] * 256


def test_a_graph_runs_on_the_stream_that_launches_it(h100):
    x = torch.ones(256, device="cuda")
    graph, _ = capture(lambda: x * 2)
    busy, idle = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.cuda.stream(busy):
        spin(1)
        graph.replay()
    assert not busy.query()
    assert idle.query()
    busy.synchronize()
    assert busy.query()


def test_external_events_are_nodes_that_measure_times_within_the_graph(h100):
    begin = torch.cuda.Event(enable_timing=True, external=True)
    end = torch.cuda.Event(enable_timing=True, external=True)
    x = torch.ones(256, device="cuda")

    def program():
        x.mul_(2)
        begin.record()
        spin(1)
        end.record()

    graph, _ = capture(program)
    graph.replay()
    torch.cuda.synchronize()
    assert begin.elapsed_time(end) == pytest.approx(1.0, rel=0.05)


def test_a_replay_that_draws_fills_its_seed_and_offset_first(h100):
    graph, _ = capture(lambda: torch.rand(4, device="cuda"))
    h100.machine.recorder = log = Log()
    graph.replay()
    assert [work.op for _, work, _ in log.work] == ["aten::fill_", "aten::fill_", "aten::rand"]
    assert [name for name, *_ in log.calls] == ["cudaLaunchKernel", "cudaLaunchKernel", "cudaGraphLaunch"]


def test_waiting_for_a_device_waits_for_what_a_graph_does_on_it(h100):
    y = torch.ones(256, device="cuda:1")
    there = torch.cuda.Stream(device=1)

    def program():
        main = torch.cuda.current_stream()
        there.wait_stream(main)
        with torch.cuda.stream(there):
            spin(3)
            y.mul_(2)
        main.wait_stream(there)

    graph, _ = capture(program)
    begin = h100.machine.now_ns
    graph.replay()
    torch.cuda.synchronize(1)
    assert h100.machine.now_ns - begin > 2_900_000
    assert y.tolist() == [2.0] * 256


def test_graphs_are_numbered_from_one_on_every_device():
    def number():
        with device("h100"):
            graph, x = torch.cuda.CUDAGraph(), torch.ones(3, device="cuda")
            with torch.cuda.graph(graph):
                x.add_(1)
            return state_of(graph).graph.id

    assert [number(), number()] == [1, 1]
