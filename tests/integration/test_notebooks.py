"""The quickstart runs for real, and its demo script does what it says."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

import cudalens

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
DEMO, QUICKSTART, RACES = (NOTEBOOKS / name for name in ("run_demo.py", "quickstart.ipynb", "stream-races.ipynb"))


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "out"
    command = [sys.executable, DEMO, "--out", folder]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder.parent), folder


def test_the_demo_succeeds_quietly(demo):
    done, folder = demo
    assert (done.returncode, done.stderr) == (0, "")
    assert "CPU ops busy" in done.stdout or "busy" in done.stdout
    assert str(folder / "report.html") in done.stdout


def test_it_leaves_what_it_says(demo):
    _, folder = demo
    assert {path.name for path in folder.iterdir()} == {
        "quickstart.ipynb",
        "report.html",
        "steps.cudalens",
        "kernel.log",
    }
    trace = cudalens.load(folder / "steps.cudalens")
    assert trace.info.num_steps == 5
    assert "<html" in (folder / "report.html").read_text()[:200]


def test_every_cell_ran_and_the_profiled_ones_show_a_picture(demo):
    notebook = nbformat.read(demo[1] / "quickstart.ipynb", as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert not [output for cell in code for output in cell.outputs if output.output_type == "error"]
    for cell in code:
        if cell.source.startswith("%%cudaprofile") and " -q" not in cell.source.splitlines()[0]:
            assert any("<svg" in output.get("data", {}).get("text/html", "") for output in cell.outputs)
    assert "widgets" not in notebook.metadata


def test_the_race_notebook_finds_four_bugs_and_sees_them_mended(tmp_path):
    command = [sys.executable, DEMO, RACES, "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    notebook = nbformat.read(tmp_path / RACES.name, as_version=4)
    watched = [cell for cell in notebook.cells if cell.source.startswith("%%cudasan")]
    verdicts = [said.partition("] ")[2].splitlines()[0] for said in map(shown_text, watched)]
    assert [verdict[:8] for verdict in verdicts] == ["1 race i", "no races"] * 4
    kinds = [said.partition("race 1 of 1: ")[2].partition(",")[0] for said in map(shown_text, watched[::2])]
    assert kinds == ["read after write", "use after free", "race with the host", "write after write"]


@pytest.mark.parametrize("bug", range(4))
def test_the_mended_cells_hold_what_the_diffs_suggested(bug):
    notebook = nbformat.read(RACES, as_version=4)
    watched = [cell for cell in notebook.cells if cell.source.startswith("%%cudasan")]
    racy, mended = watched[2 * bug : 2 * bug + 2]
    said = shown_text(racy)
    added = [line.strip()[1:].strip() for line in said.splitlines() if re.match(r" +\+[^+]", line)]
    assert len(added) == 1
    # The notebook calls the current stream by the name that it has there.
    line = added[0].replace("torch.cuda.current_stream()", "main") if "main = " in racy.source else added[0]
    assert line in [line.strip() for line in mended.source.splitlines()]


def shown_text(cell):
    return next(output["data"]["text/plain"] for output in cell.outputs if "text/plain" in output.get("data", {}))


def test_the_demo_tells_when_a_cell_fails(tmp_path):
    notebook = nbformat.read(QUICKSTART, as_version=4)
    notebook.cells = [nbformat.v4.new_code_cell("raise ValueError('on purpose')")]
    nbformat.write(notebook, tmp_path / "quickstart.ipynb")
    script = tmp_path / "run_demo.py"
    script.write_text(DEMO.read_text())
    done = subprocess.run([sys.executable, script, "--out", tmp_path / "out"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "on purpose" in done.stderr


class TestCommitted:
    """What stands in the repository: small, clean, and of no machine in particular."""

    @pytest.fixture(params=[QUICKSTART, RACES], ids=lambda path: path.stem)
    def path(self, request):
        return request.param

    @pytest.fixture
    def notebook(self, path):
        return nbformat.read(path, as_version=4)

    def test_it_is_valid_and_small(self, path, notebook):
        nbformat.validate(notebook)
        assert path.stat().st_size < 300_000

    def test_it_carries_nothing_of_the_machine(self, path, notebook):
        text = path.read_text()
        assert "widget-view" not in text
        assert "widgets" not in notebook.metadata
        assert not re.search(r"/(home|root|work|tmp|Users)/", text)
        assert not [
            output for cell in notebook.cells for output in cell.get("outputs", ()) if output.get("name") == "stderr"
        ]

    def test_it_says_what_it_does_before_it_does_it(self, notebook):
        assert notebook.cells[0].cell_type == "markdown"
        assert notebook.cells[0].source.startswith("# ")


def executed(name, folder):
    """A notebook, run for real: what its code cells showed as text, by their first line."""
    done = subprocess.run([sys.executable, DEMO, NOTEBOOKS / name, "--out", folder], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    notebook = nbformat.read(folder / name, as_version=4)
    return [
        (cell.source, "\n".join(o.get("text") or o.get("data", {}).get("text/plain", "") for o in cell.outputs))
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def test_the_graph_notebook_goes_from_a_skip_to_replays_and_branches(tmp_path):
    cells = executed("cuda-graphs.ipynb", tmp_path)
    trees = [shown for source, shown in cells if source.startswith(("%cudagraph tree", "%%cudaprofile graphs"))]
    skipped, replayed, branched = trees
    assert "decode writes its input 'cache'" in skipped
    assert "1 graph, 92 % of calls replayed" in replayed
    assert "replay equals eager" in replayed
    assert "decode → likeliest" in branched
    assert "decode → sharpened" in branched
    assert "a later step has overwritten it" in cells[-1][1]
    assert (tmp_path / "cuda-graphs.html").stat().st_size > 10_000


def test_the_memory_notebook_names_the_leak_and_mends_the_fragmentation(tmp_path):
    cells = executed("memory.ipynb", tmp_path)
    leaks = [shown for source, shown in cells if source.startswith(("seen = []", "for _ in range"))]
    assert all("10 tensors held by `seen`" in shown for shown in leaks)
    assert "`seen`" not in next(shown for source, shown in cells if source.startswith("seen.clear()"))
    fragmented = next(shown for source, shown in cells if source.startswith("%%cudamem fragmented"))
    assert "out of memory at In[" in fragmented
    assert "fragmentation 50 %" in fragmented
    assert "out of memory" not in next(shown for source, shown in cells if source.startswith("%%cudamem expandable"))
    assert "+5.37 GiB" in cells[-1][1]
