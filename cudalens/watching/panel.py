"""The live panel of a watched run: sent from a thread while the cell runs; the notebook keeps its last state.

Each state is a tree of elements, made at most once a second and less often where it costs more. The timeline of the
last recording is sent as columns, so that the page can zoom without the ipykernel.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from typing import Any, Final

import anywidget
import traitlets

from cudalens.views import assets, notebook
from cudalens.views.sections.markup import element, for_notebooks
from cudalens.views.sections.write_html import to_html, to_json
from cudalens.views.sections.write_text import to_text
from cudalens.views.timeline import payload
from cudalens.watching import record as view
from cudalens.watching.run import WatchedRun

#: Time between two states, s, and the share of it that making them may take.
PERIOD_S: Final = 1.0
_SHARE: Final = 0.004
_MOST_PERIOD_S: Final = 5.0
#: Bytes a second that are sent at most, and bytes of one timeline.
BYTES_PER_S: Final = 150_000
MOST_TIMELINE_BYTES: Final = 600_000
#: Bytes of the state that a notebook keeps.
MOST_SAVED_BYTES: Final = 250_000
_KEPT_S: Final = 60.0
_NO_STEP: Final = "Watching; no step yet."

HINT: Final = "If the buttons have no effect while a cell runs: `cudalens attach --record` or `--stop` in a terminal."


class WatchPanel(anywidget.AnyWidget):
    """A live view of a watched run.

    Args:
        on_stop: Called when the user presses Stop.
        on_record: Called when the user presses Record now.
        hint: What the panel says beside its buttons.
    """

    _esm = assets.module_text("watch.js")
    _css = assets.style("watch") + assets.style_text()

    _panel = traitlets.Dict().tag(sync=True)
    _ended = traitlets.Unicode().tag(sync=True)
    _picture = traitlets.Unicode().tag(sync=True)
    _hint = traitlets.Unicode().tag(sync=True)

    def __init__(self, *, on_stop: Callable[[], object], on_record: Callable[[], object], hint: str = "") -> None:
        """A panel without content."""
        self._on_stop, self._on_record = on_stop, on_record
        self._run: WatchedRun | None = None
        self._number, self._next_s, self._kept_s = 0, 0.0, time.monotonic()
        self._timeline: tuple[int, bytes] | None = None
        self._display_id, self._is_shown = f"cudalens-{uuid.uuid4().hex}", False
        super().__init__(_hint=hint)
        take_messages_on_subshells(self.comm)
        self.on_msg(self._answer)

    def update(self, run: Callable[[], WatchedRun], *, is_last: bool = False) -> None:
        """Show the state of the run, if it is time to or the last one."""
        now = time.monotonic()
        if now < self._next_s and not is_last:
            return
        began = time.thread_time()
        self._run = run()
        assert self._run is not None
        self._number += 1
        state = {"tree": to_json(view.section(self._run)), "number": self._number}
        num_bytes = len(json.dumps(state))
        self._panel = state
        if is_last:
            status = self._run.facts.status
            self._ended = "The run has ended." if status == "ok" else f"The run has ended: {status}."
        num_bytes = num_bytes + self._send_recording(self._run)
        spent = time.thread_time() - began
        self._next_s = now + max(PERIOD_S, num_bytes / BYTES_PER_S, min(spent / _SHARE, _MOST_PERIOD_S))
        if is_last or now - self._kept_s >= _KEPT_S:
            self._kept_s = now
            self.keep()

    def close_with(self, reason: str) -> None:
        """End the panel for another reason than the end of the run; its last state is kept."""
        self._ended = reason
        self.keep()

    def _send_recording(self, run: WatchedRun) -> int:
        if not run.recordings or (self._timeline is not None and self._timeline[0] == run.recordings[-1].step):
            return 0
        last = run.recordings[-1]
        data = payload.pack(run.trace(last))
        if len(data) > MOST_TIMELINE_BYTES:
            return 0
        self._timeline = last.step, data
        self.send({"kind": "timeline", "step": last.step}, [data])
        return len(data)

    def keep(self) -> None:
        """Update the picture that the notebook keeps."""
        if self._is_shown and self._run is not None:
            self._publish(update=True)

    def __repr__(self) -> str:
        """One cheap line."""
        return f"<cudalens panel: {'no step' if self._run is None else self._run.facts.name}>"

    def _ipython_display_(self) -> None:
        """Two outputs: the picture that the notebook keeps, then this view, which hides it while it shows."""
        from IPython.display import publish_display_data

        if not notebook.is_live():
            raise NotImplementedError
        self._picture = self.model_id
        self._publish(update=False)
        self._is_shown = True
        publish_display_data(notebook.widget_bundle(self.model_id))  # type: ignore[no-untyped-call]

    def _publish(self, *, update: bool) -> None:
        from IPython.display import publish_display_data

        transient = {"display_id": self._display_id}
        data = empty_bundle(self._picture) if self._run is None else static_bundle(self._run, self._picture)
        publish_display_data(data, transient=transient, update=update)  # type: ignore[no-untyped-call]

    def _answer(self, _: object, content: Any, buffers: object) -> None:
        """Handle a message of the page: stop, record, or a request for the timeline."""
        kind = content.get("kind") if isinstance(content, dict) else None
        if kind == "stop":
            self._on_stop()
        elif kind == "record":
            self._on_record()
        elif kind == "timeline" and self._timeline is not None:
            step, data = self._timeline
            self.send({"kind": "timeline", "step": step}, [data])


def take_messages_on_subshells(comm: Any) -> None:
    """Let messages of the page arrive on the subshell that they are sent to, while a cell runs.

    ipykernel 7.4 hands them to the shell from which the comm last sent something, which is the one that runs the cell.
    """
    if callable(getattr(comm, "_reply_subshell_for", None)):
        comm._reply_subshell_for = None


def empty_bundle(widget_id: str) -> dict[str, str]:
    """Return a line for a run without steps; the live panel `widget_id` hides it while it shows."""
    html = element("div", _NO_STEP, class_="cudalens-static", data_cudalens_static=widget_id)
    return {"text/plain": _NO_STEP, "text/html": html.html()}


def static_bundle(run: WatchedRun, widget_id: str | None = None) -> dict[str, str]:
    """Return the state of `run` as text and HTML. `widget_id`: the live panel that hides it while it shows."""
    last = run.trace(run.recordings[-1]) if run.recordings else None
    shown = view.section(run, last)
    html = for_notebooks(to_html(shown, has_style=True, data_cudalens_static=widget_id))
    if len(html.encode("utf-8", "replace")) > MOST_SAVED_BYTES:
        html = for_notebooks(to_html(view.section(run), has_style=True, data_cudalens_static=widget_id))
    return {"text/plain": to_text(shown), "text/html": html}
