"""What profiling costs: the same code with the profiler and without it."""

import numpy as np
import pytest
import torch

import cudalens
from cudalens.api.overhead import _by_runs
from cudalens.frames import Overhead, Trace


class Counted:
    def __init__(self, fails_at=None):
        self.calls, self.profiled, self.fails_at = 0, 0, fails_at

    def __call__(self):
        self.calls += 1
        self.profiled += torch.autograd._profiler_enabled()
        if self.calls == self.fails_at:
            raise ValueError("enough")
        torch.ones(8).sum()


@pytest.fixture(autouse=True)
def no_runs():
    kept = dict(cudalens.runs.items())
    cudalens.runs.clear()
    yield
    cudalens.runs.clear()
    for trace in kept.values():
        cudalens.runs.add(trace)


def test_the_function_runs_as_often_with_as_without(tmp_path):
    function = Counted()
    cost = cudalens.overhead(function, repeat=3, warmup=2, name="step", cpu_only=True)
    assert (function.calls, function.profiled) == (8, 3)
    assert (cost.num_profiled, cost.num_unprofiled, cost.is_warm, cost.error) == (3, 3, True, None)
    assert cost.profiled_ns > 0
    assert cost.unprofiled_ns > 0
    assert cost.slowdown_pct == pytest.approx(100 * (cost.profiled_ns / cost.unprofiled_ns - 1))
    trace = cudalens.runs["step"]
    assert trace.info.overhead == cost
    assert trace.info.num_steps == 3
    assert Trace.load(trace.save(tmp_path / "a.cudalens")).info.overhead == cost


def test_the_time_of_a_profiled_run_is_that_of_its_window():
    cost = cudalens.overhead(Counted(), repeat=2, name="step", cpu_only=True)
    info = cudalens.runs["step"].info
    assert cost.profiled_ns == round((info.ended_ns - info.started_ns) / 2)


def test_single_runs_give_an_interval():
    cost = cudalens.overhead(Counted(), repeat=5, name="step", cpu_only=True)
    steps = cudalens.runs["step"].events.query("name.str.startswith('ProfilerStep#')")["dur"]
    assert cost.profiled_ns == round(steps.median())
    assert -100 <= cost.low_pct <= cost.slowdown_pct + 1e-3
    assert cost.slowdown_pct - 1e-3 <= cost.high_pct


def test_one_stall_makes_no_slowdown():
    """Five runs of 10 ms on both sides, but for one without the profiler that took half a second."""
    cost = Overhead(profiled_ns=10, unprofiled_ns=100, num_profiled=5, num_unprofiled=5)
    found = _by_runs(cost, np.full(5, 10_000_000), np.array([10, 10, 500, 10, 10]) * 1_000_000)
    assert (found.slowdown_pct, found.profiled_ns) == (0, 10_000_000)
    assert found.low_pct < 0 <= found.high_pct
    slow = _by_runs(cost, np.array([12, 13, 12, 13, 12]) * 1_000_000, np.full(5, 10_000_000))
    assert 0 < slow.low_pct <= slow.slowdown_pct <= slow.high_pct
    for few in (np.empty(0, int), np.full(2, 10), np.full(4, 10)):
        assert _by_runs(cost, few, np.full(5, 10)) == cost


def test_beside_a_gpu_the_hosts_time_of_a_run_is_not_the_runs():
    def step():
        (torch.ones(64, 64, device="cuda") @ torch.ones(64, 64, device="cuda")).sum()

    with cudalens.virtual.device("h100"):
        assert cudalens.overhead(step, repeat=4, name="step").low_pct is None


def test_nothing_is_kept_where_it_is_not_wanted():
    assert cudalens.overhead(Counted(), repeat=1, warmup=0, cpu_only=True, keep=False).is_warm is False
    assert len(cudalens.runs) == 0


@pytest.mark.parametrize("fails_at", [1, 2, 4])
def test_what_the_function_raises_passes_on(fails_at):
    with pytest.raises(ValueError, match="enough"):
        cudalens.overhead(Counted(fails_at), repeat=2, warmup=1, cpu_only=True)
    assert not torch.autograd._profiler_enabled()


@pytest.mark.parametrize("wrong", [{"repeat": 0}, {"warmup": -1}])
def test_numbers_that_make_no_sense(wrong):
    with pytest.raises(ValueError, match="expected at least 1"):
        cudalens.overhead(Counted(), **wrong)


def test_a_profile_around_it_is_refused_before_anything_is_profiled():
    function = Counted()
    with cudalens.profile(cpu_only=True, keep=False), pytest.raises(cudalens.ProfilerError, match="inside a profile"):
        cudalens.overhead(function, cpu_only=True)
    assert function.calls == 0


def test_a_live_trace_is_checked():
    with cudalens.profile(cpu_only=True, keep=False) as run:
        torch.ones(8).sum()
    assert run.trace.info.trust.verdict == "clean"


def test_a_virtual_device_is_clean_and_states_that_it_is_simulated():
    with cudalens.virtual.device("h100"), cudalens.profile(keep=False) as run:
        x = torch.randn(64, 64, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x @ x
        torch.cuda.current_stream().wait_stream(side)
        (y + 1).sum().item()
    trust = run.trace.info.trust
    assert trust.verdict == "clean"
    assert [finding.rule for finding in trust.findings] == ["simulated"]
