"""``%cudaprofile try`` in a notebook's shell: the cell, a finding, the answer; options and refusals."""

from __future__ import annotations

import pytest
from IPython.core.interactiveshell import InteractiveShell

import cudalens
from cudalens.fixes.rewrites.fix import FileChange
from cudalens.magics.try_fix import ButtonTries

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


def test_the_button_for_all_findings_shows_which_one_is_tried(shell):
    shown = []
    tried = ButtonTries(shell).try_findings(cudalens.runs["tried"], None, consent=False, progress=shown.append)
    assert "kept: " in tried["headline"]
    assert ["host_sync", "kept"] in [[row[0], row[3]] for row in tried["rows"]]
    assert "+    _losses_values.append((x * step).mean().detach())" in tried["diff"]
    assert "_losses_values" in tried["code"]
    rules = [one.rule for one in cudalens.analysis.findings(cudalens.runs["tried"])]
    position = f"Finding {1 + rules.index('host_sync')} of {len(rules)}. "
    assert any(text.startswith(f"{position}Measuring: ") for text in shown)


def test_lines_of_effects_and_of_findings_are_counted_from_the_top_of_the_cell(shell, ran, monkeypatch):
    """Two such statements: the fix is for the one on the line of the finding, which the line above is not."""
    monkeypatch.setattr(InteractiveShell, "_instance", shell)  # that of get_ipython(), as in a notebook
    shell.user_ns["many"] = shell.user_ns["x"].repeat(8, 8)
    cell = """%%cudaprofile lines --quiet --stacks
# what is slow?
print("start")
few, losses = [], []
for step in range(4): few.append(step * 2)
for step in range(4): losses.append((x * step).mean().item())
for step in range(40): few.append((many * step).mean().item())
"""
    shell.run_cell(cell, store_history=True).raise_error()
    number = shell.execution_count - 1
    finding = next(one for one in cudalens.analysis.findings(cudalens.runs["lines"]) if one.rule == "host_sync")
    assert finding.place == f"In[{number}]:7"
    text = ran("%cudaprofile try host_sync --run lines --yes")
    assert f"Each run prints: print (line 3 of In[{number}])" in text
    assert "-for step in range(40): few" in text
    assert "-for step in range(4)" not in text


@pytest.mark.parametrize("is_for_all", [True, False])
def test_a_cell_with_effects_runs_for_the_button_only_with_consent(shell, tmp_path, is_for_all):
    path = tmp_path / "log.txt"
    path.write_text("")
    shell.user_ns["log"] = path
    cell = CELL.replace("tried", "writing") + "log.write_text(log.read_text() + 'done\\n')"
    shell.run_cell(cell, store_history=True).raise_error()
    lines = path.read_text().count("\n")
    buttons, trace = ButtonTries(shell), cudalens.runs["writing"]
    rules = [one.rule for one in cudalens.analysis.findings(trace)]
    number = None if is_for_all else 1 + rules.index("host_sync")
    asked = buttons.try_findings(trace, number, consent=False, progress=print)
    assert list(asked) == ["effects"]
    assert asked["effects"][0].startswith("Each run writes files: log.write_text (line 6 of In[")
    assert path.read_text().count("\n") == lines
    tried = buttons.try_findings(trace, number, consent=True, progress=print)
    assert tried["headline"]
    assert path.read_text().count("\n") > lines


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


MODULE = """import torch


class Model:
    def run(self, x):
        \"\"\"Values.\"\"\"
        values = []
        for step in range(8):
            torch.cuda._sleep(100_000)
            values.append((x * step).mean().item())  # one a step
        return values


other = 1
"""
IN_FILE = """%%cudaprofile in_file --quiet
result = model.run(x)
"""


def test_files_are_written_with_an_option_alone(shell, ran, tmp_path, monkeypatch):
    path = tmp_path / "fixed_here.py"
    path.write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    shell.run_cell("import fixed_here\nmodel = fixed_here.Model()").raise_error()
    shell.run_cell(IN_FILE, store_history=True).raise_error()
    text = ran("%cudaprofile try host_sync")
    assert "+        _values_values.append(" in text.replace("+    _values", "+        _values")
    ran("%cudaprofile try all")
    assert path.read_text() == MODULE
    assert f"Wrote {path}, from line 5." in ran("%cudaprofile try host_sync --write")
    assert path.read_text() == MODULE.replace(
        "        for step in range(8):", "        _values_values = []\n        for step in range(8):"
    ).replace(
        "values.append((x * step).mean().item())  # one a step\n",
        "_values_values.append((x * step).mean().detach())  # one a step\n"
        "        values.extend(torch.stack(_values_values).tolist() if _values_values else [])\n",
    )
    changed = "# a new line\n" + MODULE
    path.write_text(changed)
    assert "not tried: no fix" in ran("%cudaprofile try host_sync --write")  # the file is not what runs
    change = FileChange(path, 5, "def run(self, x):\n    return x", "def run(self, x):\n    return x + 1")
    with pytest.raises(cudalens.FixError, match="is not as it was when it was run; nothing was written"):
        change.write()
    assert path.read_text() == changed


def test_a_function_of_another_cell_is_in_the_next_cell(shell, ran):
    shell.run_cell(
        "def epoch():\n    total = 0.0\n    for step in range(8):\n        torch.cuda._sleep(100_000)\n"
        "        total += (x * step).mean().item()\n    return total",
        store_history=True,
    ).raise_error()
    shell.run_cell("%%cudaprofile other_cell --quiet\nresult = epoch()", store_history=True).raise_error()
    ran("%cudaprofile try host_sync --write")
    assert shell.rl_next_input.startswith("def epoch():\n    total = 0.0\n    _total_values = []\n")
    assert shell.rl_next_input.endswith("\n\n\nresult = epoch()")


def test_a_method_of_another_cell_is_assigned_to_its_class_in_the_next_cell(shell, ran):
    shell.run_cell(
        "class Epoch:\n    def total(self):\n        total = 0.0\n        for step in range(8):\n"
        "            torch.cuda._sleep(100_000)\n            total += (x * step).mean().item()\n        return total\n"
        "epoch = Epoch()",
        store_history=True,
    ).raise_error()
    shell.run_cell("%%cudaprofile of_method --quiet\nresult = epoch.total()", store_history=True).raise_error()
    ran("%cudaprofile try host_sync --write")
    expected, shell.user_ns["result"] = shell.user_ns["result"], None
    shell.run_cell(shell.rl_next_input).raise_error()
    assert shell.user_ns["result"] == expected
    assert "_total_values" in shell.user_ns["Epoch"].total.__code__.co_varnames


def test_the_history_keeps_what_was_predicted_and_what_the_try_gave(shell, ran, tmp_path):
    path = tmp_path / "history.jsonl"
    shell.run_cell(CELL, store_history=True).raise_error()
    cudalens.history.on(path)
    try:
        shell.run_cell(CELL, store_history=True).raise_error()
        ran("%cudaprofile try host_sync")
        ran("%cudaprofile try zero_grad")  # no such finding
        cudalens.history.clear()
        (row,) = cudalens.history.attempts().to_dict("records")
        assert (row["run"], row["rule"], row["helps"], row["is_modelled"]) == ("tried", "host_sync", True, True)
        assert row["device"].startswith("NVIDIA H100")
        assert 0 < row["gain_pct"] < 100
        assert 0 < row["predicted_pct"] <= 100
        assert "results equal bit for bit" in row["answer"]
        assert len(cudalens.history.table()) == 1  # the runs of the file are read beside it
        assert len(path.read_text().splitlines()) == 2
    finally:
        cudalens.history.off()
        cudalens.history.clear()
