"""Changes that save memory, applied to a program while it runs: checkpoints, bfloat16, other optimizers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Final

import torch
from torch.nn.modules.module import register_module_module_registration_hook
from torch.utils.checkpoint import checkpoint

from cudalens.virtual.patching import Patches

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
    with _patches() as patches:
        for kind in _FUSED:
            patches.set(kind, "__init__", _with_fused(vars(kind)["__init__"]))
        yield


def _with_fused(original: Callable[..., None]) -> Callable[..., None]:
    def make(self: Any, *args: Any, **kwargs: Any) -> None:
        kwargs.pop("foreach", None)
        original(self, *args, **{**kwargs, "fused": True})

    return make


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
