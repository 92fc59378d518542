"""A million events in the timeline: packing, first paint, and how smoothly it pans and zooms in headless Chromium.

Run ``python benchmarks/bench_timeline.py [--events N]``; the figures go to ``benchmarks/results/timeline.json``. What
must hold: median frame at most 17 ms and worst 33 ms, 5 ms of the median script; first paint within 1 s of live data
and 2 s of compressed data; at most 3.2 bytes an event, so that a report of a million events stays under 5 MB.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
from browsers import chromium_path
from playwright.sync_api import sync_playwright

from cudalens import Trace
from cudalens.frames import RunInfo, build_events
from cudalens.views.timeline.payload import pack

VIEWS = Path(__file__).parents[1] / "cudalens" / "views"
RESULTS = Path(__file__).parent / "results" / "timeline.json"
FRAMES = 360

PAGE = """<!doctype html><meta charset="utf-8"><body class="cudalens"><div id="root"></div><script type="module">
import { decodePayload } from "/js/payload/payload.js";
import { createTimeline } from "/js/timeline/timeline.js";
const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
window.open_ = async (name) => {
  const bytes = new Uint8Array(await (await fetch(name)).arrayBuffer());
  document.getElementById("root").replaceChildren();
  const t0 = performance.now();
  const data = await decodePayload(bytes);
  const t1 = performance.now();
  window.timeline = createTimeline(document.getElementById("root"), data, { theme: "light" });
  await painted();
  const t2 = performance.now();
  await data.detailsReady;
  return { decode_ms: t1 - t0, first_paint_ms: t2 - t0, num_events: data.n };
};
window.drive = async (frames) => {
  const canvas = document.querySelector("canvas");
  const box = canvas.getBoundingClientRect();
  const before = timeline.stats().script.length;
  const gaps = [];
  let last = await new Promise(requestAnimationFrame);
  for (let k = 0; k < frames; k++) {
    // Zoom in by 2000 and out again, then pan to and fro; by the same wheel events that a mouse makes.
    const isZoom = k < frames / 2;
    const deltaY = isZoom ? (k % 180 < 90 ? -38 : 38) : 0;
    const deltaX = isZoom ? 0 : (k % 120 < 60 ? 40 : -40);
    canvas.dispatchEvent(new WheelEvent("wheel", { deltaY, deltaX: 0, ctrlKey: isZoom, bubbles: true, cancelable: true,
      clientX: box.left + box.width * 0.6, clientY: box.top + 200 }));
    if (!isZoom) {
      const [a, b] = timeline.getView();
      const by = ((b - a) * deltaX) / 1000;
      timeline.zoomTo(a + by, b + by);
    }
    const now = await new Promise(requestAnimationFrame);
    gaps.push(now - last);
    last = now;
  }
  return { gaps, script: timeline.stats().script.slice(before) };
};
window.isReady = true;
</script></body>"""


def many_events(num: int, seed: int = 0) -> Trace:
    """A trace of about `num` events: training steps on two host threads with call trees, and three device streams."""
    rng = np.random.default_rng(seed)
    shape = _step_shape(rng)
    per_step = sum(len(part["depth"]) for part in shape) + sum(int(part["launches"].sum()) for part in shape)
    columns: dict[str, list[np.ndarray]] = {
        key: [] for key in ("ts", "dur", "name", "cat", "device", "stream", "tid", "cid")
    }
    clock, cid, free = 0, 1, np.zeros(3, np.int64)
    for _ in range(max(1, round(num / per_step))):
        ends = []
        for tid, part in enumerate(shape):
            start, dur = _unfold(part, rng)
            start += clock
            ends.append(int(start[0] + dur[0]))
            calls = np.flatnonzero(part["launches"])
            ids = np.full(len(start), -1, np.int64)
            ids[calls] = np.arange(cid, cid + len(calls))
            cid += len(calls)
            _append(columns, start, dur, part["name"], part["cat"], -1, -1, tid + 1, ids)
            _append_kernels(columns, part, calls, start, ids, free, rng)
        clock = max(ends) + int(rng.integers(5_000, 50_000))
    return _trace({key: np.concatenate(parts) for key, parts in columns.items()})


NAMES = [f"aten::op_{k}" for k in range(240)] + [
    "cudaLaunchKernel",
    "cudaMemcpyAsync",
    "ProfilerStep#1",
    "autograd::engine",
]
KERNELS = [f"void at::native::kernel_{k}<float, {k % 7}>(int, float*)" for k in range(120)] + [
    "ncclDevKernel_AllReduce",
    "Memcpy HtoD",
]


def _step_shape(rng: np.random.Generator) -> list[dict[str, np.ndarray]]:
    """The two call trees of a step, one a thread: depth, name, launches or not, typical gap and tail in ns."""
    shape = []
    for num, top in ((5200, 242), (3900, 243)):
        depth = np.zeros(num, np.int64)
        for i in range(1, num):
            depth[i] = 1 + max(
                0, min(depth[i - 1] + rng.choice([0, 1, -1, -2, -3], p=[0.36, 0.33, 0.17, 0.08, 0.06]), 11)
            )
        leaf = np.append(depth[1:] <= depth[:-1], True)
        launches = leaf & (rng.random(num) < 0.3)
        name = np.where(launches, 240 + (rng.random(num) < 0.08), rng.zipf(1.4, num) % 240)
        name[0] = top
        cat = np.where(launches, 1, 0)
        cat[0] = 2
        shape.append({"depth": depth, "name": name, "cat": cat, "launches": launches,
                      "gap": rng.lognormal(6.6, 0.9, num), "tail": rng.lognormal(7.6, 1.0, num)})  # fmt: skip
        shape[-1]["kernel"] = rng.integers(0, len(KERNELS), num)
        shape[-1]["stream"] = rng.choice(3, num, p=[0.8, 0.15, 0.05])
    return shape


def _unfold(part: dict[str, np.ndarray], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Start and duration, ns, of one run through a call tree, with the spread of real clocks."""
    num = len(part["depth"])
    gap = (part["gap"] * rng.lognormal(0, 0.35, num)).astype(np.int64)
    tail = (part["tail"] * rng.lognormal(0, 0.3, num)).astype(np.int64)
    start, end, now, opened = np.zeros(num, np.int64), np.zeros(num, np.int64), 0, []
    for i, depth in enumerate(part["depth"].tolist()):
        while len(opened) > depth:
            j = opened.pop()
            now = end[j] = now + tail[j]
        now = start[i] = now + gap[i]
        opened.append(i)
    while opened:
        j = opened.pop()
        now = end[j] = now + tail[j]
    return start, end - start


