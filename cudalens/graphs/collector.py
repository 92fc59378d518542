"""Collect the log of a thread's graph managers during a run, as part of its Trace."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from cudalens.graphs.manager import GraphManager


class GraphCollector:
    """Hands over what the calling thread's managers do between `start` and `stop`; it makes none."""

    name = "graph manager"

    def __init__(self) -> None:
        self._marks: dict[int, int] = {}
        self._frames: list[pd.DataFrame] = []

    def start(self) -> None:
        """Mark the present state of the managers."""
        self._marks = {id(manager): manager.mark() for manager in _managers()}

    def stop(self) -> None:
        """Take what they did since; a manager that is new did everything since."""
        self._frames = [manager.frame(self._marks.get(id(manager))) for manager in _managers()]

    def frames(self) -> dict[str, pd.DataFrame]:
        """The frame ``graphs``; nothing where no function of a manager was called."""
        if not any(len(frame) for frame in self._frames):
            return {}
        from cudalens.graphs.frames import joined

        return {"graphs": joined(self._frames)}


def _managers() -> list[GraphManager]:
    managers = sys.modules.get("cudalens.graphs.managers")
    return list(managers.managers()) if managers is not None else []
