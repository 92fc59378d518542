"""Every analysis on one trace of a million events: each wants less than 2 s, all together less than 10 s.

Each analysis runs once in each of several fresh processes (what one remembers helps no other process); wall time is
that of the call alone. Where HolisticTraceAnalysis 0.5 has an analysis of the same kind, it runs on the same file in
the same round, in its own environment (``.venv-hta``, see bench_parse.py), after its own parsing.

Usage: ``python benchmarks/bench_analyses.py [events] [rounds]``. Results go to ``benchmarks/results/analyses.json``.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from chrome_traces import write_chrome_trace

HERE = Path(__file__).parent
PEER = HERE.parent / ".venv-hta" / "bin" / "python"
NAMES = (
    "device_time",
    "temporal_breakdown",
    "idle_time",
    "idle_causes",
    "launch_statistics",
    "launch_summary",
    "queue_lengths",
    "kernel_breakdown",
    "op_breakdown",
    "communication_overlap",
    "collectives",
    "memcpy_bandwidth",
    "kernel_sequences",
    "roofline",
    "key_averages",
    "critical_path",
    "call_tree",
    "flame_graph",
    "attribution",
    "findings",
    "trust",
)
OURS = """
import json, resource, sys, time
import cudalens
from cudalens import analysis
trace = cudalens.load(sys.argv[1])
took = {}
for name in json.loads(sys.argv[2]):
    if hasattr(analysis, name):
        began = time.perf_counter()
        getattr(analysis, name)(trace)
        took[name] = time.perf_counter() - began
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps(took | {"peak_mib": peak}))
"""
THEIRS = """
import json, logging, sys, time
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
hta = TraceAnalysis(trace_files={0: sys.argv[1]})
calls = {
    "temporal_breakdown": lambda: hta.get_temporal_breakdown(visualize=False),
    "idle_causes": lambda: hta.get_idle_time_breakdown(ranks=[0], visualize=False),
    "kernel_breakdown": lambda: hta.get_gpu_kernel_breakdown(visualize=False),
    "communication_overlap": lambda: hta.get_comm_comp_overlap(visualize=False),
    "launch_statistics": lambda: hta.get_cuda_kernel_launch_stats(ranks=[0], visualize=False),
    "queue_lengths": lambda: hta.get_queue_length_time_series(ranks=[0]),
    "memcpy_bandwidth": lambda: hta.get_memory_bw_summary(ranks=[0]),
}
took = {}
for name, call in calls.items():
    began = time.perf_counter()
    try:
        call()
        took[name] = time.perf_counter() - began
    except Exception as error:
        print(name, type(error).__name__, str(error)[:200], file=sys.stderr)
print(json.dumps(took))
"""


def measure(python: str, code: str, *arguments: str) -> dict[str, float]:
    done = subprocess.run([python, "-c", code, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{python} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def median(runs: list[dict[str, float]]) -> dict[str, float]:
    return {key: round(statistics.median(run[key] for run in runs if key in run), 4) for key in runs[0]}


def main(num_events: int = 1_000_000, rounds: int = 3) -> int:
    with tempfile.TemporaryDirectory() as folder:
        path = str(write_chrome_trace(Path(folder) / "big.json", num_events))
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(measure(sys.executable, OURS, path, json.dumps(NAMES)))
            if PEER.exists():
                theirs.append(measure(str(PEER), THEIRS, path))
    mine, peer = median(ours), median(theirs) if theirs else {}
    peak = mine.pop("peak_mib")
    result = {
        "events": num_events,
        "rounds": rounds,
        "wall_s": mine,
        "together_s": round(sum(mine.values()), 3),
        "slowest_s": max(mine.values()),
        "peak_mib": peak,
        "wanted": {"each_s": 2, "together_s": 10},
        "HolisticTraceAnalysis 0.5.0": {"wall_s": peer}
        if peer
        else f"skipped: no {PEER.name} in {PEER.parent.parent.name}",
        "times_faster": {name: round(peer[name] / mine[name], 1) for name in peer if name in mine},
        "all_runs": {"cudalens": ours, "HolisticTraceAnalysis 0.5.0": theirs},
        "conditions": {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "load_average": os.getloadavg(),
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
        },
    }
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "analyses.json").write_text(json.dumps(result, indent=2) + "\n")
    for name, seconds in sorted(mine.items(), key=lambda item: -item[1]):
        ratio = f", {result['times_faster'][name]} times faster than HTA" if name in peer else ""
        print(f"{name:24} {seconds:7.3f} s{ratio}")
    print(f"{len(mine)} analyses of {num_events:,} events together: {result['together_s']:.2f} s, peak {peak:.0f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
