"""The panel of a watched run in a real JupyterLab: it changes, records on request, zooms, and is kept."""

import json
import re

import pytest

from .test_lab import page as page
from .test_lab import save

pytest.importorskip("jupyterlab", reason="JupyterLab is not installed (the extra 'lab')")

SETUP = """%load_ext cudalens
import os, torch
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"""
LOOP = """%%cudawatch --budget 10%
while not os.path.exists("go"):
    optimizer.zero_grad()
    model(torch.ones(8, 64)).mean().backward()
    optimizer.step()
print("done")"""
LONG_MS = 120_000  # the first cell imports torch, pandas and the widgets
PANEL = ".jp-OutputArea-output .cudalens-watch[data-state]"
CANVAS = f"{PANEL} .cl-watch-timeline canvas"


def updates(page):
    return int(page.locator(PANEL).get_attribute("data-updates"))


def test_the_panel_lives_while_the_cell_runs_and_is_kept(lab, page):
    (lab.folder / "go").unlink(missing_ok=True)
    lab.write_notebook("watch.ipynb", SETUP, LOOP)
    lab.open(page, "watch.ipynb")
    lab.wait_for_kernel(page)
    lab.command(page, "notebook:run-all-cells")
    try:
        page.wait_for_selector(f"{PANEL} .cl-watch-content svg", timeout=LONG_MS)
        page.wait_for_selector(f"{PANEL} .cl-watch-timeline[data-step]", timeout=LONG_MS)
        before, first_step = updates(page), page.locator(f"{PANEL} .cl-watch-timeline").get_attribute("data-step")
        page.wait_for_function(
            f"() => Number(document.querySelector('{PANEL}').dataset.updates) >= {before} + 5", timeout=LONG_MS
        )
        page.locator(f"{PANEL} button", has_text="Record now").click()
        page.wait_for_function(
            f"() => [...document.querySelectorAll('{PANEL} td')].some((cell) => cell.textContent === 'requested')",
            timeout=LONG_MS,
        )
        page.wait_for_function(
            f"step => document.querySelector('{PANEL} .cl-watch-timeline').dataset.step !== step",
            arg=first_step,
            timeout=LONG_MS,
        )
        canvas = page.locator(CANVAS).first
        canvas.scroll_into_view_if_needed()
        picture = canvas.screenshot()
        canvas.click()
        page.mouse.wheel(0, -600)
        page.wait_for_function("() => true")
        page.wait_for_timeout(300)
        assert canvas.screenshot() != picture
        assert page.locator(PANEL).get_attribute("data-state") == "live"
        page.screenshot(path="/tmp/watch_live.png")  # TMP
    except BaseException:  # TMP
        page.screenshot(path="/tmp/watch_fail.png")  # TMP
        raise  # TMP
    finally:
        (lab.folder / "go").touch()
    page.wait_for_selector(".cudalens-watch[data-state=ended]")
    save(lab, page)
    saved = (lab.folder / "watch.ipynb").read_text()
    [picture, *_] = [output for output in json.loads(saved)["cells"][1]["outputs"] if "data" in output]
    html = "".join(picture["data"]["text/html"])
    assert len(html) < 300_000
    assert re.search(r"ended", "".join(picture["data"]["text/plain"]))
    lab.open(page, "watch.ipynb")
    page.wait_for_selector("[data-cudalens-static] svg")
    page.screenshot(path="/tmp/watch_saved.png")  # TMP
