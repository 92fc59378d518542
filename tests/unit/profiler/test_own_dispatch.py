"""A profile under the sanitizer contains the program's operators once, and no code of the sanitizer."""

from collections import Counter

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import cudalens


@pytest.fixture(params=["cpu", "cuda"])
def device(request):
    if request.param == "cpu" or torch.cuda.is_available():
        yield request.param
        return
    with cudalens.virtual.device("h100"):
        yield request.param


class Passes(TorchDispatchMode):
    """A mode of the program."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def work(x):
    return (x @ x).relu().sum()


def operators(trace):
    events = trace.events
    return Counter(events[events["cat"] == "cpu_op"]["name"].astype(str))


def profiled(x, **options):
    with cudalens.profile("work", **options) as run:
        work(x)
    return run.trace


def test_operators_are_recorded_once(device):
    x = torch.ones(8, 8, device=device)
    expected = operators(profiled(x))
    with cudalens.sanitize():
        assert operators(profiled(x)) == expected


def test_operators_are_recorded_once_where_the_sanitizer_is_on_for_a_part(device):
    x = torch.ones(8, 8, device=device)
    expected = operators(profiled(x))
    with cudalens.profile("part") as run:
        with cudalens.sanitize():
            work(x)
        work(x)
    assert operators(run.trace) == expected + expected


def test_operators_keep_their_nesting(device):
    x = torch.ones(8, 8, device=device)

    def nesting(trace):
        events = trace.events.reset_index(drop=True)
        names = events["name"].astype(str)
        rows = events.index[events["cat"] == "cpu_op"]
        return Counter((names[row], names.get(events["parent"][row])) for row in rows)

    expected = nesting(profiled(x))
    with cudalens.sanitize():
        assert nesting(profiled(x)) == expected


def test_a_mode_of_the_program_remains(device):
    x = torch.ones(8, 8, device=device)
    with Passes():
        expected = operators(profiled(x))
    with cudalens.sanitize(), Passes():
        assert operators(profiled(x)) == expected


def test_stacks_contain_no_code_of_the_sanitizer(device):
    x = torch.ones(8, 8, device=device)
    with cudalens.sanitize():
        names = profiled(x, stacks=True).events["name"].astype(str)
    assert not names[names.str.contains(r"sanitizer[/\\\\](?:live|engine)")].tolist()


def test_work_is_attributed_to_the_programs_line():
    with cudalens.virtual.device("h100"):
        x = torch.ones(8, 8, device="cuda")
        with cudalens.sanitize():
            trace = profiled(x, stacks=True)
    places = cudalens.analysis.attribution(trace, by="line").query("num_works > 0")["key"].tolist()
    assert len(places) == 1
    assert "test_own_dispatch.py" in places[0]
