"""CUDA graphs on a virtual device: the state after a capture, and the values of a replay."""

from __future__ import annotations

import pytest
import torch
import torch.utils.checkpoint
from budget import examples
from graph_helpers import UNSUPPORTED, Capturing, capture
from hypothesis import given, settings
from hypothesis import strategies as st

from cudalens.errors import VirtualDeviceError
from cudalens.virtual import device


def test_capture_runs_nothing_and_replay_runs_it_on_the_same_memory(graph_gpus):
    x, total = torch.arange(3.0, device="cuda"), torch.zeros(3, device="cuda")

    def program():
        doubled = x * 2
        total.add_(doubled)
        return doubled

    graph, doubled = capture(program)
    assert total.tolist() == [0, 0, 0]
    assert doubled.isnan().all()
    address = doubled.data_ptr()
    graph.replay()
    assert doubled.tolist() == [0, 2, 4]
    x.fill_(5)
    graph.replay()
    assert doubled.tolist() == [10, 10, 10]
    assert total.tolist() == [10, 12, 14]
    assert doubled.data_ptr() == address


def test_memory_made_by_a_capture_is_undefined_until_the_first_replay(h100):
    x = torch.ones(3, device="cuda")

    def program():
        return x + 1, x.to(torch.int64) + 1, torch.complex(x, x), x > 0

    graph, (real, whole, imaginary, truth) = capture(program)
    assert real.isnan().all()
    assert imaginary.isnan().all()
    assert not whole.any()
    assert not truth.any()
    graph.replay()
    assert real.tolist() == [2, 2, 2]
    assert whole.tolist() == [2, 2, 2]
    assert truth.all()
    assert imaginary.tolist() == [1 + 1j] * 3


def test_views_of_what_a_capture_made_show_the_replay(h100):
    x = torch.arange(6.0, device="cuda")

    def program():
        grid = x.clone().view(2, 3)
        row, column = grid[1], grid.t()[2]
        row.mul_(10)
        return row, column, grid.sum(1, keepdim=True).expand(2, 3)

    graph, (row, column, sums) = capture(program)
    graph.replay()
    assert row.tolist() == [30, 40, 50]
    assert column.tolist() == [2, 50]
    assert sums.tolist() == [[3, 3, 3], [120, 120, 120]]


def test_conjugates_and_negatives_are_captured(h100):
    x = torch.tensor([1 + 2j, 3 - 1j]).cuda()

    def program():
        return x.conj() * 2, x.conj().imag + 0

    graph, (scaled, imaginary) = capture(program)
    graph.replay()
    assert scaled.tolist() == [2 - 4j, 6 + 2j]
    assert imaginary.tolist() == [-2, 1]


def test_numbers_in_host_memory_are_read_when_the_operator_is_captured(h100):
    x, factor = torch.ones(2, device="cuda"), torch.tensor(3.0)
    graph, out = capture(lambda: x * factor)
    factor.fill_(100.0)
    graph.replay()
    assert out.tolist() == [3, 3]


def test_a_blank_tensor_keeps_what_was_written_into_it_between_replays(h100):
    x = torch.ones(2, device="cuda")

    def program():
        blank = torch.empty(2, device="cuda")
        return blank, blank + x

    graph, (blank, out) = capture(program)
    blank.fill_(4)
    graph.replay()
    assert out.tolist() == [5, 5]
    assert blank.tolist() == [4, 4]


def test_results_that_resize_their_target_are_captured(h100):
    a, b = torch.eye(3, device="cuda"), torch.ones(3, 2, device="cuda")

    def program():
        out = torch.empty(0, device="cuda")
        torch.mm(a, b, out=out)
        return out

    graph, out = capture(program)
    graph.replay()
    assert out.tolist() == [[1, 1]] * 3
    del out
    graph.replay()  # now in its own memory


def test_running_statistics_are_written_by_replays_alone(h100):
    norm = torch.nn.BatchNorm1d(3).cuda()
    x = torch.randn(8, 3, device="cuda")
    graph, _ = capture(lambda: norm(x))
    assert norm.running_mean.tolist() == [0, 0, 0]
    assert norm.num_batches_tracked.item() == 0
    twin = torch.nn.BatchNorm1d(3)
    for _ in range(3):
        graph.replay()
        twin(x.cpu())
    assert torch.equal(norm.running_mean.cpu(), twin.running_mean)
    assert torch.equal(norm.running_var.cpu(), twin.running_var)
    assert norm.num_batches_tracked.item() == 3


