"""Tracebacks of interrupts in cells: each entry has a line, so that IPython can show it."""

import signal

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.ultratb import AutoFormattedTB
from traitlets.config import Config

from cudalens.device.interrupts import DeferredInterrupts
from cudalens.magics.tracebacks import repair_interrupts, restore_interrupts, show_lines

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
    handler = DeferredInterrupts()
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


def test_interrupts_of_cells_are_shown_until_the_handler_is_removed(shell, capsys):
    repair_interrupts(shell)
    shell.user_ns.update(interrupted=interrupted)
    result = shell.run_cell("raise interrupted(has_lines=False)")
    shown = capsys.readouterr()
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    assert "KeyboardInterrupt" in shown.out
    assert "loop" in shown.out
    assert "Unexpected exception" not in shown.out + shown.err
    restore_interrupts(shell)
    assert shell.custom_exceptions == ()


def test_a_handler_of_the_user_stays(shell):
    shell.set_custom_exc((KeyboardInterrupt, ValueError), lambda *args, **options: None)
    mine = shell.CustomTB
    repair_interrupts(shell)
    restore_interrupts(shell)
    assert (shell.CustomTB, shell.custom_exceptions) == (mine, (KeyboardInterrupt, ValueError))
