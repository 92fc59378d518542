"""The panel of a watched run in a real JupyterLab: it changes while the cell runs, records on request, and is kept."""

import json
import os
from pathlib import Path

from .test_lab import page as page
from .test_lab import save

SETUP = """%load_ext cudalens
import os, time, torch
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"""
LOOP = """%%cudawatch --budget 0.1%
while not os.path.exists("go"):
    optimizer.zero_grad()
    model(torch.ones(8, 64)).mean().backward()
    optimizer.step()
    time.sleep(0.02)
print("done")"""
LONG_MS = 120_000  # the first cell imports torch, pandas and the widgets
PANEL = ".jp-OutputArea-output .cudalens-watch[data-state]"
RECORDED = f"{PANEL} .cl-watch-timeline[data-step]"
#: CUDALENS_SCREENSHOTS=FOLDER also writes screenshots there.
SHOTS = os.environ.get("CUDALENS_SCREENSHOTS")


def wait_for_updates(page, more):
    before = int(page.locator(PANEL).get_attribute("data-updates"))
    page.wait_for_function(
        f"() => Number(document.querySelector('{PANEL}').dataset.updates) >= {before} + {more}", timeout=LONG_MS
    )


def recorded_step(page):
    return page.locator(RECORDED).get_attribute("data-step")


def shoot(page, name):
    if SHOTS:
        page.screenshot(path=str(Path(SHOTS) / f"{name}.png"))


def zoom(page):
    """Zoom the timeline, and wait until its picture differs."""
    canvas = page.locator(f"{RECORDED} .cltl-canvas")
    canvas.scroll_into_view_if_needed()
    canvas.click(position={"x": 400, "y": 60})
    before = canvas.screenshot()
    page.mouse.wheel(0, -400)
    for _ in range(300):
        if canvas.screenshot() != before:
            break
        page.wait_for_timeout(100)
    else:
        raise AssertionError("the timeline is not zoomed")
    page.mouse.move(2, 2)


def use_theme(page, theme):
    page.evaluate(
        "theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme }).then(() => null)", theme
    )


def test_the_panel_of_a_running_cell(lab, page):
    (lab.folder / "go").unlink(missing_ok=True)
    lab.end_kernels()
    lab.write_notebook("watch.ipynb", SETUP, LOOP)
    lab.open(page, "watch.ipynb")
    lab.wait_for_kernel(page)
    lab.command(page, "notebook:run-all-cells")
    try:
        page.wait_for_selector(f"{PANEL} .cl-watch-content svg", timeout=LONG_MS)
        page.wait_for_selector(RECORDED, timeout=LONG_MS)
        wait_for_updates(page, 5)
        first = recorded_step(page)
        page.get_by_role("button", name="Record now").click()
        page.wait_for_function(
            f"step => document.querySelector('{RECORDED}').dataset.step !== step", arg=first, timeout=LONG_MS
        )
        zoom(page)
        assert page.locator(PANEL).get_attribute("data-state") == "live"
        shoot(page, "watch-light")
        if SHOTS:
            use_theme(page, "JupyterLab Dark")
            page.wait_for_timeout(1500)
            shoot(page, "watch-dark")
            page.set_viewport_size({"width": 800, "height": 1400})
            page.wait_for_timeout(1500)
            shoot(page, "watch-800")
    finally:
        (lab.folder / "go").touch()
    page.wait_for_selector(f"{PANEL}[data-state=ended]", timeout=LONG_MS)
    lab.wait_for_cells(page)
    save(lab, page)
    saved = (lab.folder / "watch.ipynb").read_text()
    assert len(saved) < 300_000
    assert "ended" in json.dumps(json.loads(saved)["cells"][1]["outputs"])
    page.evaluate("() => window.jupyterapp.serviceManager.sessions.shutdownAll()")
    lab.load(page, "watch.ipynb")
    kept = page.locator("[data-cudalens-static]")
    kept.wait_for(state="visible")
    assert "a step" in kept.locator("p > strong").first.inner_text()
    assert kept.locator("svg").first.is_visible()
    shoot(page, "watch-reopened")
