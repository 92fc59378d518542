"""`Comparison`: two runs side by side, to print, to show in a notebook, to write as one offline page."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from cudalens.analysis.compare.runs import Change, Comparable, Differences, differences
from cudalens.views.compare import changes
from cudalens.views.compare import verdict as verdicts
from cudalens.views.compare.timeline import compare_timeline
from cudalens.views.sections.html_page import write_page
from cudalens.views.sections.model import Picture, Section
from cudalens.views.sections.shown import Shown


class Comparison(Shown):
    """What changed from one run to another; prints as text, shows as pictures and tables in a notebook.

    Frames are as `cudalens.analysis.differences` defines them.
    """

    def __init__(self, found: Differences) -> None:
        self._found = found

    @property
    def differences(self) -> Differences:
        """All that was found, both sides included."""
        return self._found

    @property
    def change(self) -> Change:
        """How long a step (or a run) took before and after, with its interval."""
        return self._found.whole

    @cached_property
    def verdict(self) -> str:
        """The answer in one line."""
        return verdicts.verdict(self._found)

    @property
    def ops(self) -> pd.DataFrame:
        """A row per operator and side (host, device)."""
        return self._found.ops.copy(deep=False)

    @property
    def kernels(self) -> pd.DataFrame:
        """A row per kernel, copy or set and the operator that launched it."""
        return self._found.kernels.copy(deep=False)

    @property
    def modules(self) -> pd.DataFrame:
        """A row per module and side; empty where modules were not recorded."""
        return self._found.modules.copy(deep=False)

    @property
    def memory(self) -> pd.DataFrame:
        """A row per device and kind of peak; empty where memory was not recorded."""
        return self._found.memory.copy(deep=False)

    def figure(self, by: str | None = None, mode: Literal["auto", "light", "dark"] = "auto") -> Any:
        """Return the largest changes as a plotly figure, of ``kernels``, ``ops``, ``modules`` or ``memory``."""
        from cudalens.views.figures.compare import draw

        return draw(self._found, by, mode)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write one offline page, light or dark as the reader's system is; returns its path.

        Raises:
            OutputError: The file cannot be written; an existing file is unchanged.
        """
        title = " against ".join(reversed(verdicts.names(self._found)))
        return write_page(path, title, self._repr_html_())

    @property
    def section(self) -> Section:
        """The verdict, both timelines on one axis, and what changed."""
        picture = compare_timeline(self._found)
        tables = (changes.section(self._found, key) for key in changes.SECTIONS)
        return Section(
            "compare",
            "cc",
            verdict=self.verdict,
            notes=tuple(verdicts.notes(self._found)),
            blocks=(*((Picture(picture),) if picture else ()), *(table for table in tables if table is not None)),
        )


def compare(a: Comparable, b: Comparable) -> Comparison:
    """Return what changed from `a` to `b`, as `cudalens.analysis.differences` finds it."""
    return Comparison(differences(a, b))
