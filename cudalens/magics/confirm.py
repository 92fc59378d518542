"""``%cudasan confirm``: runs the last checked cell again with delays that provoke its races, once the user agrees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from IPython.core.error import UsageError

from cudalens.errors import ExploreError
from cudalens.magics.cells import display
from cudalens.magics.confirm_cell import WatchedCell, bare, program_of, question

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cudalens.magics.sanitize import ConfirmOptions
    from cudalens.sanitizer import Sanitizer
    from cudalens.sanitizer.engine import Race

_last: WeakKeyDictionary[InteractiveShell, WatchedCell] = WeakKeyDictionary()


def remember(shell: InteractiveShell, cell: WatchedCell) -> None:
    """Store `cell` as the last checked one."""
    _last[shell] = cell


def forget(shell: InteractiveShell) -> None:
    """Forget the last checked cell."""
    _last.pop(shell, None)


def ended_cell(shell: InteractiveShell, sanitizer: Sanitizer, races: tuple[Race, ...], result: Any) -> WatchedCell:
    """Return the cell that has just ended.

    Args:
        shell: The shell.
        sanitizer: The sanitizer that was on.
        races: The races in the cell.
        result: IPython's result of the cell.
    """
    raw: str = result.info.raw_cell
    count = result.execution_count or shell.execution_count
    transformed = getattr(result.info, "transformed_cell", None) or shell.transform_cell(raw)  # type: ignore[no-untyped-call]
    filename = shell.compile.get_code_name(raw, transformed, count)
    lines = raw.split("\n")
    while lines and not lines[0].strip():  # IPython removes them
        lines.pop(0)
    text, first_line = bare("\n".join(lines))
    return WatchedCell(sanitizer, races, text, first_line, filename, count)


def confirm(shell: InteractiveShell, options: ConfirmOptions) -> None:
    """Print what running the last checked cell again does; with ``--yes`` run it, and show the result.

    Raises:
        ExploreError: It cannot be done.
        UsageError: An option is wrong.
    """
    from cudalens.api.confirm import MAX_RUNS, checked_device
    from cudalens.sanitizer.rerun import DEFAULT_RUNS, MAX_RACES

    runs = options.runs or DEFAULT_RUNS
    if runs > MAX_RUNS:
        raise UsageError(f"%cudasan confirm: --runs {runs}: expected a whole number from 1 to {MAX_RUNS:,}.")
    checked_device(on_virtual=options.on_virtual)
    cell = _cell(shell)
    if not options.yes:
        limit = f" --limit {options.limit_s}" if options.limit_s is not None else ""
        command = f"%cudasan confirm --runs {runs}{limit}{' --on-virtual' * options.on_virtual} --yes"
        print(question(cell, shell, runs, MAX_RACES, command))  # noqa: T201
        return
    program = program_of(cell, shell)
    found: Any = cell.sanitizer.confirm(
        program, races=cell.races, runs=runs, limit_s=options.limit_s, on_virtual=options.on_virtual
    )
    display(shell, found)


def _cell(shell: InteractiveShell) -> WatchedCell:
    cell = _last.get(shell)
    if cell is None:
        raise ExploreError(
            "no cell has been checked that used a GPU. `%cudasan on` checks the following cells, `%%cudasan` on top "
            "of a cell that cell."
        )
    if not cell.races:
        raise ExploreError(f"there is no race to confirm: {cell.name}, the last checked cell, has none.")
    return cell
