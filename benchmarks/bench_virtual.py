"""A training step on the virtual device against the same step in plain CPU eager.

The step: ``nn.TransformerEncoder`` with d_model 128, 4 heads, feed-forward 512, 2 layers, dropout 0.1, batch first, on
8 sequences of 64; mean square of the output; backward; ``AdamW(foreach=False)``. One process, both in turn, with one
thread and with torch's default; medians. What must hold: at most 4 times the time of plain CPU eager. Also, for
information: what the virtual device adds to single operators on tiny tensors (processor time). Without values
(``values=False``) an operator takes at most 60 us more than on the meta device, where it runs torch's shape function.
The same steps with and without the formulas of `cudalens.gpus.predict`, in turn, show what predictions of times cost;
without them, every kernel lasts as long as its bytes and operations at the peaks.

Usage: ``python benchmarks/bench_virtual.py [rounds] [steps]``. Results go to ``benchmarks/results/virtual.json``.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import torch

import cudalens.virtual
from cudalens.virtual.timing import kernel_times

HERE = Path(__file__).parent
WANTED_RATIO = 4
WANTED_ADDED_US = 60
DEVICE = "h100"
WARM_UP = 3


def make_step(where):
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(128, 4, 512, dropout=0.1, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2).to(where)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    x = torch.randn(8, 64, 128).to(where)

    def step():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step


def timed_steps(where, num_steps):
    step = make_step(where)
    for _ in range(WARM_UP):
        step()
    times = []
    for _ in range(num_steps):
        began = time.perf_counter()
        step()
        times.append(time.perf_counter() - began)
    return times


def in_turn(rounds, num_steps):
    plain, virtual = [], []
    for _ in range(rounds):
        plain += timed_steps("cpu", num_steps)
        with cudalens.virtual.device(DEVICE):
            virtual += timed_steps("cuda", num_steps)
    return plain, virtual


OPERATORS = {
    "x + y": lambda x, w: x + x,
    "x.add_(1)": lambda x, w: x.add_(1),
    "x @ w": lambda x, w: x @ w,
    "x[1:]": lambda x, w: x[1:],
    "torch.empty(4)": lambda x, w: torch.empty(4, device=x.device),
    "x.sum()": lambda x, w: x.sum(),
    "relu(x @ w).sum().backward()": lambda x, w: torch.relu(x @ w).sum().backward(),
}


def operator_us(where, act, repeats=2000):
    x = torch.ones(4, 4).to(where)
    w = torch.ones(4, 4).to(where).requires_grad_("backward" in act)
    call = OPERATORS[act]
    for _ in range(50):
        call(x, w)
    times = []
    for _ in range(5):
        began = time.thread_time()
        for _ in range(repeats // 5):
            call(x, w)
        times.append((time.thread_time() - began) / (repeats // 5))
    return statistics.median(times) * 1e6


def operators():
    times_us = {}
    for act in OPERATORS:
        plain = operator_us("cpu", act)
        meta = operator_us("meta", act)
        with cudalens.virtual.device(DEVICE):
            virtual = operator_us("cuda", act)
        with cudalens.virtual.device(DEVICE, values=False):
            no_values = operator_us("cuda", act)
        times_us[act] = {
            "cpu": round(plain, 1),
            "meta": round(meta, 1),
            "virtual": round(virtual, 1),
            "no_values": round(no_values, 1),
            "added": round(virtual - plain, 1),
            "added_no_values": round(no_values - meta, 1),
        }
    return times_us


def measured(num_threads, rounds, num_steps):
    torch.set_num_threads(num_threads)
    plain, virtual = in_turn(rounds, num_steps)
    ratio = statistics.median(virtual) / statistics.median(plain)
    print(
        f"{num_threads} threads: cpu {statistics.median(plain) * 1e3:.1f} ms, "
        f"virtual {statistics.median(virtual) * 1e3:.1f} ms, {ratio:.2f} times"
    )
    return {
        "cpu_ms": round(statistics.median(plain) * 1e3, 2),
        "virtual_ms": round(statistics.median(virtual) * 1e3, 2),
        "ratio": round(ratio, 2),
        "all_steps_ms": {"cpu": [round(t * 1e3, 2) for t in plain], "virtual": [round(t * 1e3, 2) for t in virtual]},
    }


def prediction(rounds, num_steps):
    """The ratio of a step with the formulas to one without them, by processor time of the thread."""
    times = {"with": [], "without": []}
    for _ in range(rounds):
        for name in times:
            with cudalens.virtual.device(DEVICE), formulas_replaced(name == "without"):
                step = make_step("cuda")
                for _ in range(WARM_UP):
                    step()
                for _ in range(num_steps):
                    began = time.thread_time()
                    step()
                    times[name].append(time.thread_time() - began)
    medians = {name: statistics.median(found) for name, found in times.items()}
    result = {f"{name}_formulas_ms": round(median * 1e3, 2) for name, median in medians.items()}
    return result | {"ratio": round(medians["with"] / medians["without"], 3)}


@contextmanager
def formulas_replaced(is_replaced):
    names = ("product_ns", "row_ns") if is_replaced else ()
    before = {name: getattr(kernel_times, name) for name in names}
    for name in names:
        setattr(kernel_times, name, lambda *args: None)
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(kernel_times, name, function)


def main(rounds: int = 5, num_steps: int = 8) -> int:
    default = torch.get_num_threads()
    steps = {"one_thread": measured(1, rounds, num_steps), "default_threads": measured(default, rounds, num_steps)}
    torch.set_num_threads(1)
    added = operators()
    predicted = prediction(rounds, num_steps)
    print(f"a step with predictions of times against one without: {predicted['ratio']:.3f}")
    for act, us in added.items():
        print(
            f"{act:>30}: cpu {us['cpu']:6.1f} us, virtual {us['virtual']:6.1f} us, "
            f"without values {us['no_values']:6.1f} us, meta {us['meta']:6.1f} us"
        )
    result = {
        "step": "TransformerEncoder d_model 128, 4 heads, feed-forward 512, 2 layers, 8 x 64, AdamW(foreach=False)",
        **steps,
        "operators_us": added,
        "prediction": predicted,
        "wanted": {"ratio": WANTED_RATIO, "added_no_values_us": WANTED_ADDED_US},
        "conditions": {
            "virtual_device": DEVICE,
            "threads": default,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "cores": os.cpu_count(),
            "load_average": os.getloadavg(),
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
        },
    }
    (HERE / "results").mkdir(exist_ok=True)
    (HERE / "results" / "virtual.json").write_text(json.dumps(result, indent=2) + "\n")
    single = [us for act, us in added.items() if "backward" not in act]
    is_slow = any(us["added_no_values"] > WANTED_ADDED_US for us in single)
    return int(is_slow or any(step["ratio"] > WANTED_RATIO for step in steps.values()))


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
