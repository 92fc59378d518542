"""Raw Kineto results to frames, against torch's own events and averages of the same run.

    python benchmarks/bench_build.py [--events 100000] [--rounds 5]

Peer: ``prof.events()`` plus ``prof.key_averages()``, what a user of torch.profiler calls to see a table. Ours: raw
results to the complete ``events`` frame (all columns, tree and self time). Both start from the same raw results, in one
process, taking turns; medians.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time

import torch
from torch import nn

from cudalens.frames.limits import Problems
from cudalens.profiler import ProfilerCollector, ProfilerOptions
from cudalens.profiler.collector import build_frames


def training_loop(num_events: int):
    """A loop over a small MLP with layer norms and Adam; about 1,600 events a step."""
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.LayerNorm(16)) for _ in range(8)]
    model = nn.Sequential(*layers)
    optimizer = torch.optim.AdamW(model.parameters())

    def step():
        optimizer.zero_grad()
        model(torch.randn(8, 16)).square().mean().backward()
        optimizer.step()

    step()
    for _ in range(max(1, num_events // 1600)):
        step()


def record(options: ProfilerOptions, num_events: int):
    collector = ProfilerCollector(options)
    collector.start()
    session = collector.session
    training_loop(num_events)
    collector.stop()
    return collector.raw, session.torch_profile


def timed(action):
    gc.collect()
    begin = time.perf_counter()
    result = action()
    return time.perf_counter() - begin, result


def of_torch(profile):
    profile._function_events = None
    profile._needs_processing = True
    return profile.function_events, profile.key_averages()


def compare(options: ProfilerOptions, num_events: int, rounds: int) -> None:
    raw, profile = record(options, num_events)
    ours, theirs, n = [], [], 0
    for _ in range(rounds):
        seconds, frames = timed(lambda: build_frames(raw, options, Problems(), uses_cuda=False))
        ours.append(seconds)
        n = len(frames["events"])
        del frames
        seconds, events = timed(lambda: of_torch(profile))
        theirs.append(seconds)
        del events
        profile._function_events = None
    mine, peer = statistics.median(ours), statistics.median(theirs)
    what = "shapes" if options.shapes else "plain"
    print(
        f"{what:>7}: {n:,} events; cudalens {mine * 1e3:.0f} ms ({mine / n * 1e6:.2f} us an event), "
        f"torch {peer * 1e3:.0f} ms ({peer / n * 1e6:.1f} us an event): {peer / mine:.1f} times"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    for options in (ProfilerOptions(), ProfilerOptions(shapes=True)):
        compare(options, arguments.events, arguments.rounds)


if __name__ == "__main__":
    main()
