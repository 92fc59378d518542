"""A launch-bound function through the graph manager against the same function eager, and against a bare CUDA graph.

The function: 200 small element-wise kernels on 64 x 64 floats, one input that is copied, one output. In one process, in
turn, medians of whole calls, the device waited for after each batch of calls. On a GPU it must hold: a call through the
manager at least 5 times faster than eager, and at most 1.3 times what ``CUDAGraph.replay()`` and the input's copy take.
Without a GPU the virtual device is used: its figures are modelled times (events on the virtual clock) and are marked
so; what the manager's Python costs beside a bare replay is measured on the host's clock there as well, on a graph of
one kernel, because the model computes every kernel on the CPU.

Usage: ``python benchmarks/bench_graphs.py [calls] [rounds]``. Results go to ``benchmarks/results/graphs.json``.
"""

from __future__ import annotations

import contextlib
import json
import platform
import statistics
import sys
import time
from pathlib import Path

import torch

import cudalens
from cudalens.graphs import GraphManager

HERE = Path(__file__).parent
NUM_KERNELS = 200
WANTED_SPEEDUP, WANTED_OVERHEAD = 5.0, 1.3


def many(x):
    for _ in range(NUM_KERNELS // 2):
        x = torch.relu(x) + 1
    return x


def one(x):
    return x + 1


def bare(function, x):
    """A CUDA graph as torch's documentation makes one: returns what a call does."""
    static = x.clone()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        function(static)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = function(static)

    def call(x):
        static.copy_(x)
        graph.replay()
        return out

    return call


def host_us(call, x, calls):
    """Microseconds a call, until the device is done with all of them."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(calls):
        call(x)
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / calls * 1e6


def device_us(call, x, calls):
    """Microseconds a call on the device's clock (the virtual one's on a virtual device)."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    for _ in range(calls):
        call(x)
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / calls * 1e3


def in_turn(function, measure, calls, rounds):
    x = torch.randn(64, 64, device="cuda")
    managed, plain = GraphManager().wrap(function), bare(function, x)
    ways = {"eager": function, "bare": plain, "managed": managed}
    for _ in range(3):
        for call in ways.values():
            call(x)
    times = {name: [] for name in ways}
    for _ in range(rounds):
        for name, call in ways.items():
            times[name].append(measure(call, x, calls))
    return {name: statistics.median(values) for name, values in times.items()}


def result(calls: int, rounds: int, *, is_real: bool):
    """The result on the current device, as it is written."""
    device = torch.cuda.get_device_name()
    if is_real:
        times = in_turn(many, host_us, calls, rounds)
        python = in_turn(one, host_us, calls * 10, rounds)
    else:
        times = in_turn(many, device_us, max(2, calls // 10), min(3, rounds))
        python = in_turn(one, host_us, calls, rounds)
    return {
        "device": device if is_real else f"virtual {device}: modelled times, no measurement",
        "torch": torch.__version__,
        "python": platform.python_version(),
        "kernels": NUM_KERNELS,
        "us_per_call": {name: round(value, 1) for name, value in times.items()},
        "faster_than_eager": round(times["eager"] / times["managed"], 2),
        "of_bare_replay_and_copy": round(times["managed"] / times["bare"], 3),
        "one_kernel_host_us": {name: round(value, 1) for name, value in python.items()},
        "manager_adds_us": round(python["managed"] - python["bare"], 1),
    }


def main() -> int:
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 9
    is_real = torch.cuda.is_available()
    with contextlib.nullcontext() if is_real else cudalens.virtual.device("h100"):
        found = result(calls, rounds, is_real=is_real)
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "graphs.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    if not is_real:
        print("No GPU: the lines that must hold on one were not measured.")
        return 0
    missed = found["faster_than_eager"] < WANTED_SPEEDUP or found["of_bare_replay_and_copy"] > WANTED_OVERHEAD
    print("MISSED" if missed else "held")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
