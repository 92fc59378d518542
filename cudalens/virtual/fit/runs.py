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


#: Larger batches are not tried.
MAX_BATCH: Final = 1 << 20

#: Batches to try above one that fits and whose next one does not.
_MOST_BEYOND: Final = 16

#: Factor between the batches of the first runs, which find where the search begins.
_GROWTH: Final = 8

#: Times that the guess is improved.
_REFINEMENTS: Final = 2


def guess_of(needs: Callable[[int], int], capacity_bytes: int, batch: int) -> int:
    """Return a batch whose memory is close to the capacity, between two batches that were measured.

    Args:
        needs: The memory of the program with a batch, bytes.
        capacity_bytes: The memory of the device.
        batch: The batch to measure first.
    """
    low, high = (batch, needs(batch)), (batch, needs(batch))
    while high[1] <= capacity_bytes and high[0] < MAX_BATCH:
        size = min(high[0] * _GROWTH, MAX_BATCH)
        low, high = high, (size, needs(size))
    while low[1] > capacity_bytes and low[0] > 1:
        size = max(low[0] // _GROWTH, 1)
        low, high = (size, needs(size)), low
    for _ in range(_REFINEMENTS):
        if high[0] - low[0] < 2 or not low[1] <= capacity_bytes < high[1]:
            break
        size = low[0] + int((capacity_bytes - low[1]) / (high[1] - low[1]) * (high[0] - low[0]))
        size = min(max(size, low[0] + 1), high[0] - 1)
        there = (size, needs(size))
        low, high = (there, high) if there[1] <= capacity_bytes else (low, there)
    return low[0]


def largest(fits: Callable[[int], bool], guess: int) -> int:
    """Return the largest batch that fits: it fits, and the next one does not; 0 if a batch of 1 does not fit.

    Args:
        fits: Runs the program with a batch.
        guess: The batch to try first; a close guess saves runs.
    """
    known: dict[int, bool] = {0: True}

    def check(batch: int) -> bool:
        if batch not in known:
            known[batch] = fits(batch)
        return known[batch]

    guess = min(max(guess, 1), MAX_BATCH)
    step = 1
    low = high = guess
    if check(guess):
        while check(high) and high < MAX_BATCH:
            low, high, step = high, min(high + step, MAX_BATCH), step * 2
        if check(high):
            return high
    else:
        while low > 0 and not check(low):
            low, high, step = max(low - step, 0), low, step * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if check(middle) else (low, middle)
    return low


def largest_beyond(fits: Callable[[int], bool], may_fit: Callable[[int], bool], found: int) -> int:
    """The largest batch that fits, where larger ones may fit again: of two batches, the larger may be less fragmented.

    Args:
        fits: Runs the program with a batch.
        may_fit: Whether the tensors of a batch are small enough; a batch for which it is False does not fit.
        found: A batch that fits, and whose next one does not.
    """
    while True:
        top = found
        while top - found < _MOST_BEYOND and may_fit(top + 1):
            top += 1
        better = next((size for size in range(top, found, -1) if fits(size)), found)
        if better == found:
            return found
        found = largest(fits, better)
