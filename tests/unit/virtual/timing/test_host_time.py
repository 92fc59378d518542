"""The real time between a program's calls of torch: counted, and added to the virtual clock on request."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from functools import partial

import pytest
import torch

import cudalens
from cudalens.device import gpu_trace
from cudalens.virtual import context, device
from cudalens.virtual.timing.machine import SHORT_NS, HostTime, thread_use_reader

GAP = 3 * SHORT_NS


class Clock:
    """A real clock that the test moves."""

    now = 0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def gaps():
    return []


@pytest.fixture
def host(clock, gaps):
    return HostTime(gaps.append, clock)


def call(host, clock, num_ns=0):
    host.enter()
    clock.now += num_ns
    host.leave()


def test_time_between_calls_counts_and_time_inside_does_not(host, clock, gaps):
    call(host, clock, num_ns=GAP)
    clock.now += GAP
    call(host, clock, num_ns=GAP)
    assert (gaps, host.total_ns) == ([GAP], GAP)


def test_short_gaps_belong_to_the_calls(host, clock, gaps):
    clock.now += SHORT_NS - 1
    call(host, clock)
    assert gaps == []


def test_a_call_inside_of_a_call_is_part_of_it(host, clock, gaps):
    host.enter()
    clock.now += GAP
    call(host, clock)
    clock.now += GAP
    host.leave()
    call(host, clock)
    assert gaps == []


def test_other_threads_are_not_measured(host, clock, gaps):
    clock.now += GAP
    thread = threading.Thread(target=call, args=(host, clock))
    thread.start()
    thread.join()
    assert gaps == []


def test_an_operator_on_host_tensors_is_host_time(host, clock, gaps):
    clock.now += GAP
    host.add(0)
    assert gaps == [GAP]


def test_skipped_time_does_not_count(host, clock, gaps):
    clock.now += GAP
    host.skip()
    call(host, clock)
    assert gaps == []


@pytest.mark.parametrize(("waits", "counted"), [(0, GAP), (1, 4 * GAP)])
def test_time_of_other_programs_does_not_count_and_a_wait_does(clock, gaps, waits, counted):
    use = [0, 0]
    host = HostTime(gaps.append, clock, lambda: tuple(use))
    clock.now += 4 * GAP
    use[:] = GAP, waits
    call(host, clock)
    assert gaps == [counted]


def test_a_sleep_is_seen_as_a_wait():
    use = thread_use_reader()
    if use is None:
        pytest.skip("this system does not count the waits of a thread")
    _, before = use()
    time.sleep(0.001)
    assert use()[1] > before


def test_without_the_option_the_gaps_are_only_counted(clock):
    host = HostTime(None, clock)
    clock.now += GAP
    call(host, clock)
    assert (host.total_ns, host.is_measured) == (GAP, False)


@pytest.fixture
def during(clock):
    """Let the clock move by `GAP` whenever the device sends an event of a kind; gives the host time of the block."""

    @contextmanager
    def watch(kind):
        host = context.active().gpus.machine.host_time
        host.now_ns = clock
        host.skip()
        before = host.total_ns

        def work(event):
            if isinstance(event, kind):
                clock.now += GAP

        started = clock.now
        with gpu_trace.subscribe(work):
            yield lambda: host.total_ns - before
        host.catch_up()
        assert clock.now > started

    return watch


def test_a_replay_is_a_call(during):
    with device("h100"):
        x = torch.ones(8, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            x.add_(1)
        with during(gpu_trace.GraphReplayed) as host_ns:
            graph.replay()
        assert host_ns() == 0


def test_a_kernel_of_compiled_code_is_a_call(during):
    with device("h100"):
        x = torch.ones(8, device="cuda")
        function = torch.compile(lambda x: x.sin() + 1)
        function(x)
        with during(gpu_trace.KernelLaunched) as host_ns:
            function(x)
        assert host_ns() == 0


def test_an_operator_that_no_function_mode_sees_is_a_call(during):
    with device("h100"):
        x = torch.ones(8, device="cuda")
        with during(gpu_trace.MemoryAllocated) as host_ns, torch._C.DisableTorchFunction():
            y = x + 1
        assert host_ns() == 0
        assert y.tolist() == [2.0] * 8


def busy(num_ns):
    """Python code that takes at least this CPU time."""
    end = time.thread_time_ns() + num_ns
    while time.thread_time_ns() < end:
        pass


@pytest.mark.parametrize("measure_host", [False, True])
def test_python_code_between_calls_lasts_on_the_virtual_clock(measure_host):
    with device("h100", measure_host=measure_host):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        busy(5_000_000)
        end.record()
        torch.cuda.synchronize()
        assert (begin.elapsed_time(end) >= 5) == measure_host


@pytest.mark.parametrize("measure_host", [False, True])
def test_a_verdict_says_that_python_time_is_not_modelled(measure_host):
    with device("h100", measure_host=measure_host):
        x = torch.ones(8, device="cuda")
        with cudalens.profile("loader") as run:
            busy(60_000_000)
            x.add_(1)
    line = str(run.trace.summary()).splitlines()[0]
    assert line.startswith("[simulated: h100] the host took ") == (not measure_host), line
    left_out = "ms between calls of torch, which the simulation leaves out (%cudadevice --measure-host); modelled: "
    assert (left_out in line) == (not measure_host)
    assert (run.trace.info.ended_ns - run.trace.info.started_ns >= 60_000_000) == measure_host


def rows_of(trace, name):
    events = trace.events
    return events[events["name"].astype(str).str.contains(name, regex=False)]


MS = 1_000_000
RANGES_MS = {"first": 5, "last": 7, "python alone": 13}


def test_python_time_at_the_start_and_the_end_of_a_range_is_inside_of_it():
    with device("h100", measure_host=True):
        x = torch.ones(8, device="cuda")
        with cudalens.profile("ranges") as run:
            busy(3 * MS)
            with torch.profiler.record_function("first"):
                busy(5 * MS)
                x.add_(1)
            with torch.profiler.record_function("last"):
                x.add_(1)
                busy(7 * MS)
            busy(11 * MS)
            with torch.profiler.record_function("python alone"):
                busy(13 * MS)
    times = {name: rows_of(run.trace, name).query("cat == 'user_annotation'")["dur"].sum() for name in RANGES_MS}
    assert all(times[name] >= least * MS for name, least in RANGES_MS.items()), times
    assert run.trace.info.ended_ns - run.trace.info.started_ns >= sum(times.values()) + 14 * MS


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, number):
        busy(5 * MS)
        return torch.ones(8)


def test_python_time_of_a_dataset_is_waiting_for_data():
    with device("h100", measure_host=True):
        model = torch.nn.Linear(8, 8).cuda()
        with cudalens.profile("loading") as run:
            for batch in torch.utils.data.DataLoader(Samples(), batch_size=None):
                model(batch.cuda())
    fetches = rows_of(run.trace, "enumerate(DataLoader)").query("cat == 'user_annotation'")
    assert sorted(fetches["dur"])[-4] >= 5 * MS
    first = cudalens.analysis.findings(run.trace)[0]
    assert first.rule == "data_loader", first
    assert first.gain_ns >= 10 * MS


def test_python_time_is_in_the_function_that_took_it():
    with device("h100", measure_host=True):
        x = torch.ones(8, device="cuda")
        with cudalens.profile("stacks", stacks=True) as run:
            busy(6 * MS)
            x.add_(1)
    (dur,) = rows_of(run.trace, "busy").query("cat == 'python_function'")["dur"]
    assert dur >= 5.9 * MS


def test_a_measured_operator_on_host_tensors_lasts_as_long_as_it_took():
    with device("h100", measure_host=True):
        x = torch.ones(8, device="cuda")
        with cudalens.profile("host op") as run:
            torch.randn(2_000_000).sort()
            x.add_(1)
    assert rows_of(run.trace, "aten::sort")["dur"].max() >= MS  # a modelled call takes microseconds


def scripted(x: torch.Tensor) -> torch.Tensor:
    for _ in range(100):
        x = x @ x
    return x


def replayed(x):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        scripted(x)
    return graph.replay


@pytest.mark.parametrize("measure_host", [False, True])
@pytest.mark.parametrize(
    "prepare", [replayed, lambda x: partial(torch.jit.script(scripted), x)], ids=["replay", "script"]
)
def test_values_that_the_device_computes_are_not_host_time(prepare, measure_host):
    """In calls that no function mode sees, too: a replay, and a scripted function, which runs in C++."""
    with device("h100", measure_host=measure_host) as virtual:
        x = torch.zeros(300, 300, device="cuda")
        call, machine = prepare(x), virtual.gpus.machine
        call()
        machine.host_time.catch_up()
        counted, now, began = machine.host_time.total_ns, machine.now_ns, time.perf_counter_ns()
        call()
        took = time.perf_counter_ns() - began
        machine.host_time.catch_up()
        assert machine.host_time.total_ns - counted < took / 2
        assert machine.now_ns - now < took / 2
