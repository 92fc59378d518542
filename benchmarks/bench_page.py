"""The report of a million events in headless Chromium: CPU time of each frame of pan, zoom, selection and flame graph.

    python benchmarks/bench_page.py [--events N] [--no-save]

What must hold: 17 ms of the median frame and 33 ms of the worst, the flame graph within 1 s, a file below 5 MB. The CPU
time is that of the page's main thread, from Chromium's own tracing, so other programs on the machine hardly change it;
the time between frames is wall time. The figures go to ``benchmarks/results/page.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench_timeline import many_events
from playwright.sync_api import Browser, Page, sync_playwright

RESULTS = Path(__file__).parent / "results" / "page.json"
MARK = "cudalens-frame"
CATEGORIES = ["toplevel", "devtools.timeline", "blink.user_timing"]
TIMEOUT_MS = 300_000

#: A gesture is a function of the number of the frame; each frame carries out one step of it.
GESTURES = """
(() => {
  const app = cudalensReport;
  const canvas = document.querySelector(".cl-timeline canvas");
  const fire = (type, x, y, more = {}) => {
    const box = canvas.getBoundingClientRect();
    const at = { clientX: box.left + x, clientY: box.top + y, bubbles: true, cancelable: true, pointerId: 1, ...more };
    canvas.dispatchEvent(type === "wheel" ? new WheelEvent(type, at) : new PointerEvent(type, at));
  };
  canvas.setPointerCapture = () => {};
  const press = (host, text) => [...host.querySelectorAll("button")].find((one) => one.textContent === text).click();
  const gestures = {
    zoom: (k) => fire("wheel", 700, 200, { deltaY: k % 180 < 90 ? -38 : 38, ctrlKey: true }),
    pan: (k) => {
      if (k % 60 === 0) fire("pointerdown", 300, 200);
      fire("pointermove", 300 + (k % 60) * 8, 200);
      if (k % 60 === 59) fire("pointerup", 780, 200);
    },
    // Ten drags over a tenth to most of the trace: every tenth frame, the selection changes.
    selection: (k) => {
      if (k % 10 === 0) fire("pointerdown", 300, 40, { shiftKey: true });
      fire("pointermove", 300 + (k % 10) * (5 + k / 2), 40, { shiftKey: true });
      if (k % 10 === 9) fire("pointerup", 300 + 9 * (5 + k / 2), 40);
    },
    // Every tenth frame another event is selected, a step with all below it among them.
    event: (k) => {
      if (k % 10) return;
      app.selection.set({ event: Math.floor((k * app.data.n) / 180), range: null, names: null }, "bench");
    },
    flame: (k) => {
      const { flame } = app.panels;
      if (k % 10 === 0) flame.flame.zoom(k % 20 ? 0 : 1 + (k % flame.paths.parent.length));
      if (k % 10 === 5) flame.setWeight(k % 20 === 5 ? "host" : "device");
    },
  };
  window.play = async (name, frames) => {
    const gaps = [];
    let last = await new Promise(requestAnimationFrame);
    for (let k = 0; k < frames; k++) {
      performance.mark(`cudalens-frame ${name} ${k}`);
      gestures[name](k);
      const now = await new Promise(requestAnimationFrame);
      gaps.push(now - last);
      last = now;
    }
    performance.mark(`cudalens-frame end ${frames}`);
    return gaps;
  };
  window.openFlame = async () => {
    performance.mark("cudalens-frame flame_open 0");
    const began = performance.now();
    press(document, "Flame graph");
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    performance.mark("cudalens-frame end 1");
    return performance.now() - began;
  };
})();
"""


def main_thread_tasks(trace: dict[str, Any]) -> tuple[list[tuple[float, float]], list[tuple[float, str]]]:
    """(end, CPU time) of each task of the page's main thread, and (time, name) of its marks, in µs."""
    events = trace["traceEvents"]
    marks = sorted((e["ts"], e["name"]) for e in events if str(e.get("name", "")).startswith(MARK))
    first = next(e for e in events if str(e.get("name", "")).startswith(MARK))
    tasks = [
        (e["ts"] + e["dur"], e.get("tdur", e["dur"]))
        for e in events
        if e.get("ph") == "X"
        and e["name"] == "ThreadControllerImpl::RunTask"
        and (e["pid"], e["tid"]) == (first["pid"], first["tid"])
    ]
    return sorted(tasks), marks


def cpu_of_frames(trace: dict[str, Any]) -> list[float]:
    """CPU time between each mark and the next, ms."""
    tasks, marks = main_thread_tasks(trace)
    frames = []
    for (begin, name), (until, _) in pairwise(marks):
        if " end " not in name:
            # The task that holds a mark belongs to the frame that begins there.
            frames.append(sum(cpu for end, cpu in tasks if begin <= end < until) / 1000)
    return frames


def traced(browser: Browser, page: Page, script: str, *arguments: Any) -> tuple[Any, list[float]]:
    """What `script` returns, and the CPU time of its frames."""
    browser.start_tracing(page=page, categories=CATEGORIES)
    value = page.evaluate(script, *arguments)
    return value, cpu_of_frames(json.loads(browser.stop_tracing()))


def figures_of(cpu: list[float], gaps: list[float]) -> dict[str, float]:
    """Median and worst CPU time, and median time between frames, ms."""
    return {
        "num_frames": len(cpu),
        "cpu_median_ms": round(statistics.median(cpu), 2),
        "cpu_worst_ms": round(max(cpu), 2),
        "gap_median_ms": round(statistics.median(gaps), 2),
        "gap_worst_ms": round(max(gaps), 2),
    }


def measure(path: Path) -> dict[str, Any]:
    """All figures of the report `path`."""
    chromium = os.environ.get("CUDALENS_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(TIMEOUT_MS)
        page.goto(path.as_uri())
        page.wait_for_selector(".cudalens[data-state=ready]")
        result: dict[str, Any] = {
            "painted_ms": page.evaluate("performance.getEntriesByName('cudalens-painted')[0].startTime"),
            "ready_ms": page.evaluate("performance.now()"),
        }
        page.evaluate(GESTURES)
        for name in ("zoom", "pan", "selection", "event"):
            gaps, cpu = traced(browser, page, "name => play(name, 180)", name)
            result[name] = figures_of(cpu, gaps)
            page.evaluate("cudalensReport.selection.clear('bench')")
        wall, cpu = traced(browser, page, "openFlame()")
        result["flame_open"] = {"cpu_ms": round(sum(cpu), 1), "wall_ms": round(wall, 1)}
        gaps, cpu = traced(browser, page, "name => play(name, 180)", "flame")
        result["flame"] = figures_of(cpu, gaps)
        result["heap_mb"] = round(page.evaluate("performance.memory.usedJSHeapSize") / 1e6, 1)
        result["browser"] = f"Chromium {browser.version}"
        browser.close()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--no-save", action="store_true", help="print the figures only")
    options = parser.parse_args()
    trace = many_events(options.events)
    with tempfile.TemporaryDirectory() as folder:
        path = trace.to_html(Path(folder) / "report.html")
        result = {
            "conditions": "2 cores, headless Chromium, software rendering, 1280 x 900 at 1 device pixel a px; "
            "CPU time of the page's main thread",
            "num_events": len(trace),
            "load": round(os.getloadavg()[0], 1),
            "report_bytes": path.stat().st_size,
            **measure(path),
        }
    print(json.dumps(result, indent=2))
    if not options.no_save:
        RESULTS.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
