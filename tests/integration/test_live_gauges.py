"""Live gauges in a real kernel: they go on while a cell runs, and leave no thread behind."""

import pytest
from test_kernel import kernel as kernel
from test_kernel import started as started

FEED = "gauges = get_ipython().find_line_magic('cudadevice').cudalens_magic.gauges\nfeed = gauges.widget.feed"
THREADS = (
    "import threading\nprint('threads:', sum(thread.name == 'cudalens-metrics' for thread in threading.enumerate()))"
)


@pytest.fixture
def live(kernel):
    """A kernel whose gauges are on."""
    assert kernel.run("%cudadevice virtual h100") == "ok"
    assert kernel.run("%cudadevice live --rate 200") == "ok"
    kernel.outputs = [content for kind, content in kernel.messages if kind == "display_data"]
    assert kernel.run(FEED) == "ok"
    yield kernel
    kernel.run("%cudadevice live stop\n%cudadevice off")


def moments(kernel, request):
    """Readings that reach the page while the cell of `request` runs."""
    count = 0
    while True:
        message = kernel.client.get_iopub_msg(timeout=60)
        if message["msg_type"] == "comm_msg":
            count += "_moment" in message["content"]["data"].get("state", {})
        elif message["parent_header"].get("msg_id") == request and message["content"] == {"execution_state": "idle"}:
            return count


def test_the_picture_and_the_view_are_shown(live):
    picture, view = live.outputs
    assert "simulated: h100" in picture["data"]["text/html"]
    assert picture["transient"]["display_id"]
    assert "application/vnd.jupyter.widget-view+json" in view["data"]


def test_readings_reach_the_page_while_a_cell_runs(live):
    request = live.send("end = len(feed.history) + 20\nwhile len(feed.history) < end: pass")
    assert moments(live, request) >= 5  # of 20: the last ones may come after the cell
    live.client.get_shell_msg(timeout=60)


def test_unloading_leaves_no_thread_and_no_event(live):
    live.run("before = {name: len(all) for name, all in get_ipython().events.callbacks.items()}")
    live.run("%unload_ext cudalens")
    live.run(THREADS + "\nprint(feed.ended)")
    assert "threads: 0" in live.printed("stdout")
    assert "stopped" in live.printed("stdout")
    live.run("print([len(get_ipython().events.callbacks[n]) - before[n] for n in ('pre_run_cell', 'post_run_cell')])")
    assert "[-1, -1]" in live.printed("stdout")
    live.run("%load_ext cudalens")


def test_others_take_their_place(live):
    live.run("%cudadevice live --rate 100")
    live.run(THREADS)
    assert "threads: 1" in live.printed("stdout")
