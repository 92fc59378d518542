"""Tensor parallel, pipeline and context parallel jobs."""

import os

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import cudalens

WIDTH = 1024
MICROBATCHES = 4


class Block(nn.Module):
    """A block of two products."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


def tensor_parallel():
    mesh = init_device_mesh("cuda", (int(os.environ["WORLD_SIZE"]),))
    model = parallelize_module(Block().cuda(), mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        model(torch.randn(512, WIDTH, device="cuda")).sum().backward()
        optimizer.step()


def pipeline():
    dist.init_process_group("nccl")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = nn.Sequential(Block(), Block()).cuda()
    stage = PipelineStage(model, rank, size, torch.device("cuda"))
    schedule = Schedule1F1B(stage, MICROBATCHES, loss_fn=lambda y, wanted: (y - wanted).pow(2).mean())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(2048 * MICROBATCHES, WIDTH, device="cuda")
    for _ in range(3):
        given = (x,) if rank == 0 else ()
        schedule.step(*given, **({"target": x} if rank == size - 1 else {}))
        optimizer.step()
        optimizer.zero_grad()


def test_tensor_parallel_ranks_sum_each_block_twice_and_hold_a_part_of_it():
    job = cudalens.virtual.job(tensor_parallel, "h100x4")
    found = job.frames["collectives"].query("rank == 2")
    assert set(found["kind"]) == {"allreduce"}
    assert set(found["num_bytes"]) == {4 * 512 * WIDTH}
    assert job.ran == (0,)
    whole = 4 * 8 * WIDTH * WIDTH
    assert job.memory["allocated_bytes"].max() < whole + 64 * 2**20


def test_stages_of_a_pipeline_run_once_each_and_wait_as_long_as_the_bubble_of_their_schedule():
    job = cudalens.virtual.job(pipeline, "h100x2")
    assert job.ran == (0, 1)
    found = job.frames["collectives"].query("step == 0")
    sent = found[found["kind"] == "send"].groupby("rank").size()
    assert sent.tolist() == [MICROBATCHES, MICROBATCHES]
    assert set(found["num_bytes"]) == {4 * 2048 * WIDTH}
    steps = job.analysis.steps.query("step == 1")
    compute_ns = steps["compute_ns"].max()
    bubble = 1 / MICROBATCHES  # (stages - 1) / microbatches
    assert job.step_ns == pytest.approx(compute_ns * (1 + bubble), rel=0.2)
