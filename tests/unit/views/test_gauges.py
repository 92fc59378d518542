"""Live gauges: what they read, when they end by themselves, what the page receives, and the picture that is saved."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import comm
import pytest
from recording_comm import RecordingComm, open_widgets, receive

import cudalens
from cudalens import virtual
from cudalens.device.inventory import readings
from cudalens.device.inventory.readings import Gpu, GpuGoneError, Reading
from cudalens.errors import MetricsError
from cudalens.views.gauges import CLOSE_S, COLUMNS, HEARTBEAT_S, HISTORY, GaugeFeed, Presence, section, verdict
from cudalens.views.gauges_widget import GaugesWidget
from cudalens.views.sections.write_html import to_html
from cudalens.views.sections.write_text import to_text

EVIL = "<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def nothing_is_left(monkeypatch):
    """No comm, no thread."""
    monkeypatch.setattr(comm, "create_comm", RecordingComm)
    before = open_widgets()
    yield
    assert not open_widgets() - before
    assert not sampling_threads()


def sampling_threads():
    return [thread for thread in threading.enumerate() if thread.name == "cudalens-metrics"]


class Machine:
    """A management library in memory: two GPUs, whose readings a test sets."""

    label, is_modelled, driver, driver_cuda = "NVML", False, "550.54", "12.4"

    def __init__(self, *readings, name="NVIDIA A100"):
        self.problems = {}
        self.readings, self.name = list(readings), name

    def gpus(self):
        return tuple(
            Gpu(k, self.name, f"GPU-{k}", total_memory_bytes=80 * 2**30, power_limit_watts=400.0, clock_mhz=1410)
            for k in range(len(self.readings))
        )

    def read(self, number):
        if self.readings[number] is None:
            raise GpuGoneError("the GPU is lost")
        return self.readings[number]

    def close(self):
        pass


BUSY = Reading(87.0, 40.0, 12 * 2**30, 65.0, 312.0, 1400, 1215, "power cap")
IDLE = Reading(0.0, 0.0, 2**30, 30.0, None, 210, 1215, "")


@pytest.fixture
def machine(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    machine = Machine(IDLE, BUSY)
    monkeypatch.setattr(readings, "open_source", lambda: machine)
    return machine


@pytest.fixture
def feed(machine):
    """A feed that reads when a test says so: its own thread is too slow to be there."""
    feed = GaugeFeed(0.01)
    feed.start()
    yield feed
    feed.stop()


# -- who looks ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def presence():
    clock = SimpleNamespace(now=0.0)
    presence = Presence(lambda: clock.now)
    presence.clock = clock
    return presence


def test_missing_heartbeats_end_it(presence):
    presence.heartbeat("a")
    presence.clock.now = HEARTBEAT_S
    assert not presence.is_over
    presence.heartbeat("a")
    presence.clock.now += HEARTBEAT_S + 1
    assert presence.is_over


def test_a_page_that_never_comes_ends_it_too(presence):
    presence.clock.now = HEARTBEAT_S + 1
    assert presence.is_over


def test_a_close_message_of_the_last_view_ends_it_soon(presence):
    presence.heartbeat("a")
    presence.heartbeat("b")
    presence.left("a")
    presence.clock.now = CLOSE_S + 1
    assert not presence.is_over
    presence.left("b")
    presence.clock.now += CLOSE_S + 1
    assert presence.is_over


def test_a_page_that_is_reloaded_is_back_in_time(presence):
    presence.heartbeat("a")
    presence.left("a")
    presence.clock.now = CLOSE_S - 1
    presence.heartbeat("b")
    presence.clock.now += HEARTBEAT_S - 1
    assert not presence.is_over


def test_no_message_is_handled_while_a_cell_runs(presence):
    presence.heartbeat("a")
    presence.cell(True)
    presence.clock.now = 10 * HEARTBEAT_S
    assert not presence.is_over
    presence.cell(False)
    assert not presence.is_over
    presence.clock.now += HEARTBEAT_S + 1
    assert presence.is_over


# -- the readings ------------------------------------------------------------------------------------------------------


def test_a_moment_holds_a_row_per_gpu(feed):
    [moment] = feed.history
    assert moment["rows"][1] == [getattr(BUSY, column) for column in COLUMNS]
    assert [gpu["label"] for gpu in feed.gpus] == ["cuda:0", "cuda:1"]
    assert feed.gpus[0]["full"]["power_watts"] == 400.0


def test_devices_are_in_the_programs_order(machine, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")
    feed = GaugeFeed(0.01)
    feed.start()
    feed.stop()
    assert feed.history[0]["rows"][0][0] == BUSY.gpu_busy_pct


def test_the_last_moments_are_kept(feed):
    for _ in range(HISTORY + 50):
        feed.read()
    assert len(feed.history) == HISTORY


def test_a_lost_gpu_is_reported(feed, machine):
    machine.readings[0] = None
    feed.read()
    assert feed.history[-1]["rows"][0] == [None] * len(COLUMNS)
    assert feed.problems == ["GPU 0 (NVIDIA A100): no longer read: the GPU is lost"]
    assert "cuda:1: busy 87 %" in verdict(feed)


def test_a_virtual_device_that_comes_takes_the_place(machine):
    changes = []
    feed = GaugeFeed(0.01, on_gpus=lambda: changes.append([gpu["name"] for gpu in feed.gpus]))
    feed.start()
    with virtual.device("t4"):
        feed.read()
        assert feed.is_modelled
        assert len(feed.history) == 1
        assert "[simulated: t4] cuda:0: idle" in to_text(section(feed))
    feed.read()
    assert not feed.is_modelled
    assert changes[-1] == ["NVIDIA A100", "NVIDIA A100"]
    assert ["Tesla T4"] in changes
    feed.stop()


def test_a_virtual_device_that_goes_may_leave_nothing_to_read(monkeypatch):
    def refuse():
        raise MetricsError("No metrics of a GPU: there is none.")

    monkeypatch.setattr(readings, "open_source", refuse)
    with virtual.device("h100"):
        feed = GaugeFeed(0.01)
        feed.start()
    feed.read()
    assert feed.gpus == []
    assert feed.problems == ["GPUs: No metrics of a GPU: there is none."]
    assert verdict(feed).endswith("there is none.")
    with virtual.device("t4"):
        feed.read()
        assert [gpu["name"] for gpu in feed.gpus] == ["Tesla T4"]
        assert feed.problems == []
    feed.stop()


def test_when_no_page_shows_it_the_feed_ends_by_itself_on_its_own_thread(machine, presence):
    ended = threading.Event()
    feed = GaugeFeed(1000, presence=presence, on_end=lambda why: ended.set())
    feed.start()
    [thread] = sampling_threads()
    presence.clock.now = HEARTBEAT_S + 1
    assert ended.wait(20)
    thread.join(20)
    assert not thread.is_alive()
    assert feed.ended == "no page shows it any more"
    feed.stop()
    assert feed.ended == "no page shows it any more"


# -- shown -------------------------------------------------------------------------------------------------------------


def test_the_verdict_names_the_busiest(feed):
    assert verdict(feed) == "cuda:1: busy 87 %, 12.0 GiB of 80.0 GiB, 312 W, 65 °C; 2 GPUs, this one the busiest"
    text = to_text(section(feed))
    assert "cuda:0  NVIDIA A100\nGPU busy 0.0 %, Memory 1.00 GiB of 80.0 GiB, Power -, Temperature 30 °C" in text
    assert "clocks throttled by power cap" in text


def test_foreign_text_is_escaped(machine, monkeypatch):
    evil = Machine(Reading(gpu_busy_pct=1.0, slowed_by=EVIL), name=EVIL)
    evil.problems[EVIL] = EVIL
    monkeypatch.setattr(readings, "open_source", lambda: evil)
    feed = GaugeFeed(0.01)
    feed.start()
    page = to_html(section(feed), has_style=True, data_cudalens_static='"><img>')
    feed.stop()
    assert "<script" not in page
    assert "<img" not in page
    assert "://" not in page.replace("http://www.w3.org/2000/svg", "")


@pytest.fixture
def widget(machine):
    widget = cudalens.live(0.01)
    yield widget
    widget.close()
    widget.layout.close()


def send_message(widget, **content):
    receive(widget, content)


def test_the_page_gets_state_and_then_each_moment(widget):
    state = widget.get_state()
    assert [gpu["label"] for gpu in state["_gpus"]] == ["cuda:0", "cuda:1"]
    assert state["_moment"]["rows"][1][0] == 87.0
    assert state["_about"]["badge"] == ""
    widget.comm.sent.clear()
    widget.feed.read()
    [(_, data, _)] = [message for message in widget.comm.sent if "_moment" in message[1].get("state", {})]
    assert data["state"]["_moment"]["rows"] == [list(row) for row in widget.feed.history[-1]["rows"]]


def test_the_page_asks_for_what_was_before(widget, presence):
    widget.feed.presence = presence
    widget.feed.read()
    send_message(widget, kind="history", view="a")
    _, data, _ = widget.comm.sent[-1]
    assert data["content"]["kind"] == "history"
    assert len(data["content"]["moments"]) == 2
    presence.clock.now = CLOSE_S + 1
    assert not presence.is_over
    send_message(widget, kind="left", view="a")
    presence.clock.now += CLOSE_S + 1
    assert presence.is_over


@pytest.mark.parametrize("content", [None, "stop", {"kind": "?"}, {}, {"kind": ["stop"]}, {"view": {}}])
def test_nonsense_of_the_page_changes_nothing(widget, content):
    receive(widget, content)
    assert widget.is_running


def test_the_button_ends_it_and_the_page_is_notified(widget):
    send_message(widget, kind="stop", view="a")
    assert not widget.is_running
    assert widget.get_state()["_about"]["ended"] == "stopped by its button"
    assert "stopped by its button" in repr(widget)


def test_closing_the_widget_ends_it(machine):
    ended = []
    widget = GaugesWidget(0.01, on_end=lambda: ended.append(True))
    widget.close()
    widget.layout.close()
    assert not widget.is_running
    assert ended == [True]


def test_a_comm_that_the_page_closes_ends_it(widget):
    widget.comm.handle_close({})
    assert not widget.is_running
    assert widget.feed.ended == "closed"


def test_nothing_to_read_is_an_error_that_states_why(monkeypatch):
    def refuse():
        raise MetricsError("No metrics of a GPU: there is none.")

    monkeypatch.setattr(readings, "open_source", refuse)
    with pytest.raises(MetricsError, match="there is none"):
        cudalens.live()


def test_what_a_saved_notebook_keeps(widget, monkeypatch):
    shown = []
    monkeypatch.setattr("cudalens.views.notebook.is_live", lambda: True)
    monkeypatch.setattr("IPython.display.publish_display_data", lambda data, **more: shown.append((data, more)))
    widget._ipython_display_()
    (picture, first), (view, _) = shown
    assert first["update"] is False
    assert f'data-cudalens-static="{widget.model_id}"' in picture["text/html"]
    assert "NVIDIA A100" in picture["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in view
    widget.stop()
    (last, more) = shown[-1]
    assert more == {"transient": first["transient"], "update": True}
    assert "; stopped; as of" in last["text/html"]
