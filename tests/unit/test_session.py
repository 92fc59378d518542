from __future__ import annotations

import asyncio
import gc
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import programs
import pytest
import torch
from budget import examples
from torch.autograd import profiler as torch_profiler

import cudalens
from cudalens import ProfilerBusyError, ProfilerError, profile, runs, virtual
from cudalens.api.session import Runs, Session
from cudalens.device.interrupts import DeferredInterrupts, defers_interrupts
from cudalens.frames import empty_frame


@pytest.fixture(autouse=True)
def no_profiler_left_behind():
    runs.clear()
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert not torch.autograd._profiler_enabled()
    assert not torch_profiler._is_profiler_enabled
    runs.clear()


def names(trace):
    return set(trace.events["name"].astype(str))


def test_a_block_becomes_a_trace():
    before = time.time_ns()
    with profile("mine", memory=True, cpu_only=True, code="torch.ones(3) + 1") as p:
        torch.ones(3) + 1
    info = p.trace.info
    assert {"aten::ones", "aten::add"} <= names(p.trace)
    assert (info.name, info.source, info.status, info.error) == ("mine", "cpu", "ok", None)
    assert info.code == "torch.ones(3) + 1"
    assert info.options["memory"] is True
    assert info.options["shapes"] is False
    assert info.versions["torch"] == torch.__version__
    assert info.versions["cudalens"] == cudalens.__version__
    assert before <= info.started_ns <= info.ended_ns <= time.time_ns()
    ts = p.trace.events["ts"]
    slack = 1_000_000
    assert (ts >= info.started_ns - slack).all()
    assert (ts + p.trace.events["dur"] <= info.ended_ns + slack).all()
    assert min(info.start_s, info.stop_s, info.build_s) > 0
    assert info.devices == ()
    assert info.problems == ()
    assert runs["mine"] is p.trace is runs.last


def test_no_trace_before_the_end():
    p = profile(cpu_only=True)
    with pytest.raises(ProfilerError, match="when the profiled block ends"):
        _ = p.trace
    with p, pytest.raises(ProfilerError, match="no trace yet"):
        _ = p.trace


def test_runs_are_numbered_unless_named_and_kept_unless_disabled():
    with profile(cpu_only=True) as first, profile(cpu_only=True):
        pass
    with profile(cpu_only=True, keep=False) as second:
        pass
    assert first.trace.info.name.startswith("run-")
    assert list(runs) == [first.trace.info.name]
    assert second.trace.info.name != first.trace.info.name


def test_an_exception_propagates_and_is_in_the_trace():
    with pytest.raises(ZeroDivisionError), profile("bad", cpu_only=True) as p:  # noqa: PT012
        torch.ones(3)
        _ = 1 / 0
    assert p.trace.info.status == "raised"
    assert p.trace.info.error == "ZeroDivisionError: division by zero"
    assert "aten::ones" in names(p.trace)
    assert runs["bad"] is p.trace


def test_an_interrupt_propagates_and_is_in_the_trace():
    with pytest.raises(KeyboardInterrupt), profile(cpu_only=True) as p:  # noqa: PT012
        torch.ones(3)
        signal.raise_signal(signal.SIGINT)
    assert (p.trace.info.status, p.trace.info.error) == ("interrupted", "KeyboardInterrupt")
    assert "aten::ones" in names(p.trace)


class Interrupting:
    """A collector during whose start or stop Ctrl-C is pressed."""

    name = "interrupting"

    def __init__(self, when):
        self.when = when

    def start(self):
        if self.when == "start":
            signal.raise_signal(signal.SIGINT)

    def stop(self):
        if self.when == "stop":
            signal.raise_signal(signal.SIGINT)

    def frames(self):
        return {}


@pytest.mark.parametrize("when", ["start", "stop"])
def test_an_interrupt_while_starting_or_stopping_leaves_nothing_running(when, monkeypatch):
    real = Session.__init__
    monkeypatch.setattr(Session, "__init__", lambda self, collectors: real(self, [*collectors, Interrupting(when)]))
    ran = False
    p = profile(cpu_only=True)
    with pytest.raises(KeyboardInterrupt), p:  # noqa: PT012
        ran = True
        torch.ones(3)
    assert ran == (when == "stop")
    assert not torch.autograd._profiler_enabled()
    if when == "stop":
        assert p.trace.info.status == "interrupted"
        assert "aten::ones" in names(p.trace)
    monkeypatch.undo()
    with profile(cpu_only=True):
        pass


