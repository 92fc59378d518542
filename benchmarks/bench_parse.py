"""Reading a Chrome trace of a million events: `cudalens.load` against HolisticTraceAnalysis 0.5.

Both read the same file, each time in a fresh process, alternately; wall time is that of the call alone (imports are
done), memory the peak resident size of the process. The peer lives in an environment of its own (``.venv-hta``, made
once with ``python -m venv .venv-hta && .venv-hta/bin/pip install HolisticTraceAnalysis==0.5.0``).

Usage: ``python benchmarks/bench_parse.py [events] [rounds]``. Results go to ``benchmarks/results/parse.json``.
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
REPORT = """
import json, resource, sys, time
began = time.perf_counter(); cpu = time.process_time()
result = {call}
wall, cpu = time.perf_counter() - began, time.process_time() - cpu
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({{"wall_s": wall, "cpu_s": cpu, "peak_mib": peak, "rows": {rows}}}))
"""
OURS = "import cudalens.api.load, cudalens.traces.chrome.reader" + REPORT.format(
    call="cudalens.load(sys.argv[1])", rows="len(result)"
)
THEIRS = """
import logging; logging.disable(logging.CRITICAL)
from hta.common.trace_parser import parse_trace_dataframe
from hta.configs.parser_config import ParserConfig
cfg = ParserConfig.get_default_cfg()
""" + REPORT.format(call="parse_trace_dataframe(sys.argv[1], cfg)", rows="len(result[1])")


def measure(python: str, code: str, path: Path) -> dict[str, float]:
    # With compiled modules, as an installed package has them.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run([python, "-c", code, str(path)], capture_output=True, text=True, check=True, env=env)
    return json.loads(done.stdout.splitlines()[-1])


def median(runs: list[dict[str, float]]) -> dict[str, float]:
    return {key: round(statistics.median(run[key] for run in runs), 3) for key in runs[0]}


def main(num_events: int = 1_000_000, rounds: int = 3) -> int:
    if not PEER.exists():
        print(f"skipped: no {PEER}; make it as the docstring says")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        path = write_chrome_trace(Path(folder) / "big.json", num_events)
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(measure(sys.executable, OURS, path))
            theirs.append(measure(str(PEER), THEIRS, path))
            ours.append(measure(sys.executable, OURS, path))
        size = path.stat().st_size
    mine, peer = median(ours), median(theirs)
    result = {
        "events": num_events,
        "file_bytes": size,
        "rounds": rounds,
        "cudalens": mine,
        "HolisticTraceAnalysis 0.5.0": peer,
        "times_faster": round(peer["wall_s"] / mine["wall_s"], 2),
        "times_less_cpu": round(peer["cpu_s"] / mine["cpu_s"], 2),
        "memory_ratio": round(mine["peak_mib"] / peer["peak_mib"], 3),
        "wanted": {"times_faster": 8, "aim": 12, "memory_ratio": 0.333},
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
    (HERE / "results" / "parse.json").write_text(json.dumps(result, indent=2) + "\n")
    print(f"{num_events:,} events, {size / 1e6:.0f} MB: cudalens {mine['wall_s']:.2f} s, {mine['peak_mib']:.0f} MiB")
    print(f"HolisticTraceAnalysis 0.5.0: {peer['wall_s']:.2f} s, {peer['peak_mib']:.0f} MiB")
    print(
        f"{result['times_faster']} times faster ({result['times_less_cpu']} times less processor time), "
        f"{result['memory_ratio']:.2f} of its peak memory"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
