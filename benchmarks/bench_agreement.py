"""`cudalens.benchmark` against `torch.utils.benchmark`: the speedup that each finds for honest pairs, on the CPU.

The pairs are those that tests/unit/fixes/test_benchmark.py accepts. Each tool measures a pair three times, in turns.
The band of a pair is from the smallest to the largest speedup of torch's measurements, wider by a fifth on both sides,
because `cudalens.benchmark` makes other inputs for each run, and `Timer` calls with the same ones.

Usage: ``python benchmarks/bench_agreement.py [NAME ...]``. Exit status 1: the median of a pair is outside of its band.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils.benchmark import Timer

import cudalens

sys.path[:0] = [str(Path(__file__).parents[1] / "tests" / "unit" / "fixes")]

from test_benchmark import HONEST  # noqa: E402

ROUNDS = 3
#: By how much the band of a pair is wider than torch's own measurements.
WIDER = 1.2


def main(chosen: list[str]) -> int:
    """Measure the pairs, and print a line for each and the total."""
    torch.set_num_threads(1)
    outside = num_pairs = 0
    for name, (a, b, inputs) in HONEST.items():
        if chosen and name not in chosen:
            continue
        num_pairs += 1
        ours, theirs = [], []
        for _ in range(ROUNDS):
            theirs.append(torch_speedup(a, b, inputs))
            found = cudalens.benchmark(a, b, inputs)
            if found.speedup is not None:
                ours.append(found.speedup)
        low, high = min(theirs) / WIDER, max(theirs) * WIDER
        median = statistics.median(ours) if ours else float("nan")
        is_inside = low <= median <= high
        outside += not is_inside
        numbers = f"cudalens {median:6.2f}, torch {statistics.median(theirs):6.2f} (band {low:.2f} to {high:.2f})"
        print(f"{'ok' if is_inside else '!!'} {name:22} {numbers}", flush=True)
    print(f"{num_pairs - outside} of {num_pairs} pairs within the band")
    return 1 if outside or not num_pairs else 0


def torch_speedup(a: Callable[..., Any], b: Callable[..., Any], inputs: Any) -> float:
    """The speedup of `b` by `torch.utils.benchmark`."""
    args = inputs() if callable(inputs) else inputs
    times = [
        Timer("f(*args)", globals={"f": f, "args": args}).blocked_autorange(min_run_time=0.1).median for f in (a, b)
    ]
    return times[0] / times[1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
