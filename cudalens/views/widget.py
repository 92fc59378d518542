"""The live widget: races, graphs, timeline, details, table and memory curve over a comm.

Widget state is small: JSON, and the columns of a short trace, so that it is interactive while the kernel is busy with
the next cells. Other columns and the libraries are sent as binary buffers when the page asks for them. The page sends
the selection; `on_select` registers a callback for its rows.
"""

from __future__ import annotations

import traceback
import uuid
from collections.abc import Callable
from typing import Any, Final

import anywidget
import pandas as pd
import traitlets

from cudalens.errors import FixError
from cudalens.frames import Trace
from cudalens.views import assets, notebook
from cudalens.views.graphs import section as graphs
from cudalens.views.memory import map_payload
from cudalens.views.races import section as races
from cudalens.views.sections.page import facts
from cudalens.views.timeline import marks, payload
from cudalens.views.timeline.marks import keep_marks, marks_for_page

Callback = Callable[[pd.DataFrame], object]

#: Columns of at most so many bytes are sent with the widget; more events than these are not packed to try.
MAX_READY_BYTES: Final = 64_000
_MAX_READY_EVENTS: Final = 20_000
_MAX_ERRORS: Final = 3
#: Views of one process wait for one another's libraries.
_PROCESS: Final = uuid.uuid4().hex
_MAX_ERROR_TEXT: Final = 4000


class TimelineWidget(anywidget.AnyWidget):
    """A live view of one Trace. Made by ``trace.timeline()``; show it as the last expression of a cell.

    Attributes:
        trace: What it shows.
    """

    _esm = assets.module_text("loader.js")
    _css = assets.style_text()

    #: Set once the comm is open: JupyterLab keeps the message that opens a comm as long as the comm is open.
    _bundle = traitlets.Unicode().tag(sync=True)
    _bundle_id = traitlets.Unicode(assets.module_id("widget.js")).tag(sync=True)
    _process = traitlets.Unicode(_PROCESS).tag(sync=True)
    _facts = traitlets.Dict().tag(sync=True)
    _versions = traitlets.Dict().tag(sync=True)
    _picture = traitlets.Unicode().tag(sync=True)
    _selection = traitlets.Dict().tag(sync=True)
    _ready = traitlets.Dict().tag(sync=True)
    _marks = traitlets.List(traitlets.Dict()).tag(sync=True)
    _errors = traitlets.List(traitlets.Unicode()).tag(sync=True)
    _can_try = traitlets.Bool(False).tag(sync=True)

    def __init__(
        self,
        trace: Trace,
        *,
        on_select: Callback | None = None,
        against: Trace | None = None,
        max_bytes: int | None = None,
    ) -> None:
        """A view of `trace`; the options are those of `timeline`."""
        self.trace = trace
        self._max_bytes = notebook.max_message_bytes() if max_bytes is None else max_bytes
        self._callbacks: list[Callback] = [] if on_select is None else [on_select]
        marks.remember(trace, None)
        shown = facts(trace, against)
        super().__init__(_facts=shown, _marks=shown["marks"], _versions=assets.library_versions(), _ready=_ready(trace))
        self._can_try = shown["findings"] is not None and notebook.tries_of(trace) is not None
        self._bundle = assets.module_text("widget.js")
        self.on_msg(self._answer)

    @property
    def selection(self) -> pd.DataFrame:
        """The rows of ``trace.events`` that are selected; all where nothing is."""
        return marks.selected_events(self.trace)

    def on_select(self, callback: Callback) -> None:
        """Call `callback(rows)` whenever the selection changes; what it raises is shown under the widget."""
        self._callbacks.append(callback)

    def __repr__(self) -> str:
        """One cheap line."""
        return f"<cudalens timeline of '{self.trace.info.name}'>"

    def _ipython_display_(self) -> None:
        """The outputs that the notebook keeps, then this view, which hides them while it shows."""
        from IPython.display import publish_display_data

        if not notebook.is_live():
            raise NotImplementedError
        self._picture = self.model_id
        for bundle in (*notebook.static_bundles(self.trace, self.model_id), notebook.widget_bundle(self.model_id)):
            publish_display_data(bundle)  # type: ignore[no-untyped-call]

    @traitlets.observe("_selection")
    def _selected(self, change: Any) -> None:
        marks.remember(self.trace, _known(change["new"]))
        for callback in self._callbacks:
            try:
                callback(self.selection)
            except Exception:
                self._report(traceback.format_exc())

    @traitlets.observe("_marks")
    def _marked(self, change: Any) -> None:
        if change["new"] != marks_for_page(self.trace):
            keep_marks(self.trace, change["old"], change["new"])

    def _report(self, message: str) -> None:
        self._errors = [*self._errors[1 - _MAX_ERRORS :], message[-_MAX_ERROR_TEXT:]]

    def _answer(self, _: object, content: Any, buffers: object) -> None:
        """Send what the page requests, or the error, which the page shows."""
        if isinstance(content, dict) and content.get("kind") == "try":
            self._try(content.get("id"), content.get("finding"), content.get("consent") is True)
        if not isinstance(content, dict) or content.get("kind") != "request":
            return
        try:
            data = self._bytes(str(content.get("want")))
        except Exception as error:
            self.send({"id": content.get("id"), "error": f"{type(error).__name__}: {error}"[:_MAX_ERROR_TEXT]})
        else:
            self.send({"id": content.get("id")}, [data])

    def _try(self, question: Any, finding: Any, consent: bool) -> None:
        """Try a finding, or all; sends the progress, then what it gave, or why it was not tried."""
        tries = notebook.tries_of(self.trace)
        try:
            if tries is None or not (finding is None or isinstance(finding, int)):
                raise FixError("this run cannot run again.")
            report = lambda text: self.send({"id": question, "progress": text})  # noqa: E731
            tried = tries.try_findings(self.trace, finding, consent, report)
        except (Exception, KeyboardInterrupt) as error:
            text = "interrupted." if isinstance(error, KeyboardInterrupt) else str(error)
            self.send({"id": question, "error": text[:_MAX_ERROR_TEXT] or type(error).__name__})
        else:
            self.send({"id": question, "tried": tried})

    def _bytes(self, want: str) -> bytes:
        limit = self._max_bytes
        match want:
            case "payload":
                return payload.pack(self.trace, compress=limit is not None, max_bytes=limit)
            case "races":
                return races.pack(self.trace)
            case "graphs":
                return graphs.pack(self.trace)
            case "memory":
                return map_payload.pack(self.trace, compress=limit is not None, max_bytes=limit)
        return assets.library(want)


