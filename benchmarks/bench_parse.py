"""Reading Chrome traces of a million entries: `cudalens.load` against HolisticTraceAnalysis 0.5, and memory by size.

Four generated traces (`chrome_traces` and the programs of `chrome_programs`) and one that a real GPU recorded, repeated
and shifted to 310 MB. Both read the same file, each time in a fresh process, alternately; cudalens also without its
compiled scanner. Times are those of the call alone (imports are done), memory is the peak resident size of the process
above that after the imports. The peer lives in an environment of its own (``.venv-hta``, made once with ``python -m
venv .venv-hta && .venv-hta/bin/pip install HolisticTraceAnalysis==0.5.0``, or the interpreter that HTA_PYTHON names).

Usage: ``python benchmarks/bench_parse.py [rounds [trace ...]]`` compares on all or some traces, ``python
benchmarks/bench_parse.py sizes [FILE]`` reads the first 1, 2, 5 and 10 million entries of the trace that takes the most
memory, made before by ``python benchmarks/chrome_programs.py python FILE 10000000``, or now. Results go to
``benchmarks/results/parse.json``.
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
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from chrome_programs import PROGRAMS, write_program, write_recorded
from chrome_traces import write_chrome_trace

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "parse.json"
PEER = os.environ.get("HTA_PYTHON", str(HERE.parent / ".venv-hta" / "bin" / "python"))
RECORDED = HERE.parent.parent / "shared" / "recorded" / "tracelens" / "inference__xdit_flux1_capture.json.gz"
HTA, OURS, PURE = "HolisticTraceAnalysis 0.5.0", "cudalens", "cudalens without its extension"
NUM_ENTRIES, RECORDED_BYTES = 1_000_000, 310_000_000
SIZES = (1_000_000, 2_000_000, 5_000_000, 10_000_000)
LARGEST = "python"
REPORT = """
import json, resource, sys, time
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before = peak()
began = time.perf_counter(); cpu = time.process_time()
result = {call}
wall, cpu = time.perf_counter() - began, time.process_time() - cpu
print(json.dumps({{"wall_s": wall, "cpu_s": cpu, "peak_mib": peak(), "above_mib": peak() - before, "rows": {rows}}}))
"""
READ = "import cudalens.api.load, cudalens.traces.chrome.reader" + REPORT.format(
    call="cudalens.load(sys.argv[1])", rows="len(result)"
)
THEIRS = """
import logging; logging.disable(logging.CRITICAL)
from hta.common.trace_parser import parse_trace_dataframe
from hta.configs.parser_config import ParserConfig
cfg = ParserConfig.get_default_cfg()
""" + REPORT.format(call="parse_trace_dataframe(sys.argv[1], cfg)", rows="len(result[1])")
PROGRAM_OF = {
    OURS: (sys.executable, READ, "1"),
    HTA: (PEER, THEIRS, "1"),
    PURE: (sys.executable, READ, "0"),
}


def measure(which: str, path: Path) -> dict[str, float]:
    """Read `path` once in a process of its own."""
    python, code, scanner = PROGRAM_OF[which]
    # With compiled modules, as an installed package has them.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env["CUDALENS_SCANNER"] = scanner
    done = subprocess.run([python, "-c", code, str(path)], capture_output=True, text=True, check=True, env=env)
    return json.loads(done.stdout.splitlines()[-1])


def median(runs: list[dict[str, float]]) -> dict[str, float]:
    """The median of each figure."""
    return {key: round(statistics.median(run[key] for run in runs), 3) for key in runs[0]}


def files(folder: Path, chosen: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
    """The traces, one at a time; each is replaced by the next."""
    path = folder / "trace.json"
    if "torch" in chosen:
        write_chrome_trace(path, NUM_ENTRIES)
        yield "torch", path
    for program in filter(chosen.__contains__, PROGRAMS):
        write_program(path, program, NUM_ENTRIES)
        yield program, path
    if "recorded" not in chosen:
        return
    if RECORDED.exists():
        write_recorded(path, RECORDED, RECORDED_BYTES)
        yield "recorded", path
    else:
        print(f"recorded: skipped, no {RECORDED}")


def compare(path: Path, rounds: int) -> dict[str, Any]:
    """All figures of one trace."""
    runs: dict[str, list[dict[str, float]]] = {which: [] for which in PROGRAM_OF}
    for _ in range(rounds):
        for which in (OURS, HTA, PURE, OURS):
            runs[which].append(measure(which, path))
    found = {which: median(of_one) for which, of_one in runs.items()}
    mine, pure, peer = (found[which] for which in (OURS, PURE, HTA))
    return {
        "file_bytes": path.stat().st_size,
        **found,
        "times_less_cpu": round(peer["cpu_s"] / mine["cpu_s"], 2),
        "times_less_cpu_without_extension": round(peer["cpu_s"] / pure["cpu_s"], 2),
        "times_faster": round(peer["wall_s"] / mine["wall_s"], 2),
        "memory_ratio": round(mine["above_mib"] / peer["above_mib"], 3),
        "memory_ratio_without_extension": round(pure["above_mib"] / peer["above_mib"], 3),
        "all_runs": runs,
    }


def show(name: str, found: dict[str, Any]) -> None:
    """Print one trace's figures."""
    print(
        f"{name}, {found['file_bytes'] / 1e6:.0f} MB: cudalens {found[OURS]['cpu_s']:.2f} s, "
        f"{found[OURS]['above_mib']:.0f} MiB; HTA {found[HTA]['cpu_s']:.2f} s, {found[HTA]['above_mib']:.0f} MiB; "
        f"{found['times_less_cpu']} times less processor time ({found['times_less_cpu_without_extension']} without the "
        f"extension), {found['times_faster']} times faster, {found['memory_ratio']} of its memory",
        flush=True,
    )


