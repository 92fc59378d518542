"""Name the files of notebook cells as ``In[7]`` in the frames of a run."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from cudalens.frames import categorical

if TYPE_CHECKING:
    from collections.abc import Callable

#: Files of cells as Python names them, and as torch shortens them by the entries of ``sys.path``.
_CELL: Final = re.compile(r"(?:[^\n(]*[/\\])?(?P<file>ipykernel_\d+[/\\]\d+\.py|<ipython-input-\d+-[^>\n]*>)")


def with_cell_names(frames: dict[str, pd.DataFrame], shell: Any = None) -> dict[str, pd.DataFrame]:
    """The events and stacks of `frames`, with the names of cells instead of those of their files.

    Args:
        frames: Frames of a run; others than these two stay.
        shell: IPython's shell, if it is not the one of this process.

    Returns:
        The changed frames; empty outside of notebooks.
    """
    numbers = _cell_numbers(shell)
    if not numbers:
        return {}

    def rename(text: str) -> str:
        match = _CELL.match(text)
        number = None if match is None else numbers.get(match["file"])
        return text if match is None or number is None else f"In[{number}]{text[match.end() :]}"

    columns = {"events": "name", "stacks": "file"}
    return {
        name: frames[name].assign(**{column: _renamed(frames[name][column].array, rename)})
        for name, column in columns.items()
        if name in frames
    }


def _cell_numbers(shell: Any) -> dict[str, int]:
    """The number of each cell by the last parts of its file's name."""
    ipython = sys.modules.get("IPython")
    if shell is None and ipython is not None and hasattr(ipython, "get_ipython"):
        shell = ipython.get_ipython()
    known = getattr(getattr(shell, "compile", None), "_filename_map", None)
    pairs = known.items() if isinstance(known, dict) else ()
    return {match["file"]: number for name, number in pairs if (match := _CELL.match(str(name)))}


def _renamed(values: pd.Categorical, rename: Callable[[str], str]) -> pd.Categorical:
    """`values` with other texts; equal ones become one category."""
    codes, texts = pd.factorize(np.array([rename(str(text)) for text in values.categories.tolist()], object))
    return categorical(np.append(codes, -1)[values.codes], [str(text) for text in texts])
