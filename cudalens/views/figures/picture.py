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

from cudalens.views.sections.markup import Node, element

PLOTLY: Final = "application/vnd.plotly.v1+json"
#: plotly's renderer in a kernel whose front end it does not know.
_RENDERER: Final = "plotly_mimetype"
_MAX_ROWS: Final = 20
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

        display(self.mimebundle(), raw=True)  # type: ignore[no-untyped-call]  # as IPython has it

    def show(self, *args: Any, **kwargs: Any) -> None:
        """Show it as plotly does; in a terminal without a browser, print its title and its table."""
        try:
            super().show(*args, **kwargs)
        except webbrowser.Error:
            print(self._text())  # noqa: T201

    def mimebundle(self) -> dict[str, Any]:
        """The figure as data, as a table, and as its title alone."""
        drawn = pio.renderers[_RENDERER].to_mimebundle(self.to_dict())
        return {**drawn, "text/html": self._fallback().html(), "text/plain": self._title()}

    def _title(self) -> str:
        """The title as plain text."""
        return unescape(_MARKUP.sub(lambda tag: " " if tag[1] == "br" else "", self.layout.title.text or ""))

    def _text(self) -> str:
        """The title, the values of its bars, and how to see the figure."""
        lines = [self._title()]
        series = [trace for trace in self.data if trace.type == "bar"]
        if series:
            titles, rows = self._values(series)
            width = max((len(name) for name, _ in rows), default=0)
            lines.append(f"  {'':<{width}}  {'  '.join(titles)}")
            for name, texts in rows:
                cells = (f"{text:>{len(title)}}" for title, text in zip(titles, texts, strict=True))
                lines.append(f"  {name:<{width}}  {'  '.join(cells)}".rstrip())
        return "\n".join([*lines, "No browser was found to draw it; figure.write_html('figure.html') writes a page."])

    def _fallback(self) -> Node:
        """The title, and the values of its bars; of other figures the title alone."""
        series = [trace for trace in self.data if trace.type == "bar"]
        return element("div", element("p", element("strong", self._title())), self._table(series) if series else None)

    def _table(self, series: list[Any]) -> Node:
        titles, rows = self._values(series)
        head = element("tr", element("th"), *(element("th", title) for title in titles))
        body = [element("tr", element("th", name), *(element("td", text) for text in texts)) for name, texts in rows]
        return element("table", element("thead", head), element("tbody", *body))

    def _values(self, series: list[Any]) -> tuple[list[str], list[tuple[str, list[str]]]]:
        """The titles of the bars' columns, and the name of each row with its values."""
        names = [unescape(str(name)) for name in self.layout.yaxis.ticktext or ()][:_MAX_ROWS]
        columns = [dict(zip(bar.y, bar.x, strict=True)) for bar in series]
        titles = [f"{bar.name or ''}, {self.layout.xaxis.title.text or ''}".strip(", ") for bar in series]
        return titles, [(name, [_number(column.get(at)) for column in columns]) for at, name in enumerate(names)]


def _number(value: Any) -> str:
    return "" if value is None else f"{value:.4g}"
