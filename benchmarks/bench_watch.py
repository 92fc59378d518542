"""What watching costs: the same loop with and without `cudalens.watch`, at the same time in two processes.

Both processes share the machine, so that other load disturbs both. The cost is the ratio of CPU time per step of the
whole process (all threads), which waiting for a core does not change. The displayed cost is what `Watch.cost` says.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
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


def loop(kind: str, seconds: float, *, is_watched: bool) -> dict[str, float]:
    """Run the loop for some time; CPU time per step, and the cost that the watch displays."""
    from contextlib import nullcontext

    import cudalens

    device = cudalens.virtual.device("h100") if kind == "virtual" else nullcontext()
    with device:
        step = on_virtual_device() if kind == "virtual" else transformer()
        for _ in range(20):
            step()
        watch = cudalens.watch() if is_watched else nullcontext()
        num_steps, cpu, end = 0, time.process_time(), time.monotonic() + seconds
        with watch as w:
            while time.monotonic() < end:
                step()
                num_steps += 1
        spent = time.process_time() - cpu
    found = {"cpu_ms_per_step": 1000 * spent / num_steps, "num_steps": num_steps, "wall_s": seconds}
    if w is not None:
        found |= {"displayed": w.cost, "num_recordings": w.run.facts.num_recordings}
    return found


def pair(kind: str, seconds: float) -> tuple[dict[str, float], dict[str, float]]:
    """A plain and a watched run at the same time."""
    command = [sys.executable, __file__, "--kind", kind, "--seconds", str(seconds), "--one"]
    env = os.environ | {"KINETO_LOG_LEVEL": "6"}
    runs = [subprocess.Popen([*command, which], stdout=subprocess.PIPE, env=env) for which in ("plain", "watched")]
    plain, watched = (json.loads(run.communicate()[0]) for run in runs)
    return plain, watched


def main() -> None:
    """Run the pairs, and write the result file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", choices=("cpu", "virtual"), action="append")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--pairs", type=int, default=2)
    parser.add_argument("--one", choices=("plain", "watched"), help="run one loop, and print what it measured")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(loop(options.kind[0], options.seconds, is_watched=options.one == "watched")))
        return
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    for kind in options.kind or ("cpu", "virtual"):
        pairs = [pair(kind, options.seconds) for _ in range(options.pairs)]
        ratios = [watched["cpu_ms_per_step"] / plain["cpu_ms_per_step"] - 1 for plain, watched in pairs]
        result[kind] = {
            "cost": statistics.median(ratios),
            "costs": ratios,
            "displayed": statistics.median(watched["displayed"] for _, watched in pairs),
            "seconds": options.seconds,
            "pairs": pairs,
        }
        print(kind, json.dumps(result[kind], indent=1))
        RESULT.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
