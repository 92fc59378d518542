"""A comm that keeps what a widget sends, and what a page does with it: messages to the widget and requests."""

import comm
import ipywidgets


class RecordingComm(comm.base_comm.BaseComm):
    """A comm that keeps what is sent instead of sending it."""

    def __init__(self, *args, **kwargs):
        self.sent = []
        super().__init__(*args, **kwargs)

    def publish_msg(self, msg_type, data=None, metadata=None, buffers=None, **keys):
        self.sent.append((msg_type, data, buffers))


def open_widgets():
    """The ids of all widgets that are not closed."""
    return set(ipywidgets.widgets.widget._instances)


def receive(widget, content):
    """Give a widget a message as the page sends it."""
    widget.comm.handle_msg({"content": {"data": {"method": "custom", "content": content}}, "buffers": []})


def ask(widget, want):
    """Ask a widget as the page does; returns the answer's content and buffers."""
    receive(widget, {"kind": "request", "id": "q1", "want": want})
    _, data, buffers = widget.comm.sent[-1]
    assert data["method"] == "custom"
    return data["content"], buffers
