"""Costs of lines, modules and steps of small traces whose numbers are known."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "views"))

from sample_traces import Rows, gpu_trace

from cudalens.analysis.time.attribution import line_costs, step_costs
from cudalens.analysis.time.call_tree import module_tree
from cudalens.frames import RunInfo, Trace
from cudalens.views.sections import costs as cost_tables
from cudalens.views.sections.write_text import to_text

CELL = "/tmp/ipykernel_7/123.py"


def trace_of(rows, **info):
    return Trace(
        RunInfo(name="cell-1", source="cuda", started_ns=0, ended_ns=10**7).replace(**info), events=rows.to_events()
    )


@pytest.fixture(scope="module")
def calls():
    """Two modules in one: the inner ones launch 100 µs and 300 µs."""
    rows = Rows()
    rows.host("train.py(3): main", "python_function", 0, 1_000_000)
    rows.host("nn.Module: Net_0", "python_function", 10_000, 900_000)
    for name, at, kernel_ns in (("Linear_0", 20_000, 100_000), ("Linear_1", 420_000, 300_000)):
        rows.host(f"nn.Module: {name}", "python_function", at, 200_000)
        rows.host("aten::addmm", "cpu_op", at + 10_000, 100_000)
        rows.launch("sgemm", at + 20_000, at + 40_000, kernel_ns)
    return trace_of(rows)


def test_a_module_holds_the_time_of_those_within_it(calls):
    tree = module_tree(calls)
    assert tree["path"].tolist() == ["Net_0", "Net_0.Linear_1", "Net_0.Linear_0"]
    assert tree["forward_ns"].tolist() == [400_000, 300_000, 100_000]
    assert tree["backward_ns"].tolist() == [0, 0, 0]
    assert tree["parent"].tolist()[1:] == [0, 0]
    assert tree["num_works"].tolist() == [2, 1, 1]


def test_the_modules_are_shown_as_a_tree(calls):
    text = to_text(cost_tables.modules_section(calls))
    assert text.splitlines()[0] == "Modules: most GPU time in Net_0.Linear_1 (300 µs)"
    names = [line.split("  ")[0].removeprefix("\u203a ") for line in text.splitlines()[3:]]
    assert names == ["Net_0", "Linear_1", "Linear_0"]


def test_a_line_holds_what_it_launched(calls):
    rows = Rows()
    rows.host("train.py(3): main", "python_function", 0, 1_000_000)
    rows.host("<built-in method mm>", "python_function", 10_000, 900_000)
    rows.host("aten::mm", "cpu_op", 20_000, 800_000)
    rows.launch("sgemm", 30_000, 40_000, 100_000)
    trace = trace_of(rows)
    is_call = trace.events["name"] == "<built-in method mm>"
    events = trace.events.assign(call_line=trace.events["call_line"].mask(is_call, 5))
    trace = Trace(trace.info, events=events)
    costs = line_costs(trace)
    assert (costs["place"][0], costs["num_works"][0], costs["device_ns"][0]) == ("train.py:5", 1, 100_000)
    text = to_text(cost_tables.lines_section(trace))
    assert text.startswith("Lines of code: train.py:5 launched 1 GPU operation, 100 µs GPU (100 %)")


def test_a_function_holds_what_it_launched_where_no_line_is_known(calls):
    costs = line_costs(calls)
    assert costs["place"].tolist() == ["main (train.py)"]
    assert (costs["num_works"][0], costs["device_ns"][0], costs["device_pct"][0]) == (2, 400_000, 100.0)
    assert to_text(cost_tables.lines_section(calls)).startswith(
        "Functions: main (train.py) launched 2 GPU operations, 400 µs GPU (100 %)"
    )


def test_nothing_is_shown_where_nothing_is_known():
    rows = Rows()
    rows.launch("sgemm", 0, 1000, 5000)
    trace = trace_of(rows)
    sections = (cost_tables.lines_section, cost_tables.modules_section, cost_tables.steps_section)
    assert [section(trace) for section in sections] == [None, None, None]


def test_a_step_that_takes_much_longer_is_marked():
    rows = Rows()
    at = 0
    for number, dur in enumerate((100_000, 104_000, 99_000, 180_000, 101_000)):
        rows.host(f"ProfilerStep#{number}", "user_annotation", at, dur)
        at += dur + 1000
    costs = step_costs(trace_of(rows))
    assert costs["is_outlier"].tolist() == [False, False, False, True, False]
    assert costs["extra_ns"].tolist() == [-1000, 3000, -2000, 79_000, 0]
    assert "step 3 took 79.0 µs longer" in cost_tables.steps_section(trace_of(rows)).facts


def test_equal_steps_have_no_outlier():
    costs = step_costs(gpu_trace())
    assert costs["step"].tolist() == [0, 1, 2]
    assert costs["num_works"].tolist() == [3, 3, 3]
    assert not costs["is_outlier"].any()
