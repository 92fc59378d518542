"""``--assert`` and the history in a real shell: a failing assertion fails the cell, after it has been shown."""

import pytest

from cudalens import history


@pytest.fixture(autouse=True)
def no_history():
    history.clear()
    yield
    history.clear()
    history.off()


def test_a_cell_that_holds_is_as_without(notebook):
    result = notebook.run('%%cudaprofile -q --assert "kernels == 0" --assert "ops >= 0"\n6 * 7')
    assert result.success
    assert notebook.shown == [("out", "42")]


def test_a_cell_fails_after_its_value_and_view_are_shown(notebook):
    result = notebook.run('%%cudaprofile mine --assert "kernels == 1" --assert "wall > 0 ms"\n6 * 7')
    assert type(result.error_in_exec).__name__ == "AssertionFailed"
    assert isinstance(result.error_in_exec, AssertionError)
    assert notebook.kinds() == ["display", "display", "error"]
    value, view = (data["text/plain"] for kind, data in notebook.shown if kind == "display")
    assert value == "42"
    assert "no operator or kernel was recorded" in view
    assert "kernels == 1  kernels is 0" in notebook.text("error")
    assert "Traceback" not in notebook.text("error")


def test_a_wrong_assertion_is_refused_before_the_cell_runs(notebook):
    notebook.run("ran = False")
    assert not notebook.run('%%cudaprofile --assert "idel < 20%"\nran = True').success
    assert notebook["ran"] is False
    assert "did you mean idle?" in notebook.text("usage")
    assert "The cell has not run." in notebook.text("usage")


def test_the_cells_own_exception_comes_first(notebook):
    result = notebook.run('%%cudaprofile -q --assert "kernels == 1"\n1 / 0')
    assert isinstance(result.error_in_exec, ZeroDivisionError)


def test_without_raising_the_cell_goes_on(notebook):
    result = notebook.run('%%cudaprofile -q --no-raise-error --assert "kernels == 1"\n6 * 7')
    assert result.success
    assert notebook.text("out") == "42"
    assert "kernels is 0" in notebook.capsys.readouterr().err


def test_a_broken_history_is_reported_and_the_run_is_kept(notebook, tmp_path):
    path = tmp_path / "h.jsonl"
    path.write_bytes(b"nothing of the kind" * 100)
    assert notebook.run(f"%%cudaprofile kept -v kept_trace -q --history {path}\n6 * 7").success
    assert "the run is not in the history" in notebook.capsys.readouterr().err
    assert notebook["kept_trace"].info.name == "kept"


def test_cells_are_kept_for_the_session_and_in_a_file_when_asked(notebook, tmp_path):
    path = tmp_path / "h.jsonl"
    notebook.run("%%cudaprofile one -q\n1")
    notebook.run(f"%cudaprofile history on {path}")
    notebook.run("%%cudaprofile two -q\n2")
    notebook.run("%cudaprofile history")
    (bundle,) = [data for kind, data in notebook.shown if kind == "display"]
    shown = bundle["text/plain"]
    assert f"2 runs, kept in {path}" in shown
    assert shown.index("one") < shown.index("two")
    notebook.run("%cudaprofile history off")
    assert history.where() is None
    assert not notebook.run("%cudaprofile history what").success
