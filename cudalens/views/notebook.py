"""The static output of a Trace for notebooks: plain text, and HTML that needs no script and no kernel.

JupyterLab shows a widget view and nothing else of a bundle that holds one; reopened without its kernel, such an output
reads "Error displaying widget: model not found", and the text/html beside it is never looked at (as of
jupyterlab-manager 5.0.16). So a live display is two bundles, one after the other: the picture, which the notebook
keeps, and the widget, which hides the picture while it shows (``widget.js``). The picture shows again when the widget
is removed, and its style hides the error of a widget that is gone. Front ends without widgets show the picture alone.
"""

from __future__ import annotations

import sys
from html import escape
from typing import Any, Final

from cudalens.frames import Trace
from cudalens.views.sections import page
from cudalens.views.sections.markup import for_notebooks
from cudalens.views.sections.summary import summary

WIDGET_VIEW: Final = "application/vnd.jupyter.widget-view+json"
MAX_HTML_BYTES: Final = 200_000

# A widget's error is an output with text and no element in it. JupyterLab keeps style sheets of trusted notebooks only;
# in others it shows no widget view, so no error.
_STYLE: Final = (
    "<style>.jp-OutputArea-child:has([data-cudalens-static]) + .jp-OutputArea-child"
    " > .jp-OutputArea-output.jupyter-widgets:not(:has(*)) { display: none }"
    ".cudalens-static td:first-child { font-family: monospace }</style>"
)


def static_bundle(trace: Trace, widget_id: str | None = None) -> dict[str, Any]:
    """The output that a saved notebook contains. `widget_id`: the live widget that hides it while it shows."""
    return {"text/plain": str(summary(trace)), "text/html": static_html(trace, widget_id)}


def static_html(trace: Trace, widget_id: str | None = None) -> str:
    """Verdict, races, graphs, pictures and largest costs as HTML: no script, nothing external.

    It stays within `MAX_HTML_BYTES`; what does not fit is counted.
    """
    mark = "" if widget_id is None else f' data-cudalens-static="{escape(widget_id, quote=True)}"'
    head = f'<div class="cudalens-static"{mark}>{"" if widget_id is None else _STYLE}'
    parts = page.static_parts(trace, has_style=True, max_bytes=MAX_HTML_BYTES - len(head.encode()))
    return f"{head}{for_notebooks(parts)}</div>"


def is_live() -> bool:
    """Whether this process is a Jupyter kernel, whose front end can open a comm."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module else None
    return getattr(shell, "kernel", None) is not None
