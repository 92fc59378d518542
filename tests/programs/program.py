"""What a third-party program is: a name, and a function that builds one step and the arguments of each of its calls."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

#: The condition of a program in which a result has CUDA's memory layout: the CPU's next operator rounds otherwise.
LAYOUT = "CUDA's group norm makes a contiguous result"

#: The condition of a program that casts by the lists of autocast.
AUTOCAST = "CUDA's lists of autocast are other ones than the CPU's"
#: A step, and the arguments of each call. The step returns tensors, or containers of tensors.
Built = tuple[Callable[..., Any], list[tuple[Any, ...]]]


@dataclass(frozen=True)
class Program:
    """A program that computes the same values in every mode.

    Attributes:
        name: The name in the table.
        build: Makes the step and its arguments on the device with this name. It is called with the seed 0 set. It
            draws its random numbers on the host, and moves the tensors to the device.
        specs: The virtual device.
        refused: The modes in which cudalens may stop the program with an error of its own that names the reason.
        condition: Why a GPU computes other values than the CPU. Those on the virtual device have to be close to the
            CPU's then, and those of the other modes equal to the virtual device's. Empty: all are equal.
    """

    name: str
    build: Callable[[str], Built]
    specs: str = "h100"
    refused: tuple[str, ...] = ()
    condition: str = ""


class Programs:
    """The programs of a module, in the order of their definition."""

    def __init__(self):
        self._all: list[Program] = []

    def __iter__(self) -> Iterator[Program]:
        return iter(self._all)

    def add(self, build: Callable[[str], Built] | None = None, **options: Any):
        """Register the decorated function as a program; the options are other fields of `Program`."""
        if build is None:
            return lambda function: self.add(function, **options)
        self._all.append(Program(build.__name__, build, **options))
        return build


def batches(device: str, *shape: int, n: int = 4, high: int | None = None) -> list[tuple[torch.Tensor]]:
    """The arguments of ``n`` calls: normal numbers, or integers below ``high``, of this shape."""
    make = torch.randn if high is None else lambda shape: torch.randint(high, shape)
    return [(make(shape).to(device),) for _ in range(n)]


def training_step(model: torch.nn.Module, loss: Callable[..., torch.Tensor], optimizer=None) -> Callable[..., Any]:
    """A step that returns the loss and the gradients, and updates the parameters if there is an optimizer."""

    def step(*args):
        model.zero_grad()
        value = loss(*args)
        value.backward()
        gradients = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
        if optimizer is not None:
            optimizer.step()
        return value.detach(), gradients

    return step


def inference_step(call: Callable[..., Any]) -> Callable[..., Any]:
    """A step without gradients."""

    def step(*args):
        with torch.no_grad():
            return call(*args)

    return step


def one_process_group() -> None:
    """Start the process group of this process alone."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
