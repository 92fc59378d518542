"""Notebooks that run without a front end: papermill and ``jupyter execute`` save text, picture and tables."""

import subprocess
import sys

import nbformat
import pytest

SETUP = "%load_ext cudalens\n%cudadevice virtual h100\nimport torch"
PROFILED = """%%cudaprofile
x = torch.ones(64, 64, device="cuda")
for _ in range(3):
    x = (x @ x).relu() / 64"""


def papermill(path):
    pytest.importorskip("papermill", reason="papermill is not installed")
    saved = path.with_name("saved.ipynb")
    return saved, ["papermill", "--no-progress-bar", path, saved]


def jupyter_execute(path):
    return path, ["jupyter", "execute", "--inplace", path]


@pytest.fixture(scope="module", params=[papermill, jupyter_execute], ids=lambda one: one.__name__)
def executed(request, tmp_path_factory):
    """The notebook that a program saved, and the finished process."""
    path = tmp_path_factory.mktemp(request.param.__name__) / "notebook.ipynb"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in (SETUP, PROFILED)])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, path)
    saved, command = request.param(path)
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, cwd=path.parent)
    return nbformat.read(saved, as_version=4), done


def outputs(notebook):
    return [output for cell in notebook.cells for output in cell.get("outputs", ())]


def shown_as(notebook, kind):
    return [output["data"][kind] for output in outputs(notebook) if kind in output.get("data", {})]


def test_the_program_succeeds_and_no_cell_writes_an_error(executed):
    notebook, done = executed
    assert done.returncode == 0, done.stderr
    assert not [one for one in outputs(notebook) if one.output_type == "error" or one.get("name") == "stderr"]
    nbformat.validate(notebook)


def test_the_saved_notebook_has_the_answer_as_text_and_as_html(executed):
    notebook, _ = executed
    answer = shown_as(notebook, "text/plain")[0].splitlines()[0]
    assert answer.startswith("[simulated: h100] ")
    assert "GPU busy" in answer
    assert answer.partition(",")[0] in shown_as(notebook, "text/html")[0]


def test_the_saved_notebook_has_one_picture_and_the_widget(executed):
    notebook, _ = executed
    (picture,) = shown_as(notebook, "image/svg+xml")
    assert picture.lstrip().startswith("<svg")
    (view,) = shown_as(notebook, "application/vnd.jupyter.widget-view+json")
    states = notebook.metadata["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]
    assert view["model_id"] in states