def test_interrupts_at_any_instant_leave_no_profiler_running():
    """A timer presses Ctrl-C at instants all over start, block, stop and build; each time the profiler must be off."""
    rounds = examples(60)
    program = (
        f"ROUNDS = {rounds}"
        """
import gc, random, signal, torch
import cudalens
from torch.autograd import profiler as tp

def work():
    with cudalens.profile(cpu_only=True, keep=False):
        torch.ones(3) + 1

def press(number, frame):
    global pressed
    pressed = True
    signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGALRM, press)
work()
gc.freeze()  # each round collects garbage
chance = random.Random(0)
caught = 0
for _ in range(ROUNDS):
    pressed = False
    try:
        signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-5, 8e-3))
        while not pressed:
            work()
    except KeyboardInterrupt:
        caught += 1
    gc.collect()
    assert not torch.autograd._profiler_enabled(), "left on by C++'s account"
    assert not tp._is_profiler_enabled, "left on by Python's account"
    work()
print(caught)
"""
    )
    done = programs.run("-c", program, timeout=60 + rounds)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 2 * rounds // 3


def test_interrupts_wait_in_marked_functions_alone():
    held = DeferredInterrupts("profile")

    @defers_interrupts("profile")
    def critical():
        signal.raise_signal(signal.SIGINT)
        return held.is_pending

    held.install()
    try:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert critical()
        with pytest.raises(KeyboardInterrupt):
            held.deliver()
        held.deliver()
    finally:
        held.remove()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_holds_that_overlap_end_in_any_order(order):
    holds = [DeferredInterrupts("profile") for _ in range(3)]
    for held in holds:
        held.install()
    for number in order:
        holds[number].remove()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_that_the_block_sets_stays():
    def mine(number, frame):
        raise AssertionError

    with profile(cpu_only=True):
        signal.signal(signal.SIGINT, mine)
    try:
        assert signal.getsignal(signal.SIGINT) is mine
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def test_a_foreign_profiler_goes_on_undisturbed():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as theirs:
        with pytest.raises(ProfilerBusyError, match="another torch profiler"), profile(cpu_only=True):
            raise AssertionError("never runs")
        torch.ones(3)
    assert "aten::ones" in {event.key for event in theirs.key_averages()}
    assert list(runs) == []


def test_a_foreign_profiler_on_another_thread_is_seen():
    started, done = threading.Event(), threading.Event()

    def foreign():
        with torch_profiler.profile(use_kineto=True):
            started.set()
            done.wait(30)

    thread = threading.Thread(target=foreign)
    thread.start()
    started.wait(30)
    try:
        with pytest.raises(ProfilerBusyError), profile(cpu_only=True):
            pass
    finally:
        done.set()
        thread.join()


def test_a_profiler_that_was_stopped_inside_the_block_is_an_error_not_a_crash():
    p = profile(cpu_only=True)
    with pytest.raises(ProfilerError, match=r"nothing could be recorded.*profiler"), p:
        torch.autograd._disable_profiler()


def test_nested_ones_are_ranges_of_the_outer():
    with profile("outer", cpu_only=True) as outer, profile("inner", memory=True) as inner:
        torch.ones(3)
        assert inner.is_nested
        with pytest.raises(ProfilerError):
            _ = inner.trace
    assert inner.trace is outer.trace
    events = outer.trace.events
    rows = {str(name): row for row, name in enumerate(events["name"])}
    assert events["parent"].iloc[rows["aten::ones"]] == rows["inner"]
    assert events["cat"].iloc[rows["inner"]] == "user_annotation"
    assert list(runs) == ["outer"]


def test_a_nested_one_that_raises_ends_its_range():
    with profile(cpu_only=True) as outer:
        with pytest.raises(ValueError, match="x"), profile("inner"):
            raise ValueError("x")
        torch.ones(3)
    events = outer.trace.events
    assert events.loc[events["name"] == "aten::ones", "depth"].tolist() == [0]
    assert outer.trace.info.status == "ok"


def test_another_thread_is_refused_while_one_profiles():
    errors = []

    def other():
        try:
            with profile(cpu_only=True):
                pass
        except ProfilerBusyError as error:
            errors.append(error)

    with profile(cpu_only=True) as p:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(errors) == 1
    assert p.trace.info.status == "ok"


def test_threads_in_turn():
    found = {}

    def work(number):
        with lock, profile(f"thread-{number}", cpu_only=True) as p:
            torch.ones(number)
        found[number] = p.trace

    lock = threading.Lock()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(runs) == {f"thread-{n}" for n in found} == {f"thread-{n}" for n in range(1, 5)}
    for trace in found.values():
        assert trace.events["tid"].nunique() == 1
        assert "aten::ones" in names(trace)


