"""What watching costs: the steps of a watched loop near its recordings against the other steps of the same loop.

Two runs of one loop differ by some per cent whatever is watched, so a comparison of whole runs does not show a cost of
two per cent. Within one run, the steps near a recording are compared with the steps some seconds before and after it.
What the hooks add to every step is measured on steps of a small parameter, in turns with and without watching. The
displayed cost is what `Watch.cost` says.

Usage: ``python benchmarks/bench_watch.py [--kind cpu] [--seconds 300] [--runs 2]``. Results go to
``benchmarks/results/watch.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np

RESULT = Path(__file__).parent / "results" / "watch.json"
WARM_UP_S = 5
#: Steps that a recording may disturb: from before its first step until its frames are built.
STEPS_BEFORE, AFTER_NS = 3, 1_000_000_000
#: The steps that say what a step usually takes, before and after a recording.
AROUND_NS = 5_000_000_000
HOOK_S, NUM_HOOK_PAIRS = 1, 5


def transformer():
    """A training step on the CPU of about 20 ms."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(8, 48, 128)

    def step():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step


def on_virtual_device():
    """The same on a virtual device."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(8, 48, 128, device="cuda")

    def step():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step


def watched_steps(kind: str, seconds: float) -> dict[str, object]:
    """Run a watched loop, and compare the steps near its recordings with the others."""
    import cudalens

    with ExitStack() as stack:
        if kind == "virtual":
            stack.enter_context(cudalens.virtual.device("h100"))
        step = on_virtual_device() if kind == "virtual" else transformer()
        run_for(step, WARM_UP_S)
        with cudalens.watch() as watch:
            ends = np.array(run_for(step, seconds))
        rows = watch.steps
        found = recording_cost(np.diff(ends), rows["step"][rows["is_recorded"]].to_numpy())
    hooks = hook_ns()
    cost = (found["excess_ns"] + hooks * (len(ends) - 1)) / (ends[-1] - ends[0])
    return found | {
        "hook_us": hooks / 1000,
        "measured": cost / (1 - cost),
        "displayed": watch.cost,
        "load": os.getloadavg()[0],
    }


def run_for(step: Callable[[], None], seconds: float) -> list[int]:
    """Run the steps for some time; the end of each, after the begin of the first, ns."""
    ends = [time.perf_counter_ns()]
    while ends[-1] - ends[0] < seconds * 1e9:
        step()
        ends.append(time.perf_counter_ns())
    return ends


def recording_cost(durations: np.ndarray, recorded: np.ndarray) -> dict[str, float]:
    """What the steps near recordings took longer than the steps around them.

    Near: from `STEPS_BEFORE` steps before a recording to `AFTER_NS` after it, when its frames are built. The usual time
    of a step is the mean of the steps that are not near, of `AROUND_NS` before and after.

    Args:
        durations: Of each step, ns.
        recorded: The numbers of the steps that were recorded, ascending.
    """
    ends = durations.cumsum()
    near = np.zeros(len(durations), bool)
    for step in recorded:
        near[max(0, step - STEPS_BEFORE) : np.searchsorted(ends, ends[step] + AFTER_NS, "right")] = True
    edges = np.flatnonzero(np.diff(near, prepend=False, append=False)).reshape(-1, 2)
    excess = []
    for first, last in edges:
        around = slice(*np.searchsorted(ends, [ends[first] - AROUND_NS, ends[last - 1] + AROUND_NS]))
        usual = durations[around][~near[around]].mean()
        excess.append(durations[first:last].sum() - (last - first) * usual)
    return {
        "excess_ns": float(sum(excess)),
        "num_recordings": len(edges),
        "ms_per_recording": statistics.median(excess) / 1e6,
        "near_share": float(near.mean()),
        "step_ms": float(durations[~near].mean()) / 1e6,
    }


def hook_ns() -> float:
    """What watching adds to a step without a recording: the difference of steps of one small parameter, ns."""
    import torch

    import cudalens

    parameter = torch.zeros(1, requires_grad=True)
    parameter.grad = torch.zeros(1)
    optimizer = torch.optim.SGD([parameter])

    def usual_ns() -> float:
        return statistics.median(np.diff(run_for(optimizer.step, HOOK_S)))

    differences = []
    for _ in range(NUM_HOOK_PAIRS):
        plain = usual_ns()
        with cudalens.watch():
            differences.append(usual_ns() - plain)
    return statistics.median(differences)


def conditions() -> dict[str, object]:
    """What the figures depend on."""
    import torch

    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def main() -> None:
    """Run the loops, and write the result file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", choices=("cpu", "virtual"), action="append")
    parser.add_argument("--seconds", type=float, default=300, help="of each loop")
    parser.add_argument("--runs", type=int, default=2)
    options = parser.parse_args()
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    for kind in options.kind or ("cpu", "virtual"):
        runs = [watched_steps(kind, options.seconds) for _ in range(options.runs)]
        medians = {key: statistics.median(run[key] for run in runs) for key in ("measured", "displayed")}
        result[kind] = medians | {"seconds": options.seconds, "runs": runs, "conditions": conditions()}
        print(kind, json.dumps(result[kind], indent=1))
    RESULT.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
