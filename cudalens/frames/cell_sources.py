"""The text of the notebook cells that a run's stacks name, as the run info has it."""

from __future__ import annotations

from typing import Final

import msgspec

from cudalens.frames.info import RunInfo

#: Key of `RunInfo.extra` that holds the texts, as JSON: the text of each cell by ``In[7]``.
CELL_SOURCES_KEY: Final = "cell_sources"
#: Largest number of characters of one cell with its name, and of all cells of a run.
MAX_CELL: Final = 10_000
MAX_CELLS: Final = 40_000


def to_extra(sources: dict[str, str]) -> dict[str, str]:
    """`sources` as an entry of `RunInfo.extra`, without the cells that are too many or too long."""
    kept = _within_limits({cell: text.encode("utf-8", "replace").decode() for cell, text in sources.items()})
    return {CELL_SOURCES_KEY: msgspec.json.encode(kept).decode()} if kept else {}


def cell_sources(info: RunInfo) -> dict[str, str]:
    """Return the text of each cell by ``In[7]``; empty if the run info has none, or if they are not valid."""
    try:
        return _within_limits(msgspec.json.decode(info.extra.get(CELL_SOURCES_KEY, "{}"), type=dict[str, str]))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):  # a file may hold any text
        return {}


def _within_limits(sources: dict[str, str]) -> dict[str, str]:
    """Return the first cells whose texts fit; a text without its end would show functions cut."""
    kept: dict[str, str] = {}
    room = MAX_CELLS
    for name, text in sources.items():
        if (size := len(name) + len(text)) <= min(room, MAX_CELL):
            kept[name] = text
            room -= size
    return kept
