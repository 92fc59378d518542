"""A watched cell runs again for real: what is asked before, what is refused, what is as before afterwards.

On a virtual device no value differs by the order; the times that a cell asks for do differ.
"""

from __future__ import annotations

import pytest
import torch

import cudalens.virtual as virtual

SETUP = """
%cudadevice virtual h100
import itertools
class Log:
    runs = 0
log, losses = Log(), []
side = torch.cuda.Stream()
x = torch.ones(64, 64, device="cuda")
torch.cuda.synchronize()
"""
RACY = """
begin, wrote, read = (torch.cuda.Event(enable_timing=True) for _ in range(3))
begin.record()
with torch.cuda.stream(side):
    x.mul_(2)
    wrote.record()
read.record()
z = x + 1
log.runs += 1
losses.append(log.runs)
torch.cuda.synchronize()
number = 1 if begin.elapsed_time(wrote) <= begin.elapsed_time(read) else 2
"""
CONFIRM = "%cudasan confirm --runs 3 --on-virtual"


@pytest.fixture
def cuda(notebook):
    notebook.run(SETUP)
    notebook.capsys.readouterr()
    yield notebook
    notebook.run("%cudasan off")
    if (on := virtual.active()) is not None:
        on.disable()


def names_of(notebook):
    """The user's variables, without those of the shell."""
    return {name: id(value) for name, value in notebook.shell.user_ns.items() if not name.startswith("_")}


@pytest.mark.parametrize("watch", ["%%cudasan -q\n", "%%cudaprofile -q\n%%cudasan -q\n", "on", ""])
def test_a_cell_is_confirmed_and_everything_is_as_before(cuda, watch):
    if watch == "on":
        cuda.run("%cudasan on")
    code = RACY.strip() if watch == "on" else f"{watch or '%%cudasan'}\n{RACY}"
    assert cuda.run(code, store_history=True).success
    before, losses, x = names_of(cuda), list(cuda["losses"]), cuda["x"].tolist()
    cuda.capsys.readouterr()
    cuda.run(f"{CONFIRM} --yes")
    (shown,) = (data for kind, data in cuda.shown if kind == "display")
    text = shown["text/plain"]
    assert text.startswith("1 of 1 race confirmed by value, in 1 delayed run."), text
    assert "`number` differs: 2 instead of 1" in text
    assert "schedule 'hold:1<0'" in text
    assert "delayed" in shown["text/html"]
    assert names_of(cuda) == before
    assert (cuda["losses"], cuda["x"].tolist()) == (losses, x)
    assert cuda["log"].runs == 1 + 2 + 1 + 1  # other objects stay as the runs leave them: the question says so
    assert cuda.capsys.readouterr().out == ""


def test_before_anything_runs_it_is_reported_what_would(cuda, tmp_path):
    file = tmp_path / "lines"
    cuda.run(f"%%cudasan -q\n{RACY}print('hello'); open({str(file)!r}, 'a').write('x')")
    assert file.read_text() == "x"
    cuda.capsys.readouterr()
    cuda.run(CONFIRM)
    output = cuda.capsys.readouterr().out
    assert "the code of In[3] would run again, for real, up to 8 times" in output
    assert "line 14: prints (print)" in output
    assert "line 14: writes files (open)" in output
    assert "    x.mul_(2)" in output
    assert output.rstrip().endswith(f"Nothing has run. To run it:  {CONFIRM} --yes")
    assert (cuda.shown, cuda["log"].runs, file.read_text()) == ([], 1, "x")
    cuda.run(f"{CONFIRM} --yes")
    assert cuda.text("display")
    assert "hello" not in cuda.capsys.readouterr().out
    assert file.read_text() == "x" * cuda["log"].runs


