"""What watching costs: one process runs a loop without `cudalens.watch`, with it, and without it again.

The cost is the time per step while watched over the mean of the other two, as wall time and as CPU time of the whole
process (all threads). The displayed cost is what `Watch.cost` says.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

RESULT = Path(__file__).parent / "results" / "watch.json"


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


def run(step: Callable[[], None], seconds: float) -> dict[str, float]:
    """Run the steps for some time; wall time and CPU time per step, ms."""
    num_steps, cpu, begin = 0, time.process_time(), time.perf_counter()
    while time.perf_counter() - begin < seconds:
        step()
        num_steps += 1
    wall, spent = time.perf_counter() - begin, time.process_time() - cpu
    return {"wall_ms": 1000 * wall / num_steps, "cpu_ms": 1000 * spent / num_steps, "num_steps": num_steps}


def compare(kind: str, seconds: float) -> dict[str, object]:
    """Run half of the time without watching, all of it with, and half of it without again."""
    import cudalens

    with cudalens.virtual.device("h100") if kind == "virtual" else nullcontext():
        step = on_virtual_device() if kind == "virtual" else transformer()
        run(step, 2)
        before = run(step, seconds / 2)
        with cudalens.watch() as watch:
            watched = run(step, seconds)
        watched |= {"displayed": watch.cost, "num_recordings": watch.run.facts.num_recordings}
        after = run(step, seconds / 2)
    plain = {key: (before[key] + after[key]) / 2 for key in ("wall_ms", "cpu_ms")}
    costs = {f"{key[:-3]}_cost": watched[key] / plain[key] - 1 for key in plain}
    return costs | {"before": before, "watched": watched, "after": after}


def median_of(runs: list[dict[str, float]], key: str) -> float:
    """Median of one number of the runs."""
    return statistics.median(run[key] for run in runs)


def main() -> None:
    """Run the comparisons, and write the result file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", choices=("cpu", "virtual"), action="append")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--one", action="store_true", help="run one comparison, and print what it measured")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(compare(options.kind[0], options.seconds)))
        return
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    for kind in options.kind or ("cpu", "virtual"):
        command = [sys.executable, __file__, "--kind", kind, "--seconds", str(options.seconds), "--one"]
        env = os.environ | {"KINETO_LOG_LEVEL": "6"}
        runs = [json.loads(subprocess.check_output(command, env=env)) for _ in range(options.runs)]
        result[kind] = {
            "cost": median_of(runs, "wall_cost"),
            "cpu_cost": median_of(runs, "cpu_cost"),
            "displayed": statistics.median(run["watched"]["displayed"] for run in runs),
            "seconds": options.seconds,
            "runs": runs,
        }
        print(kind, json.dumps(result[kind], indent=1))
        RESULT.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
