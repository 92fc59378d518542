"""``%cudaprofile diff``: runs, variables and files, and what is none of these."""

import pytest

import cudalens

CELL = "%%cudaprofile {name} --cpu-only --repeat 3\nimport torch\nx = torch.ones({n}, {n})\nx @ x\n"


@pytest.fixture
def profiled(notebook):
    """A notebook with two profiled cells."""
    for name, n in (("small", 8), ("large", 16)):
        assert notebook.run(CELL.format(name=name, n=n)).success
    yield notebook
    cudalens.runs.clear()


def shown(notebook, line):
    """All that the line showed, as text."""
    notebook.shown.clear()
    notebook.run(line)
    return str(notebook.shown)


def test_runs(profiled):
    said = shown(profiled, "%cudaprofile diff small large")
    assert "3 and 3 steps; medians" in said


def test_files_and_variables(profiled, tmp_path):
    path = cudalens.runs["small"].save(tmp_path / "a run.cudalens")
    profiled.run("import cudalens\nmine = [cudalens.runs['small'], cudalens.runs['small']]")
    said = shown(profiled, f"%cudaprofile diff '{path}' mine")
    assert "no change" in said
    assert "3 and 6 steps" in said


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("diff small", "expected two runs, variables or files, found 1"),
        ("diff small nothing", "'nothing' is neither a run nor a file"),
        ("diff 'small large", "a quote is not closed"),
    ],
)
def test_what_cannot_be_compared_is_refused(profiled, line, reason):
    said = shown(profiled, f"%cudaprofile {line}")
    assert reason in said


def test_without_names_the_last_runs(profiled):
    assert shown(profiled, "%cudaprofile diff") == shown(profiled, "%cudaprofile diff small large")
    assert shown(profiled, "%cudaprofile show") == shown(profiled, "%cudaprofile show large")
    del cudalens.runs["small"]
    assert "expected two runs, variables or files, found 1" in shown(profiled, "%cudaprofile diff")
    cudalens.runs.clear()
    assert "found 0" in shown(profiled, "%cudaprofile diff")
    assert "no run to show yet" in shown(profiled, "%cudaprofile show")