def conditions() -> dict[str, Any]:
    """Where and when this was measured."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def save(found: dict[str, Any]) -> None:
    """Add `found` to the result file."""
    before = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    kept = {key: before[key] for key in ("traces", "sizes") if key in before}
    RESULTS.write_text(json.dumps(kept | found, indent=2) + "\n")


def compare_all(rounds: int, chosen: tuple[str, ...]) -> int:
    """Compare on every chosen trace."""
    if not Path(PEER).exists():
        print(f"skipped: no {PEER}; make it as the docstring says")
        return 0
    before = json.loads(RESULTS.read_text()).get("traces", {}) if RESULTS.exists() else {}
    traces = before.get("of", {}) if before.get("rounds") == rounds else {}
    with tempfile.TemporaryDirectory() as folder:
        for name, path in files(Path(folder), chosen):
            traces[name] = compare(path, rounds) | {"conditions": conditions()}
            show(name, traces[name])
    save({"traces": {"entries": NUM_ENTRIES, "rounds": rounds, "of": traces}})
    return 0


def beginning(whole: Path, path: Path, num_entries: int) -> None:
    """Write the first `num_entries` of the trace in `whole`, which has one a line after its first, to `path`."""
    with open(whole, encoding="utf-8") as source, open(path, "w", encoding="utf-8") as file:
        file.write(next(source))
        file.writelines(islice(source, num_entries - 1))
        file.write(next(source).removesuffix("\n").removesuffix(",") + "\n]}\n")


def measure_sizes(made: str = "") -> int:
    """Memory and time by the number of entries, and a straight line through the peaks."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        whole, path = Path(made or Path(folder) / "whole.json"), Path(folder) / "trace.json"
        if not made:
            write_program(whole, LARGEST, max(SIZES))
        for size in SIZES:
            beginning(whole, path, size)
            found[size] = measure(OURS, path)
            print(f"{size:,}: {found[size]['above_mib']:.0f} MiB, {found[size]['cpu_s']:.1f} s", flush=True)
    peaks = np.array([one["above_mib"] * (1 << 20) for one in found.values()])
    slope, start = np.polyfit(SIZES, peaks, 1)
    off = np.abs(slope * np.array(SIZES) + start - peaks) / peaks
    fit = {"bytes_per_entry": round(float(slope), 1), "start_bytes": round(float(start))}
    fit |= {"largest_deviation": round(float(off.max()), 4)}
    fit |= {"most_bytes_per_entry": round(float((peaks / np.array(SIZES)).max()), 1)}
    print(fit)
    save({"sizes": {"trace": LARGEST, "of": found, "fit": fit, "conditions": conditions()}})
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["sizes"]:
        sys.exit(measure_sizes(*sys.argv[2:3]))
    sys.exit(compare_all(int((sys.argv[1:] or ["3"])[0]), tuple(sys.argv[2:]) or ("torch", *PROGRAMS, "recorded")))
