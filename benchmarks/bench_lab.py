"""A session of 40 cells in JupyterLab, 30 of them profiled: what the page complains about, and by how much it grows.

    python benchmarks/bench_lab.py [--app notebook] [--no-save]

What must hold: no console error or warning of ours over the cells, a kernel restart, a reload, and reopening without a
kernel; the page grows by less than 20 MB more than by as many cells that are not profiled. The same session with cells
of plain Python, and with cells that show a slider of ipywidgets, shows which messages the application writes for any
cell and for any widget: ``ours`` are the others. Then five watched cells, of which the first imports what a watch
needs: the time from the end of the first step to the first picture on the page. The figures go to
``benchmarks/results/lab.json``. ``--app notebook`` takes Notebook 7.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "browser"))
import lab as lab_module
from browsers import chromium_path
from lab import Lab, running_lab

RESULTS = Path(__file__).parent / "results" / "lab.json"
PLAIN = "sum(range(10))"
SETUP = "import torch, cudalens\n%load_ext cudalens"
SLIDER_SETUP = "import ipywidgets"
SLIDER = "ipywidgets.IntSlider()"
PROFILED = """%%cudaprofile
x = torch.ones(64, 64)
for _ in range(200):
    x = (x @ x).relu() / 64"""
WATCHED_SETUP = f"""{SETUP}
import time
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"""
WATCHED = """%%cudawatch
times, end = [], time.time() + 6
while time.time() < end:
    optimizer.zero_grad()
    model(torch.ones(8, 64)).mean().backward()
    optimizer.step()
    times.append(time.time())
    time.sleep(0.02)
open("first-step", "w").write(str(times[0]))"""
PICTURE = ".jp-OutputArea-output .cudalens-watch[data-state] .cl-watch-content svg"
LIVE = ".cudalens-live .cudalens[data-state=ready]"


_HAS_RUN = "n => /\\d/.test(document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')[n].textContent)"


class Watch:
    """A page and what its console and the processes of the browser show.

    Attributes:
        messages: Errors, warnings and uncaught exceptions.
    """

    def __init__(self, page: Page) -> None:
        self.page = page
        self.messages: list[str] = []
        self._session = page.context.new_cdp_session(page)
        page.on("console", lambda m: self.messages.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.messages.append(str(error)))

    def taken(self) -> dict[str, int]:
        """The messages since the last call, without call stacks and numbers, and how often each occurred."""
        messages, self.messages = self.messages, []
        return dict(Counter(re.sub(r"\d+", "N", message.partition("\n")[0]) for message in messages))

    def heap_mb(self) -> float:
        """Memory of the page's JavaScript and elements in MB, without garbage."""
        self._session.send("HeapProfiler.enable")
        for _ in range(2):
            self._session.send("HeapProfiler.collectGarbage")
        self._session.send("Performance.enable")
        metrics = {one["name"]: one["value"] for one in self._session.send("Performance.getMetrics")["metrics"]}
        return round(metrics["JSHeapUsedSize"] / 1e6, 1)

    def canvas_mb(self) -> float:
        """Pixels of all canvases in MB."""
        pixels = "[...document.querySelectorAll('canvas')].reduce((sum, one) => sum + one.width * one.height, 0)"
        return round(4 * float(self.page.evaluate(pixels)) / 1e6, 1)


