"""What ``%%cudaprofile`` costs inside the cell, over bare ``torch.profiler`` with the same options.

One process, the same training step in turns, timed by the cell itself. Three estimates of one ratio: of the medians, of
each pair, and of the quickest runs, which a busy machine disturbs least.
"""

from __future__ import annotations

import json
import statistics
import sys

from IPython.core.interactiveshell import InteractiveShell

SETUP = """
import time, torch
from torch.profiler import ProfilerActivity
torch.set_num_threads(1)
model = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), 2)
x = torch.randn(32, 16, 64)
options = dict(record_shapes=True, profile_memory=True)
times = {"magic": [], "torch": []}
"""
STEP = """
begin = time.perf_counter()
for _ in range(10):
    model(x).sum().backward()
times["WHO"].append(time.perf_counter() - begin)
"""
MAGIC = "%%cudaprofile bench -q --memory --shapes" + STEP.replace("WHO", "magic")
BARE = "with torch.profiler.profile(activities=[ProfilerActivity.CPU], **options):" + STEP.replace(
    "WHO", "torch"
).replace("\n", "\n    ")
LIMIT = 1.05


def main(repeats: int = 25) -> int:
    """Measure, print, and say by the exit code whether the magic stays within its limit."""
    shell = InteractiveShell()
    shell.run_line_magic("load_ext", "cudalens")
    for cell in (SETUP, MAGIC, BARE, "times['magic'].clear(), times['torch'].clear();"):
        shell.run_cell(cell).raise_error()
    for number in range(repeats):
        for cell in (MAGIC, BARE) if number % 2 else (BARE, MAGIC):
            shell.run_cell(cell).raise_error()
    times = shell.user_ns["times"]
    pairs = [magic / bare for magic, bare in zip(times["magic"], times["torch"], strict=True)]
    medians = {who: statistics.median(values) for who, values in times.items()}
    ratio = medians["magic"] / medians["torch"]
    result = {f"{who}_ms": round(1000 * value, 2) for who, value in medians.items()}
    estimates = {
        "ratio": ratio,
        "median_of_pairs": statistics.median(pairs),
        "ratio_of_best": min(times["magic"]) / min(times["torch"]),
    }
    print(json.dumps(result | {name: round(value, 3) for name, value in estimates.items()}))
    return 0 if min(estimates.values()) <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
