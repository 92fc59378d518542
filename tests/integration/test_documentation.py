"""Every code block of README, docs, CONTRIBUTING and docstrings runs as written, on a virtual device.

A page is a session: its Python blocks are cells of one IPython shell, its console blocks run in the same folder. A
block that cannot run here has the marker `# not run in the tests: REASON` on its first line, which readers see.
"""

import gc
import os
import re
import shlex
import subprocess
import sysconfig
from pathlib import Path

import pytest
from code_blocks import docstring_blocks, markdown_blocks

import cudalens
import cudalens.__main__

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "news" / "README.md"])
MODULES = [path for path in sorted((ROOT / "cudalens").rglob("*.py")) if any(docstring_blocks(path))]
ASSIGNMENT = re.compile(r"[A-Z_]+=")
LANGUAGES = {"python", "console", "text"}


def name(path):
    return str(path.relative_to(ROOT))


@pytest.fixture
def page(notebook, tmp_path, monkeypatch):
    """A notebook in an empty folder. What a page switches on is switched off at its end."""
    monkeypatch.chdir(tmp_path)
    gc.freeze()  # examples of `fit` collect garbage over a hundred times, which would visit all that earlier pages left
    yield notebook
    for line in ("cudasan off", "cudamem leaks off", "cudagraph reset", "cudaprofile history off", "cudadevice off"):
        notebook.run(f"%{line}")


def run_cell(notebook, block):
    outcome = notebook.run(block.text)
    problem = notebook.text("usage") or notebook.text("error")
    assert not problem, f"{block}\n{block.text}\n{problem}"
    assert outcome.success, f"{block}\n{block.text}\n{outcome.error_in_exec or outcome.error_before_exec}"


def run_console(block):
    for line in block.text.replace("\\\n", " ").splitlines():
        command = [word for word in shlex.split(line, comments=True) if not ASSIGNMENT.match(word)]
        if command[:1] == ["cudalens"]:
            assert cudalens.__main__.main(command[1:]) in (0, None), f"{block}\n{line}"
        elif command[:1] == ["make"]:  # the recipes are the checks and tests themselves: only the targets are looked up
            run_process(block, shlex.join(["make", "-n", "-C", str(ROOT), *command[1:]]))
        elif command:
            run_process(block, line)


def run_process(block, line):
    path = sysconfig.get_path("scripts") + os.pathsep + os.environ["PATH"]
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(line, shell=True, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{block}\n{line}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_every_block_of_a_page_runs(path, page):
    for block in markdown_blocks(path):
        assert block.language in LANGUAGES, f"{block}: '```{block.language}'; expected one of {sorted(LANGUAGES)}"
        if block.reason_not_to_run:
            continue
        if block.language == "python":
            run_cell(page, block)
        elif block.language == "console":
            run_console(block)


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_every_example_of_a_docstring_runs(path, page):
    page.run("import cudalens, pytest, torch")
    creates_device = path.parent.name == "virtual" or path.name in ("fit.py", "compile_report.py", "try_fix.py")
    if not creates_device:
        page.run("%cudadevice virtual h100")
    page.run("def train_step(): return torch.ones(4, device='cuda').sum().item()")
    for block in docstring_blocks(path):
        run_cell(page, block)


def test_it_finds_the_blocks():
    blocks = [block for path in PAGES for block in markdown_blocks(path)]
    assert len(PAGES) > 20
    assert {"tasks", "docs"} <= {block.path.parent.name for block in blocks}
    assert sum(block.language == "python" and not block.reason_not_to_run for block in blocks) > 60
    assert sum(block.language == "console" and not block.reason_not_to_run for block in blocks) > 5


def test_it_finds_the_examples_of_docstrings():
    assert {"__init__.py", "pytest_plugin.py"} <= {path.name for path in MODULES}


def test_the_files_that_the_architecture_page_names_exist():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = {path for path in re.findall(r"`([\w/]+/(?:\w+\.py)?)`", page) if not path.startswith("tools")}
    folders = [ROOT / "cudalens", *(path for path in (ROOT / "cudalens").iterdir() if path.is_dir())]
    assert len(named) > 50
    assert not [path for path in named if not any((folder / path).exists() for folder in folders)]
