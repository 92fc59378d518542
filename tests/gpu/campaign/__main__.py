"""``python tests/gpu/campaign --out FOLDER [--virtual DEVICE] [--short] [--part NAME]``: run the parts in turn."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any, Final

if __name__ == "__main__":  # run as a folder: its own modules are not to be top-level modules
    _HERE = Path(__file__).resolve().parent
    sys.path[:] = [str(_HERE.parent), *(path for path in sys.path if Path(path).resolve() != _HERE)]

import torch

from campaign import benchmarks, fidelity_programs, gpu_tests, memory, packages, processes, timings
from campaign.run import Run

#: Seconds of the whole campaign. Parts that come when little is left get what is left.
LIMIT_S: Final = 465.0
#: The parts in the order of their worth: the file, the time limit in seconds, and the function.
PARTS: Final = {
    "timings": ("timings.json", 95.0, timings.run),
    "fidelity": ("fidelity.json", 85.0, fidelity_programs.run),
    "allocator": ("allocator.json", 30.0, memory.run_traces),
    "snapshots": ("snapshots.zip", 20.0, memory.run_snapshots),
    "benchmarks": ("benchmarks.json", 55.0, benchmarks.run),
    "tests": ("tests.json", 170.0, gpu_tests.run),
}
REPORT: Final = "campaign.json"
LOG: Final = "campaign.log"
#: A part may use this much time after its limit before its process is killed.
_LATE_S: Final = 3.0


def main(arguments: list[str] | None = None) -> int:
    """Run the campaign; the number of parts that failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the folder of the results")
    parser.add_argument("--virtual", default="", help="run on this virtual device")
    parser.add_argument("--short", action="store_true", help="a small share of the work")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this part")
    parser.add_argument("--seconds", type=float, default=LIMIT_S, help="time limit of the campaign")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    msgspec = packages.prepare()
    _import_once(is_virtual=bool(options.virtual))
    began, report = time.monotonic(), []
    for name in options.part or PARTS:
        left = options.seconds - (time.monotonic() - began)
        report.append(_part(name, options, left))
        print("{part:12} {seconds:6.1f} s  {outcome}".format_map(report[-1]), flush=True)
        everything = {"seconds": round(time.monotonic() - began, 1), "msgspec": msgspec, "parts": report}
        (options.out / REPORT).write_text(json.dumps(everything, indent=1) + "\n", encoding="utf-8")
    return sum(not row["is_complete"] for row in report)


def _import_once(*, is_virtual: bool) -> None:
    """Import what the processes of the parts need; where that fails, the parts report it."""
    for module in ("cudalens.api.profile", "cudalens.graphs", "cudalens.device", "torch._dynamo", "pytest"):
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    if is_virtual:
        with importlib.import_module("cudalens.virtual").device("h200", values=False):
            torch.ones(8, 8, device="cuda").mm(torch.ones(8, 8, device="cuda"))


def _part(name: str, options: Any, left: float) -> dict[str, Any]:
    file, limit, function = PARTS[name]
    limit = min(limit, left)
    began, outcome_file = time.monotonic(), options.out / f".{name}"
    if limit <= _LATE_S:
        return {"part": name, "seconds": 0.0, "is_complete": False, "outcome": "not started: no time left"}
    this = Run(options.out / file, limit - _LATE_S, options.virtual, options.short)
    problem = processes.forked(lambda: _write_outcome(outcome_file, function(this)), options.out / LOG, limit)
    said = outcome_file.read_text(encoding="utf-8") if outcome_file.exists() else ""
    outcome_file.unlink(missing_ok=True)
    took = round(time.monotonic() - began, 1)
    return {"part": name, "seconds": took, "is_complete": not problem, "outcome": problem or said}


def _write_outcome(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
