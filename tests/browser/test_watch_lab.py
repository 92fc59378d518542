"""The panel of a watched run in a real JupyterLab: it changes while the cell runs."""

import pytest

from .test_lab import page as page

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


def updates(page):
    return int(page.locator(PANEL).get_attribute("data-updates"))


def test_the_panel_changes_while_the_cell_runs(lab, page):
    (lab.folder / "go").unlink(missing_ok=True)
    lab.write_notebook("watch.ipynb", SETUP, LOOP)
    lab.open(page, "watch.ipynb")
    lab.wait_for_kernel(page)
    lab.command(page, "notebook:run-all-cells")
    try:
        page.wait_for_selector(f"{PANEL} .cl-watch-content svg", timeout=LONG_MS)
        page.wait_for_selector(f"{PANEL} .cl-watch-timeline[data-step]", timeout=LONG_MS)
        before = updates(page)
        page.wait_for_function(
            f"() => Number(document.querySelector('{PANEL}').dataset.updates) >= {before} + 5", timeout=LONG_MS
        )
        assert page.locator(PANEL).get_attribute("data-state") == "live"
    finally:
        (lab.folder / "go").touch()
