"""Run a program once on a virtual device without values, and measure its memory and time."""

from __future__ import annotations

import gc
import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.nn.modules.module import register_module_forward_pre_hook, register_module_module_registration_hook
from torch.optim import optimizer as optimizers
from torch.utils.checkpoint import checkpoint

from cudalens.device.stacks import file_label
from cudalens.gpus.registry import DeviceSpec
from cudalens.virtual.context import device
from cudalens.virtual.dispatch.mode import DispatchMode
from cudalens.virtual.patching import Patches
from cudalens.virtual.shapes.reading import Defaults
from cudalens.virtual.tensors.residency import residence_of
from cudalens.virtual.torch_cuda.stacks import is_library

if TYPE_CHECKING:
    from types import FrameType

    from cudalens.virtual.allocator.conf import Action
    from cudalens.virtual.gpus import Gpus


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
        defaults: What it reads for unknown values.

    Attributes:
        takes_batch: Whether it takes a batch size.
    """

    def __init__(self, step: Callable[..., Any], defaults: Defaults) -> None:
        self._step, self._defaults = step, defaults
        self.takes_batch = bool(inspect.signature(step).parameters)

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
            on = device(spec, values=False)
            on.defaults = self._defaults
            with on:
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
def quick_collections() -> Iterator[Callable[[], None]]:
    """Exclude the objects of the program so far from garbage collections, of which each run makes one.

    The first operator without values imports ``torch._dynamo``, whose objects are a large part of them. The function
    that is yielded also excludes what was made since, such as the record of a run; call it after a collection.
    """
    if gc.get_freeze_count():  # the program has frozen objects itself
        yield lambda: None
        return
    importlib.import_module("torch._dynamo")
    gc.collect()
    gc.freeze()
    try:
        yield gc.freeze
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
        while top < min(found + _MOST_BEYOND, MAX_BATCH) and may_fit(top + 1):
            top += 1
        better = next((size for size in range(top, found, -1) if fits(size)), found)
        if better == found:
            return found
        found = largest(fits, better)


# Record what a device's memory holds at its peak, by category, and the line and operator that reach the peak.

#: What a byte at the peak is. Activations are all results of a forward pass, recomputed ones included, and inputs;
#: temporary is what a backward pass or an optimizer makes for itself, and the workspaces of libraries.
CATEGORIES: Final = ("parameters", "gradients", "optimizer", "activations", "temporary")

_EXECUTE: Final = DispatchMode._execute.__code__


class Usage:
    """The memory of one device while a program runs.

    Args:
        gpus: The virtual GPUs; the first is observed.

    Attributes:
        peak_bytes: The most bytes in use at a time.
        line: The user's line at that time: ``train.py:12``; "" if nothing was allocated.
        operator: The operator that allocated then: ``aten::mm``; "" for a workspace.
    """

    def __init__(self, gpus: Gpus) -> None:
        self._gpus, self._allocator = gpus, gpus.devices[0].allocator
        self.peak_bytes, self.line, self.operator = 0, "", ""
        self._now_bytes = 0
        self._live: dict[int, int] = {}
        self._events: list[tuple[int, int]] = []  # the number of an allocation, its bytes; negative where it ends
        self._kinds: list[str] = []
        self._in_optimizer = False

    @contextmanager
    def observed(self) -> Iterator[Usage]:
        """Observe a block."""
        listeners = self._allocator.listeners
        handles = [
            optimizers.register_optimizer_step_pre_hook(self._before_step),
            optimizers.register_optimizer_step_post_hook(self._after_step),
            register_module_forward_pre_hook(self._before_forward),
        ]
        listeners.append(self._record)
        try:
            yield self
        finally:
            listeners.remove(self._record)
            for handle in handles:
                handle.remove()
            self._mark(self._gpus.workspaces.addresses, "temporary")

    def by_category(self) -> dict[str, int]:
        """Bytes at the peak, by `CATEGORIES`."""
        now = 0
        held: dict[int, int] = {}
        at_peak: dict[int, int] = {}
        for number, num_bytes in self._events:
            now += num_bytes
            if num_bytes < 0:
                held.pop(number, None)
                continue
            held[number] = num_bytes
            if now == self.peak_bytes and not at_peak:
                at_peak = dict(held)
        found = dict.fromkeys(CATEGORIES, 0)
        for number, num_bytes in at_peak.items():
            found[self._kinds[number]] += num_bytes
        return found

    def _record(self, action: Action) -> None:
        if action.kind == "alloc":
            self._live[action.address] = len(self._kinds)
            self._events.append((len(self._kinds), action.block_bytes))
            self._kinds.append(self._kind())
            self._now_bytes += action.block_bytes
            if self._now_bytes > self.peak_bytes:
                self.peak_bytes = self._now_bytes
                self.line, self.operator = _position()
        elif action.kind == "free_completed" and action.address in self._live:
            self._events.append((self._live.pop(action.address), -action.block_bytes))
            self._now_bytes -= action.block_bytes

    def _kind(self) -> str:
        in_backward = torch._C._current_graph_task_id() != -1 and not torch.is_grad_enabled()
        return "temporary" if in_backward or self._in_optimizer else "activations"

    def _mark(self, addresses: Iterable[int], category: str) -> None:
        for address in addresses:
            number = self._live.get(address)
            if number is not None:
                self._kinds[number] = category

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._in_optimizer = True
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self._mark(_addresses(parameters), "parameters")
        self._mark(_addresses(p.grad for p in parameters), "gradients")

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._in_optimizer = False
        states = (value for state in optimizer.state.values() for value in state.values())
        self._mark(_addresses(states), "optimizer")

    def _before_forward(self, module: torch.nn.Module, args: Any) -> None:
        self._mark(_addresses(module._parameters.values()), "parameters")
        self._mark(_addresses(module._buffers.values()), "parameters")


def _addresses(values: Iterable[Any]) -> Iterator[int]:
    for value in values:
        residence = residence_of(value) if isinstance(value, torch.Tensor) else None
        if residence is not None:
            yield residence.address


def _position() -> tuple[str, str]:
    """Return the user's line and the operator of the current allocation."""
    operator, frame = "", sys._getframe(2)
    found: FrameType | None = frame
    while found is not None and is_library(found.f_code.co_filename):
        if found.f_code is _EXECUTE and not operator:
            operator = str(found.f_locals["func"]._schema.name)
        found = found.f_back
    return (f"{file_label(found.f_code.co_filename)}:{found.f_lineno}" if found is not None else ""), operator


