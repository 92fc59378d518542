"""Lines of calls: the line that ran, not the first line of its function."""

import threading

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.profiler import ProfilerActivity
from torch.utils._python_dispatch import TorchDispatchMode

import cudalens
from cudalens import virtual
from cudalens.analysis import attribution

HERE = __file__.rpartition("/")[2]


def statements(x):
    y = x.sin()
    z = torch.cos(
        y,
    )
    for _ in range(2):
        z = torch.tanh(z)
    return z.exp().sum()


def syntax(x):
    y = x * 2
    return y @ y


def called_by_a_library(x):
    return torch.nn.functional.gelu(torch.nn.Identity()(x)).neg()


def line_of(function, offset):
    return function.__code__.co_firstlineno + offset


def lines(trace):
    """The place of each operator that the program called."""
    events, stacks = trace.events, trace.stacks
    own = stacks[stacks["file"].astype(str).str.endswith(HERE)].drop_duplicates("stack").set_index("stack")
    ops = events[(events["cat"] == "cpu_op") & events["stack"].notna()]
    ops = ops[~ops["parent"].isin(ops.index)]
    found = {}
    for name, stack in zip(ops["name"], ops["stack"], strict=True):
        line = own["line"].get(stack)
        found.setdefault(name, set()).add(None if line is None or line is own["line"].dtype.na_value else int(line))
    return found


def places_of_ops(trace):
    averages = trace.key_averages(by=["name", "cat", "cell_line"])
    return set(averages.loc[averages["cat"] == "cpu_op", "cell_line"].dropna().astype(str))


@pytest.fixture(params=["cpu", "cuda"])
def device(request):
    if request.param == "cpu":
        yield "cpu"
        return
    with virtual.device("h100"):
        yield "cuda"


def test_a_call_is_at_its_own_line(device):
    x = torch.ones(4, device=device)
    with cudalens.profile("calls", stacks=True, keep=False) as run:
        statements(x)
    assert lines(run.trace) == {
        "aten::sin": {line_of(statements, 1)},
        "aten::cos": {line_of(statements, 2)},
        "aten::tanh": {line_of(statements, 6)},
        "aten::exp": {line_of(statements, 7)},
        "aten::sum": {line_of(statements, 7)},
    }


def test_a_call_through_a_library_is_at_the_users_line(device):
    x = torch.ones(4, device=device)
    with cudalens.profile("library", stacks=True, keep=False) as run:
        called_by_a_library(x)
    line = line_of(called_by_a_library, 1)
    assert lines(run.trace) == {"aten::gelu": {line}, "aten::neg": {line}}


def test_the_block_of_the_profile_is_at_the_lines_inside_of_it():
    """Its function began before the profile: torch names it by the line at which the profile starts."""
    x = torch.ones(4)
    with cudalens.profile("block", stacks=True, keep=False) as run:
        x.sin()
        x.cos()
    first = line_of(test_the_block_of_the_profile_is_at_the_lines_inside_of_it, 4)
    assert lines(run.trace) == {"aten::sin": {first}, "aten::cos": {first + 1}}


def test_syntax_has_a_line_on_a_virtual_device():
    with virtual.device("h100"):
        x = torch.ones(4, 4, device="cuda")
        with cudalens.profile("syntax", stacks=True, keep=False) as run:
            syntax(x)
    assert lines(run.trace) == {"aten::mul": {line_of(syntax, 1)}, "aten::matmul": {line_of(syntax, 2)}}


def test_syntax_has_the_function_alone_where_no_line_is_known():
    """torch's tracer sees no call in ``x * 2``: the first line of the function is not where it ran."""
    with cudalens.profile("syntax", stacks=True, keep=False) as run:
        syntax(torch.ones(4, 4))
    trace = run.trace
    assert lines(trace)["aten::mul"] == {None}
    places = attribution(trace, by="line")["key"].dropna().tolist()
    assert f"syntax ({trace.stacks['file'].dropna()[lambda file: file.str.endswith(HERE)].iloc[0]})" in places
    assert not [place for place in places if place.endswith(f"{HERE}:{line_of(syntax, 0)}")]
    averages = trace.key_averages(by=["name", "cell_line"])
    assert any(str(place).startswith("syntax (") for place in averages["cell_line"])


