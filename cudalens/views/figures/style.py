"""What all figures share: `Picture`, colours, fonts and labels, in light and dark.

A notebook keeps a figure as data (``application/vnd.plotly.v1+json``), without a script. JupyterLab, Notebook and
VS Code draw these, with what plotly's own package installs and without a network. GitHub and nbconvert's pages do not;
they show the ``text/html`` beside it, a table. A terminal opens a browser, and without one prints the title and the
table.
"""

from __future__ import annotations

import re
import webbrowser
from collections.abc import Iterable, Sequence
from html import escape, unescape
from textwrap import wrap
from typing import Any, Final, Literal

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import plotly.io as pio

from cudalens.analysis import units
from cudalens.analysis.short_names import short_names
from cudalens.frames import Ranks, Trace
from cudalens.views.assets import theme
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
        rows = [Row((name, *(_number_text(value.get(k)) for value in values))) for k, name in enumerate(names)]
        return Table(columns, rows, max_text=_MAX_ROWS)


def _number_text(value: Any) -> str:
    return "" if value is None else f"{value:.4g}"


#: ``auto`` suits light and dark pages: no background, and greys with enough contrast on both.
Mode = Literal["auto", "light", "dark"]

#: The grey's contrast with the theme's backgrounds is 4.2 (light) and 4.4 (dark).
_AUTO: Final[dict[str, Any]] = {
    "bg": "rgba(0,0,0,0)", "text": "#767d86", "muted": "#767d86", "line": "rgba(128,136,146,0.5)",
    "lineSoft": "rgba(128,136,146,0.22)", "tip": "#1b1f24", "tipText": "#ffffff",
}  # fmt: skip

MAX_BARS: Final = 20
#: How many points a scatter holds at most: the largest ones are kept.
MAX_POINTS: Final = 3_000

_ROW_PX: Final = 26
_LINE_PX: Final = 18
#: Ratio of the largest to the smallest value up to which powers of ten are too few ticks.
_FEW_DECADES: Final = 300
_TITLE_CHARS: Final = 62


def group_color(key: str) -> str:
    """Return the hue of a group of events in the timeline, for example ``kernel`` or ``comm``."""
    return next(str(group["color"]) for group in theme()["groups"] if group["key"] == key)


def series_color(number: int) -> str:
    """Return the colour of the series `number`, where series have no group."""
    groups = ("kernel", "comm", "op", "range", "runtime", "sync")
    return group_color(groups[number % len(groups)])


def idle_color(mode: Mode) -> str:
    """Return the colour of idle time."""
    return str(colors_of(mode)["line"])


def colors_of(mode: Mode) -> dict[str, Any]:
    """Return the colours of a mode by their name in the theme.

    Raises:
        ValueError: There is no such mode.
    """
    if mode == "auto":
        return _AUTO
    if mode not in ("light", "dark"):
        raise ValueError(f"mode={mode!r} is unknown; there are 'auto', 'light' and 'dark'")
    return theme()[mode]


def label(text: Any, width: int = 46) -> str:
    """Foreign text on one line, escaped, since plotly reads markup in labels."""
    return escape(units.shorten(str(text), width))


def in_short(names: Sequence[Any], is_kernel: Iterable[bool]) -> list[str]:
    """`names` as plain text: kernels and Python functions by what differs between them, others as they are."""
    texts = [str(name) for name in names]
    chosen = [name for name, flag in zip(texts, is_kernel, strict=True) if flag or ".py(" in name]
    brief = short_names(chosen)
    return [brief.get(name, name) for name in texts]


def lanes(frame: pd.DataFrame, keys: Iterable[str] = ("rank", "device", "stream", "step")) -> list[str]:
    """Return what each row of an analysis is about: ``GPU 0 · stream 7``; only columns with values."""
    words = {"rank": "rank", "device": "GPU", "stream": "stream", "step": "step"}
    known = [key for key in keys if key in frame and frame[key].notna().any()]
    rows = zip(*(frame[key].tolist() for key in known), strict=True) if known else iter([()] * len(frame))
    return [
        " · ".join(f"{words[k]} {'?' if v is pd.NA else v}" for k, v in zip(known, row, strict=True)) for row in rows
    ]


