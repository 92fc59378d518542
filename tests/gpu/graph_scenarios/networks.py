"""Small networks and batches for scenarios that train."""

from __future__ import annotations

import torch
from torch import nn


def network(dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Linear(6, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Dropout(dropout), nn.LayerNorm(8), nn.Linear(8, 3)
    ).cuda()


def small() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 3), nn.Tanh()).cuda()


def batch(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(n)
    return torch.randn(5, 6, generator=draw).cuda(), torch.randint(3, (5,), generator=draw).cuda()


def gradients(module: nn.Module) -> list[torch.Tensor | None]:
    return [None if p.grad is None else p.grad.clone() for p in module.parameters()]
