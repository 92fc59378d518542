"""Tracebacks of cells: frames of the user's program, each with a line."""

import signal

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.ultratb import AutoFormattedTB
from traitlets.config import Config

from cudalens.device.interrupts import DeferredInterrupts
from cudalens.magics import load, unload
from cudalens.magics.tracebacks import show_all_frames, show_lines, show_own_frames_only

SOURCE = """
def loop():
    for number in range(3):
        interrupt()
"""


def without_some_lines(code):
    """The code of a function, whose instructions have no line, as jumps at the end of a loop's body can have."""
    return code.replace(co_linetable=b"".join(bytes([0x80 | 15 << 3 | 7]) for _ in range(len(code.co_code) // 16 + 1)))


def interrupted(*, has_lines):
    names = {"interrupt": lambda: signal.raise_signal(signal.SIGINT)}
    exec(compile(SOURCE, __file__, "exec"), names)
    loop = names["loop"]
    if not has_lines:
        loop.__code__ = without_some_lines(loop.__code__)
    handler = DeferredInterrupts("profile")
    handler.install()
    try:
        loop()
    except KeyboardInterrupt as error:
        return error
    finally:
        handler.remove()
    raise AssertionError


def entries(error):
    found, trail = [], error.__traceback__
    while trail is not None:
        found.append((trail.tb_frame.f_code.co_name, trail.tb_lineno))
        trail = trail.tb_next
    return found


def test_an_entry_without_a_line_gets_one():
    error = interrupted(has_lines=False)
    assert ("loop", None) in entries(error)
    show_lines(error)
    assert ("loop", 2) in entries(error)
    formatter = AutoFormattedTB(mode="Context", theme_name="nocolor")
    shown = "\n".join(formatter.structured_traceback(KeyboardInterrupt, error, error.__traceback__))
    assert "loop" in shown


def test_other_entries_keep_their_lines_and_the_handler_is_not_shown():
    error = interrupted(has_lines=True)
    before = entries(error)
    assert before[-1][0] == "_handle"
    show_lines(error)
    assert entries(error) == before[:-1]
    assert ("loop", 4) in before


def test_other_exceptions_keep_their_tracebacks():
    with pytest.raises(ZeroDivisionError) as raised:
        1 / 0  # noqa: B018
    trail = raised.value.__traceback__
    show_lines(raised.value)
    assert raised.value.__traceback__ is trail
    show_lines(None)


@pytest.fixture
def shell(tmp_path):
    return InteractiveShell(
        ipython_dir=str(tmp_path),
        config=Config(HistoryManager={"enabled": False}, InteractiveShell={"colors": "nocolor"}),
    )


def test_interrupts_of_cells_are_shown_until_the_extension_is_unloaded(shell, capsys):
    original = shell.showtraceback
    show_own_frames_only(shell)
    shell.user_ns.update(interrupted=interrupted)
    result = shell.run_cell("raise interrupted(has_lines=False)")
    shown = capsys.readouterr()
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    assert "KeyboardInterrupt" in shown.out
    assert "loop" in shown.out
    assert "Unexpected exception" not in shown.out + shown.err
    show_all_frames(shell)
    assert shell.showtraceback == original


def test_a_handler_of_the_user_stays(shell):
    shell.set_custom_exc((KeyboardInterrupt, ValueError), lambda *args, **options: None)
    mine = shell.CustomTB
    show_own_frames_only(shell)
    show_all_frames(shell)
    assert (shell.CustomTB, shell.custom_exceptions) == (mine, (KeyboardInterrupt, ValueError))


def shown_of(shell, capsys, source):
    load(shell)
    try:
        result = shell.run_cell(source)
        return capsys.readouterr().out, result.error_in_exec
    finally:
        unload(shell)


def test_an_error_has_the_frames_of_the_program_and_the_magic_line_as_typed(shell, capsys):
    source = "%%cudaprofile -q\nimport cudalens\ndef wrong():\n    return cudalens.load('missing')\nwrong()"
    shown, error = shown_of(shell, capsys, source)
    assert "in wrong()" in shown
    assert "u'%%" not in shown
    assert "cudalens/" not in shown.partition("missing: ")[0], "no frame of cudalens"
    names = [name for name, _ in entries(error)]
    assert "load" in names, "the error itself keeps its traceback"


def test_a_context_line_shows_the_magic_line_as_typed(shell, capsys):
    shown, _ = shown_of(shell, capsys, "%%cudaprofile -q first\n1 / 0")
    assert "# %%cudaprofile -q first" in shown
    assert "u'%%cudaprofile" not in shown


def test_a_fault_of_cudalens_keeps_all_frames(shell, capsys):
    source = "import cudalens\ncudalens.magics.options.count(1)(None)"
    shown, error = shown_of(shell, capsys, source)
    assert isinstance(error, AttributeError)
    assert "options.py" in shown


def test_a_traceback_of_another_extension_is_back_after_unloading(shell):
    def others(*_, **__):
        shown.append(1)

    shown = []
    shell.showtraceback = others
    show_own_frames_only(shell)
    shell.run_cell("1 / 0")
    show_all_frames(shell)
    shell.run_cell("1 / 0")
    assert shown == [1, 1]
    assert shell.showtraceback is others


def test_another_extension_that_came_later_stays(shell):
    show_own_frames_only(shell)
    inner = shell.showtraceback
    shell.showtraceback = later = lambda *args, **options: inner(*args, **options)
    show_all_frames(shell)
    assert shell.showtraceback is later
