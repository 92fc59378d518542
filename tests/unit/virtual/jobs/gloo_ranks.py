"""The reference of jobs with values: the same program in processes of gloo on the CPU, without cudalens."""

import os
import pickle
import traceback
import warnings

import torch
import torch.distributed as dist


def gloo_results(program, size, folder):
    """Run ``program("cpu", rank)`` in a process for each rank; returns what each returned."""
    pids = []
    for rank in range(size):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if not pid:
            run_rank(program, rank, size, folder)
        pids.append(pid)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    assert not any(codes)
    return [pickle.loads((folder / f"rank{rank}").read_bytes()) for rank in range(size)]


def run_rank(program, rank, size, folder):
    """Run one rank, write what the program returned, and end the process."""
    code = 1
    try:
        torch.set_num_threads(1)
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size)}
        store = dist.FileStore(str(folder / "store"), size)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
        (folder / f"rank{rank}").write_bytes(pickle.dumps([one.detach() for one in program("cpu", rank)]))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
