"""The magics that ``%load_ext cudalens`` loads: profile, sanitizer, graphs, memory and devices.

Loading imports nothing heavy (no torch, pandas or widgets): those come with the first profiled cell. Unloading leaves
the shell exactly as it was: magics, input transformers, AST transformers and events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudalens.magics.device import CudadeviceMagics, end_device
from cudalens.magics.graph import CudagraphMagics
from cudalens.magics.memory import CudamemMagics
from cudalens.magics.profile import CudaprofileMagics
from cudalens.magics.sanitize import CudasanMagics
from cudalens.magics.syntax import CellSyntax

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = [
    "CellSyntax",
    "CudadeviceMagics",
    "CudagraphMagics",
    "CudamemMagics",
    "CudaprofileMagics",
    "CudasanMagics",
    "load",
    "unload",
]

_KINDS = (CudaprofileMagics, CudadeviceMagics, CudasanMagics, CudagraphMagics, CudamemMagics)


def load(shell: InteractiveShell) -> None:
    """Add the magics to `shell`, silently; harmless when they are there already."""
    unload(shell)
    syntax = CellSyntax(shell)
    for kind in _KINDS:
        shell.register_magics(kind(shell))
    shell.input_transformers_cleanup.append(syntax)
    shell.ast_transformers.append(syntax)


def unload(shell: InteractiveShell) -> None:
    """Take the magics out of `shell`, and with them a virtual device that a cell put in place; harmless without."""
    for kind in _KINDS:
        end = getattr(shell.magics_manager.registry.get(kind.__name__), "end", None)
        if end is not None:
            end()
    end_device()  # last: what ends may have something to give back to the device
    for transformers in (shell.input_transformers_cleanup, shell.ast_transformers):
        transformers[:] = [item for item in transformers if not isinstance(item, CellSyntax)]
    manager = shell.magics_manager
    for kind in _KINDS:
        manager.registry.pop(kind.__name__, None)
    for functions in manager.magics.values():
        ours = [name for name, function in functions.items() if isinstance(getattr(function, "__self__", None), _KINDS)]
        for name in ours:
            del functions[name]
