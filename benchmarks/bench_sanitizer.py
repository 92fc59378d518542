"""What the stream-race sanitizer costs, against torch.cuda._sanitizer's mode, on the virtual device.

Per operator, in one process and in turn: the time of a call with no mode, with a bare TorchDispatchMode, with ours and
with torch's (processor time of the thread, the least of many short runs), shallow and with 40 Python stack frames
below. A mode's cost is its time less that without any mode: the dispatch to it is part of it. What must hold, for the
operators of the mix together: at least 5 times cheaper than torch's shallow, 12 times at depth 40. The same is wanted
per operator of a whole training step at depth 40. A missed target is reported, and the exit status is 1.

Also: a training step on the virtual device with and without the sanitizer (less than 2 times), and the memory that a
million reads of one tensor take (none, once the log of the last records is full).

Usage: ``python benchmarks/bench_sanitizer.py [rounds] [reads]``. Results go to ``benchmarks/results/sanitizer.json``.
"""

from __future__ import annotations

import contextlib
import gc
import json
import resource
import statistics
import sys
import time
import tracemalloc
from pathlib import Path

import torch
import torch.cuda._gpu_trace as gpu_trace
from conditions import conditions
from torch.cuda._sanitizer import CUDASanitizerDispatchMode, EventHandler
from torch.utils._python_dispatch import TorchDispatchMode

import cudalens
import cudalens.virtual

HERE = Path(__file__).parent
DEVICE = "h100"
WANTED = {
    "times_cheaper_shallow": 5,
    "times_cheaper_at_depth_40": 12,
    "times_cheaper_per_operator_of_a_training_step": 12,
    "training_ratio": 2,
    "bytes_per_read": 1,
}
DEEP = 40
CALLS, CHUNKS = 60, 12


class Bare(TorchDispatchMode):
    @classmethod
    def _should_skip_dynamo(cls):
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def registries():
    return [value for value in vars(gpu_trace).values() if hasattr(value, "callback_list")]


def without_torchs_callbacks():
    """torch's module registers callbacks when it is imported, and again for every mode; nothing takes them away."""
    for registry in registries():
        kept = [c for c in registry.callback_list if not isinstance(getattr(c, "__self__", None), EventHandler)]
        registry.callback_list[:] = kept


@contextlib.contextmanager
def torchs():
    try:
        with CUDASanitizerDispatchMode():
            yield
    finally:
        without_torchs_callbacks()


MODES = {"none": contextlib.nullcontext, "bare": Bare, "ours": cudalens.sanitize, "torch": torchs}


def operators():
    """The mix: what a training step calls (two in five of its operators touch no element), on tiny tensors."""
    a, b = torch.ones(8, 8, device="cuda"), torch.ones(8, 8, device="cuda")
    bias = torch.ones(8, device="cuda")
    return {
        "a.add_(b)": lambda: a.add_(b),
        "a + b": lambda: a + b,
        "a @ b": lambda: a @ b,
        "addmm(bias, a, b)": lambda: torch.addmm(bias, a, b),
        "a.t()": lambda: a.t(),
        "a.detach()": lambda: a.detach(),
        "a.view(64)": lambda: a.view(64),
        "a[1:]": lambda: a[1:],
        "a.mul_(0.5)": lambda: a.mul_(0.5),
        "a.expand(2, 8, 8)": lambda: a.expand(2, 8, 8),
        "relu(a)": lambda: torch.relu(a),
        "a.sum()": lambda: a.sum(),
        "a.zero_()": lambda: a.zero_(),
        "_foreach_add_([a, b], 1)": lambda: torch._foreach_add_([a, b], 1),
    }


def at_depth(depth, act):
    return act() if depth == 0 else at_depth(depth - 1, act)


def call_us(act, chunks):
    """Least time of a call over several runs of a few calls each."""
    best = float("inf")
    for _ in range(chunks):
        began = time.thread_time()
        for _ in range(CALLS):
            act()
        best = min(best, (time.thread_time() - began) / CALLS)
    return best * 1e6


def measured(rounds, depth):
    """Microseconds a call, by operator and mode, all modes in turn within each round."""
    least = {}
    for _ in range(rounds):
        for mode, enter in MODES.items():
            with enter():
                for name, act in operators().items():
                    at_depth(depth, lambda act=act: call_us(act, 1))
                    us = at_depth(depth, lambda act=act: call_us(act, CHUNKS))
                    least.setdefault(name, {}).setdefault(mode, us)
                    least[name][mode] = min(least[name][mode], us)
            gc.collect()
    return least


def costs_of(title, least):
    """Costs and ratios of one depth."""
    rows = {}
    for name, us in {**least, "the mix": {m: statistics.mean(row[m] for row in least.values()) for m in MODES}}.items():
        cost = {mode: us[mode] - us["none"] for mode in ("bare", "ours", "torch")}
        rows[name] = {
            "us_per_call": {mode: round(value, 2) for mode, value in us.items()},
            "us_of_the_mode": {mode: round(value, 2) for mode, value in cost.items()},
            "us_over_a_bare_mode": {mode: round(cost[mode] - cost["bare"], 2) for mode in ("ours", "torch")},
            "times_cheaper": round(cost["torch"] / cost["ours"], 1),
        }
        print(
            f"{title} {name:>26}: no mode {us['none']:6.1f}, bare +{cost['bare']:4.1f}, ours +{cost['ours']:5.1f}, "
            f"torch +{cost['torch']:6.1f} us: {rows[name]['times_cheaper']:5.1f} times"
        )
    return rows


