"""The cell magics that leave the cell to IPython: what each puts around the user's statements."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from cudalens.magics import graph_cells, graph_options, memory_options, options, watch_options
from cudalens.magics.graph_cells import RUN_PREFIX

__all__ = ["CELL_MAGICS", "RUN_PREFIX", "CellMagic", "CellOptions"]


class CellOptions(Protocol):
    """What the syntax of a cell depends on."""

    @property
    def output(self) -> bool:
        """Whether the Trace becomes the value of the cell."""

    @property
    def is_looped(self) -> bool:
        """Whether the cell's statements run more than once, or as a step."""


@dataclass(frozen=True)
class CellMagic:
    """A cell magic.

    Attributes:
        parse: What stands behind its name becomes options, or a UsageError.
        room: Module with the function.
        function: Makes the context manager for one run, from the shell, the arguments, the cell's source, and the name
            of the variable under which the run stands in the user's namespace.
        rewrite: Makes of the user's statements those that run, from them, the name of that variable, the shell, and
            what the magic line asks for; None where they run as they are.
    """

    parse: Callable[[str], CellOptions]
    room: str
    function: str
    rewrite: Callable[[list[ast.stmt], str, Any, Any], list[ast.stmt]] | None = None


CELL_MAGICS: Final = {
    options.MAGIC: CellMagic(options.parse, "cudalens.magics.running", "profiled"),
    watch_options.MAGIC: CellMagic(watch_options.parse, "cudalens.magics.watching", "watched"),
    graph_options.MAGIC: CellMagic(
        graph_options.parse, "cudalens.magics.graph_running", "graphed", graph_cells.rewritten
    ),
    memory_options.MAGIC: CellMagic(memory_options.parse, "cudalens.magics.memory_running", "remembered"),
}
"""By the name that stands on the first line."""