def _ready(trace: Trace) -> dict[str, bytes]:
    """What the page requests first, by name: races, graphs and columns of the events, as far as they are small."""
    found: dict[str, bytes] = {}
    if races.has_races(trace):
        found["races"] = races.pack(trace)
    if graphs.has_graphs(trace):
        found["graphs"] = graphs.pack(trace)
    if len(trace.events) <= _MAX_READY_EVENTS:
        found["payload"] = payload.pack(trace)
    room = MAX_READY_BYTES
    for name, data in list(found.items()):
        room -= len(data)
        if room < 0:
            del found[name]
    return found


def timeline(
    trace: Trace,
    *,
    on_select: Callback | None = None,
    against: Trace | None = None,
    max_bytes: int | None = None,
) -> TimelineWidget:
    """Return the live widget of `trace`.

    Args:
        trace: What to show.
        on_select: Called with the selected rows whenever the selection changes.
        against: Another run, which the flame graph compares with.
        max_bytes: Size of the largest message with events or allocations. Of a longer trace the page has the last
            events, and says so. None for no limit, and for `notebook.HOSTED_BYTES` on Databricks and Colab.
    """
    return TimelineWidget(trace, on_select=on_select, against=against, max_bytes=max_bytes)


def _known(sent: Any) -> dict[str, Any] | None:
    """Return the valid parts of the selection that the page sent; None where nothing is selected."""
    span, event, names = sent.get("range"), sent.get("event"), sent.get("names")
    known: dict[str, Any] = {}
    if isinstance(span, list) and len(span) == 2:
        known["range"] = [float(span[0]), float(span[1])]
    if isinstance(event, int):
        known["event"] = event
    if isinstance(names, list):
        known["names"] = [str(name) for name in names]
    if isinstance(rows := sent.get("name_rows"), list):
        known["name_rows"] = [row for row in rows if isinstance(row, int)]
    return known or None
