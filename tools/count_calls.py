"""Count the functions and files of cudalens that a profiled cell and a loaded summary run through.

    python tools/count_calls.py [--list]

Each is done once before, so that imports and first-use caches do not count. A function counts once, however often it is
called; comprehensions do not count. ``--list`` prints the functions by module, with their numbers of calls.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import torch

import cudalens

ROOT = Path(cudalens.__file__).parent
SOURCES = str(ROOT)


def train() -> None:
    """Run five steps of a small model."""
    model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        model(torch.randn(16, 32)).square().mean().backward()
        optimizer.step()


def profiled_cell() -> None:
    """Profile a block on the CPU and make the output of its cell."""
    with cudalens.profile("cell", memory=True, cpu_only=True, keep=False) as run:
        train()
    run.trace._repr_mimebundle_()


def virtual_cell() -> None:
    """Profile a block on a virtual GPU and make the output of its cell."""
    with cudalens.virtual.device("h100"), cudalens.profile("cell", memory=True, keep=False) as run:
        torch.ones(64, 64, device="cuda").matmul(torch.ones(64, 64, device="cuda")).sum().item()
    run.trace._repr_mimebundle_()


def loaded_summary(path: Path) -> None:
    """Load a trace that torch.profiler exported, and print its summary."""
    str(cudalens.load(path).summary())


def count_calls(action: Callable[[], None]) -> tuple[Counter[tuple[str, str, int]], int]:
    """Return how often `action` calls each function of cudalens, and the largest depth of such calls."""
    calls: Counter[tuple[str, str, int]] = Counter()
    depth = deepest = 0

    def observe(frame: FrameType, event: str, _: object) -> None:
        nonlocal depth, deepest
        code = frame.f_code
        if not code.co_filename.startswith(SOURCES) or code.co_name.startswith("<"):
            return
        if event == "call":
            calls[code.co_filename, code.co_qualname, code.co_firstlineno] += 1
            depth += 1
            deepest = max(deepest, depth)
        elif event == "return":
            depth -= 1

    sys.setprofile(observe)
    try:
        action()
    finally:
        sys.setprofile(None)
    return calls, deepest


def main() -> None:
    """Print a line for each action."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="print the functions, by module")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        with torch.profiler.profile(record_shapes=True, profile_memory=True) as run:
            train()
        run.export_chrome_trace(str(path))
        actions = {
            "profiled cell, CPU": profiled_cell,
            "profiled cell, virtual h100": virtual_cell,
            "loaded summary": lambda: loaded_summary(path),
        }
        for name, action in actions.items():
            action()
            calls, deepest = count_calls(action)
            num_files = len({file for file, _, _ in calls})
            print(f"{name}: {len(calls)} functions in {num_files} files, {sum(calls.values()):,} calls, {deepest} deep")
            if arguments.list:
                for (file, function, _), count in sorted(calls.items()):
                    print(f"    {Path(file).relative_to(ROOT)} {function} {count}")


if __name__ == "__main__":
    main()
