"""Makes the traces of a job of any size, for the benchmarks: the simulation of the tests, with a slow rank."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

import jobs

#: Entries of one rank in one step of a job with 4 micro-batches of 12 layers.
_MICRO, _LAYERS = 4, 12
_ENTRIES_PER_STEP = 3 * (_MICRO * _LAYERS * (len(jobs.FORWARD) + len(jobs.BACKWARD)) + _LAYERS + 2) + 1
SLOW_RANK = 3


def write_job(folder: Path, num_ranks: int, num_entries: int) -> Path:
    """Write a trace of at least `num_entries` entries for each of `num_ranks` ranks; rank 3 is slow in aten::mm."""
    steps = -(-num_entries // _ENTRIES_PER_STEP)
    slow = jobs.Plant("rank", SLOW_RANK, "aten::mm", 1.4)
    job = jobs.Job(data=num_ranks, steps=steps, micro=_MICRO, layers=_LAYERS, offset_ns=1e9, plants=(slow,))
    return jobs.simulate(job).write(folder)


if __name__ == "__main__":
    write_job(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
