"""Profiles of some steps of a loop: the schedule itself, and the Traces that its cycles make."""

from __future__ import annotations

import programs
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cudalens import ProfilerBusyError, ProfilerError, profile, runs, schedule, virtual
from cudalens.profiler import Action, steps
from cudalens.profiler.schedules import Cycles, action_of, text_of

few = st.integers(0, 3)


@pytest.fixture(autouse=True)
def nothing_left_behind():
    runs.clear()
    yield
    runs.clear()
    assert not torch.autograd._profiler_enabled()
    assert "cudalens" not in steps.requesters


@given(wait=few, warmup=few, active=st.integers(1, 3), repeat=few, skip_first=few, skip_first_wait=st.booleans())
@pytest.mark.filterwarnings("ignore:Profiler won't be using warmup")
def test_every_step_is_as_torchs_schedule_has_it(**numbers):
    ours = schedule(**numbers)
    theirs = torch.profiler.schedule(**(numbers | {"skip_first_wait": int(numbers["skip_first_wait"])}))
    assert [ours(step).name for step in range(40)] == [theirs(step).name for step in range(40)]
    assert [action_of(theirs, step) for step in range(40)] == [ours(step) for step in range(40)]


@pytest.mark.parametrize(
    ("numbers", "error", "words"),
    [
        ({"wait": -1}, ValueError, "wait is -1, expected at least 0"),
        ({"active": 0}, ValueError, "active is 0, expected at least 1"),
        ({"repeat": 1.5}, TypeError, "repeat is 1.5, expected a number of steps"),
        ({"warmup": True}, TypeError, "warmup is True"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(numbers, error, words):
    with pytest.raises(error, match=words):
        schedule(**numbers)


class Log:
    """A recording that notes what is asked of it."""

    def __init__(self, log, number):
        self.log, self.number = log, number

    def __getattr__(self, name):
        return lambda *args: self.log.append((self.number, name, *[a for a in args if a is not None]))


def log_of(plan, num_steps):
    log, made = [], []

    def make():
        made.append(None)
        return Log(log, len(made))

    cycles = Cycles(plan, make)
    cycles.begin()
    for _ in range(num_steps):
        cycles.next()
    cycles.end(None, None, None)
    return log


def test_a_cycle_is_prepared_begun_marked_and_ended():
    assert log_of(schedule(wait=1, warmup=2, active=2, repeat=1), 8) == [
        *[(1, "prepare"), (1, "begin"), (1, "mark", 3), (1, "mark", 4), (1, "end")]
    ]


def test_cycles_follow_each_other_without_a_pause():
    assert log_of(schedule(active=2), 3) == [
        *[(1, "begin"), (1, "mark", 0), (1, "mark", 1), (1, "end")],
        *[(2, "begin"), (2, "mark", 2), (2, "mark", 3), (2, "end")],
    ]


def test_what_was_only_prepared_is_dropped():
    assert log_of(schedule(wait=1, warmup=1), 1) == [(1, "prepare"), (1, "drop")]


@given(st.lists(st.sampled_from(list(Action)), min_size=1, max_size=12))
def test_any_order_of_actions_begins_and_ends_in_pairs(actions):
    log = log_of(lambda step: actions[min(step, len(actions) - 1)], len(actions) - 1)
    for number in {entry[0] for entry in log}:
        acts = [entry[1] for entry in log if entry[0] == number and entry[1] != "mark"]
        assert acts in (["prepare", "begin", "end"], ["begin", "end"], ["prepare", "drop"])
    marked = [entry[2] for entry in log if entry[1] == "mark"]
    assert marked == [n for n, a in enumerate(actions) if a in (Action.RECORD, Action.RECORD_AND_SAVE)]


def step_names(trace):
    names = trace.events["name"].astype(str)
    return names[names.str.startswith("ProfilerStep#")].tolist()


def test_each_cycle_is_a_trace():
    seen = []
    with profile("train", cpu_only=True, schedule=schedule(wait=1, warmup=1, active=2), on_trace=seen.append) as p:
        for n in range(8):
            torch.ones(n + 1)
            assert len(seen) == len(p.traces) == (n >= 4)
            p.step()
    assert [trace.info.name for trace in p.traces] == ["train", "train-2"] == list(runs)
    assert [step_names(trace) for trace in p.traces] == [
        ["ProfilerStep#2", "ProfilerStep#3"],
        ["ProfilerStep#6", "ProfilerStep#7"],
    ]
    assert seen == p.traces
    assert p.trace is p.traces[-1] is runs.last
    for trace in p.traces:
        assert trace.info.num_steps == 2
        assert trace.info.options["schedule"] == "wait=1, warmup=1, active=2"
        assert (trace.events["name"] == "aten::ones").sum() == 2
        assert trace.events.loc[trace.events["name"] == "aten::ones", "step"].notna().all()


def test_a_cycle_that_the_blocks_end_cuts_short_is_kept():
    with profile(cpu_only=True, schedule=torch.profiler.schedule(wait=1, warmup=1, active=5)) as p:
        for _ in range(3):
            torch.ones(2)
            p.step()
    assert [step_names(trace) for trace in p.traces] == [["ProfilerStep#2", "ProfilerStep#3"]]


def test_a_block_that_raises_keeps_what_was_recorded():
    p = profile(cpu_only=True, schedule=schedule(active=3))
    with pytest.raises(ZeroDivisionError), p:  # noqa: PT012
        torch.ones(2)
        p.step()
        _ = 1 / 0
    assert p.trace.info.status == "raised"
    assert p.trace.info.num_steps == 2


def test_a_schedule_that_recorded_nothing_reports_it():
    with profile(cpu_only=True, schedule=schedule(wait=5, warmup=1)) as p:
        p.step()
    assert p.traces == []
    with pytest.raises(ProfilerError, match=r"2 steps have begun, and the schedule \(wait=5, warmup=1\)"):
        _ = p.trace


def test_nothing_runs_while_it_waits_and_foreign_profilers_may():
    with profile(cpu_only=True, schedule=schedule(wait=1, active=1, repeat=1)) as p:
        assert not torch.autograd._profiler_enabled()
        theirs = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
        with theirs, pytest.raises(ProfilerBusyError, match="another torch profiler"):
            p.step()
        assert not torch.autograd._profiler_enabled()
        p.step()
    assert p.traces == []


def test_an_unscheduled_profile_inside_is_a_range():
    with profile("outer", cpu_only=True, schedule=schedule(wait=1, active=1, repeat=1)) as p:
        with profile("inner"):
            torch.ones(2)
        p.step()
        with profile("inner") as inner:
            torch.ones(2)
            inner.step()
    assert list(runs) == ["outer"]
    assert (p.trace.events["name"] == "inner").sum() == 1
    assert inner.trace is p.trace
    assert inner.traces == p.traces


def test_a_callback_that_raises_leaves_nothing_running():
    def fail(trace):
        raise RuntimeError("callback")

    with pytest.raises(RuntimeError, match="callback"), profile(cpu_only=True, schedule=schedule(), on_trace=fail) as p:
        p.step()
    assert len(p.traces) == 1
    with profile(cpu_only=True):
        pass


def test_values_that_are_no_action_change_nothing():
    with pytest.raises(ProfilerError, match="returned 'now' for step 0; expected one of NONE, WARMUP, RECORD"):
        profile(schedule=lambda step: "now")
    p = profile(cpu_only=True, schedule=lambda step: Action.RECORD if step < 2 else None)
    with p:
        p.step()
        with pytest.raises(ProfilerError, match="returned None for step 2"):
            p.step()
        torch.ones(3)
    assert "aten::ones" in set(p.trace.events["name"])


def test_a_decorator_has_no_steps():
    with pytest.raises(TypeError, match=r"a loop that calls step\(\)"):
        profile(schedule=schedule())(print)


def test_a_profile_that_is_off_does_nothing():
    called = []
    with profile("off", enabled=False, on_trace=called.append) as p:
        assert not torch.autograd._profiler_enabled()
        p.step()
        with profile("on", cpu_only=True):
            torch.ones(2)
    assert list(runs) == ["on"]
    assert p.traces == called == []
    with pytest.raises(ProfilerError, match="enabled=False"):
        _ = p.trace
    with pytest.raises(ProfilerError, match="used only once"):
        p.__enter__()

    @profile(enabled=False)
    def work():
        return torch.autograd._profiler_enabled()

    assert work() is False


def test_on_trace_without_a_schedule():
    seen = []
    with profile(cpu_only=True, on_trace=seen.append) as p:
        pass
    assert seen == [p.trace] == p.traces


@pytest.mark.parametrize("device", ["xpu", "mtia", "hpu", "cuda"])
def test_a_device_that_is_not_there_is_refused(device):
    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("there is one")
    refused = pytest.raises(ProfilerError, match=rf"use_device='{device}': there is no such device")
    with refused, profile(use_device=device):
        raise AssertionError("never runs")


def test_devices_by_name():
    with pytest.raises(ValueError, match="use_device is 'gpu', expected None or one of cpu, cuda, xpu, mtia, hpu"):
        profile(use_device="gpu")
    with pytest.raises(ValueError, match="exclude each other"):
        profile(use_device="cuda", cpu_only=True)
    with profile(use_device="cpu") as p:
        torch.ones(2)
    assert (p.trace.info.source, p.trace.info.options["cpu_only"]) == ("cpu", True)
    with virtual.device("h100"), profile(use_device="cuda") as p:
        torch.ones(2, device="cuda")
    assert p.trace.info.source == "virtual:h100"
    assert (p.trace.events["cat"] == "kernel").any()
    with virtual.device("h100"), profile(use_device="cpu") as p:
        torch.ones(2, device="cuda")
    assert not (p.trace.events["cat"] == "kernel").any()


def test_a_private_backend():
    program = """
import types, torch, cudalens
torch.utils.rename_privateuse1_backend("lens")
waited = []
module = types.SimpleNamespace(is_available=lambda: True, synchronize=lambda *a: waited.append(1))
torch._register_device_module("lens", module)
with cudalens.profile(use_device="lens") as p:
    torch.ones(3)
assert waited and p.trace.info.source == "lens", p.trace.info
assert "aten::ones" in set(p.trace.events["name"])
"""
    done = programs.run("-c", program)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_the_experimental_config_reaches_kineto():
    config = torch._C._profiler._ExperimentalConfig(capture_overload_names=True)
    p = profile(cpu_only=True, experimental_config=config)
    with p:
        torch.ones(3) + 1
    overloads = {event.overload_name() for event in p._recorder.profiler.raw.events() if event.name() == "aten::add"}
    assert overloads == {"Tensor"}
    with pytest.raises(ProfilerError, match=r"expected torch\._C\._profiler\._ExperimentalConfig"):
        profile(cpu_only=True, experimental_config={"verbose": True}).__enter__()
    if "trace_only" in str(type(config).__init__.__doc__):
        nothing = torch._C._profiler._ExperimentalConfig(trace_only=True)
        with pytest.raises(ProfilerError, match="trace_only"):
            profile(cpu_only=True, experimental_config=nothing).__enter__()


def test_a_schedule_on_a_virtual_device():
    with virtual.device("h100"), profile("v", schedule=schedule(wait=1, warmup=1, active=1, repeat=2)) as p:
        x = torch.ones(8, device="cuda")
        for _ in range(6):
            x = x * 2
            p.step()
    assert len(p.traces) == 2
    for trace in p.traces:
        assert trace.info.is_simulated
        assert (trace.events["cat"] == "kernel").sum() == 1


def test_options_by_torchs_names():
    names = {"record_shapes": True, "profile_memory": True, "with_flops": True, "with_stack": False}
    with profile(cpu_only=True, keep=False, **names) as p:
        torch.ones(2, 3) @ torch.ones(3, 2)
    options = p.trace.info.options
    assert [options[name] for name in ("shapes", "memory", "flops", "stacks", "modules")] == [True] * 3 + [False] * 2
    assert len(p.trace.memory)


def test_what_cannot_be_called_is_refused_before_the_block():
    with pytest.raises(TypeError, match=r"schedule is int, expected a cudalens\.schedule"):
        profile(schedule=5)
    with pytest.raises(TypeError, match="schedule is the class schedule"):
        profile(schedule=schedule)
    with pytest.raises(TypeError, match="on_trace is int, expected a function that takes a Trace"):
        profile(on_trace=5)


def test_a_schedule_is_described_by_its_numbers_whoever_made_it():
    """Runs are compared with past ones of the same options: their text must not change from run to run."""
    torchs = torch.profiler.schedule(wait=2, warmup=1, active=3, repeat=1)
    assert text_of(torchs) == text_of(schedule(2, 1, 3, 1)) == "wait=2, warmup=1, active=3, repeat=1"
    assert text_of(lambda step: Action.RECORD).endswith("<lambda>")
    with profile(cpu_only=True, keep=False, schedule=torch.profiler.schedule(wait=0, warmup=1, active=1)) as p:
        for _ in range(2):
            p.step()
    assert p.trace.info.options["schedule"] == "warmup=1"


def test_a_profile_states_how_far_it_is():
    p = profile("train", cpu_only=True, keep=False)
    assert repr(p) == "<cudalens.profile 'train': not entered yet>"
    with p:
        assert repr(p) == "<cudalens.profile 'train': running, 0 traces>"
        with profile("inner") as inner:
            assert repr(inner) == "<cudalens.profile 'inner': running, a range of an outer profile>"
    assert repr(p) == "<cudalens.profile 'train': done, 1 trace>"
    assert repr(profile(enabled=False)) == "<cudalens.profile '(no name)': not entered yet, off>"


@pytest.mark.parametrize(
    "options", ["", "schedule=cudalens.schedule(active=3)", "schedule=cudalens.schedule(warmup=3)"]
)
def test_python_ends_well_while_a_profile_is_open(options):
    """torch's own profiler, left open, ends the process with a segmentation fault."""
    program = f"import torch, cudalens\np = cudalens.profile({options})\np.__enter__()\ntorch.ones(2)"
    done = programs.run("-c", program)
    assert (done.returncode, "Exception" in done.stderr, "Traceback" in done.stderr) == (0, False, False), done.stderr
