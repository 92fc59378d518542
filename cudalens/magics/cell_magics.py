"""The cell magics that leave the cell to IPython: what each puts around the user's statements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from cudalens.magics import options, watch_options

RUN_PREFIX: Final = "__cudalens_run_"
"""How the names begin under which runs stand in the user's namespace."""


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
    """

    parse: Callable[[str], CellOptions]
    room: str
    function: str


CELL_MAGICS: Final = {
    options.MAGIC: CellMagic(options.parse, "cudalens.magics.running", "profiled"),
    watch_options.MAGIC: CellMagic(watch_options.parse, "cudalens.magics.watching", "watched"),
}
"""By the name that stands on the first line."""
