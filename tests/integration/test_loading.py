"""`%load_ext cudalens`: silent, light, and undone without a trace."""

import subprocess
import sys

from shell_state import state_of

HEAVY = ("torch", "pandas", "pyarrow", "plotly", "ipywidgets", "anywidget", "itables", "tqdm", "numpy")

LOAD = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell()
before = set(sys.modules)
shell.run_line_magic("load_ext", "cudalens")
shell.run_cell("%cudaprofile")
new = {name.partition(".")[0] for name in set(sys.modules) - before}
print("NEW", *sorted(new))
"""


def test_loading_imports_nothing_heavy(tmp_path):
    """In a process of its own, because this one has it all imported."""
    done = subprocess.run([sys.executable, "-c", LOAD], capture_output=True, text=True, cwd=tmp_path, check=True)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("NEW")]
    assert "cudalens" in line.split()
    assert not set(HEAVY) & set(line.split())


def test_loading_prints_nothing(plain_shell, capfd):
    plain_shell.run_cell("%load_ext cudalens")
    assert capfd.readouterr() == ("", "")


def test_unloading_restores_the_shell(plain_shell):
    plain_shell.run_cell("import torch")
    getattr(plain_shell.magics_manager, "load_all_lazy_magics", bool)()  # else %load_ext itself is what is new
    before = state_of(plain_shell)
    plain_shell.run_line_magic("load_ext", "cudalens")
    assert state_of(plain_shell) != before
    plain_shell.run_cell("%%cudaprofile -q\ntorch.ones(3)", store_history=True)
    plain_shell.run_line_magic("unload_ext", "cudalens")
    for part, value in vars(state_of(plain_shell)).items():
        assert value == getattr(before, part), part
    assert not [name for name in plain_shell.user_ns if "cudalens" in name]


def test_loading_twice_is_loading_once(plain_shell):
    import cudalens

    plain_shell.run_line_magic("load_ext", "cudalens")
    once = state_of(plain_shell)
    cudalens.load_ipython_extension(plain_shell)
    again = state_of(plain_shell)
    assert len(again.asts) == len(once.asts) == 1
    assert [len(inputs) for inputs in again.inputs] == [len(inputs) for inputs in once.inputs]
    plain_shell.run_line_magic("reload_ext", "cudalens")
    assert len(plain_shell.ast_transformers) == 1


def test_unloading_leaves_a_foreign_magic_of_that_name(plain_shell):
    plain_shell.register_magic_function(lambda line, cell: "mine", "cell", "cudaprofile")
    import cudalens

    cudalens.unload_ipython_extension(plain_shell)
    assert plain_shell.run_cell_magic("cudaprofile", "", "1") == "mine"
