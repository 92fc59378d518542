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


def interrupted_at(number, code, call):
    """Run `call`, and raise KeyboardInterrupt at line `number` that `code` executes; whether there was such a line."""
    num_lines = 0

    def lines(frame, event, _):
        nonlocal num_lines
        if event == "line":
            num_lines += 1
            if num_lines == number:
                raise KeyboardInterrupt
        return lines

    sys.settrace(lambda frame, event, _: lines if frame.f_code is code else None)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False


def test_an_interrupt_at_any_line_of_loading_leaves_no_magic_that_calls_itself(plain_shell):
    from cudalens import magics

    number, is_inside = 0, True
    while is_inside:
        number += 1
        is_inside = interrupted_at(number, magics.load.__code__, lambda: magics.load(plain_shell))
        cell = plain_shell.run_cell("%%cudaprofile -q\nx = 7")
        assert not isinstance(cell.error_in_exec, RecursionError)
        plain_shell.run_line_magic("load_ext", "cudalens")
        plain_shell.run_cell("%%cudaprofile -q\nx = 8").raise_error()
        assert plain_shell.user_ns["x"] == 8
        magics.unload(plain_shell)
        plain_shell.extension_manager.loaded.discard("cudalens")
        assert not plain_shell.ast_transformers
    assert number > 8


def test_an_interrupt_at_any_line_of_unloading_leaves_a_shell_that_can_load_again(plain_shell):
    from cudalens import magics

    number, is_inside = 0, True
    while is_inside:
        number += 1
        magics.load(plain_shell)
        is_inside = interrupted_at(number, magics.unload.__code__, lambda: magics.unload(plain_shell))
        cell = plain_shell.run_cell("%%cudaprofile -q\nx = 7")
        assert not isinstance(cell.error_in_exec, RecursionError)
    magics.load(plain_shell)
    plain_shell.run_cell("%%cudaprofile -q\nx = 8").raise_error()
    assert len(plain_shell.ast_transformers) == 1
