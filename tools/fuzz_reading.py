"""Read and show damaged copies of files of every format; print what went wrong, how long it took and how much memory.

Each copy that is read is summarized, and briefed, compared with the intact file, or shown as a report or a timeline, in
turn. Every twentieth is used in all these ways, saved, exported, checked, and shown as a rank of a job.

    python tools/fuzz_reading.py [--inputs 10000] [--seed 0] [--keep FOLDER]

Exit code 1 if an exception was raised that is not cudalens's own, a part could not be computed, reading an input took
more than ten times the CPU time of the intact file, or the process grew by more than 2 GiB. The same seed gives the
same inputs.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

from trace_mutations import (
    RANK_SUFFIXES,
    Outcome,
    everything,
    mutations,
    outcome,
    peak_bytes,
    seeds,
    use_as_rank,
    views,
)

import cudalens

LIMIT_BYTES = 2 << 30
LIMIT_TIMES = 10
#: One of how many inputs is used in every way.
EVERY = 20
OWN = ("read", "refused")


def one_view(number: int, *arguments: Any) -> Iterator[tuple[str, Callable[[], object]]]:
    """The summary, and one of the other views in turn."""
    summary, *others = views(*arguments)
    yield summary
    yield others[number % len(others)]


def check_format(name: str, data: bytes, count: int, folder: Path, options: argparse.Namespace) -> bool:
    """Read `count` damaged copies of `data`; returns whether all went well."""
    results: list[Outcome] = []
    worst = b""
    outcome(data, folder / "intact")  # imports the reader, which counts for no input
    whole = statistics.median(outcome(data, folder / "intact").cpu_s for _ in range(5))
    intact = cudalens.load(folder / "intact")
    for number, damaged in enumerate(islice(mutations(data, f"{name} {options.seed}"), count)):
        is_full = number % EVERY == 0
        acts = everything if is_full else partial(one_view, number)
        found = outcome(damaged, folder / "input", intact, acts)
        if is_full and name in RANK_SUFFIXES and found.kind in OWN:
            kind, detail = use_as_rank(damaged, data, RANK_SUFFIXES[name], folder / f"job {name}")
            found.kind, found.detail = kind or found.kind, detail or found.detail
        if found.cpu_s > LIMIT_TIMES * whole:  # a garbage collection, or slow input: read it again
            found = min([found, *(outcome(damaged, folder / "input") for _ in range(2))], key=lambda one: one.cpu_s)
        if found.kind not in OWN:
            print(f"  {name}, input {len(results)}: {found.kind}: {found.detail[:200]}")
            if options.keep:
                Path(options.keep, f"{name}-{len(results)}".replace(" ", "-")).write_bytes(damaged)
        if not results or found.cpu_s > max(one.cpu_s for one in results):
            worst = damaged
        results.append(found)
    times = max(one.cpu_s for one in results) / whole
    kinds = {kind: sum(one.kind == kind for one in results) for kind in sorted({one.kind for one in results})}
    print(f"{name:<16} {kinds}  intact {whole * 1000:.1f} ms, worst {times:.1f} times that", flush=True)
    if times > LIMIT_TIMES and options.keep:
        Path(options.keep, f"{name}-slowest".replace(" ", "-")).write_bytes(worst)
    return times <= LIMIT_TIMES and kinds.keys() <= set(OWN)


def main() -> int:
    """Check every format; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=10_000, help="number of inputs, over all formats")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", metavar="FOLDER", help="write the inputs that went wrong there")
    options = parser.parse_args()
    if options.keep:
        Path(options.keep).mkdir(parents=True, exist_ok=True)
    before = peak_bytes()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = seeds(folder)
        count = -(-options.inputs // len(found))
        is_well = [check_format(kind, data, count, folder, options) for kind, data in found.items()]
    grown = peak_bytes() - before
    print(f"{count * len(found):,} inputs; the process grew by {grown / (1 << 20):.0f} MiB")
    return int(not all(is_well) or grown > LIMIT_BYTES)


if __name__ == "__main__":
    sys.exit(main())
