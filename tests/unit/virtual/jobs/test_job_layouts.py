"""Tensor parallel, pipeline and context parallel jobs."""

import os
from functools import partial

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed._functional_collectives import all_to_all_single_autograd
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.parallel import DistributedDataParallel

import cudalens

WIDTH = 1024
MICROBATCHES = 4
HEADS, LENGTH, HEAD_SIZE = 8, 4096, 128


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


def pipeline(steps=3):
    dist.init_process_group("nccl")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = nn.Sequential(Block(), Block()).cuda()
    stage = PipelineStage(model, rank, size, torch.device("cuda"))
    schedule = Schedule1F1B(stage, MICROBATCHES, loss_fn=lambda y, wanted: (y - wanted).pow(2).mean())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(2048 * MICROBATCHES, WIDTH, device="cuda")
    for _ in range(steps):
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


def test_tensor_parallel_ranks_wait_for_the_sum_of_a_block_before_they_use_it():
    events = cudalens.virtual.job(tensor_parallel, "h100x4")[2].events
    work = events[(events["cat"] == "kernel") & (events["step"] == 0)].sort_values("ts")
    sums = work[work["name"].str.startswith("ncclDevKernel_AllReduce")]
    for start, end in zip(sums["ts"], sums["ts"] + sums["dur"], strict=True):
        after = work[(work["ts"] >= start) & ~work["name"].str.startswith("nccl")]
        assert after["ts"].min() >= end  # the program has nothing else to do
    assert len(sums) == 1


def test_ranks_with_different_batches_do_not_share_what_dtensor_found_on_the_gpu_of_another_rank():
    def run():
        mesh = init_device_mesh("cuda", (int(os.environ["WORLD_SIZE"]),))
        model = nn.Sequential(nn.Linear(48, 48), nn.Linear(48, 48)).cuda()
        model = parallelize_module(model, mesh, {"0": ColwiseParallel(), "1": RowwiseParallel()})
        rows = 24 + 8 * (dist.get_rank() // 2)
        model[0](torch.randn(rows, 48, device="cuda"))

    assert cudalens.virtual.job(run, "h100x4", run_ranks="all").ran == (0, 1, 2, 3)


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


def plain_pipeline():
    """Stages of two products, of which only the first stage needs no gradient of its input."""
    dist.init_process_group("nccl")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = nn.Sequential(*(nn.Linear(8 * WIDTH, 8 * WIDTH, bias=False) for _ in range(2))).cuda()
    stage = PipelineStage(model, rank, size, torch.device("cuda"))
    schedule = ScheduleGPipe(stage, MICROBATCHES, loss_fn=lambda y, wanted: y.sum())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(1024 * MICROBATCHES, 8 * WIDTH, device="cuda")
    for _ in range(3):
        given = (x,) if rank == 0 else ()
        schedule.step(*given, **({"target": x} if rank == size - 1 else {}))
        optimizer.step()
        optimizer.zero_grad()


def test_the_last_stage_of_a_pipeline_is_not_slow_because_the_first_one_does_less():
    """The first and the last stage each run a program of their own: they are compared with all stages."""
    job = cudalens.virtual.job(plain_pipeline, "h100x6", nodes=1)
    assert "slow" not in str(job.summary()).splitlines()[0]
    assert job.analysis.stragglers.found == ()


def test_a_slow_last_stage_of_a_pipeline_is_named():
    job = cudalens.virtual.job(plain_pipeline, "h100x6", nodes=1, slow_gpus={5: 1.3})
    assert [one.rank for one in job.analysis.stragglers.found] == [5]
    assert 25 < job.analysis.stragglers.found[0].slower_pct < 35


def test_the_second_step_of_a_pipeline_begins_when_all_of_its_stages_have_ended_the_first():
    few, many = (cudalens.virtual.job(partial(pipeline, steps), "h100x4") for steps in (2, 6))
    assert few.step_ns == pytest.approx(many.step_ns, rel=0.02)


def test_a_rank_without_an_optimizer_does_not_hide_the_steps_of_the_others():
    def program(steps):
        dist.init_process_group("nccl")
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        model, trains = Block().cuda(), dist.get_rank() != 1
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1) if trains else None
        for _ in range(steps):
            loss = model(torch.randn(512, WIDTH, device="cuda")).sum()
            dist.all_reduce(loss.detach())
            if trains:
                loss.backward()
                optimizer.step()

    few, many = (cudalens.virtual.job(partial(program, steps), "h100x2") for steps in (3, 9))
    assert few.step_ns == pytest.approx(many.step_ns, rel=0.02)


