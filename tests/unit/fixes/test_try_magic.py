"""``%cudaprofile try`` in a notebook's shell: the cell, a finding, the answer; options and refusals."""

from __future__ import annotations

import pytest
from IPython.core.interactiveshell import InteractiveShell

import cudalens

CELL = """%%cudaprofile tried --quiet
losses = []
for step in range(8):
    torch.cuda._sleep(100_000)
    losses.append((x * step).mean().item())  # one value a step
"""


@pytest.fixture(scope="module")
def shell():
    made = InteractiveShell()
    cudalens.runs.clear()
    with cudalens.virtual.device("h100"):
        made.run_line_magic("load_ext", "cudalens")
        made.run_cell("import torch\nx = torch.ones(64, 64, device='cuda')", store_history=True)
        made.run_cell(CELL, store_history=True).raise_error()
        yield made
        made.run_line_magic("unload_ext", "cudalens")
    cudalens.runs.clear()


@pytest.fixture
def ran(shell, capsys):
    def run(line):
        shell.run_cell(line, store_history=True)
        return "".join(capsys.readouterr())

    return run


def test_the_first_finding(shell, ran):
    before = shell.user_ns["losses"]
    text = ran("%cudaprofile try host_sync")
    assert "% less, 3 runs each), results equal bit for bit" in text
    assert "--- In[2]" in text
    assert "+    _losses_values.append((x * step).mean().detach())" in text
    assert shell.user_ns["losses"] is before
    assert len(before) == 8
    assert not [name for name in shell.user_ns if name.startswith("_losses")]


def test_all_findings(shell, ran):
    text = ran("%cudaprofile try all --run tried --write")
    assert "kept: " in text
    assert "together" in text
    assert "_losses_values" in shell.rl_next_input


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%cudaprofile try 99", "has no finding 99; there are: 1 ("),
        ("%cudaprofile try 1 2", "expected one number or rule, found '1 2'"),
        ("%cudaprofile try --run nothing", "there is no run 'nothing'; there are: tried"),
        ("%cudaprofile try --tolerance x", "'x' is not a number above 0"),
        ("%cudaprofile try all 3", "takes no number"),
    ],
)
def test_what_cannot_be_tried(ran, line, message):
    assert message in ran(line)
