"""The ranks of a job of 16 times 100,000 entries: `cudalens.load_ranks` against HolisticTraceAnalysis 0.5.

Both read the same folder, each time in a fresh process, alternately, and run the analyses that both have:

| HolisticTraceAnalysis | cudalens |
| --- | --- |
| `TraceAnalysis(trace_dir=...)` | `load_ranks` |
| `get_temporal_breakdown` | ``ranks.frames["summary"]``, ``["steps"]`` |
| `get_gpu_kernel_breakdown` | ``ranks.frames["kernels"]`` |
| `get_comm_comp_overlap` | exposed communication in ``ranks.frames["steps"]`` |
| `get_potential_stragglers` | ``ranks.analysis.stragglers`` |

cudalens also makes all other frames of all ranks, matches the collectives, aligns the clocks and replays the job; the
peer does not. CPU time is that of the process and of the processes that it started, with imports.

The peer lives in an environment of its own: ``.venv-hta``, see bench_parse.py, or the interpreter that HTA_PYTHON
names. Usage: ``python benchmarks/bench_ranks.py [ranks] [entries] [rounds] [folder]``. Results go to
``benchmarks/results/ranks.json``.
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

from rank_traces import SLOW_RANK, write_job

HERE = Path(__file__).parent
PEER = Path(os.environ.get("HTA_PYTHON", HERE.parent / ".venv-hta" / "bin" / "python"))
PEER_NAME = "HolisticTraceAnalysis 0.5.0"
REPORT = """
usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(json.dumps({
    "wall_s": time.perf_counter() - began,
    "cpu_s": sum(one.ru_utime + one.ru_stime for one in usage),
    "peak_mib": usage[0].ru_maxrss / 1024,
    "worker_mib": usage[1].ru_maxrss / 1024,
    "slow": slow,
}))
"""
OURS = f"""
import json, resource, sys, time
began = time.perf_counter()
import cudalens
ranks = cudalens.load_ranks(sys.argv[1])
ranks.frames["steps"], ranks.frames["kernels"]
slow = [one.rank for one in ranks.analysis.stragglers.found]
{REPORT}
"""
THEIRS = f"""
import json, logging, os, resource, sys, time
began = time.perf_counter()
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
if __name__ == "__main__":
    hta = TraceAnalysis(trace_dir=sys.argv[1])
    hta.get_temporal_breakdown(visualize=False)
    hta.get_gpu_kernel_breakdown(visualize=False)
    hta.get_comm_comp_overlap(visualize=False)
    try:
        slow = [int(rank) for rank in hta.get_potential_stragglers()]
    except Exception as error:
        slow = f"{{type(error).__name__}}: {{error}}"[:200]
    {REPORT.replace(chr(10), chr(10) + "    ")}
"""


def measure(python: str, code: str, folder: Path) -> dict[str, object]:
    done = subprocess.run([python, "-c", code, str(folder)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{python} failed:\n{done.stderr[-3000:]}")
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def median(runs: list[dict[str, object]]) -> dict[str, float]:
    return {key: round(statistics.median(run[key] for run in runs), 3) for key in runs[0] if key != "slow"}


def main(num_ranks: int = 16, num_entries: int = 100_000, rounds: int = 2, folder: str | None = None) -> int:
    if not PEER.exists():
        print(f"skipped: no {PEER}; make it as the docstring says")
        return 0
    with tempfile.TemporaryDirectory() as made:
        path = Path(folder or made)
        if not any(path.glob("*.json")):
            write_job(path, num_ranks, num_entries)
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(measure(sys.executable, OURS, path))
            theirs.append(measure(str(PEER), THEIRS, path))
        num_bytes = sum(file.stat().st_size for file in path.glob("*.json"))
    mine, peer = median(ours), median(theirs)
    assert all(SLOW_RANK in run["slow"] for run in ours), ours
    result = {
        "ranks": num_ranks,
        "entries": num_entries,
        "file_bytes": num_bytes,
        "rounds": rounds,
        "cudalens": mine,
        PEER_NAME: peer,
        "times_less_cpu": round(peer["cpu_s"] / mine["cpu_s"], 2),
        "slow_rank": {"true": SLOW_RANK, "cudalens": ours[0]["slow"], PEER_NAME: theirs[0]["slow"]},
        "wanted": {"times_less_cpu": 10},
        "all_runs": {"cudalens": ours, PEER_NAME: theirs},
        "conditions": {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "load_average": os.getloadavg(),
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
        },
    }
    (HERE / "results" / "ranks.json").write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps({key: result[key] for key in ("cudalens", PEER_NAME, "times_less_cpu", "slow_rank")}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:4]), *sys.argv[4:]))