def _append(columns, start, dur, name, cat, device, stream, tid, cid):
    num = len(start)
    for key, value in zip(columns, (start, dur, name, cat, device, stream, tid, cid), strict=True):
        columns[key].append(np.broadcast_to(value, num).astype(np.int64))


def _append_kernels(columns, part, calls, start, ids, free, rng):
    """Device work of the launches `calls`: each stream runs one after the other."""
    for stream in range(3):
        mine = calls[part["stream"][calls] == stream]
        kernel = part["kernel"][mine]
        dur = (2000 * (1 + kernel % 13) * rng.lognormal(0, 0.1, len(mine))).astype(np.int64)
        begin = start[mine] + rng.integers(2_000, 9_000, len(mine))
        for k in range(len(mine)):
            begin[k] = max(begin[k], free[stream])
            free[stream] = begin[k] + dur[k] + 900
        cat = np.where(kernel == 121, 4, 3)
        _append(columns, begin, dur, len(NAMES) + kernel, cat, 0, (7, 20, 21)[stream], -1, ids[mine])


def _trace(columns: dict[str, np.ndarray]) -> Trace:
    cats = ["cpu_op", "cuda_runtime", "user_annotation", "kernel", "gpu_memcpy"]

    def known(key: str, dtype: str):
        return pd.Series(np.where(columns[key] < 0, 0, columns[key])).astype(dtype).mask(columns[key] < 0).array

    events = build_events(
        {
            "ts": columns["ts"] + 1_700_000_000_000_000_000,
            "dur": columns["dur"],
            "name": pd.Categorical.from_codes(columns["name"], NAMES + KERNELS),
            "cat": pd.Categorical.from_codes(columns["cat"], cats),
            "device": known("device", "Int32"),
            "stream": known("stream", "Int64"),
            "pid": known("tid", "Int64"),
            "tid": known("tid", "Int64"),
            "correlation_id": known("cid", "Int64"),
        }
    )
    return Trace(RunInfo(name="bench", source="file:bench"), events=events)


def measure(payloads: dict[str, bytes]) -> dict:
    """First paint of each payload, then frames of scripted zooming and panning over the last one."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.on("pageerror", lambda error: sys.exit(f"page error: {error}"))
        page.route("**/*", lambda route: _answer(route, payloads))
        page.goto("http://cudalens.test/page")
        page.wait_for_function("window.isReady")
        opened = {name: page.evaluate("name => open_(name)", f"/data/{name}") for name in payloads}
        page.evaluate("drive(60)")
        frames = page.evaluate("frames => drive(frames)", FRAMES)
        version = browser.version
        browser.close()
    return {"opened": opened, "frames": _frame_figures(frames), "browser": f"Chromium {version}"}


def _answer(route, payloads):
    url = route.request.url
    path = urlsplit(url).path
    if path.startswith(("/js/", "/css/")):
        kind = "application/json" if path.endswith(".json") else "text/javascript"
        route.fulfill(body=(VIEWS / path.lstrip("/")).read_bytes(), content_type=kind)
    elif "/data/" in url:
        route.fulfill(body=payloads[url.rsplit("/", 1)[1]], content_type="application/octet-stream")
    else:
        route.fulfill(body=PAGE if url.endswith("/page") else "", content_type="text/html")


def _frame_figures(frames: dict) -> dict:
    gaps, script = sorted(frames["gaps"]), sorted(frames["script"])
    return {
        "num_frames": len(gaps),
        "frame_median_ms": statistics.median(gaps),
        "frame_p99_ms": gaps[int(len(gaps) * 0.99)],
        "frame_worst_ms": gaps[-1],
        "script_median_ms": statistics.median(script),
        "script_worst_ms": script[-1],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    arguments = parser.parse_args()
    trace = many_events(arguments.events)
    t0 = time.perf_counter()
    packed = pack(trace, max_bytes=3_200_000)
    t1 = time.perf_counter()
    live = pack(trace, compress=False)
    t2 = time.perf_counter()
    figures = measure({"packed": packed, "live": live})
    result = {
        "conditions": "2 cores, headless Chromium, software rendering, 1280 x 720 at 1 device pixel a px",
        "num_events": len(trace),
        "pack_s": round(t1 - t0, 3),
        "pack_live_s": round(t2 - t1, 3),
        "payload_bytes": len(packed),
        "bytes_per_event": round(len(packed) / len(trace), 3),
        "base64_bytes": 4 * -(-len(packed) // 3),
        **figures,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
