"""``%%cudaprofile --overhead``: the cell's statements run again without the profiler, and the cell stays the user's."""

import pytest
import torch

import cudalens

CELL = """
n += 1
seen.append(torch.autograd._profiler_enabled())
if n in fails:
    raise error
n
"""


@pytest.fixture
def cell(notebook):
    """A notebook in which `cell(options)` runs a cell that counts its runs."""
    notebook.run("import torch")
    notebook.shell.user_ns |= {"n": 0, "seen": [], "fails": set(), "error": ValueError("enough")}

    def run(options=""):
        return notebook.run(f"%%cudaprofile run --cpu-only --overhead {options}{CELL}")

    return run


def test_the_statements_run_once_with_and_once_without(cell, notebook):
    result = cell()
    assert notebook["seen"] == [True, False]
    assert result.result == 1, "the value is that of the profiled run"
    cost = cudalens.runs["run"].info.overhead
    assert (cost.num_profiled, cost.num_unprofiled, cost.is_warm) == (1, 1, False)
    assert "unprofiled (the profiled run was the first" in notebook.shown[-1][1]["text/plain"]


def test_warmup_and_repeats(cell, notebook):
    cell("--warmup 2 --repeat 3")
    assert notebook["seen"] == [False] * 2 + [True] * 3 + [False] * 3
    cost = cudalens.runs["run"].info.overhead
    assert (cost.num_profiled, cost.num_unprofiled, cost.is_warm) == (3, 3, True)
    assert cudalens.runs["run"].info.num_steps == 3


def test_what_is_written_and_named_includes_it(cell, notebook, tmp_path):
    cell(f"-v trace --save {tmp_path / 'a.cudalens'}")
    cost = cudalens.runs["run"].info.overhead
    assert cost is not None
    assert notebook["trace"].info.overhead == cost
    assert cudalens.load(tmp_path / "a.cudalens").info.overhead == cost


def test_an_exception_without_the_profiler_is_reported_and_the_profile_is_kept(cell, notebook):
    notebook.shell.user_ns["fails"] = {2}
    result = cell()
    assert result.success
    assert result.result == 1
    cost = cudalens.runs["run"].info.overhead
    assert (cost.unprofiled_ns, cost.error) == (None, "ValueError: enough")
    assert cudalens.runs["run"].info.status == "ok"
    assert "the run without the profiler raised ValueError: enough" in notebook.capsys.readouterr().err


def test_an_exception_of_the_profiled_run_is_the_users(cell, notebook):
    notebook.shell.user_ns["fails"] = {1}
    result = cell()
    assert isinstance(result.error_in_exec, ValueError)
    assert notebook["seen"] == [True]
    assert cudalens.runs["run"].info.overhead is None


def test_an_interrupt_without_the_profiler_reaches_the_user_and_the_profile_is_shown(cell, notebook):
    notebook.shell.user_ns |= {"fails": {2}, "error": KeyboardInterrupt()}
    result = cell()
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    assert cudalens.runs["run"].info.overhead.error == "KeyboardInterrupt"
    assert "display" in notebook.kinds()


def test_within_another_profile_nothing_runs_twice(cell, notebook):
    with cudalens.profile(cpu_only=True, keep=False):
        cell()
    assert notebook["seen"] == [True]
    assert not torch.autograd._profiler_enabled()
