"""Python calls of cudalens itself are not part of a profile of Python calls."""

import contextlib
import re
import tempfile

import numpy as np
import pytest
import torch

import cudalens
from cudalens import virtual
from cudalens.frames import RawRows, categorical, nullable
from cudalens.frames.stacks import OWN_FILES
from cudalens.profiler.own_rows import within_window

OWN = "/opt/cudalens/api/profile.py(300): __enter__"
OWN_CALL = "/opt/cudalens/graphs/calls.py(40): call"
BUILTIN, STDLIB, USERS = "<built-in function open>", "tempfile.py(285): _gettempdir", "train.py(3): step"


def work(x):
    return (x @ x).relu().sum()


@pytest.fixture(scope="module", params=["cpu", "virtual"])
def trace(request):
    with virtual.device("h100") if request.param == "virtual" else contextlib.nullcontext():
        yield profiled()


def profiled():
    x = torch.ones(64, 64)
    with cudalens.profile(stacks=True) as run:
        for _ in range(3):
            work(x)
    return run.trace


def python_functions(trace):
    return trace.events[trace.events["cat"] == "python_function"]


def test_no_function_of_cudalens_is_in_a_profile(trace):
    names = python_functions(trace)["name"]
    assert (names.str.endswith(": work")).sum() == 3
    assert not [name for name in names if re.search(OWN_FILES, name)]


def test_functions_that_ran_before_take_no_time_outside_of_the_block(trace):
    functions = python_functions(trace)
    assert functions["ts"].min() >= trace.info.started_ns
    assert (functions["ts"] + functions["dur"]).max() <= trace.info.ended_ns


def test_the_times_of_the_thread_add_up_to_the_block(trace):
    """The functions around the block take all of it; a virtual device places rows in the time of its own operators."""
    functions = python_functions(trace)
    thread = functions.loc[functions["name"].str.endswith(": work"), "tid"].iloc[0]
    mine = trace.events[(trace.events["tid"] == thread) & ~trace.events["is_instant"]]
    assert mine["self_dur"].sum() == pytest.approx(trace.info.ended_ns - trace.info.started_ns, rel=0.01)


def recorded(*rows, threads=None):
    """Raw rows of (name, category, start, end), on one thread unless there is one for each."""
    columns = {}
    for position, column in ((0, "name"), (1, "cat")):
        values = list(dict.fromkeys(row[position] for row in rows))
        columns[column] = categorical(np.array([values.index(row[position]) for row in rows]), values)
    ts, end = (np.array([row[k] for row in rows], np.int64) for k in (2, 3))
    tid = nullable(np.array(threads or [7] * len(rows), np.int64), np.zeros(len(rows), bool))
    return RawRows(columns | {"ts": ts, "dur": end - ts, "tid": tid})


def kept(*rows):
    return list(within_window(recorded(*rows), 5, 1000).events["name"])


def python(name, start, end):
    return name, "python_function", start, end


def test_what_a_function_of_cudalens_calls_goes_with_it():
    assert kept(python(OWN, 0, 90), python(STDLIB, 10, 50), python(BUILTIN, 20, 30), python(USERS, 100, 200)) == [USERS]


@pytest.mark.parametrize(
    "inside",
    [
        pytest.param(python(USERS, 20, 30), id="a function of the program"),
        pytest.param(python("nn.Module: Linear_0", 20, 30), id="a module"),
        pytest.param(("aten::mm", "cpu_op", 20, 30), id="an operator"),
    ],
)
def test_a_function_of_cudalens_in_which_the_program_runs_is_kept(inside):
    assert kept(python(OWN_CALL, 0, 90), inside, python(BUILTIN, 40, 50)) == [OWN_CALL, inside[0], BUILTIN]


def test_a_file_of_the_program_outside_of_the_search_path_is_the_programs(tmp_path):
    """torch shortens a path by the entries of `sys.path`; others are absolute."""
    (tmp_path / "train.py").touch()
    users = python(f"{tmp_path / 'train.py'}(3): step", 20, 30)
    assert kept(python(OWN_CALL, 0, 90), users) == [OWN_CALL, users[0]]


def test_a_file_of_python_with_its_whole_path_is_not_the_programs():
    installed = python(f"{tempfile.__file__}(285): _gettempdir", 20, 30)
    assert kept(python(OWN, 0, 90), installed, python(USERS, 100, 200)) == [USERS]


def test_threads_of_jupyter_are_left_out_unless_the_program_runs_in_them():
    history, wait = python("IPython/core/history.py(163): wrapper", 0, 90), python(BUILTIN, 10, 20)
    shell = python("IPython/core/interactiveshell.py(3823): run_code", 0, 90)
    pool = python("concurrent/futures/thread.py(69): _worker", 0, 90)
    rows = recorded(history, wait, shell, python(USERS, 10, 20), pool, threads=[1, 1, 2, 2, 3])
    assert list(within_window(rows, 5, 1000).events["tid"]) == [2, 2, 3]


def test_functions_are_cut_at_the_ends_of_the_window_and_operators_are_not():
    rows = recorded(
        python(USERS, 0, 500), python(STDLIB, 150, 400), ("aten::mm", "cpu_op", 50, 120), python(USERS, 3, 9)
    )
    events = within_window(rows, 100, 300).events
    assert list(zip(events["ts"], events["ts"] + events["dur"], strict=True)) == [
        (100, 300),
        (150, 300),
        (50, 120),
        (3, 9),
    ]
