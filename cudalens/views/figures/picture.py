"""`Picture`: a plotly figure with a table for front ends that cannot draw it.

A notebook keeps a figure as data (``application/vnd.plotly.v1+json``), without a script. JupyterLab, Notebook and
VS Code draw these, with what plotly's own package installs and without a network. GitHub and nbconvert's pages do not;
they show the ``text/html`` beside it, a table. A terminal opens a browser, and without one prints the title and the
table.
"""

from __future__ import annotations

import re
import webbrowser
from html import unescape
from typing import Any, Final

import plotly.graph_objects as go
import plotly.io as pio

from cudalens.views.sections.model import Column, Row, Section, Table
from cudalens.views.sections.write_html import to_html
from cudalens.views.sections.write_text import to_text

PLOTLY: Final = "application/vnd.plotly.v1+json"
#: plotly's renderer for an unknown front end.
_RENDERER: Final = "plotly_mimetype"
_MAX_ROWS: Final = 20
#: Room above a figure without its title, for the legend, px.
_BARE_TOP: Final = 40
_MARKUP: Final = re.compile(r"<(br|/?b)>")


class Picture(go.Figure):  # type: ignore[misc]  # plotly has no types
    """A figure as any other of plotly's, with a table for front ends that cannot draw."""

    def _ipython_display_(self) -> None:
        if pio.renderers.default != _RENDERER:
            try:
                super()._ipython_display_()
            except webbrowser.Error:
                print(self._text())  # noqa: T201
            return
        from IPython.display import display

        for bundle in self.mimebundles():
            display(bundle, raw=True)  # type: ignore[no-untyped-call]  # as IPython has it

    def show(self, *args: Any, **kwargs: Any) -> None:
        """Show it as plotly does; in a terminal without a browser, print its title and its table."""
        try:
            super().show(*args, **kwargs)
        except webbrowser.Error:
            print(self._text())  # noqa: T201

    def mimebundles(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the title, in the colours of the page; then the figure without it, as data and as a table."""
        title = Section("figure", verdict=self._title())
        bare = go.Figure(self).update_layout(title_text=None, margin_t=_BARE_TOP)
        bare.update_layout(height=bare.layout.height and bare.layout.height - self.layout.margin.t + _BARE_TOP)
        drawn = pio.renderers[_RENDERER].to_mimebundle(bare.to_dict())
        table = Section("figure", blocks=self._section().blocks)
        return (
            {"text/html": to_html(title), "text/plain": self._title()},
            {**drawn, "text/html": to_html(table), "text/plain": ""},
        )

    def _title(self) -> str:
        """Return the title as plain text."""
        return unescape(_MARKUP.sub(lambda tag: " " if tag[1] == "br" else "", self.layout.title.text or ""))

    def _text(self) -> str:
        """Return the title, the values of its bars, and how to see the figure."""
        note = "No browser was found to draw it; figure.write_html('figure.html') writes a page."
        return f"{to_text(self._section())}\n{note}"

    def _section(self) -> Section:
        """Return the title, and the values of its bars; of other figures the title alone."""
        series = [trace for trace in self.data if trace.type == "bar"]
        return Section("figure", verdict=self._title(), blocks=(self._table(series),) if series else ())

    def _table(self, series: list[Any]) -> Table:
        names = [unescape(str(name)) for name in self.layout.yaxis.ticktext or ()][:_MAX_ROWS]
        values = [dict(zip(bar.y, bar.x, strict=True)) for bar in series]
        titles = (f"{bar.name or ''}, {self.layout.xaxis.title.text or ''}".strip(", ") for bar in series)
        columns = (Column(""), *(Column(title, align="right") for title in titles))
        rows = [Row((name, *(_number(value.get(k)) for value in values))) for k, name in enumerate(names)]
        return Table(columns, rows, max_text=_MAX_ROWS)


def _number(value: Any) -> str:
    return "" if value is None else f"{value:.4g}"
