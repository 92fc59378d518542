"""Programs of torch.distributed with one process, and of data loaders with worker processes."""

from __future__ import annotations

import torch
import torch.distributed as dist
from program import Programs, batches, inference_step, one_process_group, training_step
from torch import nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DeviceMesh, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

PROGRAMS = Programs()


def _mlp():
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))


def _loss(model):
    return lambda x: model(x).square().mean()


def _local(tensor):
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _sharded_step(model, optimizer):
    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        gradients = [_local(parameter.grad).clone() for parameter in model.parameters()]
        optimizer.step()
        return loss.detach(), gradients, [_local(parameter).detach().clone() for parameter in model.parameters()]

    return step


@PROGRAMS.add
def distributed_data_parallel(device):
    one_process_group()
    model = nn.parallel.DistributedDataParallel(_mlp().to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return training_step(model, _loss(model), optimizer), batches(device, 4, 8)


@PROGRAMS.add
def distributed_data_parallel_no_sync(device):
    one_process_group()
    model = nn.parallel.DistributedDataParallel(_mlp().to(device), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        with model.no_sync():
            model(x).square().mean().backward()
        loss = model(x + 1).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach(), [parameter.detach().clone() for parameter in model.parameters()]

    return step, batches(device, 4, 8)


@PROGRAMS.add(specs="h100x2")
def data_parallel(device):
    model = _mlp().to(device)
    if device == "cpu":  # the same two halves: the rounding of a product depends on its size
        return inference_step(lambda x: torch.cat([model(half) for half in x.chunk(2)])), batches(device, 4, 8)
    return inference_step(nn.DataParallel(model, device_ids=[0, 1])), batches(device, 4, 8)


@PROGRAMS.add
def fsdp1_training(device):
    one_process_group()
    model = FullyShardedDataParallel(_mlp().to(device), use_orig_params=True, device_id=torch.device(device))
    return _sharded_step(model, torch.optim.SGD(model.parameters(), lr=0.1)), batches(device, 4, 8)


@PROGRAMS.add
def fsdp1_cpu_offload(device):
    one_process_group()
    model, offload = _mlp(), torch.distributed.fsdp.CPUOffload(offload_params=True)
    if device != "cpu":
        options = {"use_orig_params": True, "device_id": torch.device(device)}
        model = FullyShardedDataParallel(model, cpu_offload=offload, **options)
    return training_step(model, _loss(model)), batches(device, 4, 8)


def _fsdp2(device, **options):
    one_process_group()
    model = _mlp().to(device)
    mesh = DeviceMesh(device, [0])
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh, **options)
    return model


@PROGRAMS.add(refused=("graphed",))
def fsdp2_training(device):
    model = _fsdp2(device)
    return _sharded_step(model, torch.optim.AdamW(model.parameters(), lr=0.1)), batches(device, 4, 8)


@PROGRAMS.add(refused=("graphed",))
def fsdp2_mixed_precision(device):
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = _fsdp2(device, mp_policy=policy)
    return _sharded_step(model, torch.optim.SGD(model.parameters(), lr=0.1)), batches(device, 4, 8)


@PROGRAMS.add(refused=("graphed",))
def fsdp2_state_dict(device):
    model = _fsdp2(device)
    step = _sharded_step(model, torch.optim.SGD(model.parameters(), lr=0.1))

    def run(x):
        step(x)
        return {name: _local(value).clone() for name, value in get_model_state_dict(model).items()}

    return run, batches(device, 4, 8)


@PROGRAMS.add
def tensor_parallel(device):
    one_process_group()
    mesh = DeviceMesh(device, [0])
    model = parallelize_module(_mlp().to(device), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return _sharded_step(model, torch.optim.SGD(model.parameters(), lr=0.1)), batches(device, 4, 8)


@PROGRAMS.add
def distributed_tensor(device):
    one_process_group()
    mesh = DeviceMesh(device, [0])

    def step(x):
        left, right = distribute_tensor(x, mesh, [Shard(0)]), distribute_tensor(x.t(), mesh, [Replicate()])
        return (left @ right).redistribute(mesh, [Replicate()]).to_local()

    return step, batches(device, 4, 8)


@PROGRAMS.add
def collectives(device):
    one_process_group()

    def step(x):
        dist.all_reduce(x)
        gathered = [torch.empty_like(x)]
        work = dist.all_gather(gathered, x, async_op=True)
        work.wait()
        dist.broadcast(x, 0)
        return x, gathered[0] + 1

    return step, batches(device, 4, 8)


def _dataset():
    return torch.utils.data.TensorDataset(torch.randn(16, 8), torch.randint(4, (16,)))


def _epochs(device, **options):
    data, model = _dataset(), _mlp().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    train = training_step(model, lambda x, y: nn.functional.cross_entropy(model(x), y), optimizer)

    def epoch():
        loader = torch.utils.data.DataLoader(data, batch_size=4, **options)
        return [train(*(part.to(device, non_blocking=True) for part in batch)) for batch in loader]

    return epoch, [(), ()]


@PROGRAMS.add
def loader_with_pinning(device):
    return _epochs(device, pin_memory=device != "cpu")


@PROGRAMS.add
def loader_with_workers(device):
    return _epochs(device, pin_memory=device != "cpu", num_workers=2, shuffle=True)


@PROGRAMS.add
def loader_with_spawned_workers(device):
    return _epochs(device, num_workers=1, persistent_workers=True, multiprocessing_context="spawn")
