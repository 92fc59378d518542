"""Wall time inside a profiled block: cudalens.profile against bare torch.profiler with the same options.

    python benchmarks/bench_overhead.py [--rounds 15] [--events 20000]

Per option set, medians over runs that take turns: wall time of the block (what the user's code is slowed by), the
processor time of its thread (the same without what other programs take), and the whole ``with`` statement (reported
only: ours builds frames at its end, torch builds its events when asked).
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from bench_build import training_loop
from torch.profiler import ProfilerActivity

import cudalens

OPTIONS = {
    "plain": {},
    "shapes": {"shapes": True},
    "memory": {"memory": True},
    "stacks": {"stacks": True},
}
NAMES = {"shapes": "record_shapes", "memory": "profile_memory", "stacks": "with_stack"}


def block(num_events):
    begin, cpu = time.perf_counter(), time.thread_time()
    training_loop(num_events)
    return time.perf_counter() - begin, time.thread_time() - cpu


def with_torch(options, num_events):
    begin = time.perf_counter()
    with torch.profiler.profile(activities=[ProfilerActivity.CPU], **{NAMES[name]: True for name in options}):
        inside = block(num_events)
    return *inside, time.perf_counter() - begin


def with_ours(options, num_events):
    begin = time.perf_counter()
    with cudalens.profile(cpu_only=True, keep=False, **options):
        inside = block(num_events)
    return *inside, time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--events", type=int, default=20_000)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for title, options in OPTIONS.items():
        ours, theirs = [], []
        with_torch(options, arguments.events)
        with_ours(options, arguments.events)
        for turn in range(arguments.rounds):
            pair = [(ours, with_ours), (theirs, with_torch)]
            for found, run in pair if turn % 2 else pair[::-1]:
                found.append(run(options, arguments.events))
        inside, cpu, whole = ([statistics.median(run[i] for run in runs) for runs in (ours, theirs)] for i in range(3))
        print(
            f"{title:>7}: wall inside {inside[0] * 1e3:.1f} ms against {inside[1] * 1e3:.1f} ms "
            f"({100 * (inside[0] / inside[1] - 1):+.1f} %); processor {cpu[0] * 1e3:.1f} against {cpu[1] * 1e3:.1f} ms "
            f"({100 * (cpu[0] / cpu[1] - 1):+.1f} %); whole {whole[0] * 1e3:.1f} against {whole[1] * 1e3:.1f} ms"
        )


if __name__ == "__main__":
    main()
