"""Runs every benchmark, one after the other, each in a process of its own; results go to benchmarks/results."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    """Run ``bench_*.py`` in order of name, or those whose names the arguments hold; returns the number that failed."""
    scripts = sorted(HERE.glob("bench_*.py"))
    chosen = [s for s in scripts if not sys.argv[1:] or any(word in s.name for word in sys.argv[1:])]
    failed = 0
    for script in chosen:
        print(f"== {script.stem}", flush=True)
        failed += subprocess.run([sys.executable, script], check=False).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