STEPS = {
    "mul": lambda s, x: s.append(s[-1] * 1.5 + x),
    "relu": lambda s, x: s.append(torch.relu(s[-1])),
    "matmul": lambda s, x: s.append(s[-1] @ x.t().contiguous() @ x / 4),
    "inplace": lambda s, x: s[-1].add_(s[0].mean()),
    "state": lambda s, x: s[0].mul_(0.5).add_(s[-1]),
    "row": lambda s, x: s[-1][0].copy_(s[0][1]),
    "drop": lambda s, x: s.pop() if len(s) > 2 else None,
    "split": lambda s, x: s.append(torch.cat(list(reversed(s[-1].chunk(2, dim=1))), dim=1)),
    "topk": lambda s, x: s.append(s[-1].topk(4, dim=1).values),
    "factory": lambda s, x: s.append(torch.ones_like(x) - s[-1]),
    "where": lambda s, x: s.append(torch.where(s[-1] > 0, s[-1], -0.5)),
    "softmax": lambda s, x: s.append(torch.softmax(s[-1], dim=1)),
    "slice": lambda s, x: s[-1][:, 1:3].mul_(2.0),
    "foreach": lambda s, x: torch._foreach_add_([s[0], s[-1]], 1.0) if s[0] is not s[-1] else None,
}


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=10), st.integers(0, 2**31))
def test_replays_equal_eager_runs_bit_for_bit(names, seed):
    """A random program of operators with a state that it changes, against the same program on the CPU."""
    draw = torch.Generator().manual_seed(seed)
    inputs = [torch.randn(4, 4, generator=draw) for _ in range(3)]
    start = torch.randn(4, 4, generator=draw)

    def program(state, x):
        stack = [state, state + x]
        for name in names:
            STEPS[name](stack, x)
        return stack[1:]

    state, expected = start.clone(), []
    for x in inputs:
        expected.append([*(out.clone() for out in program(state, x)), state.clone()])
    with device("h100"):
        state, x = start.cuda(), torch.empty(4, 4, device="cuda")
        graph, outs = capture(lambda: program(state, x))
        for given_x, wanted in zip(inputs, expected, strict=True):
            x.copy_(given_x)
            graph.replay()
            for ours, theirs in zip((*outs, state), wanted, strict=True):
                assert torch.equal(ours.cpu(), theirs)


def test_replays_draw_the_numbers_that_eager_operators_would_draw(h100):
    x = torch.ones(16, device="cuda")

    def program():
        return torch.rand(4, device="cuda"), torch.nn.functional.dropout(x, 0.5), torch.randperm(9, device="cuda")

    torch.cuda.manual_seed(3)
    eager = [[out.cpu() for out in program()] for _ in range(3)]
    torch.cuda.manual_seed(3)
    graph, outs = capture(program)
    for wanted in eager:
        graph.replay()
        assert all(torch.equal(ours.cpu(), theirs) for ours, theirs in zip(outs, wanted, strict=True))
    assert not torch.equal(eager[0][0], eager[1][0])


def test_a_generator_of_ones_own_is_left_alone_by_the_capture(h100):
    mine = torch.Generator(device="cuda").manual_seed(5)
    wanted = [torch.rand(3, device="cuda", generator=mine).tolist() for _ in range(2)]
    mine.manual_seed(5)
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(mine)
    with torch.cuda.graph(graph):
        out = torch.rand(3, device="cuda", generator=mine)
    found = []
    for _ in range(2):
        graph.replay()
        found.append(out.tolist())
    assert found == wanted


def test_copies_of_pinned_memory_are_part_of_the_graph(h100):
    source, target = torch.ones(3).pin_memory(), torch.zeros(3).pin_memory()
    x = torch.zeros(3, device="cuda")

    def program():
        x.copy_(source, non_blocking=True)
        x.mul_(2)
        target.copy_(x, non_blocking=True)

    graph, _ = capture(program)
    assert x.tolist() == [0, 0, 0]
    assert target.tolist() == [0, 0, 0]
    for value in (1, 7):
        source.fill_(value)
        graph.replay()
        torch.cuda.synchronize()
        assert target.tolist() == [2 * value] * 3


def test_states_read_in_a_capture_can_be_set_in_it(h100):
    """Checkpointing computes the forward twice and draws the same numbers both times."""

    def program(x):
        out = torch.utils.checkpoint.checkpoint(
            lambda y: (torch.nn.functional.dropout(y, 0.5) * torch.rand(8, device="cuda")).sin(), x, use_reentrant=False
        )
        return torch.autograd.grad(out.sum(), x)[0]

    x = torch.ones(8, device="cuda", requires_grad=True)
    torch.cuda.manual_seed(3)
    wanted = [program(x).tolist() for _ in range(3)]
    torch.cuda.manual_seed(3)
    graph, grad = capture(lambda: program(x))
    found = []
    for _ in range(3):
        graph.replay()
        found.append(grad.tolist())
    assert found == wanted
    assert wanted[0] != wanted[1]


def test_seeds_and_states_from_outside_are_refused_within_a_capture(h100):
    torch.cuda.manual_seed(3)
    torch.rand(2, device="cuda")
    state = torch.cuda.get_rng_state()
    torch.rand(2, device="cuda")
    with Capturing():
        torch.cuda.manual_seed(3)
        with pytest.raises(RuntimeError, match="only if new seed is the same as the original seed"):
            torch.cuda.manual_seed(4)
        with pytest.raises(VirtualDeviceError, match="set to a state from outside of the active graph capture"):
            torch.cuda.set_rng_state(state)


@pytest.mark.parametrize(
    "act",
    [
        lambda x: x.cpu(),
        lambda x: x.copy_(torch.ones(3)),
        lambda x: torch.ones(3).to("cuda", non_blocking=True),
        lambda x: torch.tensor([1.0, 2.0], device="cuda"),
        lambda x: x[torch.tensor([0, 1])],
    ],
)
def test_pageable_copies_are_refused_before_they_are_made(h100, act):
    x = torch.zeros(3, device="cuda")
    with Capturing() as running:
        with pytest.raises(RuntimeError, match=f"unless the CPU tensor is pinned|{UNSUPPORTED}") as info:
            act(x)
        if "pinned" in str(info.value):
            x.add_(1)
            running.end()  # torch's check raises before CUDA's: the capture is still valid
            running.graph.replay()
            assert x.tolist() == [1, 1, 1]
