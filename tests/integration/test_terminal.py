"""A session in the terminal's IPython, as a user without a notebook sees it."""

import os

import programs
import pytest

SESSION = """\
import torch
%load_ext cudalens
%%cudaprofile hello
x = torch.ones(3)
x.sum().item()


%%cudaprofile
1 / 0


%cudaprofile list
import cudalens, webbrowser
webbrowser._tryorder, webbrowser._browsers = [], {}
cudalens.runs["hello"].figure("op_breakdown")
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    command = ["-m", "IPython", "--simple-prompt", "--no-banner", "--colors=nocolor"]
    environment = {**os.environ, "IPYTHONDIR": str(home), "HOME": str(home)}
    done = programs.run(*command, input=SESSION, env=environment, cwd=home)
    assert done.returncode == 0
    return done.stdout


def test_value_and_summary_in_order(said):
    value, summary = said.index("Out[3]: 3.0"), said.index("aten::sum")
    assert value < summary


def test_the_error_points_into_the_cell(said):
    assert "----> 2 1 / 0" in said
    assert said.index("ZeroDivisionError: division by zero") > said.index("raised")


def test_runs_are_listed(said):
    assert "hello" in said[said.index("<cudalens.runs") :]


def test_a_figure_without_a_browser_is_a_table(said):
    shown = said[said.index("<cudalens.runs") :]
    assert "aten::sum" in shown
    assert "No browser was found to draw it; figure.write_html('figure.html') writes a page." in shown
    assert "Traceback" not in shown
    assert "webbrowser.Error" not in shown
