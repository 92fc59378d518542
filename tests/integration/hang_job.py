"""A job of gloo ranks that does not go on: ``hang_job.py KIND FOLDER NUM_RANKS``.

Each rank is a fork that ends as a script does. The job ends when all ranks have ended or have written their dumps.
"""

from __future__ import annotations

import atexit
import datetime
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist

import cudalens

STEPS = 5
LIMIT_S = 120.0
x, y = torch.ones(10), torch.ones(8)


def gather(tensor: torch.Tensor) -> None:
    dist.all_gather([torch.zeros_like(tensor) for _ in range(dist.get_world_size())], tensor)


def endless() -> None:
    while True:
        pass


def run(kind: str, rank: int, num_ranks: int, folder: Path, store: str) -> None:
    cudalens.watch_hangs(folder, timeout_s=1.5, interval_s=1.0)
    limit = datetime.timedelta(seconds=LIMIT_S)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=num_ranks, timeout=limit)
    pair = dist.new_group([0, 1], group_desc="pair")
    second = dist.new_group(list(range(num_ranks)), group_desc="second")
    for _ in range(STEPS):
        dist.all_reduce(x)
        gather(y)
        if rank < 2:
            dist.all_reduce(x, group=pair)
        dist.broadcast(x, 0)
    KINDS[kind](rank == 1, rank, pair, second)


def healthy_with_two_groups(bad: bool, rank: int, pair: dist.ProcessGroup, second: dist.ProcessGroup) -> None:
    for _ in range(20):
        dist.all_reduce(x, group=second)
        dist.all_reduce(x)


def slow(bad: bool, *_: object) -> None:
    if bad:
        time.sleep(4)
    dist.all_reduce(x)
    gather(y)


def missing(bad: bool, *_: object) -> None:
    if bad:
        time.sleep(LIMIT_S)
    dist.all_reduce(x)


def order(bad: bool, *_: object) -> None:
    for collective in (gather, dist.all_reduce) if bad else (dist.all_reduce, gather):
        collective(y if collective is gather else x)


def operation(bad: bool, *_: object) -> None:
    dist.reduce(x, 0) if bad else dist.all_reduce(x)
    dist.barrier()


def large(bad: bool, *_: object) -> None:
    dist.all_reduce(torch.ones(20 if bad else 10))
    dist.barrier()


def small(bad: bool, *_: object) -> None:
    dist.all_reduce(torch.ones(4 if bad else 10))
    dist.barrier()


def dtype(bad: bool, *_: object) -> None:
    dist.all_reduce(torch.ones(10, dtype=torch.float64 if bad else torch.float32))
    dist.barrier()


def group(bad: bool, rank: int, pair: dist.ProcessGroup, second: dist.ProcessGroup) -> None:
    dist.all_reduce(x, group=second if bad else None)


def exit_early(bad: bool, *_: object) -> None:
    if not bad:
        dist.all_reduce(x)


def dead(bad: bool, *_: object) -> None:
    if bad:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(x)


def exception(bad: bool, *_: object) -> None:
    if bad:
        raise ValueError("bad batch")
    dist.all_reduce(x)


def deadlock(bad: bool, rank: int, pair: dist.ProcessGroup, second: dist.ProcessGroup) -> None:
    groups = [pair, second] if rank == 0 else [second, pair]
    for one in groups[: 2 if rank < 2 else 1]:
        dist.all_reduce(x, group=one)


def python_loop(bad: bool, *_: object) -> None:
    if bad:
        endless()
    dist.all_reduce(x)


def receive(bad: bool, rank: int, *_: object) -> None:
    """Rank 1 does not send; rank 0 waits in recv, the others in the collective after it."""
    if bad:
        endless()
    if rank == 0:
        dist.recv(x, 1)
    dist.all_reduce(x)


def send_in_group(bad: bool, rank: int, pair: dist.ProcessGroup, second: dist.ProcessGroup) -> None:
    """Ranks 0 and 1 send to each other, and none receives; more than sockets hold."""
    if rank < 2:
        dist.send(torch.ones(1 << 24), 1 - rank, group=pair)
        dist.recv(torch.ones(1 << 24), 1 - rank, group=pair)
    dist.all_reduce(x)


KINDS = {
    "healthy": lambda *_: None,
    "healthy with two groups": healthy_with_two_groups,
    "slow": slow,
    "missing": missing,
    "order": order,
    "operation": operation,
    "size, larger": large,
    "size, smaller": small,
    "dtype": dtype,
    "group": group,
    "exit": exit_early,
    "dead": dead,
    "exception": exception,
    "deadlock": deadlock,
    "endless Python loop": python_loop,
    "receive": receive,
    "send to each other": send_in_group,
}


def as_script(kind: str, rank: int, num_ranks: int, folder: Path, store: str) -> None:
    """Run a rank, and end as Python ends a script."""
    try:
        run(kind, rank, num_ranks, folder, store)
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    atexit._run_exitfuncs()
    os._exit(0)


def main(kind: str, folder: Path, num_ranks: int) -> None:
    folder.mkdir()
    store = str(Path(tempfile.mkdtemp()) / "store")
    ranks = {}
    for rank in range(num_ranks):
        pid = os.fork()
        if not pid:
            as_script(kind, rank, num_ranks, folder, store)
        ranks[pid] = rank
    ends_at = time.monotonic() + LIMIT_S
    while ranks and time.monotonic() < ends_at and not all(has_two_dumps(folder, rank) for rank in ranks.values()):
        for pid in [pid for pid in ranks if os.waitpid(pid, os.WNOHANG)[0]]:
            del ranks[pid]
        time.sleep(0.05)
    for sent in (signal.SIGSTOP, signal.SIGKILL):  # no rank notices that another one ended
        for pid in ranks:
            os.kill(pid, sent)
    for pid in ranks:
        os.waitpid(pid, 0)


def has_two_dumps(folder: Path, rank: int) -> bool:
    """Whether the rank has written its second dump; never so for a job that only takes long."""
    return KIND != "slow" and (folder / f"rank_{rank}.dump_2.state.json").exists()


if __name__ == "__main__":
    KIND = sys.argv[1]
    main(KIND, Path(sys.argv[2]), int(sys.argv[3]))
