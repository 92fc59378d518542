"""`Comparison`: two runs side by side, to print, to show in a notebook, to write as one offline page."""

from __future__ import annotations

import os
from functools import cached_property
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal

import pandas as pd

from cudalens.analysis import units
from cudalens.analysis.compare.runs import Change, Comparable, Differences, differences
from cudalens.frames import atomic_write
from cudalens.views.compare import text as compare_text
from cudalens.views.compare.timeline import compare_timeline
from cudalens.views.sections.markup import Node, element, for_notebooks, svg

BETTER, WORSE, UNSURE = "#1a8f5c", "#d1443a", "#7d8790"
_MAX_ROWS: Final = 25
_BAR: Final = 120
_NAME_WIDTH: Final = 96
_PAGE: Final = (
    "<!doctype html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport content='width=device-width'>"
    "<title>{title}</title><style>:root {{ color-scheme: light dark }} body {{ margin: 24px auto; padding: 0 16px; "
    "max-width: 1100px; color: #1b1f24; background: #fff }} @media (prefers-color-scheme: dark) {{ body {{ color: "
    "#e6e9ed; background: #111418 }} }}</style></head><body>{body}</body></html>\n"
)


class Comparison:
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
        return compare_text.verdict(self._found)

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
        """The largest changes as a plotly figure, of ``kernels``, ``ops``, ``modules`` or ``memory``."""
        from cudalens.views.figures.compare import draw

        return draw(self._found, by, mode)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write one offline page, light or dark as the reader's system is; returns its path.

        Raises:
            OutputError: The file cannot be written; what stood there is untouched.
        """
        title = escape(" against ".join(reversed(compare_text.names(self._found))))
        with atomic_write(path) as file:
            file.write(_PAGE.format(title=title, body=self._repr_html_()).encode("utf-8", "replace"))
        return Path(path)

    def __str__(self) -> str:
        """The verdict, and what changed."""
        return compare_text.to_text(self._found)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        answer, _, support = self.verdict.partition("; ")
        verdict = element("p", element("strong", answer), f"; {support}" if support else "", class_="cc-verdict")
        notes = element("ul", *(element("li", note) for note in compare_text.notes(self._found)), class_="cc-notes")
        parts = [verdict, notes, compare_timeline(self._found)]
        parts += [self._section(key, title) for key, title in compare_text.SECTIONS.items()]
        inner = "".join(part.html() for part in parts if part is not None)
        return f'<div class="cudalens-compare"><style>{style_text()}</style>{for_notebooks(inner)}</div>'

    def _section(self, key: str, title: str) -> Node | None:
        rows = compare_text.rows_of(self._found, key)
        if not rows:
            return None
        table = compare_text.changed(getattr(self._found, key))
        unit = "bytes" if key == "memory" else "ns"
        delta = table[f"delta_{unit}"].tolist()
        most = max(map(abs, delta)) or 1.0
        known = zip(rows[:_MAX_ROWS], delta, table["status"], strict=False)
        body = [_row(texts, value, status, most) for texts, value, status in known]
        titles = [*compare_text.TITLES[:2], "", *compare_text.TITLES[2:]]
        titles[1] = compare_text.where_title(key)
        head = element("thead", element("tr", *(element("th", text, scope="col") for text in titles)))
        left = len(rows) - len(body)
        more = element("p", f"and {units.count(left)} more", class_="cc-more") if left else None
        scroll = element("div", element("table", head, element("tbody", *body)), class_="cc-scroll")
        return element("section", element("h3", title.capitalize()), scroll, more)


def compare(a: Comparable, b: Comparable) -> Comparison:
    """What changed from `a` to `b`, as `cudalens.analysis.differences` finds it."""
    return Comparison(differences(a, b))


def style_text() -> str:
    """The style sheet of a comparison."""
    return files("cudalens.views").joinpath("css", "compare.css").read_text(encoding="utf-8")


def _row(texts: tuple[str, ...], delta: float, status: str, most: float) -> Node:
    name, where, *numbers = texts
    return element(
        "tr",
        element("td", units.shorten(name, _NAME_WIDTH), title=units.shorten(name, 1000)),
        element("td", units.shorten(where, 32), title=units.shorten(where, 1000)),
        element("td", _bar(delta, status, most, numbers[2])),
        *(element("td", text) for text in numbers),
    )


def _bar(delta: float, status: str, most: float, label: str) -> Node:
    """A bar to the right of the middle where it grew, to the left where it shrank."""
    middle = _BAR / 2
    width = max(middle * abs(delta) / most, 1.0) if delta else 0.0
    x = middle if delta > 0 else middle - width
    box = element("rect", x=f"{x:.1f}", y=1, width=f"{width:.1f}", height=10, fill=color_of(delta, status))
    axis = element("path", d=f"M{middle:g} 0V12", stroke="currentColor", stroke_opacity=".4")
    return svg(_BAR, 12, label, box, axis, class_="cc-bar")


def color_of(delta: float, status: str) -> str:
    """Green for less, red for more, grey for what may be noise."""
    return UNSURE if status == "unknown" else BETTER if delta < 0 else WORSE