def training_steps(num_steps):
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(128, 4, 512, dropout=0.1, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    x = torch.randn(8, 64, 128).to("cuda")
    times = []
    for _ in range(num_steps + 2):
        began = time.perf_counter()
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        times.append(time.perf_counter() - began)
    return times[2:]


def step_operators(rounds):
    """The same per operator of a whole training step of a tiny network, where tensors of all sizes come and go."""

    class Count(Bare):
        num = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            Count.num += 1
            return func(*args, **(kwargs or {}))

    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    x = torch.randn(2, 4, 16).to("cuda")

    def step():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    step()
    with Count():
        step()

    def step_us():
        began = time.thread_time()
        step()
        return (time.thread_time() - began) * 1e6 / Count.num

    least = {}
    for _ in range(rounds):
        for mode, enter in MODES.items():
            with enter():
                at_depth(DEEP, step)
                least.setdefault(mode, []).extend(at_depth(DEEP, step_us) for _ in range(4))
    return {"a training step's": {mode: min(times) for mode, times in least.items()}}


def training(rounds, num_steps=8):
    """Milliseconds a step, with and without the sanitizer."""
    alone, watched = [], []
    for _ in range(rounds):
        with cudalens.virtual.device(DEVICE):
            alone += training_steps(num_steps)
            with cudalens.sanitize() as san:
                watched += training_steps(num_steps)
            assert san.error is None
            assert not san.races
    medians = [statistics.median(times) * 1e3 for times in (alone, watched)]
    print(f"training step: {medians[0]:.1f} ms, watched {medians[1]:.1f} ms, {medians[1] / medians[0]:.2f} times")
    return {
        "step": "TransformerEncoder d_model 128, 4 heads, feed-forward 512, 2 layers, 8 x 64, AdamW(foreach=False)",
        "alone_ms": round(medians[0], 2),
        "watched_ms": round(medians[1], 2),
        "ratio": round(medians[1] / medians[0], 2),
    }


def reads(num_reads):
    """Bytes that `num_reads` reads of one tensor add, once the log of the last records is full."""
    with cudalens.virtual.device(DEVICE), cudalens.sanitize() as san:
        weight = torch.ones(8, device="cuda")
        into = torch.ones(8, device="cuda")
        for _ in range(12_000):
            torch.add(weight, 1, out=into)
        gc.collect()
        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(num_reads):
            torch.add(weight, 1, out=into)
        grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(20_000):
            torch.add(weight, 1, out=into)
        gc.collect()
        ours = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*/cudalens/sanitizer/*")])
        kept = sum(trace.size for trace in ours.traces)
        tracemalloc.stop()
        touches = san._watch.detector.num_touches
    per_read = grown_kib * 1024 / num_reads
    print(f"{num_reads:,} reads: {grown_kib:,} KiB more in all, {per_read:.2f} bytes a read; {touches} accesses kept")
    return {
        "reads": num_reads,
        "process_grew_kib": grown_kib,
        "bytes_per_read": round(per_read, 3),
        "accesses_remembered": touches,
        "log_bytes_kept": kept,
        "traced_before": before,
    }


def main(rounds: int = 5, num_reads: int = 1_000_000) -> int:
    torch.set_num_threads(1)
    without_torchs_callbacks()
    with cudalens.virtual.device(DEVICE):
        shallow = costs_of("shallow ", measured(rounds, 0))
        deep = costs_of("depth 40", measured(rounds, DEEP))
        step = costs_of("depth 40", step_operators(rounds))["a training step's"]
    result = {
        "shallow": shallow,
        "depth_40": deep,
        "depth_40_per_operator_of_a_training_step": step,
        "training": training(rounds),
        "memory": reads(num_reads),
        "wanted": WANTED,
        "conditions": {
            "virtual_device": DEVICE,
            **conditions(),
        },
    }
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "sanitizer.json").write_text(json.dumps(result, indent=2) + "\n")
    reached = {
        "times_cheaper_shallow": shallow["the mix"]["times_cheaper"],
        "times_cheaper_at_depth_40": deep["the mix"]["times_cheaper"],
        "times_cheaper_per_operator_of_a_training_step": step["times_cheaper"],
        "training_ratio": result["training"]["ratio"],
        "bytes_per_read": result["memory"]["bytes_per_read"],
    }
    missed = [
        name
        for name, value in reached.items()
        if (value < WANTED[name] if name.startswith("times_cheaper") else value > WANTED[name])
    ]
    for name in missed:
        print(f"MISSED {name}: {reached[name]}; wanted {WANTED[name]}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