def test_the_last_cell_that_did_something_is_confirmed_with_its_own_races(cuda):
    cuda.run("%cudasan on")
    cuda.run(RACY.strip())
    cuda.run("'a cell that does nothing on the device'")
    cuda.run(f"{CONFIRM} --yes")
    assert "1 of 1 race confirmed" in cuda.text("display")
    cuda.run(f"{CONFIRM} --yes")  # nor does confirming itself count as such a cell
    assert "1 of 1 race confirmed" in cuda.text("display")
    cuda.run("torch.cuda.synchronize()\ny = x * 2")
    cuda.run(f"{CONFIRM} --yes")
    assert "no race to confirm: In[8], the last checked cell, has none" in cuda.text("error")


def test_the_verdict_is_in_the_report(cuda):
    cuda.run("%cudasan on")
    cuda.run(RACY.strip())
    cuda.run(f"{CONFIRM} --yes")
    cuda.run("%cudasan report")
    assert "Confirmed by value: 1 value differs" in cuda.shown[0][1]["text/html"]


def test_an_interrupt_leaves_everything_as_it_was(cuda):
    code = f"{RACY}if log.runs == 4: raise KeyboardInterrupt\n"
    cuda.run(f"%%cudasan -q\n{code}")
    before, x = names_of(cuda), cuda["x"].tolist()
    cuda.run(f"{CONFIRM} --yes")
    assert "KeyboardInterrupt" in cuda.text("error")
    assert cuda["log"].runs == 4
    assert (names_of(cuda), cuda["x"].tolist()) == (before, x)
    assert cuda.run("print('here')").success  # what is printed is seen again
    assert "here" in cuda.capsys.readouterr().out


def test_a_cell_that_cannot_run_to_its_end_again(cuda):
    cuda.run("left = iter([1])")
    cuda.run(f"%%cudasan -q\n{RACY}next(left)")
    cuda.run(CONFIRM)
    assert "takes from an iterator (next)" in cuda.capsys.readouterr().out
    cuda.run(f"{CONFIRM} --yes")
    assert "run again, in its own order, the program raises StopIteration" in cuda.text("error")


def test_on_a_virtual_device_it_is_refused(cuda):
    cuda.run(f"%%cudasan -q\n{RACY}")
    for line in ("%cudasan confirm", "%cudasan confirm --yes"):
        cuda.run(line)
        assert "a virtual device computes values in the program's order" in cuda.text("error")
        assert "%cudasan explore" in cuda.text("error")
    assert cuda["log"].runs == 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_is_refused(notebook):
    notebook.run("%cudasan confirm --yes")
    assert "needs a GPU, and torch sees none" in notebook.text("error")
    assert "%cudasan explore" in notebook.text("error")


def test_without_a_watched_cell(cuda):
    cuda.run(f"{CONFIRM} --yes")
    assert "no cell has been checked" in cuda.text("error")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("%time 1 + 1", "has a magic or a shell command (line 14)"),
        ("!true", "has a magic or a shell command (line 14)"),
        ("import asyncio; await asyncio.sleep(0)", "awaits (line 14)"),
        ("if 0: input()", "calls input() (line 14)"),
    ],
)
def test_what_cannot_run_again_by_itself(cuda, line, why):
    cuda.run(f"%%cudasan -q\n{RACY}{line}")
    for asked in (CONFIRM, f"{CONFIRM} --yes"):
        cuda.run(asked)
        assert f"In[3] cannot run again by itself: it {why}" in cuda.text("error")
    assert cuda["log"].runs == 1


def test_wrong_options(cuda):
    cuda.run("%cudasan confirm --runs none")
    assert "not a whole number" in cuda.text("usage")
    cuda.run("%cudasan confirm --runs 20000 --on-virtual")
    assert "expected a whole number from 1 to 10,000" in cuda.text("usage")


def test_unloading_removes_all_the_cell(cuda):
    cuda.run(f"%%cudasan -q\n{RACY}")
    cuda.run("%reload_ext cudalens")
    cuda.run("%cudadevice virtual h100")
    cuda.run(f"{CONFIRM} --yes")
    assert "no cell has been checked" in cuda.text("error")
