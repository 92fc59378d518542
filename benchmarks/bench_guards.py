"""What the guards of a graphed function cost a replay: the comparison of all Python values that it reads.

The function: a module of 100 sub-modules. Two of them are measured: 100 linear layers in a Sequential, and 50 blocks of
the kind that programs have (a linear layer and a norm, numbers and flags as attributes, read in ``forward``). A replay
compares the values once, so the figure is the CPU time of one comparison; medians of many rounds. It must hold:
at most 20 microseconds a replay.

Usage: ``python benchmarks/bench_guards.py [comparisons] [rounds]``. Results go to ``benchmarks/results/guards.json``.
"""

from __future__ import annotations

import json
import platform
import statistics
import sys
import time
from pathlib import Path

import torch
from torch import nn

from cudalens.graphs.guards.guard_set import GuardSet
from cudalens.graphs.guards.reads import find_reads

HERE = Path(__file__).parent
NUM_MODULES = 100
WANTED_US = 20.0


class Block(nn.Module):
    """A block with Python values of its own."""

    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)
        self.scale, self.is_residual = 0.5, True

    def forward(self, x):
        out = self.norm(self.layer(x)) * self.scale
        return x + out if self.is_residual else out


def modules():
    """The measured modules, by name."""
    return {
        "linear_layers": nn.Sequential(*[nn.Linear(8, 8) for _ in range(NUM_MODULES)]),
        "blocks": nn.Sequential(*[Block() for _ in range(NUM_MODULES // 2)]),
    }


def microseconds(guards, comparisons):
    """Of one comparison."""
    began = time.process_time()
    for _ in range(comparisons):
        assert guards.hold()
    return (time.process_time() - began) / comparisons * 1e6


def measured(module, comparisons, rounds):
    """The number of values and the time of their comparison."""
    began = time.perf_counter()
    guards = GuardSet(find_reads([("", module)]))
    found_ms = (time.perf_counter() - began) * 1e3
    times = [microseconds(guards, comparisons) for _ in range(rounds)]
    return {"values": len(guards), "us": round(statistics.median(times), 2), "search_ms": round(found_ms, 1)}


def main() -> int:
    comparisons = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 21
    found = {name: measured(module, comparisons, rounds) for name, module in modules().items()}
    result = {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "submodules": NUM_MODULES,
        "limit_us": WANTED_US,
        "rounds": rounds,
        "per_replay": found,
    }
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "guards.json").write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
    missed = any(one["us"] > WANTED_US for one in found.values())
    print("MISSED" if missed else "held")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