def bars(
    figure: go.Figure, names: Sequence[str], values: Any, name: str, color: str, hover: Sequence[str], unit: str
) -> None:
    """Add a series of horizontal bars, the first on top; `hover` is not escaped here."""
    figure.add_bar(
        x=list(values),
        y=list(range(len(names))),
        orientation="h",
        name=name,
        marker={"color": color, "line": {"width": 0}},
        customdata=list(hover),
        hovertemplate="%{customdata}<extra></extra>",
    )
    figure.update_yaxes(
        tickmode="array", tickvals=list(range(len(names))), ticktext=list(names), autorange="reversed", automargin=True
    )
    figure.update_xaxes(title_text=unit)


def add_points(
    figure: go.Figure, x: Any, y: Any, name: str, hover: Sequence[str], *, color: str, size: Any, opacity: float
) -> None:
    """Add a series of points; `hover` is not escaped here. `size` is one number, or one for each point."""
    marker = {"color": color, "size": size, "opacity": opacity}
    text = {"customdata": list(hover), "hovertemplate": "%{customdata}<extra></extra>"}
    figure.add_scatter(x=x, y=y, mode="markers", name=name, marker=marker, **text)


def finished(figure: go.Figure, title: str, trace: Trace | Ranks, mode: Mode, *, rows: int | None = None) -> go.Figure:
    """`figure` with its title (plain text), colours and size; `rows` is its number of horizontal bars."""
    figure = Picture(figure)
    colors = colors_of(mode)
    text = _wrapped(units.shorten(title, 130) + (" (simulated\u00a0time)" if is_simulated(trace) else ""))
    extra = max(text.count("<br>") - 1, 0)
    height = (400 if rows is None else 162 + _ROW_PX * max(rows, 2)) + _LINE_PX * extra
    figure.update_layout(
        template="none",
        barmode="stack",
        bargap=0.25,
        title={"text": f"<b>{text}</b>", "x": 0, "y": 1, "yanchor": "top", "pad": {"l": 16, "t": 14}},
        title_font_size=14,
        font={"family": "system-ui, sans-serif", "size": 12, "color": colors["text"]},
        paper_bgcolor=colors["bg"],
        plot_bgcolor=colors["bg"],
        legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "traceorder": "normal"},
        hoverlabel={"bgcolor": colors["tip"], "font": {"color": colors["tipText"]}, "align": "left"},
        margin={"l": 70, "r": 24, "t": 100 + _LINE_PX * extra, "b": 56},
        height=height,
        showlegend=len(figure.data) > 1,
    )
    line = {"gridcolor": colors["lineSoft"], "linecolor": colors["line"], "zerolinecolor": colors["line"]}
    figure.update_xaxes(**line)
    figure.update_yaxes(**line, automargin=True, showgrid=rows is None, zeroline=rows is None)
    figure.update_xaxes(selector={"type": "log"}, dtick=_log_ticks(figure, "x"))
    figure.update_yaxes(selector={"type": "log"}, dtick=_log_ticks(figure, "y"))
    return figure


def _log_ticks(figure: go.Figure, axis: str) -> float | str:
    """Ticks of a logarithmic axis: each power of ten, or 1, 2 and 5 times these where there are few."""
    if figure.layout[f"{axis}axis"].type != "log":
        return 1
    values = np.concatenate([np.asarray(one[axis], float) for one in figure.data])
    values = values[values > 0]
    return "D2" if len(values) and values.max() < _FEW_DECADES * values.min() else 1


def _wrapped(title: str) -> str:
    """At most three lines that fit into a page of 600 px."""
    text = title.replace(" %", "\u00a0%")
    lines = wrap(text, _TITLE_CHARS)
    return "<br>".join(map(escape, lines))


def is_simulated(trace: Trace | Ranks) -> bool:
    """Return whether the times are modelled."""
    traces = [trace] if isinstance(trace, Trace) else list(trace.values())
    return any(one.info.is_simulated for one in traces)


def nothing(title: str, trace: Trace | Ranks, mode: Mode) -> go.Figure:
    """Return a figure with a title alone, where there is nothing to show."""
    figure = go.Figure()
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    return finished(figure, title, trace, mode, rows=1)
