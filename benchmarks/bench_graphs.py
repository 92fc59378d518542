"""A launch-bound function through the graph manager against the same function eager, and against a bare CUDA graph.

The function: 200 small element-wise kernels on 64 x 64 floats, one input that is copied, one output. In one process, in
turn, medians of whole calls, the device waited for after each batch of calls. On a GPU it must hold: a call through the
manager at least 5 times faster than eager, and at most 1.3 times what ``CUDAGraph.replay()`` and the input's copy take.
Without a GPU the virtual device is used: its figures are modelled times (events on the virtual clock) and are marked
so.

The host time of a replayed call is measured for two functions: one kernel of one tensor, and a module of 200 parameters
that takes 10 tensors. It must hold: the manager adds at most 60 us to the second. Beside it, the same functions by
``torch.cuda.make_graphed_callables``, and on a GPU by ``torch.compile(mode="reduce-overhead")``. Without a GPU the
calls of CUDA are left out (`graph_host_time`), and the copies of the arguments are the bare replay.

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
from graph_host_time import Ways, without_device
from torch import nn

import cudalens
from cudalens.graphs import GraphManager

HERE = Path(__file__).parent
NUM_KERNELS = 200
WANTED_SPEEDUP, WANTED_OVERHEAD, WANTED_ADDED_US = 5.0, 1.3, 60.0
NUM_LAYERS, NUM_INPUTS = 100, 10


def many(x):
    for _ in range(NUM_KERNELS // 2):
        x = torch.relu(x) + 1
    return x


def one(x):
    return x + 1


class Layers(nn.Module):
    """A module of 200 parameters."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*[nn.Linear(16, 16) for _ in range(NUM_LAYERS)])

    def forward(self, *inputs):
        return self.layers(sum(inputs))


#: The functions of which the host time is measured: each with what makes it, and with what makes its arguments.
CASES = {
    "one kernel, 1 tensor": (lambda: one, lambda: [torch.randn(64, 64)]),
    "200 parameters, 10 tensors": (Layers, lambda: [torch.randn(4, 16) for _ in range(NUM_INPUTS)]),
}


def bare(function, *inputs):
    """A CUDA graph as torch's documentation makes one: returns what a call does."""
    static = [x.clone() for x in inputs]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        function(*static)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = function(*static)

    def call(*inputs):
        torch._foreach_copy_(static, list(inputs))
        graph.replay()
        return out

    return call


def host_us(call, inputs, calls):
    """Microseconds a call, until the device is done with all of them."""
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    wait()
    began = time.perf_counter()
    for _ in range(calls):
        call(*inputs)
    wait()
    return (time.perf_counter() - began) / calls * 1e6


def device_us(call, inputs, calls):
    """Microseconds a call on the device's clock (the virtual one's on a virtual device)."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    for _ in range(calls):
        call(*inputs)
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / calls * 1e3


def in_turn(function, measure, calls, rounds):
    x = torch.randn(64, 64, device="cuda")
    managed, plain = GraphManager(eager_if_slower=False).wrap(function), bare(function, x)
    ways = {"eager": function, "bare": plain, "managed": managed}
    for _ in range(3):
        for call in ways.values():
            call(x)
    return medians(ways, measure, [x], calls, rounds)


def medians(ways, measure, inputs, calls, rounds):
    """The median time of each way, measured in turn."""
    times = {name: [] for name in ways}
    for _ in range(rounds):
        for name, call in ways.items():
            times[name].append(measure(call, inputs, calls))
    return {name: statistics.median(values) for name, values in times.items()}


@contextlib.contextmanager
def on_device():
    """The ways to call the functions of `CASES`, and what else a GPU has, on a real device."""
    found = []
    with torch.device("cuda"):
        for make_function, make_inputs in CASES.values():
            function, inputs = make_function(), make_inputs()
            by_torch = torch.cuda.make_graphed_callables(function, tuple(inputs))
            managed = GraphManager(eager_if_slower=False).wrap(function)
            found.append(Ways(inputs, bare(function, *inputs), managed, by_torch))
            found[-1].trees = torch.compile(function, mode="reduce-overhead")
    yield found


def replayed_calls(calls, rounds, *, is_real):
    """Host time of replayed calls, by function; without gradients."""
    found = {}
    with torch.no_grad(), on_device() if is_real else without_device(list(CASES.values())) as every:
        for name, ways in zip(CASES, every, strict=True):
            named = {"bare": ways.bare, "managed": ways.managed, "make_graphed_callables": ways.by_torch}
            if ways.trees is not None:
                named["reduce-overhead"] = ways.trees
            for _ in range(5):
                for call in named.values():
                    call(*ways.inputs)
            times = medians(named, host_us, ways.inputs, calls, rounds)
            added = round(times["managed"] - times["bare"], 1)
            found[name] = {"us": {way: round(us, 1) for way, us in times.items()}, "manager_adds_us": added}
    return found


def result(calls: int, rounds: int, *, is_real: bool):
    """The result on the current device, as it is written."""
    device = torch.cuda.get_device_name()
    if is_real:
        times = in_turn(many, host_us, calls, rounds)
    else:
        times = in_turn(many, device_us, max(2, calls // 10), min(3, rounds))
    return {
        "device": device if is_real else f"virtual {device}: modelled times, no measurement",
        "torch": torch.__version__,
        "python": platform.python_version(),
        "kernels": NUM_KERNELS,
        "us_per_call": {name: round(value, 1) for name, value in times.items()},
        "faster_than_eager": round(times["eager"] / times["managed"], 2),
        "of_bare_replay_and_copy": round(times["managed"] / times["bare"], 3),
    }


def main() -> int:
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 9
    is_real = torch.cuda.is_available()
    with contextlib.nullcontext() if is_real else cudalens.virtual.device("h100"):
        found = result(calls, rounds, is_real=is_real)
    found["replayed_call"] = replayed_calls(calls * 20, rounds, is_real=is_real)
    found["replayed_call_without_cuda"] = not is_real
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "graphs.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    added = found["replayed_call"]["200 parameters, 10 tensors"]["manager_adds_us"]
    missed = added > WANTED_ADDED_US
    if is_real:
        missed |= found["faster_than_eager"] < WANTED_SPEEDUP or found["of_bare_replay_and_copy"] > WANTED_OVERHEAD
    else:
        print("No GPU: the speed-up and the share of a bare replay were not measured.")
    print("MISSED" if missed else "held")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
