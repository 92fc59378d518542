"""`cudalens.step()` ends a step of what a cell records, and does nothing where nothing is recorded."""

import pytest

import cudalens
from cudalens import ProfilerError

LOOP = "import torch, cudalens\nfor _ in range({}):\n    torch.ones(8).sum()\n    cudalens.step()"


def test_a_watched_cell_has_the_steps_of_the_program(notebook):
    notebook.run(f"%%cudawatch -v record\n{LOOP.format(30)}")
    assert notebook["record"].steps["num_steps"].sum() == 30  # some may be timed together


def test_cells_after_watch_on_have_the_steps_of_the_program(notebook):
    notebook.run("%cudawatch on")
    notebook.run(LOOP.format(12))
    notebook.run("%cudawatch off")
    assert "step 12:" in notebook.capsys.readouterr().out


def test_the_first_step_of_a_profiled_cell_begins_step_0(notebook):
    notebook.run(f"%%cudaprofile -q -v trace\n{LOOP.format(4)}")
    names = notebook["trace"].events["name"]
    assert names[names.str.startswith("ProfilerStep#")].tolist() == [f"ProfilerStep#{number}" for number in range(4)]


def test_a_step_of_an_inner_profile_is_one_of_the_outer_profile():
    with cudalens.profile("outer", cpu_only=True) as outer, cudalens.profile("inner", cpu_only=True):
        cudalens.step()
    assert "ProfilerStep#0" in set(outer.trace.events["name"])


def test_without_a_recording_nothing_happens():
    cudalens.step()
    with cudalens.profile("run", cpu_only=True) as run:
        pass
    cudalens.step()
    assert "ProfilerStep#0" not in set(run.trace.events["name"])
    with pytest.raises(ProfilerError):
        run.step()
