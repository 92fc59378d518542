"""A Trace in every front end: plain text, a page that stands alone, and the live widget where a kernel runs.

JupyterLab shows a widget view and nothing else of a bundle that holds one; reopened without its kernel, such an output
reads "Error displaying widget: model not found", and the text/html beside it is never looked at (as of
jupyterlab-manager 5.0.16). So a live display is two bundles, one after the other: the picture, which the notebook
keeps, and the widget, which hides the picture while it shows (``widget.js``) and gives it back when it goes. The
picture's style hides the error of a widget that is gone. Front ends without widgets see the picture alone.
"""

from __future__ import annotations

import sys
from html import escape
from typing import Any, Final

from cudalens.frames import Trace
from cudalens.views import assets
from cudalens.views.graphs import text as graphs_text
from cudalens.views.graphs import tree as graphs
from cudalens.views.memory import map as memory_map
from cudalens.views.races import cards as races
from cudalens.views.sections import findings, waits
from cudalens.views.sections import summary as text
from cudalens.views.sections.markup import for_notebooks
from cudalens.views.sections.write_html import to_html
from cudalens.views.timeline.metrics import metrics_svg
from cudalens.views.timeline.svg import timeline_svg

WIDGET_VIEW: Final = "application/vnd.jupyter.widget-view+json"
MAX_HTML_BYTES: Final = 200_000
_SPARE: Final = 8_000
"""Bytes that estimates may be off."""

# A widget's error is an output with text and no element in it. JupyterLab keeps style sheets of trusted notebooks only;
# in others it shows no widget view, so no error.
_STYLE: Final = (
    "<style>.jp-OutputArea-child:has([data-cudalens-static]) + .jp-OutputArea-child"
    " > .jp-OutputArea-output.jupyter-widgets:not(:has(*)) { display: none }"
    ".cudalens-static td:first-child { font-family: monospace }</style>"
)


def mimebundle(trace: Trace, **kwargs: Any) -> dict[str, Any]:
    """`trace` as one bundle: ``text/plain``, ``text/html``, and a widget view when a kernel is live.

    Args:
        trace: What to show.
        **kwargs: What IPython passes (include, exclude); it filters the bundle itself.
    """
    bundle: dict[str, Any] = static_bundle(trace)
    if is_live():
        from cudalens.views.widget import timeline

        bundle[WIDGET_VIEW] = timeline(trace).view_json()
    return bundle


def static_bundle(trace: Trace, widget_id: str | None = None) -> dict[str, Any]:
    """The part that outlives the kernel. `widget_id`: the live widget that hides it while it shows."""
    return {"text/plain": str(text.summary(trace)), "text/html": static_html(trace, widget_id)}


def static_html(trace: Trace, widget_id: str | None = None) -> str:
    """Verdict, races, graphs, picture, largest costs as HTML that stands alone: no script, nothing external.

    It stays within `MAX_HTML_BYTES`; what does not fit is counted.
    """
    mark = "" if widget_id is None else f' data-cudalens-static="{escape(widget_id, quote=True)}"'
    style = "" if widget_id is None else _STYLE
    head = f'<div class="cudalens-static"{mark}>{style}'
    verdict, table = text.summary(trace).html_parts()
    found = races.static_html(trace)
    if found:
        found = f"<style>{assets.style('races')}</style>{found}"
    memory = memory_map.static_html(trace)
    if memory:
        memory = f"<style>{assets.style('memory')}</style>{memory}"
    costs = to_html(findings.section(trace), has_style=True)
    host = to_html(waits.section(trace), has_style=True)
    pictures = f"{costs}{memory}{timeline_svg(trace)}{metrics_svg(trace)}{host}"
    tree = _graphs(trace, sum(len(part.encode()) for part in (head, verdict, found, pictures, table)))
    found = f"{tree}{found}" if graphs_text.has_failed(trace) else f"{found}{tree}"
    return f"{head}{for_notebooks(f'{verdict}{found}{pictures}{table}')}</div>"


def _graphs(trace: Trace, num_used: int) -> str:
    """The graphs with their style, in the room that is left; at least the little that the answer needs."""
    if not graphs.has_graphs(trace):
        return ""
    style = f"<style>{assets.style('graphs')}</style>"
    room = MAX_HTML_BYTES - num_used - len(style) - _SPARE
    return f"{style}{graphs.static_html(trace, max(room, 0))}"


def show(trace: Trace) -> None:
    """Display `trace` in a live kernel: the picture, and the widget that stands in front of it.

    Raises:
        NotImplementedError: No kernel is live; IPython then asks for the mimebundle instead.
    """
    if not is_live():
        raise NotImplementedError
    from cudalens.views.widget import timeline

    timeline(trace)._ipython_display_()


def is_live() -> bool:
    """Whether this process is a Jupyter kernel, whose front end can open a comm."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module else None
    return getattr(shell, "kernel", None) is not None
