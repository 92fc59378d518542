"""`Picture`: a plotly figure with a table for front ends that cannot draw it.

A notebook keeps a figure as data (``application/vnd.plotly.v1+json``), without a script. JupyterLab, Notebook and
VS Code draw these, with what plotly's own package installs and without a network. GitHub and nbconvert's pages do not,
and would show nothing; they take the ``text/html`` beside it, a table. A terminal takes the title.
"""

from __future__ import annotations

import re
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
            super()._ipython_display_()
            return
        from IPython.display import display

        display(self.mimebundle(), raw=True)  # type: ignore[no-untyped-call]  # as IPython has it

    def mimebundle(self) -> dict[str, Any]:
        """The figure as data, as a table, and as its title alone."""
        drawn = pio.renderers[_RENDERER].to_mimebundle(self.to_dict())
        return {**drawn, "text/html": self._fallback().html(), "text/plain": self._title()}

    def _title(self) -> str:
        """The title as plain text."""
        return unescape(_MARKUP.sub(lambda tag: " " if tag[1] == "br" else "", self.layout.title.text or ""))

    def _fallback(self) -> Node:
        """The title, and the values of its bars; of other figures the title alone."""
        series = [trace for trace in self.data if trace.type == "bar"]
        return element("div", element("p", element("strong", self._title())), self._table(series) if series else None)

    def _table(self, series: list[Any]) -> Node:
        names = [unescape(str(name)) for name in self.layout.yaxis.ticktext or ()][:_MAX_ROWS]
        columns = [dict(zip(bar.y, bar.x, strict=True)) for bar in series]
        titles = [f"{bar.name or ''}, {self.layout.xaxis.title.text or ''}".strip(", ") for bar in series]
        head = element("tr", element("th"), *(element("th", title) for title in titles))
        body = [
            element("tr", element("th", name), *(element("td", _number(column.get(at))) for column in columns))
            for at, name in enumerate(names)
        ]
        return element("table", element("thead", head), element("tbody", *body))


def _number(value: Any) -> str:
    return "" if value is None else f"{value:.4g}"
