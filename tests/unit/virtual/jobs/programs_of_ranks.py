"""Programs of one rank, as users write them, for simulated jobs."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

WIDTH = 2048


class Block(nn.Module):
    """A block of two large products."""

    def __init__(self, width=WIDTH):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


def train(model, steps=3, batch=2048, width=WIDTH):
    """Train for some steps without reading a value."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        model(torch.randn(batch, width, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def start():
    """Start as under torchrun."""
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))


def data_parallel():
    """DistributedDataParallel of two blocks."""
    start()
    train(DistributedDataParallel(nn.Sequential(Block(), Block()).cuda()))
    dist.destroy_process_group()


def sharded():
    """FSDP2 of two blocks."""
    mesh = init_device_mesh("cuda", (int(os.environ["WORLD_SIZE"]),))
    with torch.device("meta"):
        model = nn.Sequential(Block(), Block())
    for layer in (*model, model):
        fully_shard(layer, mesh=mesh)
    model.to_empty(device="cuda")
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    train(model)
