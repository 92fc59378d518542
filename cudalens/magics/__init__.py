"""The magics that ``%load_ext cudalens`` loads: profiler, watch, sanitizer, CUDA graphs, memory and devices.

Loading imports no large package (torch, pandas, widgets): the first profiled cell does. Unloading restores the shell:
magics, input transformers, AST transformers and events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cudalens.magics.base import Magic, loaded, remove
from cudalens.magics.compile import Cudacompile
from cudalens.magics.completion import Cudalens, LineCompleter, remove_completers
from cudalens.magics.device import Cudadevice
from cudalens.magics.graph import Cudagraph
from cudalens.magics.memory import Cudamem
from cudalens.magics.profile import Cudaprofile
from cudalens.magics.sanitize import Cudasan
from cudalens.magics.syntax import CellSyntax
from cudalens.magics.tracebacks import show_all_frames, show_own_frames_only
from cudalens.magics.watch import Cudawatch

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cudalens.magics.cells import CellRun

__all__ = ["MAGICS", "cell_run", "load", "unload"]

#: The device is the last one: the other magics may use it when they end.
MAGICS: Final[tuple[type[Magic], ...]] = (
    Cudalens,
    Cudaprofile,
    Cudawatch,
    Cudasan,
    Cudagraph,
    Cudamem,
    Cudacompile,
    Cudadevice,
)


def load(shell: InteractiveShell) -> None:
    """Add the magics to `shell`. Magics that are loaded already are replaced."""
    unload(shell)
    syntax = CellSyntax(shell, MAGICS)
    try:
        # In this order, an interrupt at any line leaves a shell in which every cell magic that exists is a block: the
        # input transformer writes what the AST transformer reads, and a cell magic without either calls itself.
        shell.ast_transformers.append(syntax)
        shell.input_transformers_cleanup.append(syntax)
        for kind in MAGICS:
            kind(shell).load()
        LineCompleter(shell, MAGICS).add()
        show_own_frames_only(shell)
    except BaseException:
        unload(shell)
        raise


def unload(shell: InteractiveShell) -> None:
    """Take the magics out of `shell`, and disable a virtual device that a cell enabled."""
    for magic in sorted(loaded(shell), key=lambda magic: MAGICS.index(type(magic))):
        magic.end()
    remove(shell)
    remove_completers(shell)
    show_all_frames(shell)
    for transformers in (shell.input_transformers_cleanup, shell.ast_transformers):
        transformers[:] = [item for item in transformers if not isinstance(item, CellSyntax)]


def cell_run(shell: InteractiveShell, magic: str, line: str, source: str | None, variable: str) -> CellRun:
    """Return the context manager for the statements of one cell, which `CellSyntax` puts around them.

    Args:
        shell: The shell that runs the cell.
        magic: Name of the magic, with percent signs.
        line: The rest of the magic line.
        source: The cell without the magic line, or None where it is unknown.
        variable: Name of the run in the user's namespace until the cell ends.

    Raises:
        UsageError: The options are wrong.
    """
    kind = next(kind for kind in MAGICS if kind.cell_form is not None and kind.cell_form.name == magic)
    assert kind.cell_form is not None
    return kind.cell_run(shell, kind.cell_form.parse(line), source, variable)
