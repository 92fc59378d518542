"""``%%cudacompile`` reports on a cell, and the cell does what it does without the magic."""

import pytest

pytest.importorskip("triton", reason="torch.compile on a virtual device needs Triton")

_SETUP = """
torch.manual_seed(0)
model = torch.nn.Linear(8, 8, device="cuda")
optimizer = torch.optim.SGD(model.parameters(), momentum=0.9)
x = torch.randn(4, 8, device="cuda")
losses = []
"""
_STEP = """
loss = model(x).square().mean()
losses.append(loss.item())
loss.backward()
optimizer.step()
len(losses)
"""


@pytest.fixture
def device_notebook(notebook):
    assert notebook.run("%cudadevice virtual h100").success
    yield notebook
    notebook.run("%cudadevice off")


def left(notebook):
    """What the step left in the namespace."""
    state = notebook["optimizer"].state[notebook["model"].weight]["momentum_buffer"]
    parameter = notebook["model"].weight
    return notebook["losses"], parameter.tolist(), parameter.grad.tolist(), state.tolist()


def test_a_reported_cell_leaves_what_it_leaves_without_the_report(device_notebook, tmp_path):
    notebook = device_notebook
    notebook.run(_SETUP)
    notebook.run(_STEP)
    expected = left(notebook)
    notebook.run(_SETUP)
    page = tmp_path / "report.html"
    assert notebook.run(f"%%cudacompile --var found --html {page}\n{_STEP}").result == 1
    assert left(notebook) == expected
    assert notebook.kinds() == ["out", "display"]
    assert notebook["found"].breaks["source"].iloc[0] == "losses.append(loss.item())"
    assert "; first break: " in notebook.shown[1][1]["text/plain"]
    assert "kernels become" in page.read_text(encoding="utf-8")


def test_a_cell_that_cannot_run_twice_runs_once_without_a_report(device_notebook, capsys):
    notebook = device_notebook
    notebook.run("rows = iter([1, 2])")
    assert notebook.run("%%cudacompile\nnext(rows)").result == 1
    assert "the cell takes from an iterator" in capsys.readouterr().err
    assert notebook.run("next(rows)").result == 2