def test_pipelines_beside_each_other_run_once_each_stage():
    def program():
        mesh = init_device_mesh("cuda", (6, 2), mesh_dim_names=("dp", "pp"))
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        position = mesh.get_local_rank("pp")
        stage = PipelineStage(Block().cuda(), position, 2, torch.device("cuda"), group=mesh.get_group("pp"))
        schedule = Schedule1F1B(stage, MICROBATCHES, loss_fn=lambda y, wanted: (y - wanted).pow(2).mean())
        x = torch.randn(64 * MICROBATCHES, WIDTH, device="cuda")
        schedule.step(*((x,) if position == 0 else ()), **({"target": x} if position == 1 else {}))

    job = cudalens.virtual.job(program, "h100x12", nodes=2)
    assert job.ran == (0, 1)
    assert "compared only on ranks 1" in job.note  # rank 11 needs the sizes that rank 10 sends, which does not run


def context_parallel_attention():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    mesh = init_device_mesh("cuda", (int(os.environ["WORLD_SIZE"]),), mesh_dim_names=("cp",))
    width = HEADS * HEAD_SIZE
    project = nn.Linear(width, 3 * width, device="cuda", dtype=torch.bfloat16)
    x = torch.randn(1, LENGTH, width, device="cuda", dtype=torch.bfloat16)
    with context_parallel(mesh, buffers=[x], buffer_seq_dims=[1]), sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        query, key, value = project(x).unflatten(-1, (3, HEADS, HEAD_SIZE)).permute(2, 0, 3, 1, 4)
        nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True).sum().backward()


class Experts(nn.Module):
    """An expert of each rank, and the exchanges of tokens before and after it."""

    def __init__(self):
        super().__init__()
        self.expert = Block()

    def forward(self, tokens):
        received = all_to_all_single_autograd(tokens, None, None, dist.group.WORLD)
        return all_to_all_single_autograd(self.expert(received), None, None, dist.group.WORLD)


def expert_parallel():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    layer = Experts().cuda()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(3):
        tokens = torch.randn(1024 * dist.get_world_size(), WIDTH, device="cuda", requires_grad=True)
        layer(tokens).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def zero_optimizer(kind):
    def run():
        dist.init_process_group("nccl")
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        model = DistributedDataParallel(nn.Sequential(*[Block() for _ in range(8)]).cuda())
        optimizer = (
            ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=0.1)
            if kind == "zero"
            else torch.optim.AdamW(model.parameters(), lr=0.1)
        )
        for _ in range(3):
            model(torch.randn(512, WIDTH, device="cuda")).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    return run


def test_context_parallel_ranks_hold_a_part_of_the_sequence_and_exchange_keys_and_values():
    job = cudalens.virtual.job(context_parallel_attention, "h100x4", run_ranks=[0])
    found = job.frames["collectives"].query("rank == 0")
    part = 2 * HEADS * (LENGTH // 4) * HEAD_SIZE
    # keys and values are gathered in the forward pass and again in the backward pass
    assert found[found["kind"] == "allgather"]["num_bytes"].tolist() == [2 * 4 * part] * 2
    assert set(found["num_bytes"] % part) == {0}
    kernels = job[0].events.query("cat == 'kernel'")["name"]
    assert kernels.str.contains("flash").any()


def test_expert_parallel_ranks_exchange_their_tokens_twice_in_each_direction():
    job = cudalens.virtual.job(expert_parallel, "h100x8")
    found = job.frames["collectives"].query("rank == 5 and step == 1")
    assert len(found) == 4
    assert set(found["num_bytes"]) == {4 * 1024 * 8 * WIDTH}
    assert set(found["kind"]) == {"alltoall"}


def test_an_optimizer_that_is_divided_over_ranks_takes_less_memory_and_sends_its_parameters():
    usual, divided = (cudalens.virtual.job(zero_optimizer(kind), "h100x4") for kind in ("usual", "zero"))
    parameters = 4 * 8 * 8 * WIDTH * WIDTH
    saved = usual.memory["allocated_bytes"].max() - divided.memory["allocated_bytes"].max()
    # three quarters of two states, and of the temporaries of a step, which are as large as the parameters
    assert saved == pytest.approx(3 * parameters * 3 / 4, rel=0.02)
    sent = divided.frames["collectives"].query("rank == 0 and step == 1 and kind == 'broadcast'")["num_bytes"].sum()
    assert sent == parameters
