"""Races by value from a notebook: ``%%cudasan --explore``, ``%cudasan explore``."""

from __future__ import annotations

import json

import pytest

import cudalens.virtual as virtual

SETUP = """
%cudadevice virtual h100
side = torch.cuda.Stream()
x = torch.ones(64, 64, device="cuda")
torch.cuda.synchronize()
"""
RACY = """
with torch.cuda.stream(side):
    y = x * 2
z = y + 1
"""
CLEAN = """
with torch.cuda.stream(side):
    y = x * 2
torch.cuda.current_stream().wait_stream(side)
z = y + 1
"""


@pytest.fixture
def cuda(notebook):
    notebook.run(SETUP)
    notebook.capsys.readouterr()
    yield notebook
    notebook.run("%cudasan off")
    if (on := virtual.active()) is not None:
        on.disable()


def test_a_watched_cell_is_explored_and_nothing_of_it_runs_again(cuda, tmp_path):
    file = tmp_path / "lines"
    assert cuda.run(f"%%cudasan --explore 10 -v t{RACY}print('once', file=open({str(file)!r}, 'a'))").success
    assert file.read_text() == "once\n"
    assert "1 of 1 race confirmed by value in the one other order that is possible." in cuda.capsys.readouterr().out
    row = cuda["t"].races.iloc[0]
    assert (row["value_verdict"], row["num_schedules"]) == ("confirmed", 1)
    (difference,) = json.loads(row["differs"])
    assert (difference["name"], difference["expected"], difference["num_differing"]) == ("z", 3.0, 64 * 64)
    assert json.loads(row["schedule"])["seed"] == "rush:1<0"
    text, html = cuda.shown[-1][1]["text/plain"], cuda.shown[-1][1]["text/html"]
    assert "1 confirmed by value" in text
    assert "Repeat it: san.replay_schedule('rush:1<0')" in text
    assert "Confirmed by value: 1 value differs" in html
    assert cuda.run(f"%%cudasan --explore -q{CLEAN}").success
    assert cuda.shown == []
    assert cuda.capsys.readouterr().out == ""


def test_the_last_cell_is_explored_when_asked_for(cuda):
    cuda.run("%cudasan on --explore")
    cuda.run(RACY.strip())
    cuda.run("'a cell that does nothing on the device'")
    cuda.run("%cudasan explore --budget 5")
    (found,) = (data for kind, data in cuda.shown if kind == "display")
    assert found["text/plain"].startswith("1 of 1 race confirmed by value")
    assert "race 1: read after write" in found["text/plain"]
    assert "where in the tensor" in found["text/html"]
    cuda.capsys.readouterr()
    cuda.run("%cudasan explore --replay rush:1<0")
    assert "4,096 of 4,096 elements differ" in cuda.capsys.readouterr().out
    cuda.run(CLEAN.strip())
    cuda.run("%cudasan explore")
    assert cuda.shown[0][1]["text/plain"].startswith("No other order is possible")


def test_what_cannot_be_explored_is_reported_without_a_traceback(cuda):
    cuda.run("%cudasan on")
    cuda.run("%cudasan explore")
    assert "Enable the recording first" in cuda.text("error")
    cuda.run("%cudasan off")
    cuda.run("%cudadevice off")
    cuda.run("%cudasan on --explore")
    assert "needs the virtual device" in cuda.text("error")
    cuda.run("%cudasan explore --budget none")
    assert "not a whole number" in cuda.text("usage")
