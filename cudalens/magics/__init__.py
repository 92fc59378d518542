"""The magics: ``%%cudaprofile`` and its line form, loaded by ``%load_ext cudalens``.

Loading imports nothing heavy (no torch, pandas or widgets): those come with the first profiled cell. Unloading leaves
the shell exactly as it was: magics, input transformers, AST transformers and events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalens.magics.profile import CudaprofileMagics
from cudalens.magics.syntax import CellSyntax

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["CellSyntax", "CudaprofileMagics", "load", "unload"]


def load(shell: InteractiveShell) -> None:
    """Add the magics to `shell`, silently; harmless when they are there already."""
    unload(shell)
    syntax = CellSyntax(shell)
    shell.register_magics(CudaprofileMagics(shell))
    shell.input_transformers_cleanup.append(syntax)
    shell.ast_transformers.append(syntax)


def unload(shell: InteractiveShell) -> None:
    """Take the magics out of `shell`; harmless when they are not there."""
    for transformers in (shell.input_transformers_cleanup, shell.ast_transformers):
        transformers[:] = [item for item in transformers if not isinstance(item, CellSyntax)]
    manager = shell.magics_manager
    manager.registry.pop(CudaprofileMagics.__name__, None)
    for functions in manager.magics.values():
        if isinstance(getattr(functions.get("cudaprofile"), "__self__", None), CudaprofileMagics):
            del functions["cudaprofile"]
