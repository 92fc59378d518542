"""Binder installs what the project says, without CUDA."""

import os
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_binder_installs_this_checkout_in_the_versions_of_the_lock():
    script = ROOT / "binder" / "postBuild"
    assert os.access(script, os.X_OK)
    assert 'python tools/install.py --cpu-torch torch -c requirements.lock -e ".[lab]"' in script.read_text()
    assert (ROOT / "requirements.lock").is_file()


def test_the_interpreter_is_one_that_the_project_takes():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    runtime = re.fullmatch(r"python-(3\.\d+)\s*", (ROOT / "binder" / "runtime.txt").read_text())
    assert f"Programming Language :: Python :: {runtime[1]}" in project["classifiers"]
    assert sys.version_info >= tuple(map(int, project["requires-python"].removeprefix(">=").split(".")))
