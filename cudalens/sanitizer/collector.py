"""Collect the races that running sanitizers find during another run, such as a profile."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from cudalens.frames.info import Judged

if TYPE_CHECKING:
    import pandas as pd

    from cudalens.sanitizer.live.sanitize import Sanitizer
    from cudalens.sanitizer.races_frame import Finding


class RaceCollector:
    """Collects the races that running sanitizers find between `start` and `stop`; it starts and stops none of them.

    Attributes:
        judged: The operations that the outermost of them checked; None if none was on.
    """

    name = "sanitizer"

    def __init__(self) -> None:
        self._seen: list[tuple[Sanitizer, int, int, Callable[[], int]]] = []
        self._findings: list[Finding] = []
        self.judged: Judged | None = None

    def start(self) -> None:
        """Record how many races there are already."""
        live = sys.modules.get("cudalens.sanitizer.live.sanitize")
        running = live.running() if live is not None else []
        self._seen = [(each, len(each.races), each.status().num_launches, each.count_streams()) for each in running]

    def stop(self) -> None:
        """Take the races found since."""
        for sanitizer, num_races, num_launches, num_streams in self._seen[:1]:
            state = sanitizer.status()
            self._findings = sanitizer.findings(num_races)
            num_judged = max(state.num_launches - num_launches, 0)
            self.judged = Judged(num_judged, num_streams(), state.num_hidden, state.error)

    def frames(self) -> dict[str, pd.DataFrame]:
        """Return the frames ``races`` and ``stacks``; empty if no sanitizer was on."""
        return self._seen[0][0].frames_of(self._findings) if self._findings else {}
