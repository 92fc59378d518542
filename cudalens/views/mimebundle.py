"""A Trace in every front end: its static output, and the live widget where a kernel runs."""

from __future__ import annotations

from typing import Any

from cudalens.frames import Trace
from cudalens.views import notebook


def mimebundle(trace: Trace) -> dict[str, Any]:
    """`trace` as one bundle: ``text/plain``, ``text/html``, and a widget view when a kernel is live."""
    bundle = notebook.static_bundle(trace)
    if notebook.is_live():
        from cudalens.views.widget import timeline

        return notebook.widget_bundle(timeline(trace).model_id) | bundle  # its text is the trace's
    return bundle


def show(trace: Trace) -> None:
    """Display `trace` in a live kernel: the picture, and the widget that hides it.

    Raises:
        NotImplementedError: No kernel is live; IPython then asks for the mimebundle instead.
    """
    if not notebook.is_live():
        raise NotImplementedError
    from cudalens.views.widget import timeline

    timeline(trace)._ipython_display_()
