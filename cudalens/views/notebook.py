"""The static output of a Trace for notebooks: plain text, and HTML that needs no script and no kernel.

JupyterLab shows a widget view and nothing else of a bundle that holds one; reopened without its kernel, such an output
reads "Error displaying widget: model not found", and the text/html beside it is never looked at (as of
jupyterlab-manager 5.0.16). So a live display is several bundles, one after the other: the static ones, which the
notebook keeps, and the widget, which hides them while it shows (``widget.js``). They show again when the widget is
removed, and their style hides the error of a widget that is gone. Front ends without widgets show the static ones.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from html import escape
from typing import Any, Final, Protocol

from cudalens.frames import Trace
from cudalens.views.sections import page
from cudalens.views.sections.clean_text import clean
from cudalens.views.sections.markup import Node, for_notebooks
from cudalens.views.sections.page import summary
from cudalens.views.timeline.svg import timeline_svg

WIDGET_VIEW: Final = "application/vnd.jupyter.widget-view+json"
SVG_IMAGE: Final = "image/svg+xml"
MAX_HTML_BYTES: Final = 200_000
MAX_IMAGE_BYTES: Final = 60_000
#: Below the smallest output limit that Databricks (10 MB) and Colab (10 MB) document, with room for base64.
HOSTED_BYTES: Final = 7_000_000
#: Numbers of boxes to try for the image, until it is small enough.
_NUM_RUNS: Final = (3000, 1500, 700, 300)
#: Its contrast with the backgrounds of light and dark pages is 4.2 and 4.4.
_GREY: Final = "#767d86"

# A widget's error is an output with text and no element in it. JupyterLab keeps style sheets of trusted notebooks only;
# in others it shows no widget view, so no error. Pages of nbconvert do not fit images, and "basic" no tables.
_STYLE: Final = (
    "<style>.jp-OutputArea-child:has([data-cudalens-static]) + .jp-OutputArea-child"
    " > .jp-OutputArea-output.jupyter-widgets:not(:has(*)) { display: none }"
    ":is(.output_area, .jp-OutputArea-child):has([data-cudalens-static]) + :is(.output_area, .jp-OutputArea-child) img"
    " { max-width: 100% }"
    ".cudalens-static { overflow-x: auto }</style>"
)


class Tries(Protocol):
    """Runs a profiled cell again with the fix of a finding, for the button of the widget."""

    def can_try(self, trace: Trace) -> bool:
        """Return whether the cell of a Trace can run again."""
        ...

    def try_findings(
        self, trace: Trace, number: int | None, consent: bool, progress: Callable[[str], object]
    ) -> dict[str, Any]:
        """Try one finding, or all findings.

        Args:
            trace: The Trace.
            number: Number of the finding, from 1; None for all.
            consent: Run the cell although it has effects outside of its objects.
            progress: Called with a text before each run.

        Returns:
            ``headline``, ``notes``, ``diff``, ``code``, and ``title`` of one finding or ``rows`` of all. Only
            ``effects`` where the cell did not run because consent is missing.

        Raises:
            FixError: They cannot be tried.
        """
        ...


_tries: Tries | None = None


def offer_tries(tries: Tries | None) -> None:
    """Have widgets offer to try fixes; with None, they do not any more."""
    global _tries
    _tries = tries


def tries_of(trace: Trace) -> Tries | None:
    """Return what can try the findings of a Trace; None where its cell cannot run again."""
    return _tries if _tries is not None and _tries.can_try(trace) else None


def widget_bundle(model_id: str) -> dict[str, Any]:
    """Return a mimebundle that shows the widget of a model."""
    view = {"version_major": 2, "version_minor": 0, "model_id": model_id}
    return {"text/plain": "", WIDGET_VIEW: view}


def static_bundle(trace: Trace, widget_id: str | None = None) -> dict[str, Any]:
    """Return the output that a saved notebook contains. `widget_id`: the live widget that hides it while it shows."""
    return {"text/plain": str(summary(trace)), "text/html": static_html(trace, widget_id)}


def static_bundles(trace: Trace, widget_id: str) -> list[dict[str, Any]]:
    """`static_bundle` as several outputs: the answer, the timeline as an image, and the rest.

    Pages that sanitise HTML (GitHub's, for example) show no picture inside it, but show images.
    """
    picture = picture_text(trace)
    parts = _parts(trace, widget_id)
    if not picture or "pictures" not in parts:
        return [static_bundle(trace, widget_id)]
    names = list(parts)
    place = names.index("pictures")
    head, rest = names[:place], names[place + 1 :]
    bundles = [{"text/plain": str(summary(trace)), "text/html": _wrapped(parts, head, widget_id)}]
    bundles.append({"text/plain": f"[timeline of {clean(trace.info.name)}]", SVG_IMAGE: picture})
    if rest:
        bundles.append({"text/plain": "", "text/html": _wrapped(parts, rest, widget_id)})
    return bundles


def static_html(trace: Trace, widget_id: str | None = None) -> str:
    """Verdict, races, graphs, pictures and largest costs as HTML: no script, nothing external.

    It stays within `MAX_HTML_BYTES`; what does not fit is counted.
    """
    parts = _parts(trace, widget_id)
    return _wrapped(parts, list(parts), widget_id)


def picture_text(trace: Trace) -> str:
    """The timeline as one image of at most `MAX_IMAGE_BYTES`: SVG in a grey that suits light and dark pages; or ""."""
    for num_runs in _NUM_RUNS:
        node = timeline_svg(trace, num_runs)
        if node is None:
            return ""
        text = Node(node.tag, node.attributes | {"color": _GREY}, node.children).html()
        if len(text.encode("utf-8", "replace")) <= MAX_IMAGE_BYTES:
            return text
    return ""


def _parts(trace: Trace, widget_id: str | None) -> dict[str, str]:
    room = MAX_HTML_BYTES - len(_head(widget_id).encode())
    return page.static_parts(trace, has_style=True, max_bytes=room)


def _wrapped(parts: dict[str, str], names: list[str], widget_id: str | None) -> str:
    """Return the sections `names` in one element."""
    return f"{_head(widget_id)}{for_notebooks(''.join(parts[name] for name in names))}</div>"


def _head(widget_id: str | None) -> str:
    mark = "" if widget_id is None else f' data-cudalens-static="{escape(widget_id, quote=True)}"'
    return f'<div class="cudalens-static"{mark}>{"" if widget_id is None else _STYLE}'


def is_live() -> bool:
    """Return whether this process is a Jupyter kernel, whose front end can open a comm."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module else None
    return getattr(shell, "kernel", None) is not None


def max_message_bytes() -> int | None:
    """Return the size of the largest message that the front end may take; None where no limit is known."""
    is_hosted = "DATABRICKS_RUNTIME_VERSION" in os.environ or "google.colab" in sys.modules
    return HOSTED_BYTES if is_hosted else None
