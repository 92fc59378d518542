"""``%cudasan confirm``: the last watched cell runs again, steered toward its races, once the user has said yes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from IPython.core.error import UsageError

from cudalens.errors import CudalensError, ExploreError
from cudalens.magics.blocks import brief, display
from cudalens.magics.confirm_cell import WatchedCell, bare, program_of, question
from cudalens.magics.watch_options import LINE_MAGIC, WatchOptions

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cudalens.sanitizer import Sanitizer
    from cudalens.sanitizer.engine import Race

_last: WeakKeyDictionary[InteractiveShell, WatchedCell] = WeakKeyDictionary()


def remember(shell: InteractiveShell, cell: WatchedCell) -> None:
    """This cell was watched last."""
    _last[shell] = cell


def forget(shell: InteractiveShell) -> None:
    """No cell was watched."""
    _last.pop(shell, None)


def ended_cell(shell: InteractiveShell, sanitizer: Sanitizer, races: tuple[Race, ...], result: Any) -> WatchedCell:
    """The cell that has just ended.

    Args:
        shell: The shell.
        sanitizer: It watched.
        races: What it found in it.
        result: What IPython says of the cell.
    """
    raw: str = result.info.raw_cell
    count = result.execution_count or shell.execution_count
    transformed = getattr(result.info, "transformed_cell", None) or shell.transform_cell(raw)  # type: ignore[no-untyped-call]
    filename = shell.compile.get_code_name(raw, transformed, count)
    lines = raw.split("\n")
    while lines and not lines[0].strip():  # IPython takes them away
        lines.pop(0)
    text, first_line = bare("\n".join(lines))
    return WatchedCell(sanitizer, races, text, first_line, filename, count)


def confirmed(shell: InteractiveShell, options: WatchOptions) -> None:
    """Say what running the last watched cell again does; with ``--yes`` run it, and show what came of it.

    Raises:
        ExploreError: It cannot be done; shown without a traceback.
        UsageError: An option is wrong.
    """
    try:
        found = _confirmed(shell, options)
    except CudalensError as error:
        raise brief(error) from None
    if found is not None:
        display(shell, found)


def _confirmed(shell: InteractiveShell, options: WatchOptions) -> Any:
    from cudalens.api.confirm import MAX_RUNS, checked_device
    from cudalens.sanitizer.rerun import DEFAULT_RUNS, MAX_RACES

    runs = options.runs or DEFAULT_RUNS
    if runs > MAX_RUNS:
        raise UsageError(f"{LINE_MAGIC}: --runs {runs}: expected a whole number from 1 to {MAX_RUNS:,}.")
    checked_device(on_virtual=options.on_virtual)
    cell = _cell(shell)
    if not options.yes:
        print(question(cell, shell, runs, MAX_RACES, _command(options, runs)))  # noqa: T201
        return None
    return cell.sanitizer.confirm(
        program_of(cell, shell), races=cell.races, runs=runs, limit_s=options.limit_s, on_virtual=options.on_virtual
    )


def _cell(shell: InteractiveShell) -> WatchedCell:
    cell = _last.get(shell)
    if cell is None:
        raise ExploreError(
            "no cell has been watched that did anything on a GPU. `%cudasan on` watches the cells that follow, "
            "`%%cudasan` on top of a cell that one."
        )
    if not cell.races:
        raise ExploreError(f"there is no race to confirm: {cell.name}, the last watched cell, has none.")
    return cell


def _command(options: WatchOptions, runs: int) -> str:
    limit = f" --limit {options.limit_s}" if options.limit_s is not None else ""
    return f"{LINE_MAGIC} confirm --runs {runs}{limit}{' --on-virtual' * options.on_virtual} --yes"
