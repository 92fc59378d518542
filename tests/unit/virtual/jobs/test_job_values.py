"""Jobs with values: what four virtual ranks compute equals what gloo computes on the CPU, bit for bit.

Four ranks, so that the mean of gradients is a sum and a division that rounds nothing.
"""

import os
import sys

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor import Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

import cudalens
from cudalens.errors import VirtualDeviceError
from tests.unit.virtual.jobs.gloo_ranks import gloo_results
from tests.unit.virtual.jobs.programs_of_ranks import start

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="jobs with values fork")

SIZE = 4
WIDTH = 12


class Block(nn.Module):
    """A residual block with a norm."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(self.norm(x))))


def model_on(device, blocks=2):
    """The same model on each rank."""
    torch.manual_seed(0)
    return nn.Sequential(*[Block() for _ in range(blocks)]).to(device)


def batch(device, number, rows=8):
    """A batch that a number identifies."""
    generator = torch.Generator().manual_seed(number)
    return torch.randn(rows, WIDTH, generator=generator).to(device)


def local(tensor):
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def train(model, optimizer, device, rank, steps=3):
    """Train; returns the parts of parameters and the losses."""
    losses = []
    for step in range(steps):
        loss = local(model(batch(device, 10 * step + rank))).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return [*losses, *(local(one).detach().clone() for one in model.parameters())]


def data_parallel(device, rank):
    model = DistributedDataParallel(model_on(device))
    return train(model, torch.optim.AdamW(model.parameters(), lr=0.01), device, rank)


def data_parallel_with_accumulation(device, rank):
    model = DistributedDataParallel(model_on(device), gradient_as_bucket_view=True, bucket_cap_mb=0.002)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with model.no_sync():
        model(batch(device, 100 + rank)).square().mean().backward()
    return train(model, optimizer, device, rank)


def data_parallel_with_a_hook(device, rank):
    model = DistributedDataParallel(model_on(device))
    state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2, min_compression_rate=0.5)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    return train(model, torch.optim.SGD(model.parameters(), lr=0.1), device, rank, steps=5)


def zero_optimizer(device, rank):
    model = DistributedDataParallel(model_on(device))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=0.01)
    return train(model, optimizer, device, rank)


def sharded(device, rank):
    mesh = init_device_mesh(device, (SIZE,))
    model = model_on(device)
    for layer in (*model, model):
        fully_shard(layer, mesh=mesh)
    return train(model, torch.optim.AdamW(model.parameters(), lr=0.01), device, rank)


def sharded_and_clipped(device, rank):
    mesh = init_device_mesh(device, (SIZE,))
    model = model_on(device)
    for layer in (*model, model):
        fully_shard(layer, mesh=mesh)
    norms = []
    for step in range(3):
        model(batch(device, rank + SIZE * step)).square().mean().backward()
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), 0.1).full_tensor())
        model.zero_grad()
    return norms


def sharded_mixed_precision(device, rank):
    mesh = init_device_mesh(device, (SIZE,))
    model = model_on(device)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in (*model, model):
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    return train(model, torch.optim.SGD(model.parameters(), lr=0.1), device, rank)


def hybrid_sharded(device, rank):
    mesh = init_device_mesh(device, (2, 2), mesh_dim_names=("replicate", "shard"))
    model = model_on(device)
    for layer in (*model, model):
        fully_shard(layer, mesh=mesh)
    return train(model, torch.optim.SGD(model.parameters(), lr=0.1), device, rank)


def sharded_by_wrapper(device, rank):
    model = FullyShardedDataParallel(model_on(device), use_orig_params=True, device_id=torch.device(device))
    return train(model, torch.optim.SGD(model.parameters(), lr=0.1), device, rank)


def tensor_parallel(device, rank):
    mesh = init_device_mesh(device, (SIZE,))
    model = model_on(device)
    for block in model:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return train(model, torch.optim.SGD(model.parameters(), lr=0.1, foreach=False), device, rank=0)


def sequence_parallel(device, rank):
    mesh = init_device_mesh(device, (SIZE,))
    block = model_on(device, 1)[0]
    plan = {
        "norm": SequenceParallel(sequence_dim=0),
        "up": ColwiseParallel(input_layouts=Shard(0)),
        "down": RowwiseParallel(output_layouts=Shard(0)),
    }
    parallelize_module(block, mesh, plan)
    x = distribute_tensor(batch(device, 0), mesh, [Shard(0)])
    out = block.down(torch.tanh(block.up(block.norm(x))))
    local(out).square().mean().backward()
    return [local(out), *(local(one.grad) for one in block.parameters())]


def both_dimensions(device, rank):
    mesh = init_device_mesh(device, (2, 2), mesh_dim_names=("dp", "tp"))
    model = model_on(device)
    for block in model:
        parallelize_module(block, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
        fully_shard(block, mesh=mesh["dp"])
    fully_shard(model, mesh=mesh["dp"])
    return train(model, torch.optim.AdamW(model.parameters(), lr=0.01), device, rank // 2)


def pipeline(schedule):
    def run(device, rank):
        model = model_on(device, SIZE)[rank]
        stage = PipelineStage(model, rank, SIZE, torch.device(device))
        steps = schedule(stage, SIZE, loss_fn=lambda y, wanted: (y - wanted).square().mean())
        losses = []
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(2):
            given = (batch(device, step),) if rank == 0 else ()
            target = {"target": batch(device, step + 50), "losses": losses} if rank == SIZE - 1 else {}
            steps.step(*given, **target)
            optimizer.step()
            optimizer.zero_grad()
        return [*losses, *model.parameters()]

    run.__name__ = f"pipeline_{schedule.__name__}"
    return run


def collectives(device, rank):
    """Every collective of torch.distributed."""
    x = batch(device, rank, SIZE * 2)
    found = [x.clone() for _ in range(4)]
    dist.all_reduce(found[0])
    dist.all_reduce(found[1], op=dist.ReduceOp.MAX)
    dist.broadcast(found[2], 2)
    dist.reduce(found[3], 1)
    if rank != 1:
        found[3].zero_()  # on other ranks the result is not defined
    gathered, scattered, exchanged = x.new_empty(SIZE * len(x), WIDTH), x.new_empty(2, WIDTH), torch.empty_like(x)
    dist.all_gather_into_tensor(gathered, x)
    dist.reduce_scatter_tensor(scattered, x)
    dist.all_to_all_single(exchanged, x)
    parts = [torch.empty_like(x) for _ in range(SIZE)]
    dist.all_gather(parts, x)
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    return [*found, gathered, scattered, exchanged, *parts, x]


def transfers(device, rank):
    x, right = batch(device, rank), torch.empty(8, WIDTH, device=device)
    operations = [dist.P2POp(dist.isend, x, (rank + 1) % SIZE), dist.P2POp(dist.irecv, right, (rank - 1) % SIZE)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    left = torch.empty_like(x)
    if rank % 2:
        dist.send(x, rank - 1)
    else:
        dist.recv(left, rank + 1)
        return [right, left]
    return [right]


def experts(device, rank):
    """Tokens are sent to the rank of their expert and back, with counts that depend on values."""
    x = batch(device, rank)
    order = torch.argsort(x[:, 0].abs() * 1000 % SIZE // 1, stable=True)
    counts = torch.bincount((x[:, 0].abs() * 1000 % SIZE // 1).long(), minlength=SIZE)
    theirs = torch.empty_like(counts)
    dist.all_to_all_single(theirs, counts)
    sent, received = counts.tolist(), theirs.tolist()
    tokens = x.new_empty(sum(received), WIDTH)
    dist.all_to_all_single(tokens, x[order], received, sent)
    back = torch.empty_like(x)
    dist.all_to_all_single(back, tokens * (rank + 1), sent, received)
    return [theirs, tokens, back]


def objects(device, rank):
    found = [None] * SIZE
    dist.all_gather_object(found, {"rank": rank})
    given = [f"from {rank}"]
    dist.broadcast_object_list(given, 3)
    dist.barrier()
    return [torch.tensor([one["rank"] for one in found]), torch.tensor(len(given[0]))]


PROGRAMS = [
    data_parallel,
    data_parallel_with_accumulation,
    data_parallel_with_a_hook,
    zero_optimizer,
    sharded,
    sharded_and_clipped,
    sharded_mixed_precision,
    hybrid_sharded,
    sharded_by_wrapper,
    tensor_parallel,
    sequence_parallel,
    both_dimensions,
    pipeline(ScheduleGPipe),
    pipeline(Schedule1F1B),
    collectives,
    transfers,
    experts,
    objects,
]


def on_gpus(program):
    """What a rank runs in a job."""

    def run():
        dist.init_process_group("nccl")
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        return program("cuda", dist.get_rank())

    return run


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_four_virtual_ranks_compute_what_gloo_computes(program, tmp_path):
    job = cudalens.virtual.job(on_gpus(program), "h100x4", values=True)
    wanted = gloo_results(program, SIZE, tmp_path)
    assert sorted(job.results) == list(range(SIZE))
    for rank in range(SIZE):
        assert len(job.results[rank]) == len(wanted[rank])
        for number, (found, expected) in enumerate(zip(job.results[rank], wanted[rank], strict=True)):
            assert torch.equal(found, expected), (rank, number, (found - expected).abs().max())
    assert len(job[SIZE - 1].events)


def test_an_error_of_a_rank_is_raised_with_the_rank_and_its_lines():
    def fails_on_rank_2():
        dist.init_process_group("nccl")
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        x = torch.ones(4, device="cuda")
        if dist.get_rank() == 2:
            raise ValueError("no data")
        dist.all_reduce(x)

    with pytest.raises(ValueError, match="no data") as caught:
        cudalens.virtual.job(fails_on_rank_2, "h100x4", values=True)
    assert "In rank 2 of the job" in caught.value.__notes__[0]
    assert 'raise ValueError("no data")' in caught.value.__notes__[0]


def test_a_process_that_ends_is_named():
    with pytest.raises(VirtualDeviceError, match="the process of rank 1 ended"):
        cudalens.virtual.job(lambda: os.environ["RANK"] == "1" and os._exit(3), "h100x2", values=True)


def test_a_hook_in_bfloat16_sums_rounded_gradients():
    def program():
        start()
        model = DistributedDataParallel(nn.Linear(4, 1, bias=False, device="cuda"))
        model.register_comm_hook(None, default_hooks.bf16_compress_hook)
        model(torch.full((1, 4), 1 + 2**-12, device="cuda")).sum().backward()
        return model.module.weight.grad

    for gradient in cudalens.virtual.job(program, "h100x2", values=True).results.values():
        assert gradient.tolist() == [[1.0] * 4]


def test_a_mean_of_reduce_scatter_tensor():
    def program():
        start()
        x = torch.arange(4.0, device="cuda") * (dist.get_rank() + 1)
        dist.reduce_scatter_tensor(part := torch.empty(2, device="cuda"), x, op=dist.ReduceOp.AVG)
        return part

    results = cudalens.virtual.job(program, "h100x2", values=True).results
    assert [results[rank].tolist() for rank in range(2)] == [[0.0, 1.5], [3.0, 4.5]]


@pytest.mark.parametrize("is_view", [False, True])
def test_data_parallel_steps_take_the_same_time_with_values(is_view):
    def program():
        start()
        model = nn.Sequential(*[nn.Linear(1024, 1024, device="cuda") for _ in range(3)])
        model = DistributedDataParallel(model, bucket_cap_mb=4, gradient_as_bucket_view=is_view)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(4):
            model(torch.randn(1024, 1024, device="cuda")).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    jobs = [cudalens.virtual.job(program, "h100x2", values=values) for values in (False, True)]
    kernels = []
    for job in jobs:
        events = job[1].events
        of_step = events[(events["cat"] == "kernel") & (events["step"] == 2)].sort_values("ts")
        is_nccl = of_step["name"].str.contains("nccl")
        assert is_nccl.sum() >= 3
        assert not set(of_step["stream"][is_nccl]) & set(of_step["stream"][~is_nccl])
        kernels.append(of_step["name"].tolist())
    assert jobs[0].step_ns == pytest.approx(jobs[1].step_ns, rel=0.02)
    assert kernels[0] == kernels[1]


def test_coalescing_by_a_device_is_refused_with_the_reason():
    def program():
        start()
        with dist.distributed_c10d._coalescing_manager(device=torch.device("cuda", torch.cuda.current_device())):
            dist.all_reduce(torch.ones(4, device="cuda"))

    with pytest.raises(VirtualDeviceError, match=r"test_job_values\.py:\d+: with values, gloo .* does not coalesce"):
        cudalens.virtual.job(program, "h100x2", values=True)
    assert cudalens.virtual.job(program, "h100x2").ran == (0,)


def test_what_a_job_with_values_cannot_do_is_refused():
    with pytest.raises(VirtualDeviceError, match="at most 8 ranks"):
        cudalens.virtual.job(objects, "h100x16", values=True)
    with pytest.raises(ValueError, match="default"):
        cudalens.virtual.job(objects, "h100x4", values=True, default=1.0)
    with pytest.raises(VirtualDeviceError, match="cannot be sent"):
        cudalens.virtual.job(lambda: (item for item in ()), "h100x2", values=True)


def test_no_process_is_left():
    before = set(os.listdir("/proc"))
    job = cudalens.virtual.job(lambda: os.getpid(), "h100x2", values=True)
    assert len(set(job.results.values())) == 2
    assert not {str(pid) for pid in job.results.values()} & set(os.listdir("/proc")) - before
