"""Writing ``.json.gz`` of 100,000 live events: `Trace.to_chrome` against torch's ``export_chrome_trace``.

One process, one run of the profiler, both writers in turn; medians. What must hold: at least 8 times faster. Usage:
``python benchmarks/bench_write.py [events] [rounds]``. Results go to ``benchmarks/results/write.json``.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

import cudalens
from cudalens.traces.export.chrome import GZIP_LEVEL

HERE = Path(__file__).parent


def profiled(num_steps: int) -> torch.profiler.profile:
    layer = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.LayerNorm(8))
    x = torch.randn(2, 8)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as prof:
        for _ in range(num_steps):
            layer(x).sum().backward()
    return prof


def timed(call) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def main(num_events: int = 100_000, rounds: int = 3) -> int:
    per_step = len(profiled(50).profiler.kineto_results.events()) / 50
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as name:
        for i in range(rounds):
            # torch can save the results of a run only once: a run per round.
            prof = profiled(int(num_events / per_step))
            path, mine_path = Path(name) / f"theirs{i}.json.gz", Path(name) / f"ours{i}.json.gz"
            theirs.append(timed(lambda prof=prof, path=path: prof.export_chrome_trace(str(path))))
            trace = cudalens.load(path)
            ours += [timed(lambda trace=trace, path=mine_path: trace.to_chrome(path)) for _ in range(2)]
        sizes = {"cudalens": mine_path.stat().st_size, "torch": path.stat().st_size}
    mine, peer = statistics.median(ours), statistics.median(theirs)
    result = {
        "events": len(trace),
        "cudalens_s": round(mine, 4),
        "torch_s": round(peer, 4),
        "times_faster": round(peer / mine, 2),
        "cudalens_us_per_event": round(mine / len(trace) * 1e6, 3),
        "torch_us_per_event": round(peer / len(trace) * 1e6, 3),
        "file_bytes": sizes,
        "gzip_level": GZIP_LEVEL,
        "wanted": {"times_faster": 8},
        "all_runs": {"cudalens": ours, "torch": theirs},
        "conditions": {
            "torch": torch.__version__,
            "python": platform.python_version(),
            "cores": os.cpu_count(),
            "load_average": os.getloadavg(),
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
        },
    }
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "write.json").write_text(json.dumps(result, indent=2) + "\n")
    print(f"{len(trace):,} events: cudalens {mine:.2f} s, {sizes['cudalens'] / 1e6:.1f} MB")
    print(f"torch {peer:.2f} s, {sizes['torch'] / 1e6:.1f} MB; {peer / mine:.1f} times faster")
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
