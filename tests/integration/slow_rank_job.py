"""A job of gloo ranks, one of which becomes four times as slow: ``slow_rank_job.py FOLDER NUM_RANKS SLOW_RANK``.

Each rank is a fork that watches itself and writes into ``FOLDER``.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist

import cudalens

BEFORE, AFTER = 50, 100
RECORDED = range(BEFORE + 15, BEFORE + AFTER, 15)
USUAL_S = 0.02


def run(folder: Path, rank: int, num_ranks: int, slow_rank: int, store: str) -> None:
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(num_ranks)}
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=num_ranks)
    x = torch.ones(1000)
    with cudalens.watch("job", folder=folder) as w:
        for step in range(BEFORE + AFTER):
            if step in RECORDED:
                w.record()
            time.sleep(USUAL_S)
            if rank == slow_rank and step >= BEFORE:
                time.sleep(3 * USUAL_S)
            dist.all_reduce(x)
            w.step()
    dist.destroy_process_group()


def main(folder: str, num_ranks: int, slow_rank: int) -> int:
    store = str(Path(tempfile.mkdtemp()) / "store")
    pids = []
    for rank in range(num_ranks):
        pid = os.fork()
        if not pid:
            run(Path(folder), rank, num_ranks, slow_rank, store)
            os._exit(0)
        pids.append(pid)
    return sum(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
