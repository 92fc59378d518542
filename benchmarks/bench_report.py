"""The offline report of a million events: how long it takes to write, how long it is, and when it is on screen.

    python benchmarks/bench_report.py [--events N] [--file TRACE] [--runs N]

`--file` takes a recorded trace instead of the made one. Chromium opens the file from disk with the network off; the
time to first paint runs from the navigation's start to the frame that shows the timeline.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from browsers import chromium_path

from cudalens.analysis import key_averages
from cudalens.frames import RunInfo, Trace, build_events, categorical
from cudalens.views.sections import page as text
from cudalens.views.timeline import payload
from cudalens.views.timeline.svg import timeline_svg

LIMIT_BYTES = 5_000_000
LIMIT_PAINT_MS = 2_000


def made_trace(num_events: int) -> Trace:
    """Nested operators, runtime calls and kernels with random times; 401 names, a thread and two streams."""
    rng = np.random.default_rng(0)
    quarter = num_events // 4
    cpu = rng.integers(3_000, 60_000, quarter)
    start = np.cumsum(cpu + rng.integers(500, 4_000, quarter)) - cpu
    code = rng.integers(0, 200, quarter)
    names = [f"aten::op_{k}" for k in range(200)] + [f"kernel_{k}<float>" for k in range(200)] + ["cudaLaunchKernel"]
    device = np.repeat([False, False, False, True], quarter)
    launch = np.repeat([False, False, True, True], quarter)
    gpu = np.minimum(rng.integers(2_000, 50_000, quarter), cpu)
    return Trace(
        RunInfo(name="made", source="cuda"),
        events=build_events(
            {
                "ts": np.concatenate([start, start + 500, start + 1_000, start + 3_000]),
                "dur": np.concatenate([cpu, cpu - 900, np.full(quarter, 1_500), gpu]),
                "name": categorical(np.concatenate([code, (code + 1) % 200, np.full(quarter, 400), 200 + code]), names),
                "cat": categorical(np.repeat([0, 0, 1, 2], quarter), ["cpu_op", "cuda_runtime", "kernel"]),
                "device": pd.arrays.IntegerArray(np.zeros(4 * quarter, np.int32), ~device),
                "stream": pd.arrays.IntegerArray(np.tile(7 + np.arange(quarter) % 2 * 6, 4), ~device),
                "pid": pd.arrays.IntegerArray(np.full(4 * quarter, 100), device),
                "tid": pd.arrays.IntegerArray(np.full(4 * quarter, 1), device),
                "correlation_id": pd.arrays.IntegerArray(np.tile(np.arange(quarter), 4), ~launch),
            }
        ),
    )


def timed(function, runs: int) -> float:
    """Median seconds of `runs` calls."""
    taken = []
    for _ in range(runs):
        begin = time.perf_counter()
        function()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def paint_ms(path: Path, runs: int) -> dict[str, float]:
    """Median milliseconds from opening `path` to the static part, the timeline, and all panels."""
    from playwright.sync_api import sync_playwright

    seen: dict[str, list[float]] = {"static part": [], "timeline": [], "all panels": []}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=["--no-sandbox", "--disable-gpu"])
        for _ in range(runs):
            context = browser.new_context(offline=True)
            page = context.new_page()
            page.goto(path.as_uri(), wait_until="commit")
            page.wait_for_function("() => performance.getEntriesByName('cudalens-painted').length", timeout=120_000)
            page.wait_for_selector(".cudalens[data-state=ready]", timeout=120_000)
            seen["all panels"].append(page.evaluate("() => performance.now()"))
            seen["timeline"].append(
                page.evaluate("() => performance.getEntriesByName('cudalens-painted')[0].startTime")
            )
            seen["static part"].append(
                page.evaluate("() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN")
            )
            context.close()
        browser.close()
    return {what: statistics.median(values) for what, values in seen.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--file", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    if options.file:
        from cudalens.traces import load

        trace = load(options.file)
    else:
        trace = made_trace(options.events)
    print(f"{len(trace):,} events")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        print(f"write the report      {timed(lambda: trace.to_html(path), options.runs):7.2f} s")
        for what, part in (
            ("pack the columns", lambda: payload.pack(trace)),
            ("average by name", lambda: key_averages(trace)),
            ("say the summary", lambda: str(text.summary(trace))),
            ("draw the picture", lambda: timeline_svg(trace)),
        ):
            print(f"  {what:<20}{timed(part, options.runs):7.2f} s")
        size = path.stat().st_size
        print(f"length                {size / 1e6:7.2f} MB ({size / LIMIT_BYTES:.0%} of the limit)")
        for what, taken in paint_ms(path, options.runs).items():
            limit = f" ({taken / LIMIT_PAINT_MS:.0%} of the limit)" if what == "timeline" else ""
            print(f"on screen: {what:<11}{taken:7.0f} ms{limit}")


if __name__ == "__main__":
    main()
