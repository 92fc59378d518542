"""The widget in a real marimo: it paints, and its selection runs the cells that use it."""

import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("marimo", reason="marimo is not installed")

SAMPLES = str(Path(__file__).parents[1] / "unit" / "views")
NOTEBOOK = f"""
import marimo

app = marimo.App()


@app.cell
def _():
    import sys

    sys.path.insert(0, {SAMPLES!r})
    import marimo as mo
    from sample_traces import gpu_trace

    trace = gpu_trace()
    return mo, trace


@app.cell
def _(mo, trace):
    view = mo.ui.anywidget(trace.timeline())
    view
    return (view,)


@app.cell
def _(mo, trace, view):
    view.value
    mo.md(f"{{len(trace.selection)}} rows of trace.selection")
    return


@app.cell
def _(trace):
    trace
    return
"""
TIMEOUT_S = 60
LIVE = ".cudalens-live .cudalens"


@contextmanager
def running_marimo(path):
    """Serve the notebook `path`; yields its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [*(sys.executable, "-m", "marimo", "run", path, "--headless", "--no-token"), "--port", str(port)]
    log = path.with_suffix(".log")
    with log.open("w") as stream:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT)
    try:
        wait_until_serving(process, port, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def wait_until_serving(process, port, log):
    end = time.monotonic() + TIMEOUT_S
    while process.poll() is None and time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"marimo did not start:\n{log.read_text()}")


@pytest.fixture(scope="module")
def marimo(tmp_path_factory):
    path = tmp_path_factory.mktemp("marimo") / "notebook.py"
    path.write_text(NOTEBOOK)
    with running_marimo(path) as address:
        yield address


@pytest.fixture
def page(marimo, browser):
    """A page whose uncaught exceptions and errors fail the test; marimo's warnings are not ours to judge."""
    context, faults = browser.new_context(viewport={"width": 1300, "height": 1400}), []
    context.on("weberror", lambda error: faults.append(error.error.stack or str(error.error)))
    context.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page = context.new_page()
    page.goto(marimo)
    page.wait_for_selector(f"{LIVE}[data-state=ready]")
    yield page
    context.close()
    assert not faults, faults


def test_the_widget_paints_and_its_selection_is_the_selection_in_python(page):
    assert page.locator(f"{LIVE} .cl-verdict strong").inner_text().startswith("3.00 ms, GPU busy 45 %")
    assert page.locator(f"{LIVE} .cl-timeline canvas").first.is_visible()
    page.get_by_text("30 rows of trace.selection").wait_for()
    page.locator(f"{LIVE} .cl-table-host tbody tr", has_text="aten::copy_").click()
    page.get_by_text("3 rows of trace.selection").wait_for()
    assert page.locator(f"{LIVE}[data-state=ready]").count() == 1, "the view stays"


def test_a_trace_as_the_last_expression_shows_its_static_page(page):
    static = page.locator(".cudalens-static")
    assert static.locator("strong").first.inner_text().startswith("3.00 ms, GPU busy 45 %")
    assert static.locator(".cudalens-pictures svg").is_visible()
