import gzip
import json
import sys
import zlib
from contextlib import contextmanager

import comm
import pytest
from recording_comm import RecordingComm, ask, open_widgets, receive
from sample_races import race_trace
from sample_traces import gpu_trace

from cudalens.views import assets, notebook
from cudalens.views import widget as module
from cudalens.views.races import section as races
from cudalens.views.timeline import payload


@pytest.fixture(autouse=True)
def no_comm_is_left_open(monkeypatch):
    """Every widget that a test makes is closed again, and with it its comm."""
    monkeypatch.setattr(comm, "create_comm", RecordingComm)
    before = open_widgets()
    yield
    left = open_widgets() - before
    assert not left, f"comms left open: {left}"


@pytest.fixture
def trace():
    return gpu_trace()


@pytest.fixture
def widget(trace):
    widget = trace.timeline()
    yield widget
    widget.close()
    widget.layout.close()


def test_a_short_trace_comes_with_the_widget(widget, trace):
    state = widget.get_state()
    assert state["_ready"] == {"payload": payload.pack(trace)}
    assert state["_facts"]["verdict"].startswith("3.00 ms, GPU busy")


def test_the_code_follows_the_message_that_opens_the_comm(widget):
    opening, following = widget.comm.sent[:2]
    assert opening[0] == "comm_open"
    assert opening[1]["state"]["_bundle"] == ""
    assert following[1] == {
        "method": "update",
        "state": {"_bundle": assets.module_text("widget.js")},
        "buffer_paths": [],
    }


def test_a_long_trace_is_not_state(monkeypatch):
    monkeypatch.setattr(module, "MAX_READY_BYTES", 100)
    widget = gpu_trace().timeline()
    assert widget.get_state()["_ready"] == {}
    widget.close()
    widget.layout.close()


def test_the_payload_comes_on_request(widget, trace):
    content, buffers = ask(widget, "payload")
    assert content == {"id": "q1"}
    assert bytes(buffers[0]) == payload.pack(trace, compress=False)


@contextmanager
def opened(trace, **options):
    widget = trace.timeline(**options)
    try:
        yield widget
    finally:
        widget.close()
        widget.layout.close()


def header_of_payload(widget):
    _, (data,) = ask(widget, "payload")
    packed = bytes(data)
    assert packed[4] == 1, "the columns are deflated"
    return json.loads(zlib.decompress(packed[12 : 12 + int.from_bytes(packed[8:12], "little")]))


@pytest.fixture
def long_trace(monkeypatch):
    """A trace for tests with limits of some kilobytes: its payloads may have few events."""
    monkeypatch.setattr(payload, "MIN_EVENTS", 10)
    monkeypatch.setattr(payload, "_HEADER_RESERVE", 0)
    return gpu_trace(steps=200)


def test_a_limit_of_bytes_sends_the_last_events_and_says_how_many_there_are(long_trace):
    with opened(long_trace, max_bytes=1_000) as widget:
        header = header_of_payload(widget)
    assert header["first_row"] == len(long_trace.events) - header["n"] > 0
    assert header["num_all"] == len(long_trace.events)


@pytest.fixture(params=["databricks", "colab"])
def hosted(request, monkeypatch):
    """As in a notebook of a service that limits outputs."""
    if request.param == "colab":
        monkeypatch.setitem(sys.modules, "google.colab", sys)
    else:
        monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.0")


def test_services_that_limit_outputs_have_a_limit_unless_another_is_given(hosted, long_trace, monkeypatch):
    assert notebook.HOSTED_BYTES * 4 / 3 < 10_000_000, "base64"
    monkeypatch.setattr(notebook, "HOSTED_BYTES", 1_000)
    with opened(long_trace) as widget:
        assert header_of_payload(widget)["first_row"] > 0
    with opened(long_trace, max_bytes=10**9) as widget:
        assert header_of_payload(widget)["first_row"] == 0


def test_races_come_on_request():
    widget = race_trace().timeline()
    _, buffers = ask(widget, "races")
    assert bytes(buffers[0]) == races.pack(race_trace())
    assert widget.get_state()["_facts"]["hasRaces"]
    assert "mul_" not in str(widget.get_state()["_facts"])
    widget.close()
    widget.layout.close()


@pytest.mark.parametrize("name", assets.LIBRARIES)
def test_libraries_come_on_request(widget, name):
    _, buffers = ask(widget, name)
    assert len(gzip.decompress(buffers[0])) > 50_000


def test_an_unknown_request_is_answered_with_an_error(widget):
    content, buffers = ask(widget, "/etc/passwd")
    assert content == {"id": "q1", "error": "KeyError: '/etc/passwd'"}
    assert not buffers


def test_other_messages_are_not_answered(widget):
    before = len(widget.comm.sent)
    receive(widget, {"kind": "hello"})
    receive(widget, "text")
    assert len(widget.comm.sent) == before


def test_a_selection_in_the_page_reaches_the_trace(widget, trace):
    widget.set_state({"_selection": {"range": None, "event": None, "names": ["aten::copy_"]}})
    assert set(trace.selection["name"].astype(str)) == {"aten::copy_"}
    assert widget.selection.equals(trace.selection)
    widget.set_state({"_selection": {"range": None, "event": None, "names": None}})
    assert len(trace.selection) == len(trace)


def test_a_new_widget_starts_with_nothing_selected(widget, trace):
    widget.set_state({"_selection": {"names": ["aten::copy_"]}})
    other = trace.timeline()
    assert len(trace.selection) == len(trace)
    other.close()
    other.layout.close()


def test_callbacks_get_the_rows(trace):
    seen = []
    widget = trace.timeline(on_select=seen.append)
    widget.on_select(lambda rows: seen.append(len(rows)))
    widget.set_state({"_selection": {"names": ["aten::copy_"]}})
    assert [len(seen[0]), seen[1]] == [3, 3]
    widget.close()
    widget.layout.close()


def test_errors_of_callbacks_are_kept_for_the_page(widget):
    def fail(rows):
        raise ValueError("no such thing")

    widget.on_select(fail)
    for name in "abcde":
        widget.set_state({"_selection": {"names": [name]}})
    errors = widget.get_state()["_errors"]
    assert len(errors) == 3
    assert all("ValueError: no such thing" in error for error in errors)


def test_a_selection_of_the_wrong_form_is_ignored(widget, trace):
    widget.set_state({"_selection": {"range": "x", "event": "y", "names": 3}})
    assert len(trace.selection) == len(trace)


def test_repr_is_cheap(widget):
    assert repr(widget) == "<cudalens timeline of 'cell-3'>"


def test_closing_closes_the_comm(trace):
    widget = trace.timeline()
    opened = widget.comm
    widget.close()
    widget.layout.close()
    assert opened.sent[-1][0] == "comm_close"
