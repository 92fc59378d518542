"""Modules for TorchScript, which reads their source from a file and evaluates annotations; numbers for operators."""

import itertools

import torch

numbers = itertools.count()


class Scaled(torch.nn.Module):
    """Has a number, a list, a tensor and a parameter."""

    ks: list[float]

    def __init__(self) -> None:
        super().__init__()
        self.k = 3
        self.ks = [1.0]
        self.register_buffer("t", torch.ones(6))
        self.w = torch.nn.Parameter(torch.ones(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.k * self.w + self.t + self.ks[0]


class Counting(torch.nn.Module):
    """Changes an attribute in every call."""

    def __init__(self) -> None:
        super().__init__()
        self.n = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.n += 1
        return x * self.n
