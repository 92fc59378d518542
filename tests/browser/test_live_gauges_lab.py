"""Live gauges in a real JupyterLab: they move while a later cell runs, end by their button, and leave a picture."""

import json

import pytest

from .test_lab import OPEN_COMMS, outputs_text, save, shut_down
from .test_lab import page as page

WORK = """import os
x = torch.ones(256, 256, device="cuda")
while not os.path.exists("go"):
    y = x @ x
    torch.cuda.synchronize()
print("done")"""
GAUGES = ".jp-OutputArea-output .cudalens-gauges[data-state]"
ALL_RAN = ".jp-OutputArea-output:has-text('open comms')"
THREADS = "import threading; print([t.name for t in threading.enumerate() if t.name == 'cudalens-metrics'])"


@pytest.fixture
def gauges(lab, page):
    (lab.folder / "go").unlink(missing_ok=True)
    lab.end_kernels()
    cells = (
        "%load_ext cudalens\nimport torch",
        "%cudadevice virtual h100",
        "%cudadevice live --rate 20",
        WORK,
        THREADS,
    )
    lab.write_notebook("gauges.ipynb", *cells, OPEN_COMMS)
    lab.open(page, "gauges.ipynb")
    lab.wait_for_kernel(page)
    lab.command(page, "notebook:run-all-cells")
    page.wait_for_selector(f"{GAUGES}[data-state=live]")
    yield page
    (lab.folder / "go").touch()
    lab.end_kernels()


def test_they_move_while_a_cell_runs_and_stop_by_their_button(lab, gauges):
    page = gauges
    assert page.locator(GAUGES).locator(".cl-gauge-badge").inner_text() == "simulated: h100"
    # The cell below runs until the file is there: whatever moves now moves while it runs.
    page.wait_for_function(
        f"() => /busy [1-9]/.test(document.querySelector('{GAUGES} .cl-gauge-verdict strong').textContent)"
    )
    page.wait_for_function(
        f"() => document.querySelector('{GAUGES} .cl-gauge-spark path').getAttribute('d').split('L').length > 8"
    )
    assert page.locator("[data-cudalens-static]").is_hidden()
    (lab.folder / "go").touch()
    page.wait_for_selector(ALL_RAN)
    assert [text.strip() for text in outputs_text(page, 3)] == ["done"]
    assert [text.strip() for text in outputs_text(page, 4)] == ["['cudalens-metrics']"]

    page.locator(GAUGES).locator("button").click()
    page.wait_for_selector(f"{GAUGES}[data-state=ended]")
    assert page.locator(GAUGES).locator("button").is_hidden()
    assert "stopped by its button" in page.locator(GAUGES).locator(".cl-gauge-about").inner_text()

    save(lab, page)
    assert page.locator("[data-cudalens-static]").is_hidden()  # also the picture of the last readings
    saved = json.loads((lab.folder / "gauges.ipynb").read_text())
    [picture, view] = saved["cells"][2]["outputs"]
    html = "".join(picture["data"]["text/html"])
    assert "stopped by its button" in html
    assert "NVIDIA H100" in html
    assert "[simulated: h100] cuda:0: " in "".join(picture["data"]["text/plain"])
    assert "application/vnd.jupyter.widget-view+json" in view["data"]


def test_a_saved_notebook_shows_the_picture_and_no_error(lab, gauges):
    page = gauges
    (lab.folder / "go").touch()
    page.wait_for_selector(ALL_RAN)
    page.locator(GAUGES).locator("button").click()
    page.wait_for_selector(f"{GAUGES}[data-state=ended]")
    save(lab, page)
    shut_down(page)
    lab.open(page, "gauges.ipynb")
    page.wait_for_function("() => document.body.textContent.includes('model not found')")
    assert page.get_by_text("model not found").is_hidden()
    picture = page.locator("[data-cudalens-static]")
    assert picture.is_visible()
    assert "NVIDIA H100" in picture.inner_text()
    assert "simulated: h100" in picture.inner_text()
