"""What a third-party program is: a name, and a function that builds one step and the arguments of each of its calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

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
    """

    name: str
    build: Callable[[str], Built]
    specs: str = "h100"
    refused: tuple[str, ...] = ()


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