def passed_on(func, args, kwargs):
    return func(*args, **(kwargs or {}))


class Functions(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return passed_on(func, args, kwargs)


class Dispatch(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return passed_on(func, args, kwargs)


@pytest.mark.parametrize("mode", [Functions, Dispatch, cudalens.sanitize])
def test_modes_and_observers_do_not_take_the_line(mode):
    with virtual.device("h100"):
        x = torch.ones(4, 4, device="cuda")
        with mode(), cudalens.profile("modes", stacks=True, keep=False) as run:
            statements(x)
            y = x.exp2()
            y.sigmoid()
    found = {name: place for name, place in lines(run.trace).items() if name in ("aten::sin", "aten::tanh")}
    inner = {line_of(passed_on, 1)}  # where a mode of the program calls the function again
    if mode is Functions:
        assert found == {"aten::sin": inner, "aten::tanh": inner}
    else:
        expected = {"aten::sin": {line_of(statements, 1)}, "aten::tanh": {line_of(statements, 6)}}
        assert {name: places - inner for name, places in found.items()} == expected


def test_backward_work_has_the_line_of_its_forward_operator():
    x = torch.ones(4, requires_grad=True)
    with cudalens.profile("backward", stacks=True, keep=False) as run:
        y = statements(x)
        y.backward()
    trace = run.trace
    costs = attribution(trace, by="line")
    assert any(str(key).endswith(f"{HERE}:{line_of(statements, 1)}") for key in costs["key"].dropna())
    backward = trace.events[trace.events["name"].astype(str).str.contains("SinBackward")].index[0]
    stack = trace.stacks[trace.stacks["stack"] == trace.events["stack"][backward]]
    assert line_of(statements, 1) in stack["line"].dropna().tolist()


def test_other_threads_have_lines():
    x = torch.ones(4)
    with cudalens.profile("threads", stacks=True, keep=False) as run:
        worker = threading.Thread(target=statements, args=(x,))
        worker.start()
        worker.join()
    assert lines(run.trace).get("aten::sin", {line_of(statements, 1)}) == {line_of(statements, 1)}


def test_only_calls_of_python_functions_have_a_line():
    with virtual.device("h100"):
        x = torch.ones(4, device="cuda")
        with cudalens.profile("column", stacks=True, keep=False) as run:
            statements(x)
    events = run.trace.events
    with_line = events[events["call_line"].notna()]
    assert len(with_line)
    assert (events.loc[with_line["parent"].astype("int64"), "cat"] == "python_function").all()


def test_the_chrome_file_keeps_lines(tmp_path):
    x = torch.ones(4)
    with cudalens.profile("file", stacks=True, keep=False) as run:
        statements(x)
        syntax(torch.ones(2, 2))
    loaded = cudalens.load(run.trace.to_chrome(tmp_path / "trace.json"))
    assert lines(loaded) == lines(run.trace)
    assert any(place.startswith("syntax (") for place in places_of_ops(loaded))
    assert places_of_ops(loaded) == places_of_ops(run.trace)


def test_functions_of_torchs_own_file_are_no_lines(tmp_path):
    """A file of torch.profiler has the first line of each function only."""
    with torch.profiler.profile(activities=[ProfilerActivity.CPU], with_stack=True) as profiler:
        statements(torch.ones(4))
    profiler.export_chrome_trace(str(tmp_path / "torch.json"))
    keys = attribution(cudalens.load(tmp_path / "torch.json"), by="line")["key"].dropna().astype(str)
    own = keys[keys.str.contains(HERE, regex=False)]
    assert any(key.startswith("statements (") for key in own)
    assert not [key for key in own if key.startswith("statements") and key.endswith(str(line_of(statements, 0)))]
    assert f"{HERE}:{line_of(statements, 0)}" not in " ".join(own)
