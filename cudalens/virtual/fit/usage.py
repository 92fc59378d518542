"""Record what a device's memory holds at its peak, by category, and the line and operator that reach the peak."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim import optimizer as optimizers

from cudalens.virtual.dispatch.mode import DispatchMode
from cudalens.virtual.tensors.residency import residence_of
from cudalens.virtual.torch_cuda.stacks import is_library

if TYPE_CHECKING:
    from types import FrameType

    from cudalens.virtual.allocator.interfaces import Action
    from cudalens.virtual.gpus import Gpus

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
    return (f"{found.f_code.co_filename}:{found.f_lineno}" if found is not None else ""), operator