def test_an_object_serves_once():
    p = profile(cpu_only=True)
    with p, pytest.raises(ProfilerError, match="used only once"):
        p.__enter__()
    with pytest.raises(ProfilerError, match="used only once"):
        p.__enter__()
    assert p.trace.info.status == "ok"


def test_an_object_that_is_dropped_while_running_ends_its_profiler():
    p = profile(cpu_only=True)
    p.__enter__()
    assert torch.autograd._profiler_enabled()
    import cudalens.api.profile as session

    session._active = None
    del p
    gc.collect()
    assert not torch.autograd._profiler_enabled()


def test_steps_are_ranges_and_counted():
    with profile(cpu_only=True) as p:
        torch.ones(2)
        for _ in range(3):
            p.step()
            torch.zeros(3)
    events = p.trace.events
    assert p.trace.info.num_steps == 3
    steps = events[events["name"].astype(str).str.startswith("ProfilerStep#")]
    assert steps["name"].tolist() == ["ProfilerStep#0", "ProfilerStep#1", "ProfilerStep#2"]
    assert events.loc[events["name"] == "aten::zeros", "step"].tolist() == [0, 1, 2]
    assert events.loc[events["name"] == "aten::ones", "step"].isna().all()
    with pytest.raises(ProfilerError, match="inside the profiled block"):
        p.step()


def test_a_run_without_steps_counts_none():
    with profile(cpu_only=True) as p:
        pass
    assert p.trace.info.num_steps is None


def test_a_decorated_function_is_one_run_per_call():
    @profile(cpu_only=True, shapes=True)
    def train(n, *, scale=1):
        """Trains."""
        return torch.ones(n).mul(scale)

    assert train(3, scale=2).tolist() == [2.0, 2.0, 2.0]
    first = train.profile.trace
    train(5)
    assert train.profile.trace is not first
    assert "[[5],[]]" in set(train.profile.trace.events["shapes"].dropna())
    assert train.__doc__ == "Trains."
    assert train.__name__ == "train"
    assert list(runs) == [train.__qualname__]
    assert runs.last is train.profile.trace


def test_a_decorator_is_usable_after_calls_of_its_function():
    decorator = profile("decorated", cpu_only=True)
    function = decorator(torch.ones)
    function(3)
    assert repr(decorator) == "<cudalens.profile 'decorated': a decorator, 1 trace>"
    assert not decorator.is_nested
    assert decorator.wall_ns > 0
    decorator.add_metadata("batch", "8")
    function(3)
    assert json.loads(decorator.trace.info.extra["metadata"]) == {"batch": "8"}
    with decorator:
        torch.zeros(3)
    assert "aten::zeros" in set(decorator.trace.events["name"])
    assert not torch.autograd._profiler_enabled()


def test_a_decorated_function_that_raises_or_calls_itself():
    @profile("recursion", cpu_only=True)
    def count(n):
        torch.ones(n)
        if n == 1:
            raise ValueError("bottom")
        return count(n - 1)

    with pytest.raises(ValueError, match="bottom"):
        count(3)
    trace = count.profile.trace
    assert trace.info.status == "raised"
    assert (trace.events["name"] == "aten::ones").sum() == 3
    assert (trace.events["name"] == "recursion").sum() == 2


def test_a_decorated_coroutine_function():
    @profile("async", cpu_only=True)
    async def work(n):
        await asyncio.sleep(0)
        return torch.ones(n).sum().item()

    assert asyncio.run(work(4)) == 4
    assert "aten::sum" in names(work.profile.trace)


def test_generators_and_misuse_are_refused_in_words():
    def endless():
        yield 1

    with pytest.raises(TypeError, match="generator function"):
        profile()(endless)
    with pytest.raises(TypeError, match=r"write @cudalens.profile\(\)"):
        profile(endless)


class Fine:
    name = "fine"

    def __init__(self, log, frame="memory", name="fine"):
        self.log, self.frame, self.name = log, frame, name

    def start(self):
        self.log.append(f"start {self.name}")

    def stop(self):
        self.log.append(f"stop {self.name}")

    def frames(self) -> dict[str, pd.DataFrame]:
        return {self.frame: empty_frame(self.frame)}


class Failing(Fine):
    def __init__(self, log, at, error=None):
        super().__init__(log, name=f"failing at {at}")
        self.at, self.error = at, error or RuntimeError("no")

    def start(self):
        super().start()
        if self.at == "start":
            raise self.error

    def stop(self):
        super().stop()
        if self.at == "stop":
            raise self.error

    def frames(self):
        if self.at == "read":
            raise self.error
        return {}