# Changes that save memory, applied to a program while it runs: checkpoints, bfloat16, other optimizers.

_FUSED: Final = (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad)
_ADAMS: Final = (torch.optim.Adam, torch.optim.AdamW)

#: 8-bit optimizers keep one scale (float32) for so many elements, and small tensors in 32 bits (bitsandbytes 0.43).
_BLOCK_ELEMENTS: Final = 256
_LEAST_8BIT_ELEMENTS: Final = 4096


@contextmanager
def checkpoints() -> Iterator[None]:
    """Recompute the modules of lists and sequences that have modules of their own (blocks) in the backward pass."""
    with _patches() as patches:
        blocks: set[int] = set()

        def registered(parent: torch.nn.Module, name: str, child: Any) -> None:
            if isinstance(parent, torch.nn.ModuleList | torch.nn.Sequential) and len(list(child.children())) > 1:
                blocks.add(id(child))

        call: Any = torch.nn.Module.__call__

        def call_block(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            if id(self) not in blocks or not self.training or not torch.is_grad_enabled():
                return call(self, *args, **kwargs)
            return checkpoint(call, self, *args, use_reentrant=False, **kwargs)

        patches.on_restore(register_module_module_registration_hook(registered).remove)
        patches.set(torch.nn.Module, "__call__", call_block)
        yield


@contextmanager
def bfloat16() -> Iterator[None]:
    """Make parameters, gradients, states and activations in bfloat16."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def autocast() -> Iterator[None]:
    """Compute products and attention in bfloat16; parameters stay as they are."""
    with torch.autocast("cuda", torch.bfloat16):
        yield


@contextmanager
def fused_optimizer() -> Iterator[None]:
    """Update all parameters in one kernel without temporary tensors."""

    def with_fused(original: Callable[..., None]) -> Callable[..., None]:
        def make(self: Any, *args: Any, **kwargs: Any) -> None:
            kwargs.pop("foreach", None)
            original(self, *args, **{**kwargs, "fused": True})

        return make

    with _patches() as patches:
        for kind in _FUSED:
            patches.set(kind, "__init__", with_fused(vars(kind)["__init__"]))
        yield


@contextmanager
def optimizer_8bit() -> Iterator[None]:
    """Keep both moments of Adam and AdamW in 8 bits, as bitsandbytes does; the update is one kernel per tensor."""
    with _patches() as patches:
        for kind in _ADAMS:
            patches.set(kind, "step", torch.optim.Optimizer.profile_hook_step(_step_8bit))
        yield


@torch.no_grad()
def _step_8bit(self: torch.optim.Optimizer, closure: Any = None) -> None:
    """Allocate the states of an 8-bit optimizer, and write the parameters."""
    for group in self.param_groups:
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            state = self.state[parameter]
            if not state:
                state.update(_moments(parameter))
            parameter.add_(parameter.grad.to(parameter.dtype))


def _moments(parameter: torch.Tensor) -> dict[str, torch.Tensor]:
    num = parameter.numel()
    if num < _LEAST_8BIT_ELEMENTS:
        return {name: torch.zeros_like(parameter, dtype=torch.float32) for name in ("state1", "state2")}
    scales = (-(-num // _BLOCK_ELEMENTS),)
    moments = {name: torch.zeros_like(parameter, dtype=torch.uint8) for name in ("state1", "state2")}
    return moments | {name: parameter.new_zeros(scales, dtype=torch.float32) for name in ("absmax1", "absmax2")}


@contextmanager
def combined(changes: Iterable[Callable[[], AbstractContextManager[None]]]) -> Iterator[None]:
    """Several changes at once."""
    with ExitStack() as stack:
        for change in changes:
            stack.enter_context(change())
        yield


@contextmanager
def _patches() -> Iterator[Patches]:
    patches = Patches()
    try:
        yield patches
    finally:
        patches.restore()


#: What to change, in words, and how.
CHANGES: Final[dict[str, Callable[[], AbstractContextManager[None]]]] = {
    "checkpoint the blocks": checkpoints,
    "fused optimizer": fused_optimizer,
    "8-bit Adam": optimizer_8bit,
    "autocast to bfloat16": autocast,
    "all in bfloat16": bfloat16,
}
