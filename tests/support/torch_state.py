"""The attributes of torch that a collector or a device might patch, and what has changed of them."""

from __future__ import annotations

import signal
import sys
import threading
import types

import torch
import torch.distributed
from torch.utils import _python_dispatch

_PACKAGES = (
    "torch",
    "torch.cuda",
    "torch.autograd",
    "torch.amp",
    "torch.utils",
    "torch.accelerator",
    "torch.distributed",
)
_CLASSES = [
    torch.Tensor,
    torch.UntypedStorage,
    torch.TypedStorage,
    torch.nn.Parameter,
    torch.nn.Module,
    torch.cuda.Stream,
    torch.cuda.Event,
    torch.cuda.CUDAGraph,
    torch.optim.Optimizer,
    threading.Thread,
]

State = dict[tuple[str, str], object]


def _is_watched(name: str) -> bool:
    head, _, rest = name.partition(".")
    return (
        name in _PACKAGES
        or name.startswith(("torch.cuda.", "torch.amp.", "torch.backends.", "torch.autograd."))
        or (
            head in ("torch", "threading")
            and rest in ("", "_C", "random", "serialization", "_tensor", "storage", "version")
        )
    )


def state() -> State:
    """Every attribute that a device might touch, by identity, and torch's own switches."""
    owners: dict[str, object] = {name: module for name, module in sys.modules.items() if module and _is_watched(name)}
    owners |= {f"class {kind.__qualname__}": kind for kind in _CLASSES}
    held: State = {}
    for owner_name, owner in owners.items():
        for name, value in vars(owner).items():
            if name not in ("__warningregistry__", "reduce_op") and not isinstance(value, types.ModuleType):
                held[owner_name, name] = value
    held["sys", "meta_path"] = tuple(sys.meta_path)
    held["torch", "function modes"] = torch._C._len_torch_function_stack()
    held["torch", "dispatch modes"] = torch._C._len_torch_dispatch_stack()
    held["torch", "in a mode"] = _python_dispatch._is_in_torch_dispatch_mode
    held["torch", "default device"] = torch.get_default_device()
    held["torch", "autocast key"] = torch._C._dispatch_tls_is_dispatch_key_included(torch._C.DispatchKey.AutocastCUDA)
    held["signal", "interrupt"] = signal.getsignal(signal.SIGINT)
    return held


def changes(before: State, after: State) -> list[str]:
    """The differences by name. Newly imported modules are not differences."""
    known = {owner for owner, _ in before}
    missing = object()
    return sorted(
        f"{owner}.{name}"
        for owner, name in before.keys() | after.keys()
        if owner in known and not _same(before.get((owner, name), missing), after.get((owner, name), missing))
    )


def _same(first: object, second: object) -> bool:
    return first is second or (type(first) in (int, bool, tuple, str, torch.device) and first == second)
