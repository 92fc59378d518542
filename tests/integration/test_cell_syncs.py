"""``%%cudaprofile --syncs`` in a real shell, on a virtual device: the line of the cell that made the host wait."""

import warnings

import pytest
import torch

import cudalens
from cudalens.analysis import findings


@pytest.fixture
def on_device(notebook, monkeypatch):
    monkeypatch.setattr(type(notebook.shell), "_instance", notebook.shell)  # the one that IPython.get_ipython() gives
    with cudalens.virtual.device("h100"):
        assert notebook.run("import torch\nx = torch.randn(500, 500, device='cuda')").success
        yield notebook
        assert torch.cuda.get_sync_debug_mode() == 0


CELL = """%%cudaprofile --syncs -v trace
total = 0.0
for _ in range(3):
    loss = (x @ x).square().mean()
    total += loss.item()
picked = x[x > 0]
'done'"""


def test_the_details_of_the_verdict_name_the_line_of_the_cell(on_device):
    before = list(warnings.filters)
    on_device.run(CELL)
    assert warnings.filters == before
    (bundle,) = [data for kind, data in on_device.shown if kind == "display"]
    number = on_device.shell.execution_count - 1
    trace = on_device["trace"]
    assert trace.syncs["place"].tolist() == [f"In[{number}]:5"] * 3 + [f"In[{number}]:6"]
    assert trace.syncs["expression"].tolist() == ["loss.item()"] * 3 + ["x[x > 0]"]
    assert trace.syncs["source"].iloc[0] == "total += loss.item()"
    details = bundle["text/plain"].splitlines()[1]
    assert "4 times in 2 places: " in details
    assert f"at In[{number}]:5 loss.item()" in details
    assert "Waits for the GPU" in bundle["text/html"]
    assert trace.info.options["syncs"] is True


def test_the_cell_stays_as_it_is(on_device, recwarn):
    on_device.run(CELL)
    assert on_device.text("out") == "'done'"
    assert not [each for each in recwarn if "synchronizing" in str(each.message)]


def test_a_function_of_another_cell_is_named_with_its_own_cell(on_device):
    on_device.run("def peek(t):\n    return t.max().item()")
    number = on_device.shell.execution_count - 1
    on_device.run("%%cudaprofile --syncs -v trace\npeek(x)")
    (row,) = on_device["trace"].syncs.to_dict("records")
    assert (row["place"], row["expression"]) == (f"In[{number}]:2", "t.max().item()")
    stack = on_device["trace"].stacks
    assert stack[stack["stack"] == row["stack"]]["file"].tolist()[:2] == [f"In[{number}]", f"In[{number + 1}]"]


def test_a_cell_that_raises_reports_its_waits_first(on_device):
    on_device.run("%%cudaprofile --syncs -v trace\nx.sum().item()\n1 / 0")
    assert on_device.kinds() == ["display", "error"]
    assert on_device["trace"].syncs["expression"].tolist() == ["x.sum().item()"]


def test_a_program_that_wants_to_be_warned_goes_on_being_warned(on_device):
    with pytest.warns(UserWarning, match="synchronizing CUDA operation"):
        on_device.run("%%cudaprofile --syncs -q\ntorch.cuda.set_sync_debug_mode('warn')\nx.sum().item()")
    assert torch.cuda.get_sync_debug_mode() == 1
    torch.cuda.set_sync_debug_mode(0)


def test_the_report_holds_the_table(on_device, tmp_path):
    page = tmp_path / "run.html"
    on_device.run(CELL.replace("-v trace", f"-q --html {page}"))
    text = page.read_text(encoding="utf-8")
    assert text.count("keep loss on the device") >= 2  # without scripts, and for the page


def test_a_cell_without_waits_reports_it(on_device):
    on_device.run("%%cudaprofile --syncs\ny = x @ x")
    (bundle,) = [data for kind, data in on_device.shown if kind == "display"]
    assert "no wait for the GPU was seen" in bundle["text/plain"]


def test_lines_of_cells_have_the_cells_name_in_rows_stacks_and_findings(on_device):
    on_device.run("def step(t):\n    for _ in range(60):\n        t = t * 1.01\n    return t.sum().item()")
    number = on_device.shell.execution_count - 1
    on_device.run("%%cudaprofile --stacks -v trace\nfor _ in range(20):\n    step(x)")
    trace = on_device["trace"]
    names = set(trace.events["name"].astype(str)) | set(trace.stacks["file"].dropna().astype(str))
    assert f"In[{number}](1): step" in names
    assert not [name for name in names if "ipykernel_" in name or "ipython-input" in name]
    places = {found.place for found in findings(trace)}
    assert places <= {f"In[{number}]:3", f"In[{number}]:4", f"In[{number}]:1", f"In[{number + 1}]:3", None}
    assert places != {None}
