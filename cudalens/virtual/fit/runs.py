"""Run a program once on a virtual device without values, and measure its memory and time."""

from __future__ import annotations

import gc
import importlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

import torch

from cudalens.gpus.registry import DeviceSpec
from cudalens.virtual.context import device
from cudalens.virtual.fit.usage import Usage

#: Memory of a device on which everything fits: the peak of a program that does not fit is measured on it.
_UNLIMITED_BYTES: Final = 1 << 46

#: Steps of a program that returns its step: the optimizer makes its state in the first.
_STEPS: Final = 2


@dataclass(frozen=True, slots=True)
class Run:
    """What one run used.

    Attributes:
        requested_bytes: The peak of the memory that tensors need, which no device can do without.
        allocated_bytes: The peak of allocated memory.
        reserved_bytes: The peak of memory that the allocator reserved.
        context_bytes: Memory of the CUDA context, which every process has.
        categories: Bytes at the peak of allocated memory, by category.
        line: The user's line at that peak.
        operator: The operator at that peak.
        step_ns: Time of the last step, ns.
        kernels: Families and durations (ns) of the kernels of the last step.
    """

    requested_bytes: int
    allocated_bytes: int
    reserved_bytes: int
    context_bytes: int
    categories: dict[str, int]
    line: str
    operator: str
    step_ns: int
    kernels: tuple[tuple[str, int], ...] = ()

    @property
    def total_bytes(self) -> int:
        """The memory of the device that the process needs."""
        return self.reserved_bytes + self.context_bytes


class Program:
    """A program to run with several batch sizes.

    Args:
        step: Takes the batch size, if it takes an argument. It makes the model and its data and runs a step, or returns
            a function that runs a step.
        default: The number that it reads for unknown values.
        default_count: The number of results of operators whose size depends on values.
    """

    def __init__(self, step: Callable[..., Any], default: float | None, default_count: int | None) -> None:
        self._step, self._default, self._default_count = step, default, default_count
        self.takes_batch = _takes_argument(step)

    def run_within(self, spec: DeviceSpec, batch: int, change: AbstractContextManager[Any] | None = None) -> Run | None:
        """Run it on that GPU; None if it runs out of memory."""
        try:
            return self._run(spec, batch, change or nullcontext())
        except torch.OutOfMemoryError:
            return None

    def measure(self, spec: DeviceSpec, batch: int, change: AbstractContextManager[Any] | None = None) -> Run:
        """Run it on a GPU like that with unlimited memory."""
        unlimited = spec.replace(total_memory_bytes=_UNLIMITED_BYTES)
        return self._run(unlimited, batch, change or nullcontext())

    def _run(self, spec: DeviceSpec, batch: int, change: AbstractContextManager[Any]) -> Run:
        try:
            with device(spec, values=False, default=self._default, default_count=self._default_count) as on:
                assert on.gpus is not None
                usage = Usage(on.gpus)
                with usage.observed(), change:
                    step_ns, kernels = self._steps(on.gpus.machine, batch)
                stats = torch.cuda.memory_stats()
                return Run(
                    stats["requested_bytes.all.peak"],
                    stats["allocated_bytes.all.peak"],
                    stats["reserved_bytes.all.peak"],
                    spec.context_bytes,
                    usage.by_category(),
                    usage.line,
                    usage.operator,
                    step_ns,
                    kernels,
                )
        finally:
            gc.collect()  # the next run measures its own tensors only

    def _steps(self, machine: Any, batch: int) -> tuple[int, tuple[tuple[str, int], ...]]:
        """Run the program and its steps; returns time and kernels of the last."""
        machine.recorder = kernels = Kernels()
        began = machine.now_ns
        again = self._step(batch) if self.takes_batch else self._step()
        for _ in range(_STEPS if callable(again) else 0):
            torch.cuda.synchronize()
            kernels.works.clear()
            began = machine.now_ns
            again()
        torch.cuda.synchronize()
        machine.recorder = None
        return machine.now_ns - began, tuple(kernels.works)


@contextmanager
def quick_collections() -> Iterator[None]:
    """Exclude the objects of the program so far from garbage collections, of which each run makes one.

    The first operator without values imports ``torch._dynamo``, whose objects are a large part of them.
    """
    if gc.get_freeze_count():  # the program has frozen objects itself
        yield
        return
    importlib.import_module("torch._dynamo")
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class Kernels:
    """Records the kernels of a machine.

    Attributes:
        works: Families and durations (ns).
    """

    def __init__(self) -> None:
        self.works: list[tuple[str, int]] = []

    def worked(self, stream: Any, work: Any, placed: Any) -> None:
        """Record work that was issued."""
        if work.kind == "kernel":
            self.works.append((work.family, work.duration_ns))

    def begin(self, operator: str) -> None:
        """Do nothing, as for everything that is not a kernel."""

    def end(self, begun: Any) -> None:
        """Do nothing."""

    def called(self, *facts: Any) -> None:
        """Do nothing."""

    def synchronized(self, *facts: Any) -> None:
        """Do nothing."""


def _takes_argument(step: Callable[..., Any]) -> bool:
    return bool(inspect.signature(step).parameters)
