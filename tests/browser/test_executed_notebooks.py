"""A notebook that ran without a front end, opened later: as a page of nbconvert, and in JupyterLab."""

import subprocess
import sys

import nbformat
import pytest

SETUP = "%load_ext cudalens\n%cudadevice virtual h100\nimport torch"
PROFILED = """%%cudaprofile
x = torch.ones(64, 64, device="cuda")
for _ in range(3):
    x = (x @ x).relu() / 64"""
#: nbconvert's template "basic" makes a part of a page that has jQuery.
JQUERY = "<!doctype html><script>window.$ = (address) => [document.getElementById(address.slice(1))]</script>"

RIGHT_ENDS = "nodes => nodes.map((node) => node.getBoundingClientRect().right)"


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """A notebook that nbclient ran."""
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in (SETUP, PROFILED)])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return nbclient.NotebookClient(notebook).execute(cwd=tmp_path_factory.mktemp("executed"))


def test_a_page_of_the_template_basic_fits(executed, offline_page, tmp_path):
    nbconvert = pytest.importorskip("nbconvert")
    html, _ = nbconvert.HTMLExporter(template_name="basic").from_notebook_node(executed)
    path = tmp_path / "basic.html"
    path.write_text(f"{JQUERY}{html}")
    for width in (400, 800, 1200):
        offline_page.set_viewport_size({"width": width, "height": 700})
        offline_page.goto(path.as_uri())
        assert offline_page.locator("img").first.is_visible()
        ends = offline_page.locator("img, .cudalens-static").evaluate_all(RIGHT_ENDS)
        assert max(ends) <= width


def trust(lab, path):
    """Sign a notebook as the user of `lab` does."""
    command = [sys.executable, "-m", "jupyter", "trust", str(path)]
    subprocess.run(command, env=lab.env, check=True, capture_output=True)


def test_jupyterlab_draws_the_timeline_from_the_saved_state(executed, lab, lab_page):
    path = lab.folder / "executed.ipynb"
    nbformat.write(executed, path)
    trust(lab, path)
    lab.load(lab_page, path.name)
    message = lab_page.locator(".cudalens-live .cl-message p").first
    message.wait_for()
    assert message.inner_text() == "The table cannot be shown: the kernel was restarted; run the cell again"
    assert lab_page.locator(".cudalens-live .cl-timeline canvas").first.is_visible()
    assert lab_page.locator(".cudalens-live .cl-verdict strong").inner_text().endswith("driver memory")
    assert lab_page.locator(".jp-RenderedSVG img").first.is_hidden()
    assert lab_page.get_by_text("model not found").count() == 0