def session(lab: Lab, watch: Watch, name: str, cells: list[str]) -> dict[str, Any]:
    """Run a notebook, restart its kernel, reload it and reopen it without a kernel."""
    page = watch.page
    lab.write_notebook(name, PLAIN)
    lab.load(page, name)
    lab.wait_for_kernel(page)
    before = watch.heap_mb()
    lab.write_notebook(name, *cells)
    lab.load(page, name)
    watch.taken()
    lab.wait_for_kernel(page)
    lab.run_all(page)
    page.wait_for_timeout(3_000)
    result: dict[str, Any] = {"cells": watch.taken()}
    result |= {"grown_mb": round(watch.heap_mb() - before, 1), "canvas_mb": watch.canvas_mb()}
    result["num_live"] = page.locator(LIVE).count()
    lab.command(page, "docmanager:save")
    page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart().then(() => null)"
    )
    lab.wait_for_kernel(page)
    page.wait_for_timeout(1_000)
    result["restart"] = watch.taken()
    lab.load(page, name)
    page.wait_for_timeout(3_000)
    result["reload"] = watch.taken()
    page.evaluate("() => window.jupyterapp.serviceManager.sessions.shutdownAll().then(() => null)")
    lab.load(page, name)
    page.wait_for_timeout(3_000)
    result["without_kernel"] = watch.taken()
    return result


KINDS = {
    "plain": [PLAIN, *[PLAIN] * 30, *[PLAIN] * 9],
    "slider": [SLIDER_SETUP, *[SLIDER] * 30, *[PLAIN] * 9],
    "profiled": [SETUP, *[PROFILED] * 30, *[PLAIN] * 9],
}


def session_of(lab: Lab, browser: Browser, kind: str) -> dict[str, Any]:
    """The session of one kind, in a page of its own."""
    page = browser.new_page(viewport={"width": 1300, "height": 1000})
    page.set_default_timeout(240_000)
    result = session(lab, Watch(page), f"{kind}.ipynb", KINDS[kind])
    page.close()
    return result


PARTS = ("cells", "restart", "reload", "without_kernel")


def of_ours(found: dict[str, dict[str, Any]]) -> list[str]:
    """Messages of the session with profiles that neither of the others has in the same part."""
    return [
        f"{part}: {message}"
        for part in PARTS
        for message in found["profiled"][part]
        if message not in found["plain"][part] and message not in found["slider"][part]
    ]


def first_pictures(lab: Lab, page: Page, num_cells: int = 5) -> list[float]:
    """Times from the end of the first step of watched cells to their first pictures on the page, s."""
    lab.write_notebook("watched.ipynb", WATCHED_SETUP, *[WATCHED] * num_cells)
    lab.load(page, "watched.ipynb")
    lab.wait_for_kernel(page)
    page.locator(".jp-CodeCell .cm-content").first.click()
    lab.command(page, "notebook:run-cell-and-select-next")
    times = []
    for number in range(num_cells):
        page.wait_for_function(_HAS_RUN, arg=number)
        lab.command(page, "notebook:run-cell-and-select-next")
        shown = f"n => document.querySelectorAll('{PICTURE}').length > n && Date.now()"
        seen = page.wait_for_function(shown, arg=number, polling=20).json_value() / 1000
        page.wait_for_function(_HAS_RUN, arg=number + 1)
        times.append(round(seen - float((lab.folder / "first-step").read_text()), 2))
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--app", choices=["jupyterlab", "notebook"], default="jupyterlab")
    parser.add_argument("--no-save", action="store_true", help="print the figures only")
    options = parser.parse_args()
    lab_module.TIMEOUT_MS = 240_000
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        root = Path(folder)
        (root / "notebooks").mkdir()
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=["--no-sandbox", "--disable-gpu"])
        with running_lab(root / "notebooks", root / "settings", options.app) as lab:
            found = {kind: session_of(lab, browser, kind) for kind in KINDS}
            pictures = {}
            if options.app == "jupyterlab":
                page = browser.new_page(viewport={"width": 1300, "height": 2000})
                pictures = {"first_pictures_s": first_pictures(lab, page)}
        browser.close()
    conditions = f"{options.app} {version(options.app)}, headless Chromium"
    result: dict[str, Any] = {"conditions": conditions, "ours": of_ours(found), **found, **pictures}
    result["grown_by_profiles_mb"] = round(found["profiled"]["grown_mb"] - found["plain"]["grown_mb"], 1)
    print(json.dumps(result, indent=2))
    if not options.no_save:
        RESULTS.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
