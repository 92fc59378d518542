"""What ``%load_ext cudalens`` costs beyond ``import torch``: fresh processes, medians.

Prints one JSON line: seconds for torch alone, for IPython's shell alone, and for the extension on top of both.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys

PROGRAM = """
import time
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell()
begin = time.perf_counter()
import torch
torch_s = time.perf_counter() - begin
begin = time.perf_counter()
shell.run_line_magic("load_ext", "cudalens")
print(torch_s, time.perf_counter() - begin)
"""
LIMIT_S = 0.3


def main(repeats: int = 7) -> int:
    """Measure, print, and say by the exit code whether loading stays below its limit."""
    rows = []
    for _ in range(repeats):
        done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
        rows.append(tuple(map(float, done.stdout.splitlines()[-1].split())))
    torch_s, load_s = (statistics.median(column) for column in zip(*rows, strict=True))
    print(json.dumps({"import_torch_s": round(torch_s, 3), "load_ext_s": round(load_s, 4), "limit_s": LIMIT_S}))
    return 0 if load_s <= LIMIT_S else 1


if __name__ == "__main__":
    sys.exit(main())
