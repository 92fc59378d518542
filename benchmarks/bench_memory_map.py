"""The memory map: packing, opening, and how smoothly it draws 100,000 blocks and 600,000 actions in headless Chromium.

Run ``python benchmarks/bench_memory_map.py``; the figures go to ``benchmarks/results/memory_map.json``. What must hold:
median frame at most 17 ms while the map of 100,000 blocks is zoomed and scrolled, and while a history of 600,000
actions is scrubbed and zoomed; the report of those 600,000 below 5 MB and on screen within 3 s, offline.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from browsers import chromium_path
from playwright.sync_api import sync_playwright
from snapshots_made import training_snapshot

from cudalens import Trace
from cudalens.frames import RunInfo
from cudalens.frames.snapshots.build import snapshot_frames
from cudalens.views.memory.map_payload import pack

RESULTS = Path(__file__).parent / "results" / "memory_map.json"
FRAMES = 240
MIB = 1 << 20
READY = ".cudalens[data-state=ready]"

DRIVE = """async ([what, frames]) => {
  const map = cudalensReport.panels.memoryMap;
  const canvas = document.querySelector("#cudalens-app .mm-canvas");
  const scroller = document.querySelector("#cudalens-app .mm-scroll");
  const box = canvas.getBoundingClientRect();
  const source = what === "curve" ? map.curve : map.pool;
  const rows = map.data.numRows;
  const [gaps, script] = [[], []];
  if (what === "scroll") map.pool.zoomBy(20);
  let last = await new Promise(requestAnimationFrame);
  for (let k = 0; k < frames; k++) {
    const turn = k % 120;
    const began = performance.now();
    const wheel = { ctrlKey: true, bubbles: true, cancelable: true, clientX: box.left + 600, clientY: box.top + 200 };
    if (what === "zoom") canvas.dispatchEvent(new WheelEvent("wheel", { ...wheel, deltaY: turn < 60 ? -16 : 16 }));
    if (what === "scroll") scroller.scrollTop += turn < 60 ? 40 : -40;
    if (what === "scrub") map.showMoment(Math.floor((rows * (k + 1)) / (frames + 1)));
    if (what === "curve") {
      const [a, b] = map.curve.getView();
      const by = ((b - a) * (turn < 60 ? 0.03 : -0.03)) / 2;
      map.curve.zoomTo([a + by, b - by]);
    }
    const asked = performance.now() - began;
    const drawn = source.stats().script.length;
    const now = await new Promise(requestAnimationFrame);
    await new Promise((done) => setTimeout(done));
    script.push(asked + source.stats().script.slice(drawn).reduce((sum, ms) => sum + ms, 0));
    gaps.push(now - last);
    last = now;
  }
  return { gaps, script };
}"""


def many_blocks(num: int, seed: int = 0) -> dict[str, Any]:
    """A snapshot of `num` blocks in segments of 50, on four streams, a third of the memory free."""
    draw = random.Random(seed)
    stacks = [[{"filename": f"/app/f{k}.py", "name": f"f{k}", "line": k + 1}] for k in range(200)]
    segments, base = [], 0x7F0000000000
    for first in range(0, num, 50):
        blocks, at = [], base
        for _ in range(50):
            size = 512 * draw.randint(1, 4000)
            is_free = draw.random() < 1 / 3 and not (blocks and blocks[-1]["state"] == "inactive")
            state = "inactive" if is_free else "active_allocated"
            blocks.append({"address": at, "size": size, "requested_size": 0 if is_free else size, "state": state})
            blocks[-1]["frames"] = [] if is_free else draw.choice(stacks)
            at += size
        segments.append({"device": 0, "address": base, "total_size": at - base, "stream": first // 50 % 4 * 16})
        segments[-1] |= {"segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False, "blocks": blocks}
        segments[-1] |= {"allocated_size": 0, "active_size": 0, "requested_size": 0, "frames": []}
        base = at + MIB
    return {"segments": segments, "device_traces": []}


def trace_of(snapshot: dict[str, Any], name: str) -> Trace:
    """The Trace of a snapshot, as `cudalens.load` makes it of a file."""
    found = snapshot_frames(snapshot)
    info = RunInfo(name=name, source="file:torch_snapshot", options=found.options, extra=found.extra)
    return Trace(info, **found.frames)


def measure(page: Any, what: str) -> dict[str, float]:
    """Frames of one kind of movement, ms."""
    found = page.evaluate(DRIVE, [what, FRAMES])
    gaps, script = (sorted(found[name][5:]) for name in ("gaps", "script"))
    return {
        "median_frame_ms": round(statistics.median(gaps), 2),
        "p95_frame_ms": round(gaps[int(len(gaps) * 0.95)], 2),
        "median_script_ms": round(statistics.median(script), 2),
        "p95_script_ms": round(script[int(len(script) * 0.95)], 2),
    }


def run(trace: Trace, browser: Any, folder: Path, movements: tuple[str, ...]) -> dict[str, Any]:
    """Pack, write the report, open it without a network, and move."""
    began = time.perf_counter()
    packed = pack(trace)
    pack_s = time.perf_counter() - began
    began = time.perf_counter()
    path = trace.to_html(folder / f"{trace.info.name}.html")
    write_s = time.perf_counter() - began
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    context.set_offline(True)
    page = context.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector(READY)
    painted = page.evaluate("performance.getEntriesByName('cudalens-painted')[0].startTime")
    moves = {what: measure(page, what) for what in movements}
    context.close()
    return {
        "blocks": len(trace.blocks),
        "actions": len(trace.memory),
        "payload_bytes": len(packed),
        "pack_s": round(pack_s, 2),
        "report_bytes": path.stat().st_size,
        "report_s": round(write_s, 2),
        "painted_ms": round(painted),
        **moves,
    }


def main() -> int:
    """Measure, print, write the results, and say by the exit code whether they hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=100_000)
    parser.add_argument("--actions", type=int, default=600_000)
    arguments = parser.parse_args()
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as name:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=["--no-sandbox", "--disable-gpu"])
        blocks = run(trace_of(many_blocks(arguments.blocks), "blocks"), browser, Path(name), ("zoom", "scroll"))
        history = trace_of(training_snapshot(arguments.actions), "history")
        actions = run(history, browser, Path(name), ("scrub", "curve"))
        browser.close()
    medians = [found[what]["median_frame_ms"] for found in (blocks, actions) for what in found if what in MOVES]
    limits = {"median_frame_ms": 17, "report_bytes": 5_000_000, "painted_ms": 3000}
    holds = max(medians) <= 17 and actions["report_bytes"] < 5_000_000 and actions["painted_ms"] <= 3000
    result = {"blocks": blocks, "actions": actions, "wanted": limits, "holds": holds, "cpus": os.cpu_count()}
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=1))
    return 0 if holds else 1


MOVES = ("zoom", "scroll", "scrub", "curve")

if __name__ == "__main__":
    sys.exit(main())
