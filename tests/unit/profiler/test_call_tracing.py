"""torch records the program's Python calls, and not those that cudalens makes for an operator on a virtual device."""

import cProfile
import sys
import threading

import pytest
import torch

import cudalens
from cudalens import virtual
from cudalens.device import call_tracing


@pytest.fixture(autouse=True)
def on_device():
    with virtual.device("h100"):
        yield


@torch.library.custom_op("call_tracing::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return doubled(x)


def doubled(x):
    return x * 2


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x):
        return torch.nn.functional.gelu(self.linear(x))


def train(steps=3):
    model = Model().cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(steps):
        optimizer.zero_grad()
        with torch.no_grad():
            model(torch.full((4, 8), float(step), device="cuda")).sum().item()
        model.linear(torch.ones(4, 8).cuda()).sum().backward()
        optimizer.step()


def recorded(program):
    """The frame of a profile with Python calls."""
    with cudalens.profile(stacks=True, keep=False) as run:
        program()
    return run.trace.events


def calls_of(events):
    """Names and callers of the Python calls, in order; addresses of objects differ from run to run."""
    events = events.assign(name=events["name"].astype(str).str.replace(r" at 0x\w+", "", regex=True))
    rows = events[events["cat"] == "python_function"]
    parents = events["name"].reindex(rows["parent"].to_numpy()).to_numpy()
    return list(zip(rows["name"], parents, strict=True))


def test_the_field_of_cpython_is_found_and_is_null_without_a_profiler():
    assert call_tracing.find_field() is not None


def test_calls_of_the_program_are_those_that_are_recorded_without_pauses(monkeypatch):
    train()
    found = []
    for finds_field in (True, False):
        if not finds_field:
            monkeypatch.setattr(call_tracing, "find_field", lambda: None)
        calls = calls_of(recorded(train))
        found.append([call for call in calls if "test_call_tracing" in call[0] or "torch/nn" in call[0]])
    assert found[0] == found[1]


def test_torch_records_no_call_that_cudalens_makes_for_an_operator(monkeypatch):
    x = torch.ones(3, device="cuda")
    edge = torch.autograd.profiler
    results = []
    stop = edge._disable_profiler
    monkeypatch.setattr(edge, "_disable_profiler", lambda: results.append(stop()) or results[-1])
    recorded(lambda: [x + 1 for _ in range(100)])
    names = [event.name() for event in results[0].events()]
    assert sum("virtual/timing/cost.py" in name for name in names) == 0
    assert sum("__torch_function__" in name for name in names) == 100


def test_a_python_kernel_of_the_program_is_recorded_below_the_operator():
    x = torch.ones(3, device="cuda")
    events = recorded(lambda: twice(x))
    (row,) = events[events["name"].astype(str).str.endswith(": doubled")].index
    parents = []
    while events["parent"].notna()[row]:
        row = events["parent"][row]
        parents.append(str(events["name"][row]))
    assert parents[0].endswith(": twice")
    if sys.version_info < (3, 13):  # torch 2.13 records calls of C functions twice there, and the operator without time
        assert "call_tracing::twice" in parents


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="cProfile refuses a second profiler from Python 3.12 on")
def test_another_profiler_that_the_program_starts_stays_and_hears_all():
    x = torch.ones(3, device="cuda")
    profiler = cProfile.Profile()

    def program():
        x + 1
        profiler.enable()
        doubled(x)
        x + 1
        profiler.disable()
        x + 1

    events = recorded(program)
    assert (events["name"] == "aten::add").sum() == 3
    assert any(entry.code.co_name == "doubled" for entry in profiler.getstats() if not isinstance(entry.code, str))


def test_other_threads_compute_as_ever():
    x = torch.ones(3, device="cuda")
    values = []

    def program():
        worker = threading.Thread(target=lambda: values.extend((x * 2).tolist()))
        worker.start()
        x + 1
        worker.join()

    events = recorded(program)
    assert values == [2.0, 2.0, 2.0]
    assert "aten::add" in set(events["name"])
    assert sys.getprofile() is None
