"""What watching costs: two processes run the same loop in turn, some seconds each, one of them with `cudalens.watch`.

The cost is the time per step of the watched loop over that of the other one, as wall time and as CPU time of the whole
process (all threads). Because they take turns, a machine that becomes slower or faster changes both. Two processes can
run the same loop at different speeds, so in the first turns neither is watched, and the cost is relative to these. The
displayed cost is what `Watch.cost` says.
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
from contextlib import ExitStack
from pathlib import Path

RESULT = Path(__file__).parent / "results" / "watch.json"
#: Seconds of a turn, and turns in which neither loop is watched.
TURN_S, PLAIN_TURNS = 10, 6
_PIPES: dict[str, int] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}


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


def loop(kind: str, is_watched: bool) -> None:
    """Run the steps for as many seconds as each line of standard input says, and print what was measured."""
    import cudalens

    with ExitStack() as stack:
        if kind == "virtual":
            stack.enter_context(cudalens.virtual.device("h100"))
        step = on_virtual_device() if kind == "virtual" else transformer()
        run(step, 2)
        watch = None
        for turn, line in enumerate(sys.stdin):
            if is_watched and turn == PLAIN_TURNS:
                watch = stack.enter_context(cudalens.watch())
            elif watch is not None:
                watch.resume()
            measured = run(step, float(line))
            if watch is not None:
                watch.pause()
                measured |= {"displayed": watch.cost, "num_recordings": watch.run.facts.num_recordings}
            print(json.dumps(measured), flush=True)


def run(step: Callable[[], None], seconds: float) -> dict[str, float]:
    """Run the steps for some time; what they took, s."""
    num_steps, cpu, begin = 0, time.process_time(), time.perf_counter()
    while time.perf_counter() - begin < seconds:
        step()
        num_steps += 1
    return {"wall": time.perf_counter() - begin, "cpu": time.process_time() - cpu, "num_steps": num_steps}


def compare(kind: str, seconds: float) -> dict[str, object]:
    """Run both loops for `seconds` each, in turns of `TURN_S`; both begin a pair equally often."""
    env = os.environ | {"KINETO_LOG_LEVEL": "6"}
    command = [sys.executable, __file__, "--kind", kind, "--loop"]
    both = [subprocess.Popen([*command, which], env=env, text=True, **_PIPES) for which in ("plain", "watched")]
    measured: list[list[dict[str, float]]] = [[], []]
    for turn in range(PLAIN_TURNS + round(seconds / TURN_S)):
        for which in (0, 1) if turn % 2 else (1, 0):
            both[which].stdin.write(f"{TURN_S}\n")
            both[which].stdin.flush()
            measured[which].append(json.loads(both[which].stdout.readline()))
    for process in both:
        process.stdin.close()
        process.wait()
    costs = {
        f"{key}_cost": ratio(measured, slice(PLAIN_TURNS, None), key) / ratio(measured, slice(PLAIN_TURNS), key) - 1
        for key in ("wall", "cpu")
    }
    plain, watched = measured
    last = {key: watched[-1][key] for key in ("displayed", "num_recordings")}
    return costs | last | {"step_ms": 1000 * per_step(plain, "wall"), "turns": len(plain)}


def ratio(measured: list[list[dict[str, float]]], turns: slice, key: str) -> float:
    """Time per step of the watched process over that of the other one."""
    plain, watched = measured
    return per_step(watched[turns], key) / per_step(plain[turns], key)


def per_step(turns: list[dict[str, float]], key: str) -> float:
    """Time per step over all turns, s."""
    return sum(turn[key] for turn in turns) / sum(turn["num_steps"] for turn in turns)


def main() -> None:
    """Run the comparisons, and write the result file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", choices=("cpu", "virtual"), action="append")
    parser.add_argument("--seconds", type=float, default=300, help="of each loop")
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--loop", choices=("plain", "watched"), help="be one of the two processes")
    options = parser.parse_args()
    if options.loop:
        loop(options.kind[0], options.loop == "watched")
        return
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    for kind in options.kind or ("cpu", "virtual"):
        runs = [compare(kind, options.seconds) for _ in range(options.runs)]
        medians = {key: statistics.median(run[key] for run in runs) for key in ("wall_cost", "cpu_cost", "displayed")}
        result[kind] = medians | {"seconds": options.seconds, "runs": runs}
        print(kind, json.dumps(result[kind], indent=1))
        RESULT.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