def test_collectors_start_in_order_and_stop_in_reverse():
    log = []
    session = Session([Fine(log, "events", "a"), Fine(log, "memory", "b")])
    session.start()
    session.stop()
    assert log == ["start a", "start b", "stop b", "stop a"]
    assert session.frames().keys() == {"events", "memory"}


@pytest.mark.parametrize("at", ["start", "stop", "read"])
def test_a_failing_collector_becomes_a_problem_and_the_others_lose_nothing(at):
    log = []
    session = Session([Fine(log, "events", "a"), Failing(log, at), Fine(log, "memory", "c")])
    session.start()
    session.stop()
    assert session.frames().keys() == {"events", "memory"}
    assert [(p.kind, p.count, p.where) for p in session.problems] == [
        (f"failing at {at} failed to {at}", 1, "RuntimeError: no")
    ]
    assert log[-1] == "stop a"
    assert "stop c" in log


def test_the_first_collectors_refusal_is_raised_before_any_other_is_touched():
    log = []
    session = Session([Failing(log, "start", ProfilerBusyError("busy")), Fine(log)])
    with pytest.raises(ProfilerBusyError):
        session.start()
    assert log == ["start failing at start"]


def test_an_interrupted_start_stops_what_was_started():
    log = []
    session = Session([Fine(log, name="a"), Failing(log, "start", KeyboardInterrupt())])
    with pytest.raises(KeyboardInterrupt):
        session.start()
    assert log[-1] == "stop a"


def make_trace(name):
    from cudalens.frames import RunInfo, Trace

    return Trace(RunInfo(name=name, source="cpu"))


def test_runs_keep_order_and_replace_by_name():
    kept = Runs()
    with pytest.raises(KeyError, match="no run yet"):
        _ = kept.last
    first, second, again = make_trace("a"), make_trace("b"), make_trace("a")
    kept.add(first)
    kept.add(second)
    assert kept.add(again) is again
    assert list(kept) == kept.keys() == ["b", "a"]
    assert kept.last is again
    assert kept.values() == [second, again]
    assert dict(kept.items())["b"] is second
    assert len(kept) == 2
    assert "b" in kept
    assert "c" not in kept
    with pytest.raises(KeyError, match="no run 'c'; there are: 'b', 'a'"):
        kept["c"]
    assert "2, oldest first" in repr(kept)
    assert "'b': 0 events, ok" in repr(kept)
    del kept["b"]
    kept.clear()
    assert len(kept) == 0
    assert repr(kept) == "<cudalens.runs: none yet>"


def test_nothing_is_printed_and_the_environment_stays_as_it_was():
    program = """
import os, torch, cudalens
before = dict(os.environ)
with cudalens.profile(cpu_only=True):
    torch.ones(3)
with cudalens.profile(cpu_only=True):
    torch.ones(3)
assert dict(os.environ) == before
"""
    environment = {k: v for k, v in os.environ.items() if k != "KINETO_LOG_LEVEL"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_calls_of_a_virtual_device_bear_their_threads_label():
    with virtual.device("h100"), profile(keep=False) as p:
        torch.ones(8, device="cuda").sum().item()
    events = p.trace.events
    calls = events[events["cat"] == "cuda_runtime"]
    assert len(calls) > 1
    assert set(calls["thread"]) == {threading.current_thread().name}
    by_thread = p.trace.key_averages(by=["thread"])
    assert by_thread[~by_thread["is_device"]]["thread"].notna().all()


def test_runs_drop_the_oldest_beyond_their_limit():
    from cudalens.api.session import Runs
    from cudalens.frames import RunInfo, Trace, build_events, categorical

    def run(name, num_events):
        times = np.arange(num_events, dtype=np.int64)
        names = categorical(np.zeros(num_events, np.int32), ["op"])
        events = build_events({"ts": times, "dur": times, "name": names, "cat": names})
        return Trace(RunInfo(name=name, source="cpu"), events=events)

    size = sum(int(frame.memory_usage(index=False).sum()) for frame in run("x", 1000).frames.values())
    runs = Runs(max_bytes=int(2.5 * size))
    runs.add(run("first", 1000))
    runs.add(run("second", 1000))
    with pytest.warns(UserWarning, match=r"dropped 1 of its oldest runs \('first'\).*max_bytes"):
        runs.add(run("third", 1000))
    assert runs.keys() == ["second", "third"]
    with pytest.warns(UserWarning, match="dropped 2"):
        runs.add(run("large", 5000))  # the last stays, however large
    assert runs.keys() == ["large"]
    runs.max_bytes = None
    runs.add(run("large", 5000))
    runs.add(run("other", 5000))
    assert runs.keys() == ["large", "other"]
