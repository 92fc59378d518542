"""The widget of live gauges: it is updated while later cells run, and ends when no page shows it.

Readings come from a thread and go to the page as messages, which an ipykernel passes on while a cell runs. The saved
notebook keeps the last of them as a picture.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, Final

import anywidget
import traitlets

from cudalens.views import assets, gauges, notebook
from cudalens.views.gauges import DEFAULT_HZ, GaugeFeed, Moment
from cudalens.views.sections.write_html import to_html
from cudalens.views.sections.write_text import to_text
from cudalens.views.timeline.readings import GAUGES

_GAUGES: Final = [{"column": gauge.column, "title": gauge.title, "unit": gauge.unit} for gauge in GAUGES]


class GaugesWidget(anywidget.AnyWidget):
    """Live gauges of the GPUs that this program sees; created by ``%cudadevice live`` and ``cudalens.live()``.

    It reads from its creation until `stop` or `close`, its stop button, or the end of its page.

    Args:
        rate_hz: Readings per second.
        on_end: Called once it has ended.

    Attributes:
        feed: The readings.

    Raises:
        MetricsError: There is nothing to read; the message gives the reason and what to do.
        ValueError: The rate is not between `MIN_HZ` and `MAX_HZ` of `cudalens.device.sampler`.
    """

    _esm = assets.module_text("gauges.js")
    _css = assets.style("gauges")

    _gpus: traitlets.List[Any] = traitlets.List().tag(sync=True)
    _gauges = traitlets.List(_GAUGES).tag(sync=True)
    _about = traitlets.Dict().tag(sync=True)
    _moment = traitlets.Dict().tag(sync=True)
    _picture = traitlets.Unicode().tag(sync=True)

    def __init__(self, rate_hz: float = DEFAULT_HZ, *, on_end: Callable[[], object] = lambda: None) -> None:
        """Start reading."""
        self._display_id, self._on_end = f"cudalens-{uuid.uuid4().hex}", on_end
        self._is_open = self._is_shown = False
        self.feed = GaugeFeed(rate_hz, on_moment=self._send_moment, on_gpus=self._describe, on_end=self._ended)
        self.feed.start()
        super().__init__(
            _gpus=self.feed.gpus, _about=self._facts(), _moment=dict(self.feed.history[-1] if self.feed.history else {})
        )
        self._is_open = True
        self.on_msg(self._answer)
        if self.comm is not None and hasattr(self.comm, "on_close"):
            self.comm.on_close(lambda message: self.stop("closed"))

    @property
    def is_running(self) -> bool:
        """Whether it is reading."""
        return self.feed.is_running

    def stop(self, why: str = "stopped") -> None:
        """End reading; the last readings stay. Can be called twice."""
        self.feed.stop(why)

    def close(self) -> None:
        """End reading, and remove the widget."""
        self.stop("closed")
        self._is_open = False
        super().close()

    def cell(self, is_running: bool) -> None:
        """Called when a cell of the notebook begins or ends."""
        self.feed.presence.cell(is_running)

    def refresh(self) -> None:
        """Update the saved picture."""
        if self._is_shown:
            self._publish(update=True)

    def __repr__(self) -> str:
        """One short line."""
        return f"<cudalens gauges: {', '.join(gpu['label'] for gpu in self.feed.gpus)}; {self.feed.ended or 'live'}>"

    def _ipython_display_(self) -> None:
        """Two outputs: the picture that the notebook keeps, then this view, which hides it while it shows."""
        from IPython.display import publish_display_data

        if not notebook.is_live():
            raise NotImplementedError
        self._picture = self.model_id
        self._publish(update=False)
        self._is_shown = True
        publish_display_data(notebook.widget_bundle(self.model_id))  # type: ignore[no-untyped-call]

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, str], dict[str, str]]:
        return self._bundle(), {}

    def _bundle(self, widget_id: str | None = None) -> dict[str, str]:
        """Return the last readings as text and HTML. `widget_id`: the live widget that hides them while it shows."""
        section = gauges.section(self.feed)
        html = to_html(section, has_style=True, data_cudalens_static=widget_id)
        return {"text/plain": to_text(section), "text/html": html}

    def _publish(self, *, update: bool) -> None:
        from IPython.display import publish_display_data

        transient = {"display_id": self._display_id}
        publish_display_data(self._bundle(self._picture), transient=transient, update=update)  # type: ignore[no-untyped-call]

    def _facts(self) -> dict[str, Any]:
        return {
            "badge": gauges.badge(self.feed),
            "about": gauges.about(self.feed).partition("; as of")[0],
            "notes": self.feed.problems,
            "ended": self.feed.ended,
        }

    def _send_moment(self, moment: Moment) -> None:
        if self._is_open:
            self._moment = moment
            if self.feed.problems != self._about.get("notes"):
                self._about = self._facts()

    def _describe(self) -> None:
        if self._is_open:
            self._gpus, self._about = list(self.feed.gpus), self._facts()

    def _ended(self, why: str) -> None:
        if self._is_open:
            self._about = self._facts()
            self.refresh()
        self._on_end()

    def _answer(self, _: object, content: Any, buffers: object) -> None:
        """Handle a message of the page: heartbeat, close, stop, or a request for earlier readings."""
        if not isinstance(content, dict):
            return
        kind, view = content.get("kind"), str(content.get("view"))[:64]
        if kind == "left":
            self.feed.presence.left(view)
        elif kind == "stop":
            self.stop("stopped by its button")
        elif kind in ("here", "history"):
            self.feed.presence.heartbeat(view)
            if kind == "history":
                self.send({"kind": "history", "moments": list(self.feed.history)})


def live(rate_hz: float = DEFAULT_HZ) -> GaugesWidget:
    """Live gauges of the GPUs that this program sees: show it as the last expression of a cell.

    Args:
        rate_hz: Readings per second.

    Raises:
        MetricsError: There is nothing to read; the message gives the reason and what to do.
        ValueError: The rate is not between `MIN_HZ` and `MAX_HZ` of `cudalens.device.sampler`.
    """
    return GaugesWidget(rate_hz)
