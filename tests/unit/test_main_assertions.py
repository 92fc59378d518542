"""``cudalens summary --assert``: exit code 1 with the figures, 2 with the place that cannot be read."""

import pytest

from cudalens.__main__ import main
from cudalens.frames import RunInfo, Trace


@pytest.fixture
def saved(tmp_path):
    return str(Trace(RunInfo(name="run", source="cpu")).save(tmp_path / "run.cudalens"))


def test_what_holds_exits_with_0(saved, capsys):
    assert main(["summary", saved, "--assert", "kernels == 0", "--assert", "problems == 0"]) == 0
    assert capsys.readouterr().err == ""


def test_what_fails_exits_with_1_after_the_summary(saved, capsys):
    assert main(["summary", saved, "--assert", "kernels == 1"]) == 1
    output = capsys.readouterr()
    assert "no operator or kernel was recorded" in output.out
    assert output.err == "cudalens: 1 of 1 assertion does not hold on 'run':\n  kernels == 1  kernels is 0\n"


def test_what_cannot_be_read_shows_where(saved, capsys):
    assert main(["summary", saved, "--assert", "idle < 20"]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.endswith("\n  idle < 20\n         ^\n")
